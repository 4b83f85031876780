"""A courier between two groups, for tests: it carries what is delivered in one of them into the other.

A router does this for real. Here it is the least that can carry: a layer below the application of each member, which
vouches for one courier site and for authors of other groups alone. At the courier itself it passes on every message of
its own group that is delivered there, as an event of its own in the other group, and through the other application, so
that flow control holds it back where it must.

Bounds: `WAITING_MAX` messages wait for room in the other group; what comes then is not carried.
"""

from __future__ import annotations

from collections import deque
from random import Random
from typing import Any

from isthmus.core.errors import Busy
from isthmus.core.layer import Finality, Host, Layer, Stack
from isthmus.core.message import ALL, Author, Carried, Cast, GroupId, SiteId
from isthmus.fuzz.watch import WatchedRun
from isthmus.protocols.application import Application
from isthmus.scenario.model import GroupOfRun, Scenario
from isthmus.scenario.traffic import mark_of, payload
from isthmus.sim.site import SimPort
from isthmus.stacks.registry import Build, StackOptions
from isthmus.trace.schema import Sink

WAITING_MAX = 8192


class Courier(Layer):
    """Vouches for the courier between groups, and at the courier is one."""

    __slots__ = ("courier", "waiting")

    def __init__(self, courier: SiteId) -> None:
        self.courier = courier
        self.waiting: deque[tuple[bytes, Author]] = deque()  # to be carried into this group

    def accepts_author(self, courier: SiteId, carried: Carried[Any]) -> bool:
        return courier == self.courier and carried.author is not None and carried.author[0] != self.host.group

    def deliver(self, cast: Cast, finality: Finality = Finality.FINAL) -> None:
        self.above.deliver(cast, finality)
        if finality is Finality.FINAL and self.host.site == self.courier:
            author = cast.identity(self.host.group)
            if author[0] == self.host.group:
                self.pass_on(cast.payload, author)

    def pass_on(self, payload: bytes, author: Author) -> None:
        """Have a message carried into the other groups of this site, after this event."""
        assert isinstance(self.host, SimPort)
        for group, port in self.host.owner.ports.items():
            if group != self.host.group:
                there = port.stack.find(Courier)
                if len(there.waiting) < WAITING_MAX:
                    there.waiting.append((payload, author))
                    port.scheduler.at(port.scheduler.now_ns, there.wake, port)

    def wake(self, port: SimPort, _: object) -> None:
        port.run(self.carry_waiting)

    def carry_waiting(self) -> None:
        """Carry what waits, as far as there is room."""
        application = self.stack.find(Application)
        while self.waiting:
            try:
                application.carry_on(*self.waiting[0])
            except Busy:
                return
            self.waiting.popleft()

    def settled(self) -> bool:
        return not self.waiting and self.below.settled()

    def resume(self) -> None:
        self.carry_waiting()
        self.above.resume()


class Forger(Courier):
    """Sends messages in the name of others, of its own group or of another, and takes them itself."""

    __slots__ = ()

    def accepts_author(self, courier: SiteId, carried: Carried[Any]) -> bool:
        return courier == self.host.site or super().accepts_author(courier, carried)

    def pass_on(self, payload: bytes, author: Author) -> None:
        """Carry nothing: a courier is believed in the other group, whatever it says."""

    def forge(self, author: Author) -> None:
        """Send a message that is said to be of an author."""
        number = self.host.next_number()
        forged: Carried[Any] = Carried(self.host.site, number, payload(0, 16, mark_of(*author[1:])), ALL, author)
        self.below.submit(forged)


class BridgedRun(WatchedRun):
    """A run of two groups with a courier between them; `courier_type` may plant a bug in the layer."""

    courier_type: type[Courier] = Courier

    def __init__(self, scenario: Scenario, sink: Sink | None = None) -> None:
        shared = set.intersection(*(set(group.members) for group in scenario.groups_of_run()))
        self.courier = min(shared)
        super().__init__(scenario, sink)

    def build_of(self, group: GroupOfRun) -> Build:
        given = super().build_of(group)

        def build(host: Host, application: Application, options: StackOptions) -> Stack:
            assert isinstance(host, SimPort)
            made = given(host, application, options)
            return Stack(host, made.layers[0], self.courier_of(host), *made.layers[1:])

        return build

    def courier_of(self, port: SimPort) -> Courier:
        return self.courier_type(self.courier)


class ForgedRun(BridgedRun):
    """The same with a forger among the members, which is not the courier."""

    def __init__(self, scenario: Scenario, sink: Sink | None = None) -> None:
        random = Random(f"forger/{scenario.seed}")
        group = random.choice(scenario.groups_of_run())
        self.forger_group: GroupId = group.id
        self.forger: SiteId = random.choice(group.members)
        super().__init__(scenario, sink)
        others = [one for one in group.members if one != self.forger]
        self.forged: list[Author] = [  # of this group, and of the other
            (group.id, random.choice(others), 1 << 20),
            (GroupId(1 - group.id), random.choice(others), 1 << 20),
        ]
        if self.forger == self.courier:
            self.forged.pop()  # which it may carry
        at_ns = round(random.uniform(0.3, 0.9) * self.end_ns)
        for author in self.forged:
            self.scheduler.at(at_ns, self.forge, author)

    def courier_of(self, port: SimPort) -> Courier:
        forges = port.site == self.forger and port.group == self.forger_group
        return Forger(self.courier) if forges else super().courier_of(port)

    def forge(self, author: Author, _: object) -> None:
        port = self.sites[self.forger].ports[self.forger_group]
        port.run(lambda: port.stack.find(Forger).forge(author))
