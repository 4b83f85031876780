"""Token-site in isolation: the cost of a fixed sequencer over the delay of the network.

One process, the sequencer, numbers all messages. A message of another process travels to it, and its number
travels to all: 2 D, where D is the delay of the network. The sequencer's own messages carry their number: D. With 30
processes that send alike, the mean is (29 * 2 D + D) / 30 = 1.967 D, whatever the rate and the kind of source. The
transport is direct, over lossless channels of constant delay, so that the ordering protocol alone is measured.
"""

from __future__ import annotations

from statistics import fmean

from isthmus.studies.claim import ClaimSource, Quantity, Tables, numbers_of, over, quantity
from isthmus.studies.model import described
from isthmus.studies.tickets.labels import SOURCES

SECTION = ClaimSource("section 4.2")


@quantity
def farthest(tables: Tables, role: str, expected: float) -> float:
    """The value farthest from the expected one, of all senders of a role and all delays."""
    rows = tables["senders"]
    ends = [value for end in ("min", "max") for value in numbers_of(rows, f"over_delay_{end}", role=role)]
    return max(ends, key=lambda value: abs(value - expected))


@Quantity
def deviation(tables: Tables) -> float:
    """The largest distance from the straight line through the origin, as a share of the value on the line."""
    rows = tables["latency"]
    delays, latencies = numbers_of(rows, "delay_ms"), numbers_of(rows, "latency_mean_ms")
    slope = sum(x * y for x, y in zip(delays, latencies, strict=True)) / sum(x * x for x in delays)
    return max(abs(y - slope * x) / (slope * x) for x, y in zip(delays, latencies, strict=True)) * 100


FARTHEST = "the sender, delay and source with the largest deviation"
CLAIMS = (
    *(
        SECTION.claim(
            f"With {source} sources the mean latency of a message is close to twice the network delay: 1.97 D.",
            over(fmean, "latency", "over_delay", source=source).near(1.97, "D", 0.01),
            "29 of 30 processes wait for 2 D, the sequencer for D; mean over all delays",
        )
        for source in SOURCES
    ),
    SECTION.claim(
        "Latency is proportional to the network delay, from 25 to 500 ms.",
        deviation.at_most(0.0, "%", 1.0),
        "largest deviation from the straight line through the origin",
    ),
    SECTION.claim(
        "The sequencer's own messages take 1 network delay.",
        farthest("sequencer", 1.0).near(1.0, "D", 0.001),
        FARTHEST,
    ),
    SECTION.claim(
        "Messages of all other processes take 2 network delays.",
        farthest("others", 2.0).near(2.0, "D", 0.001),
        FARTHEST,
    ),
    ClaimSource("ours", "sanity").claim(
        "Every message is delivered at every process.", over(sum, "runs", "undelivered").near(0.0, "deliveries")
    ),
)
STUDY = described("token_site", CLAIMS, stacks=("source", dict.fromkeys(SOURCES, "token-site")))
