"""A live run: one process per site, started together, stopped when nothing is owed any more, and judged.

The coordinator tells the sites each other's ports and a common start, watches how many messages each has sent and
delivered, and stops them once all that was sent has arrived, or when the drain time is over. A count is enough: after
a site is done its number of messages stays, and deliveries only grow, so that equal sums mean that nothing is owed.

However it ends, by Ctrl-C too, every site process has ended when `run_live` returns: closing a site's standard input
stops it, and one that does not stop within `STOP_S` is killed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from secrets import randbits
from typing import Any

from isthmus.core.errors import InputError, LocalError
from isthmus.core.layer import Kind
from isthmus.live.child import NOTHING, SiteChild, SiteSummary
from isthmus.live.framing import PAYLOAD_MAX
from isthmus.live.trouble import Chronicle, News, Trouble
from isthmus.live.wake import NS_PER_S
from isthmus.scenario.faults import Crash, Heal, Leave, Partition, RandomFaults, Recover
from isthmus.scenario.model import Clocks, Scenario
from isthmus.scenario.workload import Recorded
from isthmus.trace.reader import read_rows
from isthmus.trace.schema import KIND
from isthmus.trace.summary import Summary

SITES_MAX = 16  # processes on one machine
READY_S = 60.0  # for a process to load its scenario and bind its socket
LEAD_S = 0.3  # from the last word before the start to the start
SETTLE_S = 0.3  # how long a run goes on once nothing is owed, so that a late second delivery shows

LIVE_FAULTS = (Crash, Recover, Leave, Partition, Heal)
REST_S = 1.5  # without a delivery, once all is sent: then a group that agrees on views is taken to be at rest
Progress = Callable[[float, int, int], None]  # seconds since the start, deliveries so far, deliveries owed


def check_live(scenario: Scenario, source: str) -> None:
    """Refuse what a live run cannot do."""
    agreed = scenario.membership.kind == "agreed"
    for index, fault in enumerate(scenario.faults):
        kind = fault.__struct_config__.tag
        if not agreed:
            raise InputError(source, f"faults[{index}]", f"a {kind}", "none in a live run, unless membership is agreed")
        if not isinstance(fault, LIVE_FAULTS):
            raise InputError(source, f"faults[{index}]", f"a {kind}", "crash, recover, leave, partition or heal, live")
    if scenario.random_faults != RandomFaults():
        raise InputError(source, "random_faults", "faults", "none in a live run; simulate it instead")
    if scenario.clocks != Clocks():
        raise InputError(source, "clocks", "clocks that are off", "none in a live run, whose sites share one clock")
    for group in scenario.groups_of_run():
        if group.stack.transport == "direct":
            where = f"groups.{group.name}.stack.transport" if group.name else "stack.transport"
            raise InputError(source, where, "'direct'", "reliable, live: UDP may lose packets")
    if scenario.participants:
        found = f"{len(scenario.participants)} participants"
        raise InputError(
            source, "participants", found, "none in `isthmus live`; simulate it, or use `Group.participant`"
        )
    count = len(scenario.topology.sites)
    if count > SITES_MAX:
        raise InputError(source, "topology", f"{count} sites", f"at most {SITES_MAX}, each of which is a process here")
    for index, workload in enumerate(scenario.workloads):
        sizes = [size for _, _, size in workload.events] if isinstance(workload, Recorded) else [workload.payload_bytes]
        if max(sizes, default=0) > PAYLOAD_MAX:
            raise InputError(source, f"workloads[{index}]", f"{max(sizes)} bytes", f"at most {PAYLOAD_MAX}, live")


async def run_live(
    scenario: Scenario,
    path: Path,
    folder: Path,
    emulate: bool = True,
    progress: Progress | None = None,
    news: News | None = None,
) -> list[SiteSummary]:
    """Run a scenario that was loaded from a path; each site writes its segments into the folder."""
    check_live(scenario, str(path))
    arguments = [str(path), "--out", str(folder), "--seed", str(scenario.seed)]
    arguments += [] if emulate else ["--no-emulate"]
    children: list[SiteChild] = []
    told = Chronicle(scenario, news)
    try:
        for number, site in enumerate(scenario.topology.sites):
            children.append(await SiteChild.spawn(site.name, [*arguments, "--site", str(number)], told.hear))
        begin = await start(children)
        told.start_s = time.monotonic() + LEAD_S
        trouble = Trouble(scenario, folder, arguments, children, begin, told)
        striking = asyncio.create_task(trouble.strike())
        try:
            await watch(children, scenario, progress, striking)
        finally:
            striking.cancel()
        for child in children:
            if not child.killed:
                child.tell({"over": True})
    finally:
        await asyncio.shield(asyncio.gather(*(child.stop() for child in children)))
    for child in children:
        if child.summary is None:
            child.check()
    return [child.summary or NOTHING for child in children]


async def start(children: list[SiteChild]) -> dict[str, Any]:
    """Wait until all are there, and say when it begins."""
    end_s = time.monotonic() + READY_S
    while not all(child.port.done() for child in children):
        for child in children:
            child.check()
        if time.monotonic() > end_s:
            late = next(child.name for child in children if not child.port.done())
            raise LocalError(f"the process of site {late} was not ready within {READY_S:g} s")
        await asyncio.sleep(0.01)
    begin = {
        "ports": [child.port.result() for child in children],
        "token": randbits(63),
        "start_ns": time.time_ns() + round(LEAD_S * NS_PER_S),
    }
    for child in children:
        child.tell(begin)
    return begin


async def watch(
    children: list[SiteChild], scenario: Scenario, progress: Progress | None, striking: asyncio.Task[None]
) -> None:
    """Wait until all that was sent has arrived, or the drain time is over.

    Where members agree on views, what was sent need not arrive everywhere: then until nothing arrives any more.
    """
    agreed = scenario.membership.kind == "agreed"
    moved_s, before = time.monotonic(), [0]
    start_s = time.monotonic() + LEAD_S
    end_s = start_s + (scenario.duration_ms + scenario.drain_ms) / 1e3
    while time.monotonic() < end_s:
        for child in children:
            child.check()
        statuses = [child.status for child in children]
        delivered, owed = tally(statuses)
        if progress is not None:
            progress(max(0.0, time.monotonic() - start_s), sum(delivered), sum(owed))
        if striking.done():
            striking.result()  # what went wrong with a fault
        if delivered != before or not striking.done():
            moved_s, before = time.monotonic(), delivered
        done = all(child.status.get("done") for child in children if not child.killed)
        at_rest = time.monotonic() - moved_s > REST_S if agreed else delivered == owed
        if done and at_rest:
            await asyncio.sleep(SETTLE_S)
            return
        await asyncio.sleep(0.05)


def tally(statuses: list[dict[str, Any]]) -> tuple[list[int], list[int]]:
    """How many messages each site has delivered, and how many were sent to it."""
    delivered = [status.get("delivered", 0) for status in statuses]
    sent = [status.get("sent", [0] * len(statuses)) for status in statuses]
    return delivered, [sum(column) for column in zip(*sent, strict=True)]


def measure(folder: Path, groups: Mapping[int, Iterable[int]] | int) -> Summary:
    """The figures of a run from its trace, in which sites come one after the other: first all that was submitted.

    `groups` are the members of each group, or how many sites one group has.
    """
    summary = Summary(groups)
    for submits in (True, False):
        for row in read_rows(folder):
            if (row[KIND] == Kind.SUBMIT) is submits:
                summary.append(row)
    return summary
