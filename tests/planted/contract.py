"""Bugs planted in what all stacks stand on: what a port lets through when, and what a member that joins is told."""

from __future__ import annotations

from isthmus.core.layer import Host, Stack
from isthmus.core.message import Message, SiteId
from isthmus.core.port import NO_OPEN_VIEW
from isthmus.protocols.application import Application
from isthmus.protocols.estimator import Estimator
from isthmus.protocols.total.hybrid.hybrid import Hybrid
from isthmus.protocols.transport.credit import Credit
from isthmus.sim.site import SimPort
from isthmus.stacks.registry import STACKS, Build, StackOptions, bottom


class EarlyDropped(SimPort):
    """Drops what comes of a view that is not open yet."""

    __slots__ = ()

    def take(self, source: SiteId, view_id: int, message: Message) -> None:
        if not view_id or view_id == self.open_id:
            super().take(source, view_id, message)


class EarlyReleasedAtInstall(SimPort):
    """Lets what came early through as soon as its view is installed, before the state is there."""

    __slots__ = ()

    def finish(self) -> None:
        installing = self.installing is not None
        super().finish()
        if installing and self.open_id == NO_OPEN_VIEW:
            early = [kept for kept in self.early if kept[1] == self.view_id]
            self.early.clear()
            for source, _, message in early:
                self.stack.receive(source, message)


class FrozenTakes(SimPort):
    """Goes on taking messages of a view whose survivors have been made equal."""

    __slots__ = ()

    def freeze(self) -> None:
        pass


class OldViewTaken(SimPort):
    """Takes a message of an earlier view for one of this view."""

    __slots__ = ()

    def take(self, source: SiteId, view_id: int, message: Message) -> None:
        super().take(source, max(view_id, self.open_id) if view_id else view_id, message)


class StateIgnored(Hybrid):
    """Does not take over the roles when it joins."""

    __slots__ = ()

    def restore(self, state: bytes) -> None:
        pass


def at(port: type[SimPort], stack: str) -> tuple[str, Build]:
    """A stack whose port has a bug."""

    def build(host: Host, application: Application, options: StackOptions) -> Stack:
        host.__class__ = port
        return STACKS[stack].build(host, application, options)

    return stack, build


def forgetful(host: Host, application: Application, options: StackOptions) -> Stack:
    estimator = Estimator(options.hybrid.estimator)
    order = StateIgnored(options.hybrid, estimator)
    return Stack(host, application, estimator, Credit(options.credit), order, *bottom(options))


PLANTED_CONTRACT: dict[str, tuple[str, Build]] = {  # name: (the stack, the stack with the bug)
    "early messages dropped": at(EarlyDropped, "fifo"),
    "early messages dropped under an order": at(EarlyDropped, "token-site"),
    "early messages released before the state is there": at(EarlyReleasedAtInstall, "dynamic-hybrid"),
    "a frozen port that takes messages": at(FrozenTakes, "fifo"),
    "a message of the old view": at(OldViewTaken, "token-site"),
    "a state that is not taken over": ("dynamic-hybrid", forgetful),
}
