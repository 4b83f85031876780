"""What the process of a site reports: lines to its parent process, the metadata of its trace, its summary."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from isthmus.core.message import SiteId
from isthmus.core.units import NS_PER_MS
from isthmus.judge.judgement import trace_meta
from isthmus.live.net.emulation import LinkFault
from isthmus.live.net.sockets import Socket
from isthmus.live.node.site import LiveSite
from isthmus.scenario.faults import Crash
from isthmus.scenario.model import Scenario
from isthmus.scenario.traffic import SiteTraffic
from isthmus.trace.log import SiteLog
from isthmus.trace.schema import Recording
from isthmus.trace.tail import TailedWriter, tail_path
from isthmus.trace.writer import TraceWriter

ROWS_OF_LIFE = 2**40  # rows that one life of a site may write: the next one numbers its own above


def prefix_of(site: SiteId, life: int) -> str:
    """The prefix of the segments of one process of a site."""
    return f"site-{site:03d}" + (f"-life-{life}" if life else "")


def may_be_killed(scenario: Scenario) -> bool:
    """Whether a process may end without being able to complete its trace."""
    return any(isinstance(fault, Crash) for fault in scenario.faults_of_run())


def meta_of(scenario: Scenario, site: SiteId) -> dict[str, str]:
    """The metadata of the trace of a site."""
    return trace_meta(scenario) | {"host": "live", "site": scenario.topology.sites[site].name}


@contextmanager
def site_trace(
    scenario: Scenario, site: SiteId, folder: Path, life: int = 0, sink: bool = True
) -> Iterator[tuple[SiteLog, TraceWriter | TailedWriter]]:
    """The trace of one process of a site, from its first row until it is complete."""
    prefix = prefix_of(site, life)
    with TraceWriter(folder, meta_of(scenario, site), prefix=prefix) as plain:
        writer = TailedWriter(plain, tail_path(folder, prefix)) if may_be_killed(scenario) else plain
        log = SiteLog(site, writer if sink else None, couriers=scenario.couriers())
        log.local += life * ROWS_OF_LIFE
        log.record(time.time_ns(), Recording.BEGUN)
        writer.roll()
        yield log, writer
        if isinstance(writer, TailedWriter):
            writer.close()


def summary_of(traffic: SiteTraffic, site: LiveSite, socket: Socket) -> dict[str, Any]:
    """What a site counted, for its last report."""
    counters, peers = site.counters, site.peers
    unread = (peers.foreign_count, peers.garbled_count, peers.refused_count, peers.stale_count)
    return {
        "submitted": traffic.submitted_count,
        "refused": traffic.refused_count,
        "delivered": delivered_of(traffic),
        "rejected": site.log.rejected_count,
        "messages": counters.message_count,
        "datagrams": counters.datagram_count,
        "payload_bytes": counters.payload_bytes,
        "control_bytes": counters.control_bytes,
        "lost": socket.lost_count,
        "overflow": socket.overflow_count + socket.bulk.dropped_count,
        "foreign": socket.dropped_count() + sum(unread),
    }


def disturb(socket: Socket, command: dict[str, Any]) -> None:
    """Cut the site off from others, and have its links fail, as told."""
    socket.cut = frozenset(command.get("cut", ()))
    socket.disturb(
        {
            SiteId(site): LinkFault(loss, factor, round(add_ms * NS_PER_MS))
            for site, loss, factor, add_ms in command.get("links", ())
        }
    )


def delivered_of(traffic: SiteTraffic) -> int:
    """The messages for the applications of a site; a router has none."""
    return 0 if traffic.carries else traffic.delivered_count


def report(line: dict[str, Any]) -> None:
    """Report to the parent process, if it is still there."""
    try:
        print(json.dumps(line), flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
