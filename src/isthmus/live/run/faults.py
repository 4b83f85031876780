"""The faults of a live run, and its events in words: sites are killed, started again, stopped, cut off, or leave.

Links are cut at both ends by a partition, and fail at the end that sends by loss and delay-shift; so a loss with
probability 1 is a cut in one direction, and where it names pairs, sites reach each other through others only.

A killed process can neither trace its crash nor complete its trace. The injector does both: it writes the rows that the
process had not yet put into a segment (trace/tail.py), and a CRASH row numbered above all that the process may have
written.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from isthmus import __version__
from isthmus.core.layer import Kind, View
from isthmus.core.message import SiteId
from isthmus.live.run.child import SITE_PROCESS, SiteChild
from isthmus.live.run.site_protocol import ROWS_OF_LIFE, prefix_of
from isthmus.scenario.faults import Crash, DelayShift, Fault, Heal, Leave, Loss, Partition, Pause, Recover
from isthmus.scenario.model import Scenario
from isthmus.scenario.workload import named_sites
from isthmus.trace.log import SiteLog
from isthmus.trace.schema import Recording
from isthmus.trace.tail import read_tail, tail_path
from isthmus.trace.writer import TraceWriter

News = Callable[[float, str], None]  # seconds since the start, and what happened


class EventLog:
    """The events that sites report, as one line each."""

    def __init__(self, scenario: Scenario, news: News | None) -> None:
        self.names = [site.name for site in scenario.topology.sites]
        self.groups = {group.id: group.name for group in scenario.groups_of_run()}
        self.news = news
        self.start_s: float | None = None  # None: the run has not begun, and events have time 0
        self.views: set[tuple[int, int]] = set()  # group and number of those that were reported

    def on_event(self, site: str, event: dict[str, Any]) -> None:
        """Take a view or a suspicion that a site reports."""
        if "suspects" in event:
            other = self.names[event["suspects"]]
            self.say(f"{site} suspects {other}" if event["on"] else f"{site} trusts {other} again")
        elif (event["group"], event["view"]) not in self.views:
            self.views.add((event["group"], event["view"]))
            group = self.groups.get(event["group"], "")
            members = ", ".join(self.names[member] for member in event["members"])
            self.say(f"view {event['view']}{' of ' + group if group else ''}: {members}")

    def say(self, text: str) -> None:
        if self.news is not None:
            self.news(0.0 if self.start_s is None else max(0.0, time.monotonic() - self.start_s), text)


class FaultInjector:
    """The faults of a scenario, brought about in its processes."""

    def __init__(
        self,
        scenario: Scenario,
        folder: Path,
        arguments: list[str],
        children: list[SiteChild],
        begin: dict[str, Any],
        events: EventLog,
        program: str = SITE_PROCESS,
    ) -> None:
        self.scenario = scenario
        self.folder = folder
        self.arguments = arguments
        self.children = children
        self.begin = begin
        self.events = events
        self.program = program  # of a site that is started again
        self.lives = [0] * len(children)
        self.standing: dict[Fault, SiteChild] = {}  # processes that are stopped, by the pause that did it
        self.locks = [asyncio.Lock() for _ in children]  # by site: its faults come one after the other
        self.tasks: list[asyncio.Task[None]] = []  # faults that are being brought about
        self.cuts: list[list[set[SiteId]]] = []  # the sides of each partition since the last heal
        self.impaired: list[Loss | DelayShift] = []  # the faults of links that hold now

    async def run(self) -> None:
        """Bring about all faults, each at its time; a slow one, such as a restart, delays its own site only."""
        faults = self.scenario.faults_of_run()
        moments = [(fault.at_ms, fault, False) for fault in faults]
        moments += [(fault.until_ms, fault, True) for fault in faults if isinstance(fault, Pause | Loss | DelayShift)]
        start_s = self.events.start_s or time.monotonic()
        try:
            for at_ms, fault, ends in sorted(moments, key=lambda moment: moment[0]):
                await asyncio.sleep(max(0.0, start_s + at_ms / 1e3 - time.monotonic()))
                if isinstance(fault, Partition | Heal):
                    self.divide(fault)
                elif isinstance(fault, Loss | DelayShift):
                    self.impair(fault, ends)
                elif isinstance(fault, Crash | Recover | Leave | Pause):
                    self.tasks.append(asyncio.create_task(self.in_turn(fault, ends)))
                    await asyncio.sleep(0)  # it takes the lock before the next one asks for it
            await asyncio.gather(*self.tasks)
        finally:
            for task in self.tasks:
                task.cancel()
            await asyncio.gather(*self.tasks, return_exceptions=True)

    async def in_turn(self, fault: Crash | Recover | Leave | Pause, ends: bool) -> None:
        """Bring about a fault of one site, after the earlier ones of that site."""
        site = self.scenario.topology.site_id(fault.site)
        async with self.locks[site]:
            if isinstance(fault, Crash):
                await self.crash(site)
            elif isinstance(fault, Recover):
                await self.recover(site)
            elif isinstance(fault, Leave):
                self.events.say(f"{fault.site} leaves")
                self.children[site].tell({"leave": True})
            elif ends:
                self.end_pause(fault)
            else:
                self.pause(fault)

    def divide(self, fault: Partition | Heal) -> None:
        """Cut sites of different sides off from each other; the sites that are not named are one side."""
        if isinstance(fault, Heal):
            self.cuts.clear()
            self.events.say("healed")
        else:
            sides = [set(named_sites(self.scenario.topology, group, "groups")) for group in fault.groups]
            self.cuts.append([*sides, {SiteId(n) for n in range(len(self.children))}.difference(*sides)])
            self.events.say(f"cut: {' | '.join(', '.join(group) for group in fault.groups)}")
        self.tell_networks()

    def impair(self, fault: Loss | DelayShift, ends: bool) -> None:
        """Begin or end a fault of links."""
        (self.impaired.remove if ends else self.impaired.append)(fault)
        source, target = (", ".join(names) or "all" for names in (fault.source, fault.target))
        if isinstance(fault, DelayShift):
            what = f"delay times {fault.factor:g} plus {fault.add_ms:g} ms"
        else:
            what = f"loss of {100 * fault.probability:.0f} %"
        self.events.say(f"{'end of ' if ends else ''}{what} from {source} to {target}")
        self.tell_networks()

    def tell_networks(self) -> None:
        """Tell each process what its links are like; one that has not begun is told as it begins."""
        for number, child in enumerate(self.children):
            if child.takes_commands():
                child.tell(self.network_of(SiteId(number)))

    def network_of(self, site: SiteId) -> dict[str, Any]:
        """The sites that a site is cut off from, and the faults of its links to others, as a command."""
        cut = {other for sides in self.cuts for side in sides if site not in side for other in side}
        links = []
        for other in map(SiteId, range(len(self.children))):
            through, factor, add_ms = 1.0, 1.0, 0.0
            for fault in self.impaired:
                if other == site or not self.concerns(fault, site, other):
                    continue
                if isinstance(fault, Loss):
                    through *= 1 - fault.probability
                else:
                    factor, add_ms = factor * fault.factor, add_ms * fault.factor + fault.add_ms
            if (through, factor, add_ms) != (1.0, 1.0, 0.0):
                links.append([other, 1 - through, factor, add_ms])
        return {"cut": sorted(cut), "links": links}

    def concerns(self, fault: Loss | DelayShift, source: SiteId, target: SiteId) -> bool:
        """Whether a fault is one of the link from a site to another."""
        topology = self.scenario.topology
        ends = ((source, fault.source, "source"), (target, fault.target, "target"))
        return all(not names or site in named_sites(topology, names, key) for site, names, key in ends)

    def pause(self, fault: Pause) -> None:
        child = self.children[self.scenario.topology.site_id(fault.site)]
        if not child.killed and child.pause():
            self.standing[fault] = child
            self.events.say(f"{child.name} is stopped")

    def end_pause(self, fault: Fault) -> None:
        """Continue a stopped process, unless it was killed meanwhile."""
        child = self.standing.pop(fault, None)
        if child is not None and not child.killed:
            child.go_on()
            self.events.say(f"{child.name} goes on")

    async def crash(self, site: SiteId) -> None:
        child = self.children[site]
        if child.killed:
            return
        child.killed = True
        child.process.kill()
        await child.process.wait()
        self.events.say(f"{child.name} is killed")
        with TraceWriter(
            self.folder, {"isthmus": __version__}, prefix=f"site-{site:03d}-crash-{self.lives[site]}"
        ) as writer:
            tail = tail_path(self.folder, prefix_of(site, self.lives[site]))
            for row in read_tail(tail):
                writer.append(row)
            tail.unlink(missing_ok=True)
            log = SiteLog(site, writer)
            log.local = (self.lives[site] + 1) * ROWS_OF_LIFE - 10
            log.record(time.time_ns(), Recording.ENDED)  # all of this life is here
            log.write(time.time_ns(), Kind.CRASH, None, 0, self.scenario.groups_of_run()[0].id, View(0, ()))

    async def recover(self, site: SiteId) -> None:
        old = self.children[site]
        if not old.killed:
            return
        self.lives[site] += 1
        await old.stop()
        more = ["--site", str(site), "--life", str(self.lives[site]), "--port", str(self.begin["ports"][site])]
        child = await SiteChild.spawn(old.name, [*self.arguments, *more], self.events.on_event, self.program)
        self.children[site] = child
        await child.port
        child.begin(self.begin | self.network_of(site))  # with the start, which is past
        self.events.say(f"{child.name} is started again")
