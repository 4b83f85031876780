"""Ordered multicast for a WAN of LANs.

What a program needs is here, and stays here; the modules that it comes from may change.

    Group, Groups, GroupPlan, AgreedPlan   join groups from asyncio: send, receive in order, agree on who is in
    LiveRouter, RouterOptions       a router between groups of a composition, and how it and its processes route
    Delivered, Finality             a message as it is read, and whether its delivery is final; Cast as it is sent
    Refused, SendTimeout, Busy      what a member must be ready to catch
    load_topology, Topology         a network, from TOML
    load_scenario, Scenario         a network with stack, traffic and faults, from TOML
    simulate, Measured              one run of a scenario: latencies, cost and verdicts
    compare, Comparison             the same over several stacks, and which one to choose
    read_rows, Oracle, Verdict      a trace, and whether an order was kept
    InputError                      what is wrong with an input, in one sentence

Names are imported when they are first used, so that `import isthmus` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from isthmus.advise.compare.measure import Measured, simulate
    from isthmus.advise.compare.run import Comparison, compare
    from isthmus.core.errors import Busy, InputError
    from isthmus.core.layer import Finality
    from isthmus.core.message import Cast
    from isthmus.judge.oracle import Oracle, Verdict
    from isthmus.live.api.delivered import Delivered
    from isthmus.live.api.errors import Refused, SendTimeout
    from isthmus.live.api.group import Group
    from isthmus.live.api.groups import Groups
    from isthmus.live.api.plans import AgreedPlan, GroupPlan
    from isthmus.live.api.router import LiveRouter
    from isthmus.protocols.routing.options import RouterOptions
    from isthmus.scenario.load import load_scenario
    from isthmus.scenario.model import Scenario
    from isthmus.topology.load import load_topology
    from isthmus.topology.model import Topology
    from isthmus.trace.reader import read_rows

__version__ = "0.1.0"
__all__ = [
    "AgreedPlan",
    "Busy",
    "Cast",
    "Comparison",
    "Delivered",
    "Finality",
    "Group",
    "GroupPlan",
    "Groups",
    "InputError",
    "LiveRouter",
    "Measured",
    "Oracle",
    "Refused",
    "RouterOptions",
    "Scenario",
    "SendTimeout",
    "Topology",
    "Verdict",
    "compare",
    "load_scenario",
    "load_topology",
    "read_rows",
    "simulate",
]
HOMES = {  # name: the module that has it
    "Busy": "isthmus.core.errors",
    "Cast": "isthmus.core.message",
    "Comparison": "isthmus.advise.compare.run",
    "Delivered": "isthmus.live.api.delivered",
    "Finality": "isthmus.core.layer",
    "Group": "isthmus.live.api.group",
    "AgreedPlan": "isthmus.live.api.plans",
    "GroupPlan": "isthmus.live.api.plans",
    "Groups": "isthmus.live.api.groups",
    "InputError": "isthmus.core.errors",
    "LiveRouter": "isthmus.live.api.router",
    "Measured": "isthmus.advise.compare.measure",
    "Oracle": "isthmus.judge.oracle",
    "Refused": "isthmus.live.api.errors",
    "RouterOptions": "isthmus.protocols.routing.options",
    "Scenario": "isthmus.scenario.model",
    "SendTimeout": "isthmus.live.api.errors",
    "Topology": "isthmus.topology.model",
    "Verdict": "isthmus.judge.oracle",
    "compare": "isthmus.advise.compare.run",
    "load_scenario": "isthmus.scenario.load",
    "load_topology": "isthmus.topology.load",
    "read_rows": "isthmus.trace.reader",
    "simulate": "isthmus.advise.compare.measure",
}


def __getattr__(name: str) -> Any:
    if name not in HOMES:
        raise AttributeError(f"module 'isthmus' has no attribute {name!r}")
    return getattr(import_module(HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
