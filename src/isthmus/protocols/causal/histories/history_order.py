"""Causal multicast to arbitrary sets by extended histories (R1 to R8).

The rules are in history.py; this layer writes and reads timestamps and keeps the bounds. A message goes directly to its
destinations, which are its whole address; in relayed_order.py gateways pass it on.

The sender's own copy comes back through the transport like every copy, and is delivered at once: nothing before it can
be missing here but earlier copies of its own. Until it is back, it counts as not delivered.

Safe delivery: the transport hands bodies up on arrival and again once they are safe (`unsafe_bodies`).

Bounds: when a history has more entries than `history_max` and `entries_max` allow, an empty message reports all of them
to all sites concerned, and they are forgotten. A timestamp has no more entries than the history that it is taken from;
a relayed message adds its own. An empty message is one more entry in each history, so it must remove more entries than
there are members: the bound is at least a few times the size of the view.
"""

from __future__ import annotations

from collections import deque
from typing import Any, ClassVar

from isthmus.core.errors import RemoteError
from isthmus.core.layer import Handler, View
from isthmus.core.message import Cast, Message, SiteId
from isthmus.core.validation import COUNT_MAX
from isthmus.protocols.causal.histories.coding import Coder, coder_of
from isthmus.protocols.causal.histories.history import SENDER_BITS, ExtendedHistory, Timestamp, key_of
from isthmus.protocols.causal.options import CausalOptions
from isthmus.protocols.causal.order import CausalArrival, CausalMessage, CausalOrder
from isthmus.topology.gateways.hops import GatewayPlan
from isthmus.topology.gateways.separators import sites_of
from isthmus.trace.schema import Gauge

GAUGE = 0  # timer key
HISTORY_WIDTHS = 8  # the least bound, per member


class HistoryOrder(CausalOrder):
    """Delivers multicasts in causal order by what each process has reported to which."""

    __slots__ = ("coder", "history", "history_max", "options", "own", "safe_keys")
    timer_names: ClassVar[tuple[str, ...]] = ("gauge",)

    def __init__(self, options: CausalOptions, safe: bool = False) -> None:
        self.options = options
        super().__init__(options.hold_max, options.gauge_ms > 0, safe)

    def reset(self) -> None:
        super().reset()
        self.safe_keys: dict[tuple[SiteId, int], bool] = {}  # origin and counter of messages safe and not delivered

    def install(self, view: View) -> None:
        super().install(view)
        self.host.cancel_timer(self, GAUGE)
        self.history = self.new_history()
        self.delivered = self.history.delivered
        most = min(self.options.history_max, self.options.entries_max)
        self.history_max = max(most, HISTORY_WIDTHS * len(view.members)) if self.options.pruning else COUNT_MAX
        self.coder = self.new_coder()
        self.own: deque[int] = deque()  # own messages addressed to us whose copies are not back yet

    def new_history(self) -> ExtendedHistory:
        return ExtendedHistory(self.host.site, None, self.options)

    def new_coder(self) -> Coder:
        return coder_of(self.everyone, (self.everyone,), self.options.coding, self.entries_most())

    def entries_most(self) -> int:
        """The maximum entries of a peer's timestamp: those of a history, and those that a relayed message adds."""
        return 4 * max(self.history_max, self.options.history_max)

    # Sending

    def address_of(self, origin: SiteId, destinations: int) -> int:  # noqa: ARG002
        """The destinations of a message and every relay on its way."""
        return destinations

    def stamp(self, cast: Cast, destinations: int) -> None:
        if not destinations:
            return  # all destinations have left
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
        """Send a message of our own on its way."""
        self.below.submit(message, sites_of(destinations))

    def stamped(self, cast: Cast, count: int, timestamp: Timestamp) -> CausalMessage[Any]:
        return CausalMessage(cast, self.host.site, count, self.tick(), self.coder.encode(timestamp))

    def keep(self, message: CausalMessage[Any], key: int, destinations: int) -> None:
        """Keep a message until all destinations have it; here, the transport below does."""

    def note_own(self) -> None:
        """Count our own messages as delivered up to the first copy that is not back."""
        self.delivered[self.host.site] = self.own[0] - 1 if self.own else self.history.count

    def tell(self, destinations: int) -> None:
        """Send an empty message that reports everything not yet reported to its destinations."""
        others = destinations & ~self.history.me
        if not others:  # we know what we have
            self.history.report_all(self.history.me)
            return
        _, timestamp = self.history.send(self.address_of(self.host.site, others))
        self.note_own()
        message = self.stamped(Cast(self.host.site, 0, b"", sites_of(others)), self.history.count, timestamp)
        self.send_first(message, others, timestamp)

    def bound_history(self) -> None:
        """Report and forget everything if the history exceeds its bound."""
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
        return self.arrival(message, self.check_source(source, message))

    def arrival(
        self, message: CausalMessage[Any], destinations: int, plan: GatewayPlan | None = None
    ) -> CausalArrival | None:
        """Decode a message's timestamp; None for a message that was delivered before."""
        if not message.count:
            raise RemoteError(f"a message of site {message.origin} without a counter")
        if message.count <= self.delivered.get(message.origin, 0):
            return None
        key = message.count << SENDER_BITS | message.origin
        return CausalArrival(message, key, destinations, self.coder.decode(message.stamp), plan)

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
        """Record a message of another origin in the history."""
        self.history.deliver(item.key, item.destinations, item.timestamp)

    # Safe delivery

    def unsafe_bodies(self) -> dict[type[Message], Handler]:
        return {CausalMessage: self.on_safe} if self.safe else {}

    def on_safe(self, source: SiteId, message: CausalMessage[Any]) -> None:  # noqa: ARG002
        if message.cast.number and message.count > 0:
            self.safe_keys[message.origin, message.count] = True
            self.deliver_safe()

    def is_safe(self, message: CausalMessage[Any]) -> bool:
        return self.safe_keys.pop((message.origin, message.count), False)
