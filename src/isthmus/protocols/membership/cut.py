"""The cut of a closing view: which frames of it everybody hands up who goes on. Pure functions over reports.

A report tells, for each origin, up to where frames are stable (all their targets have them), which later ones were
handed up here, and which are held ahead of a gap. Numbers travel as runs (first, last).

The cut has everything that any reporter handed up: it cannot be taken back. A frame that is merely held is taken in
only where nothing before it is missing from the union of the reports. What it follows may otherwise be nowhere, and
some would hand it up and others could not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from isthmus.core.message import SiteId, Targets

Runs = tuple[tuple[int, int], ...]  # first and last, ascending


class Holding(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What one member has of one origin's frames."""

    origin: SiteId
    floor: int  # all up to this number are stable
    handed_up: Runs
    held: Runs  # ahead of a gap


class Slice(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The frames of one origin in a cut, and who has most of them."""

    origin: SiteId
    floor: int
    numbers: Runs
    holders: Targets


def runs_of(numbers: Iterable[int]) -> Runs:
    """Numbers as runs."""
    found: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        if found and number == found[-1][1] + 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return tuple(found)


def numbers_of(runs: Runs) -> Iterator[int]:
    for first, last in runs:
        yield from range(first, last + 1)


def cut_of(origins: Targets, reports: Sequence[tuple[SiteId, Sequence[Holding]]]) -> tuple[Slice, ...]:
    """The cut of a view, from the reports of some of its members."""
    return tuple([slice_of(origin, reports) for origin in origins])


def slice_of(origin: SiteId, reports: Sequence[tuple[SiteId, Sequence[Holding]]]) -> Slice:
    found = [(site, one) for site, report in reports for one in report if one.origin == origin]
    floor = max([one.floor for _, one in found], default=0)
    handed_up = {number for _, one in found for number in numbers_of(one.handed_up) if number > floor}
    union = handed_up | {number for _, one in found for number in numbers_of(one.held) if number > floor}
    top = floor
    while top + 1 in union:
        top += 1
    chosen = handed_up | {number for number in union if number <= top}
    counts = [
        (-sum([number in chosen for runs in (one.handed_up, one.held) for number in numbers_of(runs)]), place, site)
        for place, (site, one) in enumerate(found)
    ]
    holders = tuple([site for count, _, site in sorted(counts) if count])
    return Slice(origin, floor, runs_of(chosen), holders)
