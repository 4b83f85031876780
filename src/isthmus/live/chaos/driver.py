"""One round of chaos, from the start of its processes to its findings.

The processes form a group; the faults of the plan come, each at its time; then all of them have ended, and the group
must come to rest within `REST_S`: all sites in one view with their votes, the same messages, and nothing under way.
The trace is judged as that of any live run, and the records of the processes are compared.

However a round ends, its processes have ended when `run_round` returns; the busy ones end by themselves, too.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from isthmus.core.errors import RunError
from isthmus.judge.judgement import judge
from isthmus.judge.verdict import Verdict
from isthmus.live.chaos.compare import ChaosFinding, Order, RecordComparison
from isthmus.live.chaos.plan import RUN_KEY, ChaosOptions, ChaosPlan, plan_of
from isthmus.live.chaos.program import RECORDS
from isthmus.live.chaos.records import read_records
from isthmus.live.run.child import SiteChild
from isthmus.live.run.faults import EventLog, FaultInjector, News
from isthmus.live.run.harness import LEAD_S, end, start
from isthmus.live.seal.key_file import write_run_key
from isthmus.stacks.registry import STACKS
from isthmus.trace.reader import read_rows

REST_S = 60.0
LOOK_S = 0.05
STILL_S = 0.3  # for which nothing changes, at rest
BUSY_MAX_S = 180.0
BUSY = f"import time\nend = time.monotonic() + {BUSY_MAX_S}\nwhile time.monotonic() < end: pass"
PROGRAM = "isthmus.live.chaos.program"


class ChaosResult(msgspec.Struct, frozen=True):
    """What came of a round."""

    options: ChaosOptions
    words: str
    findings: tuple[ChaosFinding, ...]
    verdicts: tuple[Verdict, ...]
    rest_s: float | None  # from the end of the last fault; None: it never came to rest
    took_s: float
    message_count: int
    delivery_count: int
    folder: str  # of the trace and the records; empty: nothing is kept

    def is_good(self) -> bool:
        return not self.findings and all(verdict.status != "violated" for verdict in self.verdicts)

    def replay(self) -> str:
        return self.options.command()


async def run_round(
    options: ChaosOptions, folder: Path, news: News | None = None, children: list[SiteChild] | None = None
) -> ChaosResult:
    """Run the round of some options; its trace and records go into a folder.

    `children` is filled with the processes, for a caller that may have to kill them.
    """
    began_s = time.monotonic()
    plan = plan_of(options)
    findings: list[ChaosFinding] = []
    children = [] if children is None else children
    rest_s = None
    with busy_processes(plan.overload):
        try:
            rest_s = await carry_out(plan, options, folder, news, children, findings)
        except RunError as error:
            findings.append(ChaosFinding("ended", str(error)))
        finally:
            await asyncio.shield(asyncio.gather(*(child.stop() for child in children)))
    names = [child.name for child in children]
    if rest_s is not None:
        findings += [
            ChaosFinding("stuck", f"{child.name} did not end: exit code {child.process.returncode}")
            for child in children
            if child.process.returncode
        ]
    records = read_records(folder / RECORDS)
    last = {max(key for key in records if key[0] == site) for site, _ in records} if rest_s is not None else set()
    promised = STACKS[plan.scenario.stack.name].properties
    order: Order = "total" if "total" in promised else "causal" if "causal" in promised else "fifo"
    also = () if plan.power_cut else ("primary",)  # no life leads over a power cut
    safe, first_start = plan.scenario.stack.safe, int(plan.power_cut)
    findings += RecordComparison(records, names, order, safe, last, first_start).run()
    return ChaosResult(
        options=options,
        words=plan.words(),
        findings=tuple(findings),
        verdicts=judge(plan.scenario, read_rows(folder), also).verdicts,
        rest_s=rest_s,
        took_s=time.monotonic() - began_s,
        message_count=sum(len(record.sent) for record in records.values()),
        delivery_count=sum(len(record.delivered) for record in records.values()),
        folder=str(folder),
    )


async def carry_out(
    plan: ChaosPlan,
    options: ChaosOptions,
    folder: Path,
    news: News | None,
    children: list[SiteChild],
    findings: list[ChaosFinding],
) -> float | None:
    """Run the processes with their faults until they are at rest; how long that took, None where it never was."""
    scenario = plan.scenario
    arguments = [msgspec.json.encode(options).decode(), "--out", str(folder)]
    if options.sealed:
        folder.mkdir(parents=True, exist_ok=True)
        write_run_key(folder / RUN_KEY)
    events = EventLog(scenario, news)
    for number, site in enumerate(scenario.topology.sites):
        children.append(await SiteChild.spawn(site.name, [*arguments, "--site", str(number)], events.on_event, PROGRAM))
    begin = await start(children, agreed=True)
    if unformed := [child.name for child in children if not child.formed]:
        findings.append(ChaosFinding("stuck", f"no view of all sites as the round begins at {', '.join(unformed)}"))
    events.start_s = time.monotonic() + LEAD_S
    injector = FaultInjector(scenario, folder, arguments, children, begin, events, PROGRAM)
    await asyncio.gather(injector.run(), act(plan, children, events))
    events.say("all faults are over")
    for child in children:
        child.tell({"calm": True})
    rest_s = await rest(children, findings)
    if rest_s is not None:
        events.say(f"at rest after {rest_s:.1f} s")
    await end(children, agreed=True)
    return rest_s


async def act(plan: ChaosPlan, children: list[SiteChild], events: EventLog) -> None:
    """Tell the sites what they are to do, each at its time."""
    start_s = events.start_s or time.monotonic()
    for action in plan.actions:
        await asyncio.sleep(max(0.0, start_s + action.at_ms / 1e3 - time.monotonic()))
        child = children[action.site]
        if child.takes_commands():
            events.say(action.words)
            child.tell(action.command)


async def rest(children: list[SiteChild], findings: list[ChaosFinding]) -> float | None:
    """Wait until the group is at rest; how long that took, None where it is not within `REST_S`."""
    began_s = still_s = time.monotonic()
    before: object = None
    while time.monotonic() < began_s + REST_S:
        for child in children:
            child.check()
        statuses = [child.status for child in children]
        now = [(status.get("at"), status.get("count"), status.get("sum")) for status in statuses]
        if now != before or len(set(now)) > 1 or not all(is_done(child, len(children)) for child in children):
            before, still_s = now, time.monotonic()
        elif time.monotonic() - still_s > STILL_S:
            return still_s - began_s
        await asyncio.sleep(LOOK_S)
    for child in children:
        status = child.status
        text = f"{child.name} is in view {status.get('at')} of {status.get('members')} sites and {status.get('votes')} "
        text += f"votes, with {status.get('count')} messages and the last of {status.get('ends')} sites"
        text += f"; waits for {status['waits']}" if status.get("waits") else ""
        findings.append(ChaosFinding("stuck", f"not at rest within {REST_S:g} s: {text}"))
    return None


def is_done(child: SiteChild, count: int) -> bool:
    """Whether a process is in a view of all, with the last messages of all, and the others have all of its own."""
    status = child.status
    everybody = all(status.get(key) == count for key in ("members", "votes", "ends"))
    return everybody and bool(status.get("settled")) and bool(status.get("done"))


@contextmanager
def busy_processes(wanted: bool) -> Iterator[None]:
    """Keep all CPUs of the machine busy, for `BUSY_MAX_S` at most."""
    busy = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range((os.cpu_count() or 1) if wanted else 0)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()
