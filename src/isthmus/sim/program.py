"""A program in virtual time: it sends at any time, and is called at each delivery.

A scenario fixes its traffic in advance. A program whose messages depend on what it has read, such as a chat or a
replicated store, is simulated by this instead.
"""

from __future__ import annotations

from collections.abc import Callable

from isthmus.core.layer import Finality, Host, Stack
from isthmus.core.message import ONLY_GROUP, Cast, SiteId
from isthmus.core.units import NS_PER_MS
from isthmus.protocols.application import Application
from isthmus.scenario.model import Scenario
from isthmus.sim.run import SimRun
from isthmus.stacks.registry import STACKS, StackOptions


class SimulatedProgram:
    """A scenario of one group in which a program takes part, at every site.

    Args:
        scenario: the network, stack and duration; its workloads send beside the program.
        on_deliver: called with the site, the message and the finality of its delivery.

    Example: `simulation = SimulatedProgram(scenario, on_deliver); simulation.at(100.0, send_first); simulation.run()`
    """

    def __init__(self, scenario: Scenario, on_deliver: Callable[[int, Cast, Finality], None]) -> None:
        self._stack = STACKS[scenario.stack.name]
        self._on_deliver = on_deliver
        self._applications: dict[SiteId, Application] = {}
        self._run = SimRun(scenario, build=self._build)

    def _build(self, host: Host, application: Application, options: StackOptions) -> Stack:
        site = host.site
        application.on_deliver = lambda cast, finality: self._on_deliver(site, cast, finality)
        application.wants = tuple(Finality)
        self._applications[site] = application
        return self._stack.build(host, application, options)

    @property
    def now_ms(self) -> float:
        """Return the virtual time since the start."""
        return self._run.scheduler.now_ns / NS_PER_MS

    def at(self, at_ms: float, action: Callable[[], None]) -> None:
        """Call a function at a virtual time."""
        self._run.scheduler.at(round(at_ms * NS_PER_MS), lambda _a, _b: action())

    def send(self, site: int, payload: bytes) -> Cast:
        """Multicast to all, from a site; call it by `at`, not within `on_deliver`."""
        sent: list[Cast] = []
        application = self._applications[SiteId(site)]
        self._run.sites[site].ports[ONLY_GROUP].run(lambda: sent.append(application.cast(payload)))
        return sent[0]

    def run(self) -> None:
        """Run to the end of the scenario."""
        self._run.execute()
