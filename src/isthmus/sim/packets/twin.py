"""A run over the packet network with compiled end points: the same rows and figures as with layers, in less time.

Supports the stacks flooding and causal-vector, with only messages to all and crashes (scenario/packets.py rejects the
rest) and static membership. Two mechanisms of the layers must stay inactive, as their packets have no twin: the grants
of flow control and the stability reports of flooding; a run in which they would occur is rejected.

The run ends when no packet is left: with layers, a scenario with a shorter drain time would be cut off there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal

import msgspec

from isthmus.core.errors import InputError
from isthmus.core.layer import Kind, View
from isthmus.core.message import HEAD_BYTES, Cast, SiteId
from isthmus.core.units import NS_PER_MS
from isthmus.protocols.transport.reliable.frames import ReliableOptions
from isthmus.scenario.model import Scenario, StackSpec
from isthmus.scenario.packets import NetworkSpec
from isthmus.scenario.traffic import FRESH, payload
from isthmus.scenario.workload import Burst
from isthmus.sim.base import SETTLE_NS, Simulation
from isthmus.sim.packets.compiled import find_compiled, has_numba, need_numba
from isthmus.sim.packets.figures import NS_IN_MS, DelaySummary
from isthmus.sim.packets.network import background_sizes, wiring_of
from isthmus.sim.packets.schedule import schedule_of
from isthmus.sim.packets.ways import Ways, fragment_sizes
from isthmus.stacks.registry import STACKS
from isthmus.topology.delay import Constant
from isthmus.topology.model import Channel
from isthmus.topology.overlay.links import neighbours_in
from isthmus.topology.shapes import mesh
from isthmus.topology.wiring import Wiring
from isthmus.trace.schema import Sink

NEVER_NS = 1 << 62


class TwinSummary(DelaySummary):
    """A summary that is filled at the end of a run."""

    __slots__ = ("undelivered",)
    undelivered: int

    def undelivered_count(self) -> int:
        return self.undelivered


class CarriedCounts:
    """Counters of a network without sites."""

    __slots__ = ("dropped_count", "packet_count", "wan_bytes", "wan_count")

    def __init__(self) -> None:
        self.packet_count = self.dropped_count = self.wan_count = self.wan_bytes = 0


class CompiledRun(Simulation):
    """A run of one scenario, executed in one call from the first packet to the last."""

    def __init__(self, scenario: Scenario, sink: Sink | None = None, run: int = 0, wires: bool = False) -> None:
        need_numba("endpoints", "'compiled'")
        from isthmus.sim.packets import kernel, twins

        super().__init__(scenario, sink, run)
        self.kernel: Any = kernel
        self.twins: Any = twins
        self.network: CarriedCounts = CarriedCounts()
        self.summary: TwinSummary = TwinSummary({int(group.id): group.members for group in self.groups})
        self.wires = wires  # also log every receipt
        self.receipts: list[tuple[int, int, int, int]] = []  # time, node, index of the message, neighbour
        self.found: dict[str, float] = {}
        for log in self.logs:
            log.summary = None
        self.kind = STACKS[scenario.stack.name].twin
        self.ways = Ways(wiring_of(scenario))
        self.schedule = schedule_of(scenario, self.groups[0], self.ways, copies=self.kind == "vector")
        self.check_quiet()

    def check_quiet(self) -> None:
        """Reject a run in which layers would send packets that their twins do not."""
        stack, scenario = self.scenario.stack, self.scenario
        counts: dict[int, int] = {}
        for message in self.schedule.messages:
            counts[message.node] = counts.get(message.node, 0) + 1
        most = max(counts.values(), default=0)
        if 4 * most >= stack.credit.window:
            raise quiet("stack.credit.window", stack.credit.window, f"more than {4 * most}: no grants are due")
        if self.kind == "flooding":
            ends_ms = scenario.duration_ms + scenario.drain_ms
            if 4 * len(self.schedule.messages) >= stack.reliable.keep_max:
                found, expected = stack.reliable.keep_max, f"more than {4 * len(self.schedule.messages)}"
                raise quiet("stack.reliable.keep_max", found, f"{expected}: no reports are due")
            if stack.reliable.ack_period_ms < ends_ms:
                found_ms, expected = stack.reliable.ack_period_ms, f"at least {ends_ms:g}: no reports are due"
                raise quiet("stack.reliable.ack_period_ms", found_ms, expected)

    def steps(self) -> Iterator[int]:
        yield 0
        delivered, counts, marks, log = self.carry_out()
        if self.sink is not None:
            self.write_rows(log)
        self.receipts = [(row[0], row[1], row[3], row[4]) for row in log if row[2] == self.twins.RECEIPT]
        self.measure(delivered, counts, marks)
        yield self.scheduler.now_ns

    def figures(self) -> dict[str, float]:
        return self.found

    def last_view(self) -> int:
        return 1

    # Execution

    def carry_out(self) -> tuple[Any, Any, Any, list[list[int]]]:
        """Run the twin: return delivery times, its counters, those of the network, and the log."""
        import numpy as np

        twins = self.twins
        plan, wiring, spec = self.schedule, self.ways.wiring, self.scenario.network
        control = spec.control_bytes or 0
        columns = []
        for message in plan.messages:
            sizes = fragment_sizes(control + message.payload_bytes, HEAD_BYTES, spec.fragment_bytes)
            place = plan.senders.index(message.node)
            columns.append((message.node, place, message.number, sizes[0], len(sizes) - 1, sizes[-1]))
        messages = np.array(columns, np.int64).reshape(-1, 6)
        background = background_sizes(spec)[0] if spec.background is not None else 0
        crashes = np.full(wiring.nodes, NEVER_NS, np.int64)
        for site, time_ns in plan.crashes.items():
            crashes[site] = time_ns
        rates = (np.array(wiring.propagation_ns, np.int64), np.array(wiring.ps_per_byte, np.int64))
        due, what = np.array(plan.due, np.int64), np.array(plan.what, np.int64)
        fragments = int(messages[:, twins.FULLS].max(initial=0)) + 1
        if self.kind == "vector":
            everyone = self.groups[0].members
            roots = [self.ways.grow(site, [one for one in everyone if one != site]) for site in plan.senders]
            first, count = (np.array([root[column] for root in roots], np.int64) for column in (0, 1))
            need = max(self.ways.widest, fragments * int(count.max(initial=1))) + 1
            log = self.log_room(len(messages) * wiring.nodes)
            find_compiled(twins.vector)
            ways = (first, count, self.steps_array(), *rates)
            return self.with_log(
                twins.vector(due, what, background, messages, crashes, *ways, need, log, self.wires), log
            )
        arcs = self.arcs()
        need = fragments * int(np.diff(arcs[0]).max()) + 1
        log = self.log_room(len(messages) * len(arcs[1]))
        find_compiled(twins.arc_routes, twins.flood)
        steps, arc_step = self.arc_steps(wiring, arcs)
        background_steps = self.steps_array() + np.array([0, len(steps), 0, 0], np.int32)
        what = np.where(what < 0, what - len(steps), what)
        given = (messages, len(plan.senders), crashes, *arcs, arc_step, np.concatenate([steps, background_steps]))
        return self.with_log(twins.flood(due, what, background, *given, *rates, need, log, self.wires), log)

    def log_room(self, receipts: int) -> Any:
        """Return an array with room for the requested rows."""
        import numpy as np

        messages = len(self.schedule.messages)
        rows = messages * (1 + self.ways.wiring.nodes) if self.wires or self.sink is not None else 0
        return np.empty((rows + (receipts if self.wires else 0), 5), np.int64)

    def with_log(self, found: tuple[Any, Any, Any], log: Any) -> tuple[Any, Any, Any, list[list[int]]]:
        delivered, counts, marks = found
        return delivered, counts, marks, log[: int(counts[self.twins.LOG_ROWS])].tolist()

    def steps_array(self) -> Any:
        import numpy as np

        ways = self.ways
        columns = (ways.link, ways.first_branch, ways.branch_count, ways.deliver_to)
        return np.array(columns, np.int32).T.copy().reshape(-1, 4)

    def arcs(self) -> tuple[Any, Any, Any]:
        """Return the directed links of the overlay: first index per node, sources, targets."""
        import numpy as np

        near = neighbours_in(self.groups[0].options.overlay, self.groups[0].members)
        neighbours = [near[site] for site in self.site_ids]
        first = np.cumsum([0, *map(len, neighbours)])
        source = np.repeat(np.arange(len(neighbours)), np.diff(first))
        return first, source, np.array([other for others in neighbours for other in others], np.int64)

    def arc_steps(self, wiring: Wiring, arcs: tuple[Any, Any, Any]) -> tuple[Any, Any]:
        import numpy as np

        into_first = np.cumsum([0, *map(len, wiring.into)])
        into = np.array([link for links in wiring.into for link in links], np.int32)
        into_from = np.array(wiring.tails, np.int32)[into]
        steps, arc_step = self.twins.arc_routes(into_first, into, into_from, arcs[0], arcs[2])
        return steps, arc_step

    # Results

    def write_rows(self, log: list[list[int]]) -> None:
        """Write the rows that the layers would have traced, in the order of events."""
        group, plan = self.groups[0], self.schedule
        view = View(1, group.members, (0,) * len(group.members))
        for site in group.members:
            self.logs[site].write(0, Kind.VIEW, None, 1, group.id, view)
        casts = [Cast(SiteId(one.node), one.number, payload(FRESH, one.payload_bytes)) for one in plan.messages]
        crashes = sorted(plan.crashes.items(), key=lambda crash: crash[1])
        for time_ns, node, kind, message, _ in log:
            while crashes and crashes[0][1] <= time_ns:
                self.note_crash(*crashes.pop(0), view)
            if kind == self.twins.DELIVERY:
                self.logs[node].deliver(time_ns, casts[message], group.id)
            elif kind == self.twins.SUBMIT:
                self.logs[node].write(time_ns, Kind.SUBMIT, casts[message], 0, group.id, view)
        for crash in crashes:
            self.note_crash(*crash, view)

    def note_crash(self, site: SiteId, time_ns: int, view: View) -> None:
        self.logs[site].write(time_ns, Kind.CRASH, None, 0, self.groups[0].id, view)

    def measure(self, delivered: Any, counts: Any, marks: Any) -> None:
        """Fill the summary and the figures."""
        import numpy as np

        plan, summary, nodes = self.schedule, self.summary, self.ways.wiring.nodes
        submitted = np.array([one.due_ns for one in plan.messages], np.int64)
        authors = np.array([one.node for one in plan.messages], np.int64)
        up = np.ones(nodes, bool)
        up[list(plan.crashes)] = False
        taken = delivered >= 0
        sent = taken[np.arange(len(authors)), authors] if len(authors) else np.zeros(0, bool)
        delays = (delivered - submitted[:, None])[taken]
        others = taken.copy()
        others[np.arange(len(authors)), authors] = False
        apart = (delivered - submitted[:, None])[others]
        whole = sent & (taken | ~up).all(axis=1)
        summary.delivered.add_all(delays)
        summary.per_message.add_all((delivered.max(axis=1, initial=0) - submitted)[whole])
        summary.submitted_count = int(sent.sum())
        summary.crash_count = len(plan.crashes)
        summary.undelivered = int((~taken[sent & up[authors]][:, up]).sum())
        summary.others_count, summary.others_ns = len(apart), int(apart.sum())
        summary.others_max_ns = int(apart.max(initial=0))
        twins, kernel = self.twins, self.kernel
        hops, sends, last_ns = int(marks[kernel.HOPS]), int(counts[twins.SENDS]), int(marks[kernel.LAST_NS])
        span_ns = max(1, last_ns)
        self.network.packet_count = sends + (summary.submitted_count if self.kind == "vector" else 0)
        self.scheduler.event_count = hops + len(plan.due) + len(plan.crashes)
        self.scheduler.now_ns = self.end_of_run(int(delivered.max(initial=0)), last_ns)
        self.found = {
            "delay_mean_ms": summary.others_ns / max(1, summary.others_count) / NS_IN_MS,
            "delay_max_ms": summary.others_max_ns / NS_IN_MS,
            "queue_mean": int(counts[twins.QUEUE_NS]) / span_ns / nodes,
            "queue_max": int(counts[twins.QUEUE_MAX]),
            "load_mean": int(marks[kernel.LOAD_NS]) / span_ns,
            "load_max": int(marks[kernel.LOAD_MAX]),
            "sends": sends,
            "fragments": int(counts[twins.FRAGMENTS]),
            "arc_bytes": int(counts[twins.ARC_BYTES]),
            "hops": hops,
            "violations": int(counts[twins.VIOLATIONS]),
        }

    def end_of_run(self, delivered_ns: int, last_ns: int) -> int:
        """Return when a run of layers would have ended: it checks periodically whether anything is left."""
        now_ns = self.end_ns
        latest_ns = now_ns + round(self.scenario.drain_ms * NS_PER_MS)
        waits = bool(self.schedule.crashes or self.summary.undelivered)
        while now_ns < latest_ns and (waits or max(delivered_ns, last_ns) > now_ns):
            now_ns = min(latest_ns, now_ns + SETTLE_NS)
        return now_ns + SETTLE_NS


def quiet(field: str, found: float, expected: str) -> InputError:
    return InputError("scenario", field, f"{found:g}", f"{expected}, where end points are compiled")


def compile_ahead(scenarios: Iterable[Scenario]) -> None:
    """Compile the code for some runs ahead, so that processes that start together find it on disk."""
    spec = NetworkSpec(kind="packets", graph="random", mean_degree=3.0, control_bytes=4, endpoints="compiled")
    channel = Channel(Constant(1.0))
    for stack in dict.fromkeys(one.stack.name for one in scenarios if has_twin(one.network)):
        multicast: Literal["tree", "unicast"] = "tree" if STACKS[stack].twin == "vector" else "unicast"
        small = Scenario(
            topology=mesh(1, 4, channel, channel),
            stack=StackSpec(name=stack, transport="direct", reliable=ReliableOptions(ack_period_ms=1e9)),
            workloads=(Burst(period_ms=1.0, burst_count=1, count=1),),
            duration_ms=1.0,
            trace="none",
            network=msgspec.structs.replace(spec, multicast=multicast),
        )
        CompiledRun(small).execute()


def has_twin(spec: NetworkSpec) -> bool:
    """Return whether the end points of a run are compiled."""
    return spec.endpoints == "compiled" or (spec.endpoints == "auto" and has_numba())
