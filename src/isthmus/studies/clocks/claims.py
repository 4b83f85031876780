"""How well the clock service keeps time (paper 000, section 3): precision and accuracy, and what they depend on.

A figure is the worst over readings, rounds and seeds; its bound is the formula of the service's options. Every run is
checked: no published interval may miss true time.
"""

from __future__ import annotations

from itertools import pairwise

from isthmus.studies.claim import ClaimSource, Quantity, Rows, Tables, figure_of, over, value
from isthmus.studies.model import described

PAPER = ClaimSource("section 3")
SPEC = ClaimSource("the service's specification", "promise")
ROUNDS = 41  # the first one synchronises
FAULT_S = 5  # when references fail
DRIFT_PPM = 10.0  # where references fail
FIGURES = {  # drift, tightness in us, period in s: precision and accuracy in us
    (1e-6, 1.0, 1.0): (3.2, 3.5),
    (1e-5, 10.0, 10.0): (211.0, 110.0),
}
OWN, NTP = "own reference", "NTP-like client"
OUTVOTED, GATED = "one of three off by 1 s", "the only one off by 1 s, gate 3 ms"


def sorted_by(rows: Rows, column: str) -> Rows:
    return sorted(rows, key=lambda row: float(row[column]))


def largest_share(table: str, column: str, bound: str, times: int = 1) -> Quantity:
    """The largest ratio of a column to its bound, or to a multiple of it."""
    return Quantity(lambda tables: max(float(row[column]) / (times * float(row[bound])) for row in tables[table]))


@Quantity
def tightness_growth(tables: Tables) -> float:
    """The smallest growth of precision from one tightness to the next, ten times as large, from 10 us on."""
    rows = [row for row in tables["tightness"] if row["what"] == "precision" and row["tightness_us"] >= 10]
    return min(float(b["us"]) / float(a["us"]) for a, b in pairwise(sorted_by(rows, "tightness_us")))


@Quantity
def access_effect(tables: Tables) -> float:
    low, high = sorted_by(tables["access"], "access_ms")
    return float(high["precision_us"]) / float(low["precision_us"])


def accuracy_ms(table: str, way: str) -> Quantity:
    return Quantity(lambda tables: figure_of(tables[table], "accuracy_us", way=way) / 1_000)


@Quantity
def gated_drift(tables: Tables) -> float:
    """Drift of the clocks beyond the usual bound since the failure of the only reference, in ppm."""
    bound_us = figure_of(tables["references"], "bound_accuracy_us", way=GATED)
    return (1_000 * accuracy_ms("references", GATED)(tables) - bound_us) / (ROUNDS - FAULT_S)


@Quantity
def hold_over_growth(tables: Tables) -> float:
    """The growth of the published bound in hold-over, in ppm."""
    first, *_, last = sorted_by(tables["hold_over"], "holdover_s")
    error, span = (float(last[name]) - float(first[name]) for name in ("error_us", "holdover_s"))
    return error / span


CLAIMS = (
    *(
        SPEC.claim(
            f"With a drift of {drift:g}, a tightness of {tightness_us:g} us and a period of {period_s:g} s, {name} is "
            f"{expected:g} us at worst.",
            value("drift", f"{name}_us", drift_ppm=drift * 1e6, tightness_us=tightness_us, period_s=period_s).near(
                expected, "us", 0.15
            ),
            f"the worst of {ROUNDS - 1} rounds and all seeds, read just before the next installation",
        )
        for (drift, tightness_us, period_s), figures in FIGURES.items()
        for name, expected in zip(("precision", "accuracy"), figures, strict=True)
    ),
    *(
        SPEC.claim(
            f"Whatever drift and period, {name} stays within its bound.",
            largest_share("drift", f"{name}_us", f"bound_{name}_us").at_most(1.0, "of the bound, largest"),
        )
        for name in ("precision", "accuracy")
    ),
    PAPER.claim(
        "Precision follows the variance of the interrupt delay: with ten times the tightness,"
        " clocks are ten times as far apart.",
        tightness_growth.at_least(10.0, "times, least", 0.25),
        "from 10 us on; below, drift and the granularity of stamps weigh as much",
    ),
    PAPER.claim(
        "Precision does not depend on the delay of the LAN.",
        access_effect.at_most(1.0, "times, eight times the access delay", 0.15),
    ),
    PAPER.claim(
        "Accuracy does not depend on the number of LANs.",
        largest_share("lans", "accuracy_us", "bound_accuracy_us").at_most(
            1.0, "of one LAN's bound, largest over numbers of LANs"
        ),
    ),
    SPEC.claim(
        "Any two clocks, wherever they are, differ by at most twice the accuracy.",
        largest_share("lans", "world_us", "bound_accuracy_us", 2).at_most(1.0, "of that, largest over numbers of LANs"),
    ),
    ClaimSource(SPEC.text, "sanity").claim(
        "With delays of 55 ms there and 5 ms back, an NTP-like client is off by 28 ms.",
        accuracy_ms("ways", NTP).near(28.0, "ms", 0.15),
        "25 ms are half the asymmetry, which no number of samples shows; the rest is queueing",
    ),
    PAPER.claim(
        "On the same network, a LAN with a reference of its own is a hundred times as accurate.",
        (accuracy_ms("ways", NTP) / accuracy_ms("ways", OWN)).at_least(100.0, "times"),
    ),
    SPEC.claim(
        "Three references outvote one that is a second off: 0.1 ms.",
        accuracy_ms("references", OUTVOTED).at_most(0.1, "ms"),
    ),
    SPEC.claim(
        "A single reference that is a second off is rejected, and costs drift only.",
        gated_drift.at_most(DRIFT_PPM, "ppm beyond the bound"),
        "with a plausibility gate of 3 ms",
    ),
    SPEC.claim(
        "In hold-over the published bound grows by the drift, and no faster.",
        hold_over_growth.at_most(DRIFT_PPM, "ppm", 0.01),
        "slower where fast and slow clocks narrow each other's intervals",
    ),
    SPEC.claim("No published interval misses true time.", over(sum, "promises", "misses").at_most(0.0, "readings")),
    SPEC.claim(
        "No clock runs backwards once it is synchronised.", over(sum, "promises", "backwards").at_most(0.0, "readings")
    ),
)
STUDY = described("clocks", CLAIMS)
