"""Judge what participants were promised, from what they said and were told.

A crashed site is held to the site views that it survived, as for total order: what it did in its last one may be known
to no other site. Judged are, from the notes of all sites (scenario/participants/traffic.py) and which of them were up
at the end:

- views: number k of a group has the same members everywhere; a site is told of consecutive numbers while it hosts;
- synchrony: sites that host members of view k and install k+1, or are up at the end, deliver the same messages in k;
  over a total order in the same order;
- each participant's messages come once, from a member, to a site that hosts members; in the order said, where the
  stack keeps each sender's order;
- nothing is lost: what was said at a site that is up is delivered there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from isthmus.core.message import SiteId
from isthmus.protocols.participants.wire import Participant, ParticipantView, Speech
from isthmus.scenario.participants.model import LABEL_BYTES
from isthmus.scenario.participants.traffic import Note, Utterance

Life = tuple[SiteId, int]  # a site and its incarnation
Spoken = tuple[Participant, bytes]
Told = dict[int, list[Spoken]]  # by view number, the messages delivered in it, in order


class History:
    """What participants said and were told, by group and by life of a site."""

    def __init__(self, notes: list[Note], up: Iterable[Life]) -> None:
        self.up = {*up}  # at the end
        last: dict[Life, int] = {}  # the last site view in which something happened to participants
        for note in notes:
            last[note.site, note.incarnation] = max(last.get((note.site, note.incarnation), 0), note.view_id)
        self.views: dict[str, dict[int, tuple[Participant, ...]]] = defaultdict(dict)
        self.told: dict[tuple[str, Life], Told] = {}
        self.said: dict[tuple[str, Life], list[Spoken]] = defaultdict(list)
        self.heard: dict[tuple[str, Life], list[Spoken]] = defaultdict(list)
        self.found: list[str] = []
        for note in notes:
            life = (note.site, note.incarnation)
            if life in self.up or note.view_id < last[life]:  # of a crashed site, not its last site view
                self.take(life, note)

    def take(self, life: Life, note: Note) -> None:
        what = note.what
        group = f"{what.group} since site view {note.era}"  # where nobody keeps the state, numbers begin anew
        if isinstance(what, Utterance):
            self.said[group, life].append((what.sender, what.payload))
        elif isinstance(what, ParticipantView):
            self.take_view(group, life, what)
        else:
            self.take_speech(group, life, what)

    def take_view(self, group: str, life: Life, view: ParticipantView) -> None:
        known = self.views[group].setdefault(view.number, view.members)
        if known != view.members:
            self.found.append(f"view {view.number} of {group} has two memberships: {known} and {view.members}")
        told = self.told.setdefault((group, life), {})
        if told:
            last = max(told)
            hosted = any(member.site == life[0] for member in self.views[group][last])
            if view.number <= last or (hosted and view.number != last + 1):
                self.found.append(f"site {life} goes from view {last} of {group} to {view.number}")
        told[view.number] = []

    def take_speech(self, group: str, life: Life, speech: Speech) -> None:
        told = self.told.get((group, life), {})
        number = max(told, default=0)
        members = self.views[group].get(number, ())
        if number != speech.view_number or all(member.site != life[0] for member in members):
            self.found.append(f"site {life} hears {speech.sender} in view {number} of {group}, as no host")
            return
        if speech.sender not in members:
            self.found.append(f"site {life} hears {speech.sender}, no member of view {number} of {group}")
        told[number].append((speech.sender, speech.payload))
        self.heard[group, life].append((speech.sender, speech.payload))

    def violations(self, promised: tuple[str, ...]) -> list[str]:
        """What is wrong, given what the stack below promises."""
        self.check_synchrony("total" in promised)
        self.check_senders("fifo" in promised)
        self.check_losses()
        return self.found

    def check_synchrony(self, total: bool) -> None:
        """All hosts of a view that closed it, or are up at the end, heard the same in it."""
        heard: dict[tuple[str, int], tuple[Life, list[Spoken]]] = {}
        for (group, life), told in self.told.items():
            for number, messages in told.items():
                hosted = any(member.site == life[0] for member in self.views[group][number])
                if not hosted or not (number + 1 in told or life in self.up):
                    continue
                mine = messages if total else sorted(messages)
                other, theirs = heard.setdefault((group, number), (life, mine))
                if mine != theirs:
                    self.found.append(
                        f"sites {other} and {life} heard {len(theirs)} and {len(mine)} messages in view {number} "
                        f"of {group}, not the same"
                    )

    def check_senders(self, fifo: bool) -> None:
        """Each sender's messages come once, and in order where the stack keeps it."""
        for (group, life), spoken in self.heard.items():
            if len({*spoken}) < len(spoken):
                self.found.append(f"site {life} hears a message of {group} twice")
            last: dict[tuple[Participant, int], int] = {}
            for sender, payload in spoken:
                incarnation, number = map(int, payload[:LABEL_BYTES].split(b"."))
                if fifo and number <= last.get((sender, incarnation), 0):
                    self.found.append(f"site {life} hears {sender} of {group} out of order: {number}")
                last[sender, incarnation] = number

    def check_losses(self) -> None:
        """What was said at a site that is up is delivered there."""
        for (group, life), spoken in self.said.items():
            if life in self.up:
                back = {*self.heard.get((group, life), [])}
                lost = [one for one in spoken if one not in back]
                if lost:
                    self.found.append(f"{len(lost)} messages of site {life} to {group} are lost")
