"""The delays of a plan: the mean one-way delay of every pair of sites, and notes on what means hide.

A prediction uses means only. Where channels vary, lose packets or have a limited bandwidth, a note says that real
latencies will be longer. This is the one place that needs every pair of a network at once, hence the planner's bound
on the number of sites.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import pstdev

from isthmus.core.message import SiteId
from isthmus.topology.delay import Constant, Delay, Empirical, Gamma, Normal, Uniform
from isthmus.topology.model import Channel, Topology

SPREAD_MAX = 0.05  # standard deviation of a delay over its mean, above which a note is due


def delays_of(topology: Topology) -> tuple[tuple[float, ...], ...]:
    sites = [SiteId(number) for number in range(len(topology.sites))]
    return tuple(tuple(topology.mean_ms(a, b) for b in sites) for a in sites)


def delay_notes(topology: Topology) -> list[str]:
    """What a prediction from mean delays leaves out on this network."""
    channels = list(channels_of(topology))
    notes = []
    if any(spread_ms(channel.delay) > SPREAD_MAX * channel.delay.mean_ms for channel in channels):
        notes.append("delays vary: the plan uses their means, and waiting for the slowest of several takes longer")
    if any(channel.loss for channel in channels):
        notes.append("channels lose packets: retransmitted messages arrive later than predicted")
    if any(channel.bandwidth_mbps is not None for channel in channels):
        notes.append("bandwidth is limited: queued packets arrive later than predicted")
    return notes


def channels_of(topology: Topology) -> Iterator[Channel]:
    """Every channel that a packet between two sites may pass."""
    yield from (cluster.lan for cluster in topology.clusters if len(cluster.sites) > 1)
    for link in topology.links:
        yield from (link.forward, link.back)
    for pair in topology.overrides:
        yield from (pair.forward, pair.back)


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
