"""Quorums of views, and the weights of their members: pure arithmetic. core/votes.py says what a quorum is."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from isthmus.core.layer import Life, View
from isthmus.core.message import SiteId
from isthmus.core.votes import is_quorum


def weights_of(view: View) -> tuple[int, ...]:
    return view.weights or (1,) * len(view.members)


def weight(view: View, life: Life) -> int:
    """The votes of a life in a view; 0 where it is not in it."""
    return dict(zip(view.lives(), weights_of(view), strict=True)).get(life, 0)


def quorum(view: View, lives: Collection[Life]) -> bool:
    """Whether some lives decide for a view."""
    return is_quorum(view.lives(), weights_of(view), lives)


def assigned_weights(
    members: Sequence[Life], stateful: Collection[Life], configured: Mapping[SiteId, int]
) -> tuple[int, ...]:
    """The weights of a new view: members that have the state as configured, the rest as long as these stay a quorum.

    If a quorum needed a member without the state, the group could come to a standstill with no member left that can
    send it the state. It gets its weight in a later view, once it has the state. Where only sites of weight 0 have the
    state, the first of them counts 1: otherwise no quorum would be possible.
    """
    weights = [configured.get(life[0], 1) if life in stateful else 0 for life in members]
    if not any(weights):
        weights = [int(life == next((one for one in members if one in stateful), None)) for life in members]
    for place, life in enumerate(members):
        if life not in stateful:
            weights[place] = configured.get(life[0], 1)
            if not is_quorum(members, weights, stateful):
                weights[place] = 0
    return tuple(weights)
