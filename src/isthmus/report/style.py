"""One colour and one marker per protocol, in every figure of every page.

Colours are those of Okabe and Ito without the yellow, which is invisible on white, and two more; colour-blind readers
tell them apart, and markers differ as well. A stack has the look of its place in the registry, where new ones are
added at the end; other series take the places after those.
"""

from __future__ import annotations

from isthmus.stacks.registry import STACKS

SERIES = ("#8c564b", "#5e6ad2", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
MARKERS = "PXos^Dv*"
PLACES = {name: place for place, name in enumerate(STACKS)}


def look_at(place: int) -> tuple[str, str]:
    """The colour and the marker of a place; colours repeat with other markers."""
    count = len(SERIES)
    return SERIES[place % count], MARKERS[(place + place // count) % count]
