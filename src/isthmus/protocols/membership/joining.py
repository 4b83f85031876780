"""Requests to join: who has asked lately, and who has answered.

A request is answered by everybody who hears it, and names those whose answers its author has heard lately. So a
coordinator knows of a joiner to whom it is connected both ways: a view with a member that hears, but is not heard,
would close at once.

Answers count for some round trips. Where many packets are lost, not all members answer within so few requests: one that
has asked for long counts the answers of a part of that time.
"""

from __future__ import annotations

from isthmus.core.layer import Life
from isthmus.core.message import SiteId
from isthmus.protocols.membership.choice import Joiner
from isthmus.protocols.membership.wire import Join, JoinAck

PART = 4  # of the time that we have asked, in which answers count, if that is longer
LONGEST = 32  # times the usual one


class Requests:
    """Requests of others, and the answers to our own, as of late."""

    __slots__ = ("answers", "asking_ns", "fresh_ns", "heard")

    def __init__(self, fresh_ns: int) -> None:
        self.fresh_ns = fresh_ns
        self.heard: dict[SiteId, tuple[int, Join]] = {}  # when, and what it said; the latest of each site
        self.answers: dict[Life, int] = {}  # who answered a request of ours, and when that was made
        self.asking_ns: int | None = None  # since when we ask

    def note(self, source: SiteId, word: Join, now_ns: int) -> None:
        before = self.heard.get(source)
        if before is None or (word.incarnation, word.asked_ns) > (before[1].incarnation, before[1].asked_ns):
            self.heard[source] = (now_ns, word)

    def note_answer(self, source: SiteId, word: JoinAck) -> None:
        life = (source, word.incarnation)
        for earlier in [one for one in self.answers if one[0] == source and one[1] < word.incarnation]:
            del self.answers[earlier]
        self.answers[life] = max(word.asked_ns, self.answers.get(life, word.asked_ns))

    def answered(self, now_ns: int) -> tuple[Life, ...]:
        """Those who have answered a request of ours that is not old; one is made now."""
        if self.asking_ns is None:
            self.asking_ns = now_ns
        count_ns = max(self.fresh_ns, min((now_ns - self.asking_ns) // PART, LONGEST * self.fresh_ns))
        return tuple([life for life, asked_ns in self.answers.items() if now_ns - asked_ns < count_ns])

    def joiners(self, now_ns: int) -> list[Joiner]:
        """Those who have asked lately, in the order of their sites."""
        return [
            Joiner((site, word.incarnation), word.answered)
            for site, (at_ns, word) in sorted(self.heard.items())
            if now_ns - at_ns < self.fresh_ns
        ]

    def forget(self, lives: tuple[Life, ...]) -> None:
        """Drop the requests of those who have been let in."""
        for site, incarnation in lives:
            found = self.heard.get(site)
            if found is not None and found[1].incarnation <= incarnation:
                del self.heard[site]
