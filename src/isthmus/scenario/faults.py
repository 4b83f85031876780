"""Faults of a scenario as data: faults at given times, or a number of each kind drawn from the seed."""

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
    """Base of all faults."""

    at_ms: float

    def __post_init__(self) -> None:
        span_ms("at_ms", self.at_ms)
        self.check()

    def check(self) -> None:
        """Reject values that are invalid for this kind of fault."""

    def check_names(self, topology: Topology) -> None:
        """Reject names that are not in the topology."""


def check_end(at_ms: float, until_ms: float) -> None:
    """Reject a fault that ends before it begins."""
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
    """A crash: the site stops and loses its state; packets already sent remain in flight."""


class Recover(OneSite, frozen=True, kw_only=True, tag="recover"):
    """A recovery: a crashed site restarts with a new incarnation and joins the next view."""


class Leave(OneSite, frozen=True, kw_only=True, tag="leave"):
    """A leave: the site requests removal from the next view and then ends; agreed membership only."""


class Pause(OneSite, frozen=True, kw_only=True, tag="pause"):
    """A pause: the site stops for a while, as a process does at SIGSTOP, then resumes; agreed membership only."""

    until_ms: float

    def check(self) -> None:
        check_end(self.at_ms, self.until_ms)


class ClockJump(OneSite, frozen=True, kw_only=True, tag="clock-jump"):
    """A clock jump: the site's clock is set forward or back."""

    by_ms: float

    def check(self) -> None:
        check_range("by_ms", self.by_ms, -DURATION_MAX_MS, DURATION_MAX_MS)


class Partition(At, frozen=True, kw_only=True, tag="partition"):
    """A partition: no packets between the groups until the next heal; sites not named form one more group."""

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
    """A heal: all partitions end."""


class Between(At, frozen=True, kw_only=True):
    """A temporary fault of the channels from some sites to others."""

    until_ms: float
    source: tuple[str, ...] = ()  # () for all sites
    target: tuple[str, ...] = ()

    def check(self) -> None:
        check_end(self.at_ms, self.until_ms)

    def check_names(self, topology: Topology) -> None:
        named_sites(topology, self.source, "source")
        named_sites(topology, self.target, "target")


class Loss(Between, frozen=True, kw_only=True, tag="loss"):
    """Additional packet loss."""

    probability: float

    def check(self) -> None:
        super().check()
        probability("probability", self.probability)


class DelayShift(Between, frozen=True, kw_only=True, tag="delay-shift"):
    """Longer delays: multiplied by a factor, plus a constant."""

    factor: float = 1.0
    add_ms: float = 0.0

    def check(self) -> None:
        super().check()
        check_range("factor", self.factor, 0, FACTOR_MAX)
        span_ms("add_ms", self.add_ms)


class Relink(At, frozen=True, kw_only=True, tag="relink"):
    """New links between gateways: from the resulting view on, relayed messages take other routes."""

    links: tuple[tuple[str, str], ...]

    def check_names(self, topology: Topology) -> None:
        lans_of(self.topology(topology))

    def topology(self, before: Topology) -> Topology:
        """Return the topology with these links between gateways."""
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
    """A temporary fault of a site's reference of true time."""

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
    """A lying reference: each reading has its own error, up to this bound."""

    by_ms: float

    def check(self) -> None:
        super().check()
        span_ms("by_ms", self.by_ms)


class ReferenceJump(ReferenceFault, frozen=True, kw_only=True, tag="reference-jump"):
    """A jump of the reference: all readings have this error."""

    by_ms: float

    def check(self) -> None:
        super().check()
        check_range("by_ms", self.by_ms, -DURATION_MAX_MS, DURATION_MAX_MS)


class ReferenceDeath(ReferenceFault, frozen=True, kw_only=True, tag="reference-death"):
    """A dead reference: no readings."""


OfReference = ReferenceLie | ReferenceJump | ReferenceDeath
Fault = Crash | Recover | Leave | Pause | ClockJump | Partition | Heal | Loss | DelayShift | Relink | OfReference


class RandomFaults(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Numbers of faults to draw from the seed, within the scenario's duration."""

    crashes: int = 0  # of distinct sites; a majority stays up
    recover: float = 0.0  # fraction of crashed sites that recover
    partitions: int = 0  # one after the other; each heals
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
        """Return the drawn faults in order of time."""
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
