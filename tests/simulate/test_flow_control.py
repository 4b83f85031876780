"""A slow receiver bounds its senders: every buffer stays within what the options say, and nothing is lost."""

from __future__ import annotations

import pytest

from isthmus.core.layer import Stack
from isthmus.core.message import ONLY_GROUP
from isthmus.fuzz.judge import judge
from isthmus.judge.oracle import Oracle
from isthmus.protocols.causal.flooding.flooding import Flooding
from isthmus.protocols.transport.credit import Credit, CreditOptions
from isthmus.protocols.transport.links.links import Links
from isthmus.protocols.transport.reliable.frames import ReliableOptions
from isthmus.protocols.transport.reliable.reliable import Reliable
from isthmus.scenario.faults import Crash, Recover
from isthmus.scenario.model import Membership, Reader, Scenario, StackSpec
from isthmus.scenario.workload import Periodic
from isthmus.sim.run import SimRun
from isthmus.stacks.registry import STACKS
from isthmus.topology.delay import Constant
from isthmus.topology.model import Channel
from isthmus.topology.shapes import mesh
from isthmus.trace.schema import Row

WINDOW, QUEUE, KEEP, SITES = 16, 32, 64, 4


def held_by(stack: Stack) -> tuple[list[int], int]:
    """How much the transport keeps of each origin or channel, and has gathered between two turns."""
    if any(isinstance(layer, Flooding) for layer in stack.layers):
        links = stack.find(Links)
        backlogs = [out.backlog for out in links.outbound.values()]
        return [*map(len, stack.find(Flooding).kept), *backlogs], len(links.gathered)
    reliable = stack.find(Reliable)
    return [len(stream.kept) for stream in reliable.streams.values()], len(reliable.gathered)


class Watched(SimRun):
    """A run that looks at the buffers again and again."""

    worst_unconsumed = worst_queue = worst_kept = worst_gathered = 0

    def watch(self, _a: object, _b: object) -> None:
        for site in self.sites:
            stack = site.ports[ONLY_GROUP].stack
            credit = stack.find(Credit)
            self.worst_unconsumed = max(self.worst_unconsumed, *credit.unread_of.values(), 0)
            self.worst_queue = max(self.worst_queue, len(credit.queue))
            kept, gathered = held_by(stack)
            self.worst_kept = max(self.worst_kept, *kept)
            self.worst_gathered = max(self.worst_gathered, gathered)
        self.scheduler.at(self.scheduler.now_ns + 5_000_000, self.watch)


@pytest.mark.parametrize("stack", [name for name, known in STACKS.items() if "credit" in known.options])
@pytest.mark.parametrize("loss", [0.0, 0.2])
def test_slow_receiver_bounds_its_senders(stack: str, loss: float) -> None:
    topology = mesh(SITES, 1, Channel(Constant(1)), Channel(Constant(10), loss=loss))
    scenario = Scenario(
        topology=topology,
        stack=StackSpec(
            name=stack,
            credit=CreditOptions(window=WINDOW, queue_max=QUEUE),
            reliable=ReliableOptions(keep_max=KEEP),
        ),
        workloads=(Periodic(rate_per_s=100),),
        readers=(Reader(sites=(topology.sites[2].name,), consume_ms=20),),  # 50 messages a second of the 400 offered
        duration_ms=5_000,
        drain_ms=60_000,
    )
    rows: list[Row] = []
    run = Watched(scenario, rows)
    run.scheduler.at(1, run.watch)
    summary = run.execute()
    assert summary.refused_count > 1000, "an open-loop source that is too fast is told so"
    assert summary.undelivered_count() == 0
    assert WINDOW // 2 < run.worst_unconsumed <= WINDOW
    assert run.worst_queue == QUEUE
    assert run.worst_gathered == 0
    assert run.worst_kept <= 2 * KEEP + ReliableOptions().hold_max
    verdicts = Oracle(rows).verdicts(STACKS[stack].properties)
    assert {verdict.status for verdict in verdicts} == {"valid"}


def test_a_fast_receiver_is_not_held_back() -> None:
    topology = mesh(SITES, 1, Channel(Constant(1)), Channel(Constant(10)))
    workloads = (Periodic(rate_per_s=100),)
    scenario = Scenario(topology=topology, stack=StackSpec(name="fifo"), workloads=workloads, duration_ms=2_000)
    summary = SimRun(scenario).execute()
    assert summary.refused_count == 0
    assert summary.per_message.maximum == 10_000_000


def test_unread_messages_of_one_who_left_and_came_back_still_count() -> None:
    """The reader had a window of the sender's messages unread when the sender crashed; it came back while they were
    still unread. Their reading once counted as reading of what the new incarnation sent, which it refused for ever."""
    topology = mesh(3, 1, Channel(Constant(1)), Channel(Constant(1)))
    names = [site.name for site in topology.sites]
    for window in (4, 8, 32):
        scenario = Scenario(
            topology=topology,
            stack=StackSpec(name="fifo", credit=CreditOptions(window=window)),
            workloads=(Periodic(rate_per_s=1000, stop_ms=100, jitter=0),),
            readers=(Reader(sites=(names[0],), consume_ms=50),),
            faults=(Crash(at_ms=15, site=names[2]), Recover(at_ms=30, site=names[2])),
            membership=Membership(detection_ms=1),
            duration_ms=1_000,
            drain_ms=300_000,
        )
        summary = SimRun(scenario).execute()
        assert summary.rejected_count == 0
        assert summary.undelivered_count() == 0


def test_the_last_one_left_goes_on() -> None:
    """With nobody to acknowledge, nothing once told the transport to drop what was stable, and it stayed full."""
    topology = mesh(2, 1, Channel(Constant(1)), Channel(Constant(1)))
    scenario = Scenario(
        topology=topology,
        stack=StackSpec(name="token-site", reliable=ReliableOptions(keep_max=8)),
        workloads=(Periodic(rate_per_s=100),),
        faults=(Crash(at_ms=100, site=topology.sites[1].name),),
        membership=Membership(detection_ms=10),
        duration_ms=3_000,
    )
    summary = SimRun(scenario).execute()
    assert summary.refused_count == 0
    assert summary.undelivered_count() == 0


@pytest.mark.parametrize("stack", [name for name in STACKS if "total" in STACKS[name].properties])
def test_what_a_closing_view_delivers_is_granted_in_no_view(stack: str) -> None:
    """A view that closes delivers what had no place in the order yet. The receivers' grants for it left as messages of
    the next view: there they counted for messages that were not sent yet, or were refused as more than was sent."""
    topology = mesh(4, 1, Channel(Constant(1)), Channel(Constant(200)))
    scenario = Scenario(
        topology=topology,
        stack=StackSpec(name=stack, transport="direct", credit=CreditOptions(window=8)),
        workloads=(Periodic(rate_per_s=200),),
        faults=(Crash(at_ms=700, site=topology.sites[0].name),),
        membership=Membership(detection_ms=1),
        duration_ms=2_000,
    )
    judged = judge(scenario)
    assert judged.failures() == []
    assert judged.summary.rejected_count == 0
