"""Sites in network namespaces of their own, joined by a bridge: links are cut for real, both ways or one way.

Needs root and the `ip` command; skipped where namespaces are not permitted. What is made is removed, however the test
ends, by Ctrl-C too: processes are killed by their ids, and namespaces go with everything in them. What a killed test
left is removed by the next.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

SITES = 3
WAIT_S = 60.0
PORT = 47_000
PREFIX = "isthmus-test-"
REFUSED = ("not permitted", "not supported", "Permission denied", "Unknown device type")  # words of the system


def ip(*words: str, check: bool = True) -> None:
    subprocess.run(["ip", *words], check=check, capture_output=True)


def remove_stale() -> None:
    """Remove what an earlier run left that was killed: namespaces that carry the id of a process that is gone."""
    found = subprocess.run(["ip", "netns", "list"], check=True, capture_output=True, text=True).stdout
    for space in [line.split()[0] for line in found.splitlines() if line.startswith(PREFIX)]:
        if not Path(f"/proc/{space[len(PREFIX) :].split('-')[0]}").exists():
            ip("netns", "del", space, check=False)


class Network:
    """A bridge in a namespace of its own, and one namespace per site with a cable to it."""

    def __init__(self) -> None:
        self.tag = f"{PREFIX}{os.getpid()}"
        self.hub = f"{self.tag}-hub"
        self.spaces = [f"{self.tag}-{site}" for site in range(SITES)]

    def make(self) -> None:
        remove_stale()
        ip("netns", "add", self.hub)
        ip("-n", self.hub, "link", "add", "hub0", "type", "bridge")
        ip("-n", self.hub, "link", "set", "hub0", "up")
        for site, space in enumerate(self.spaces):
            ip("netns", "add", space)
            ip("-n", self.hub, "link", "add", f"p{site}", "type", "veth", "peer", "name", "eth0", "netns", space)
            ip("-n", self.hub, "link", "set", f"p{site}", "master", "hub0", "up")
            ip("-n", space, "address", "add", f"{self.address(site)}/24", "dev", "eth0")
            ip("-n", space, "link", "set", "eth0", "up")
            ip("-n", space, "link", "set", "lo", "up")

    def address(self, site: int) -> str:
        return f"10.203.7.{site + 1}"

    def cut(self, site: int) -> None:
        ip("-n", self.hub, "link", "set", f"p{site}", "down")

    def heal(self, site: int) -> None:
        ip("-n", self.hub, "link", "set", f"p{site}", "up")

    def silence(self, site: int) -> None:
        """Have a site hear the others, who hear nothing of it: its routes to them lead nowhere."""
        for other in range(SITES):
            if other != site:
                ip("-n", self.spaces[site], "route", "add", "blackhole", f"{self.address(other)}/32")

    def unsilence(self, site: int) -> None:
        for other in range(SITES):
            if other != site:
                ip("-n", self.spaces[site], "route", "del", "blackhole", f"{self.address(other)}/32")

    def remove(self) -> None:
        for space in (*self.spaces, self.hub):
            ip("netns", "del", space, check=False)


@pytest.fixture
def network() -> Iterator[Network]:
    if shutil.which("ip") is None or os.geteuid() != 0:
        pytest.skip("needs root and the `ip` command")
    made = Network()
    try:
        made.make()
    except subprocess.CalledProcessError as error:
        made.remove()
        why = error.stderr.decode().strip()
        if any(word in why for word in REFUSED):
            pytest.skip(f"network namespaces are not permitted: {why}")
        raise AssertionError(why) from error
    try:
        yield made
    finally:
        made.remove()


class Child:
    """One site's process, in its namespace."""

    program = "bench.member_site"

    def __init__(self, network: Network, site: int) -> None:
        self.name = f"c0-{site}"
        ports = {f"c0-{one}": (network.address(one), PORT) for one in range(SITES)}
        self.command = [
            *("ip", "netns", "exec", network.spaces[site]),
            *(sys.executable, "-m", self.program, self.name, str(SITES), json.dumps(ports)),
        ]
        self.members: list[str] = []
        self.counts = [0]
        self.digests: dict[int, int] = {}  # by the number of messages so far

    async def start(self) -> None:
        self.process = await asyncio.create_subprocess_exec(*self.command, stdout=asyncio.subprocess.PIPE)
        self.reading = asyncio.create_task(self.read())

    async def read(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            word = json.loads(line)
            if "view" in word:
                self.members = sorted(word["members"]) if word["votes"] == len(word["members"]) else []
            elif "count" in word:
                self.counts.append(word["count"])
                self.digests[word["count"]] = word["digest"]

    async def end(self) -> None:
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGKILL)
        await self.process.wait()
        await self.reading


async def eventually(what: str, holds: Callable[[], bool]) -> float:
    """Wait for something to be so; how long it took."""
    began = time.monotonic()
    while not holds():
        assert time.monotonic() - began < WAIT_S, f"not within {WAIT_S:g} s: {what}"
        await asyncio.sleep(0.01)
    return time.monotonic() - began


async def part_and_heal(children: list[Child], part: Callable[[int], None], heal: Callable[[int], None]) -> None:
    """Cut the eldest off and back in: the others go on without it, it waits, and comes back with their state."""
    everybody = sorted(child.name for child in children)
    await eventually("a view of all", lambda: all(child.members == everybody for child in children))
    victim, others = children[0], children[1:]
    part(0)
    rest = [child.name for child in others]
    await eventually("a view of the majority", lambda: all(child.members == rest for child in others))
    before, stood = others[0].counts[-1], victim.counts[-1]
    await asyncio.sleep(1.0)
    assert others[0].counts[-1] > before, "the majority goes on"
    assert victim.counts[-1] <= stood + 100, "the minority delivers no more than was on its way"
    standing = victim.counts[-1]
    await asyncio.sleep(0.5)
    assert victim.counts[-1] == standing and victim.members != [victim.name]
    heal(0)
    await eventually("a view of all again", lambda: all(child.members == everybody for child in children))
    after = victim.counts[-1]
    await eventually("messages again", lambda: victim.counts[-1] > after + 50)
    await eventually("a count that both have told", lambda: bool(alike(victim, others[0], after)))
    assert all(one == two for one, two in alike(victim, others[0], after)), "one order"


def alike(one: Child, two: Child, since: int) -> list[tuple[int, int]]:
    """The digests of both where they told of equally many messages."""
    both = [count for count in one.digests if count > since and count in two.digests]
    return [(one.digests[count], two.digests[count]) for count in both]


@pytest.mark.parametrize("way", ["both", pytest.param("one", marks=pytest.mark.full)])
def test_a_site_that_is_cut_off_waits_and_the_majority_goes_on(network: Network, way: str) -> None:
    async def program() -> None:
        children = [Child(network, site) for site in range(SITES)]
        started: list[Child] = []
        try:
            for child in children:
                await child.start()
                started.append(child)
            if way == "both":
                await part_and_heal(children, network.cut, network.heal)
            else:
                await part_and_heal(children, network.silence, network.unsilence)
        finally:
            await asyncio.gather(*(child.end() for child in started))

    asyncio.run(program())


class Clock(Child):
    """A site with the clock service, and what it said of it last."""

    program = "bench.clock_site"

    def __init__(self, network: Network, site: int) -> None:
        super().__init__(network, site)
        self.status: dict[str, object] = {}
        self.wrong: list[dict[str, object]] = []  # whenever true time was not within what it told

    async def read(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            self.status = json.loads(line)
            if self.status["known"] and not self.status["inside"]:
                self.wrong.append(self.status)

    def is_so(self, state: str, members: list[str]) -> bool:
        return self.status.get("state") == state and self.status.get("members") == members


def test_clocks_hold_over_a_cut_cable_and_no_interval_is_wrong(network: Network) -> None:
    """The site that is cut off hears no reference; the others go on, and take it back."""

    async def program() -> None:
        children = [Clock(network, site) for site in range(SITES)]
        names = [child.name for child in children]
        started: list[Child] = []
        try:
            for child in children:
                await child.start()
                started.append(child)
            await eventually("all synchronised", lambda: all(one.is_so("synchronised", names) for one in children))
            assert all(one.status["stamps"] == "kernel" for one in children)
            network.cut(2)
            await eventually(
                "the others without it", lambda: all(one.is_so("synchronised", names[:2]) for one in children[:2])
            )
            await eventually("hold-over", lambda: children[2].status.get("state") == "hold-over")
            network.heal(2)
            await eventually("all again", lambda: all(one.is_so("synchronised", names) for one in children))
            assert [one.wrong for one in children] == [[], [], []]
        finally:
            await asyncio.gather(*(child.end() for child in started))

    asyncio.run(program())
