"""Clocks: how far readings are from one another and from the true time.

A CLOCK row has the reference time as `time_ns` and the site's reading as `value`. Accuracy bounds how far a reading is
from the reference time; precision bounds how far readings of one time are from one another, and so needs sites that are
read at the same times, which a simulator does and a live observer can. Without a bound nothing is judged.
"""

from __future__ import annotations

from isthmus.trace.history import CLOCK, ClockReading, Group
from isthmus.trace.properties import Finding
from isthmus.trace.witness import LACKS, EventKey, Witness


def clock_accuracy(group: Group, bound_ns: int | None) -> Finding:
    """No reading is further than the bound from its reference time."""
    finding = Finding(LACKS["clock-accuracy"])
    if bound_ns is None:
        return finding
    finding.evidence_count = len(group.readings)
    for reading in sorted(group.readings, key=lambda one: (one.time_ns, one.process, one.local)):
        off = reading.value - reading.time_ns
        if abs(off) > bound_ns:
            events = (read(reading, "read"),)
            numbers = (off, reading.time_ns, bound_ns)
            finding.violate(Witness("clock-off", ((reading.process, 0),), numbers=numbers, events=events))
    return finding


def clock_precision(group: Group, bound_ns: int | None) -> Finding:
    """No two readings of one reference time are further apart than the bound."""
    finding = Finding(LACKS["clock-precision"])
    if bound_ns is None:
        return finding
    by_time: dict[int, list[ClockReading]] = {}
    for reading in group.readings:
        by_time.setdefault(reading.time_ns, []).append(reading)
    for time_ns in sorted(by_time):
        readings = sorted(by_time[time_ns], key=lambda one: (one.value, one.process, one.local))
        if len(readings) < 2:
            continue
        finding.evidence_count += len(readings)
        low, high = readings[0], readings[-1]
        if high.value - low.value > bound_ns:
            numbers = (high.value - low.value, time_ns, bound_ns)
            lives = ((low.process, 0), (high.process, 0))
            events = (read(low, "lowest"), read(high, "highest"))
            finding.violate(Witness("clocks-apart", lives, numbers=numbers, events=events))
    return finding


def read(reading: ClockReading, role: str) -> EventKey:
    return EventKey(CLOCK, reading.process, local=reading.local, role=role)
