"""One round of chaos: a stack, a network, and what goes wrong when; a function of its options, one of them a seed.

Three kinds of rounds. With *crashes*, two sites of five are the victims: they are killed, stopped and cut off, also
both at a time, while the other three reach each other all the time, if with loss and delay. So the lives of a view that
go on are always a quorum of it, as any promise of survival needs; without files, a group whose quorum was killed needs
an operator. With *cuts* nobody is killed, and all else may happen to every site, several at a time. With a *power cut*,
where there are files, all five are killed at once as well: they must find together again, with an empty state.

Everything that goes wrong ends before the round is over.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import msgspec

from isthmus.core.errors import InputError
from isthmus.scenario.faults import Crash, DelayShift, Fault, Heal, Loss, Partition, Pause, Recover
from isthmus.scenario.load import scenario_from_tables
from isthmus.scenario.model import Scenario
from isthmus.stacks.registry import STACKS

CHAOS_STACKS = ("token-site", "hybrid", "optimistic", "ring", "causal-history", "causal-separators", "flooding")
SITES = (2, 2, 1)  # by cluster
WAN_MS = 10.0
SPAN_MS = {False: (2_000.0, 3_500.0), True: (4_000.0, 6_000.0)}  # of the faults; longer where a network is emulated
LEAD_MS = 300.0  # before the first fault
LARGE_BYTES = (20_000, 200_000, 1_000_000, 4_000_000)
RUN_KEY = "run.key"  # the key file of a sealed round, in its folder
PAD_BYTES = (0, 0, 100_000, 2_000_000)  # of an application's state


class ChaosOptions(msgspec.Struct, frozen=True):
    """What is given of a round; what is None is drawn by the seed."""

    seed: int
    stack: str | None = None
    safe: bool | None = None
    files: bool | None = None
    overload: bool | None = None
    sealed: bool = False  # by a key of the round

    def command(self) -> str:
        """The command that repeats the round."""
        words = ["isthmus live --chaos", str(self.seed)]
        words += [] if self.stack is None else ["--stack", self.stack]
        for name in ("safe", "files", "overload"):
            given = getattr(self, name)
            words += [] if given is None else [f"--{'' if given else 'no-'}{name}"]
        return " ".join([*words, *["--sealed"] * self.sealed])


class Action(msgspec.Struct, frozen=True):
    """What a site is told to do at a time: a command of its process, and the same in words."""

    at_ms: float
    site: int
    command: dict[str, Any]
    words: str


class ChaosPlan(msgspec.Struct, frozen=True):
    """One round, resolved."""

    scenario: Scenario  # with the faults of processes and links; its traffic is the program's own
    emulated: bool
    overload: bool
    actions: tuple[Action, ...]
    power_cut: bool  # all processes are killed at once: only what follows has an end to be compared with
    forgets: tuple[tuple[int, int], ...]  # sites, each with the number of its start at which its file is removed
    rate_per_s: float
    pad_bytes: int

    def words(self) -> str:
        """What distinguishes the round, for people."""
        stack, file = self.scenario.stack, self.scenario.membership.agreed.file
        said = [stack.name, "safe" if stack.safe else "not safe", "files" if file else "no files"]
        said += ["power cut"] * self.power_cut + ["overload"] * self.overload
        said += ["emulated WAN" if self.emulated else "bare loopback"]
        return ", ".join(said)


def plan_of(options: ChaosOptions) -> ChaosPlan:
    """The round of some options."""
    random = Random(f"chaos/{options.seed}")
    drawn, draws = random.choice(CHAOS_STACKS), [random.random() for _ in range(4)]  # whatever is given
    stack = options.stack or drawn
    safe = draws[0] < 0.5 if options.safe is None else options.safe
    if options.stack is not None and options.safe and "safe" not in STACKS[stack].options:
        raise InputError("--safe", "", f"the stack {stack}", "a stack with safe delivery, or --no-safe")
    safe &= "safe" in STACKS[stack].options
    files = draws[1] < 0.5 if options.files is None else options.files
    overload = draws[2] < 1 / 3 if options.overload is None else options.overload
    emulated = draws[3] < 0.35
    span_ms = random.uniform(*SPAN_MS[emulated])
    tables = {
        "name": "chaos",
        "seed": options.seed,
        "duration_ms": LEAD_MS + span_ms,
        "membership": {"kind": "agreed", "agreed": {"file": files}},
        "topology": {
            "defaults": {"lan": {"delay": 0.1}, "wan": {"delay": WAN_MS, "loss": 0.005}},
            "clusters": [{"name": name, "sites": count} for name, count in zip("abc", SITES, strict=True)],
        },
        "stack": {"name": stack} | ({"safe": True} if safe else {}),
        "workloads": [{"kind": "periodic", "rate_per_s": 1.0}],
    }
    scenario = scenario_from_tables(tables, "chaos", Path())
    draw = FaultDraw(random, [site.name for site in scenario.topology.sites], span_ms, files)
    draw.run()
    lives = [sum(isinstance(f, Recover) and f.site == site for f in draw.faults) for site in draw.names]
    forgets = [(n, life + 1) for n, count in enumerate(lives) for life in range(count) if random.random() < 0.3]
    return ChaosPlan(
        scenario=msgspec.structs.replace(scenario, faults=tuple(sorted(draw.faults, key=lambda one: one.at_ms))),
        emulated=emulated,
        overload=overload,
        actions=tuple(sorted(draw.actions, key=lambda one: one.at_ms)),
        power_cut=draw.power_cut,
        forgets=tuple(forgets if files and not draw.power_cut else ()),
        rate_per_s=random.choice([10.0, 30.0, 60.0, 150.0]),
        pad_bytes=random.choice(PAD_BYTES),
    )


class FaultDraw:
    """The faults of a round as they are drawn."""

    def __init__(self, random: Random, names: list[str], span_ms: float, files: bool) -> None:
        self.random = random
        self.names = names
        self.span_ms = span_ms
        self.faults: list[Fault] = []
        self.actions: list[Action] = []
        kind = random.random()
        self.power_cut = files and kind < 0.15
        self.victims = random.sample(names, 2) if kind > 0.4 else []  # []: nobody is killed but by a power cut
        self.up_ms = dict.fromkeys(self.victims, 0.0)  # until when each victim is down or stopped
        self.whole_ms = 0.0  # until when a partition lasts: a heal ends all of them

    def run(self) -> None:
        kinds = [self.pause, self.divide, self.one_way, self.pair_cut, self.lose, self.delay, self.block, self.slow]
        kinds += [self.large, self.large]
        for victim in self.victims:
            for _ in range(self.random.choice([0, 1, 1, 2])):
                self.kill(victim)
        if self.power_cut:
            self.cut_power()
        for _ in range(self.random.randint(2, 7)):
            self.random.choice(kinds)()

    def span(self, shortest_ms: float, longest_ms: float) -> tuple[float, float]:
        """When a fault begins and ends."""
        length_ms = min(self.random.uniform(shortest_ms, longest_ms), 0.9 * self.span_ms)
        at_ms = LEAD_MS + self.random.uniform(0, self.span_ms - length_ms)
        return at_ms, at_ms + length_ms

    def free(self, site: str, at_ms: float, until_ms: float) -> bool:
        """Whether a site is neither down nor stopped then; from now on it counts as that."""
        if at_ms <= self.up_ms.get(site, 0.0):
            return False
        self.up_ms[site] = until_ms
        return True

    def kill(self, site: str) -> None:
        at_ms, until_ms = self.span(100, 1_500)
        if self.free(site, at_ms, until_ms):
            self.faults += [Crash(at_ms=at_ms, site=site), Recover(at_ms=until_ms, site=site)]

    def cut_power(self) -> None:
        """Kill all at once, and start each again soon after."""
        at_ms, until_ms = self.span(100, 1_000)
        for site in self.names:
            up_ms = self.random.uniform(at_ms + 50, until_ms)
            self.free(site, at_ms, up_ms)
            self.faults += [Crash(at_ms=at_ms, site=site), Recover(at_ms=up_ms, site=site)]

    def pause(self) -> None:
        at_ms, until_ms = self.span(50, 2_000)
        site = self.random.choice(self.victims or self.names)
        if self.free(site, at_ms, until_ms):
            self.faults.append(Pause(at_ms=at_ms, until_ms=until_ms, site=site))

    def divide(self) -> None:
        """Cut some sites off from the rest, all of them together or each from all."""
        at_ms, until_ms = self.span(200, 2_000)
        pool = self.victims or self.names
        side = self.random.sample(pool, self.random.randint(1, len(pool) - (not self.victims)))
        if at_ms > self.whole_ms:
            self.whole_ms = until_ms
            groups = (tuple(side),) if self.random.random() < 0.7 else tuple((one,) for one in side)
            self.faults += [Partition(at_ms=at_ms, groups=groups), Heal(at_ms=until_ms)]

    def one_way(self) -> None:
        """Drop all packets in one direction between two sets of sites."""
        at_ms, until_ms = self.span(200, 2_000)
        pool = self.victims or self.names
        side = tuple(self.random.sample(pool, self.random.randint(1, len(pool) - (not self.victims))))
        rest = tuple(name for name in self.names if name not in side)
        ends = (side, rest) if self.random.random() < 0.5 else (rest, side)
        self.faults.append(Loss(at_ms=at_ms, until_ms=until_ms, source=ends[0], target=ends[1], probability=1.0))

    def pair_cut(self) -> None:
        """Drop all packets between two sites, in one or both directions; all others reach both."""
        at_ms, until_ms = self.span(200, 2_000)
        one = self.random.choice(self.victims or self.names)
        other = self.random.choice([name for name in self.names if name != one])
        for a, b in [(one, other), (other, one)][: self.random.choice([1, 2, 2])]:
            self.faults.append(Loss(at_ms=at_ms, until_ms=until_ms, source=(a,), target=(b,), probability=1.0))

    def lose(self) -> None:
        at_ms, until_ms = self.span(200, 2_500)
        source = tuple(self.random.sample(self.names, self.random.randint(1, len(self.names))))
        part = self.random.uniform(0.02, 0.25)
        self.faults.append(Loss(at_ms=at_ms, until_ms=until_ms, source=source, probability=part))

    def delay(self) -> None:
        at_ms, until_ms = self.span(200, 2_000)
        pool = self.names if self.random.random() < 0.5 else self.victims or self.names
        source = tuple(self.random.sample(pool, self.random.randint(1, len(pool))))
        add_ms = self.random.choice([5.0, 40.0, 150.0, 500.0 if not self.victims else 80.0])
        self.faults.append(DelayShift(at_ms=at_ms, until_ms=until_ms, source=source, add_ms=add_ms))

    def tell(self, at_ms: float, site: str, words: str, **command: object) -> None:
        self.actions.append(Action(at_ms, self.names.index(site), dict(command), f"{site} {words}"))

    def block(self) -> None:
        at_ms, until_ms = self.span(50, 1_500)
        busy = self.random.random() < 0.5
        blocked_s = (until_ms - at_ms) / 1e3
        words = f"blocks its event loop for {blocked_s:.2f} s, {'computing' if busy else 'sleeping'}"
        self.tell(at_ms, self.random.choice(self.names), words, block_s=blocked_s, busy=busy)

    def slow(self) -> None:
        at_ms, until_ms = self.span(500, 2_000)
        site, slow_ms = self.random.choice(self.names), self.random.choice([2.0, 20.0, 100.0])
        self.tell(at_ms, site, f"takes {slow_ms:g} ms for each message", slow_ms=slow_ms)
        self.tell(until_ms, site, "reads fast again", slow_ms=0.0)

    def large(self) -> None:
        at_ms, _ = self.span(100, 200)
        size = self.random.choice(LARGE_BYTES)
        self.tell(at_ms, self.random.choice(self.names), f"sends {size:,} bytes", large=size)
