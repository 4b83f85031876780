"""A transport of channels: each neighbour has its own, with its own numbers, acknowledgements and window.

Problem: the group transport acknowledges with a vector to all (n^2 counters per period), which would defeat a protocol
that sends along log n links. Here a message is for neighbours only, and so are its acknowledgements.

Idea: one reliable FIFO channel per neighbour and direction (channel.py), made on first use. Messages submitted in one
turn for a neighbour leave as one frame, up to `host.frame_bytes`. An acknowledgement is due after
`ack_every` frames or `ack_period_ms`, at once where the sender asks or repeats, and soon where there is a gap; frames
of the other direction carry it where they leave first. An unacknowledged frame is repeated after a round trip
(pacing.py) and that period, then with backoff: the peer may have crashed, which is for the membership to decide.

With views, channels begin anew in each: a port lets no frame of another view through. Without (`free`), frames pass
whatever the views are, and name the lives of their sender and receiver: one of an earlier life is dropped, one of a new
life begins a new channel.

Invariants: messages submitted for a peer are delivered there once and in order, as long as both live; nothing is sent
while blocked or frozen.

Bounds: `keep_max` frames and `keep_max_bytes` per channel, then `writable` is false. Forwarded messages cannot wait
for that; their authors do. `hold_max` frames wait for a gap.
"""

from __future__ import annotations

from collections.abc import Sequence

from isthmus.core.errors import LocalError, RemoteError
from isthmus.core.layer import Handler, View
from isthmus.core.message import ALL, Batch, Cast, Message, SiteId, Targets
from isthmus.protocols.transport.base import Transport, cut
from isthmus.protocols.transport.links.channel import Frame, FreeAck, FreeFrame, Inbound, LinkAck, Outbound
from isthmus.protocols.transport.reliable.congestion import Window
from isthmus.protocols.transport.reliable.frames import ReliableOptions
from isthmus.protocols.transport.reliable.pacing import Gaps, Pacing

RESEND, ACK = 0, 1  # timer keys: RESEND + 2 * peer, ACK + 2 * peer
LONGEST_NS = 2_000_000_000  # between two tries, unless a round trip takes longer
LIFE_BITS = 32  # of an incarnation in `lives`; live they are seconds of the calendar


class Links(Transport):
    """Sends to neighbours, reliably and in order."""

    __slots__ = (
        "deaf",
        "ended",
        "free",
        "frozen",
        "full",
        "gathered",
        "inbound",
        "life_of",
        "options",
        "outbound",
        "pacing",
    )

    def __init__(self, options: ReliableOptions | None = None, free: bool = False) -> None:
        super().__init__()
        self.options = options or ReliableOptions()
        self.free = free  # channels outlive views
        self.pacing = Pacing(self.options.nak_retry_ms, self.options.nak_delay_ms)
        self.full = False  # `writable` returned False; `resume` is owed
        self.frozen = False
        self.deaf = False  # frames are dropped as if they had been lost: the layer above has no room yet
        self.life_of: dict[SiteId, int] = {}  # of peers, where channels outlive views
        self.ended: dict[SiteId, int] = {}  # the last ended life of a peer: late frames of it are dropped
        self.reset()

    def reset(self) -> None:
        self.outbound: dict[SiteId, Outbound] = {}
        self.inbound: dict[SiteId, Inbound] = {}
        self.gathered: dict[SiteId, list[Message]] = {}  # submitted in this turn, by target

    def handlers(self) -> dict[type[Message], Handler]:
        if self.free:
            return {FreeFrame: self.on_frame, FreeAck: self.on_ack}
        return {Frame: self.on_frame, LinkAck: self.on_ack}

    def timer_name(self, key: int) -> str:
        return f"{type(self).__name__}.{'ack' if key % 2 else 'resend'}_{key // 2}"

    # Views

    def install(self, view: View) -> None:
        super().install(view)
        if self.free:
            return
        self.stop_timers()
        self.frozen = False
        self.reset()

    def freeze(self) -> None:
        self.end_turn()
        self.block()
        self.frozen = True
        self.stop_timers()

    def stop_timers(self) -> None:
        for peer in self.outbound:
            self.host.cancel_timer(self, RESEND + 2 * peer)
        for peer in self.inbound:
            self.host.cancel_timer(self, ACK + 2 * peer)

    # Lives, where channels outlive views

    def meet(self, peer: SiteId, life: int) -> None:
        """Note the life of a peer; a channel with an earlier one is forgotten."""
        if self.life_of.get(peer) != life:
            self.forget(peer)
            self.life_of[peer] = life

    def end(self, peer: SiteId, life: int) -> None:
        """Note that a life of a peer is over."""
        self.ended[peer] = max(life, self.ended.get(peer, -1))
        self.forget(peer)

    def forget(self, peer: SiteId) -> None:
        """Drop the channels to and from a peer."""
        self.host.cancel_timer(self, RESEND + 2 * peer)
        self.host.cancel_timer(self, ACK + 2 * peer)
        for table in (self.outbound, self.inbound, self.gathered, self.life_of):
            table.pop(peer, None)
        self.notify()

    def lives(self, peer: SiteId) -> int:
        return self.host.incarnation << LIFE_BITS | self.life_of[peer] if self.free else 0

    def is_for_us(self, source: SiteId, lives: int) -> bool:
        """Whether a packet is between the present lives; one of a peer's new life begins its channel."""
        if not self.free:
            if source not in self.view.members:
                raise RemoteError(f"a frame of site {source}, which is not in view {self.view.view_id}")
            return True
        life, ours = lives >> LIFE_BITS, lives & ((1 << LIFE_BITS) - 1)
        if ours != self.host.incarnation or life < self.life_of.get(source, 0) or life <= self.ended.get(source, -1):
            return False
        self.meet(source, life)
        return True

    # Sending

    def writable(self) -> bool:
        room = all(map(self.has_room, self.outbound.values()))
        self.full |= not room
        return room and not self.blocked

    def has_room(self, out: Outbound) -> bool:
        return out.backlog < self.options.keep_max and out.size < self.options.keep_max_bytes

    def settled(self) -> bool:
        return not self.gathered and not any(out.backlog for out in self.outbound.values())

    def lagging(self) -> Targets:
        return tuple(peer for peer, out in self.outbound.items() if out.backlog)

    def submit(self, message: Message, targets: Targets = ALL) -> None:
        if not targets or self.host.site in targets:
            raise LocalError(f"links carry messages to neighbours, not to {targets or 'all'}")
        if self.blocked and not self.free:
            return
        for peer in targets:
            self.gathered.setdefault(peer, []).append(message)
        self.host.turn_due = True

    def submit_all(self, casts: Sequence[Cast]) -> None:
        for cast in casts:
            self.submit(cast, cast.destinations)

    def end_turn(self) -> None:
        if not self.gathered:
            return
        gathered, self.gathered = self.gathered, {}
        for peer, bodies in gathered.items():
            out = self.outbound.get(peer)
            if out is None:
                out = self.outbound[peer] = Outbound(peer, Window(self.options.keep_max_bytes))
            for part in cut(bodies, self.host.frame_bytes):
                out.offer(part[0] if len(part) == 1 else Batch(tuple(part)))
            self.pump(out)

    def pump(self, out: Outbound) -> None:
        """Send the waiting frames that the window has room for."""
        idle = not out.unacked
        while (found := out.next(self.host.now_ns)) is not None:
            self.send_frame(out.peer, *found)
        if idle and out.unacked:
            self.arm_resend(out)

    def send_frame(self, peer: SiteId, seq: int, body: Message, ask: bool) -> None:
        received = 0
        inbound = self.inbound.get(peer)
        if inbound is not None and not inbound.held:
            received = inbound.received
            if inbound.due_count:
                inbound.answered()
                self.host.cancel_timer(self, ACK + 2 * peer)
        kind = FreeFrame if self.free else Frame
        self.send((peer,), kind(seq, body, received, ask, self.lives(peer)))

    def arm_resend(self, out: Outbound) -> None:
        round_ns = out.window.round_ns
        wait_ns = min(self.pacing.wait_ns(out.peer, round_ns), max(LONGEST_NS, 2 * round_ns))
        self.host.set_timer(self, RESEND + 2 * out.peer, wait_ns + round(self.options.ack_period_ms * 1e6))

    def resend(self, out: Outbound) -> None:
        """Send the first frame again; its answer reports other gaps, or has the next frames repeated."""
        if self.frozen or not out.unacked:
            return
        self.pacing.in_vain(out.peer)
        out.quiet_count += 1
        if out.quiet_count > 1:  # once, a frame or its acknowledgement was lost
            out.window.timed_out(out.floor())
        out.doubt()
        first = next(iter(out.unacked))
        self.send_again(out, [first])
        self.arm_resend(out)

    def send_again(self, out: Outbound, seqs: Sequence[int]) -> None:
        """Send frames again; the last one asks for an answer."""
        for seq in seqs:
            body = out.again(seq, self.host.now_ns)
            assert body is not None
            self.send_frame(out.peer, seq, body, ask=seq == seqs[-1])

    # Receiving

    def on_frame(self, source: SiteId, frame: Frame[Message]) -> None:
        if self.deaf or not self.is_for_us(source, frame.lives):
            return
        if frame.seq < 1:
            raise RemoteError(f"frame {frame.seq} of site {source}: numbers begin at 1")
        self.check_body(source, frame.body)
        if frame.received:
            self.note_ack(source, frame.received)
        inbound = self.inbound.get(source)
        if inbound is None:
            inbound = self.inbound[source] = Inbound()
        again = frame.seq <= inbound.received
        for body in inbound.take(frame.seq, frame.body, self.host.now_ns, self.options.hold_max):
            if isinstance(body, Batch):
                self.hand_up_batch(source, body.bodies)
            else:
                self.hand_up(source, body)
        if self.inbound.get(source) is inbound:
            self.owe_ack(source, inbound, at_once=frame.ask or again)

    def owe_ack(self, source: SiteId, inbound: Inbound, at_once: bool) -> None:
        """Acknowledge what came, now or by a timer."""
        if self.frozen:
            return
        if at_once or inbound.due_count >= self.options.ack_every:
            self.send_ack(source, inbound)
        elif inbound.due_count == 1 or inbound.held:
            wait_ms = self.options.nak_delay_ms if inbound.held else self.options.ack_period_ms
            elapsed_ns = self.host.now_ns - inbound.came_ns
            self.host.set_timer(self, ACK + 2 * source, max(0, round(wait_ms * 1e6) - elapsed_ns))

    def send_ack(self, peer: SiteId, inbound: Inbound) -> None:
        seq, came_ns = inbound.answered()
        self.host.cancel_timer(self, ACK + 2 * peer)
        kind = FreeAck if self.free else LinkAck
        waited_ns = self.host.now_ns - came_ns
        self.send((peer,), kind(inbound.received, inbound.gaps(), seq, waited_ns, self.lives(peer)))

    def on_ack(self, source: SiteId, ack: LinkAck) -> None:
        if not self.is_for_us(source, ack.lives):
            return
        out = self.outbound.get(source)
        if out is None or ack.received > out.seq or any(last > out.seq for _, last in ack.gaps):
            raise RemoteError(f"site {source} acknowledges frames that were never sent")
        now_ns = self.host.now_ns
        round_ns = out.sample(ack.seq, ack.waited_ns, now_ns)
        if round_ns is not None:
            self.pacing.answered(source, round_ns)
            arrived = sum(sent.size for seq, sent in out.unacked.items() if seq <= ack.received)
            out.window.answered(now_ns, now_ns - round_ns, arrived, out.in_flight, out.floor())
        if ack.gaps:
            out.doubted = 0  # the receiver reports what is missing
        self.repeat(out, ack.received, ack.gaps)
        self.note_ack(source, ack.received)

    def repeat(self, out: Outbound, received: int, gaps: Gaps) -> None:
        """Send missing frames again, except those sent within a round trip."""
        if self.frozen:
            return
        since_ns = self.host.now_ns - self.pacing.round_ns(out.peer, out.window.round_ns)
        found = []
        for first, last in gaps:
            for seq in range(max(first, received + 1), last + 1):
                sent = out.unacked.get(seq)
                if sent is not None and sent.sent_ns <= since_ns:
                    found.append(seq)
                    if len(found) == self.options.repair_max:
                        break
            else:
                continue
            break
        self.send_again(out, found)

    def note_ack(self, source: SiteId, received: int) -> None:
        out = self.outbound.get(source)
        if out is None or received > out.seq:
            raise RemoteError(f"site {source} acknowledges frames that were never sent")
        if not out.acknowledge(received):
            return
        if self.frozen:
            return
        self.repeat(out, received, out.doubtful(self.options.repair_max))
        self.pump(out)
        if out.unacked:
            self.arm_resend(out)
        else:
            self.host.cancel_timer(self, RESEND + 2 * source)
        self.notify()

    def notify(self) -> None:
        """Resume the layers above if there is room again."""
        if self.full and not self.blocked and all(map(self.has_room, self.outbound.values())):
            self.full = False
            self.above.resume()

    def timer(self, key: int) -> None:
        peer = SiteId(key // 2)
        if key % 2 == ACK:
            inbound = self.inbound[peer]
            if inbound.due_count or inbound.held:
                self.send_ack(peer, inbound)
                if inbound.held:  # repeat it in case the repairs are lost
                    self.host.set_timer(self, ACK + 2 * peer, round(self.options.ack_period_ms * 1e6))
        else:
            self.resend(self.outbound[peer])
