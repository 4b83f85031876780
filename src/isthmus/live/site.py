"""The process of one site: `python -m isthmus.live.site SCENARIO --site N --out DIR`.

It speaks with whoever started it in lines of JSON, and with the other sites by UDP.

    it says    {"port": 40001}                                    its socket is bound
    it hears   {"ports": [40001, 40002], "token": 7, "start_ns": t}    all are; the run starts at t on the wall clock
    it says    {"sent": [3, 3], "delivered": 5, "done": false}    now and then: to each site, here, nothing more to send
    it hears   the end of its input                               everything has arrived, or it is late
    it says    {"summary": {...}}                                 the trace is written; it ends

The end of its input is also how the death of the one who started it shows, and a signal to end means the same: no
process outlives its run, and the trace is readable up to there.
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
from isthmus.core.message import SiteId
from isthmus.live.emulation import Emulation
from isthmus.live.host import LiveHost
from isthmus.live.network import LOOPBACK, NS_PER_S, Driver, Endpoint
from isthmus.scenario.load import load_scenario
from isthmus.scenario.model import Scenario
from isthmus.scenario.traffic import SiteTraffic
from isthmus.scenario.workload import NS_PER_MS
from isthmus.stacks import STACKS
from isthmus.trace.log import SiteLog
from isthmus.trace.writer import TraceWriter

STATUS_S = 0.05
ROLL_S = 10.0  # a segment is completed this often, so that a long run can be followed
GRACE_MS = 5_000.0  # beyond duration and drain: then the one who started us is taken for stuck


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
        endpoint = await Endpoint.bind()
        try:
            say({"port": endpoint.port})
            begin = await self.first_word()
            if begin is not None:
                await self.take_part(endpoint, begin)
        finally:
            endpoint.close()
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

    async def take_part(self, endpoint: Endpoint, begin: dict[str, Any]) -> None:
        scenario, site = self.scenario, self.site
        meta = {"scenario": scenario.name, "seed": str(scenario.seed), "stack": scenario.stack.name}
        meta |= {"version": __version__, "host": "live", "site": scenario.topology.sites[site].name}
        with TraceWriter(self.folder, meta, prefix=f"site-{site:03d}") as writer:
            log = SiteLog(site, None if scenario.trace == "none" else writer)
            host = LiveHost(
                site,
                scenario.random("site", site, 0),
                endpoint.send,
                time.monotonic_ns,
                time.time_ns,
                log,
                token=begin["token"],
                wire_log=scenario.trace == "wire",
            )
            driver = Driver(host, endpoint)
            traffic = SiteTraffic(scenario, site, self.timetable(driver), lambda: time.monotonic_ns() - self.start_ns)
            stack = STACKS[scenario.stack.name].build(host, traffic.boot(), scenario.stack_options())
            host.attach(stack)
            members = tuple(SiteId(number) for number in range(len(begin["ports"])))
            emulation = Emulation(scenario.topology, site, scenario.random("network", site)) if self.emulate else None
            others = {
                peer: (LOOPBACK, port) for peer, port in zip(members, begin["ports"], strict=True) if peer != site
            }
            endpoint.open(others, emulation)
            await asyncio.sleep(max(0.0, (begin["start_ns"] - time.time_ns()) / NS_PER_S))
            self.start_ns = time.monotonic_ns()
            driver.run(lambda: stack.install(View(1, members)))
            traffic.start()
            await self.report_until_stopped(traffic, writer)
            driver.close()
        say({"summary": self.summary(traffic, host, endpoint)})

    def timetable(self, driver: Driver) -> Callable[[int, Callable[[], None]], None]:
        """A way to do something at a time from the start of the run, as a turn of its own."""

        def at(time_ns: int, action: Callable[[], None]) -> None:
            self.loop.call_at((self.start_ns + time_ns) / NS_PER_S, act, action)

        def act(action: Callable[[], None]) -> None:
            if not driver.closed:
                driver.run(action)

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

    def summary(self, traffic: SiteTraffic, host: LiveHost, endpoint: Endpoint) -> dict[str, Any]:
        counters = host.counters
        return {
            "submitted": traffic.submitted_count,
            "refused": traffic.refused_count,
            "delivered": traffic.delivered_count,
            "rejected": host.log.rejected_count,
            "messages": counters.message_count,
            "datagrams": counters.datagram_count,
            "payload_bytes": counters.payload_bytes,
            "control_bytes": counters.control_bytes,
            "lost": endpoint.lost_count,
            "overflow": endpoint.overflow_count,
            "foreign": counters.foreign_count + counters.garbled_count + endpoint.stranger_count,
        }


def say(word: dict[str, Any]) -> None:
    """Tell the one who started us; where it is gone, nobody needs to know."""
    try:
        print(json.dumps(word), flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m isthmus.live.site", description="One site of a live run.")
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
