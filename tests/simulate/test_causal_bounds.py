"""Tiny bounds of extended histories: they hold, nothing is lost or out of order, and the run comes to rest."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from isthmus.core.layer import Host, Stack
from isthmus.core.message import Cast
from isthmus.fuzz.judge import judge
from isthmus.protocols.application import Application
from isthmus.protocols.causal.histories.history import Timestamp
from isthmus.protocols.causal.histories.history_order import HISTORY_WIDTHS, HistoryOrder
from isthmus.protocols.causal.histories.relayed_order import RelayedOrder
from isthmus.protocols.causal.options import CausalPolicy
from isthmus.protocols.causal.order import CausalArrival, CausalMessage
from isthmus.protocols.transport.credit import Credit, CreditOptions
from isthmus.scenario.model import Scenario, StackSpec
from isthmus.scenario.workload import Poisson, Reply
from isthmus.stacks.registry import StackOptions, bottom
from isthmus.topology.delay import Gamma
from isthmus.topology.model import Channel
from isthmus.topology.shapes import shape

LAN = Channel(Gamma(1.5, 1.0, 0.5), fifo=False)
WAN = Channel(Gamma(60.0, 50.0**2, 20.0), fifo=False)
WINDOW = 16
MEMBERS = 9
TINY = {"entries_max": 4, "history_max": 4, "hold_max": 4, "keep_max": 4}
LEAKY = {"extended": False, "symmetric": False, "forgetting": False, "separators": False}  # what makes most entries


class Watched:
    """What a layer has had at most."""

    __slots__ = ()
    most: dict[str, int]

    def saw(self, name: str, size: int) -> None:
        self.most[name] = max(size, self.most.get(name, 0))

    def stamped(self, cast: Cast, count: int, timestamp: Timestamp) -> CausalMessage[Any]:
        self.saw("entries", len(timestamp))
        return super().stamped(cast, count, timestamp)  # type: ignore[misc,no-any-return]

    def note(self, item: CausalArrival) -> None:
        super().note(item)  # type: ignore[misc]
        self.saw("history", len(self.history.told))  # type: ignore[attr-defined]
        self.saw("waiting", self.waiting_count)  # type: ignore[attr-defined]


@pytest.mark.parametrize("rules", [{}, LEAKY], ids=["all rules", "leaky rules"])
@pytest.mark.parametrize(
    ("kind", "gated"), [(HistoryOrder, False), (RelayedOrder, False), (RelayedOrder, True)], ids=str
)
def test_tiny_bounds_hold(kind: type[HistoryOrder], gated: bool, rules: dict[str, bool]) -> None:
    most: dict[str, int] = {}
    watched = type("WatchedOrder", (Watched, kind), {"__slots__": (), "most": most})

    def build(host: Host, application: Application, options: StackOptions) -> Stack:
        order = watched(msgspec.structs.replace(options.causal, gated=gated))
        return Stack(host, application, Credit(options.credit), order, *bottom(options, fifo=False))

    name = "causal-history" if kind is HistoryOrder else "causal-separators"
    policy = CausalPolicy(**TINY, **rules)  # type: ignore[arg-type]
    scenario = Scenario(
        name="bounds",
        topology=shape("lan-ring", 3, 1, LAN, WAN),
        stack=StackSpec(name=name, transport="direct", causal=policy, credit=CreditOptions(window=WINDOW)),
        workloads=(Poisson(rate_per_s=40, to=2), Reply(probability=0.4, depth=3, to=2)),
        duration_ms=1_500,
    )
    assert judge(scenario, build).failures() == []
    bound = HISTORY_WIDTHS * MEMBERS
    assert most["entries"] <= 2 * bound  # an empty message tells what one timestamp has added to a full history, too
    assert most["history"] <= bound
    assert most["waiting"] <= WINDOW * MEMBERS
