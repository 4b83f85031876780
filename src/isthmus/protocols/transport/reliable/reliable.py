"""Reliable multicast over a network that loses, repeats, reorders, and carries only so much.

Problem: every member of a view must hand up the same messages, each once, those of one sender in the order sent,
while packets vanish, paths are full and buffers stay bounded.

Idea: each sender numbers its frames 1, 2, 3 ... in each view. A frame names the number of the frame before it *that
went to the same receiver*, so that multicasts to subsets leave no false gaps; where that is simply the number before,
for everybody, nothing is said. A receiver that sees a gap asks for it (`Nak`), first of the origin, then of anyone
known to have it. Members tell each other what they have (`Ack`, a vector); a frame that all its targets have is
*stable*: its origin drops it and says so to the others, who kept it to repair on its behalf. A sender whose frames stay
unacknowledged says how far it got (`Status`), which finds a lost last frame and a lost acknowledgement alike.

The frame is the unit of transport: one number, one entry to keep, to acknowledge and to ask for. What is submitted in
one turn to the same targets leaves as one frame, as far as `host.frame_bytes` goes.

Each path has a window (paths.py, congestion.py): a frame leaves at once for the targets whose paths have room, and is
deferred for the others until acknowledgements make some. A request asks for no more than there is room for, and not
for what is on its way (pacing.py).

Invariants:
- received is the highest number such that every earlier frame of that origin to us was handed up;
- held is keyed by the number *before* a frame, so the next frame to hand up is held[received];
- a frame stays in kept from when it is sent, deferred or handed up until it is stable: survivors can repair for a dead
  origin, and a flush gives everybody what was deferred;
- a Status names the last frame that was sent to its receiver, not one that is deferred: nobody asks for those;
- between two turns nothing is gathered;
- numbers start anew in every view, after a flush, and so do windows; a port lets no frame of another view through.

Bounds: `keep_max` own unstable frames, `keep_max_bytes` in bytes, then `writable` is false and flow control waits;
twice as many of another origin, then its frames are not taken until it tells what is stable; `hold_max` frames ahead of
a gap per origin, then the furthest are dropped and asked for again later; `repair_max` frames answer one Nak, and the
window of the path bounds the repairs of a round trip.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from isthmus.core.errors import RemoteError
from isthmus.core.layer import Handler, Kind
from isthmus.core.message import Batch, Cast, Message, SiteId
from isthmus.protocols.transport.base import PLAIN
from isthmus.protocols.transport.reliable.frames import (
    FRAME_BYTES,
    Ack,
    Data,
    Nak,
    ReliableOptions,
    Repair,
    Status,
    Stream,
    frame_bytes,
)
from isthmus.protocols.transport.reliable.pacing import LONGEST_NS, Gaps, Pacing, count, first_of, near
from isthmus.protocols.transport.reliable.sending import ACK, NAK, PROBE, STATUS, Sender


class Reliable(Sender):
    """Numbers, repairs and acknowledges; hands up in each origin's order, or on arrival where `fifo` is false."""

    __slots__ = ("ack_armed", "ack_left", "ack_share", "at_once", "gapped", "keep_most", "pacing", "plain")
    timer_names = ("ack", "status", "probe", "nak_")

    def __init__(self, options: ReliableOptions | None = None, fifo: bool = True) -> None:
        super().__init__(options, fifo)
        self.pacing = Pacing(self.options.nak_retry_ms, self.options.nak_delay_ms)
        self.ack_share = max(1, self.options.ack_every_bytes // self.options.ack_every)  # bytes that count as a frame
        self.keep_most = 2 * self.options.keep_max  # frames of another origin
        self.at_once = True  # a frame is handed up when it is taken
        self.plain: dict[type[Message], Handler] = {}

    def reset(self) -> None:
        super().reset()
        self.ack_left = self.options.ack_every  # frames, or their share of bytes, that may come before an Ack is due
        self.ack_armed = False
        self.gapped: dict[SiteId, Stream] = {}  # the streams of which something is asked for

    def handlers(self) -> dict[type[Message], Handler]:
        return {Data: self.accept, Repair: self.on_repair, Nak: self.on_nak, Status: self.on_status, Ack: self.on_ack}

    def start(self) -> None:
        """Look up the bodies that name no author and carry no payload: there is nothing to check or to count."""
        for kind, owner in self.stack.owners.items():
            if kind.subjects is Message.subjects and kind.payload_bytes is Message.payload_bytes:
                self.plain[kind] = owner

    # Receiving

    def accept(self, origin: SiteId, data: Data[Any], again: bool = False) -> None:
        """Take a frame, fresh, late or sent again, and hand up what it completes."""
        stream = self.streams.get(origin) or self.open(origin)
        seq, body = data.seq, data.body
        prev = data.prev(self.host.site, self.view.members) if data.prevs or data.targets else seq - 1
        if seq <= stream.received or prev in stream.held:
            return
        kind = type(body)
        if kind is Cast and body.sender == origin:
            size = FRAME_BYTES + len(body.payload)
        elif kind in self.plain:
            size = FRAME_BYTES
        else:
            self.check_body(origin, body)
            size = FRAME_BYTES + body.payload_bytes()
        asking = stream.asking
        if asking:
            self.note_arrival(stream, seq, again)
        if prev != stream.received:
            if prev < stream.received:
                raise RemoteError(f"frame {seq} of site {origin} says it follows {prev}, not {stream.received}")
            self.hold(stream, prev, data)
            return
        kept = stream.kept
        if (len(kept) >= self.keep_most or stream.arrived >= stream.room_to) and not self.keeps_more(stream):
            return  # until its origin's Status says what is stable; then it is asked for again
        stream.arrived += size
        if kind is Cast and self.at_once and body.number > stream.number:  # `take`, for what is most frequent
            stream.received = seq
            kept[seq] = data
            stream.number = body.number
            self.above.deliver(body)
        else:
            self.take(stream, data)
        if stream.held:
            self.take_held(stream)
        if asking:
            self.note_progress(stream)
        self.ack_left -= 1 if size <= self.ack_share else size // self.ack_share
        if self.ack_left <= 0 or not self.ack_armed:
            self.owe_ack()

    def open(self, origin: SiteId) -> Stream:
        """The stream of a member, made when something of it is first heard of."""
        if origin not in self.index:
            raise RemoteError(f"word of site {origin}, which is not in view {self.view.view_id}")
        if origin not in self.streams:
            self.streams[origin] = Stream(origin, 2 * self.options.keep_max_bytes)
        return self.streams[origin]

    def owe_ack(self) -> None:
        """See to it that what was received is acknowledged."""
        if self.frozen:
            return
        if not self.others:
            self.collect()  # nobody will acknowledge anything: what has come back is stable
        elif self.ack_left <= 0:
            self.send_ack()
        else:
            self.ack_armed = True
            self.host.set_timer(self, ACK, round(self.options.ack_period_ms * 1e6))

    def keeps_more(self, stream: Stream) -> bool:
        """Whether one more frame of a stream may be kept; always of our own, and in a flush."""
        return stream.has_room(self.keep_most, 2 * self.options.keep_max_bytes) or self.blocked or stream is self.own

    def take(self, stream: Stream, data: Data[Any]) -> None:
        """Take the next frame of a stream."""
        stream.received = data.seq
        stream.kept[data.seq] = data
        self.give(stream, data)

    def give(self, stream: Stream, data: Data[Any]) -> None:
        """Hand up a frame that was taken."""
        body = data.body
        kind = type(body)
        if kind in self.plain:
            try:
                self.plain[kind](stream.origin, body)
            except RemoteError:  # refused by its owner; the stream it came in goes on
                self.host.trace(Kind.REJECT, value=stream.origin)
        elif kind is Batch:
            self.hand_up_batch(stream.origin, self.fresh(stream, body.bodies) if self.fifo else body.bodies)
        elif not isinstance(body, Cast) or not self.fifo or self.fresh(stream, (body,)):
            self.hand_up(stream.origin, body)

    def fresh(self, stream: Stream, bodies: Sequence[Message]) -> Sequence[Message]:
        """The bodies but for messages whose number is not new: a peer that uses one twice stops nothing above."""
        if bodies and PLAIN.issuperset(map(type, bodies)):
            numbers = [cast.number for cast in bodies]  # type: ignore[attr-defined]
            if numbers[0] > stream.number and numbers == list(range(numbers[0], numbers[0] + len(numbers))):
                stream.number = numbers[-1]
                return bodies
        taken = []
        for body in bodies:
            if isinstance(body, Cast):
                if body.number <= stream.number:
                    self.host.trace(Kind.REJECT, value=stream.origin)
                    continue
                stream.number = body.number
            taken.append(body)
        return taken

    def take_held(self, stream: Stream) -> None:
        """Hand up what was held and follows now."""
        while (held := stream.held.pop(stream.received, None)) is not None:
            if self.fifo:
                self.take(stream, held)
            else:
                stream.received = held.seq

    # What is missing

    def note_arrival(self, stream: Stream, seq: int, again: bool) -> None:
        """Learn from a frame that may have been asked for: what else is lost, or how late frames can be."""
        if again:
            if stream.asked.overtaken(seq) and stream.patient:
                self.set_nak(stream, self.pacing.delay_ns(stream.origin), patient=False)
            return
        late_ns = stream.asked.late_ns(seq, self.host.now_ns)
        if late_ns is not None:
            self.pacing.came_late(stream.origin, late_ns)

    def note_progress(self, stream: Stream) -> None:
        """What is still missing is asked for soon, not after the long wait of a late retry."""
        stream.tries = 0
        if stream.received >= stream.top:  # nothing is known to be missing
            self.stop_asking(stream)
            self.host.cancel_timer(self, NAK + stream.origin)
        elif stream.patient:
            self.set_nak(stream, self.pacing.delay_ns(stream.origin), patient=False)

    def hold(self, stream: Stream, prev: int, data: Data[Any]) -> None:
        """Keep a frame that is ahead of a gap, and see to it that the gap is asked for."""
        if len(stream.held) >= self.options.hold_max and self.fifo and (furthest := max(stream.held)) > prev:
            stream.arrived -= frame_bytes(stream.held.pop(furthest))  # the nearer one is needed sooner
        if len(stream.held) < self.options.hold_max and self.keeps_more(stream):
            stream.held[prev] = data
            stream.arrived += frame_bytes(data)
            if not self.fifo:
                stream.kept[data.seq] = data
                self.give(stream, data)
        stream.top = max(stream.top, data.seq)
        self.ask_later(stream)

    def ask_later(self, stream: Stream) -> None:
        if not stream.asking and not self.frozen:
            self.set_nak(stream, self.pacing.delay_ns(stream.origin), patient=False)

    def set_nak(self, stream: Stream, delay_ns: int, patient: bool) -> None:
        stream.asking, stream.patient = True, patient
        self.gapped[stream.origin] = stream
        self.host.set_timer(self, NAK + stream.origin, delay_ns)

    def on_repair(self, source: SiteId, repair: Repair[Any]) -> None:
        if source not in self.index:
            raise RemoteError(f"a repair by site {source}, which is not in the view")
        if repair.origin == self.host.site:
            raise RemoteError(f"site {source} sends what it says is our own frame {repair.data.seq}")
        round_ns = self.open(repair.origin).asked.round_ns(repair.ask, self.host.now_ns)
        if round_ns is not None:
            self.pacing.answered(source, round_ns)
        self.accept(repair.origin, repair.data, again=True)

    def send_nak(self, stream: Stream, longest_ns: int = LONGEST_NS, target: SiteId | None = None) -> None:
        """Ask for what is missing and not on its way, as far as there is room for it.

        `longest_ns` cuts a wait short that is not over yet.
        """
        origin, now_ns, gaps = stream.origin, self.host.now_ns, stream.gaps()
        if not gaps:
            self.stop_asking(stream)
            return
        due, vain = stream.asked.due(self.near(stream, gaps), now_ns, longest_ns)
        if due:
            if origin in vain:  # another may have nothing for us: it is the origin's answer that counts
                self.pacing.in_vain(origin)
            if target is None:
                target = self.whom_to_ask(stream)
                stream.tries += 1
            most = min(self.options.repair_max, count(due))
            missing = stream.asked.due(gaps, now_ns, longest_ns)[0]
            wait_ns = self.pacing.wait_ns(target, self.paths.round_ns(target))
            ask = stream.asked.note(first_of(due, most), target, now_ns, wait_ns, longest_ns)
            self.send((target,), Nak(origin, missing, most, ask))
        due_ns = stream.asked.due_ns(now_ns)
        self.set_nak(stream, max(self.pacing.delay_ns(origin), due_ns - now_ns), patient=True)

    def stop_asking(self, stream: Stream) -> None:
        stream.asking = stream.patient = False
        stream.asked.runs.clear()
        self.gapped.pop(stream.origin, None)

    def whom_to_ask(self, stream: Stream) -> SiteId:
        """The nearest of those known to have more; every second time without progress the origin.

        Or, where that is the nearest, the next: what another has may not be for us, and an origin may be cut off.
        """
        origin, place = stream.origin, self.index[stream.origin]
        holders = [site for site in self.others if site == origin or self.acked.of(site, place) > stream.received]
        nearest, *more = sorted(holders, key=self.distance_ns)
        if stream.tries % 2 == 0:
            return nearest
        return more[0] if nearest == origin and more else origin

    def distance_ns(self, site: SiteId) -> int:
        """The round trip to a site, or what is assumed as long as none was seen."""
        return self.pacing.round_ns(site, self.paths.round_ns(site))

    def ask_nearer(self, holder: SiteId) -> None:
        """Ask a member that is now known to have what is missing, where its answer would come first by far."""
        answer_ns = self.host.now_ns + 2 * self.distance_ns(holder)
        for stream in list(self.gapped.values()):
            has_more = self.acked.of(holder, self.index[stream.origin]) > stream.received
            if has_more and stream.patient and answer_ns < stream.asked.due_ns(answer_ns):
                self.send_nak(stream, 0, holder)

    def near(self, stream: Stream, gaps: Gaps) -> Gaps:
        """What there is room for: a frame may take the place of one held that is further ahead, if that can be."""
        if self.fifo:
            return near(gaps, sorted(stream.held), self.options.hold_max)
        return near(gaps, (), self.options.hold_max - len(stream.held))

    def on_nak(self, source: SiteId, nak: Nak) -> None:
        """Send again what was asked for, but for what was sent again within a round trip and for what is deferred."""
        stream, path = self.open(nak.origin), self.paths.to(source)
        if path is None:
            raise RemoteError(f"site {source} asks for frames, outside view {self.view.view_id}")
        own, now_ns = nak.origin == self.host.site, self.host.now_ns
        round_ns = path.window.base_ns or round(self.options.nak_retry_ms * 5e5)
        recent = path.repairs_since(now_ns - round_ns, nak.origin)
        for data in stream.kept_for(source, nak.gaps, min(nak.most, self.options.repair_max)):
            size = frame_bytes(data)
            if data.seq in recent:
                continue
            if own and data.seq > self.last_sent(path):
                break
            if not path.note_repair(nak.origin, data.seq, size, now_ns):
                break
            if own:
                path.window.repaired += size
            self.send((source,), Repair(nak.origin, data, nak.ask))

    # Acknowledgements

    def send_ack(self) -> None:
        self.ack_left = self.options.ack_every
        self.collect()
        self.send(self.others, Ack(self.received(), self.stable()))

    def on_ack(self, source: SiteId, ack: Ack) -> None:
        super().on_ack(source, ack)
        if self.gapped:
            self.ask_nearer(source)

    def on_status(self, source: SiteId, status: Status) -> None:
        stream = self.open(source)
        self.release(stream, status.stable)
        stream.top = max(stream.top, status.top)
        self.send((source,), Ack(self.received(), self.stable(), status.ask, stream.arrived if status.ask else 0))
        if stream.received < stream.top:
            if stream.patient:  # the origin is there, and it alone is sure to have what is for us: no long back-off
                self.send_nak(stream, self.pacing.urgent_ns(source, self.paths.round_ns(source)), source)
            else:
                self.ask_later(stream)

    def timer(self, key: int) -> None:
        if key == ACK:
            self.ack_armed = False
            if self.ack_left < self.options.ack_every:
                self.send_ack()
        elif key == STATUS:
            self.send_status()
        elif key == PROBE:
            self.probe()
        else:
            self.send_nak(self.streams[SiteId(key - NAK)])

    # View change

    def unstable(self, origin: SiteId) -> Mapping[int, Message]:
        return self.open(origin).kept

    def freeze(self) -> None:
        super().freeze()
        self.ack_armed = False
        self.gapped.clear()

    def drop_held(self) -> None:
        for stream in self.streams.values() if self.fifo else ():
            stream.held.clear()

    def frames(self, origin: SiteId) -> Mapping[int, Data[Any]]:
        return self.open(origin).frames()

    def holding(self, origin: SiteId) -> tuple[int, list[int], list[int]]:
        stream = self.open(origin)
        return stream.holding(self.stable() if stream is self.own else stream.stable)

    def absorb(self, origin: SiteId, frame: Message, over_gap: bool = False) -> bool:
        assert isinstance(frame, Data)
        if frame.targets and self.host.site not in frame.targets:
            return True
        stream = self.open(origin)
        prev = frame.prev(self.host.site, self.view.members)
        if over_gap and prev > stream.received:
            stream.received = prev
            stream.held.pop(prev, None)  # the frame itself may wait here behind that gap
        self.accept(origin, frame)
        return frame.seq <= stream.received or (not self.fifo and prev in stream.held)
