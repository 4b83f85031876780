"""A live group under load for minutes, without a false view change: `python -m bench.soak [MINUTES] [SITES] [RATE]`.

Nobody is killed or stopped, so every view after the first of all, and every suspicion, is a false one. A false view, or
memory that grows, is a failure (exit code 1); a suspicion that was taken back before it led to one is told, and no
more. A line every ten seconds says how far it is, a false view or suspicion is told as it comes. At the end: views and
suspicions, messages delivered per second at each site, whether all delivered the same, and how much the memory of each
process grew from the end of the first tenth of the run to its end.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable

from rich.console import Console
from rich.table import Table
from tests.harness.ports import free_ports

from bench.membership import READY_S, alike

MINUTES, SITES, RATE = 3.0, 5, 100.0
WARM_UP = 0.1  # of the run: before that, caches and buffers fill
GROWTH_MAX_BYTES = 16 << 20  # of a process, from then on; what leaks would pass this within the hour
LOOK_S = 0.2
TELL_S = 10.0
MIB = 1 << 20


class Site:
    """One process of the group, and what it has told."""

    def __init__(self, name: str, arguments: list[str]) -> None:
        self.name = name
        self.arguments = arguments
        self.views: list[dict[str, object]] = []
        self.suspicions: list[str] = []
        self.last: dict[str, object] = {}

    async def start(self) -> None:
        self.process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "bench.member_site", self.name, *self.arguments),
            stdout=asyncio.subprocess.PIPE,
        )
        self.reading = asyncio.create_task(self.read())

    async def read(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            word = json.loads(line)
            if "view" in word:
                self.views.append(word)
            elif "suspects" in word:
                self.suspicions += [f"{self.name} suspects {word['suspects']}"] if word["on"] else []
            elif "count" in word:
                self.last = word

    def figure(self, key: str) -> int:
        return int(str(self.last.get(key, 0)))

    def is_among(self, count: int) -> bool:
        """Whether its view has all sites, each with its vote."""
        return bool(self.views) and self.views[-1]["votes"] == count

    async def end(self) -> None:
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()
        await self.reading


async def soak(minutes: float, count: int, rate: float) -> int:
    names = [f"c0-{number}" for number in range(count)]
    arguments = [str(count), json.dumps(free_ports(names)), str(rate)]
    sites = [Site(name, arguments) for name in names]
    started: list[Site] = []
    try:
        for site in sites:
            await site.start()
            started.append(site)
        await until(lambda: all(site.is_among(count) for site in sites), READY_S, "no view of all sites")
        return await watch(sites, minutes)
    finally:
        for site in started:
            await site.end()


async def until(holds: Callable[[], bool], within_s: float, what: str) -> None:
    end_s = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > end_s:
            raise TimeoutError(f"{what} within {within_s:g} s")
        await asyncio.sleep(LOOK_S)


async def watch(sites: list[Site], minutes: float) -> int:
    """Let the group run, and say what came of it; 0 where nothing went wrong."""
    views, suspicions = [len(site.views) for site in sites], [len(site.suspicions) for site in sites]
    span_s = 60.0 * minutes
    began_s, counts = time.monotonic(), [site.figure("count") for site in sites]
    progress = Progress(sites, span_s)
    await pass_time(sites, WARM_UP * span_s, progress)
    warm = [site.figure("resident") for site in sites]
    await pass_time(sites, began_s + span_s - time.monotonic(), progress)
    took_s = time.monotonic() - began_s
    await alike(sites)  # type: ignore[arg-type]
    table = Table(title=f"{len(sites)} live sites under load for {minutes:g} min, nobody hurt")
    for column in ("site", "deliveries/s", "false views", "false suspicions", "memory, MiB", "growth, MiB"):
        table.add_column(column, justify="left" if column == "site" else "right")
    faults = 0
    for place, site in enumerate(sites):
        rate = (site.figure("count") - counts[place]) / took_s
        wrong_views, wrong = len(site.views) - views[place], len(site.suspicions) - suspicions[place]
        resident = site.figure("resident")
        growth = resident - warm[place]
        faults += wrong_views + (growth > GROWTH_MAX_BYTES)
        shown = (f"{rate:,.0f}", str(wrong_views), str(wrong), f"{resident / MIB:.1f}", f"{growth / MIB:+.1f}")
        table.add_row(site.name, *shown)
    Console(width=110).print(table)
    print("failed: a false view, or memory that grows" if faults else "no false view")
    return 1 if faults else 0


class Progress:
    """What is printed while a group runs."""

    def __init__(self, sites: list[Site], span_s: float) -> None:
        self.sites = sites
        self.span_s = span_s
        self.began_s = self.told_s = time.monotonic()
        self.count = self.total()
        self.views, self.suspicions = [len(site.views) for site in sites], [len(site.suspicions) for site in sites]
        self.seen = [*self.views], [*self.suspicions]  # of which nothing more is told

    def total(self) -> int:
        return sum(site.figure("count") for site in self.sites)

    def look(self) -> None:
        """Tell what is new, and every `TELL_S` how far it is."""
        now_s = time.monotonic()
        at_s = now_s - self.began_s
        seen_views, seen_suspicions = self.seen
        for place, site in enumerate(self.sites):
            for view in site.views[seen_views[place] :]:
                print(f"{at_s:8.1f} s  false view {view['view']} at {site.name}: {view['members']}", flush=True)
            for text in site.suspicions[seen_suspicions[place] :]:
                print(f"{at_s:8.1f} s  false suspicion: {text}", flush=True)
        self.seen = [len(site.views) for site in self.sites], [len(site.suspicions) for site in self.sites]
        if now_s - self.told_s >= TELL_S:
            count = self.total()
            rate = (count - self.count) / (now_s - self.told_s) / len(self.sites)
            false = max(now - before for now, before in zip(self.seen[0], self.views, strict=True))
            most = max(site.figure("resident") for site in self.sites) / MIB
            text = f"{rate:,.0f} deliveries/s at each site, {false} false views, at most {most:.0f} MiB"
            print(f"{at_s:8.1f} s of {self.span_s:g}  {text}", flush=True)
            self.told_s, self.count = now_s, count


async def pass_time(sites: list[Site], span_s: float, progress: Progress) -> None:
    """Wait; a process that ends is the end of all."""
    end_s = time.monotonic() + span_s
    while time.monotonic() < end_s:
        for site in sites:
            if site.process.returncode is not None:
                raise RuntimeError(f"{site.name} ended with code {site.process.returncode}")
        progress.look()
        await asyncio.sleep(min(LOOK_S, max(0.0, end_s - time.monotonic())))


def main(words: list[str]) -> int:
    given = [float(word) for word in words]
    minutes, count, rate = (*given, *(MINUTES, SITES, RATE)[len(given) :])
    try:
        return asyncio.run(soak(minutes, int(count), rate))
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
