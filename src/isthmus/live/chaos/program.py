"""The process of one site in a round of chaos: a program over the public API, which keeps all messages as its state.

It takes the commands of a site of `isthmus live` (live/run/site_process.py), and

    in   {"block_s": 0.5, "busy": true}     its event loop is blocked for so long, by computing or by sleeping
    in   {"slow_ms": 20}                    it takes so long for each message
    in   {"large": 200000}                  its next message has so many bytes
    in   {"calm": true}                     it sends no more but one last message, again until that has come
    out  {"at": 7, "members": 5, "votes": 5, "count": 90, "sum": 17, "ends": 5, "settled": true, "waits": ""}

The view that it is in, how many messages its state has and their sum, of how many sites the last message has come, and
whether the others have all of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import time
import zlib
from pathlib import Path
from random import Random

import msgspec

from isthmus.core.errors import IsthmusError
from isthmus.core.layer import Kind, View
from isthmus.core.message import SiteId
from isthmus.live.api.events import Delivered
from isthmus.live.api.group import Group
from isthmus.live.api.site import join
from isthmus.live.chaos.compare import split
from isthmus.live.chaos.plan import RUN_KEY, ChaosOptions, plan_of
from isthmus.live.chaos.records import Recorder
from isthmus.live.net.names import address_of
from isthmus.live.net.sockets import Socket
from isthmus.live.node.errors import Blocked, SendTimeout
from isthmus.live.node.plans import AgreedPlan, SiteConfig
from isthmus.live.run.commands import CommandPipe
from isthmus.live.run.site_protocol import disturb, report, site_trace
from isthmus.trace.log import SiteLog
from isthmus.trace.schema import Gauge, Recording, Sink

STATUS_S = 0.1
SETTLE_SHARE = 0.03  # of messages after which the sender settles
AGAIN_S = 2.0  # after which the last message is sent again, where a change of life has lost it
SMALL_BYTES = 200
RECORDS, FILES = "_records", "_state"  # folders beside the trace


class ChaosProgram:
    """The application of one process: it sends, keeps what it is given, and notes both."""

    def __init__(self, options: ChaosOptions, site: SiteId, folder: Path, start: int, port: int) -> None:
        self.options = options
        self.plan = plan_of(options)
        self.scenario = self.plan.scenario
        self.names = [one.name for one in self.scenario.topology.sites]
        self.site = site
        self.start = start  # how often the site was started before
        self.port = port
        self.folder = folder
        self.source = f"{site}.{start}"
        self.random = Random(f"{options.seed}/{self.source}")
        self.pipe = CommandPipe()
        self.recorder = Recorder(folder / RECORDS, site, start)
        self.number = 0  # of its last message
        self.history: list[str] = []  # the messages so far, in order
        self.last: dict[str, int] = {}  # of these, the last one of each source
        self.ends: dict[int, None] = {}  # the sites whose last message is among them
        self.sum = 0
        self.slow_s = 0.0
        self.large = 0
        self.calm = self.over = self.formed = self.settled = False

    # The application

    def state(self) -> bytes:
        return " ".join(self.history).encode() + b"\0" * self.plan.pad_bytes

    def restore(self, state: bytes) -> None:
        self.history, self.last, self.ends, self.sum = [], {}, {}, 0
        for name in state.rstrip(b"\0").decode().split():
            self.keep(name)
        self.recorder.note("restored", *self.history)

    def keep(self, name: str) -> None:
        """Add a message to the state."""
        source, number = split(name)
        self.history.append(name)
        self.last[source] = number
        self.sum = (self.sum + zlib.crc32(name.encode())) & 0xFFFFFFFF
        if name.endswith("!"):
            self.ends[int(source.partition(".")[0])] = None

    async def read(self, group: Group) -> None:
        async for event in group.events():
            if isinstance(event, Delivered):
                name = event.payload.partition(b" ")[0].decode(errors="replace")
                self.recorder.note("delivered", name, zlib.crc32(event.payload))
                self.keep(name)
                if self.slow_s:
                    await asyncio.sleep(self.slow_s)
            elif isinstance(event, View):
                self.note_view(event)

    def note_view(self, view: View) -> None:
        incarnation = view.incarnations[view.members.index(self.site)] if view.incarnations else 0
        self.recorder.note("view", view.view_id, incarnation)
        report({"view": view.view_id, "group": 0, "members": view.members})
        if not self.formed and len(view.members) == len(self.names):
            self.formed = True
            report({"formed": True})

    async def send_all(self, group: Group) -> None:
        """Send until told to be calm; then one last message until it has come."""
        while not self.calm:
            size = self.large or self.random.randint(10, SMALL_BYTES)
            self.large = 0
            await self.send(group, size, "", self.random.choice([None, None, None, 0.2]))
            if self.random.random() < SETTLE_SHARE and await group.settle(1.0):
                self.recorder.note("settled", f"{self.source}.{self.number}")
            await asyncio.sleep(self.random.expovariate(self.plan.rate_per_s))
        while not self.over:
            if self.site not in self.ends:
                await self.send(group, SMALL_BYTES, "!", None)
            self.settled = await group.settle(AGAIN_S)
            await asyncio.sleep(STATUS_S if self.site in self.ends else AGAIN_S)

    async def send(self, group: Group, size: int, suffix: str, timeout: float | None) -> None:
        self.number += 1
        name = f"{self.source}.{self.number}{suffix}"
        payload = (f"{name} ".encode() * (size // len(name) + 1))[:size]
        after = [f"{source}.{number}" for source, number in self.last.items() if source != self.source]
        self.recorder.note("sent", name, zlib.crc32(payload), *after)
        try:
            await group.send(payload, timeout=timeout)
        except (SendTimeout, Blocked):
            self.recorder.note("refused", name)
        else:
            self.recorder.note("taken", name)

    # The process

    async def run(self) -> None:
        socket = Socket(address_of(self.scenario.topology, self.site, self.port))
        try:
            report({"port": socket.port})
            begin = await self.pipe.next()
            if begin is not None:
                disturb(socket, begin)
                with site_trace(self.scenario, self.site, self.folder, self.start) as (log, writer):
                    await self.take_part(socket, begin["ports"], log, writer)
        finally:
            socket.close()
            self.pipe.close()

    async def take_part(self, socket: Socket, ports: list[int], log: SiteLog, sink: Sink) -> None:
        rules = self.scenario.membership.agreed
        files = self.folder / FILES if rules.file else None
        if files is not None and (self.site, self.start) in self.plan.forgets:
            (files / f"{self.names[self.site]}.view").unlink(missing_ok=True)
        (of_run,) = self.scenario.groups_of_run()
        group = join(
            self.scenario.topology,
            self.names[self.site],
            stack=of_run.stack.name,
            options=of_run.options,
            addresses=dict(zip(self.names, ports, strict=True)),
            state=self.state,
            restore=self.restore,
            config=SiteConfig(
                membership=AgreedPlan(rules, files),
                emulate=self.plan.emulated,
                keys=self.folder / RUN_KEY if self.options.sealed else None,
                sink=sink,
                on_suspicion=lambda name, on: report({"suspects": self.names.index(name), "on": on}),
            ),
        )
        group.runtime.log = log  # whose rows are numbered above those of earlier processes
        if self.start:
            log.write(time.time_ns(), Kind.RECOVER, None, self.start, of_run.id, View(0, ()))
        await group.runtime.open(socket)
        works = [self.read(group), self.send_all(group), self.obey(group, socket), self.tell(group)]
        tasks = [asyncio.create_task(work) for work in works]
        stopping = asyncio.create_task(self.pipe.stopped.wait())
        done, _ = await asyncio.wait({stopping, *tasks}, return_when=asyncio.FIRST_COMPLETED)
        for task in (stopping, *tasks):
            task.cancel()
        await group.close()
        log.record(time.time_ns(), Recording.ENDED if self.over else Recording.CUT)
        for task in done:
            task.result()

    async def obey(self, group: Group, socket: Socket) -> None:
        """Carry out the commands of the parent process."""
        while True:
            command = await self.pipe.commands.get()
            if "cut" in command:
                disturb(socket, command)
            if "stood_ns" in command:
                group.runtime.gauge(Gauge.PAUSE_NS, command["stood_ns"])
            if "block_s" in command:
                block(command["block_s"], command["busy"])
            self.slow_s = command.get("slow_ms", 1e3 * self.slow_s) / 1e3
            self.large = command.get("large", self.large)
            if "calm" in command:
                self.calm, self.slow_s = True, 0.0
            if "over" in command:
                self.over, socket.on_refused = True, None

    async def tell(self, group: Group) -> None:
        """Report how far this process has come."""
        while True:
            settled, view = self.settled, group.view
            report(
                {"at": view.view_id, "members": len(view.members), "votes": sum(view.weights)}
                | {"count": len(self.history), "sum": self.sum, "ends": len(self.ends), "settled": settled}
                | {"waits": "" if settled else group.waits_for(), "done": self.calm, "over": self.over}
            )
            await asyncio.sleep(STATUS_S)


def block(seconds: float, busy: bool) -> None:
    """Keep the event loop to itself."""
    if not busy:
        time.sleep(seconds)
    end_s = time.monotonic() + seconds * busy
    while time.monotonic() < end_s:
        pass


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m isthmus.live.chaos.program", description="One site of a round.")
    parser.add_argument("options", help="of the round, as JSON")
    parser.add_argument("--site", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--life", type=int, default=0)
    parser.add_argument("--port", type=int, default=0)
    given = parser.parse_args()
    options = msgspec.json.decode(given.options, type=ChaosOptions)
    given.out.mkdir(parents=True, exist_ok=True)
    logging.basicConfig(
        filename=given.out / f"site-{given.site}-{given.life}.log", level="INFO", format="%(asctime)s %(message)s"
    )

    async def run() -> None:
        await ChaosProgram(options, SiteId(given.site), given.out, given.life, given.port).run()

    try:
        asyncio.run(run())
    except IsthmusError as error:
        print(error, file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
