"""Reliable multicast over a network that loses, repeats and reorders.

Problem: every member of a view must hand up the same messages, each once, those of one sender in the order sent,
while packets vanish and buffers stay bounded.

Idea: each sender numbers its frames 1, 2, 3 ... in each view. A frame names the number of the frame before it *that
went to the same receiver*, so that multicasts to subsets leave no false gaps; where that is simply the number before,
for everybody, nothing is said. A receiver that sees a gap asks for it (`Nak`), first of the origin, then of anyone
known to have it. Members tell each other what they have (`Ack`, a vector); a frame that all its targets have is
*stable*: its origin drops it and says so to the others, who kept it to repair on its behalf. A sender whose frames stay
unacknowledged says how far it got (`Status`), which finds a lost last frame and a lost acknowledgement alike.

The frame is the unit of transport: one number, one entry to keep, to acknowledge and to ask for. What is submitted in
one turn to the same targets leaves as one frame, as far as `host.frame_bytes` goes.

Invariants:
- received is the highest number such that every earlier frame of that origin to us was handed up;
- held is keyed by the number *before* a frame, so the next frame to hand up is held[received];
- a frame stays in kept from when it is sent or handed up until it is stable: survivors can repair for a dead origin;
- between two turns nothing is gathered;
- numbers start anew in every view, after a flush; a port lets no frame of another view through.

Bounds: `keep_max` own unstable frames, then `writable` is false and flow control waits; twice as many of another
origin, then its frames are not taken until it tells what is stable; `hold_max` frames ahead of a gap per origin, then
newer ones are dropped and asked for again later; `repair_max` frames answer one Nak.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from isthmus.core.errors import RemoteError
from isthmus.core.layer import Handler, Kind, View
from isthmus.core.message import ALL, Batch, Cast, Message, SiteId, Targets
from isthmus.protocols.transport.base import Transport, cut
from isthmus.protocols.transport.frames import Ack, Data, Nak, ReliableOptions, Repair, Status, Stream
from isthmus.protocols.transport.outgoing import Outgoing
from isthmus.protocols.transport.pacing import Pacing
from isthmus.protocols.transport.stability import Stability

ACK, STATUS, NAK = 0, 1, 2  # timer keys; NAK + site for each origin
DOUBLINGS_MAX = 2  # of the status period, while nobody answers


class Reliable(Transport):
    """Numbers, repairs and acknowledges; hands up in each origin's order, or on arrival where `fifo` is false."""

    __slots__ = (
        *("ack_armed", "acked", "fifo", "full", "gathered", "index", "options", "others", "out", "own", "pacing"),
        *("quiet_count", "status_armed", "streams", "unacked_count"),
    )
    timer_names = ("ack", "status", "nak_")

    def __init__(self, options: ReliableOptions | None = None, fifo: bool = True) -> None:
        super().__init__()
        self.options = options or ReliableOptions()
        self.fifo = fifo
        self.pacing = Pacing(self.options.nak_retry_ms, 2 * self.options.nak_delay_ms)
        self.streams: dict[SiteId, Stream] = {}
        self.own = Stream(SiteId(-1))  # what this site sent itself
        self.full = False  # `writable` said no; `resume` is owed
        self.reset()

    def reset(self) -> None:
        members = self.view.members
        self.index = {site: position for position, site in enumerate(members)}
        self.out = Outgoing(members)
        self.gathered: list[tuple[Targets, list[Message]]] = []  # submitted in this turn, to whom
        self.acked = Stability(members)
        self.unacked_count, self.ack_armed, self.status_armed = 0, False, False
        self.quiet_count = 0  # ticks of the status timer since the last progress of a laggard

    def handlers(self) -> dict[type[Message], Handler]:
        return {Data: self.accept, Repair: self.on_repair, Nak: self.on_nak, Status: self.on_status, Ack: self.on_ack}

    def install(self, view: View) -> None:
        super().install(view)
        for key in (ACK, STATUS, *(NAK + origin for origin, stream in self.streams.items() if stream.asking)):
            self.host.cancel_timer(self, key)
        self.streams = {site: Stream(site) for site in view.members}
        self.own = self.streams[self.host.site]
        self.others = tuple(site for site in view.members if site != self.host.site)
        self.reset()

    # Sending

    def writable(self) -> bool:
        if self.blocked:
            return False
        taken = len(self.gathered)  # each becomes a frame, or a few
        room = len(self.own.kept) + taken < self.options.keep_max
        if not room:
            self.drop_stable()
            room = len(self.own.kept) + taken < self.options.keep_max
            self.full |= not room  # stays set until `resume`, even if `writable` later returns true
        return room

    def submit(self, message: Message, targets: Targets = ALL) -> None:
        if self.blocked:
            return
        gathered = self.gathered
        if gathered and gathered[-1][0] == targets:
            gathered[-1][1].append(message)
        else:
            gathered.append((targets, [message]))
            self.host.turn_due = True

    def submit_all(self, casts: Sequence[Cast]) -> None:
        if self.gathered and not self.gathered[-1][0]:
            self.gathered[-1][1].extend(casts)
        elif not self.blocked:
            self.gathered.append((ALL, list(casts)))
            self.host.turn_due = True

    def end_turn(self) -> None:
        if not self.gathered:
            return
        gathered, self.gathered = self.gathered, []
        for targets, bodies in gathered:
            if targets:
                targets = tuple(site for site in targets if site in self.index)
                if not targets:
                    continue
            else:
                targets = self.view.members
            if len(bodies) == 1:
                self.multicast(bodies[0], targets)
            else:
                for part in cut(bodies, self.host.frame_bytes):
                    self.multicast(part[0] if len(part) == 1 else Batch(tuple(part)), targets)

    def multicast(self, body: Message, targets: Targets) -> None:
        """Send a body to members, as the next frame."""
        data = self.out.frame(body, targets)
        own = self.own
        own.kept[data.seq] = data  # also where it does not come back to us: others may ask for it
        own.top = data.seq
        self.send(targets, data)
        if not self.status_armed and self.others:
            self.status_armed = True
            self.host.set_timer(self, STATUS, round(self.options.status_period_ms * 1e6))

    def accept(self, origin: SiteId, data: Data[Any]) -> None:
        """Take a frame, fresh, late, repeated or repaired, and hand up what it completes."""
        stream = self.streams.get(origin)
        if stream is None:
            raise RemoteError(f"a frame of site {origin}, which is not in view {self.view.view_id}")
        seq, body = data.seq, data.body
        prev = data.prev(self.host.site, self.view.members) if data.prevs or data.targets else seq - 1
        if seq <= stream.received or prev in stream.held:
            return
        if type(body) is not Cast or body.sender != origin:
            self.check_body(origin, body)
        if prev != stream.received:
            if prev < stream.received:
                raise RemoteError(f"frame {seq} of site {origin} says it follows {prev}, not {stream.received}")
            self.hold(stream, prev, data)
            return
        if len(stream.kept) >= 2 * self.options.keep_max and not self.blocked and stream is not self.own:
            return  # until its origin's Status says what is stable; then it is asked for again
        self.take(stream, data)
        if stream.held:
            self.take_held(stream)
        if stream.received > stream.top:
            stream.top = stream.received
        if stream.tries:
            self.note_progress(stream)
        self.unacked_count += 1
        if not self.others:
            self.collect()  # nobody will acknowledge anything: what has come back is stable
        elif self.unacked_count >= self.options.ack_every:
            self.send_ack(self.others)
        elif not self.ack_armed:
            self.ack_armed = True
            self.host.set_timer(self, ACK, round(self.options.ack_period_ms * 1e6))

    def take(self, stream: Stream, data: Data[Any]) -> None:
        """Hand up the next frame of a stream."""
        stream.received = data.seq
        stream.kept[data.seq] = data
        body = data.body
        if type(body) is Cast:
            if self.fifo:
                if body.number <= stream.number:
                    self.host.trace(Kind.REJECT, value=stream.origin)
                    return
                stream.number = body.number
            self.above.deliver(body)
        elif type(body) is Batch:
            self.hand_up_batch(stream.origin, self.fresh(stream, body.bodies) if self.fifo else body.bodies)
        elif not isinstance(body, Cast) or not self.fifo or self.fresh(stream, (body,)):
            self.hand_up(stream.origin, body)

    def fresh(self, stream: Stream, bodies: Sequence[Message]) -> Sequence[Message]:
        """The bodies but for messages whose number is not new: a peer that uses one twice stops nothing above."""
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

    def note_progress(self, stream: Stream) -> None:
        """What is still missing is asked for soon, not after the long wait of a late retry."""
        self.pacing.answered(stream.origin, stream.tries, self.host.now_ns)
        stream.tries, stream.asking = 0, False
        self.host.cancel_timer(self, NAK + stream.origin)
        if stream.received < stream.top:
            self.ask_later(stream, self.options.nak_delay_ms)

    def hold(self, stream: Stream, prev: int, data: Data[Any]) -> None:
        """Keep a frame that is ahead of a gap, and see to it that the gap is asked for."""
        if len(stream.held) < self.options.hold_max and len(stream.kept) < 2 * self.options.keep_max:
            stream.held[prev] = data
            if not self.fifo:
                stream.kept[data.seq] = data
                bodies = data.body.bodies if type(data.body) is Batch else (data.body,)
                self.hand_up_batch(stream.origin, bodies)
        stream.top = max(stream.top, data.seq)
        self.ask_later(stream, self.options.nak_delay_ms)

    def ask_later(self, stream: Stream, delay_ms: float) -> None:
        if not stream.asking:
            stream.asking = True
            self.host.set_timer(self, NAK + stream.origin, round(delay_ms * 1e6))

    def on_repair(self, source: SiteId, repair: Repair[Any]) -> None:
        if source not in self.index:
            raise RemoteError(f"a repair by site {source}, which is not in the view")
        if repair.origin == self.host.site:
            raise RemoteError(f"site {source} sends what it says is our own frame {repair.data.seq}")
        self.accept(repair.origin, repair.data)

    def send_nak(self, stream: Stream) -> None:
        """Ask for what is missing: of the origin, and every second time of someone else who has it."""
        stream.asking = False
        target, gaps = stream.origin, stream.gaps()
        if not gaps:
            return
        if stream.tries % 2 == 1:
            others = [site for site in self.others if site != stream.origin]
            target = self.acked.first_beyond(self.index[target], stream.received, others, target)
        self.send((target,), Nak(stream.origin, gaps))
        wait_ms = self.pacing.wait_ms(stream.origin, stream.tries, self.host.now_ns)
        stream.tries += 1
        self.ask_later(stream, wait_ms)

    def on_nak(self, source: SiteId, nak: Nak) -> None:
        stream = self.streams.get(nak.origin)
        if stream is None or source not in self.index:
            raise RemoteError(f"site {source} asks for frames of site {nak.origin}, outside the view")
        own = nak.origin == self.host.site
        for data in stream.kept_for(source, nak.gaps, self.options.repair_max):
            self.send((source,), data if own else Repair(nak.origin, data))

    # Stability

    def received(self) -> tuple[int, ...]:
        return tuple([stream.received for stream in self.streams.values()])

    def stable(self) -> int:
        """Every own frame up to this number is stable."""
        return next(iter(self.own.kept), self.out.seq + 1) - 1  # they are in order of numbers

    def send_ack(self, targets: Targets) -> None:
        if targets is self.others:
            self.unacked_count = 0
            self.collect()
        self.send(targets, Ack(self.received(), self.stable()))

    def on_ack(self, source: SiteId, ack: Ack) -> None:
        if source not in self.index or len(ack.received) != len(self.index):
            raise RemoteError(f"an Ack of site {source} that does not fit view {self.view.view_id}")
        if ack.received[self.index[self.host.site]] > self.out.seq:
            raise RemoteError(f"site {source} acknowledges frames that were never sent")
        self.acked.note(source, ack.received)
        self.release(self.streams[source], ack.stable)
        if self.full:  # otherwise there is time until our own next Ack
            self.collect()

    def collect(self) -> None:
        """Make room, and tell those who wait for it."""
        self.drop_stable()
        if self.full and self.writable():
            self.full = False
            self.above.resume()

    def drop_stable(self) -> None:
        """Drop our own frames that all their targets have; not during a flush, which counts on what is kept."""
        if not self.blocked:
            own = self.host.site
            self.acked.note(own, self.received())
            self.acked.collect(self.index[own], self.own.kept)

    def release(self, stream: Stream, stable: int) -> None:
        if not self.blocked:
            stream.release(stable, self.fifo)

    def on_status(self, source: SiteId, status: Status) -> None:
        stream = self.streams.get(source)
        if stream is None:
            raise RemoteError(f"a Status of site {source}, which is not in the view")
        self.release(stream, status.stable)
        stream.top = max(stream.top, status.top)
        if stream.received < stream.top:
            self.ask_later(stream, self.options.nak_delay_ms)
        self.send_ack((source,))

    def settled(self) -> bool:
        return not self.gathered and self.acked.reached(self.index[self.host.site], self.others, self.out.last)

    def send_status(self) -> None:
        """Tell those who have not acknowledged what they were sent a period ago how far the stream goes."""
        late = [site for site in self.others if self.acked.of(site, self.index[self.host.site]) < self.out.mark[site]]
        for top, group in self.out.by_last(late).items():
            self.send(tuple(group), Status(top, self.stable()))
        self.quiet_count = self.quiet_count + 1 if late else 0
        self.out.set_marks()
        self.status_armed = not self.settled()
        if self.status_armed:
            wait_ms = self.options.status_period_ms * 2 ** min(self.quiet_count, DOUBLINGS_MAX)
            self.host.set_timer(self, STATUS, round(wait_ms * 1e6))

    def timer(self, key: int) -> None:
        if key == ACK:
            self.ack_armed = False
            if self.unacked_count:
                self.send_ack(self.others)
        elif key == STATUS:
            self.send_status()
        else:
            self.send_nak(self.streams[SiteId(key - NAK)])

    # View change

    def unstable(self, origin: SiteId) -> Mapping[int, Message]:
        return self.streams[origin].kept

    def absorb(self, origin: SiteId, frame: Message, over_gap: bool = False) -> bool:
        assert isinstance(frame, Data)
        if frame.targets and self.host.site not in frame.targets:
            return True
        stream = self.streams[origin]
        prev = frame.prev(self.host.site, self.view.members)
        if over_gap and prev > stream.received:
            stream.received = prev
            stream.held.pop(prev, None)  # the frame itself may wait here behind that gap
        self.accept(origin, frame)
        return frame.seq <= stream.received or (not self.fifo and prev in stream.held)
