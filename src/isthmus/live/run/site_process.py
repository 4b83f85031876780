"""The process of one site of a live run: `python -m isthmus.live.run.site_process SCENARIO --site N --out DIR`.

It speaks with its parent process in lines of JSON, and with the other sites by UDP.

    it says    {"port": 40001}                                    its socket is bound
    it hears   {"ports": [40001, 40002], "token": 7}              all are
    it says    {"formed": true}                                   where members agree on views: its groups have all in
    it hears   {"start_ns": t}                                    the run starts at t on the wall clock
    it says    {"sent": [3, 3], "delivered": 5, "done": false}    now and then: to each site, here, nothing more to send
               with {"clock": {...}}                              where the clock service runs: how it stands
    it says    {"view": 3, "group": 0, "members": [0, 2]}         where members agree on views, each that it installs
    it says    {"suspects": 1, "on": true}                        and whom it suspects, or no longer
    it hears   {"cut": [1]}                                       nothing goes to these sites or comes from them
    it hears   {"leave": true}                                    it is to leave its groups
    it hears   {"over": true}                                     the run has come to its end: all stop soon
    it hears   {"stood_ns": 900000000}                            for so long its process was stopped, until now
    it hears   the end of its input                               everything has arrived, or it is late
    it says    {"summary": {...}}                                 the trace is written; it ends

The end of its input also shows that the parent is gone, and a signal to end means the same: no process outlives its
run, and the trace is readable up to there.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from isthmus.core.errors import InputError
from isthmus.core.layer import Kind, View
from isthmus.core.message import GroupId, SiteId
from isthmus.core.units import NS_PER_MS
from isthmus.live.api.plans import AgreedPlan, GroupPlan
from isthmus.live.clock.service import ClockPlan, Timekeeper, as_json
from isthmus.live.net.emulation import Emulation
from isthmus.live.net.framing import LOOPBACK_DATAGRAM_BYTES, PATH_DATAGRAM_BYTES
from isthmus.live.net.hello import hello_of
from isthmus.live.net.names import address_of, host_of
from isthmus.live.net.sockets import Socket
from isthmus.live.node.alarm import NS_PER_S
from isthmus.live.node.driver import Driver
from isthmus.live.node.member import Member
from isthmus.live.node.site import LiveSite
from isthmus.live.run.scenario import clock_scenario, live_scenario
from isthmus.live.run.site_protocol import (
    ROWS_OF_LIFE,
    delivered_of,
    may_be_killed,
    meta_of,
    prefix_of,
    say,
    summary_of,
)
from isthmus.protocols.application import Application
from isthmus.scenario.composition.check import couriers_of
from isthmus.scenario.composition.nodes import routed_options, routing_at
from isthmus.scenario.load import load_scenario
from isthmus.scenario.model import Scenario
from isthmus.scenario.participants.trace import LightLog
from isthmus.scenario.participants.traffic import Visitors
from isthmus.scenario.traffic import At, SiteTraffic
from isthmus.stacks.registry import STACKS
from isthmus.topology.addresses import Endpoint
from isthmus.trace.log import SiteLog
from isthmus.trace.schema import Gauge, Recording
from isthmus.trace.tail import TailedWriter, tail_path
from isthmus.trace.writer import TraceWriter

STATUS_S = 0.05
ROLL_S = 1.0  # a segment is completed this often: a run can be followed, and a site that is killed loses little
LEAVE_S = 2.0
CATCH_UP_S = 0.1  # for a site that is started again to pass over what it should have sent
GRACE_MS = 5_000.0  # beyond duration and drain: then the parent process is taken for stuck


Writer = TraceWriter | TailedWriter


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
    ) -> None:
        self.scenario = scenario
        service = scenario.clocks.service
        self.clock_plan = None if service is None else ClockPlan(service=service, reference=reference)
        self.life = life  # how often the site was started before in this run
        self.port = port  # where it listened then; 0: any
        self.site = site
        self.folder = folder
        self.emulate = emulate
        self.loop = asyncio.get_running_loop()
        self.stopped = asyncio.Event()
        self.heard: asyncio.Queue[dict[str, Any]] = asyncio.Queue(16)
        self.start_ns = 0  # on the clock that never jumps
        self.over = False  # the parent process said that the run has come to its end

    async def run(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            self.loop.add_signal_handler(number, self.stopped.set)
        listener = asyncio.create_task(self.listen())
        socket = Socket(address_of(self.scenario.topology, self.site, self.port))
        try:
            say({"port": socket.port})
            begin = await self.next_word()
            if begin is not None:
                await self.take_part(socket, begin)
        finally:
            socket.close()
            listener.cancel()

    async def listen(self) -> None:
        """Pass on what comes in by standard input; its end is a stop."""
        reader = asyncio.StreamReader()
        await self.loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while line := await reader.readline():
            await self.heard.put(json.loads(line))
        self.stopped.set()

    async def next_word(self) -> dict[str, Any] | None:
        """What the parent process says next; None where the run is called off."""
        hearing, stopping = asyncio.ensure_future(self.heard.get()), asyncio.ensure_future(self.stopped.wait())
        done, waiting = await asyncio.wait({hearing, stopping}, return_when=asyncio.FIRST_COMPLETED)
        for task in waiting:
            task.cancel()
        return hearing.result() if hearing in done else None

    async def until_start(self, begin: dict[str, Any]) -> None:
        """Wait for the start of the run; one that is started again knows when it was."""
        word = begin if "start_ns" in begin else await self.next_word()
        start_ns = time.time_ns() if word is None else word["start_ns"]
        self.start_ns = time.monotonic_ns() + start_ns - time.time_ns()
        if not self.life:
            await asyncio.sleep(max(0, self.start_ns - time.monotonic_ns()) / NS_PER_S)

    async def take_part(self, socket: Socket, begin: dict[str, Any]) -> None:
        scenario, site = self.scenario, self.site
        meta = meta_of(scenario, site)
        prefix = prefix_of(site, self.life)
        with TraceWriter(self.folder, meta, prefix=prefix) as plain:
            writer = TailedWriter(plain, tail_path(self.folder, prefix)) if may_be_killed(scenario) else plain
            couriers = couriers_of(scenario.composition, scenario.topology)
            log = SiteLog(site, None if scenario.trace == "none" else writer, couriers=couriers)
            log.local += self.life * ROWS_OF_LIFE
            log.record(time.time_ns(), Recording.BEGUN)
            writer.roll()
            if scenario.membership.kind == "agreed":
                told = await self.agree(socket, begin, log, writer)
            else:
                told = await self.stay(socket, begin, log, writer)
            if isinstance(writer, TailedWriter):
                writer.close()
        say({"summary": told})

    async def stay(self, socket: Socket, begin: dict[str, Any], log: SiteLog, writer: Writer) -> dict[str, Any]:
        """Take part in groups whose members are given."""
        scenario, site = self.scenario, self.site
        live = self.live_site(socket, log, begin["ports"], begin["token"])
        driver = Driver(live, socket)
        traffic = SiteTraffic(scenario, site, self.timetable(driver), lambda: time.monotonic_ns() - self.start_ns)
        groups = [group for group in scenario.groups_of_run() if site in group.members]
        visitors = self.visitors(self.timetable(driver), log)
        options_of = routed_options(scenario, site)
        for group in groups:
            port = live.port(group.id)
            port.attach(STACKS[group.stack.name].build(port, traffic.boot(group.id), options_of(group)))
            visitors.boot(group.id, port.stack.layers)
        if self.clock_plan is not None and groups:
            socket.keep_time(site)
            live.stamped = socket.stamped
            Timekeeper(live, scenario.topology, self.clock_plan, groups[0].id, socket.broadcast)
        ports = enumerate(begin["ports"])
        others = {SiteId(n): address_of(scenario.topology, SiteId(n), port) for n, port in ports if n != site}
        emulation = Emulation(scenario.topology, site, scenario.random("network", site)) if self.emulate else None
        socket.open(others, emulation, driver.receive, driver.stranger, driver.finish)
        await self.until_start(begin)
        for group in groups:
            live.ports[group.id].install(View(1, group.members))
            live.ports[group.id].resume()
        driver.finish()
        traffic.start()
        visitors.start()
        await self.report_until_stopped(traffic, writer, lambda: live)
        driver.close()
        log.record(time.time_ns(), Recording.ENDED if self.is_over() else Recording.CUT)
        return summary_of(traffic, live, socket)

    async def agree(self, socket: Socket, begin: dict[str, Any], log: SiteLog, writer: Writer) -> dict[str, Any]:
        """Take part in groups whose members agree on views."""
        scenario, site = self.scenario, self.site
        names = [each.name for each in scenario.topology.sites]
        groups = scenario.groups_of_run()
        plans = [
            GroupPlan(group.name, group.stack.name, tuple(names[one] for one in group.members), group.options)
            for group in groups
        ]
        rules = scenario.membership.agreed
        plan = AgreedPlan(rules, self.folder / "_state" if rules.file else None)
        where = {
            name: (host_of(scenario.topology, SiteId(n)), port)
            for n, (name, port) in enumerate(zip(names, begin["ports"], strict=True))
        }
        member = Member(scenario.topology, names[site], where, plans, self.emulate, agreed=plan)
        member.log, member.wire_log = log, scenario.trace == "wire"
        member.clock_plan = self.clock_plan
        if scenario.composition is not None:
            member.routing = partial(routing_at, scenario.composition, scenario.topology, site, scenario.router)
        member.on_opinion = lambda other, suspected: say({"suspects": other, "on": suspected})

        def at(time_ns: int, group: GroupId, action: Callable[[], None]) -> None:
            wait_ns = self.start_ns + time_ns - time.monotonic_ns()
            self.loop.call_later(max(0, wait_ns) / NS_PER_S, act, group, action)

        def act(group: GroupId, action: Callable[[], None]) -> None:
            if member.driver is not None:
                member.driver.run(member.driver.site.ports[group], action)
            else:
                action()  # nobody is there to send: what an earlier life was to do is past

        traffic = SiteTraffic(scenario, site, at, lambda: time.monotonic_ns() - self.start_ns)
        visitors = self.visitors(at, log)

        def end_life() -> None:
            traffic.crash()
            visitors.crash()

        forming = {group.id: len(group.members) for group in groups if site in group.members}

        def note_view(group: GroupId, view: View) -> None:
            say({"view": view.view_id, "group": group, "members": view.members})
            if forming.get(group) == len(view.members):
                del forming[group]
                if not forming:
                    say({"formed": True})

        def boot(group: GroupId) -> Application:
            application = traffic.boot(group)
            application.on_view = partial(note_view, group)
            return application

        for joined, group in zip(member.groups, groups, strict=True):
            if site in group.members:
                joined.boot, joined.on_life = partial(boot, group.id), end_life
                joined.on_stack = lambda port: visitors.boot(port.group, port.stack.layers)
        if self.life:
            log.write(time.time_ns(), Kind.RECOVER, None, self.life, groups[0].id, View(0, ()))
            await self.until_start(begin)
            traffic.start()
            visitors.start()
            await asyncio.sleep(CATCH_UP_S)
        await member.open(socket)
        if not self.life:
            if not forming:
                say({"formed": True})  # a site of no group
            await self.until_start(begin)
            traffic.start()
            visitors.start()
        obeying = asyncio.create_task(self.obey(socket, member))
        await self.report_until_stopped(traffic, writer, lambda: member.driver.site if member.driver else None)
        obeying.cancel()
        live = member.joined().site
        member.close()
        log.record(time.time_ns(), Recording.ENDED if self.over or self.is_over() else Recording.CUT)
        return summary_of(traffic, live, socket)

    def visitors(self, at: At, log: SiteLog) -> Visitors:
        """The participants of this site, who tell the trace what they said and heard."""
        scenario, light = self.scenario, LightLog(log)
        return Visitors(
            *(scenario, self.site, at, lambda: time.monotonic_ns() - self.start_ns, scenario.groups_of_run()),
            lambda note: light.write(note, time.time_ns()),
        )

    async def obey(self, socket: Socket, member: Member) -> None:
        """Do what the parent process says while the run goes on."""
        while True:
            word = await self.heard.get()
            if "over" in word:
                self.over = True
                socket.on_refused = None  # whoever ends first is not to be suspected for it
            if "cut" in word:
                socket.cut = frozenset(word["cut"])
            if "stood_ns" in word:
                member.gauge(Gauge.PAUSE_NS, word["stood_ns"])
            if "leave" in word:
                await member.leave_groups(LEAVE_S)

    def is_over(self) -> bool:
        """Whether the parent process said that the run has come to its end, before it stopped us."""
        return not self.heard.empty() and bool(self.heard.get_nowait().get("over"))

    def live_site(self, socket: Socket, log: SiteLog, ports: list[int], token: int) -> LiveSite:
        scenario, site = self.scenario, self.site
        addresses = tuple(str(Endpoint(host_of(scenario.topology, SiteId(n)), port)) for n, port in enumerate(ports))
        return LiveSite(
            *(site, scenario.random("site", site, 0), socket.send, time.monotonic_ns, time.time_ns, log),
            life=time.time_ns(),
            token=token,
            names=tuple(each.name for each in scenario.topology.sites),
            hello=hello_of(scenario.topology, site, addresses, ()),
            datagram_bytes=PATH_DATAGRAM_BYTES if self.emulate else LOOPBACK_DATAGRAM_BYTES,
            wire_log=scenario.trace == "wire",
        )

    def timetable(self, driver: Driver) -> At:
        """A way to do something in a group at a time from the start of the run."""

        def at(time_ns: int, group: GroupId, action: Callable[[], None]) -> None:
            wait_ns = self.start_ns + time_ns - time.monotonic_ns()
            self.loop.call_later(max(0, wait_ns) / NS_PER_S, driver.run, driver.site.ports[group], action)

        return at

    async def report_until_stopped(
        self, traffic: SiteTraffic, writer: Writer, site: Callable[[], LiveSite | None]
    ) -> None:
        longest_s = (self.scenario.duration_ms + self.scenario.drain_ms + GRACE_MS) * NS_PER_MS / NS_PER_S
        end_s, roll_s = self.loop.time() + longest_s, self.loop.time() + ROLL_S
        while not self.stopped.is_set() and self.loop.time() < end_s:
            try:
                await asyncio.wait_for(self.stopped.wait(), STATUS_S)
            except TimeoutError:
                counts = {"sent": traffic.sent_to, "delivered": delivered_of(traffic)}
                keeper = None if (live := site()) is None else live.timekeeper
                say(counts | {"done": traffic.done(), "over": self.over} | as_json(keeper))
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
    parser.add_argument("--reference", help="of this site")
    options = parser.parse_args()
    try:
        scenario = load_scenario(options.scenario, options.seed)
        if options.clocks is not None:
            scenario = clock_scenario(scenario, str(options.scenario), options.clocks)
        scenario = live_scenario(scenario, str(options.scenario))

        async def run() -> None:
            own = (options.life, options.port, options.reference)
            await SiteProcess(scenario, SiteId(options.site), options.out, not options.no_emulate, *own).run()

        asyncio.run(run())
    except InputError as error:
        print(error, file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
