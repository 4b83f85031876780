"""The order in which a ring's token visits the members, some of them twice: pure arithmetic.

A member that carries what others wait for, as a router does, may be visited twice in a rotation, half a rotation apart:
what it forwards then waits for half as long. The order is a function of the view.
"""

from __future__ import annotations

from isthmus.core.message import Targets


def round_of(members: Targets, twice: Targets) -> Targets:
    """The members as the token visits them in one rotation: some have a second place, half a rotation on."""
    seconds = [site for site in members if site in twice]
    half = len(members) // 2
    if not seconds or len(members) < 3:
        return members
    made = list(members)
    for site in reversed(seconds):
        made.insert((members.index(site) + half) % len(members) + 1, site)
    return tuple(made) if made[0] == members[0] else members
