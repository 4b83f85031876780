"""The process of one site of a live run: `python -m isthmus.live.run.site_process SCENARIO --site N --out DIR`.

It exchanges lines of JSON with its parent process, and datagrams with the other sites.

    out  {"port": 40001}                                    its socket is bound
    in   {"ports": [40001, 40002]}                          all are; with "start_ns", "cut", "links" for a later life
    out  {"formed": true}                                   where members agree on views: its groups have all in
    in   {"start_ns": t}                                    the run starts at t on the wall clock
    out  {"sent": [3, 3], "delivered": 5, "done": false}    now and then: to each site, here, nothing more to send
         with {"clock": {...}}                              where the clock service runs: its state
    out  {"view": 3, "group": 0, "members": [0, 2]}         where members agree on views: each that it installs
    out  {"suspects": 1, "on": true}                        a suspicion, and its end
    in   {"cut": [1], "links": [[2, 0.1, 1.0, 50.0]]}       nothing is sent to or taken from these sites; by site:
                                                            loss of what is sent there, factor of its delay, ms more
    in   {"leave": true}                                    it is to leave its groups
    in   {"over": true}                                     the run has come to its end: all stop soon
    in   {"stood_ns": 900000000}                            how long the process was stopped, until now
    in   the end of its input                               all messages have arrived, or the time is over
    out  {"summary": {...}}                                 the trace is written; it ends

The end of its input also means that the parent process is gone, and a signal means the same: no process outlives its
run, and the trace is readable up to there.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from isthmus.core.errors import InputError
from isthmus.core.layer import Kind, View
from isthmus.core.message import GroupId, SiteId
from isthmus.core.units import NS_PER_MS, NS_PER_S
from isthmus.live.clock.service import ClockPlan, as_json
from isthmus.live.net.names import address_of, host_of
from isthmus.live.net.sockets import Socket
from isthmus.live.node.plans import AgreedPlan, GroupPlan, SiteAddress, SiteConfig
from isthmus.live.node.runtime import Composed, SiteRuntime
from isthmus.live.node.site_group import GroupHandler, SiteGroup
from isthmus.live.run.commands import CommandPipe
from isthmus.live.run.scenario import clock_scenario, live_scenario
from isthmus.live.run.site_protocol import (
    delivered_of,
    disturb,
    report,
    site_trace,
    summary_of,
)
from isthmus.protocols.application import Application
from isthmus.scenario.composition.check import routes_of
from isthmus.scenario.composition.nodes import routing_at
from isthmus.scenario.load import load_scenario
from isthmus.scenario.model import Scenario
from isthmus.scenario.participants.trace import ParticipantTrace
from isthmus.scenario.participants.traffic import ParticipantTraffic
from isthmus.scenario.traffic import At, SiteTraffic
from isthmus.trace.log import SiteLog
from isthmus.trace.schema import Gauge, Recording
from isthmus.trace.tail import TailedWriter
from isthmus.trace.writer import TraceWriter

STATUS_S = 0.05
ROLL_S = 1.0  # a segment is completed this often: a run can be followed, and a site that is killed loses little
CATCH_UP_S = 0.1  # for a site that is started again to pass over what it should have sent
GRACE_MS = 5_000.0  # beyond duration and drain: then the parent process is taken to be stuck
Writer = TraceWriter | TailedWriter


class Formation:
    """The groups of this site that have not had all their sites in a view."""

    def __init__(self, sizes: dict[int, int]) -> None:
        self.missing = sizes  # by group: how many sites it is to have

    def note_view(self, group: GroupId, view: View) -> None:
        """Report a view, and the end of the formation."""
        report({"view": view.view_id, "group": group, "members": view.members})
        if self.missing.get(group) == len(view.members):
            del self.missing[group]
            if not self.missing:
                report({"formed": True})


class SiteProcess:
    """One site of a run, from its socket to its trace."""

    def __init__(
        self,
        scenario: Scenario,
        site: SiteId,
        folder: Path,
        emulate: bool,
        life: int = 0,
        port: int = 0,
        reference: str | None = None,
        keys: Path | None = None,
    ) -> None:
        self.keys = keys  # None: in clear
        self.scenario = scenario
        service = scenario.clocks.service
        self.clock_plan = None if service is None else ClockPlan(service=service, reference=reference)
        self.life = life  # how often the site was started before in this run
        self.port = port  # where it listened then; 0: any
        self.site = site
        self.folder = folder
        self.emulate = emulate
        self.loop = asyncio.get_running_loop()
        self.pipe = CommandPipe()
        self.start_ns = 0  # on the clock that never jumps
        self.over = False  # the parent process announced the end of the run
        self.runtime: SiteRuntime | None = None  # once the site takes part in its groups

    async def run(self) -> None:
        socket = Socket(address_of(self.scenario.topology, self.site, self.port))
        try:
            report({"port": socket.port})
            begin = await self.pipe.next()
            if begin is not None:
                disturb(socket, begin)
                await self.take_part(socket, begin)
        finally:
            socket.close()
            self.pipe.close()

    async def until_start(self, begin: dict[str, Any]) -> None:
        """Wait for the start of the run; a site that is started again knows the time."""
        command = begin if "start_ns" in begin else await self.pipe.next()
        start_ns = time.time_ns() if command is None else command["start_ns"]
        self.start_ns = time.monotonic_ns() + start_ns - time.time_ns()
        if not self.life:
            await asyncio.sleep(max(0, self.start_ns - time.monotonic_ns()) / NS_PER_S)

    async def take_part(self, socket: Socket, begin: dict[str, Any]) -> None:
        scenario, site = self.scenario, self.site
        sink = scenario.trace != "none"
        with site_trace(scenario, site, self.folder, self.life, sink) as (log, writer):
            summary = await self.take_part_in_groups(socket, begin, log, writer)
        report({"summary": summary})

    async def take_part_in_groups(
        self, socket: Socket, begin: dict[str, Any], log: SiteLog, writer: Writer
    ) -> dict[str, Any]:
        """Take part in the groups of the run, from the first view to the end."""
        scenario, site = self.scenario, self.site
        names = [each.name for each in scenario.topology.sites]
        groups = scenario.groups_of_run()
        plans = [
            GroupPlan(group.name, group.stack.name, tuple(names[one] for one in group.members), group.options)
            for group in groups
        ]
        where: dict[str, SiteAddress] = {
            name: (host_of(scenario.topology, SiteId(n)), port)
            for n, (name, port) in enumerate(zip(names, begin["ports"], strict=True))
        }
        traffic = SiteTraffic(scenario, site, self.run_at, lambda: time.monotonic_ns() - self.start_ns)
        participant_traffic = self.participant_traffic(self.run_at, log)
        formation = Formation({group.id: len(group.members) for group in groups if site in group.members})
        agreed = self.agreed_plan()

        def application(group: GroupId) -> Application:
            made = traffic.boot(group)
            if agreed is not None:
                made.on_view = partial(formation.note_view, group)
            return made

        def end_life() -> None:
            traffic.crash()
            participant_traffic.crash()

        def handler(_runtime: SiteRuntime, joined: SiteGroup) -> GroupHandler:
            return GroupHandler(
                application=partial(application, joined.group),
                on_stack=lambda port: participant_traffic.boot(port.group, port.stack.layers),
                on_life_end=end_life,
            )

        runtime = self.runtime = SiteRuntime(
            scenario.topology,
            names[site],
            where,
            plans,
            agreed,
            handler,
            SiteConfig(emulate=self.emulate, clocks=self.clock_plan, on_suspicion=self.report_opinion, keys=self.keys),
            self.composed(),
            log,
            wire_log=scenario.trace == "wire",
        )
        if self.life:
            log.write(time.time_ns(), Kind.RECOVER, None, self.life, groups[0].id, View(0, ()))
            await self.until_start(begin)
            traffic.start()
            participant_traffic.start()
            await asyncio.sleep(CATCH_UP_S)
        if agreed is None:
            await self.until_start(begin)
        await runtime.open(socket)
        if not self.life:
            if agreed is not None:
                if not formation.missing:
                    report({"formed": True})  # a site of no group
                await self.until_start(begin)
            traffic.start()
            participant_traffic.start()
        obeying = asyncio.create_task(self.obey(socket))
        await self.report_until_stopped(traffic, writer)
        obeying.cancel()
        live = runtime.joined().site
        runtime.close()
        log.record(time.time_ns(), Recording.ENDED if self.over or self.is_over() else Recording.CUT)
        return summary_of(traffic, live, socket)

    def agreed_plan(self) -> AgreedPlan | None:
        """How members agree on views; None: membership is static."""
        if self.scenario.membership.kind != "agreed":
            return None
        rules = self.scenario.membership.agreed
        return AgreedPlan(rules, self.folder / "_state" if rules.file else None)

    def composed(self) -> Composed | None:
        """What the composition of the scenario, if any, gives to this site."""
        scenario = self.scenario
        if scenario.composition is None:
            return None
        routing = partial(routing_at, scenario.composition, scenario.topology, self.site, scenario.router)
        routes = routes_of(scenario.composition, scenario.topology)
        return Composed(routes, routing, scenario.couriers())

    def run_at(self, time_ns: int, group: GroupId, action: Callable[[], None]) -> None:
        """Do something in a group at a time from the start of the run."""
        wait_ns = self.start_ns + time_ns - time.monotonic_ns()
        self.loop.call_later(max(0, wait_ns) / NS_PER_S, self.run_in, group, action)

    def run_in(self, group: GroupId, action: Callable[[], None]) -> None:
        driver = None if self.runtime is None else self.runtime.driver
        if driver is None:
            action()  # the site sends nothing yet: what an earlier life was to do is past
        else:
            driver.run(driver.site.ports[group], action)

    def report_opinion(self, name: str, suspected: bool) -> None:
        report({"suspects": self.scenario.topology.site_id(name), "on": suspected})

    def participant_traffic(self, at: At, log: SiteLog) -> ParticipantTraffic:
        """The participants of this site, whose events go into the trace."""
        scenario, trace = self.scenario, ParticipantTrace(log)
        return ParticipantTraffic(
            *(scenario, self.site, at, lambda: time.monotonic_ns() - self.start_ns, scenario.groups_of_run()),
            lambda event: trace.write(event, time.time_ns()),
        )

    async def obey(self, socket: Socket) -> None:
        """Carry out the commands of the parent process while the run goes on."""
        assert self.runtime is not None
        while True:
            command = await self.pipe.commands.get()
            if "over" in command:
                self.over = True
                socket.on_refused = None  # the sites that end first are not to be suspected for it
            if "cut" in command:
                disturb(socket, command)
            if "stood_ns" in command:
                self.runtime.gauge(Gauge.PAUSE_NS, command["stood_ns"])
            if "leave" in command:
                await self.runtime.leave()

    def is_over(self) -> bool:
        """Whether the parent process announced the end of the run before it stopped this process."""
        return not self.pipe.commands.empty() and bool(self.pipe.commands.get_nowait().get("over"))

    async def report_until_stopped(self, traffic: SiteTraffic, writer: Writer) -> None:
        """Report now and then how far this site has come, and complete segments of the trace."""
        longest_s = (self.scenario.duration_ms + self.scenario.drain_ms + GRACE_MS) * NS_PER_MS / NS_PER_S
        end_s, roll_s = self.loop.time() + longest_s, self.loop.time() + ROLL_S
        while not self.pipe.stopped.is_set() and self.loop.time() < end_s:
            try:
                await asyncio.wait_for(self.pipe.stopped.wait(), STATUS_S)
            except TimeoutError:
                counts = {"sent": traffic.sent_to, "delivered": delivered_of(traffic)}
                keeper = None if self.runtime is None else self.runtime.timekeeper
                report(counts | {"done": traffic.done(), "over": self.over} | as_json(keeper))
            if self.loop.time() > roll_s:
                roll_s = self.loop.time() + ROLL_S
                writer.roll()


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m isthmus.live.run.site_process", description="One site of a live run."
    )
    parser.add_argument("scenario", type=Path)
    parser.add_argument("--site", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--no-emulate", action="store_true")
    parser.add_argument("--life", type=int, default=0)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--clocks", type=float, metavar="SECONDS", help="the clocks alone, for so long")
    parser.add_argument("--keys", type=Path, help="key file: datagrams are sealed")
    parser.add_argument("--reference", help="of this site")
    options = parser.parse_args()
    try:
        scenario = load_scenario(options.scenario, options.seed)
        if options.clocks is not None:
            scenario = clock_scenario(scenario, str(options.scenario), options.clocks)
        scenario = live_scenario(scenario, str(options.scenario))

        async def run() -> None:
            own = (options.life, options.port, options.reference, options.keys)
            await SiteProcess(scenario, SiteId(options.site), options.out, not options.no_emulate, *own).run()

        asyncio.run(run())
    except InputError as error:
        print(error, file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
