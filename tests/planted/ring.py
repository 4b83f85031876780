"""Bugs planted in the ring: what a token, its copies and its announcements must not do."""

from __future__ import annotations

from msgspec.structs import replace

from isthmus.core.layer import Host, Stack
from isthmus.core.message import SiteId
from isthmus.protocols.application import Application
from isthmus.protocols.total.ring.ring import Ring, Token, TokenAck, TokenPhase
from isthmus.protocols.total.token_site import Tickets
from isthmus.protocols.transport.credit import Credit
from isthmus.stacks.registry import Build, StackOptions, bottom


class CopyTaken(Ring):
    """Takes a copy of a visit that has been for another visit."""

    __slots__ = ()

    def on_token(self, source: SiteId, token: Token) -> None:
        if self.phase is TokenPhase.AWAY and token.visit <= self.token.visit:
            self.send((source,), TokenAck(token.visit))
            self.take(token)
        else:
            super().on_token(source, token)


class NeverRepeated(Ring):
    """Passes the token on once, and keeps no copy."""

    __slots__ = ()

    def timer(self, key: int) -> None:
        self.passed = None


class NewTokenByTimeout(Ring):
    """Makes a token anew where its heir is silent for long."""

    __slots__ = ()

    def timer(self, key: int) -> None:
        if self.passed is not None and not self.passed.once and self.phase is TokenPhase.AWAY:
            token, self.passed = self.passed.token, None
            self.take(Token(token.visit + 1, token.given, 0))
        else:
            super().timer(key)


class AsItArrives(Ring):
    """Delivers what is announced when it is announced, over gaps of positions."""

    __slots__ = ()

    def on_tickets(self, source: SiteId, tickets: Tickets) -> None:
        self.ticketed = max(self.ticketed, tickets.first - 1)
        super().on_tickets(source, tickets)


class NoWake(Ring):
    """Waits for a token that rests elsewhere."""

    __slots__ = ()

    def end_turn(self) -> None:
        self.asked = False
        super().end_turn()


class SureTooSoon(Ring):
    """Counts on the token after any announcement, also one of before its last visit."""

    __slots__ = ()

    def on_tickets(self, source: SiteId, tickets: Tickets) -> None:
        super().on_tickets(source, tickets)
        self.assured = True


class TokenOutlivesView(Ring):
    """Passes the token of a view on when that view closes."""

    __slots__ = ()

    def pass_on(self, heir: SiteId) -> None:
        view, self.view = self.view, self.stack.view
        super().pass_on(heir)
        self.view = view


class PositionsTwice(Ring):
    """Forgets to tell the next holder how many positions it gave."""

    __slots__ = ()

    def announce(self) -> None:
        given = self.token.given
        super().announce()
        self.token = replace(self.token, given=given)


class GoesBack(Ring):
    """Passes the token back to where it came from as often as on: each member is visited, some of them late."""

    __slots__ = ()

    def successor(self) -> SiteId:
        step = -1 if self.token.visit % 5 in (2, 4) else 1
        return self.round[(self.place() + step) % len(self.round)]


def over(order: type[Ring]) -> Build:
    def build(host: Host, application: Application, options: StackOptions) -> Stack:
        ordering = order(options.ring, repeats=not options.direct)
        return Stack(host, application, Credit(options.credit), ordering, *bottom(options))

    return build


PLANTED_RING: dict[str, tuple[str, Build]] = {
    "a copy of the token taken": ("ring", over(CopyTaken)),
    "a token that is never repeated": ("ring", over(NeverRepeated)),
    "a new token by time-out": ("ring", over(NewTokenByTimeout)),
    "delivery as it arrives": ("ring", over(AsItArrives)),
    "no wake": ("ring", over(NoWake)),
    "sure of the token too soon": ("ring", over(SureTooSoon)),
    "positions given twice": ("ring", over(PositionsTwice)),
}
