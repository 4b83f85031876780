"""Stories of members that take over the state of a group, in the simulator: what happens while it is on its way.

Two clusters of three sites, all 20 ms apart, with 20 Mbit/s in each LAN, and a state of 1 MB: a transfer takes
half a second, during which messages are delivered and views change. A story is a list of faults and says what is
special about it; `failures` runs it and says what was wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import msgspec

from isthmus.core.layer import Kind
from isthmus.core.message import SiteId
from isthmus.fuzz.judge import judge_run
from isthmus.fuzz.states import ChainedStateKeeper
from isthmus.fuzz.watch import WatchedRun
from isthmus.protocols.membership.home import AgreementOptions
from isthmus.protocols.membership.transfer import StateTransfer
from isthmus.protocols.membership.wire import APPLICATION, StatePiece
from isthmus.scenario.faults import Crash, Fault, Recover
from isthmus.scenario.model import Agreed, Membership, Scenario, StackSpec
from isthmus.scenario.workload import Poisson
from isthmus.topology.delay import Constant
from isthmus.topology.model import Channel
from isthmus.topology.shapes import mesh
from isthmus.trace.schema import KIND, PROCESS, TIME_NS, VALUE, Row

FAR_MS = 20.0
STATE_BYTES = 1_000_000
GIVER, JOINER = 4, 5


class Story(msgspec.Struct, frozen=True):
    """What happens to a group."""

    faults: tuple[Fault, ...]
    state_bytes: int = STATE_BYTES
    message_bytes: int = 1  # of a held message, as the keeper counts them
    delay_ms: float = 0.0  # of a snapshot or a restore, at most
    corrupts: int | None = None  # a site whose pieces go wrong on their way
    fails: str = ""  # "snapshot" or "restore", the first time; "hang": a snapshot never ends; "restores": all of c1-2


def again(site: str, at_ms: float, after_ms: float = 400.0) -> tuple[Fault, Fault]:
    """A crash, and a restart."""
    return Crash(at_ms=at_ms, site=site), Recover(at_ms=at_ms + after_ms, site=site)


STORIES: dict[str, Story] = {  # c1-2 joins, and c1-1 is its giver
    "one joins": Story(again("c1-2", 500)),
    "views change meanwhile": Story(
        (*again("c1-2", 500), *again("c0-1", 1_300, 100), *again("c0-2", 2_000, 100)), state_bytes=4_000_000
    ),
    "the state is slow": Story((*again("c1-2", 500), *again("c0-1", 1_300)), delay_ms=800.0),
    "the giver crashes": Story((*again("c1-2", 500), Crash(at_ms=1_500, site="c1-1")), state_bytes=2_000_000),
    "two givers, one crashes": Story(
        (*again("c1-2", 500), *again("c0-2", 500), Crash(at_ms=1_500, site="c1-1")), state_bytes=2_000_000
    ),
    "all but one are gone": Story(
        (*again("c1-2", 500), *again("c1-1", 900), *again("c1-0", 1_300), *again("c0-2", 1_700), *again("c0-1", 2_100))
    ),
    "pieces of one site go wrong": Story(again("c1-2", 500), corrupts=4),
    "a restore fails": Story(again("c1-2", 500), fails="restore"),
    "a snapshot fails": Story(again("c1-2", 500), fails="snapshot"),
    "a snapshot never ends": Story(again("c1-2", 500), fails="hang"),
    "all restores fail": Story(again("c1-2", 500), fails="restores"),
    "too much is held": Story(again("c1-2", 500), message_bytes=8_000_000, delay_ms=400.0),
}


def scenario_of(story: Story) -> Scenario:
    far = Channel(Constant(FAR_MS), bandwidth_mbps=20.0)
    return Scenario(
        name="state",
        topology=mesh(2, 3, far, far),
        stack=StackSpec(name="token-site"),
        workloads=(Poisson(rate_per_s=20, payload_bytes=20),),
        membership=Membership(kind="agreed", agreed=Agreed(rounds=AgreementOptions(snapshot_s=1.0))),
        faults=story.faults,
        duration_ms=4_500,
        drain_ms=60_000,
    )


@contextmanager
def corrupted(site: int | None) -> Iterator[None]:
    """Flip a byte in all pieces of an application's state that a site gives."""
    right = StateTransfer.reply

    def reply(self: StateTransfer, *given: Any) -> None:
        if self.member.host.site != site:
            right(self, *given)
            return
        send = self.member.send_to

        def flip(targets: tuple[SiteId, ...], message: StatePiece) -> None:
            if message.piece and message.part == APPLICATION:
                message = msgspec.structs.replace(message, piece=message.piece[:-1] + bytes([message.piece[-1] ^ 1]))
            send(targets, message)

        with patch.object(type(self.member), "send_to", lambda _self, targets, message: flip(targets, message)):
            right(self, *given)

    with patch.object(StateTransfer, "reply", reply):
        yield


def failures(story: Story, patches: dict[str, Any] | None = None, gone: tuple[int, ...] = ()) -> list[str]:
    """What is wrong with a run of a story, with methods of `StateTransfer` replaced; `gone`: sites that must leave."""
    rows: list[Row] = []
    snapshots: Counter[int] = Counter()
    right, right_take_over = ChainedStateKeeper.snapshot, ChainedStateKeeper.take_over

    def snapshot(self: ChainedStateKeeper, *given: Any) -> None:
        snapshots[self.port.stack.view.view_id] += 1
        if story.fails != "hang" or snapshots.total() > 1:
            right(self, *given)

    def take_over(self: ChainedStateKeeper, data: bytes | None) -> bool:
        return (story.fails != "restores" or self.port.site != JOINER) and right_take_over(self, data)

    with ExitStack() as planted:
        for name, function in (patches or {}).items():
            planted.enter_context(patch.object(StateTransfer, name, function))
        planted.enter_context(corrupted(story.corrupts))
        planted.enter_context(patch.object(ChainedStateKeeper, "snapshot", snapshot))
        planted.enter_context(patch.object(ChainedStateKeeper, "take_over", take_over))
        run = WatchedRun(scenario_of(story), rows)
        states = run.states
        assert states is not None
        states.size, states.held_bytes, states.delay_ms = story.state_bytes, story.message_bytes, story.delay_ms
        states.snapshots_fail, states.restores_fail = story.fails == "snapshot", story.fails == "restore"
        judged = judge_run(run, rows)
    joining_count = sum(isinstance(fault, Recover) for fault in story.faults)
    excess = [f"{count} snapshots in view {view}" for view, count in snapshots.items() if count > joining_count]
    stayed = [f"site {site} has not left" for site in gone if run.sites[site].alive]
    return [*judged.violations(), *excess, *stayed]


def transfer_ms(state_bytes: int, mbps: float, one_way_ms: float, loss: float, seed: int = 0) -> float:
    """The time from the base, as its giver installs it, until the other site of a group of two restores its state."""
    far = Channel(Constant(one_way_ms), bandwidth_mbps=mbps, loss=loss)
    scenario = Scenario(
        topology=mesh(2, 1, far, far),
        stack=StackSpec(name="fifo"),
        workloads=(Poisson(rate_per_s=5, payload_bytes=20),),
        membership=Membership(kind="agreed", agreed=Agreed()),
        faults=again("c1-0", 100),
        duration_ms=1_000,
        seed=seed,
        drain_ms=60_000,
    )
    rows: list[Row] = []
    run = WatchedRun(scenario, rows)
    assert run.states is not None
    run.states.size, run.states.delay_ms, run.states.restores_fail = state_bytes, 0.0, False
    run.states.snapshots_fail = False
    assert judge_run(run, rows).violations() == []
    views = [row[TIME_NS] for row in rows if row[PROCESS] == 0 and row[KIND] == Kind.VIEW]
    restored = [row[TIME_NS] for row in rows if row[KIND] == Kind.GAUGE and (row[VALUE] or 0) >= state_bytes]
    return ((restored[0] or 0) - (views[-1] or 0)) / 1e6
