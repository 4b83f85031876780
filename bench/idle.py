"""What a live group costs while nothing is sent: CPU and datagrams per site and second, one process per site.

`python -m bench.idle [SECONDS]`. Groups of 3, 5 and 16 sites on the loopback, each site a process of its own. Once all
are in one view and have settled, each process measures its own user and system time and counts the datagrams that it
sends. The table has the mean over the sites, the busiest site, and the views and suspicions of the span, which should
be none.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Mapping
from statistics import mean
from typing import Any

from rich.console import Console
from rich.table import Table
from tests.harness.live_groups import join
from tests.harness.ports import free_ports

from isthmus.topology.delay import Constant
from isthmus.topology.model import Channel
from isthmus.topology.shapes import mesh

SECONDS = 20.0
SIZES = (3, 5, 16)
SETTLE_S = 3.0  # after the last view, before the measurement
CORE_PERCENT, PACKETS = 1.0, 20.0  # targets per site at five sites
LAN = Channel(Constant(0.1))


async def site(name: str, count: int, ports: Mapping[str, int], seconds: float) -> dict[str, Any]:
    """Be one idle site; what the span cost."""
    opinions: list[tuple[str, bool]] = []
    network = mesh(1, count, LAN, LAN)
    group = join(network, name, ports, on_suspicion=lambda *opinion: opinions.append(opinion))
    async with group:
        while len(group.members) < count or not all(group.view.weights):
            await asyncio.sleep(0.05)
        await asyncio.sleep(SETTLE_S)
        driver = group.runtime.joined()
        opinions.clear()
        cpu_s, sent, began_s, view_id = (
            time.process_time(),
            driver.site.counters.datagram_count,
            time.monotonic(),
            group.view.view_id,
        )
        await asyncio.sleep(seconds)
        span_s = time.monotonic() - began_s
        found = {
            "cpu_percent": 100 * (time.process_time() - cpu_s) / span_s,
            "packets": (driver.site.counters.datagram_count - sent) / span_s,
            "views": group.view.view_id - view_id,
            "suspicions": sum(suspected for _, suspected in opinions),
        }
        print(json.dumps(found), flush=True)
        await asyncio.sleep(SETTLE_S)  # the others still measure
        await group.close()
    return found


async def measure(count: int, seconds: float) -> list[dict[str, Any]]:
    """Start the sites as processes; what each of them found."""
    names = [each.name for each in mesh(1, count, LAN, LAN).sites]
    ports = json.dumps(free_ports(names))
    children = [
        await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "bench.idle", "--site", name, str(count), ports, str(seconds)),
            stdout=asyncio.subprocess.PIPE,
        )
        for name in names
    ]
    outputs = await asyncio.gather(*(child.communicate() for child in children))
    return [json.loads(output) for output, _ in outputs]


def main(seconds: float) -> int:
    table = Table(title=f"an idle live group on the loopback, over {seconds:g} s")
    for column in ("sites", "CPU per site, % of a core", "busiest", "datagrams per site and s", "views", "suspicions"):
        table.add_column(column, justify="right")
    short = False
    for count in SIZES:
        found = asyncio.run(measure(count, seconds))
        cpu, packets = mean(one["cpu_percent"] for one in found), mean(one["packets"] for one in found)
        short |= count == 5 and (cpu > CORE_PERCENT or packets > PACKETS)
        table.add_row(
            str(count),
            f"{cpu:.2f}",
            f"{max(one['cpu_percent'] for one in found):.2f}",
            f"{packets:.1f}",
            str(sum(one["views"] for one in found)),
            str(sum(one["suspicions"] for one in found)),
        )
    Console(width=110).print(table)
    if short:
        print(f"five sites: above {CORE_PERCENT:g} % of a core or {PACKETS:g} datagrams a second")
    return 1 if short else 0


if __name__ == "__main__":
    if "--site" in sys.argv:
        _, _, name, count, ports, seconds = sys.argv
        asyncio.run(site(name, int(count), json.loads(ports), float(seconds)))
        sys.exit(0)
    sys.exit(main(float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS))
