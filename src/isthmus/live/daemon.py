"""The process of one site of a live run: `python -m isthmus.live.daemon SCENARIO --site N --out DIR`.

It speaks with its parent process in lines of JSON, and with the other sites by UDP.

    it says    {"port": 40001}                                    its socket is bound
    it hears   {"ports": [40001, 40002], "token": 7, "start_ns": t}    all are; the run starts at t on the wall clock
    it says    {"sent": [3, 3], "delivered": 5, "done": false}    now and then: to each site, here, nothing more to send
    it hears   the end of its input                               everything has arrived, or it is late
    it says    {"summary": {...}}                                 the trace is written; it ends

The end of its input also shows that the parent is gone, and a signal to end means the same: no process outlives its
run, and the trace is readable up to there.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from isthmus import __version__
from isthmus.core.errors import InputError
from isthmus.core.layer import View
from isthmus.core.message import GroupId, SiteId
from isthmus.live.driver import Driver
from isthmus.live.emulation import Emulation
from isthmus.live.framing import LOOPBACK_DATAGRAM_BYTES, PATH_DATAGRAM_BYTES
from isthmus.live.notes import hello_of
from isthmus.live.site import LiveSite
from isthmus.live.sockets import LOOPBACK, Socket
from isthmus.live.wake import NS_PER_S
from isthmus.scenario.load import load_scenario
from isthmus.scenario.model import Scenario
from isthmus.scenario.traffic import At, SiteTraffic
from isthmus.scenario.workload import NS_PER_MS
from isthmus.stacks import STACKS
from isthmus.trace.log import SiteLog
from isthmus.trace.schema import Recording
from isthmus.trace.writer import TraceWriter

STATUS_S = 0.05
ROLL_S = 1.0  # a segment is completed this often: a run can be followed, and a site that is killed loses little
GRACE_MS = 5_000.0  # beyond duration and drain: then the parent process is taken for stuck


class SiteProcess:
    """One site of a run, from its socket to its trace."""

    def __init__(self, scenario: Scenario, site: SiteId, folder: Path, emulate: bool) -> None:
        self.scenario = scenario
        self.site = site
        self.folder = folder
        self.emulate = emulate
        self.loop = asyncio.get_running_loop()
        self.stopped = asyncio.Event()
        self.heard: asyncio.Queue[dict[str, Any]] = asyncio.Queue(16)
        self.start_ns = 0  # on the clock that never jumps

    async def run(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            self.loop.add_signal_handler(number, self.stopped.set)
        listener = asyncio.create_task(self.listen())
        socket = Socket((LOOPBACK, 0))
        try:
            say({"port": socket.port})
            begin = await self.first_word()
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

    async def first_word(self) -> dict[str, Any] | None:
        """Where everybody is and when it starts; None where it is called off."""
        hearing, stopping = asyncio.ensure_future(self.heard.get()), asyncio.ensure_future(self.stopped.wait())
        done, waiting = await asyncio.wait({hearing, stopping}, return_when=asyncio.FIRST_COMPLETED)
        for task in waiting:
            task.cancel()
        return hearing.result() if hearing in done else None

    async def take_part(self, socket: Socket, begin: dict[str, Any]) -> None:
        scenario, site = self.scenario, self.site
        meta = {"scenario": scenario.name, "seed": str(scenario.seed), "stack": scenario.stack.name}
        names = [each.name for each in scenario.topology.sites]
        meta |= {"version": __version__, "host": "live", "site": names[site]}
        meta["sites"] = json.dumps(names, ensure_ascii=False)
        with TraceWriter(self.folder, meta, prefix=f"site-{site:03d}") as writer:
            log = SiteLog(site, None if scenario.trace == "none" else writer)
            log.record(time.time_ns(), Recording.BEGUN)
            writer.roll()
            live = self.live_site(socket, log, begin["ports"], begin["token"])
            driver = Driver(live, socket)
            traffic = SiteTraffic(scenario, site, self.timetable(driver), lambda: time.monotonic_ns() - self.start_ns)
            groups = [group for group in scenario.groups_of_run() if site in group.members]
            for group in groups:
                port = live.port(group.id)
                port.attach(STACKS[group.stack.name].build(port, traffic.boot(group.id), group.options))
            others = {SiteId(n): (LOOPBACK, port) for n, port in enumerate(begin["ports"]) if n != site}
            emulation = Emulation(scenario.topology, site, scenario.random("network", site)) if self.emulate else None
            socket.open(others, emulation, driver.receive, driver.stranger, driver.finish)
            await asyncio.sleep(max(0.0, (begin["start_ns"] - time.time_ns()) / NS_PER_S))
            self.start_ns = time.monotonic_ns()
            for group in groups:
                live.ports[group.id].install(View(1, group.members))
                live.ports[group.id].resume()
            driver.finish()
            traffic.start()
            await self.report_until_stopped(traffic, writer)
            driver.close()
            log.record(time.time_ns(), Recording.ENDED if self.is_over() else Recording.CUT)
        say({"summary": self.summary(traffic, live, socket)})

    def is_over(self) -> bool:
        """Whether the parent process said that the run has come to its end, before it stopped us."""
        return not self.heard.empty() and bool(self.heard.get_nowait().get("over"))

    def live_site(self, socket: Socket, log: SiteLog, ports: list[int], token: int) -> LiveSite:
        scenario, site = self.scenario, self.site
        addresses = tuple(f"{LOOPBACK}:{port}" for port in ports)
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

    async def report_until_stopped(self, traffic: SiteTraffic, writer: TraceWriter) -> None:
        longest_s = (self.scenario.duration_ms + self.scenario.drain_ms + GRACE_MS) * NS_PER_MS / NS_PER_S
        end_s, roll_s = self.loop.time() + longest_s, self.loop.time() + ROLL_S
        while not self.stopped.is_set() and self.loop.time() < end_s:
            try:
                await asyncio.wait_for(self.stopped.wait(), STATUS_S)
            except TimeoutError:
                say({"sent": traffic.sent_to, "delivered": traffic.delivered_count, "done": traffic.done()})
            if self.loop.time() > roll_s:
                roll_s = self.loop.time() + ROLL_S
                writer.roll()

    def summary(self, traffic: SiteTraffic, site: LiveSite, socket: Socket) -> dict[str, Any]:
        counters, peers = site.counters, site.peers
        return {
            "submitted": traffic.submitted_count,
            "refused": traffic.refused_count,
            "delivered": traffic.delivered_count,
            "rejected": site.log.rejected_count,
            "messages": counters.message_count,
            "datagrams": counters.datagram_count,
            "payload_bytes": counters.payload_bytes,
            "control_bytes": counters.control_bytes,
            "lost": socket.lost_count,
            "overflow": socket.overflow_count,
            "foreign": peers.foreign_count + peers.garbled_count + peers.refused_count + peers.stale_count,
        }


def say(word: dict[str, Any]) -> None:
    """Tell the parent process; where it is gone, nobody needs to know."""
    try:
        print(json.dumps(word), flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m isthmus.live.daemon", description="One site of a live run.")
    parser.add_argument("scenario", type=Path)
    parser.add_argument("--site", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--no-emulate", action="store_true")
    options = parser.parse_args()
    try:
        scenario = load_scenario(options.scenario, options.seed)

        async def run() -> None:
            await SiteProcess(scenario, SiteId(options.site), options.out, not options.no_emulate).run()

        asyncio.run(run())
    except InputError as error:
        print(error, file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
