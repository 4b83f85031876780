"""The state of a group on its way to members that lack it: taken once, fetched in pieces, over changes of the view.

Problem: a state of megabytes takes longer than a view may last. Members that send all they have block the group; a
transfer that begins anew with each view never ends; the one site that has taken a snapshot may crash half-way.

Idea: the decision that leads to a view names, for each member without the state, a *base* and a *giver*. The giver
takes one snapshot as it installs the base: the state of its layers at once, that of the application through its keeper,
which may take its time. The member first fetches the layers' state, which is small: with it its stack installs the view
and takes part. From then on its keeper holds the deliveries, until the application's state as of the base is here and
restored; then it hands them over. So the view may change meanwhile, any number of times.

Invariants:
- a state is that of one base, and the bytes of one giver: the first answer fixes the digest (SHA-256) of all others, a
  transfer with another digest begins anew, and what is whole is checked;
- a member counts as having the state only once the keeper has restored it;
- what a member has restored it serves, too: one that lacks the base's giver asks all that have the state.

Where no member has the bytes any more, where more is held than the state is worth, or where a state is wrong, the
member is *stranded*: it asks for another view, which becomes its base, each time later (`BACKOFF_MAX`). After
`FAILURES_MAX` wrong states the site stops. A giver whose snapshot fails gives no more, and leaves. If members remain
whose stack is in the view, but none has the application's state, one goes on in the next view with what it has.

Bounds: a snapshot is kept until no member fetches it, or for `VIEWS_KEPT` views; `HELD_MAX_BYTES`, or the size of the
state if that is more, is held; a site has one unanswered request per part; a state is `TOTAL_MAX` bytes at most.

What moves a member (`become` checks the table TRANSITIONS):

| from | event | to |
|---|---|---|
| IDLE | a view is entered without the state | LAYERS |
| LAYERS, STRANDED | the next view is entered, whose base is new | LAYERS |
| LAYERS | the stack has restored its layers; there is no keeper | IDLE |
| LAYERS | the stack has restored its layers; deliveries are held | FETCHING |
| FETCHING, STRANDED, RESTORING | a view is entered that is a new base | FETCHING |
| FETCHING | the application's state is here, with the right digest | RESTORING |
| LAYERS, FETCHING, RESTORING | no member has the base; too much is held; the state is wrong | STRANDED |
| RESTORING | the keeper has restored it | IDLE |
| all | the decision counts this member as one that has the state | IDLE |
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import Enum, auto
from functools import partial
from hashlib import sha256
from typing import Protocol

import msgspec

from isthmus.core.errors import RemoteError
from isthmus.core.layer import Host, Stack, StateKeeper, View
from isthmus.core.message import SiteId, Targets
from isthmus.protocols.membership.home import AgreementOptions, Home
from isthmus.protocols.membership.window import PIECE_BYTES, PieceWindow
from isthmus.protocols.membership.wire import (
    APPLICATION,
    LAYERS,
    VIEWS_KEPT,
    MembershipMessage,
    Proposal,
    StateAsk,
    StatePiece,
    StateTask,
    TransferReport,
)
from isthmus.trace.schema import Gauge

TOTAL_MAX = 1 << 36  # bytes of a plausible state
HELD_MAX_BYTES = 64_000_000
FAILURES_MAX = 3
BACKOFF_MAX = 6  # doublings
HEAD_BYTES = 256  # of a piece's datagram
NO_STATE, SOME_STATE = b"\0", b"\1"  # the first byte of an application's state: there is no keeper, or its bytes follow
LACKING, BEING_TAKEN = 0, -1  # as the total of an answer without a piece
DECODER = msgspec.msgpack.Decoder(tuple[bytes, ...])


class TransferPhase(Enum):
    """How far a member is on its way to the state; the module's docstring has the transitions."""

    IDLE = auto()  # it has the state, or is in no view
    LAYERS = auto()  # lacks the state of the stack's layers
    FETCHING = auto()  # its stack is in the view, deliveries are held; lacks the application's state
    RESTORING = auto()  # the keeper takes it over
    STRANDED = auto()  # cannot get its base: asks for another view


IDLE, IN_LAYERS, FETCHING, RESTORING, STRANDED = TransferPhase
TRANSITIONS: dict[TransferPhase, tuple[TransferPhase, ...]] = {
    IDLE: (IDLE, IN_LAYERS),
    IN_LAYERS: (IDLE, IN_LAYERS, FETCHING, STRANDED),
    FETCHING: (IDLE, FETCHING, RESTORING, STRANDED),
    RESTORING: (IDLE, FETCHING, STRANDED),
    STRANDED: (IDLE, IN_LAYERS, FETCHING),
}


class Member(Protocol):
    """The agreement at this site, as far as a transfer needs it."""

    host: Host
    stack: Stack
    home: Home
    options: AgreementOptions
    view: View
    decision: Proposal | None
    stateful: bool

    def span_ns(self, round_trips: float) -> int: ...
    def send_to(self, targets: Targets, message: MembershipMessage) -> None: ...
    def sources(self) -> Targets: ...  # other members that have the state and are not suspected
    def act(self) -> None: ...
    def install_stack(self) -> None: ...
    def stop(self, why: str) -> None: ...  # leave; the host raises this


class Snapshot(msgspec.Struct, eq=False):
    """The state as of one base, for members that lack it."""

    layers: bytes  # b"": not here
    application: bytes | None  # None: being taken
    since_ns: int
    digests: dict[int, bytes] = {}  # by part

    def part(self, part: int) -> bytes | None:
        return self.layers if part == LAYERS else self.application

    def digest(self, part: int) -> bytes:
        """The digest of a part that is here, calculated once."""
        if part not in self.digests:
            data = self.part(part)
            assert data is not None
            self.digests[part] = sha256(data).digest()
        return self.digests[part]


def assign_givers(
    view: View,
    stateful: Targets,
    reports: Mapping[SiteId, TransferReport],
    couriers: Targets,
    is_near: Callable[[SiteId, SiteId], bool],
) -> tuple[StateTask, ...]:
    """Assign a base and a giver to each member of a new view that lacks the state.

    A base stays as long as a member has its bytes. A giver is in the same cluster where that can be, and the most
    junior; one whose application has no state, a courier, or one that gave a wrong state is the last resort.
    """
    found = []
    for site in view.members:
        if site in stateful:
            continue
        report = reports.get(site, TransferReport())
        keeping = [other for other in view.members if other in reports and report.base in reports[other].kept]
        among = keeping if report.base else []

        def rank(other: SiteId, site: SiteId = site, report: TransferReport = report) -> tuple[bool, bool, bool, bool]:
            gives = other in reports and reports[other].gives
            return (other not in report.avoided, gives, other not in couriers, is_near(site, other))

        giver = max(enumerate(among or stateful), key=lambda one: (rank(one[1]), one[0]))[1]
        found.append(StateTask(site, report.base if among else view.view_id, giver))
    return tuple(found)


class StateTransfer:
    """Gives the state to members that lack it, and fetches it where this site does."""

    __slots__ = (
        "avoided",
        "base",
        "digests",
        "failure_count",
        "giver",
        "gives",
        "has_layers",
        "member",
        "opened_id",
        "parts",
        "phase",
        "retry_ns",
        "snapshots",
        "strand_count",
        "total",
        "waiting",
        "window",
    )

    def __init__(self, member: Member) -> None:
        self.member = member
        self.phase = IDLE
        self.has_layers = False  # the stack has the state of its layers: it follows from view to view
        # Fetched
        self.base = 0  # the view whose state this member fetches; 0: none
        self.giver: SiteId | None = None
        self.digests: dict[int, bytes] = {}  # by part; b"" where no answer has come
        self.parts: dict[int, bytes] = {}  # whole
        self.total = 0  # bytes of the application's state, as far as known
        self.window: PieceWindow[tuple[int, bytes]] = PieceWindow(TOTAL_MAX)  # of parts, each with its digest
        self.avoided: Targets = ()  # givers of wrong states
        self.failure_count = 0  # wrong states
        self.strand_count = 0
        self.retry_ns = 0  # when a stranded member asks for a view
        # Given
        self.gives = True  # no snapshot has failed here
        self.opened_id = 0  # of the last view that the stack resumed in
        self.snapshots: dict[int, Snapshot] = {}  # by base
        self.waiting: dict[tuple[SiteId, int], StateAsk] = {}  # unanswered, by source and part

    def become(self, phase: TransferPhase) -> None:
        assert phase in TRANSITIONS[self.phase], f"a transfer goes from {self.phase} to {phase}"
        self.phase = phase

    @property
    def keeper(self) -> StateKeeper | None:
        return self.member.stack.keeper()

    def report(self) -> TransferReport:
        """What the coordinator of the next view must know."""
        whole = (self.base,) if APPLICATION in self.parts else ()
        base = 0 if self.phase in (IDLE, IN_LAYERS, STRANDED) else self.base
        gives = self.gives and self.keeper is not None
        return TransferReport(self.has_layers, base, (*self.snapshots, *whole), gives, self.avoided)

    def wants_base(self) -> bool:
        """Whether this member needs another view, as its base."""
        return self.phase is STRANDED and self.member.host.now_ns >= self.retry_ns

    # Views

    def enter(self) -> None:
        """Begin, or go on with, the transfer that the decision on a view names for this member."""
        decision, here = self.member.decision, self.member.host.site
        tasks = () if decision is None else decision.transfers
        needed = [task.base for task in tasks]
        oldest = self.member.view.view_id - VIEWS_KEPT
        self.snapshots = {base: kept for base, kept in self.snapshots.items() if base in needed and base >= oldest}
        later = self.member.view.view_id
        self.waiting = {key: ask for key, ask in self.waiting.items() if ask.base in needed or ask.base > later}
        if self.member.stateful:
            return
        if decision is None or here in decision.stateful:
            self.become(IDLE)
            return
        default = StateTask(here, self.member.view.view_id, self.member.view.members[0])
        task = next((task for task in tasks if task.site == here), default)
        if task.base == self.base and self.has_layers:
            self.giver = task.giver
        else:
            self.become(FETCHING if self.has_layers else IN_LAYERS)
            self.base, self.giver, self.total = task.base, task.giver, 0
            self.parts = {}
            self.digests = {part: b"" for part in (LAYERS, APPLICATION) if self.wants(part)}
            self.window = PieceWindow(TOTAL_MAX, min(PIECE_BYTES, self.member.host.frame_bytes - HEAD_BYTES))
            self.ask()

    def wants(self, part: int) -> bool:
        return not self.has_layers if part == LAYERS else self.keeper is not None

    def open(self) -> None:
        """Restore the layers' state if it was fetched, hold deliveries, and take snapshots: a view was just installed.

        Raises RemoteError for a state that the layers refuse.
        """
        member, keeper = self.member, self.keeper
        first, self.has_layers = not self.has_layers, True
        self.opened_id = member.view.view_id
        if self.phase is IN_LAYERS and first:
            layers = self.decoded()
            member.host.gauge(Gauge.STATE_BYTES, sum(map(len, layers)))
            member.stack.restore(layers)
            if keeper is None:
                self.finish()
            else:
                self.become(FETCHING)
        if self.phase is IDLE and not member.stateful:
            member.stateful = True
            if keeper is not None and not first:  # no member has the application's state: this one goes on
                keeper.hold()
                keeper.restore(None, partial(self.on_released, self.opened_id))
        if self.phase is FETCHING and self.base == self.opened_id and keeper is not None:
            keeper.hold()
            self.restore()
        self.give()

    def give(self) -> None:
        """Take the snapshot that the decision wants of this member, and answer what has waited for it."""
        member, here = self.member, self.member.host.site
        tasks = () if member.decision is None else member.decision.transfers
        if member.stateful and any(task.giver == here and task.base == self.opened_id for task in tasks):
            self.take_snapshot()
        self.answer_waiting()

    def take_snapshot(self) -> None:
        layers, keeper = msgspec.msgpack.encode(self.member.stack.state()), self.keeper
        made = Snapshot(layers, NO_STATE if keeper is None else None, self.member.host.now_ns)
        self.snapshots[self.opened_id] = made
        if keeper is not None:
            keeper.snapshot(partial(self.on_snapshot, made))

    def on_snapshot(self, made: Snapshot, state: bytes | None) -> None:
        """Take what the keeper has made of the application's state."""
        if not any(made is kept for kept in self.snapshots.values()) or made.application is not None:
            return
        if state is None:
            self.fail_giving("the application's state could not be taken")
        else:
            made.application = SOME_STATE + state
            self.answer_waiting()

    def fail_giving(self, why: str) -> None:
        """Give no more: another member has to."""
        self.gives = False
        self.snapshots = {base: kept for base, kept in self.snapshots.items() if kept.application is not None}
        self.answer_waiting()
        self.member.stop(why)

    def release(self) -> None:
        """Drop all snapshots: no member lacks the state."""
        self.snapshots.clear()

    def tick(self) -> None:
        """Look after what is late."""
        limit_ns = round(self.member.options.snapshot_s * 1e9)
        if any(self.is_late(kept, limit_ns) for kept in self.snapshots.values()):
            self.fail_giving(f"the application's state was not taken within {self.member.options.snapshot_s:g} s")
        self.answer_waiting()
        keeper = self.keeper
        holds = self.phase is FETCHING and self.base <= self.opened_id
        if holds and keeper is not None and keeper.held_bytes() > max(HELD_MAX_BYTES, self.total):
            self.strand()
        self.ask()

    def is_late(self, kept: Snapshot, limit_ns: int) -> bool:
        return kept.application is None and self.member.host.now_ns - kept.since_ns > limit_ns

    # Giving

    def on_ask(self, source: SiteId, ask: StateAsk) -> None:
        self.waiting[source, ask.part] = ask
        self.answer(source, ask)

    def answer_waiting(self) -> None:
        for (source, part), ask in list(self.waiting.items()):
            if self.member.home.is_suspected(source):
                del self.waiting[source, part]
            else:
                self.answer(source, ask)

    def answer(self, source: SiteId, ask: StateAsk) -> None:
        """Send the pieces asked for; or that they are not here, or not yet: then the request waits."""
        found = self.snapshots.get(ask.base)
        data = None if found is None else found.part(ask.part)
        if ask.base > self.opened_id or (found is not None and data is None):
            self.reply(source, ask, BEING_TAKEN)
            return
        del self.waiting[source, ask.part]
        if found is None or not data or ask.digest not in (b"", found.digest(ask.part)):
            self.reply(source, ask, LACKING)
            return
        for offset in ask.offsets:
            piece = data[offset : offset + ask.size]
            if piece:
                self.reply(source, ask, len(data), found.digest(ask.part), offset, piece)

    def reply(
        self, source: SiteId, ask: StateAsk, total: int, digest: bytes = b"", offset: int = 0, piece: bytes = b""
    ) -> None:
        answer = StatePiece(
            self.member.host.incarnation, ask.base, ask.part, digest or ask.digest, offset, total, piece
        )
        self.member.send_to((source,), answer)

    # Fetching

    def lacking(self) -> Iterator[int]:
        """The parts that are not here yet."""
        yield from [part for part in self.digests if part not in self.parts]

    def ask(self) -> None:
        """Ask for as many pieces as there is room for; find out whether any member has them."""
        if self.phase not in (IN_LAYERS, FETCHING):
            return
        sources = self.member.sources()
        usable = tuple(sorted(sources, key=lambda site: site != self.giver))
        for part in self.lacking():
            key = (part, self.digests[part])
            denied = self.window.denials(key)
            if usable and all(site in denied for site in usable):
                self.window.forget(key)
                if not self.digests[part]:
                    self.strand()
                    return
                self.digests[part] = b""  # perhaps one has the state of this base from another giver
            self.window.want((part, self.digests[part]), () if self.giver is None else (self.giver,))
        host, late_ns = self.member.host, self.member.span_ns(2 * self.member.options.answer)
        for site, pieces in self.window.requests(host.now_ns, late_ns, usable).items():
            for part, digest in dict.fromkeys([key for key, _ in pieces]):
                offsets = tuple([offset for key, offset in pieces if key == (part, digest)])
                ask = StateAsk(host.incarnation, self.base, part, digest, self.window.piece_bytes, offsets)
                self.member.send_to((site,), ask)

    def on_piece(self, source: SiteId, message: StatePiece) -> None:
        """Take a piece of the base's state, or note that the source has none."""
        part, digest, now_ns = message.part, message.digest, self.member.host.now_ns
        if message.base != self.base or self.phase not in (IN_LAYERS, FETCHING) or part not in self.lacking():
            return
        if message.total == BEING_TAKEN:
            self.window.note_answer(source, now_ns)
        elif message.total == LACKING:
            self.window.deny(now_ns, source, (part, digest))
        elif self.fixes(part, digest):
            if part == APPLICATION:
                self.total = message.total
            whole = self.window.take(now_ns, source, (part, digest), message.offset, message.total, message.piece)
            if whole is not None:
                self.take(part, whole)
        self.ask()

    def fixes(self, part: int, digest: bytes) -> bool:
        """Whether a digest is that of this transfer; the first one is."""
        if not self.digests[part]:
            self.window.forget((part, b""))
            self.digests[part] = digest
            self.window.want((part, digest), () if self.giver is None else (self.giver,))
        return self.digests[part] == digest

    def take(self, part: int, whole: bytes) -> None:
        """Take a part that is complete; refuse one that has another digest than was said."""
        if sha256(whole).digest() != self.digests[part]:
            self.refuse()
            return
        self.parts[part] = whole
        if self.phase is FETCHING:
            self.restore()
        elif part == LAYERS and self.is_decodable():
            self.member.install_stack()

    def is_decodable(self) -> bool:
        try:
            self.decoded()
        except RemoteError:
            self.refuse()
            return False
        return True

    def decoded(self) -> tuple[bytes, ...]:
        """The state of the layers."""
        try:
            return DECODER.decode(self.parts[LAYERS])
        except msgspec.DecodeError as error:
            raise RemoteError(f"the state that site {self.giver} gives does not decode: {error}") from error

    def restore(self) -> None:
        """Have the keeper take over the application's state, once it is here and deliveries are held."""
        whole, keeper = self.parts.get(APPLICATION), self.keeper
        if whole is None or keeper is None or self.base > self.opened_id:
            return
        self.become(RESTORING)
        self.member.host.gauge(Gauge.STATE_BYTES, len(whole) - 1)
        keeper.restore(None if whole[:1] == NO_STATE else whole[1:], partial(self.on_restored, self.base))

    def on_restored(self, base: int, done: bool) -> None:
        if self.phase is not RESTORING or base != self.base:
            return
        if not done:
            self.refuse()
            return
        layers, application = self.parts.get(LAYERS, b""), self.parts[APPLICATION]
        self.snapshots[base] = Snapshot(layers, application, self.member.host.now_ns)
        self.finish()
        self.member.act()

    def on_released(self, view_id: int, done: bool) -> None:
        if not done:
            self.member.stop(f"the application failed to go on without a state, in view {view_id}")

    def finish(self) -> None:
        """Count as a member that has the state."""
        self.become(IDLE)
        self.parts, self.digests, self.avoided, self.strand_count = {}, {}, (), 0
        self.member.stateful = True

    def refuse(self) -> None:
        """Refuse a wrong state: another member has to give one; the site stops after some."""
        self.failure_count += 1
        self.parts = {}
        if self.giver is not None and self.giver not in self.avoided:
            self.avoided = (*self.avoided, self.giver)
        self.strand()
        if self.failure_count >= FAILURES_MAX:
            self.member.stop(f"the application's state failed {self.failure_count} times, of {list(self.avoided)}")

    def strand(self) -> None:
        """Wait for a view that is a new base; the first time at once, then ever longer."""
        self.become(STRANDED)
        wait_ns = self.member.span_ns(self.member.options.answer) << min(self.strand_count, BACKOFF_MAX)
        self.retry_ns = self.member.host.now_ns + (wait_ns if self.strand_count else 0)
        self.strand_count += 1
        self.member.act()
