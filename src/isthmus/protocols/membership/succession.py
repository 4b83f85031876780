"""The members of the next view: known lives, requests to join, and pure functions over the members' promises.

A member stays if it reported, is not suspected and does not leave. Of two that suspect each other, either way, one must
go: the one with most conflicts, the junior first, never the coordinator. One member's suspicion is thus enough to
separate two, but not to exclude a member that all others reach.

Every site that receives a request to join answers it, and each request names the answers that its author has received
lately. A site joins only if all that stay have answered it, so that the new view is connected both ways: a view with a
member that hears, but is not heard, would close at once. Answers count for some round trips. Where many packets are
lost, not all members answer within so few requests: a site that has been asking for long counts answers for a fraction
of that time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from isthmus.core.layer import Life, View
from isthmus.core.message import SiteId
from isthmus.protocols.membership.quorum import assigned_weights, quorum
from isthmus.protocols.membership.wire import Join, JoinAck, Promise

PART = 4  # of the time spent asking, during which answers count, if that is longer than usual
LONGEST = 32  # times the usual one
UNKNOWN = -1  # as the highest life of a site
LEAP_MAX = 1 << 32  # a number this far above the known one is not believed from one site


class Reporter(msgspec.Struct, frozen=True):
    """The parts of a member's promise that decide whether it stays."""

    life: Life
    suspects: tuple[SiteId, ...]
    stateful: bool
    leaving: bool


class Joiner(msgspec.Struct, frozen=True):
    """A life that asks to be admitted, and the lives that have answered it."""

    life: Life
    answered: tuple[Life, ...]


class JoinRequests:
    """Recent requests of other sites, and the answers to this site's own."""

    __slots__ = ("answers", "asking_ns", "fresh_ns", "heard")

    def __init__(self, fresh_ns: int) -> None:
        self.fresh_ns = fresh_ns
        self.heard: dict[SiteId, tuple[int, Join]] = {}  # the latest of each site, and when it came
        self.answers: dict[Life, int] = {}  # by author: when the request that it answers was made
        self.asking_ns: int | None = None  # when this site first asked

    def note(self, source: SiteId, request: Join, now_ns: int) -> None:
        before = self.heard.get(source)
        if before is None or (request.incarnation, request.asked_ns) > (before[1].incarnation, before[1].asked_ns):
            self.heard[source] = (now_ns, request)

    def note_answer(self, source: SiteId, answer: JoinAck) -> None:
        life = (source, answer.incarnation)
        for earlier in [one for one in self.answers if one[0] == source and one[1] < answer.incarnation]:
            del self.answers[earlier]
        self.answers[life] = max(answer.asked_ns, self.answers.get(life, answer.asked_ns))

    def answered(self, now_ns: int) -> tuple[Life, ...]:
        """The lives that have answered a recent request; the caller makes one now."""
        if self.asking_ns is None:
            self.asking_ns = now_ns
        count_ns = max(self.fresh_ns, min((now_ns - self.asking_ns) // PART, LONGEST * self.fresh_ns))
        return tuple([life for life, asked_ns in self.answers.items() if now_ns - asked_ns < count_ns])

    def joiners(self, now_ns: int) -> list[Joiner]:
        """The authors of recent requests, in the order of their sites."""
        return [
            Joiner((site, request.incarnation), request.answered)
            for site, (at_ns, request) in sorted(self.heard.items())
            if now_ns - at_ns < self.fresh_ns
        ]

    def forget(self, lives: tuple[Life, ...]) -> None:
        """Drop the requests of admitted lives."""
        for site, incarnation in lives:
            found = self.heard.get(site)
            if found is not None and found[1].incarnation <= incarnation:
                del self.heard[site]


class KnownLives:
    """The highest life of each site that has shown to be alive, and the challenges to others.

    A number in a packet proves nothing: a corrupted or forged one would lock the true site out. A site that claims a
    life above the known one is challenged, and the life counts once it has returned the nonce. Until then its words are
    dropped. The lives of a decided view have been proved to a quorum.
    """

    __slots__ = ("challenged", "highest", "nonces", "told")

    def __init__(self, own: Life) -> None:
        self.highest: dict[SiteId, int] = dict([own])
        self.nonces: dict[SiteId, int] = {}  # of the challenges that are open
        self.challenged: dict[SiteId, bool] = {}  # since the last tick
        self.told: dict[SiteId, int] = {}  # by other sites: the highest incarnation of this one that each knows

    def of(self, site: SiteId) -> int:
        return self.highest.get(site, UNKNOWN)

    def learn(self, lives: Iterable[Life]) -> None:
        for site, incarnation in lives:
            self.highest[site] = max(incarnation, self.of(site))

    def challenge(self, site: SiteId, nonce: int) -> int | None:
        """The nonce for a challenge to a site; None if it was challenged since the last tick."""
        if site in self.challenged:
            return None
        self.challenged[site] = True
        return self.nonces.setdefault(site, nonce)

    def note_proof(self, site: SiteId, incarnation: int, nonce: int) -> None:
        if self.nonces.get(site) == nonce:
            del self.nonces[site]
            self.learn([(site, incarnation)])

    def note_behind(self, source: SiteId, highest: int, own: int, weights: Mapping[SiteId, int]) -> int | None:
        """The incarnation that this site is to come back above; one far above its own is believed from a quorum only.

        `weights` are those of all sites that may be in the group but this one.
        """
        if highest - own <= LEAP_MAX:
            return highest
        self.told[source] = highest
        reached = 0
        for found, site in sorted([(found, site) for site, found in self.told.items()], reverse=True):
            reached += weights.get(site, 0)
            if 2 * reached > sum(weights.values()):
                return found
        return None


def reconciled(members: Sequence[Reporter], me: Life) -> list[Reporter]:
    """The members without any that suspects, or is suspected by, a member that stays."""
    left = list(members)
    while True:
        conflicts = [sum([apart(one, other) for other in left if other is not one]) for one in left]
        worst = max([(count, place) for place, count in enumerate(conflicts) if left[place].life != me], default=(0, 0))
        if not worst[0]:
            return left
        del left[worst[1]]


def apart(one: Reporter, other: Reporter) -> bool:
    return one.life[0] in other.suspects or other.life[0] in one.suspects


def staying(
    reporters: Sequence[Reporter], suspected: Collection[Life], me: Life
) -> tuple[list[Reporter], list[Reporter]]:
    """The reporters, by seniority, that stay for the next view, and those that leave."""
    heard = [reporter for reporter in reporters if reporter.life not in suspected]
    leavers = [reporter for reporter in heard if reporter.leaving]
    found = reconciled([reporter for reporter in heard if not reporter.leaving], me)
    if not any(reporter.stateful for reporter in found):  # all that have the state leave: the eldest stays for now
        present = reconciled(heard, me)
        last = next((reporter for reporter in present if reporter.stateful), None)
        found = [reporter for reporter in present if reporter is last or not reporter.leaving]
        leavers = [reporter for reporter in present if reporter not in found]
    return found, leavers


def may_go_on(
    view: View,
    stay: Sequence[Reporter],
    leavers: Sequence[Reporter],
    voters: Collection[Life],
    ended: Mapping[Life, Life],
    joining: Collection[Life],
) -> bool:
    """Whether those that stay are enough for a next view.

    `voters` are lives that vote by their file alone: they count, but do not stay. The seat of a life that ended counts
    where the life after it joins; `ended` has both.
    """
    counted = {reporter.life for reporter in (*stay, *leavers)} | set(voters)
    counted |= {seat for seat, life in ended.items() if life in joining}
    return quorum(view, counted) and any(reporter.stateful for reporter in stay)


def admitted(joiners: Sequence[Joiner], stay: Collection[Life], last: Mapping[SiteId, int]) -> list[Life]:
    """The joiners that every life that stays, and every joiner before, has answered; one life per site."""
    found: list[Life] = []
    sites = {life[0] for life in stay}
    for joiner in joiners:
        site, incarnation = joiner.life
        if site in sites or incarnation <= last.get(site, -1):
            continue
        if all(life in joiner.answered for life in (*sorted(stay), *found)):
            found.append(joiner.life)
            sites.add(site)
    return found


def restart_view(view: View, promises: Mapping[Life, Promise], me: Life, weights: Mapping[SiteId, int]) -> View | None:
    """The view of the lives that vote for the seats of a view; None where these are no quorum."""
    back = [life[0] for life, promise in promises.items() if promise.incarnation > life[1]]
    present = [  # a suspicion of a site that is back means its earlier life
        Reporter(
            (life[0], promise.incarnation),
            tuple([site for site in promise.suspects if site not in back]),
            stateful=False,
            leaving=promise.leaving,
        )
        for life, promise in promises.items()
    ]
    order = {site: place for place, site in enumerate(view.members)}
    present.sort(key=lambda one: order[one.life[0]])
    stay = [one.life for one in reconciled([one for one in present if not one.leaving], me)]
    sites = [life[0] for life in stay]
    if not quorum(view, [life for life in promises if life[0] in sites]):
        return None
    return next_view(view, stay, [], stay, weights)


def heir_of(view: View, promises: Mapping[Life, Promise], first: SiteId) -> SiteId:
    """The member of a restart view whose application's state counts for all.

    That is one of a process that lives, and, of several, of the one that most was delivered to; `first` before others.
    """
    by_site = {life[0]: promise for life, promise in promises.items()}

    def rank(site: SiteId) -> tuple[bool, bool, int, bool]:
        promise = by_site[site]
        runs = [run for one in promise.report or () for run in ((1, one.floor), *one.delivered)]
        delivered_count = sum([last - first + 1 for first, last in runs])
        return (promise.transfer.gives, promise.stateful, delivered_count, site == first)

    return max(view.members, key=rank)


def next_view(
    view: View, stay: Sequence[Life], joining: Sequence[Life], stateful: Collection[Life], weights: Mapping[SiteId, int]
) -> View:
    """The view of the lives that stay and those that join."""
    members = (*stay, *joining)
    last = dict(view.last)
    for site, incarnation in (*view.lives(), *members):
        last[site] = max(incarnation, last.get(site, -1))
    return View(
        view.view_id + 1,
        tuple([site for site, _ in members]),
        tuple([incarnation for _, incarnation in members]),
        assigned_weights(members, stateful, weights),
        tuple(sorted(last.items())),
    )
