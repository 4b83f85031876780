"""A topology from measured round trips.

Hosts are grouped into clusters by their round trips alone (`grouping`); a name that stands for a region is a cluster of
its own. The one-way delay is half the round trip that was measured in that direction. Each pair of clusters gets a WAN
link with the median of its host pairs, each cluster a LAN with the median inside it; pairs of sites keep delays of
their own only on request. A cluster's agent is the site that is nearest to the other clusters. The delay is constant
unless a model is requested: `gamma` (least round trip and deviation) or `empirical` (every sample).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from statistics import median

from isthmus.core.errors import InputError
from isthmus.core.message import SiteId
from isthmus.topology.delay import Constant, Delay, Empirical, Gamma
from isthmus.topology.inputs.grouping import Matrix, group_hosts
from isthmus.topology.inputs.maps import ImportedTopology
from isthmus.topology.inputs.measured import MeasuredNetwork, RoundTripSample, read_measured
from isthmus.topology.model import Channel, Cluster, Override, Topology, TopologySite, WanLink
from isthmus.topology.shapes import of_equal_clusters, unique_names

NOTED = 0.01  # a larger relative difference of directions is noted; every difference is kept


def load_measured(
    path: Path,
    *,
    model: str = "constant",
    rows: str = "auto",
    sites: int = 3,
    threshold_ms: float | None = None,
    per_pair: bool = False,
    lan: Channel | None = None,
) -> ImportedTopology:
    """The topology of a CSV file of round trips; `lan` is for clusters without measurements inside."""
    measured = read_measured(path)
    full = any(usable(sample) for samples in measured.samples.values() for sample in samples)
    if model == "gamma" and not full:
        found = "no columns of least round trips and deviations"
        raise InputError(str(path), "", found, "min_ms and mdev_ms for the model gamma")
    spare = lan or Channel(Constant(0.5))
    if rows == "regions" or (rows == "auto" and measured.has_diagonal()):
        if per_pair:
            found = "regions, whose sites have equal delays"
            raise InputError(str(path), "", found, "hosts, or the command without --per-pair")
        return of_regions(path.stem, measured, model, sites, spare)
    return of_hosts(path.stem, measured, model, threshold_ms, per_pair, spare)


def of_regions(name: str, measured: MeasuredNetwork, model: str, sites: int, lan: Channel) -> ImportedTopology:
    """One cluster per name."""
    notes, lans = [], []
    inside = {a: samples for (a, b), samples in measured.samples.items() if a == b}
    for number, region in enumerate(measured.names):
        if number in inside:
            lans.append(Channel(one_way([inside[number]], model)))
        else:
            lans.append(lan)
            notes.append(f"no round trip was measured inside {region}: its LAN delay is {lan.delay.mean_ms:g} ms")
    links = []
    for a, b in combinations(range(len(measured.names)), 2):
        links.append(WanLink(a, b, *both_ways(measured, [(a, b)], model)))
    notes += direction_note(measured)
    names = unique_names(measured.names, sites)
    return ImportedTopology(of_equal_clusters(name, names, sites, lans, tuple(links)), tuple(notes))


def of_hosts(
    name: str, measured: MeasuredNetwork, model: str, threshold_ms: float | None, per_pair: bool, lan: Channel
) -> ImportedTopology:
    """One site per name; clusters are inferred."""
    rtt_ms = measured.matrix()
    groups, cut = group_hosts(rtt_ms, threshold_ms)
    clustered = f"{len(groups)} cluster{'s' if len(groups) != 1 else ''}"
    notes = [f"{len(rtt_ms)} hosts in {clustered} with round trips of at most {cut:.4g} ms"]
    clusters, order = [], [host for group in groups for host in group]
    number = {host: SiteId(index) for index, host in enumerate(order)}
    cluster_of = {host: index for index, group in enumerate(groups) for host in group}
    letter = "c" if not {f"c{k}" for k in range(len(groups))} & set(measured.names) else "cluster-"
    for index, group in enumerate(groups):
        inside = [measured.between(*pair) for pair in combinations(group, 2)]
        channel = Channel(one_way(inside, model)) if inside else lan
        agent = number[nearest(group, rtt_ms)]
        clusters.append(Cluster(f"{letter}{index}", tuple(number[host] for host in group), agent, channel))
    links = []
    for (a, here), (b, there) in combinations(enumerate(groups), 2):
        links.append(WanLink(a, b, *both_ways(measured, [(x, y) for x in here for y in there], model)))
    overrides = []
    for a, b in combinations(order, 2) if per_pair else ():
        overrides.append(Override(number[a], number[b], *both_ways(measured, [(a, b)], model)))
    notes += direction_note(measured)
    named = tuple(TopologySite(measured.names[host], cluster_of[host]) for host in order)
    topology = Topology(name, named, tuple(clusters), tuple(links), tuple(overrides))
    return ImportedTopology(topology, tuple(notes))


def both_ways(measured: MeasuredNetwork, pairs: Sequence[tuple[int, int]], model: str) -> tuple[Channel, Channel]:
    """The channels forth and back that stand for some pairs of names."""
    forth = one_way([measured.towards(a, b) for a, b in pairs], model)
    back = one_way([measured.towards(b, a) for a, b in pairs], model)
    return Channel(forth), Channel(back)


def direction_note(measured: MeasuredNetwork) -> list[str]:
    """A note if the two directions of pairs differ by more than measurements of one path do."""
    apart: dict[tuple[int, int], float] = {}
    for a, b in combinations(range(len(measured.names)), 2):
        forth, back = (median(s.rtt_ms for s in measured.towards(*pair)) for pair in ((a, b), (b, a)))
        if abs(forth - back) > NOTED * max(forth, back):
            apart[a, b] = abs(forth - back)
    if not apart:
        return []
    (a, b), most = max(apart.items(), key=lambda item: item[1])
    count = f"{len(apart)} pair{'s differ' if len(apart) > 1 else ' differs'}"
    names = f"{measured.names[a]} and {measured.names[b]}"
    return [f"{count} by direction, by up to {most:.4g} ms ({names}): kept as asymmetric delays"]


def nearest(group: Sequence[int], rtt_ms: Matrix) -> int:
    """The host of a group with the least sum of round trips to all hosts outside, the first of equals."""
    outside = [host for host in range(len(rtt_ms)) if host not in group]
    return min(group, key=lambda host: float(rtt_ms[host, outside].sum()))


def one_way(pairs: list[list[RoundTripSample]], model: str) -> Delay:
    """The delay that stands for some pairs of hosts, each with its samples; to a tenth of a microsecond."""
    rtt_ms = median(median(sample.rtt_ms for sample in samples) for samples in pairs)
    if model == "empirical":
        return Empirical(tuple(half(sample.rtt_ms) for samples in pairs for sample in samples))
    full = [sample for samples in pairs for sample in samples if usable(sample)]
    if model == "gamma" and full:
        mean, shift = half(rtt_ms), half(median(s.min_ms for s in full if s.min_ms is not None))
        deviation = median(s.mdev_ms for s in full if s.mdev_ms is not None) / 2
        if deviation > 0 and mean > shift:
            return Gamma(mean, round(deviation**2, 9) or 1e-9, shift)
    return Constant(half(rtt_ms))


def usable(sample: RoundTripSample) -> bool:
    return sample.min_ms is not None and sample.mdev_ms is not None


def half(rtt_ms: float) -> float:
    return round(rtt_ms / 2, 4)
