"""Flooding a hypercube over networks of 1,000 to 50,000 nodes: how delay and cost grow. No paper asks this.

A random graph with ln n + 1 links per node; ten senders submit one message of 100 bytes each at once. Figures are per
delivery: a hypercube promises about log2 n sends per delivery, each over about ln n / ln ln n links.
"""

from __future__ import annotations

from math import log2

from isthmus.studies.claim import ClaimSource, Quantity, Rows, Tables, over
from isthmus.studies.model import described

OURS = ClaimSource("ours: beyond the paper's 600 nodes", "promise")
DATA_BYTES = 100
STACK_OF = {"flooding": "flooding", "vector, at least": "causal-vector"}


def by_size(tables: Tables) -> Rows:
    return sorted(tables["growth"], key=lambda row: row["nodes"])


@Quantity
def delay_growth(tables: Tables) -> float:
    """Growth of the mean delay from the smallest size to the largest, over that of log2 n squared."""
    small, *_, large = by_size(tables)
    bits = log2(large["nodes"]) / log2(small["nodes"])
    return float(large["delay_mean_ms"]) / float(small["delay_mean_ms"]) / bits**2


@Quantity
def sends_per_bit(tables: Tables) -> float:
    return max(float(row["sends_each"]) / log2(row["nodes"]) for row in by_size(tables))


@Quantity
def bytes_over_vector(tables: Tables) -> float:
    largest = by_size(tables)[-1]
    return float(largest["bytes_each"]) / float(largest["vector_bytes_each"])


CLAIMS = (
    OURS.claim(
        "The mean delay grows no faster than log2 n squared.",
        delay_growth.at_most(1.0, "times that, smallest size to largest"),
        "paths along the overlay and paths of packets along each of its links both grow with log n",
    ),
    OURS.claim(
        "A delivery costs at most log2 n sends.", sends_per_bit.at_most(1.0, "times log2 n, largest over sizes")
    ),
    OURS.claim(
        "At the largest size a delivery costs a fraction of the bytes of a vector alone.",
        bytes_over_vector.at_most(0.5, "times a vector's bytes"),
        "4n bytes of counters, the data and one header; fragments would add headers",
    ),
    OURS.claim("No delivery breaks causal order.", over(sum, "promises", "violations").at_most(0.0, "deliveries")),
    OURS.claim("Nothing is left undelivered.", over(sum, "promises", "undelivered").at_most(0.0, "deliveries")),
)
STUDY = described("internet_scale", CLAIMS, networks=False, stacks=("protocol", STACK_OF))
