"""Half of what recomputed routes need, planted to see that the other half alone is found wanting."""

from __future__ import annotations

from typing import Any

import pytest

from isthmus.protocols.routing.distances import DistanceTable
from isthmus.protocols.routing.router import SteeringPort
from isthmus.protocols.routing.routes import RecomputedRoutes

BEGUN_NS = 100_000_000  # by then routers know the first ways; crashes for good come later


def nothing(*_: object) -> None:
    """Forget nothing."""


def no_flush(patch: pytest.MonkeyPatch) -> None:
    """What was under way on the old way is left to itself: neither sent again, nor waited for."""
    no_sending_again(patch)
    no_holding(patch)


def no_sending_again(patch: pytest.MonkeyPatch) -> None:
    """What was under way is not sent again."""
    send_again = SteeringPort.send_again

    def at_first(self: SteeringPort, *given: Any) -> None:
        if self.host.now_ns < BEGUN_NS:
            send_again(self, *given)

    patch.setattr(SteeringPort, "send_again", at_first)


def no_holding(patch: pytest.MonkeyPatch) -> None:
    """What comes is taken, whatever is missing before it."""
    patch.setattr(RecomputedRoutes, "in_order", lambda *_: False)


def routers_never_forgotten(patch: pytest.MonkeyPatch) -> None:
    """Distances of routers that are gone still count."""
    patch.setattr(DistanceTable, "keep_only", nothing)


PLANTED = {
    "a new way without the flush": no_flush,
    "a new way without sending again": no_sending_again,
    "a new way without holding": no_holding,
    "routers that are gone count": routers_never_forgotten,
}
