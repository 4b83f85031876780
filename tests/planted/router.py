"""Wrong policies of routers, each of which looks right until somebody crashes; planted to see that they are found."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest

from isthmus.core.message import Carried
from isthmus.protocols.routing import intake as taking_in
from isthmus.protocols.routing.calculus.walks import Walk
from isthmus.protocols.routing.filter import AuthorStream, Fate
from isthmus.protocols.routing.intake import CopyIntake, ReceivedCopy
from isthmus.protocols.routing.process import ComposedProcess
from isthmus.protocols.routing.router import Router, RouterPort
from isthmus.protocols.routing.wire import Routed
from isthmus.scenario.composition import nodes as composing
from isthmus.scenario.model import StackSpec


def no_log(patch: pytest.MonkeyPatch) -> None:
    """A replica that takes over forwards only what comes from then on."""

    def forward_again(self: Router) -> None:
        for port in self.ports.values():
            port.intake.kept.pending = deque()

    patch.setattr(Router, "forward_again", forward_again)


def trim_on_send(patch: pytest.MonkeyPatch) -> None:
    """What the forwarding replica has submitted is dropped by all."""
    routers: list[Router] = []
    made, forward = Router.__init__, RouterPort.forward

    def init(self: Router, *given: Any) -> None:
        made(self, *given)
        routers.append(self)

    def trimming(self: RouterPort) -> None:
        sent = [copy.author for copy in self.queue]
        forward(self)
        for router in routers:
            if router.number == self.router.number and router.routes is self.routes:
                for port in router.ports.values():
                    for key in [key for key in port.intake.kept.copies if key[0] in sent]:
                        del port.intake.kept.copies[key]

    patch.setattr(Router, "__init__", init)
    patch.setattr(RouterPort, "forward", trimming)


def trim_on_next_hop(patch: pytest.MonkeyPatch) -> None:
    """What has come to the next node is dropped."""
    take_all = RouterPort.take_all

    def taking(self: RouterPort, cast: Carried[Any], copies: tuple[Routed, ...]) -> None:
        take_all(self, cast, copies)
        for copy in copies:
            made = self.routes.walk(copy.origin, copy.to).copies[copy.copy]
            if made.router == self.router.number:
                for port in self.router.ports.values():
                    port.intake.kept.copies.pop((copy.author, made.before), None)

    patch.setattr(RouterPort, "take_all", taking)


def always(self: AuthorStream, number: int, before: int, in_order: bool = False) -> Fate:
    self.last = max(number, self.last)
    return Fate.TAKEN


def no_duplicate_detection(patch: pytest.MonkeyPatch) -> None:
    """Members deliver whatever comes."""
    patch.setattr(AuthorStream, "take", always)


def detection_in_router_memory(patch: pytest.MonkeyPatch) -> None:
    """Routers drop what they themselves have forwarded before; members deliver whatever comes."""
    patch.setattr(AuthorStream, "take", always)
    enter = RouterPort.enter

    def remembering(self: RouterPort, copy: Routed) -> None:
        memory = vars(taking_in).setdefault("memory", {}).setdefault(id(self), (self, set()))[1]
        if (copy.author, copy.copy) not in memory:
            memory.add((copy.author, copy.copy))
            enter(self, copy)

    patch.setattr(taking_in, "memory", {}, raising=False)
    patch.setattr(RouterPort, "enter", remembering)


def non_uniform(patch: pytest.MonkeyPatch) -> None:
    """Routers forward what may be lost where it came from."""

    def as_it_is(stack: StackSpec, *_: object) -> StackSpec:
        return stack

    patch.setattr(composing, "safely", as_it_is)


def joining_without_state(patch: pytest.MonkeyPatch) -> None:
    """All replicas forward, and one that joins begins with nothing."""
    made = Router.__init__

    def active(self: Router, *given: Any) -> None:
        made(self, *given)
        self.forwards = True

    def nothing(*_: object) -> None:
        """Take nothing over."""

    patch.setattr(Router, "__init__", active)
    patch.setattr(Router, "become_standby", nothing)
    patch.setattr(Router, "become_forwarding", nothing)
    patch.setattr(Router, "forward_again", nothing)
    patch.setattr(CopyIntake, "restore", nothing)
    patch.setattr(ComposedProcess, "restore", nothing)


def keyed_on_the_router(patch: pytest.MonkeyPatch) -> None:
    """Messages are counted by who forwards them."""
    sift, stream_of = CopyIntake.sift, taking_in.stream_of

    def by_courier(self: CopyIntake, arrived: ReceivedCopy, walk: Walk) -> list[ReceivedCopy] | None:
        def keyed(copy: Routed, domain: int) -> tuple[int, int, int, int]:
            group, sender, life, _ = stream_of(copy, domain)
            return (group, sender, life + 1000 * (arrived.courier + 1), domain)

        taking_in.stream_of = keyed
        try:
            return sift(self, arrived, walk)
        finally:
            taking_in.stream_of = stream_of

    patch.setattr(CopyIntake, "sift", by_courier)


PLANTED = {
    "no log": no_log,
    "trim on send": trim_on_send,
    "trim on next-hop receipt": trim_on_next_hop,
    "no duplicate detection": no_duplicate_detection,
    "detection in router memory": detection_in_router_memory,
    "forwarding non-uniform deliveries": non_uniform,
    "active replicas joining without state": joining_without_state,
    "filter keyed on the forwarding router": keyed_on_the_router,
}
