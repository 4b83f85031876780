"""Faults of a live run, without processes: each comes at its time, and an interrupt ends the run, then its sites."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from isthmus.cli.live import gentle_interrupt
from isthmus.core.message import SiteId
from isthmus.live.run.faults import EventLog, FaultInjector
from isthmus.scenario.faults import Crash, DelayShift, Fault, Heal, Loss, Partition, Recover
from isthmus.scenario.model import Membership, Scenario, StackSpec
from isthmus.scenario.workload import Poisson
from isthmus.topology.delay import Constant
from isthmus.topology.model import Channel
from isthmus.topology.shapes import mesh

WAIT_S = 60.0  # for slow machines


class FakeChild:
    """A process that keeps what it is told."""

    def __init__(self) -> None:
        self.begun, self.killed = True, False
        self.told: list[dict[str, Any]] = []
        self.kill_count = 0

    def tell(self, word: dict[str, Any]) -> None:
        self.told.append(word)

    def takes_commands(self) -> bool:
        return self.begun and not self.killed

    def kill(self) -> None:
        self.kill_count += 1


class SlowInjector(FaultInjector):
    """Starts a site again only once another has crashed."""

    def prepare(self) -> None:
        self.crashed: list[SiteId] = []
        self.started: list[SiteId] = []
        self.go_on = asyncio.Event()

    async def crash(self, site: SiteId) -> None:
        self.crashed.append(site)
        if site == 2:
            self.go_on.set()

    async def recover(self, site: SiteId) -> None:
        await self.go_on.wait()
        self.started.append(site)


def injector(*faults: Fault) -> SlowInjector:
    channel = Channel(Constant(1.0))
    scenario = Scenario(
        topology=mesh(1, 4, channel, channel),
        stack=StackSpec(name="fifo"),
        workloads=(Poisson(rate_per_s=1),),
        duration_ms=100.0,
        faults=faults,
        membership=Membership(kind="agreed"),
    )
    children: Any = [FakeChild() for _ in scenario.topology.sites]
    made = SlowInjector(scenario, Path(), [], children, {}, EventLog(scenario, None))
    made.prepare()
    return made


def test_a_slow_start_holds_up_its_own_site_only() -> None:
    async def run() -> None:
        made = injector(
            Crash(at_ms=1.0, site="c0-1"),
            Recover(at_ms=2.0, site="c0-1"),
            Crash(at_ms=3.0, site="c0-1"),  # after the start of this site, which is slow
            Crash(at_ms=4.0, site="c0-2"),  # without waiting for it
        )
        await asyncio.wait_for(made.run(), WAIT_S)
        assert made.started == [SiteId(1)]
        assert made.crashed == [SiteId(1), SiteId(2), SiteId(1)]

    asyncio.run(run())


def cut_off(made: FaultInjector) -> list[list[int]]:
    return [made.network_of(SiteId(site))["cut"] for site in range(4)]


def test_a_site_that_is_started_again_is_still_cut_off() -> None:
    async def run() -> None:
        made = injector(Partition(at_ms=1.0, groups=(("c0-0",), ("c0-1", "c0-2"))))
        assert cut_off(made) == [[], [], [], []]
        await asyncio.wait_for(made.run(), WAIT_S)
        assert cut_off(made) == [[1, 2, 3], [0, 3], [0, 3], [0, 1, 2]]
        made.divide(Partition(at_ms=2.0, groups=(("c0-1",),)))  # besides the first
        assert cut_off(made) == [[1, 2, 3], [0, 2, 3], [0, 1, 3], [0, 1, 2]]
        made.divide(Heal(at_ms=3.0))
        assert cut_off(made) == [[], [], [], []]

    asyncio.run(run())


def test_a_cut_waits_for_a_process_that_has_not_begun() -> None:
    made = injector()
    children: Any = made.children
    children[1].begun = False
    made.divide(Partition(at_ms=1.0, groups=(("c0-0",),)))
    assert [len(child.told) for child in children] == [1, 0, 1, 1]
    assert cut_off(made)[1] == [0]  # what it is told as it begins


def test_faults_of_links_hold_in_one_direction_and_until_they_end() -> None:
    one_way = Loss(at_ms=1.0, until_ms=6.0, source=("c0-0",), target=("c0-1",), probability=1.0)
    lossy = Loss(at_ms=2.0, until_ms=5.0, probability=0.5)
    slow = DelayShift(at_ms=3.0, until_ms=4.0, source=("c0-0",), factor=2.0, add_ms=1.0)

    async def run() -> None:
        made = injector(one_way, lossy, slow)
        await asyncio.wait_for(made.run(), WAIT_S)
        children: Any = made.children
        assert [word["links"] for word in children[0].told] == [
            [[1, 1.0, 1.0, 0.0]],
            [[1, 1.0, 1.0, 0.0], [2, 0.5, 1.0, 0.0], [3, 0.5, 1.0, 0.0]],
            [[1, 1.0, 2.0, 1.0], [2, 0.5, 2.0, 1.0], [3, 0.5, 2.0, 1.0]],
            [[1, 1.0, 1.0, 0.0], [2, 0.5, 1.0, 0.0], [3, 0.5, 1.0, 0.0]],
            [[1, 1.0, 1.0, 0.0]],
            [],
        ]
        assert children[1].told[0]["links"] == []  # the other way is as it was

    asyncio.run(run())


def test_the_first_interrupt_ends_the_run_and_the_second_its_sites() -> None:
    child = FakeChild()
    ended: list[int] = []

    async def run() -> None:
        with gentle_interrupt([child]):  # type: ignore[list-item]
            os.kill(os.getpid(), signal.SIGINT)
            try:
                await asyncio.sleep(WAIT_S)
            finally:
                ended.append(child.kill_count)
                os.kill(os.getpid(), signal.SIGINT)
                while not child.kill_count:
                    await asyncio.sleep(0)

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(run())
    assert ended == [0] and child.kill_count == 1
