"""What a plan goes by: the mean delays of a network, and the streams of messages of its traffic.

Where the files say more than the prediction knows of, a note says so: a source that is neither periodic nor Poisson
counts by its mean rate, delays by their means, and every message as if it went to all, for ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from statistics import pstdev

from isthmus.core.document import Invalid
from isthmus.core.message import SiteId
from isthmus.protocols.total.rests import Stream
from isthmus.scenario.workload import Burst, OnOff, Periodic, Poisson, Recorded, Reply, Workload
from isthmus.topology.delay import Constant, Delay, Empirical, Gamma, Normal, Uniform
from isthmus.topology.model import Topology

SPREAD_MAX = 0.05  # standard deviation of a delay over its mean: what is left out beyond is worth a note


def delays_of(topology: Topology, notes: list[str]) -> tuple[tuple[float, ...], ...]:
    """The mean delay from each site to each."""
    sites = [SiteId(number) for number in range(len(topology.sites))]
    channels = [cluster.lan for cluster in topology.clusters if len(cluster.sites) > 1]
    channels += [channel for link in topology.links for channel in (link.forward, link.back)]
    channels += [channel for pair in topology.overrides for channel in (pair.forward, pair.back)]
    if any(spread_ms(channel.delay) > SPREAD_MAX * channel.delay.mean_ms for channel in channels):
        notes.append("delays vary: their means count, and who waits for the slowest of several waits a little longer")
    if any(channel.loss for channel in channels):
        notes.append("channels lose packets: what is sent again comes later than predicted")
    if any(channel.bandwidth_mbps is not None for channel in channels):
        notes.append("bandwidths are limited: what queues comes later than predicted")
    return tuple(tuple(0.0 if a == b else topology.mean_ms(a, b) for b in sites) for a in sites)


def spread_ms(delay: Delay) -> float:
    """The standard deviation of a delay."""
    match delay:
        case Constant():
            return 0.0
        case Uniform():
            return float((delay.high_ms - delay.low_ms) / 12**0.5)
        case Normal():
            return delay.sd_ms
        case Gamma():
            return float(delay.variance_ms2**0.5)
        case Empirical():
            return pstdev(delay.samples_ms)


def streams_of(topology: Topology, workloads: Sequence[Workload], notes: list[str]) -> tuple[tuple[Stream, ...], ...]:
    """The streams of each site."""
    streams: list[list[Stream]] = [[] for _ in topology.sites]
    for index, workload in enumerate(workloads):
        key = f"workloads[{index}]"
        try:
            senders = workload.senders(topology)
        except Invalid as error:
            raise Invalid(f"{key}.{error.key}", error.found, error.expected) from None
        if workload.to != "all":
            notes.append(f"{key} is not for all: it is planned for as if it were")
        if workload.start_ms or workload.stop_ms is not None or workload.count is not None:
            notes.append(f"{key} does not last: it is planned for as if it did")
        if not isinstance(workload, Periodic | Poisson | Reply):
            notes.append(f"{key} is neither periodic nor Poisson: it counts as Poisson of the same mean rate")
        for place, site in enumerate(senders):
            if (rate := mean_rate(workload, place, len(senders))) > 0:
                kind = "periodic" if isinstance(workload, Periodic) else "poisson"
                streams[site].append(Stream(kind, 1000 / rate))  # type: ignore[arg-type]
    add_replies(topology, workloads, streams, notes)
    return tuple(map(tuple, streams))


def mean_rate(workload: Workload, place: int, places: int) -> float:
    """Messages a second of the sender at a place among a workload's senders; replies are another matter."""
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
        case Reply():
            return 0.0


def add_replies(
    topology: Topology, workloads: Sequence[Workload], streams: list[list[Stream]], notes: list[str]
) -> None:
    """Answers to everybody's messages, answers to answers too, as deep as they go."""
    replies = [(workload, workload.senders(topology)) for workload in workloads if isinstance(workload, Reply)]
    if not replies:
        return
    notes.append("replies count as Poisson of their mean rate")
    rate = sum(1000 / stream.period_ms for own in streams for stream in own)  # of messages of one depth
    answered = [0.0] * len(replies)  # messages a second that each workload may answer
    for depth in range(max(workload.depth for workload, _ in replies)):
        following = 0.0
        for index, (workload, senders) in enumerate(replies):
            if depth < workload.depth:
                answered[index] += rate
                following += rate * workload.probability * len(senders)
        rate = following
    for (workload, senders), to in zip(replies, answered, strict=True):
        if not isfinite(to):
            raise Invalid("workloads", "replies to replies without end", "a smaller depth or probability")
        if to * workload.probability > 0:
            for site in senders:
                streams[site].append(Stream("poisson", 1000 / (to * workload.probability)))
