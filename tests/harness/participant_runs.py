"""Random scenarios with participants, carried out and judged."""

from __future__ import annotations

from random import Random

import msgspec

from isthmus.core.message import GroupId
from isthmus.core.units import NS_PER_MS
from isthmus.fuzz.agreed import agreed_scenario
from isthmus.fuzz.scenarios import hard_scenario, random_scenario
from isthmus.judge.judgement import judge
from isthmus.judge.participants import ParticipantHistory
from isthmus.protocols.participants.ordered import Participants
from isthmus.protocols.participants.wire import Participant
from isthmus.scenario.model import Scenario
from isthmus.scenario.participants.model import LABEL_BYTES, ParticipantSpec
from isthmus.scenario.workload import Poisson
from isthmus.sim.base import SETTLE_NS
from isthmus.sim.run import SimRun
from isthmus.stacks.registry import STACKS, Build
from isthmus.trace.schema import Row

DRAIN_MS = 600_000.0


def participant_scenario(stack: str, seed: int) -> Scenario:
    """A random network with faults, a little traffic of the sites, and participants that come and go under load."""
    random = Random(f"light/{stack}/{seed}")
    make = hard_scenario if random.random() < 0.3 else random_scenario
    plain = make(stack, seed)
    names = [site.name for site in plain.topology.sites]
    duration_ms = plain.duration_ms
    groups = [f"g{number}" for number in range(random.randint(1, 3))]
    wide = random.random() < 0.5  # some sites host nothing
    hosts = names if wide else random.sample(names, random.randint(1, len(names)))
    participants = [
        random_participant(random, random.choice(groups), random.choice(hosts), duration_ms)
        for _ in range(random.randint(4, 16))
    ]
    return msgspec.structs.replace(
        plain,
        name=f"light-{stack}-{seed}",
        groups=(),
        workloads=(Poisson(rate_per_s=random.choice([1, 20]), payload_bytes=4),),
        participants=tuple(participants),
        drain_ms=DRAIN_MS,
        readers=(),
    )


def agreed_participant_scenario(stack: str, seed: int) -> Scenario:
    """The same participants over sites that agree on views, with the faults of `agreed_scenario`."""
    light, agreed = participant_scenario(stack, seed), agreed_scenario(stack, seed)
    return msgspec.structs.replace(
        light,
        name=f"agreed-light-{stack}-{seed}",
        stack=agreed.stack,
        duration_ms=max(agreed.duration_ms, light.duration_ms),
        drain_ms=agreed.drain_ms,
        faults=agreed.faults,
        random_faults=agreed.random_faults,
        membership=agreed.membership,
    )


def random_participant(random: Random, group: str, site: str, duration_ms: float) -> ParticipantSpec:
    """One that comes at any time and stays for any time; names are few, so that some come again or share one."""
    join_ms = 0.0 if random.random() < 0.3 else random.uniform(0, 0.9 * duration_ms)
    leave_ms = random.uniform(join_ms, duration_ms) if random.random() < 0.6 else None
    return ParticipantSpec(
        name=random.choice(["ann", "bob", "eve"]),
        group=group,
        site=site,
        join_ms=join_ms,
        leave_ms=None if leave_ms == join_ms else leave_ms,
        period_ms=duration_ms / random.choice([10, 50, 200]),
        payload_bytes=random.choice([LABEL_BYTES, 300]),
    )


class ParticipantRun:
    """A run of participants, carried out and judged."""

    def __init__(self, scenario: Scenario, build: Build | None = None) -> None:
        self.scenario = scenario
        self.rows: list[Row] = []
        self.run = SimRun(scenario, self.rows, build)
        self.found: list[str] = []

    def judge(self) -> list[str]:
        """What is wrong, a sentence each; nothing for a good run."""
        try:
            self.run.execute()
            self.wait_for_rest()
        except Exception as error:  # a run that cannot go on is a finding
            return [f"error: {type(error).__name__}: {error}"]
        if not self.run.at_rest():
            self.found.append("did not come to rest")
        if self.run.summary.rejected_count:
            self.found.append(f"{self.run.summary.rejected_count} packets were refused")
        promised = STACKS[self.scenario.stack.name].properties
        up = [(site.site, site.incarnation) for site in self.run.sites if site.alive]
        self.found += ParticipantHistory(self.run.participant_events, up).violations(promised)
        self.check_end()
        return self.found

    def wait_for_rest(self) -> None:
        """Go on where a wrong suspicion has come just when the run was about to end."""
        last_ns = self.run.end_ns + round(self.scenario.drain_ms * NS_PER_MS)
        while not self.run.at_rest() and self.run.scheduler.now_ns < last_ns:
            for _ in self.run.advance(self.run.scheduler.now_ns + SETTLE_NS):
                pass

    def judge_trace(self) -> list[str]:
        """What the trace alone shows to be wrong with participant groups; to be asked after `judge`."""
        return [
            f"{group.group} since {group.era}: {verdict.property}: {verdict.witness}"
            for group in judge(self.scenario, self.rows).participants
            for verdict in group.verdicts
            if verdict.status == "violated"
        ]

    def layers_up(self) -> list[Participants]:
        return [
            site.ports[GroupId(0)].stack.find(Participants)
            for site in self.run.sites
            if site.alive and GroupId(0) in site.ports
        ]

    def check_end(self) -> None:
        """All that are up know the same, and those that should be there are there."""
        tables = [
            {name: (group.number, group.members) for name, group in layer.groups.items() if group.number}
            for layer in self.layers_up()
        ]
        if any(table != tables[0] for table in tables):
            self.found.append(f"at the end sites know different views: {tables}")
        for layer in self.layers_up():
            for (group, name), stay in layer.stays.items():
                members = layer.view_of(group).members
                if Participant(layer.host.site, name) not in members or stay.leaving:
                    self.found.append(f"at the end {name}@{layer.host.site} is not where it wants to be in {group}")
