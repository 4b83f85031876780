"""A-posteriori agreement of a LAN on one candidate, and on the time it was received at (paper 000, section 3).

Every member has sent a table: its stamp of the reception of each candidate, in the order of the view. The choice is a
function of all tables, so that all members that have them all choose alike:

- the candidate is the first that every member stamped on the same attempt. Stamps of different attempts are instants
  milliseconds apart; that stamps are *consistent* with each other does not tell this once 2 rho P, which honest stamps
  may differ by from what was expected, comes near the delay of a repeat;
- the time is the median of the plausible references' readings at that candidate. Of 2f + 1 readings of which f are
  faulty, the median lies between two that are not; the lower one of an even number does so too, a mean does not;
- a reading is plausible if it lies within what the LAN's clocks allow for true time, widened by the reference's error;
- without one, the median of the clocks carries on (hold-over), with what they all allow for true time as its interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, NamedTuple

import msgspec

Time = Annotated[int, msgspec.Meta(ge=-(2**62), le=2**62)]
Error = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
Attempt = Annotated[int, msgspec.Meta(ge=0, le=2**16)]


class Reception(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """How one member received one candidate."""

    attempt: Attempt
    stamp_ns: Time  # the member's hardware clock
    time_ns: Time  # what its virtual clock read at the stamp
    error_ns: Error | None = None  # and its error bound; None: none yet
    reference_ns: Time | None = None  # what its reference read at the reception
    reference_error_ns: Error = 0  # its error bound, unless the reference is faulty


Table = Sequence[Reception | None]  # by candidate, in the order of the view; None: it was not received


class CommonTime(NamedTuple):
    """The agreed time of a candidate, and the interval of true time at any member's stamp of it."""

    time_ns: int
    bounds: tuple[int, int] | None  # None: no member has a bound, and there is no reference
    referenced: bool  # by a reference; otherwise the clocks have carried on
    shared_ns: int | None  # what the LAN's synchronised clocks read, their median; None: there are none


def choose(tables: Sequence[Table]) -> int | None:
    """The index of the first candidate that every member stamped on the same attempt; None if there is none."""
    for place, stamps in enumerate(zip(*tables, strict=True)):
        attempts = {stamp.attempt if stamp is not None else None for stamp in stamps}
        if len(attempts) == 1 and None not in attempts:
            return place
    return None


def median(values: Sequence[int]) -> int:
    """The middle value, the lower one of two; it lies between correct ones as long as these are the majority."""
    return sorted(values)[(len(values) - 1) // 2]


def allowed(stamps: Sequence[Reception], slack_ns: int) -> tuple[int, int] | None:
    """The interval of true time by the clocks' own bounds: their intersection, or their hull if that is empty."""
    spans = [(s.time_ns - s.error_ns, s.time_ns + s.error_ns) for s in stamps if s.error_ns is not None]
    if not spans:
        return None
    low, high = max(span[0] for span in spans), min(span[1] for span in spans)
    if low - slack_ns > high + slack_ns:  # some bound is wrong, and it is unknown which
        low, high = min(span[0] for span in spans), max(span[1] for span in spans)
    return low - slack_ns, high + slack_ns


def is_plausible(stamp: Reception, known: tuple[int, int] | None) -> bool:
    """Whether the reading of a reference may be right, given the interval of true time."""
    if stamp.reference_ns is None:
        return False
    error_ns = stamp.reference_error_ns
    return known is None or known[0] - error_ns <= stamp.reference_ns <= known[1] + error_ns


def agree(stamps: Sequence[Reception], slack_ns: int, gate_ns: int | None = None) -> CommonTime:
    """The time of a candidate from all members' stamps of it; with a gate, readings within it are plausible."""
    known = allowed(stamps, slack_ns)
    clocks = [stamp.time_ns for stamp in stamps if known is None or stamp.error_ns is not None]
    middle = median(clocks)
    shared_ns = None if known is None else middle
    gate = known if gate_ns is None or known is None else (middle - gate_ns, middle + gate_ns)
    believed = [stamp for stamp in stamps if is_plausible(stamp, gate)]
    if not believed:
        return CommonTime(middle, known, False, shared_ns)
    time_ns = median([stamp.reference_ns for stamp in believed if stamp.reference_ns is not None])
    error_ns = max(stamp.reference_error_ns for stamp in believed) + slack_ns
    return CommonTime(time_ns, (time_ns - error_ns, time_ns + error_ns), True, shared_ns)
