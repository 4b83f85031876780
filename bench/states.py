"""How long a joining site needs to get a large state, beside the bare transfer of as many bytes in the same run.

`python -m bench.states [SMALLER]`; SMALLER divides the sizes, for a quick look. Three sites, each a process of its own.
Two are in a view, and one of them multicasts; the third is killed, started again, and takes over the state. Measured
from its first view to `restore(state)`, and from the start of its program; meanwhile, at the site that does not give
the state: the views, the suspicions, and the longest time between two messages of the sender. *Peak* is the resident
memory of the giver and of the joiner at its highest.

The bare transfer over an emulated link is the same bytes in the same datagrams at once from one socket to another, no
acknowledgements: nothing can be faster. On the loopback it is one TCP connection.

Beside states: a change of view with a large message under way over a slow link, and the README's program.
"""

from __future__ import annotations

import asyncio
import json
import re
import resource
import signal
import socket
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table
from tests.harness.ports import free_ports

from isthmus import Blocked, SiteConfig, join
from isthmus.core.message import SiteId
from isthmus.live.net.emulation import Emulation
from isthmus.live.net.sockets import Socket
from isthmus.topology.delay import Constant
from isthmus.topology.model import Channel, Topology
from isthmus.topology.shapes import mesh

ROOT = Path(__file__).parents[1]
SITES = 3
GROW = b"grow"  # from this message on the state has its size
PERIOD_S = 0.01  # of the sender's messages
WAIT_S = 120.0
DATAGRAM_BYTES = 1_400
CHUNK_BYTES = 1 << 20
README_S = 2.0


class Case(NamedTuple):
    """One state, and the network that it passes."""

    title: str
    size: int  # bytes
    delay_ms: float = 0.0  # one way, emulated; 0: the bare loopback
    mbps: float | None = None
    snapshot_s: float = 0.0  # what state() takes
    most_s: float | None = None  # asked for
    most_times: float | None = None  # of the bare transfer

    def network(self) -> Topology:
        channel = Channel(Constant(self.delay_ms or 0.1), bandwidth_mbps=self.mbps)
        return mesh(SITES, 1, channel, channel)


CASES = (
    Case("1 MB, 20 ms", 1_000_000, 20.0, most_s=0.6),
    Case("10 MB, 5 ms, 50 Mbit/s", 10_000_000, 5.0, 50.0, most_times=1.5),
    Case("100 MB, loopback", 100_000_000),
    Case("1 MB, state() takes 6 s", 1_000_000, snapshot_s=6.0),
)
CHANGE = Case("2 MB message, 10 Mbit/s", 2_000_000, 5.0, 10.0)


# One site


def say(**word: object) -> None:
    print(json.dumps(word | {"at": time.monotonic()}), flush=True)


class Program:
    """A state of some size, and how many messages were applied to it."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.data = b""
        self.heard_s: float | None = None  # when the sender's last message was applied
        self.gap_s = 0.0  # the longest time between two of them, since the last word

    def state(self) -> bytes:
        time.sleep(self.case.snapshot_s)
        return self.data

    def restore(self, state: bytes) -> None:
        self.data = state
        say(restored=len(state))

    def apply(self, payload: bytes) -> None:
        if payload == GROW:
            self.data = bytes(self.case.size)
            say(grown=len(self.data))
        if len(payload) == self.case.size:
            say(large=len(payload))
        now_s = time.monotonic()
        self.gap_s = max(self.gap_s, now_s - (self.heard_s or now_s))
        self.heard_s = now_s


async def site(case: Case, name: str, ports: dict[str, int], stateful: bool) -> None:
    """Be one site: the first multicasts; a line on the input is an order of the parent process."""
    program = Program(case)
    config = SiteConfig(
        emulate=case.delay_ms > 0, on_suspicion=lambda other, suspected: say(suspects=other, on=suspected)
    )
    kept = {"state": program.state, "restore": program.restore} if stateful else {}
    group = join(case.network(), name, addresses=ports, config=config, **kept)  # type: ignore[arg-type]

    async def tell_views() -> None:
        async for view in group.views():
            say(view=view.view_id, members=len(group.members), votes=sum(view.weights))

    async def read() -> None:
        async for message in group:
            program.apply(message.payload)

    async def send() -> None:
        while True:
            with suppress(Blocked):
                await group.send(b"tick", wait=False)
            await asyncio.sleep(PERIOD_S)

    async def tell() -> None:
        while True:
            await asyncio.sleep(0.1)
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1_024
            say(peak=peak, gap=program.gap_s)
            program.gap_s = 0.0

    say(begun=True)
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    async with group:
        tasks = [asyncio.create_task(one()) for one in (tell_views, read, tell)]
        while order := (await reader.readline()).decode().strip():
            if order == "traffic":
                tasks.append(asyncio.create_task(send()))
            elif order == "grow":
                await group.send(GROW)
            elif order == "large":
                await group.send(bytes(case.size))
                say(sent=case.size)
        for task in tasks:
            task.cancel()
        await group.close()


class Child:
    """One site's process, and what it said."""

    def __init__(self, case: Case, name: str, ports: dict[str, int], stateful: bool) -> None:
        self.name = name
        self.arguments = ("--site", json.dumps(case), name, json.dumps(ports), str(int(stateful)))
        self.words: list[dict[str, Any]] = []

    async def start(self) -> None:
        self.words.clear()
        self.process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "bench.states", *self.arguments),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        self.reading = asyncio.create_task(self.read())

    async def read(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            self.words.append(json.loads(line))

    def order(self, word: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{word}\n".encode())

    async def until(self, key: str, since: float = 0.0, **wanted: object) -> float:
        """Wait for a word; when it was said."""
        end = time.monotonic() + WAIT_S
        while time.monotonic() < end:
            for word in self.words:
                if key in word and word["at"] >= since and all(word[name] == value for name, value in wanted.items()):
                    return float(word["at"])
            if self.process.returncode is not None:
                break
            await asyncio.sleep(0.005)
        raise TimeoutError(f"{self.name} said no {key!r} within {WAIT_S:g} s; its last words: {self.words[-5:]}")

    def found(self, key: str, since: float = 0.0) -> list[Any]:
        return [word[key] for word in self.words if key in word and word["at"] >= since]

    async def kill(self) -> None:
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()
        await self.reading


async def formed(case: Case, stateful: bool) -> list[Child]:
    names = [each.name for each in case.network().sites]
    ports = free_ports(names)
    children = [Child(case, name, ports, stateful) for name in names]
    for child in children:
        await child.start()
    for child in children:
        await child.until("view", members=SITES, votes=SITES)
    return children


class Measured(NamedTuple):
    """What one state took."""

    start_s: float  # from the start of the program
    view_s: float  # from its first view
    bare_s: float
    views: int  # while the state was on its way, at a site that has it
    suspicions: int
    gap_s: float  # between two messages, at a site that neither gives nor takes
    giver_bytes: int
    joiner_bytes: int


async def measure(case: Case) -> Measured:
    children = await formed(case, stateful=True)
    sender, other, joiner = children
    try:
        for child in children:
            child.order("traffic")
        sender.order("grow")
        for child in children:
            await child.until("grown")
        await joiner.kill()
        await other.until("view", members=SITES - 1)
        await asyncio.sleep(1.0)
        await joiner.start()
        begun = await joiner.until("begun")
        first_view = await joiner.until("view")
        restored = await joiner.until("restored", restored=case.size)
        await other.until("view", begun, votes=SITES)
        await asyncio.sleep(0.3)
        suspicions = [on for child in (sender, other) for on in child.found("on", begun)]
        return Measured(
            restored - begun,
            restored - first_view,
            await (bare_emulated(case) if case.delay_ms else bare_loopback(case.size)),
            len(other.found("view", begun)),
            sum(suspicions),
            min(max(child.found("gap", begun)) for child in (sender, other)),
            max(*sender.found("peak"), *other.found("peak")),
            max(joiner.found("peak")),
        )
    finally:
        for child in children:
            await child.kill()


async def change_of_view(case: Case) -> tuple[float, float, float]:
    """From the death of a site, with a large message under way: the view without it, the message; the bare transfer."""
    children = await formed(case, stateful=False)
    sender, other, victim = children
    try:
        sender.order("large")
        await sender.until("sent")
        await asyncio.sleep(0.3)
        began = time.monotonic()
        await victim.kill()
        viewed = max([await child.until("view", began, members=SITES - 1) for child in (sender, other)])
        delivered = await other.until("large", large=case.size)
        return viewed - began, delivered - began, await bare_emulated(case)
    finally:
        for child in children:
            await child.kill()


# The bare transfer


async def bare_emulated(case: Case) -> float:
    """Send as many bytes in datagrams over the emulated link, all at once; until the last is there."""
    names = [each.name for each in case.network().sites]
    ports = free_ports(names)
    ends = [Socket(("127.0.0.1", ports[name])) for name in names[:2]]
    done, left = asyncio.Event(), case.size

    def on_datagram(_source: SiteId, datagram: bytes, _head: bytes) -> None:
        nonlocal left
        left -= len(datagram)
        if left <= 0:
            done.set()

    for number, end in enumerate(ends):
        others = {SiteId(1 - number): ("127.0.0.1", ports[names[1 - number]])}
        emulation = Emulation.over(case.network(), SiteId(number), Random(number))
        end.open(others, emulation, on_datagram, lambda _address, _datagram: None, lambda: None)
    began = time.monotonic()
    for offset in range(0, case.size, DATAGRAM_BYTES):
        ends[0].send(SiteId(1), bytes(min(DATAGRAM_BYTES, case.size - offset)))
    try:
        await asyncio.wait_for(done.wait(), WAIT_S)
    finally:
        for end in ends:
            end.close()
    return time.monotonic() - began


async def bare_loopback(size: int) -> float:
    """Send as many bytes over one TCP connection."""
    done = asyncio.Event()

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(CHUNK_BYTES):
            pass
        writer.close()
        done.set()

    server = await asyncio.start_server(take, "127.0.0.1", 0, family=socket.AF_INET)
    began = time.monotonic()
    _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    for offset in range(0, size, CHUNK_BYTES):
        writer.write(bytes(min(CHUNK_BYTES, size - offset)))
        await writer.drain()
    writer.close()
    await done.wait()
    server.close()
    return time.monotonic() - began


async def readme() -> float:
    """Run the README's program, with ports that are free; from its start to its end."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.search(r"## From Python\n\n```python\n(.*?)```", text, re.DOTALL)
    assert found, "the README has a program"
    with tempfile.TemporaryDirectory() as folder:
        made = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "isthmus", "init", "demo"), cwd=folder, stdout=asyncio.subprocess.DEVNULL
        )
        assert await made.wait() == 0
        names = re.findall(r'"([a-z]+-\d)": \d+', found[1])
        program = found[1]
        for name, port in free_ports(names).items():
            program = re.sub(rf'"{name}": \d+', f'"{name}": {port}', program)
        began = time.monotonic()
        run = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", program), cwd=folder, stdout=asyncio.subprocess.DEVNULL
        )
        code = await asyncio.wait_for(run.wait(), WAIT_S)
        assert code == 0, f"the README's program ends with {code}"
        return time.monotonic() - began


def main(smaller: int) -> int:
    short: list[str] = []
    table = Table(title="the state of a joining site, beside the bare transfer")
    columns = ("", "from start, s", "from its view, s", "bare, s", "times", "views", "suspicions", "gap, s", "peak, MB")
    for column in columns:
        table.add_column(column, justify="right" if column else "left")
    for case in CASES:
        cut = case._replace(size=case.size // smaller)
        found = asyncio.run(measure(cut))
        times = found.view_s / found.bare_s
        peaks = f"{found.giver_bytes / 1e6:.0f}, {found.joiner_bytes / 1e6:.0f}"
        seconds = (f"{found.start_s:.2f}", f"{found.view_s:.2f}", f"{found.bare_s:.2f}", f"{times:.1f}")
        table.add_row(case.title, *seconds, str(found.views), str(found.suspicions), f"{found.gap_s:.2f}", peaks)
        if case.most_s is not None and found.view_s > case.most_s:
            short.append(f"{case.title}: above {case.most_s:g} s")
        if case.most_times is not None and times > case.most_times:
            short.append(f"{case.title}: above {case.most_times:g} times the bare transfer")
        if found.suspicions or found.views > 2:
            short.append(f"{case.title}: a false suspicion, or a view too many")
    Console(width=130).print(table)
    viewed, delivered, bare = asyncio.run(change_of_view(CHANGE._replace(size=CHANGE.size // smaller)))
    print(f"{CHANGE.title}, a site killed: view {viewed:.2f} s, message {delivered:.2f} s, bare transfer {bare:.2f} s")
    if viewed > 2 * bare + 1:
        short.append("a view with a large message under way: above twice the bare transfer and 1 s")
    whole = asyncio.run(readme())
    print(f"the README's program: {whole:.2f} s (target {README_S:g})")
    if whole > README_S:
        short.append("the README's program: above its target")
    for line in short:
        print(line)
    return 1 if short else 0


if __name__ == "__main__":
    if "--site" in sys.argv:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        _, _, given, name, ports, stateful = sys.argv
        asyncio.run(site(Case(*json.loads(given)), name, json.loads(ports), stateful == "1"))
        sys.exit(0)
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1))
