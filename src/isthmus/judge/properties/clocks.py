"""Clocks: how far readings are from one another and from the true time (docs/TRACE.md).

Accuracy: no reading is further from the reference time than it said, or than a bound that is given. Precision: the
published intervals of one time have a time in common; where a bound is given, no two readings of one time are further
apart, which needs sites that are read at the same times. Without a bound nothing is judged.
"""

from __future__ import annotations

from isthmus.judge.history import CLOCK, ClockReading, GroupHistory
from isthmus.judge.properties.finding import Finding
from isthmus.judge.witness import LACKS, EventKey, Witness


def clock_accuracy(group: GroupHistory, bound_ns: int | None) -> Finding:
    """No reading is further from its reference time than the bound that it published, or than the one given."""
    finding = Finding(LACKS["clock-accuracy"])
    for reading in sorted(group.readings, key=lambda one: (one.time_ns, one.process, one.local)):
        limits = [limit for limit in (bound_ns, published(group, reading)) if limit is not None]
        if not limits:
            continue
        finding.evidence_count += 1
        off = reading.value - reading.time_ns
        if abs(off) > min(limits):
            events = (read(reading, "read"),)
            numbers = (off, reading.time_ns, min(limits))
            finding.violate(Witness("clock-off", ((reading.process, 0),), numbers=numbers, events=events))
    return finding


def clock_precision(group: GroupHistory, bound_ns: int | None) -> Finding:
    """No two readings of one reference time are further apart than they published together, or than the bound given."""
    finding = Finding(LACKS["clock-precision"])
    by_time: dict[int, list[ClockReading]] = {}
    for reading in group.readings:
        if bound_ns is not None or published(group, reading) is not None:
            by_time.setdefault(reading.time_ns, []).append(reading)
    for time_ns in sorted(by_time):
        readings = by_time[time_ns]
        if len(readings) < 2:
            continue
        finding.evidence_count += len(readings)
        found = apart(readings, bound_ns) or disjoint(group, readings)
        if found is not None:
            low, high, allowed_ns = found
            numbers = (high.value - low.value, time_ns, allowed_ns)
            lives = ((low.process, 0), (high.process, 0))
            events = (read(low, "lowest"), read(high, "highest"))
            finding.violate(Witness("clocks-apart", lives, numbers=numbers, events=events))
    return finding


Apart = tuple[ClockReading, ClockReading, int]  # two readings that are further apart than so much


def apart(readings: list[ClockReading], bound_ns: int | None) -> Apart | None:
    """The lowest and the highest reading, if they are further apart than the bound."""
    if bound_ns is None:
        return None
    low, high = (end(readings, key=lambda one: (one.value, one.process, one.local)) for end in (min, max))
    return (low, high, bound_ns) if high.value - low.value > bound_ns else None


def disjoint(group: GroupHistory, readings: list[ClockReading]) -> Apart | None:
    """The interval that ends first and the one that begins last, if they have no time in common."""
    bounded = [(one, error) for one in readings if (error := published(group, one)) is not None]
    if not bounded:
        return None
    low, low_error = min(bounded, key=lambda pair: (pair[0].value + pair[1], pair[0].process, pair[0].local))
    high, high_error = max(bounded, key=lambda pair: (pair[0].value - pair[1], pair[0].process, pair[0].local))
    return (low, high, low_error + high_error) if high.value - high_error > low.value + low_error else None


def published(group: GroupHistory, reading: ClockReading) -> int | None:
    """The error bound that a clock published with a reading."""
    return group.clock_bounds.get((reading.process, reading.time_ns))


def read(reading: ClockReading, role: str) -> EventKey:
    return EventKey(CLOCK, reading.process, local=reading.local, role=role)
