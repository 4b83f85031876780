"""The sending half of the reliable transport: numbers, windows, and what is stable.

A turn's messages become frames. A frame is kept until it is stable, and leaves at once for the targets whose paths have
room (paths.py); for the others it is deferred, and follows when an answer makes room. Members are asked what has
arrived as frames are sent; where that stops, because a path is full and answers were lost, the probe timer asks. The
status timer asks all who have not acknowledged what they were sent a period ago.

A frame that goes to all costs one comparison with the budget of the paths, as long as none of them is near its window.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from isthmus.core.errors import RemoteError
from isthmus.core.layer import View, places
from isthmus.core.message import ALL, Batch, Cast, Message, SiteId, Targets
from isthmus.protocols.transport.base import Transport, cut
from isthmus.protocols.transport.reliable.frames import FRAME_BYTES, Ack, Data, ReliableOptions, Status, Stream
from isthmus.protocols.transport.reliable.outgoing import Outgoing
from isthmus.protocols.transport.reliable.paths import Path, Paths
from isthmus.protocols.transport.reliable.stability import Stability

ACK, STATUS, PROBE, NAK = 0, 1, 2, 3  # timer keys; NAK + site for each origin
NOTHING = Stream(SiteId(-1))  # of a member of which nothing has come
DOUBLINGS_MAX = 2  # of the status period, while nobody answers


class Sender(Transport):
    """Numbers frames, sends them as paths take them, and drops them when they are stable."""

    __slots__ = (
        *(
            "acked",
            "fifo",
            "frozen",
            "full",
            "gathered",
            "gathered_bytes",
            "index",
            "kept_bytes",
            "options",
            "others",
            "out",
        ),
        *("own", "paths", "place", "probe_armed", "quiet_count", "status_armed", "streams"),
    )

    def __init__(self, options: ReliableOptions | None, fifo: bool) -> None:
        super().__init__()
        self.options = options or ReliableOptions()
        self.fifo = fifo
        self.streams: dict[SiteId, Stream] = {}  # of the members of which something has come
        self.own = Stream(SiteId(-1))  # what this site sent itself
        self.others: Targets = ()
        self.place = 0  # of this site in the view
        self.full = False  # `writable` said no; `resume` is owed
        self.frozen = False  # until the next view nothing is sent, acknowledged or asked for
        self.reset()

    def reset(self) -> None:
        members = self.view.members
        self.index = places(members)
        self.out = Outgoing(members)
        self.paths = Paths(self.others, self.options.keep_max_bytes)
        self.acked = Stability(members)
        self.gathered: list[tuple[Targets, list[Message]]] = []  # submitted in this turn, to whom
        self.gathered_bytes = 0
        self.kept_bytes = 0  # of our own frames
        self.status_armed = self.probe_armed = False
        self.quiet_count = 0  # ticks of the status timer since the last progress of a laggard

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
        self.status_armed = self.probe_armed = False
        for stream in self.streams.values():
            stream.asking = stream.patient = False

    # What is submitted

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
        """Whether less is kept and gathered than may be; each of what is gathered becomes a frame, or a few."""
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

    # What leaves

    def multicast(self, body: Message, targets: Targets) -> None:
        """Send a body to members, as the next frame."""
        own, paths = self.own, self.paths
        size = FRAME_BYTES + body.payload_bytes()
        limited = size > paths.budget and self.is_limited(size)
        data = self.out.frame(body, targets)
        own.kept[data.seq] = data  # also where it does not come back to us: others may ask for it
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
        """Whether some path may lack room, or is to be asked what has arrived; first learns from all Acks so far."""
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
        """Send what was deferred on a path, in order, as far as there is room."""
        if self.blocked:
            return
        while (number := self.paths.next_deferred(path)) is not None:
            data = self.own.kept.get(number)
            if data is not None:
                self.send((path.site,), data)
            self.ask_in_time(path)  # between the frames, so that answers come as the frames arrive
        self.ask_in_time(path)  # also where the next frame does not fit: an answer must make room for it

    def ask_in_time(self, path: Path) -> None:
        if path.until_ask(self.paths.sent(path)) <= 0:
            self.ask([path])

    def ask(self, paths: Sequence[Path]) -> None:
        """Tell members how far our stream goes for them, and ask what has arrived."""
        if not paths:
            return
        if self.acked.news:  # a receiver without room waits for word of what is stable; our next Ack may never be due
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
        """Ask those again that hold something up and do not answer; where that goes on, send them less."""
        now_ns = self.host.now_ns
        silent = [path for path in self.paths.limited() if now_ns >= path.asked_ns + path.wait_ns()]
        for path in silent:
            path.quiet_count += 1
            if path.quiet_count > 1:  # once, a question or its answer was lost
                path.window.timed_out(self.paths.floor(self.out.seq))
        self.ask(silent)
        self.arm_probe()

    def send_status(self) -> None:
        """Tell those who have not acknowledged what they were sent a period ago how far the stream goes."""
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

    # What is stable

    def received(self) -> tuple[int, ...]:
        streams, nothing = self.streams, NOTHING
        return tuple([streams.get(site, nothing).received for site in self.view.members])

    def stable(self) -> int:
        """Every own frame up to this number is stable."""
        return next(iter(self.own.kept), self.out.seq + 1) - 1  # they are in order of numbers

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
            self.acked.note(self.host.site, self.received())
            self.kept_bytes -= self.acked.collect(self.place, self.own.kept)

    def release(self, stream: Stream, stable: int) -> None:
        if not self.blocked:
            stream.release(stable, self.fifo)
