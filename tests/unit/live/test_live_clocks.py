"""Clocks of live sites: stamps by the kernel, references that tests drive, what users read, what a trace tells.

Nothing depends on how fast the machine is: tests wait until a clock stands as it should, and judge intervals, which a
slow machine makes wider and never wrong.
"""

from __future__ import annotations

import asyncio
import socket
import sys
import time
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest
from bench.clock_site import lan
from tests.harness.live_groups import join, site_of
from tests.harness.ports import free_ports

from isthmus import Group
from isthmus.core.errors import InputError, LocalError
from isthmus.core.layer import ClockState, Kind
from isthmus.judge.oracle import Oracle
from isthmus.live.clock.references import file_source, parse, reference_source, socket_source
from isthmus.live.clock.service import ClockPlan
from isthmus.live.net.timestamps import ANCILLARY_BYTES, ahead_ns, ask_for_stamps, stamp_of
from isthmus.live.node.plans import GroupPlan
from isthmus.scenario.clocks import TimeService
from isthmus.topology.model import Topology
from isthmus.trace.schema import GAUGE, KIND, Gauge, Row

TIMEOUT_S = 90.0
SERVICE = TimeService(
    period_ms=300.0, window_ms=60.0, agreement_ms=120.0, sample_ms=100.0, drift_ppm=200.0, reference_error_us=100.0
)
DRIVEN_MS = 5_000.0


def run(program: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(program, TIMEOUT_S))


async def eventually(holds: Callable[[], bool]) -> None:
    while not holds():  # within the time of `run`
        await asyncio.sleep(0.02)


def state_of(group: Group) -> ClockState | None:
    return group.clock().state


def contains(group: Group, offset_ns: int = 0) -> bool:
    """Whether true time, the system clock plus an offset, is within what a site tells."""
    before, interval, after = time.time_ns(), group.clock().interval(), time.time_ns()
    assert interval is not None
    return interval[0] <= after + offset_ns and interval[1] >= before + offset_ns


def tells_bound(row: Row) -> bool:
    return row[KIND] == Kind.GAUGE and row[GAUGE] == Gauge.CLOCK_BOUND_NS


async def joined(
    stack: AsyncExitStack, topology: Topology, plans: dict[str, ClockPlan], sinks: dict[str, list[Row]] | None = None
) -> list[Group]:
    """A group of all sites, in this process."""
    names = [site.name for site in topology.sites]
    ports = free_ports(names)
    rows = sinks if sinks is not None else {}
    groups = [join(topology, name, ports, clocks=plans.get(name), sink=rows.setdefault(name, [])) for name in names]
    return list(await asyncio.gather(*(stack.enter_async_context(group) for group in groups)))


# Stamps


@pytest.mark.skipif(sys.platform != "linux", reason="kernel stamps are asked for on Linux")
def test_the_kernel_stamps_what_arrives_between_sending_and_reading() -> None:
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as two,
    ):
        two.bind(("127.0.0.1", 0))
        assert ask_for_stamps(two)
        before = time.time_ns()
        one.sendto(b"now", two.getsockname())
        two.settimeout(TIMEOUT_S)
        datagram, ancillary, _, _ = two.recvmsg(100, ANCILLARY_BYTES)
        stamp = stamp_of(ancillary)
        assert datagram == b"now" and stamp is not None and before <= stamp <= time.time_ns()


def test_where_there_is_no_stamp_there_is_none() -> None:
    assert stamp_of([]) is None
    assert stamp_of([(socket.SOL_SOCKET, 1, b"12345678"), (socket.SOL_SOCKET, 35, b"short")]) is None


def test_the_clocks_are_compared_between_two_readings() -> None:
    low = time.time_ns() - time.monotonic_ns()
    assert abs(ahead_ns() - low) < 10**9, "the system clock was set meanwhile"


# References


def test_a_line_says_how_far_off_a_reference_is_or_that_it_is_dead() -> None:
    assert parse("1.5 20", 7) == (1_500_000, 20_000)
    assert parse(" -3 ", 7) == (-3_000_000, 7)
    for line in ("", "   ", "noon", "1 2 3", "nan", "inf 1", "1 -1", "1e300", "1 1e300"):
        assert parse(line, 7) is None, line


def test_a_file_is_read_anew_and_without_it_the_reference_is_dead(tmp_path: Path) -> None:
    path = tmp_path / "reference"
    source = file_source(path, 1_000)
    assert source.read(100) is None
    path.write_text("2\n")
    reading = source.read(100)
    assert reading is not None and (reading.time_ns, reading.error_ns) == (2_000_100, 1_000)
    path.write_bytes(b"\xff\xfe")
    assert source.read(100) is None


def test_of_datagrams_to_a_socket_the_last_one_counts(tmp_path: Path) -> None:
    path = tmp_path / "reference"
    source = socket_source(path, 1_000)
    assert source.read(0) is None
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as driver:
        for line in (b"1", b"2", b"3 4"):
            driver.sendto(line, str(path))
    reading = source.read(0)
    assert reading is not None and (reading.time_ns, reading.error_ns) == (3_000_000, 4_000)
    with pytest.raises(InputError, match="a path that is free"):
        socket_source(path, 0)
    source.close()
    assert not path.exists()


def test_a_reference_that_is_none_is_refused() -> None:
    with pytest.raises(InputError, match=r"found 'sundial'; expected system, file:PATH or socket:PATH"):
        reference_source("sundial", 0)
    group = join(lan(2), "c0-1", free_ports(["c0-0", "c0-1"]), clocks=ClockPlan(reference="system"))

    async def program() -> None:
        async with group:
            pass

    with pytest.raises(InputError, match="one only where the topology names the site"):
        run(program())


# What users read


@pytest.mark.parametrize("kernel_stamps", [True, False])
def test_a_lan_is_synchronised_and_every_interval_has_true_time_in_it(kernel_stamps: bool) -> None:
    async def program() -> None:
        topology = lan(3)
        plan = ClockPlan(service=SERVICE, kernel_stamps=kernel_stamps)
        rows: dict[str, list[Row]] = {}
        async with AsyncExitStack() as stack:
            groups = await joined(stack, topology, {site.name: plan for site in topology.sites}, rows)
            await eventually(lambda: all(state_of(group) is ClockState.SYNCHRONISED for group in groups))
            assert all(contains(group) for group in groups)
            for group in groups:
                status = group.clock_status()
                assert status.members == tuple(site.name for site in topology.sites)
                assert status.stamps == ("kernel" if kernel_stamps and sys.platform == "linux" else "user")
                assert status.tightness_us is not None and status.rounds > 0
            layer = groups[1]._application.stack.host.clock()
            assert layer.state is ClockState.SYNCHRONISED, "layers read it, too"
            await eventually(lambda: all(sum(map(tells_bound, each)) > 3 for each in rows.values()))
            await eventually(lambda: all(contains(group) for group in groups))
        merged = sorted((row for each in rows.values() for row in each), key=lambda row: row[1:3])
        verdicts = Oracle(merged).verdicts(("clock-accuracy", "clock-precision"))
        assert [verdict.status for verdict in verdicts] == ["valid", "valid"], verdicts

    run(program())


def test_a_reference_that_a_file_drives_is_followed_and_its_death_is_hold_over(tmp_path: Path) -> None:
    driven = tmp_path / "reference"
    driven.write_text(f"{DRIVEN_MS} 100")

    async def program() -> None:
        topology = lan(2)
        plans = {
            "c0-0": ClockPlan(service=SERVICE, reference=f"file:{driven}"),
            "c0-1": ClockPlan(service=SERVICE),
        }
        offset_ns = round(DRIVEN_MS * 1e6)
        async with AsyncExitStack() as stack:
            groups = await joined(stack, topology, plans)
            await eventually(lambda: all(state_of(group) is ClockState.SYNCHRONISED for group in groups))
            assert all(contains(group, offset_ns) for group in groups), "five seconds ahead of the system clock"
            driven.unlink()
            await eventually(lambda: all(state_of(group) is ClockState.HOLD_OVER for group in groups))
            assert all(contains(group, offset_ns) for group in groups)
            held = groups[1].clock().error_ns
            await eventually(lambda: (groups[1].clock().error_ns or 0) > (held or 0))
            driven.write_text(f"{DRIVEN_MS} 100")
            await eventually(lambda: all(state_of(group) is ClockState.SYNCHRONISED for group in groups))
            assert all(contains(group, offset_ns) for group in groups)

    run(program())


def test_a_site_in_several_groups_has_one_clock() -> None:
    async def program() -> None:
        topology = lan(2)
        names = [site.name for site in topology.sites]
        ports = free_ports(names)
        plans = [GroupPlan("orders"), GroupPlan("chat", stack="fifo")]
        clocks = ClockPlan(service=SERVICE)
        async with AsyncExitStack() as stack:
            sites = [site_of(topology, name, ports, groups=plans, clocks=clocks) for name in names]
            await asyncio.gather(*(stack.enter_async_context(site) for site in sites))
            await eventually(lambda: all(site.clock().state is ClockState.SYNCHRONISED for site in sites))
            assert all(contains(site["chat"]) for site in sites)

    run(program())


def test_without_the_service_there_is_a_time_and_no_bound() -> None:
    async def program() -> None:
        topology = lan(1)
        async with AsyncExitStack() as stack:
            (group,) = await joined(stack, topology, {})
            reading = group.clock()
            assert reading.error_ns is None and reading.state is None and reading.interval() is None
            with pytest.raises(LocalError, match="no clock service runs here"):
                group.clock_status()

    run(program())


def test_a_service_that_has_not_measured_yet_is_free_running() -> None:
    async def program() -> None:
        topology = lan(1)
        slow = msgspec.structs.replace(SERVICE, period_ms=60_000.0)
        async with AsyncExitStack() as stack:
            (group,) = await joined(stack, topology, {"c0-0": ClockPlan(service=slow)})
            reading = group.clock()
            assert reading.state is ClockState.FREE_RUNNING and reading.error_ns is None
            assert group.clock_status().tightness_us is None

    run(program())
