"""The message streams of a plan, from the workloads of a scenario.

A prediction knows periodic and Poisson streams to all sites that never stop. Any other workload is replaced by a
Poisson stream of the same mean rate to all sites, and a note says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from isthmus.core.validation import BadValue
from isthmus.scenario.workload import Burst, Closed, OnOff, Periodic, Poisson, Recorded, Reply, Workload
from isthmus.stacks.roles.rests import MessageStream
from isthmus.topology.model import Topology


def streams_of(
    topology: Topology, workloads: Sequence[Workload], notes: list[str]
) -> tuple[tuple[MessageStream, ...], ...]:
    """The streams of each site; adds notes on what they leave out."""
    streams: list[list[MessageStream]] = [[] for _ in topology.sites]
    for index, workload in enumerate(workloads):
        key = f"workloads[{index}]"
        try:
            senders = workload.senders(topology)
        except BadValue as error:
            raise BadValue(f"{key}.{error.key}", error.found, error.expected) from None
        if workload.to != "all":
            notes.append(f"{key} is not sent to all sites: planned as if it were")
        if workload.start_ms or workload.stop_ms is not None or workload.count is not None:
            notes.append(f"{key} covers a part of the run: planned as if it lasted throughout")
        if isinstance(workload, Closed):
            notes.append(f"{key} is a closed loop, without a rate of its own: left out of the plan")
        elif not isinstance(workload, Periodic | Poisson | Reply):
            notes.append(f"{key} is neither periodic nor Poisson: planned as Poisson with the same mean rate")
        for place, site in enumerate(senders):
            if (rate := mean_rate(workload, place, len(senders))) > 0:
                kind = "periodic" if isinstance(workload, Periodic) else "poisson"
                streams[site].append(MessageStream(kind, 1000 / rate))  # type: ignore[arg-type]
    add_replies(topology, workloads, streams, notes)
    return tuple(map(tuple, streams))


def mean_rate(workload: Workload, place: int, places: int) -> float:
    """Messages per second of the sender at a place among a workload's senders; replies are added by `add_replies`."""
    match workload:
        case Periodic() | Poisson():
            return workload.rate_per_s
        case Burst():
            return 1000 * workload.burst_count / workload.period_ms
        case OnOff():
            return workload.rate_per_s * workload.on_ms / (workload.on_ms + workload.off_ms)
        case Recorded():
            own = sum(sender % places == place for _, sender, _ in workload.events)
            span_s = workload.events[-1][0] / workload.compression
            return own / span_s if span_s > 0 else 0.0
        case Reply() | Closed():  # of a closed loop the network decides
            return 0.0


def add_replies(
    topology: Topology, workloads: Sequence[Workload], streams: list[list[MessageStream]], notes: list[str]
) -> None:
    """Add the replies to all messages, and replies to replies up to their depth."""
    replies = [(workload, workload.senders(topology)) for workload in workloads if isinstance(workload, Reply)]
    if not replies:
        return
    notes.append("replies are planned as Poisson with their mean rate")
    rate = sum(1000 / stream.period_ms for own in streams for stream in own)  # of messages of one depth
    answered = [0.0] * len(replies)  # messages per second that each workload may answer
    for depth in range(max(workload.depth for workload, _ in replies)):
        following = 0.0
        for index, (workload, senders) in enumerate(replies):
            if depth < workload.depth:
                answered[index] += rate
                following += rate * workload.probability * len(senders)
        rate = following
    for (workload, senders), to in zip(replies, answered, strict=True):
        if not isfinite(to):
            raise BadValue("workloads", "replies to replies without end", "a smaller depth or probability")
        if to * workload.probability > 0:
            for site in senders:
                streams[site].append(MessageStream("poisson", 1000 / (to * workload.probability)))
