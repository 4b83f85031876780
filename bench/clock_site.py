"""One site of a live group with the clock service: tells how its clock stands, and whether true time is within it.

`python -m bench.clock_site SITE SITES PORTS`, where PORTS is JSON. The sites are one LAN, the first of which takes true
time from the system clock; all are on one machine, whose clock that is. It says a line of JSON ten times a second.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

import msgspec

from isthmus import ClockPlan, SiteConfig, join
from isthmus.scenario.clocks import TimeService
from isthmus.topology.delay import Constant
from isthmus.topology.model import Channel, Topology
from isthmus.topology.shapes import mesh

WORD_S = 0.1
SERVICE = TimeService(period_ms=500.0, window_ms=100.0, agreement_ms=200.0, reference_error_us=100.0)


def lan(sites: int, references: int = 1) -> Topology:
    """One LAN, of which the first sites have references."""
    made = mesh(1, sites, Channel(Constant(0.1)), Channel(Constant(0.1)))
    (cluster,) = made.clusters
    named = msgspec.structs.replace(cluster, references=cluster.sites[:references])
    return Topology(made.name, made.sites, (named,), made.links)


async def keep_time(name: str, sites: int, ports: dict[str, tuple[str, int]]) -> None:
    config = SiteConfig(clocks=ClockPlan(service=SERVICE), insecure=True)
    async with join(lan(sites), name, addresses=ports, config=config) as group:
        while True:
            before, status, after = time.time_ns(), group.clock_status(), time.time_ns()
            known = status.earliest_ns is not None and status.latest_ns is not None
            inside = known and status.earliest_ns <= after and status.latest_ns >= before
            word = {"state": status.state, "members": status.members, "known": known, "inside": inside}
            print(json.dumps(word | {"stamps": status.stamps, "tightness_us": status.tightness_us}), flush=True)
            await asyncio.sleep(WORD_S)


if __name__ == "__main__":
    site, count, where = sys.argv[1:4]
    given = {name: (host, port) for name, (host, port) in json.loads(where).items()}
    asyncio.run(keep_time(site, int(count), given))
