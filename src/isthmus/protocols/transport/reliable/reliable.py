"""Reliable multicast over a network that loses, repeats, reorders, and carries only so much.

Problem: every member of a view must deliver the same messages, each once, those of one sender in the order sent, while
packets are lost, paths are full and buffers stay bounded.

Idea: each sender numbers its frames 1, 2, 3 ... in each view. A frame names the number of the frame before it *that
went to the same receiver*, so that multicasts to subsets leave no false gaps; where that is simply the previous number,
for all receivers, the field is empty. A receiver that sees a gap requests it (`Nak`), first from the origin, then from
any member known to have it. Members tell each other what they have (`Ack`, a vector); a frame that all its targets have
is *stable*: its origin drops it and announces that to the others, which kept it to repair on its behalf. A sender whose
frames stay unacknowledged announces its last number (`Status`), which finds a lost last frame and a lost
acknowledgement alike.

The frame is the unit of transport: one number, one entry to keep, to acknowledge and to request. Messages submitted in
one turn to the same targets leave as one frame, up to `host.frame_bytes`. A frame is kept until it is stable. A frame
that goes to all costs one comparison with the budget of the paths, as long as none of them is near its window.

Each path has a window (paths.py, congestion.py): a frame leaves at once for the targets whose paths have room, and is
deferred for the others until acknowledgements make some. A request asks for no more than there is room for, and not
for what is on its way (pacing.py).

Invariants:
- received is the highest number such that every earlier frame of that origin to this site was delivered;
- held is keyed by the number *before* a frame, so the next frame to deliver is held[received];
- a frame stays in kept from when it is sent, deferred or delivered until it is stable: survivors can repair for a dead
  origin, and a flush gives deferred frames to all;
- a Status names the last frame that was sent to its receiver, not one that is deferred: no receiver requests those;
- between two turns nothing is gathered;
- numbers start anew in every view, after a flush, and so do windows; a port lets no frame of another view through.

Bounds: `keep_max` own unstable frames, `keep_max_bytes` in bytes, then `writable` is false and flow control waits;
twice as many of another origin, then its frames are refused until it announces what is stable; `hold_max` frames ahead
of a gap per origin, then the furthest are dropped and requested again later; `repair_max` frames answer one Nak, and
the window of the path bounds the repairs of a round trip.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from isthmus.core.errors import RemoteError
from isthmus.core.layer import Handler, Kind, View, places
from isthmus.core.message import ALL, Batch, Cast, Message, SiteId, Targets
from isthmus.protocols.transport.base import PLAIN, Transport, cut
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
from isthmus.protocols.transport.reliable.outgoing import Outgoing
from isthmus.protocols.transport.reliable.pacing import LONGEST_NS, Gaps, Pacing, count, first_of, near
from isthmus.protocols.transport.reliable.paths import Path, Paths
from isthmus.protocols.transport.reliable.stability import Stability

ACK, STATUS, PROBE, NAK = 0, 1, 2, 3  # timer keys; NAK + site for each origin
NOTHING = Stream(SiteId(-1))  # of a member of which nothing has come
DOUBLINGS_MAX = 2  # of the status period, while no answer comes


class Reliable(Transport):
    """Numbers, repairs and acknowledges; delivers in each origin's order, or on arrival where `fifo` is false."""

    __slots__ = (
        "ack_armed",
        "ack_left",
        "ack_share",
        "acked",
        "at_once",
        "fifo",
        "frozen",
        "full",
        "gapped",
        "gathered",
        "gathered_bytes",
        "index",
        "keep_most",
        "kept_bytes",
        "options",
        "others",
        "out",
        "own",
        "pacing",
        "paths",
        "place",
        "plain",
        "probe_armed",
        "quiet_count",
        "status_armed",
        "streams",
    )
    timer_names = ("ack", "status", "probe", "nak_")

    def __init__(self, options: ReliableOptions | None = None, fifo: bool = True) -> None:
        super().__init__()
        self.options = options or ReliableOptions()
        self.fifo = fifo
        self.ack_share = max(1, self.options.ack_every_bytes // self.options.ack_every)  # bytes that count as a frame
        self.keep_most = 2 * self.options.keep_max  # frames of another origin
        self.at_once = True  # a frame is delivered when it is taken
        self.plain: dict[type[Message], Handler] = {}  # bodies without author and payload: nothing to check or count
        self.pacing = Pacing(self.options.nak_retry_ms, self.options.nak_delay_ms)
        self.streams: dict[SiteId, Stream] = {}  # of the members of which something has come
        self.own = Stream(SiteId(-1))  # what this site sent itself
        self.others: Targets = ()
        self.place = 0  # of this site in the view
        self.full = False  # `writable` returned False; `resume` is owed
        self.frozen = False  # until the next view nothing is sent, acknowledged or requested
        self.reset()

    def reset(self) -> None:
        """Begin with the numbers, windows and acknowledgements of a new view."""
        members = self.view.members
        self.index = places(members)
        self.out = Outgoing(members)
        self.paths = Paths(self.others, self.options.keep_max_bytes)
        self.acked = Stability(members)
        self.gathered: list[tuple[Targets, list[Message]]] = []  # submitted in this turn, with their targets
        self.gathered_bytes = 0
        self.kept_bytes = 0  # of this site's own frames
        self.status_armed = self.probe_armed = self.ack_armed = False
        self.quiet_count = 0  # ticks of the status timer since the last progress of a laggard
        self.ack_left = self.options.ack_every  # frames, or their share of bytes, that may come before an Ack is due
        self.gapped: dict[SiteId, Stream] = {}  # the streams of which something is requested

    def handlers(self) -> dict[type[Message], Handler]:
        return {Data: self.accept, Repair: self.on_repair, Nak: self.on_nak, Status: self.on_status, Ack: self.on_ack}

    def start(self) -> None:
        """Look up the owners of bodies that name no author and carry no payload."""
        for kind, owner in self.stack.owners.items():
            if kind.subjects is Message.subjects and kind.payload_bytes is Message.payload_bytes:
                self.plain[kind] = owner

    # Submitting

    def writable(self) -> bool:
        if self.blocked:
            return False
        room = self.has_room()
        if not room:
            if self.acked.news:
                self.drop_stable()
                room = self.has_room()
            self.full |= not room  # stays set until `resume`, even if `writable` later returns true
        return room

    def has_room(self) -> bool:
        """Whether kept and gathered messages are within bounds; each gathered message counts as a frame."""
        frames = len(self.own.kept) + len(self.gathered)
        return frames < self.options.keep_max and self.kept_bytes + self.gathered_bytes < self.options.keep_max_bytes

    def submit(self, message: Message, targets: Targets = ALL) -> None:
        if self.blocked:
            return
        self.gathered_bytes += FRAME_BYTES + message.payload_bytes()
        gathered = self.gathered
        if gathered and gathered[-1][0] == targets:
            gathered[-1][1].append(message)
        else:
            gathered.append((targets, [message]))
            self.host.turn_due = True

    def submit_all(self, casts: Sequence[Cast]) -> None:
        if self.blocked:
            return
        self.gathered_bytes += sum([FRAME_BYTES + len(cast.payload) for cast in casts])
        if self.gathered and not self.gathered[-1][0]:
            self.gathered[-1][1].extend(casts)
        else:
            self.gathered.append((ALL, list(casts)))
            self.host.turn_due = True

    def end_turn(self) -> None:
        if not self.gathered:
            return
        gathered, self.gathered, self.gathered_bytes = self.gathered, [], 0
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

    # Sending

    def multicast(self, body: Message, targets: Targets) -> None:
        """Send a body to members, as the next frame."""
        own, paths = self.own, self.paths
        size = FRAME_BYTES + body.payload_bytes()
        limited = size > paths.budget and self.is_limited(size)
        data = self.out.frame(body, targets)
        own.kept[data.seq] = data  # also if it does not come back: others may request it
        self.kept_bytes += size
        paths.budget -= size
        if targets is self.view.members:
            paths.to_all += size
        else:
            paths.count_some(targets, size)
        if limited:
            self.send_where_room(data, size, targets)
        else:
            self.send(targets, data)
        if not self.status_armed and self.others:
            self.status_armed = True
            self.host.set_timer(self, STATUS, round(self.options.status_period_ms * 1e6))

    def is_limited(self, size: int) -> bool:
        """Whether a path may lack room, or its member must be asked what has arrived; first applies all Acks so far."""
        for path in self.paths.all():
            if self.acked.of(path.site, self.place) >= self.last_sent(path):
                path.arrived = self.paths.sent(path)
        self.paths.review()
        return size > self.paths.budget

    def last_sent(self, path: Path) -> int:
        return path.sent if path.deferred else self.out.last(path.site)

    def send_where_room(self, data: Data[Any], size: int, targets: Targets) -> None:
        """Send a frame to the targets whose paths have room; it is deferred for the others."""
        members, paths = self.view.members, self.paths
        admitted = tuple([site for site in targets if paths.admits(site, data, size, members)])
        if admitted:
            self.send(admitted, data)
        self.ask(paths.due())
        paths.review()
        if len(admitted) < len(targets) and not self.probe_armed:
            self.arm_probe()

    def send_deferred(self, path: Path) -> None:
        """Send the deferred frames of a path, in order, as far as there is room."""
        if self.blocked:
            return
        while (number := self.paths.next_deferred(path)) is not None:
            data = self.own.kept.get(number)
            if data is not None:
                self.send((path.site,), data)
            self.ask_in_time(path)  # between the frames, so that answers come as the frames arrive
        self.ask_in_time(path)  # also if the next frame does not fit: an answer must make room for it

    def ask_in_time(self, path: Path) -> None:
        if path.until_ask(self.paths.sent(path)) <= 0:
            self.ask([path])

    def ask(self, paths: Sequence[Path]) -> None:
        """Tell members the last number sent to them, and ask what has arrived."""
        if not paths:
            return
        if self.acked.news:  # a full receiver waits for the stable number; the next Ack may never be due
            self.drop_stable()
        self.paths.ask += 1
        by_top: dict[int, list[SiteId]] = {}
        for path in paths:
            path.note_ask(self.paths.ask, self.paths.sent(path), self.host.now_ns)
            by_top.setdefault(self.last_sent(path), []).append(path.site)
        for top, group in by_top.items():
            self.send(tuple(group), Status(top, self.stable(), self.paths.ask))

    def arm_probe(self) -> None:
        limited = self.paths.limited()
        self.probe_armed = bool(limited)
        if limited:
            due_ns = min([path.asked_ns + path.wait_ns() for path in limited])
            self.host.set_timer(self, PROBE, max(0, due_ns - self.host.now_ns))

    def probe(self) -> None:
        """Ask silent members with deferred frames again; reduce the window of those that stay silent."""
        now_ns = self.host.now_ns
        silent = [path for path in self.paths.limited() if now_ns >= path.asked_ns + path.wait_ns()]
        for path in silent:
            path.quiet_count += 1
            if path.quiet_count > 1:  # once, a question or its answer was lost
                path.window.timed_out(self.paths.floor(self.out.seq))
        self.ask(silent)
        self.arm_probe()

    def send_status(self) -> None:
        """Send a Status to members that have not acknowledged the frames of a period ago."""
        now_ns, late = self.host.now_ns, []
        for path in self.paths.all():
            if self.acked.of(path.site, self.place) < path.mark:
                late.append(path)
            path.mark = self.last_sent(path)
        self.ask([path for path in late if not path.asks or now_ns >= path.asked_ns + path.wait_ns()])
        self.quiet_count = self.quiet_count + 1 if late else 0
        self.status_armed = not self.settled()
        if self.status_armed:
            wait_ms = self.options.status_period_ms * 2 ** min(self.quiet_count, DOUBLINGS_MAX)
            self.host.set_timer(self, STATUS, round(wait_ms * 1e6))

    def settled(self) -> bool:
        return not self.gathered and self.acked.reached(self.place, self.others, self.out.last)

    def lagging(self) -> Targets:
        return tuple([site for site in self.others if self.acked.of(site, self.place) < self.out.last(site)])

    # Receiving

    def accept(self, origin: SiteId, data: Data[Any], again: bool = False) -> None:
        """Take a frame, fresh, late or sent again, and deliver what it completes."""
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
            return  # until its origin's Status names the stable number; then it is requested again
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
        """The stream of a member, made on first use."""
        if origin not in self.index:
            raise RemoteError(f"a message of site {origin}, which is not in view {self.view.view_id}")
        if origin not in self.streams:
            self.streams[origin] = Stream(origin, 2 * self.options.keep_max_bytes)
        return self.streams[origin]

    def owe_ack(self) -> None:
        """Acknowledge what was received, now or by a timer."""
        if self.frozen:
            return
        if not self.others:
            self.collect()  # no acknowledgement will come: what has come back is stable
        elif self.ack_left <= 0:
            self.send_ack()
        else:
            self.ack_armed = True
            self.host.set_timer(self, ACK, round(self.options.ack_period_ms * 1e6))

    def keeps_more(self, stream: Stream) -> bool:
        """Whether one more frame of a stream may be kept; always of this site's own, and in a flush."""
        return stream.has_room(self.keep_most, 2 * self.options.keep_max_bytes) or self.blocked or stream is self.own

    def take(self, stream: Stream, data: Data[Any]) -> None:
        """Take the next frame of a stream."""
        stream.received = data.seq
        stream.kept[data.seq] = data
        self.give(stream, data)

    def give(self, stream: Stream, data: Data[Any]) -> None:
        """Deliver a frame that was taken."""
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
        """The bodies without messages whose number is not new: a peer that repeats one stops nothing above."""
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
        """Deliver the held frames that follow now."""
        while (held := stream.held.pop(stream.received, None)) is not None:
            if self.fifo:
                self.take(stream, held)
            else:
                stream.received = held.seq

    # Repairs

    def note_arrival(self, stream: Stream, seq: int, again: bool) -> None:
        """Learn from a frame that may have been requested: what else is lost, or how late frames can be."""
        if again:
            if stream.asked.overtaken(seq) and stream.patient:
                self.set_nak(stream, self.pacing.delay_ns(stream.origin), patient=False)
            return
        late_ns = stream.asked.late_ns(seq, self.host.now_ns)
        if late_ns is not None:
            self.pacing.came_late(stream.origin, late_ns)

    def note_progress(self, stream: Stream) -> None:
        """Request what is still missing soon, not after the long wait of a late retry."""
        stream.tries = 0
        if stream.received >= stream.top:  # nothing is known to be missing
            self.stop_asking(stream)
            self.host.cancel_timer(self, NAK + stream.origin)
        elif stream.patient:
            self.set_nak(stream, self.pacing.delay_ns(stream.origin), patient=False)

    def hold(self, stream: Stream, prev: int, data: Data[Any]) -> None:
        """Keep a frame that is ahead of a gap, and have the gap requested."""
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
            raise RemoteError(f"site {source} sends a repair of this site's own frame {repair.data.seq}")
        round_ns = self.open(repair.origin).asked.round_ns(repair.ask, self.host.now_ns)
        if round_ns is not None:
            self.pacing.answered(source, round_ns)
        self.accept(repair.origin, repair.data, again=True)

    def send_nak(self, stream: Stream, longest_ns: int = LONGEST_NS, target: SiteId | None = None) -> None:
        """Request what is missing and not on its way, as far as there is room for it.

        `longest_ns` cuts a wait short that is not over yet.
        """
        origin, now_ns, gaps = stream.origin, self.host.now_ns, stream.gaps()
        if not gaps:
            self.stop_asking(stream)
            return
        due, vain = stream.asked.due(self.near(stream, gaps), now_ns, longest_ns)
        if due:
            if origin in vain:  # only the origin's answer counts: another may have no frame for this site
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
        """The nearest member known to have more; every second time without progress the origin.

        Or the next, if the origin is the nearest: frames of others may not be for this site, and an origin may be cut
        off.
        """
        origin, place = stream.origin, self.index[stream.origin]
        holders = [site for site in self.others if site == origin or self.acked.of(site, place) > stream.received]
        nearest, *more = sorted(holders, key=self.distance_ns)
        if stream.tries % 2 == 0:
            return nearest
        return more[0] if nearest == origin and more else origin

    def distance_ns(self, site: SiteId) -> int:
        """The round trip to a site, or the default as long as none was measured."""
        return self.pacing.round_ns(site, self.paths.round_ns(site))

    def ask_nearer(self, holder: SiteId) -> None:
        """Ask a member that is now known to have missing frames, if its answer would come first by far."""
        answer_ns = self.host.now_ns + 2 * self.distance_ns(holder)
        for stream in list(self.gapped.values()):
            has_more = self.acked.of(holder, self.index[stream.origin]) > stream.received
            if has_more and stream.patient and answer_ns < stream.asked.due_ns(answer_ns):
                self.send_nak(stream, 0, holder)

    def near(self, stream: Stream, gaps: Gaps) -> Gaps:
        """The gaps that there is room for: a frame may replace a held one that is further ahead, in FIFO order."""
        if self.fifo:
            return near(gaps, sorted(stream.held), self.options.hold_max)
        return near(gaps, (), self.options.hold_max - len(stream.held))

    def on_nak(self, source: SiteId, nak: Nak) -> None:
        """Send requested frames again, except those repeated within a round trip and those deferred."""
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
        path = self.paths.to(source)
        if path is None or len(ack.received) != len(self.index):
            raise RemoteError(f"an Ack of site {source} that does not fit view {self.view.view_id}")
        sent = self.paths.sent(path)
        if ack.received[self.place] > self.out.seq or ack.arrived > sent:
            raise RemoteError(f"site {source} acknowledges frames that were never sent")
        self.acked.note(source, ack.received)
        if source in self.streams:
            self.release(self.streams[source], ack.stable)
        if ack.ask:
            path.answered(ack.ask, ack.arrived, sent, self.paths.floor(self.out.seq), self.host.now_ns)
        if path.deferred:
            if self.acked.of(source, self.place) >= path.sent:
                path.arrived = sent
            self.send_deferred(path)
        if self.full:  # otherwise there is time until the next Ack of this site
            self.collect()
        if self.gapped:
            self.ask_nearer(source)

    def on_status(self, source: SiteId, status: Status) -> None:
        stream = self.open(source)
        self.release(stream, status.stable)
        stream.top = max(stream.top, status.top)
        self.send((source,), Ack(self.received(), self.stable(), status.ask, stream.arrived if status.ask else 0))
        if stream.received < stream.top:
            if stream.patient:  # the origin is up, and it alone surely has the frames for this site: no long backoff
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

    # Stability

    def received(self) -> tuple[int, ...]:
        streams, nothing = self.streams, NOTHING
        return tuple([streams.get(site, nothing).received for site in self.view.members])

    def stable(self) -> int:
        """Every own frame up to this number is stable."""
        return next(iter(self.own.kept), self.out.seq + 1) - 1  # they are in order of numbers

    def collect(self) -> None:
        """Make room, and resume the layers that wait for it."""
        self.drop_stable()
        if self.full and self.writable():
            self.full = False
            self.above.resume()

    def drop_stable(self) -> None:
        """Drop own frames that all their targets have; not during a flush, which needs the kept frames."""
        if not self.blocked:
            self.acked.note(self.host.site, self.received())
            self.kept_bytes -= self.acked.collect(self.place, self.own.kept)

    def release(self, stream: Stream, stable: int) -> None:
        if not self.blocked:
            stream.release(stable, self.fifo)

    # View change

    def install(self, view: View) -> None:
        super().install(view)
        self.frozen = False
        self.stop_timers()
        self.own = Stream(self.host.site)
        self.streams = {self.host.site: self.own}
        self.others = tuple(site for site in view.members if site != self.host.site)
        self.place = view.members.index(self.host.site)
        self.reset()

    def stop_timers(self) -> None:
        for key in (ACK, STATUS, PROBE, *(NAK + origin for origin in self.streams)):
            self.host.cancel_timer(self, key)

    def freeze(self) -> None:
        self.end_turn()  # what was submitted before belongs to this view
        self.block()
        self.frozen = True
        self.stop_timers()
        self.status_armed = self.probe_armed = self.ack_armed = False
        for stream in self.streams.values():
            stream.asking = stream.patient = False
        self.gapped.clear()

    def unstable(self, origin: SiteId) -> Mapping[int, Message]:
        return self.open(origin).kept

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
