"""The runs of the study `regret`: on every instance every set of active sites, and five ways to choose roles.

Where there are more than 31 sets, only those predicted to be fastest are simulated; of a cloud at quick scale, the
first four.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import combinations

import msgspec

from isthmus.advise.order.total import hybrid_stack
from isthmus.scenario.model import HybridSpec, Scenario, StackSpec
from isthmus.stacks.roles.assignment import RoleChoice, paper_rule, plan, with_nearest
from isthmus.stacks.roles.prediction import RoleAssignment, Setting
from isthmus.studies.model import Cell, Scale
from isthmus.studies.regret.claims import FIXED
from isthmus.studies.tickets.instances import (
    CLOUDS,
    KINDS,
    StreamKind,
    as_topology,
    as_workloads,
    cloud_setting,
    drawn_setting,
    nine_setting,
)
from isthmus.studies.tickets.labels import DYNAMIC, DYNAMIC_ALONE, NINE, NULL_MS, PLANNED, RULE, RULE_NO_NULLS
from isthmus.studies.tickets.setup import DRAIN_MS, NO_NULLS, WITH_NULLS, dynamic_stack

SETS_MAX = 31  # all sets of active sites, of five sites
FEW_SETS = 4  # of a cloud at quick scale
DRAWN: dict[Scale, int] = {"quick": 4, "full": 30}
NINE_OF: dict[Scale, tuple[str, ...]] = {"quick": ("HLLLL", "HHLHL", "LLLHH"), "full": NINE}
CLOUDS_OF: dict[Scale, tuple[str, ...]] = {"quick": tuple(CLOUDS)[:1], "full": tuple(CLOUDS)}
FROM_MS: dict[Scale, float] = {"quick": 4_000.0, "full": 5_000.0}  # until the dynamic hybrid has found its roles
LAST_MS: dict[Scale, float] = {"quick": 1_000.0, "full": 2_000.0}  # after the span
MESSAGES: dict[Scale, int] = {"quick": 500, "full": 2_000}  # in the span, where that is not too short or too long
SPAN_MIN_MS, SPAN_MAX_MS = 2_000.0, 40_000.0


class Instance(msgspec.Struct, frozen=True):
    """A network with its traffic."""

    name: str
    family: str
    kind: StreamKind
    setting: Setting


def instances(scale: Scale) -> Iterator[Instance]:
    """All instances; at quick scale each with one kind of source, in turn."""
    made: list[tuple[str, str, Callable[..., Setting]]] = [
        *(("nine", load, partial(nine_setting, load)) for load in NINE_OF[scale]),
        *(("cloud", name, partial(cloud_setting, name)) for name in CLOUDS_OF[scale]),
        *(("drawn", f"drawn {number}", partial(drawn_setting, number)) for number in range(DRAWN[scale])),
    ]
    for place, (family, name, make) in enumerate(made):
        for kind in KINDS if scale == "full" and family != "drawn" else (KINDS[place % 2],):
            yield Instance(f"{name}, {kind}", family, kind, make(kind=kind, null_ms=NULL_MS))


def fixed_choices(setting: Setting, most: int) -> list[RoleChoice]:
    """Every set of active sites with the nearest sequencers; only the `most` predicted to be fastest."""
    sites = range(setting.count)
    sets = [active for size in sites for active in combinations(sites, size + 1)]
    choices = [with_nearest(setting, active) for active in sets]
    return sorted(choices, key=lambda choice: choice.mean_ms)[:most]


def grid(scale: Scale, seeds: Sequence[int]) -> list[Cell]:
    return [made for instance in instances(scale) for seed in seeds for made in cells_of(instance, seed, scale)]


def cells_of(instance: Instance, seed: int, scale: Scale) -> Iterator[Cell]:
    setting = instance.setting
    topology = as_topology(setting)
    rule = paper_rule(setting.delays_ms, setting.periods_ms)
    most = FEW_SETS if scale == "quick" and instance.family == "cloud" else SETS_MAX
    stacks = [(FIXED, choice.roles, WITH_NULLS) for choice in fixed_choices(setting, most)]
    stacks += [(PLANNED, plan(setting).roles, WITH_NULLS), (RULE, rule, WITH_NULLS), (RULE_NO_NULLS, rule, NO_NULLS)]
    for choice, roles, spec in stacks:
        stack = msgspec.structs.replace(hybrid_stack(topology, roles, spec), transport="direct")
        yield cell(instance, choice, roles_label(roles), stack, seed, scale)
    yield cell(instance, DYNAMIC, "", dynamic_stack(WITH_NULLS), seed, scale)
    yield cell(instance, DYNAMIC_ALONE, "", dynamic_stack(HybridSpec(rule="dynamic")), seed, scale)


def roles_label(roles: RoleAssignment) -> str:
    return " ".join(map(str, roles.sequencer))


def cell(instance: Instance, choice: str, roles: str, stack: StackSpec, seed: int, scale: Scale) -> Cell:
    wanted_ms = MESSAGES[scale] / sum(instance.setting.rates)
    from_ms = FROM_MS[scale]
    until_ms = from_ms + min(SPAN_MAX_MS, max(SPAN_MIN_MS, wanted_ms))
    scenario = Scenario(
        name="regret",
        topology=as_topology(instance.setting),
        stack=stack,
        workloads=as_workloads(instance.setting),
        seed=seed,
        duration_ms=until_ms + LAST_MS[scale],
        drain_ms=DRAIN_MS,
        wire="reference",
    )
    names = {"instance": instance.name, "family": instance.family, "kind": instance.kind}
    return Cell(
        {**names, "choice": choice, "roles": roles, "from_ms": from_ms, "until_ms": until_ms, "seed": seed}, scenario
    )
