"""The choice of active sites, and of the active site that issues tickets for each passive one.

There are two methods. The paper's rule compares each site with the nearest active one alone: it should be active where
its period is below the round trip to a sequencer. It ignores the cost to the others: every active site makes all others
wait for its next packet, near or far. The planner takes that into account (`prediction`): from several
starts it adds, drops or exchanges one active site at a time as long as the mean latency falls.

The paper's rule is 001, Figure 2, read as: the passive sites are visited by rate, then id, and each change counts at
once; of several nearest active sites the one of highest rate, then lowest id, is the sequencer.

Invariants: an assignment has an active site; the same setting gives the same assignment; no choice is ever worse than
the best token site, the symmetric protocol or the paper's rule, as all of them are starts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations, product

import msgspec

from isthmus.core.validation import BadValue
from isthmus.stacks.roles.multicasts import multicast_rate
from isthmus.stacks.roles.prediction import Prediction, RoleAssignment, Setting, predict

THOROUGH_MAX = 12  # sites; beyond, the first change that helps is taken, and only the best token sites are starts
STARTS = 2  # how many token sites, then
EXCHANGES = 8  # sites of each kind that are tried in the place of an active one, then
REFINED_MAX = 6  # sites; beyond, sequencers are chosen one by one only at the end
EXHAUSTIVE_MAX = 10  # sites
FEW = 4  # of many sequencers, those by which messages are first are tried one by one
SEQUENCERS_MAX = 300  # choices of sequencers that are tried for one set of active sites
LESS = 1 - 1e-9  # a gain below is none: it ends every search


class RoleChoice(msgspec.Struct, frozen=True):
    """An assignment of roles with what it is expected to cost."""

    roles: RoleAssignment
    prediction: Prediction

    @property
    def mean_ms(self) -> float:
        return self.prediction.mean_ms


def token_site_roles(count: int, sequencer: int) -> RoleAssignment:
    """One active site, the sequencer of all."""
    return RoleAssignment((sequencer,) * count)


def symmetric_roles(count: int) -> RoleAssignment:
    """All active."""
    return RoleAssignment(tuple(range(count)))


def paper_rule(delays_ms: Sequence[Sequence[float]], periods_ms: Sequence[float]) -> RoleAssignment:
    """The assignment of paper 001, Figure 2; a silent site has the period inf."""
    order = sorted(range(len(periods_ms)), key=lambda site: (periods_ms[site], site))
    active = order[:1]  # in the order of rates, so that the first of several nearest is the fastest

    def nearest(site: int) -> int:
        return min(sorted(active, key=order.index), key=lambda other: delays_ms[site][other])

    changed = True
    while changed:
        changed = False
        for site in order:
            if site not in active and periods_ms[site] < delays_ms[site][nearest(site)]:  # D + t < 2 D
                active.append(site)
                changed = True
    return RoleAssignment(tuple(site if site in active else nearest(site) for site in range(len(order))))


def evaluate(setting: Setting, roles: RoleAssignment) -> RoleChoice:
    return RoleChoice(roles, predict(setting, roles))


def best_token_site(setting: Setting) -> RoleChoice:
    """The sequencer of all that costs least."""
    return cheapest(evaluate(setting, token_site_roles(setting.count, site)) for site in range(setting.count))


def plan(setting: Setting, slack: float = 0.0) -> RoleChoice:
    """The assignment that the greedy search finds; quick for tens of sites.

    With some slack, of all that it has tried and that are slower by no more than this share, the one of the fewest
    multicasts.
    """
    search = Search(setting)
    found = search.run()
    if not slack:
        return found
    close = [choice for choice in (found, *search.tried.values()) if choice.mean_ms <= (1 + slack) * found.mean_ms]
    return min(
        close, key=lambda choice: (multicast_rate(setting, choice.roles), choice.mean_ms, choice.roles.sequencer)
    )


def best(setting: Setting) -> RoleChoice:
    """The best of all assignments, by trying them.

    Every set of active sites is tried; with it every choice of sequencers where they are few, otherwise those that
    changing one at a time leads to.
    """
    if setting.count > EXHAUSTIVE_MAX:
        raise BadValue("delays_ms", f"{setting.count} sites", f"at most {EXHAUSTIVE_MAX} to try all assignments")
    sets = [s for size in range(1, setting.count + 1) for s in combinations(range(setting.count), size)]
    return cheapest(every_sequencer(setting, active) for active in sets)


def every_sequencer(setting: Setting, active: tuple[int, ...]) -> RoleChoice:
    """The best sequencers for a set of active sites."""
    passive = [site for site in range(setting.count) if site not in active]
    if len(active) ** len(passive) > SEQUENCERS_MAX or not setting.eager:
        return refine(setting, with_nearest(setting, active))
    options = [(site,) if site in active else active for site in range(setting.count)]
    return cheapest(evaluate(setting, RoleAssignment(sequencers)) for sequencers in product(*options))


def with_nearest(setting: Setting, active: Sequence[int]) -> RoleChoice:
    """Each passive site with the nearest active one; where tickets wait for a next packet, there is nothing better."""
    delays = setting.delays_ms
    rows = range(setting.count)
    nearest = [site if site in active else min(active, key=lambda a: (delays[site][a], a)) for site in rows]
    return evaluate(setting, RoleAssignment(tuple(nearest)))


def with_earliest(setting: Setting, nearest: RoleChoice) -> RoleChoice:
    """Each passive site with the sequencer through which its messages are fastest, before any site moves."""
    active, rows = nearest.roles.active, range(setting.count)
    first = [site if site in active else min(active, key=lambda a: through(setting, nearest, site, a)) for site in rows]
    moved = RoleAssignment(tuple(first))
    return nearest if moved == nearest.roles else cheapest((nearest, evaluate(setting, moved)))


def refine(setting: Setting, choice: RoleChoice) -> RoleChoice:
    """Change the sequencer of one passive site at a time as long as it helps, the fastest sites first."""
    if not setting.eager or len(choice.roles.active) == 1:
        return choice
    order = sorted(range(setting.count), key=lambda site: (setting.periods_ms[site], site))
    few = setting.count if setting.count <= THOROUGH_MAX else FEW
    before = None
    while before is None or choice.mean_ms < before.mean_ms * LESS:
        before, active = choice, choice.roles.active
        for site in order:
            if site not in active:
                sequencer = choice.roles.sequencer
                near = sorted(active, key=lambda a: through(setting, choice, site, a))[:few]
                moves = (
                    RoleAssignment((*sequencer[:site], a, *sequencer[site + 1 :])) for a in near if a != sequencer[site]
                )
                choice = cheapest((choice, *(evaluate(setting, roles) for roles in moves)))
    return choice


def through(setting: Setting, choice: RoleChoice, site: int, sequencer: int) -> tuple[float, int]:
    """Return the latency of a site's messages through a sequencer if nothing else changed, and its id."""
    return setting.delays_ms[site][sequencer] + choice.prediction.site_ms[sequencer], sequencer


def cheapest(choices: Iterable[RoleChoice]) -> RoleChoice:
    """The one of least mean latency; of equals the first with the fewest active sites."""
    found: RoleChoice | None = None
    for choice in choices:
        if (
            found is None
            or choice.mean_ms < found.mean_ms * LESS
            or (choice.mean_ms <= found.mean_ms and len(choice.roles.active) < len(found.roles.active))
        ):
            found = choice
    assert found is not None
    return found


class Search:
    """Greedy search over sets of active sites, each tried once."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.small = setting.count <= THOROUGH_MAX
        self.order = sorted(range(setting.count), key=lambda site: (setting.periods_ms[site], site))
        self.tried: dict[frozenset[int], RoleChoice] = {}

    def run(self) -> RoleChoice:
        setting = self.setting
        paper = paper_rule(setting.delays_ms, setting.periods_ms)
        tokens = sorted((self.of(frozenset((site,))) for site in range(setting.count)), key=lambda c: c.mean_ms)
        starts = [*tokens[: None if self.small else STARTS], self.of(frozenset(range(setting.count)))]
        starts.append(self.of(frozenset(paper.active)))
        found = cheapest((evaluate(setting, paper), *map(self.climb, starts)))
        if not self.small:
            found = cheapest((found, self.climb(self.exchanged(found))))
        return refine(setting, found)

    def climb(self, choice: RoleChoice) -> RoleChoice:
        """Change one active site at a time as long as it helps."""
        before = None
        while before is None or choice.mean_ms < before.mean_ms * LESS:
            before = choice
            choice = self.best_change(choice) if self.small else self.any_changes(choice)
        return choice

    def best_change(self, choice: RoleChoice) -> RoleChoice:
        """The best set with one more, one less or another active site, if there is a better one."""
        active, sites = frozenset(choice.roles.active), range(self.setting.count)
        changed = [active ^ {site} for site in sites if active != {site}]
        changed += [active ^ {old, new} for old in sites for new in sites if old in active and new not in active]
        return cheapest((choice, *map(self.of, changed)))

    def any_changes(self, choice: RoleChoice) -> RoleChoice:
        """Go through all sites, the slowest first, and change each where that helps."""
        for site in reversed(self.order):
            if choice.roles.active != (site,):
                choice = cheapest((choice, self.of(frozenset(choice.roles.active) ^ {site})))
        return choice

    def exchanged(self, choice: RoleChoice) -> RoleChoice:
        """Put another site in the place of each active one where that helps."""
        delays = self.setting.delays_ms
        for old in choice.roles.active:
            active = frozenset(choice.roles.active)
            rest = [site for site in self.order if site not in active]
            near = sorted(rest, key=lambda site: (delays[old][site], site))[:EXCHANGES]
            tried = dict.fromkeys([*rest[:EXCHANGES], *near])  # the fastest, and the nearest
            choice = cheapest((choice, *(self.of(active ^ {old, new}) for new in tried)))
        return choice

    def of(self, active: frozenset[int]) -> RoleChoice:
        """The sequencers for a set of active sites."""
        if active not in self.tried:
            choice = with_nearest(self.setting, sorted(active))
            if self.setting.eager:
                choice = with_earliest(self.setting, choice)
            self.tried[active] = refine(self.setting, choice) if self.setting.count <= REFINED_MAX else choice
        return self.tried[active]
