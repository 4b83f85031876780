"""How long a live group needs to go on without a site, and to take it back: processes that are killed and stopped.

`python -m bench.membership [ROUNDS]`. In each round one site after the other is killed (its port then refuses) and
started again, stopped (it is silent) and continued, while all multicast. Times are from the blow to the view without
the site, or with it and its vote, at the last of the others; medians over all rounds. At the end all sites have
delivered the same messages.

Beside that, the survivors' throughput: what the first of them delivered in the second in which a site was killed, and
in which one fell silent, as a share of what it delivers in a second without. What the dead site would have sent counts
as lost: of n sites that send alike, (n - 1) / n is all that there can be once it is out.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from statistics import median

from rich.console import Console
from rich.table import Table
from tests.harness.ports import free_ports

ROUNDS = 20
SIZES = (3, 7)
TARGETS = {"killed: out": 0.1, "killed: back": 1.0, "silent: out": 0.5, "silent: back": 1.0}
SHARES = ("killed: throughput", "silent: throughput")  # of the survivors in the second of the blow, beside without
READY_S = 60.0
SPAN_S = 1.0


class Child:
    """One site's process."""

    def __init__(self, name: str, arguments: list[str]) -> None:
        self.name = name
        self.arguments = arguments
        self.views: list[dict[str, object]] = []
        self.last: dict[str, object] = {}
        self.counts: list[tuple[float, int]] = []  # when, and how many messages it had delivered

    async def start(self) -> None:
        self.views.clear()
        self.begun: asyncio.Future[float] = asyncio.get_running_loop().create_future()  # when Python had started
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
            elif "begun" in word:
                self.begun.set_result(word["at"])
            elif "count" in word:
                self.last = word
                self.counts.append((float(word["at"]), int(word["count"])))

    async def end(self) -> None:
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()
        await self.reading


def delivered(child: Child, since: float) -> float:
    """Messages that a site delivered in the span from a time on, per second, between the words nearest its ends."""
    inside = [(at, count) for at, count in child.counts if since <= at <= since + SPAN_S]
    if len(inside) < 2:
        return 0.0
    (first_at, first), (last_at, last) = inside[0], inside[-1]
    return (last - first) / (last_at - first_at)


async def until_view(children: list[Child], names: set[str], since: float) -> float:
    """Wait until the last view of each is of these sites, all with their votes; when the last of them installed it."""
    end = time.monotonic() + READY_S
    while time.monotonic() < end:
        last = [child.views[-1] for child in children if child.views]
        if len(last) == len(children) and all(
            set(word["members"]) == names and word["votes"] == len(names)  # type: ignore[arg-type]
            for word in last
        ):
            return max(float(str(word["at"])) for word in last) - since
        await asyncio.sleep(0.002)
    raise TimeoutError(f"no view of {', '.join(sorted(names))} within {READY_S:g} s")


async def measure(count: int, rounds: int) -> dict[str, list[float]]:
    names = [f"c0-{number}" for number in range(count)]
    arguments = [str(count), json.dumps(free_ports(names))]
    children = [Child(name, arguments) for name in names]
    everybody, found = set(names), {key: list[float]() for key in (*TARGETS, *SHARES)}
    try:
        for child in children:
            await child.start()
        await until_view(children, everybody, 0.0)
        for number in range(rounds):
            victim = children[number % count]
            others, rest = [child for child in children if child is not victim], everybody - {victim.name}
            await asyncio.sleep(SPAN_S)
            began = time.monotonic()
            usual = delivered(others[0], began - SPAN_S)
            victim.process.kill()
            found["killed: out"].append(await until_view(others, rest, began))
            await asyncio.sleep(max(0.0, began + SPAN_S - time.monotonic()))
            found["killed: throughput"].append(delivered(others[0], began) / max(1.0, usual))
            await victim.end()
            await victim.start()
            found["killed: back"].append(await until_view(children, everybody, await victim.begun))
            began = time.monotonic()
            victim.process.send_signal(signal.SIGSTOP)
            found["silent: out"].append(await until_view(others, rest, began))
            await asyncio.sleep(max(0.0, began + SPAN_S - time.monotonic()))
            found["silent: throughput"].append(delivered(others[0], began) / max(1.0, usual))
            began = time.monotonic()
            victim.process.send_signal(signal.SIGCONT)
            found["silent: back"].append(await until_view(children, everybody, began))
        for child in children:
            child.process.send_signal(signal.SIGCONT)
        await alike(children)
    finally:
        for child in children:
            await child.end()
    return found


async def alike(children: list[Child]) -> None:
    """Wait for a moment at which two sites tell of equally many messages; they must be the same."""
    seen: dict[object, object] = {}
    end = time.monotonic() + READY_S
    compared = 0
    while compared < len(children) and time.monotonic() < end:
        for child in children:
            count, digest = child.last.get("count"), child.last.get("digest")
            if count in seen:
                assert seen[count] == digest, f"{child.name} has another order of {count} messages"
                compared += 1
            seen[count] = digest
        await asyncio.sleep(0.01)


def main(rounds: int) -> int:
    short = []
    table = Table(title=f"views of a live group on the loopback, s: medians of {rounds}, and the longest")
    for column in ("", "target", *(f"{count} sites" for count in SIZES)):
        table.add_column(column, justify="left" if not column else "right")
    found = {count: asyncio.run(measure(count, rounds)) for count in SIZES}
    for key, most in TARGETS.items():
        cells = [f"{median(found[count][key]):.3f}  ({max(found[count][key]):.3f})" for count in SIZES]
        table.add_row(key, f"<= {most:g}", *cells)
        short += [key for count in SIZES if median(found[count][key]) > most]
    for key in SHARES:
        table.add_row(f"{key}, share", "", *(f"{median(found[count][key]):.2f}" for count in SIZES))
    Console(width=110).print(table)
    for key in short:
        print(f"{key}: above its target")
    return 1 if short else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS))
