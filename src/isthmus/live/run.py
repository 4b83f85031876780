"""A live run: one process per site, started together, stopped when nothing is owed any more, and judged.

The coordinator tells the sites each other's ports and a common start, watches how many messages each has sent and
delivered, and stops them once all that was sent has arrived, or when the drain time is over. A count is enough: after
a site is done its number of messages stays, and deliveries only grow, so that equal sums mean that nothing is owed.

However it ends, by Ctrl-C too, every site process has ended when `run_live` returns: closing a site's standard input
stops it, and one that does not stop within `STOP_S` is killed.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from secrets import randbits
from typing import Any

import msgspec

from isthmus.core.errors import InputError, LocalError
from isthmus.core.layer import Kind
from isthmus.live.framing import PAYLOAD_MAX
from isthmus.live.wake import NS_PER_S
from isthmus.scenario.faults import RandomFaults
from isthmus.scenario.model import Clocks, Scenario
from isthmus.scenario.workload import Recorded
from isthmus.trace.reader import read_rows
from isthmus.trace.schema import KIND
from isthmus.trace.summary import Summary

SITES_MAX = 16  # processes on one machine
READY_S = 60.0  # for a process to load its scenario and bind its socket
LEAD_S = 0.3  # from the last word before the start to the start
SETTLE_S = 0.3  # how long a run goes on once nothing is owed, so that a late second delivery shows
STOP_S = 10.0
STDERR_LINES = 20

Progress = Callable[[float, int, int], None]  # seconds since the start, deliveries so far, deliveries owed


class SiteSummary(msgspec.Struct, frozen=True):
    """What one site tells at its end; docs/design/live.md explains the columns."""

    submitted: int
    refused: int
    delivered: int
    rejected: int
    messages: int
    datagrams: int
    payload_bytes: int
    control_bytes: int
    lost: int
    overflow: int
    foreign: int


def check_live(scenario: Scenario, source: str) -> None:
    """Refuse what a live run cannot do."""
    for index, fault in enumerate(scenario.faults):
        kind = fault.__struct_config__.tag
        raise InputError(source, f"faults[{index}]", f"a {kind}", "no faults in a live run; simulate it instead")
    if scenario.random_faults != RandomFaults():
        raise InputError(source, "random_faults", "faults", "none in a live run; simulate it instead")
    if scenario.membership.kind != "ideal":
        raise InputError(source, "membership", repr(scenario.membership.kind), "ideal in a live run")
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


class SiteChild:
    """One site's process, as the coordinator sees it."""

    def __init__(self, name: str, process: asyncio.subprocess.Process) -> None:
        self.name = name
        self.process = process
        self.status: dict[str, Any] = {}  # the latest
        self.summary: SiteSummary | None = None
        self.port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.errors: deque[str] = deque(maxlen=STDERR_LINES)
        self.tasks = [asyncio.create_task(self.listen()), asyncio.create_task(self.listen_for_errors())]

    @classmethod
    async def spawn(cls, name: str, arguments: Iterable[str]) -> SiteChild:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "isthmus.live.daemon", *arguments),
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            start_new_session=True,  # Ctrl-C is for the coordinator, which then stops the sites
        )
        return cls(name, process)

    async def listen(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            word = json.loads(line)
            if "port" in word:
                self.port.set_result(word["port"])
            elif "summary" in word:
                self.summary = msgspec.convert(word["summary"], SiteSummary)
            else:
                self.status = word

    async def listen_for_errors(self) -> None:
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            self.errors.append(line.decode(errors="replace").rstrip())

    def tell(self, word: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(word).encode() + b"\n")

    def check(self) -> None:
        """A site that ends before it is told to is the end of the run."""
        if self.process.returncode is not None:
            why = self.errors[-1] if self.errors else f"exit code {self.process.returncode}"
            raise LocalError(f"the process of site {self.name} ended too early: {why}")

    async def stop(self) -> None:
        """End the process: it is asked by the end of its input, and killed where that does not help."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            await asyncio.wait_for(self.process.wait(), STOP_S)
        except TimeoutError:
            self.process.kill()
            await self.process.wait()
        await asyncio.gather(*self.tasks)


async def run_live(
    scenario: Scenario, path: Path, folder: Path, emulate: bool = True, progress: Progress | None = None
) -> list[SiteSummary]:
    """Run a scenario that was loaded from a path; each site writes its segments into the folder."""
    check_live(scenario, str(path))
    arguments = [str(path), "--out", str(folder), "--seed", str(scenario.seed)]
    arguments += [] if emulate else ["--no-emulate"]
    children: list[SiteChild] = []
    try:
        for number, site in enumerate(scenario.topology.sites):
            children.append(await SiteChild.spawn(site.name, [*arguments, "--site", str(number)]))
        await start(children)
        await watch(children, scenario, progress)
        for child in children:
            child.tell({"over": True})
    finally:
        await asyncio.shield(asyncio.gather(*(child.stop() for child in children)))
    summaries = []
    for child in children:
        if child.summary is None:
            child.check()
        summaries.append(child.summary)
    return [summary for summary in summaries if summary is not None]


async def start(children: list[SiteChild]) -> None:
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


async def watch(children: list[SiteChild], scenario: Scenario, progress: Progress | None) -> None:
    """Wait until all that was sent has arrived, or the drain time is over."""
    start_s = time.monotonic() + LEAD_S
    end_s = start_s + (scenario.duration_ms + scenario.drain_ms) / 1e3
    while time.monotonic() < end_s:
        for child in children:
            child.check()
        statuses = [child.status for child in children]
        delivered, owed = tally(statuses)
        if progress is not None:
            progress(max(0.0, time.monotonic() - start_s), sum(delivered), sum(owed))
        if all(status.get("done") for status in statuses) and delivered == owed:
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
