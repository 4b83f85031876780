"""Who is in the next view: pure functions over what members promised and joiners asked for.

Those go on that reported, are not suspected and do not leave. Where two of them suspect each other, either way, one
must go: the one with most conflicts, the junior first, never the coordinator. One member's suspicion is thus enough to
part two, but not to throw out a member that all others reach. A site joins only if everybody who goes on has heard of
it and it of them, so that the new view is connected both ways.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec

from isthmus.core.layer import Life, View
from isthmus.core.message import SiteId
from isthmus.protocols.membership.quorum import assigned_weights, quorum


class Reporter(msgspec.Struct, frozen=True):
    """What a member said with its promise that matters for the choice."""

    life: Life
    suspects: tuple[SiteId, ...]
    stateful: bool
    leaving: bool


class Joiner(msgspec.Struct, frozen=True):
    """A life that asks to be let in, and who has answered it."""

    life: Life
    answered: tuple[Life, ...]


def reconciled(members: Sequence[Reporter], me: Life) -> list[Reporter]:
    """The members without those that somebody who stays suspects, or that suspect somebody who stays."""
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
    view: View, reporters: Sequence[Reporter], voters: Collection[Life], suspected: Collection[Life], me: Life
) -> list[Reporter] | None:
    """The reporters, by seniority, that go on into the next view; None where they may not, or not yet.

    `voters` are lives that vote by the file alone: they count, but do not stay.
    """
    heard = [reporter for reporter in reporters if reporter.life not in suspected]
    leavers = [reporter for reporter in heard if reporter.leaving]
    found = reconciled([reporter for reporter in heard if not reporter.leaving], me)
    if not any(reporter.stateful for reporter in found):  # all who have the state leave: the eldest of them goes last
        present = reconciled(heard, me)
        last = next((reporter for reporter in present if reporter.stateful), None)
        found = [reporter for reporter in present if reporter is last or not reporter.leaving]
        leavers = [reporter for reporter in present if reporter not in found]
    counted = {reporter.life for reporter in (*found, *leavers)} | set(voters)
    if not quorum(view, counted) or not any(reporter.stateful for reporter in found):
        return None
    return found


def admitted(joiners: Sequence[Joiner], stay: Collection[Life], last: Mapping[SiteId, int]) -> list[Life]:
    """The joiners that everybody who goes on, and every joiner before, has answered; one life of a site."""
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


def next_view(
    view: View, stay: Sequence[Life], joining: Sequence[Life], stateful: Collection[Life], weights: Mapping[SiteId, int]
) -> View:
    """The view of those who stay and those who join."""
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
