"""The cut of a closing view: the frames of it that every member that goes on delivers. Pure functions over reports.

A report names, for each origin, up to where frames are stable (all their targets have them), which later ones its
author delivered, and which it holds ahead of a gap. Numbers travel as runs (first, last).

The cut has everything that any reporter delivered: it cannot be taken back. A frame that is merely held is taken in
only where nothing before it is missing from the union of the reports. Otherwise the frames before it may be nowhere,
and some members would deliver it and others could not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from isthmus.core.message import SiteId, Targets

Runs = tuple[tuple[int, int], ...]  # first and last, ascending


class Holding(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The frames of one origin that one member has."""

    origin: SiteId
    floor: int  # all up to this number are stable
    delivered: Runs
    held: Runs  # ahead of a gap


class CutSlice(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The frames of one origin in a cut, and the sites that have most of them."""

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


def cut_of(origins: Targets, reports: Sequence[tuple[SiteId, Sequence[Holding]]]) -> tuple[CutSlice, ...]:
    """The cut of a view, from the reports of some of its members."""
    return tuple([slice_of(origin, reports) for origin in origins])


def slice_of(origin: SiteId, reports: Sequence[tuple[SiteId, Sequence[Holding]]]) -> CutSlice:
    found = [(site, one) for site, report in reports for one in report if one.origin == origin]
    floor = max([one.floor for _, one in found], default=0)
    delivered = {number for _, one in found for number in numbers_of(one.delivered) if number > floor}
    union = delivered | {number for _, one in found for number in numbers_of(one.held) if number > floor}
    top = floor
    while top + 1 in union:
        top += 1
    chosen = delivered | {number for number in union if number <= top}
    counts = [
        (-sum([number in chosen for runs in (one.delivered, one.held) for number in numbers_of(runs)]), place, site)
        for place, (site, one) in enumerate(found)
    ]
    holders = tuple([site for count, _, site in sorted(counts) if count])
    return CutSlice(origin, floor, runs_of(chosen), holders)
