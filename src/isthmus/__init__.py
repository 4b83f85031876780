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
    from isthmus.comparing.measure import Measured, simulate
    from isthmus.comparing.run import Comparison, compare
    from isthmus.core.errors import Busy, InputError
    from isthmus.core.layer import Finality
    from isthmus.core.message import Cast
    from isthmus.live.composed import LiveRouter
    from isthmus.live.delivered import Delivered
    from isthmus.live.errors import Refused, SendTimeout
    from isthmus.live.group import Group
    from isthmus.live.groups import Groups
    from isthmus.live.plans import AgreedPlan, GroupPlan
    from isthmus.protocols.routing.options import RouterOptions
    from isthmus.scenario.load import load_scenario
    from isthmus.scenario.model import Scenario
    from isthmus.topology.load import load_topology
    from isthmus.topology.model import Topology
    from isthmus.trace.oracle import Oracle, Verdict
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
    "Comparison": "isthmus.comparing.run",
    "Delivered": "isthmus.live.delivered",
    "Finality": "isthmus.core.layer",
    "Group": "isthmus.live.group",
    "AgreedPlan": "isthmus.live.plans",
    "GroupPlan": "isthmus.live.plans",
    "Groups": "isthmus.live.groups",
    "InputError": "isthmus.core.errors",
    "LiveRouter": "isthmus.live.composed",
    "Measured": "isthmus.comparing.measure",
    "Oracle": "isthmus.trace.oracle",
    "Refused": "isthmus.live.errors",
    "RouterOptions": "isthmus.protocols.routing.options",
    "Scenario": "isthmus.scenario.model",
    "SendTimeout": "isthmus.live.errors",
    "Topology": "isthmus.topology.model",
    "Verdict": "isthmus.trace.oracle",
    "compare": "isthmus.comparing.run",
    "load_scenario": "isthmus.scenario.load",
    "load_topology": "isthmus.topology.load",
    "read_rows": "isthmus.trace.reader",
    "simulate": "isthmus.comparing.measure",
}


def __getattr__(name: str) -> Any:
    if name not in HOMES:
        raise AttributeError(f"module 'isthmus' has no attribute {name!r}")
    return getattr(import_module(HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
