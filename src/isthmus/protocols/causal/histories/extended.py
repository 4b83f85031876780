"""Causal multicast to arbitrary sets by extended histories (R1 to R8).

The rules are in history.py; this layer stamps, reads stamps, and keeps the bounds. A message goes straight to its
destinations, which are its whole address; relay.py lets gateways pass it on.

The sender's own copy comes back through the transport like everyone's, and is delivered at once: nothing before it can
be missing here but earlier copies of its own. Until it is back, it counts as not delivered.

Bounds: a history of more entries than `history_max` and `entries_max` allow tells them all to all whom they concern, by
an empty message, and forgets them. A timestamp has no more entries than the history that it is taken from; a relayed
message brings its own besides. An empty message is one entry more in each history, so that it must take away more than
there are members: the bound is at least a few times the width of the view.
"""

from __future__ import annotations

from collections import deque
from typing import Any, ClassVar

from isthmus.core.errors import RemoteError
from isthmus.core.layer import View
from isthmus.core.message import Cast, Message, SiteId, Targets
from isthmus.core.validation import COUNT_MAX
from isthmus.protocols.causal.histories.coding import Coder, coder_of
from isthmus.protocols.causal.histories.history import SENDER_BITS, ExtendedHistory, Timestamp, key_of
from isthmus.protocols.causal.options import CausalOptions
from isthmus.protocols.causal.order import CausalArrival, CausalMessage, CausalOrder
from isthmus.topology.gateways.separators import sites_of
from isthmus.trace.schema import Gauge

GAUGE = 0  # timer key
HISTORY_WIDTHS = 8  # the least bound, per member


class ExtendedOrder(CausalOrder):
    """Delivers multicasts in causal order by what each process has told whom."""

    __slots__ = ("coder", "history", "history_max", "options", "own")
    timer_names: ClassVar[tuple[str, ...]] = ("gauge",)

    def __init__(self, options: CausalOptions) -> None:
        self.options = options
        super().__init__(options.hold_max, options.gauge_ms > 0)

    def install(self, view: View) -> None:
        super().install(view)
        self.host.cancel_timer(self, GAUGE)
        self.history = self.new_history()
        self.delivered = self.history.delivered
        most = min(self.options.history_max, self.options.entries_max)
        self.history_max = max(most, HISTORY_WIDTHS * len(view.members)) if self.options.pruning else COUNT_MAX
        self.coder = self.new_coder()
        self.own: deque[int] = deque()  # our own messages to ourselves that are not back yet

    def new_history(self) -> ExtendedHistory:
        return ExtendedHistory(self.host.site, None, self.options.rules())

    def new_coder(self) -> Coder:
        return coder_of(self.everyone, (self.everyone,), self.options.coding, self.entries_most())

    def entries_most(self) -> int:
        """What a peer's timestamp may have: what was there, and what a relayed message brings."""
        return 4 * max(self.history_max, self.options.history_max)

    # Where messages go

    def address_of(self, origin: SiteId, destinations: int) -> int:  # noqa: ARG002
        return destinations

    def first_of(self, destinations: int) -> Targets:
        """To whom we send a message of ours."""
        return sites_of(destinations)

    # Sending

    def stamp(self, cast: Cast, destinations: int) -> None:
        if not destinations:
            return  # whom it was for have left
        address = self.address_of(self.host.site, destinations)
        key, timestamp = self.history.send(address)
        if destinations >> self.host.site & 1:
            self.own.append(self.history.count)
        self.note_own()
        message = self.stamped(cast, self.history.count, timestamp)
        self.measure(message, len(timestamp))
        self.keep(message, key, destinations)
        self.send_first(message, destinations, timestamp)
        self.bound_history()

    def send_first(self, message: CausalMessage[Any], destinations: int, timestamp: Timestamp) -> None:  # noqa: ARG002
        """Send a message of ours on its way."""
        self.pass_down(message, self.first_of(destinations))

    def pass_down(self, message: Message, targets: Targets) -> None:
        self.below.submit(message, targets)

    def stamped(self, cast: Cast, count: int, timestamp: Timestamp) -> CausalMessage[Any]:
        return CausalMessage(cast, self.host.site, count, self.tick(), self.coder.encode(timestamp))

    def keep(self, message: CausalMessage[Any], key: int, destinations: int) -> None:
        """Keep a message until it is where it should; the transport below does."""

    def note_own(self) -> None:
        """Our own messages count as delivered up to the first copy that is not back."""
        self.delivered[self.host.site] = self.own[0] - 1 if self.own else self.history.count

    def tell(self, destinations: int) -> None:
        """Send an empty message, which tells all that its destinations have not been told."""
        others = destinations & ~self.history.me
        if not others:  # we know what we have
            self.history.report_all(self.history.me)
            return
        _, timestamp = self.history.send(self.address_of(self.host.site, others))
        self.note_own()
        message = self.stamped(Cast(self.host.site, 0, b"", sites_of(others)), self.history.count, timestamp)
        self.send_first(message, others, timestamp)

    def bound_history(self) -> None:
        """Tell everything to all whom it concerns, where it is too much, and forget it."""
        if len(self.history.told) > self.history_max and not self.blocked:
            self.tell(self.history.concerned())

    def resume(self) -> None:
        super().resume()
        if self.measures:
            self.gauge_later()

    def gauge_later(self) -> None:
        self.host.set_timer(self, GAUGE, round(self.options.gauge_ms * 1e6))

    def timer(self, key: int) -> None:
        assert key == GAUGE
        self.host.gauge(Gauge.HISTORY_ENTRIES, len(self.history.told))
        self.gauge_later()

    # Receiving

    def read(self, source: SiteId, message: CausalMessage[Any]) -> CausalArrival | None:
        destinations = self.check_source(source, message)
        return self.item(message, destinations)

    def item(self, message: CausalMessage[Any], destinations: int, way: Any = None) -> CausalArrival | None:
        """A message as an item; None for one that was delivered before."""
        if not message.count:
            raise RemoteError(f"a message of site {message.origin} without a counter")
        if message.count <= self.delivered.get(message.origin, 0):
            return None
        key = message.count << SENDER_BITS | message.origin
        return CausalArrival(message, key, destinations, self.coder.decode(message.stamp), way)

    def missing(self, item: CausalArrival) -> int:
        if item.message.origin == self.host.site:
            first = self.own[0]
            return 0 if item.message.count == first else key_of(self.host.site, first)
        return self.history.missing(item.timestamp)

    def note(self, item: CausalArrival) -> None:
        origin = item.message.origin
        if origin == self.host.site:
            self.own.popleft()
            self.note_own()
        else:
            self.take(item)
            if len(self.history.told) > self.history_max:
                self.bound_history()

    def take(self, item: CausalArrival) -> None:
        self.history.deliver(item.key, item.destinations, item.timestamp)
