"""Applications with a state, in runs with agreed membership: what a member that joins must take over is compared.

The state of an application is the sum and the chain of the digests of all messages to all members, in the order of
their delivery, so that it shows a message that is missing, delivered twice or out of order. It travels as bytes of a
drawn size, which repeat its own digest, so that a mix of two states is no state. It takes time to snapshot and to
restore, and sometimes fails. Where a life ends while its process lives, the next one begins with it, as live. A member
that has restored it must arrive, for each view since the base, at the state that all others had there. Only total
orders have the same chain at all members; for the others the sums are compared. Where a view is no barrier
(flooding-dynamic), members enter it after different messages and hand over no state: none is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from random import Random

import msgspec

from isthmus.core.layer import Finality, View
from isthmus.core.message import Cast, SiteId
from isthmus.core.port import Port
from isthmus.core.units import NS_PER_MS
from isthmus.protocols.application import Application
from isthmus.scenario.model import GroupOfRun, Scenario
from isthmus.sim.site import SimPort
from isthmus.stacks.registry import STACKS

SIZES = (0, 0, 500, 40_000, 300_000, 2_000_000)  # bytes of a state
NARROW_BYTES = 10_000  # over a channel of 1 Mbit/s, most of which takes the heartbeats of nine sites
NUMBER_BYTES = 8
DIGEST_BYTES = 32
HEAD_BYTES = 3 * NUMBER_BYTES + 2 * DIGEST_BYTES
Later = Callable[[Callable[[], None]], None]  # do something as an event of its own, after a while
MODULUS = 1 << (8 * DIGEST_BYTES)
HEAVY_BYTES = 3_000_000  # of a held message, where the bound of what is held is to be reached


class ChainedState(msgspec.Struct, frozen=True):
    """The messages that an application has taken."""

    root: int  # the view in which the application began
    count: int = 0
    total: int = 0  # of the digests
    chain: bytes = bytes(DIGEST_BYTES)  # of the digests, in order

    def after(self, message: bytes, ordered: bool) -> ChainedState:
        total = (self.total + int.from_bytes(message, "big")) % MODULUS
        chain = sha256(self.chain + message).digest() if ordered else self.chain
        return ChainedState(self.root, self.count + 1, total, chain)

    def encode(self, size: int, salt: int) -> bytes:
        """Return bytes that mean this state; another salt gives others that mean the same."""
        numbers = b"".join([number.to_bytes(NUMBER_BYTES, "big") for number in (self.root, self.count, salt)])
        head = numbers + self.total.to_bytes(DIGEST_BYTES, "big") + self.chain
        return head + sha256(head).digest() * max(1, size // DIGEST_BYTES)


def decode(data: bytes) -> ChainedState | None:
    """Return a state; None if the bytes are none."""
    head, rest = data[:HEAD_BYTES], data[HEAD_BYTES:]
    if rest != sha256(head).digest() * (len(rest) // DIGEST_BYTES) or not rest:
        return None
    root, count = head[:NUMBER_BYTES], head[NUMBER_BYTES : 2 * NUMBER_BYTES]
    total, chain = head[3 * NUMBER_BYTES : -DIGEST_BYTES], head[-DIGEST_BYTES:]
    return ChainedState(int.from_bytes(root, "big"), int.from_bytes(count, "big"), int.from_bytes(total, "big"), chain)


class StateChecks:
    """The applications' states of one run."""

    def __init__(self, random: Random, size_max: int, note_fault: Callable[[str], None]) -> None:
        self.note_fault = note_fault
        self.random = random
        self.size = min(random.choice(SIZES), size_max)
        self.delay_ms = random.choice([0.0, 5.0, 500.0])  # of a snapshot or a restore, at most
        self.held_bytes = random.choice([1, 1, HEAVY_BYTES])  # of a message
        self.snapshots_fail = random.random() < 0.1  # one of them
        self.restores_fail = random.random() < 0.2  # one of them
        self.known: dict[tuple[int, int], tuple[int, ChainedState]] = {}  # group and view to a site and its state
        self.keepers: dict[tuple[int, int], ChainedStateKeeper] = {}  # group and site, of the latest life
        self.renewed: SiteId | None = None  # the site whose next life is in the same process

    def attach(self, application: Application, port: SimPort, group: GroupOfRun) -> None:
        """Give an application a state, where members hand it over."""
        if STACKS[group.stack.name].steady:
            return
        ordered = "total" in STACKS[group.stack.name].properties

        def later(action: Callable[[], None]) -> None:
            delay_ns = round(self.random.uniform(0, self.delay_ms) * NS_PER_MS)
            port.scheduler.at(port.scheduler.now_ns + delay_ns, lambda *_: port.run(action))

        before = self.keepers.get((port.group, port.site))
        keeper = self.keepers[port.group, port.site] = ChainedStateKeeper(self, port, later, ordered)
        if before is not None and port.site == self.renewed:
            keeper.state = before.state
        told = application.on_deliver

        def deliver(cast: Cast, finality: Finality) -> None:
            if finality is Finality.FINAL and not cast.destinations:
                keeper.deliver(cast)
            if told is not None:
                told(cast, finality)

        application.on_deliver, application.on_view, application.state_keeper = deliver, keeper.open, keeper

    def note(self, port: Port, view_id: int, state: ChainedState) -> None:
        """Compare the state that a site has as it enters a view."""
        site, known = self.known.setdefault((port.group, view_id), (port.site, state))
        if state != known:
            self.note_fault(
                f"site {port.site} enters view {view_id} with the state of {state.count} messages since view "
                f"{state.root}, site {site} with that of {known.count} since view {known.root}, or another order"
            )

    def finish(self) -> None:
        """Check that every member that is up has the state, and the same one."""
        for keeper in self.keepers.values():
            if isinstance(keeper.port, SimPort) and keeper.port.owner.alive:
                keeper.finish()


def checks_of(scenario: Scenario, note_fault: Callable[[str], None]) -> StateChecks:
    """Return the checks of a run; over narrow channels states are small."""
    narrow = any(channel.bandwidth_mbps is not None for channel in scenario.topology.all_channels())
    random = Random(f"state/{scenario.name}/{scenario.seed}")
    return StateChecks(random, NARROW_BYTES if narrow else max(SIZES), note_fault)


class ChainedStateKeeper:
    """The state of one application in one life; a `StateKeeper`."""

    def __init__(self, checks: StateChecks, port: Port, later: Later, ordered: bool) -> None:
        self.checks = checks
        self.port = port
        self.later = later
        self.ordered = ordered
        self.state: ChainedState | None = None
        self.holding = False
        self.held: list[int | bytes] = []  # views that were entered, and digests of messages
        self.base_count = 0  # how often it was told to hold

    def open(self, view: View) -> None:
        self.held.append(view.view_id)
        self.take_held(1)

    def deliver(self, cast: Cast) -> None:
        self.held.append(sha256(b"%d/%d" % (cast.sender, cast.number)).digest())
        self.take_held(0)

    def take_held(self, left_count: int) -> None:
        """Take what is held, but for a view just entered: `hold` may follow."""
        while not self.holding and len(self.held) > left_count:
            entry = self.held.pop(0)
            if isinstance(entry, bytes):
                assert self.state is not None
                self.state = self.state.after(entry, self.ordered)
            else:
                self.state = self.state or ChainedState(entry)
                self.checks.note(self.port, entry, self.state)

    def finish(self) -> None:
        """Check that the state is here."""
        if self.holding:
            self.checks.note_fault(f"site {self.port.site} never got the state")
        self.take_held(0)

    def snapshot(self, done: Callable[[bytes | None], None]) -> None:
        self.take_held(0)
        if self.holding or self.state is None:
            self.checks.note_fault(f"site {self.port.site} is to give a state that it does not have")
            return
        fails, self.checks.snapshots_fail = self.checks.snapshots_fail, False
        data = None if fails else self.state.encode(self.checks.size, self.checks.random.getrandbits(32))
        self.later(lambda: done(data))

    def hold(self) -> None:
        if not self.held or isinstance(self.held[-1], bytes):
            self.checks.note_fault(f"site {self.port.site} is to hold messages after it was given some")
        self.held = self.held[-1:]
        self.state, self.holding = None, True
        self.base_count += 1

    def held_bytes(self) -> int:
        return len(self.held) * self.checks.held_bytes

    def restore(self, state: bytes | None, done: Callable[[bool], None]) -> None:
        base_count = self.base_count

        def take_over() -> None:
            if base_count == self.base_count:
                done(self.take_over(state))

        if state is None:  # at once: a snapshot may follow
            self.holding = False
            self.later(lambda: done(True))
        else:
            self.later(take_over)

    def take_over(self, data: bytes | None) -> bool:
        fails, self.checks.restores_fail = self.checks.restores_fail, False
        state = None if data is None else decode(data)
        if state is None:
            self.checks.note_fault(f"site {self.port.site} is given bytes that are no state")
        if fails or state is None:
            return False
        self.state, self.holding = state, False
        self.take_held(0)
        return True
