"""Bugs planted in how large messages are cut up and put together; random scenarios with mixed sizes must find each."""

from __future__ import annotations

from typing import Any

from isthmus.core.layer import Host, Stack, View
from isthmus.core.message import Carried, Cast
from isthmus.protocols.application import Application
from isthmus.protocols.fragments import Assembly, Fragments, Piece
from isthmus.stacks.registry import STACKS, Build, StackOptions


class PieceMissing(Fragments):
    """Hands a message up when one of its pieces has not come."""

    __slots__ = ()

    def take(self, carried: Carried[Any], piece: Piece) -> None:
        key = (carried.sender, piece.trace_number(carried.number))
        before = self.assemblies.get(key)
        if before is not None and len(before.parts) == piece.count - 2:
            missing = next(n for n in range(piece.count) if n not in before.parts and n != piece.index)
            before.parts[missing] = b""
        if before is None and key in self.unread:
            return  # the one that was not waited for
        super().take(carried, piece)


class StaleAssembly(Fragments):
    """Keeps what is incomplete over a view change."""

    __slots__ = ()

    def install(self, view: View) -> None:
        kept, held = dict(self.assemblies), dict(self.held_of)
        super().install(view)
        self.assemblies, self.held_of = kept, held


class StaleIgnored(StaleAssembly):
    """And takes a piece of the second edition for one of the first, which it has."""

    __slots__ = ()

    def check(self, carried: Carried[Any], piece: Piece, assembly: Assembly) -> None:
        if piece.index not in assembly.parts:
            super().check(carried, piece, assembly)


class GoesOn(Fragments):
    """Sends in the new view only the pieces that were not sent in the old one."""

    __slots__ = ()

    def install(self, view: View) -> None:
        before = self.next_piece
        super().install(view)
        self.next_piece = before


class Unbounded(Fragments):
    """Begins the next large message whatever the others have read."""

    __slots__ = ()

    def has_window(self, cast: Cast) -> bool:
        return True


class CountsKept(Fragments):
    """Goes on counting in a new view what it sent in the old one."""

    __slots__ = ()

    def install(self, view: View) -> None:
        sent = dict(self.sent_to)
        super().install(view)
        self.sent_to = sent


class SentTwice(Fragments):
    """Sends a message again in a new view though all of it had been sent in the old one."""

    __slots__ = ("last",)

    def pump(self) -> None:
        first = self.backlog[0] if self.backlog else None
        super().pump()
        if first is not None and (not self.backlog or self.backlog[0] is not first) and self.is_large(first):
            self.last = first

    def install(self, view: View) -> None:
        super().install(view)
        last = getattr(self, "last", None)
        if last is not None and last not in self.backlog:
            self.backlog.appendleft(last)


class WaitsInBetween(Fragments):
    """Lets pieces wait in flow control, from where they leave in whatever view there is then."""

    __slots__ = ()

    def cut(self, cast: Cast) -> bool:
        below = self.application.below
        passes = type(below).passes
        try:
            type(below).passes = lambda _self, _destinations: True  # type: ignore[method-assign]
            return super().cut(cast)
        finally:
            type(below).passes = passes  # type: ignore[method-assign]


def planted(kind: type[Fragments], stack: str) -> Build:
    """A stack with other fragments than its own."""

    def build(host: Host, application: Application, options: StackOptions) -> Stack:
        application.fragments = kind(application)
        return STACKS[stack].build(host, application, options)

    return build


PLANTED: dict[str, tuple[str, type[Fragments]]] = {
    "a piece is missing": ("token-site", PieceMissing),
    "what is incomplete is kept over a view": ("fifo", StaleAssembly),
    "pieces of two editions are mixed": ("unordered", StaleIgnored),
    "the rest is sent in the new view": ("symmetric", GoesOn),
    "no bound on what is not read": ("optimistic", Unbounded),
    "counts of an earlier view": ("token-site", CountsKept),
    "a second edition of what was sent": ("fifo", SentTwice),
    "pieces wait in flow control": ("fifo", WaitsInBetween),
}
