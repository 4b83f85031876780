"""What goes wrong, when and where, as data: named faults at given times, or a number of each drawn from the seed."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import msgspec

from isthmus.core.validation import DURATION_MAX_MS, BadValue, check_range, one_of
from isthmus.scenario.workload import named_sites, probability, span_ms
from isthmus.topology.gateways.lans import lans_of
from isthmus.topology.model import GatewayLink, Topology

FACTOR_MAX = 1e6
DRAWN_MAX = 1000  # faults of one kind


class At(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", forbid_unknown_fields=True):
    """What all faults share."""

    at_ms: float

    def __post_init__(self) -> None:
        span_ms("at_ms", self.at_ms)
        self.check()

    def check(self) -> None:
        """Refuse what this kind of fault cannot mean."""

    def check_names(self, topology: Topology) -> None:
        """Refuse names that the topology does not have."""


def check_end(at_ms: float, until_ms: float) -> None:
    """Refuse a fault that does not last."""
    if not at_ms < until_ms <= DURATION_MAX_MS:
        raise BadValue("until_ms", repr(until_ms), f"a time after at_ms ({at_ms:g})")


class OneSite(At, frozen=True, kw_only=True):
    """A fault at one site."""

    site: str

    def check_names(self, topology: Topology) -> None:
        try:
            topology.site_id(self.site)
        except BadValue as error:
            raise BadValue("site", error.found, error.expected) from None


class Crash(OneSite, frozen=True, kw_only=True, tag="crash"):
    """The site stops and forgets everything; what it sent is still under way."""


class Recover(OneSite, frozen=True, kw_only=True, tag="recover"):
    """A crashed site comes back with a new incarnation and joins the next view."""


class Leave(OneSite, frozen=True, kw_only=True, tag="leave"):
    """The site asks to be left out of the next view, and ends when it is; only where members agree on views."""


class Pause(OneSite, frozen=True, kw_only=True, tag="pause"):
    """The site stands still, as a stopped process does, then goes on; only where members agree on views."""

    until_ms: float

    def check(self) -> None:
        check_end(self.at_ms, self.until_ms)


class ClockJump(OneSite, frozen=True, kw_only=True, tag="clock-jump"):
    """The site's clock is set forward or back."""

    by_ms: float

    def check(self) -> None:
        check_range("by_ms", self.by_ms, -DURATION_MAX_MS, DURATION_MAX_MS)


class Partition(At, frozen=True, kw_only=True, tag="partition"):
    """Nothing passes between the groups until the next heal; sites that are not named form one more group."""

    groups: tuple[tuple[str, ...], ...]

    def check(self) -> None:
        if not self.groups or not all(self.groups):
            raise BadValue("groups", repr(list(self.groups)), "at least one group of sites or clusters, none empty")

    def check_names(self, topology: Topology) -> None:
        seen: set[int] = set()
        for index, group in enumerate(self.groups):
            sites = named_sites(topology, group, f"groups[{index}]")
            if seen & set(sites):
                raise BadValue(f"groups[{index}]", repr(list(group)), "groups that share no site")
            seen |= set(sites)


class Heal(At, frozen=True, kw_only=True, tag="heal"):
    """All partitions end."""


class Between(At, frozen=True, kw_only=True):
    """A fault of the channels from some sites to others, for a while."""

    until_ms: float
    source: tuple[str, ...] = ()  # () for all
    target: tuple[str, ...] = ()

    def check(self) -> None:
        check_end(self.at_ms, self.until_ms)

    def check_names(self, topology: Topology) -> None:
        named_sites(topology, self.source, "source")
        named_sites(topology, self.target, "target")


class Loss(Between, frozen=True, kw_only=True, tag="loss"):
    """More packets are lost."""

    probability: float

    def check(self) -> None:
        super().check()
        probability("probability", self.probability)


class DelayShift(Between, frozen=True, kw_only=True, tag="delay-shift"):
    """Delays grow: times a factor, plus a constant."""

    factor: float = 1.0
    add_ms: float = 0.0

    def check(self) -> None:
        super().check()
        check_range("factor", self.factor, 0, FACTOR_MAX)
        span_ms("add_ms", self.add_ms)


class Relink(At, frozen=True, kw_only=True, tag="relink"):
    """Gateways are linked anew: relayed messages take other ways, from the view that this leads to on."""

    links: tuple[tuple[str, str], ...]

    def check_names(self, topology: Topology) -> None:
        lans_of(self.topology(topology))

    def topology(self, before: Topology) -> Topology:
        """The topology with these links between gateways."""
        ends = []
        for index, (a, b) in enumerate(self.links):
            try:
                ends.append(GatewayLink(before.site_id(a), before.site_id(b)))
            except BadValue as error:
                raise BadValue(f"links[{index}]", error.found, error.expected) from None
        if not ends:
            raise BadValue("links", "nothing", "pairs of gateways")
        return msgspec.structs.replace(before, gateway_links=tuple(ends), routes=())


class ReferenceFault(OneSite, frozen=True, kw_only=True):
    """A fault of a site's reference of true time, for a while."""

    until_ms: float = DURATION_MAX_MS

    def check(self) -> None:
        check_end(self.at_ms, self.until_ms)

    def check_names(self, topology: Topology) -> None:
        super().check_names(topology)
        site = topology.site_id(self.site)
        if site not in topology.clusters[topology.sites[site].cluster].references:
            names = [topology.sites[one].name for cluster in topology.clusters for one in cluster.references]
            raise BadValue("site", f"{self.site!r}, which has no reference", one_of(self.site, names))


class ReferenceLie(ReferenceFault, frozen=True, kw_only=True, tag="reference-lie"):
    """Each reading is off by another amount, up to this."""

    by_ms: float

    def check(self) -> None:
        super().check()
        span_ms("by_ms", self.by_ms)


class ReferenceJump(ReferenceFault, frozen=True, kw_only=True, tag="reference-jump"):
    """All readings are off by this."""

    by_ms: float

    def check(self) -> None:
        super().check()
        check_range("by_ms", self.by_ms, -DURATION_MAX_MS, DURATION_MAX_MS)


class ReferenceDeath(ReferenceFault, frozen=True, kw_only=True, tag="reference-death"):
    """There are no readings."""


OfReference = ReferenceLie | ReferenceJump | ReferenceDeath
Fault = Crash | Recover | Leave | Pause | ClockJump | Partition | Heal | Loss | DelayShift | Relink | OfReference


class RandomFaults(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many of each fault to draw from the seed, within the scenario's duration."""

    crashes: int = 0  # of different sites; at least a majority stays up
    recover: float = 0.0  # the share of crashed sites that come back
    partitions: int = 0  # one after the other, each of which heals
    losses: int = 0
    loss_max: float = 0.3
    delay_shifts: int = 0
    delay_factor_max: float = 5.0
    clock_jumps: int = 0
    jump_max_ms: float = 1000.0

    def __post_init__(self) -> None:
        for key in ("crashes", "partitions", "losses", "delay_shifts", "clock_jumps"):
            check_range(key, getattr(self, key), 0, DRAWN_MAX, "a whole number")
        probability("recover", self.recover)
        probability("loss_max", self.loss_max)
        span_ms("jump_max_ms", self.jump_max_ms)
        check_range("delay_factor_max", self.delay_factor_max, 1, FACTOR_MAX)

    def draw(self, topology: Topology, random: Random, duration_ms: float) -> list[Fault]:
        """The faults themselves, in order of time."""
        names = [site.name for site in topology.sites]
        faults: list[Fault] = []

        def span() -> tuple[float, float]:
            start = random.uniform(0, 0.8) * duration_ms
            return start, min(duration_ms, start + random.uniform(0.05, 0.3) * duration_ms)

        for site in random.sample(names, min(self.crashes, (len(names) - 1) // 2)):
            start, end = span()
            faults.append(Crash(at_ms=start, site=site))
            if random.random() < self.recover:
                faults.append(Recover(at_ms=end, site=site))
        edges = sorted(random.uniform(0, duration_ms) for _ in range(2 * self.partitions))
        for (start, end), _ in zip(list(pairwise(edges))[::2], range(self.partitions), strict=False):
            group = tuple(random.sample(names, random.randint(1, max(1, len(names) - 1))))
            faults += [Partition(at_ms=start, groups=(group,)), Heal(at_ms=end)]
        for _ in range(self.losses):
            start, end = span()
            faults.append(Loss(at_ms=start, until_ms=end, probability=random.uniform(0, self.loss_max)))
        for _ in range(self.delay_shifts):
            start, end = span()
            source = tuple(random.sample(names, random.randint(1, len(names))))
            factor = random.uniform(1, self.delay_factor_max)
            faults.append(DelayShift(at_ms=start, until_ms=end, factor=factor, source=source))
        for _ in range(self.clock_jumps):
            by_ms = random.uniform(-1, 1) * self.jump_max_ms
            faults.append(ClockJump(at_ms=span()[0], site=random.choice(names), by_ms=by_ms))
        return sorted(faults, key=lambda fault: fault.at_ms)
