"""The top of every stack: numbers the application's messages, hands deliveries to it, traces both.

Invariants: a message is numbered only once it is certain to be taken; numbers of one incarnation are consecutive;
those of a later incarnation are all higher, so that no identity is ever used twice.
"""

from __future__ import annotations

from collections.abc import Callable

from isthmus.core.errors import Busy
from isthmus.core.layer import Finality, Kind, Layer, View
from isthmus.core.message import ALL, Cast, SiteId, Targets

INCARNATION_SHIFT = 32  # numbers of incarnation i start above i << 32

OnDeliver = Callable[[Cast, Finality], None]
FINAL = Finality.FINAL
KIND = {Finality.TENTATIVE: Kind.TENTATIVE, Finality.REVOKED: Kind.REVOKE}


class Application(Layer):
    """The application's end of a stack, as callbacks."""

    __slots__ = ("auto_consume", "number", "on_deliver", "on_resume", "on_view", "wants")

    def __init__(
        self,
        on_deliver: OnDeliver | None = None,
        on_view: Callable[[View], None] | None = None,
        on_resume: Callable[[], None] | None = None,
        auto_consume: bool = True,
        wants: tuple[Finality, ...] = tuple(Finality),
    ) -> None:
        self.on_deliver = on_deliver
        self.on_view = on_view
        self.on_resume = on_resume
        self.wants = wants  # what on_deliver is told of: tentative deliveries, final ones, or both
        self.auto_consume = auto_consume  # False: the application calls `consumed` when it is done with a message

    def start(self) -> None:
        self.number = self.host.incarnation << INCARNATION_SHIFT

    def cast(self, payload: bytes, destinations: Targets = ALL) -> Cast:
        """Multicast to the members, or to some of them; raises Busy where a buffer is full."""
        if not self.below.writable():
            self.host.trace(Kind.REFUSE)
            raise Busy("the stack takes no message now: its send queue is full")
        if destinations:
            destinations = tuple(sorted(set(destinations)))  # who is named twice is still one reader
        self.number += 1
        cast = Cast(self.host.site, self.number, payload, destinations)
        self.host.trace(Kind.SUBMIT, cast)
        self.below.submit(cast, destinations)
        return cast

    def deliver(self, cast: Cast, finality: Finality = Finality.FINAL) -> None:
        if cast.destinations and self.host.site not in cast.destinations:
            self.host.trace(Kind.REJECT, value=cast.sender)
            return
        final = finality is FINAL
        self.host.trace(Kind.DELIVER if final else KIND[finality], cast)
        if self.on_deliver is not None and finality in self.wants:
            self.on_deliver(cast, finality)
        if final and self.auto_consume:
            self.below.consumed(cast)

    def suspect(self, site: SiteId, suspected: bool) -> None:
        self.host.trace(Kind.SUSPECT if suspected else Kind.TRUST, value=site)

    def install(self, view: View) -> None:
        self.host.trace(Kind.VIEW, value=view.view_id)
        if self.on_view is not None:
            self.on_view(view)

    def resume(self) -> None:
        if self.on_resume is not None:
            self.on_resume()
