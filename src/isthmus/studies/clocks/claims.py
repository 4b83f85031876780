"""What the study `clocks` judges: figures and bounds, and what precision and accuracy depend on."""

from __future__ import annotations

from itertools import pairwise

from isthmus.studies.clocks.setup import FAULT_S, FIGURES, GATED, NTP, OUTVOTED, OWN, ROUNDS
from isthmus.studies.model import Claim, Rows, Tables, figure_of, numbers_of

SPEC, PAPER = "the service's specification", "section 3"
EXPECTED = {  # us, by drift, tightness and period
    FIGURES[0]: {"precision": 3.2, "accuracy": 3.5},
    FIGURES[1]: {"precision": 211.0, "accuracy": 110.0},
}
DRIFT_PPM = 10.0  # where references fail


def figure(setting: tuple[float, float, float], name: str) -> Claim:
    drift, tightness_us, period_s = setting
    where = {"drift_ppm": drift * 1e6, "tightness_us": tightness_us, "period_s": period_s}
    at = f"a drift of {drift:g}, a tightness of {tightness_us:g} us and a period of {period_s:g} s"
    return Claim(
        statement=f"With {at}, {name} is {EXPECTED[setting][name]:g} us at worst.",
        source=SPEC,
        measure=lambda tables: figure_of(tables["drift"], f"{name}_us", **where),
        expected=EXPECTED[setting][name],
        tolerance=0.15,
        unit="us",
        note=f"the worst of {ROUNDS - 1} rounds and all seeds, read just before the next installation",
        kind="promise",
    )


def within_bound(name: str) -> Claim:
    return Claim(
        statement=f"Whatever drift and period, {name} stays within its bound.",
        source=SPEC,
        measure=lambda tables: max(row[f"{name}_us"] / row[f"bound_{name}_us"] for row in tables["drift"]),
        relation="at most",
        expected=1.0,
        unit="of the bound, largest",
        kind="promise",
    )


def sorted_by(rows: Rows, column: str) -> Rows:
    return sorted(rows, key=lambda row: float(row[column]))


def tightness_growth(tables: Tables) -> float:
    """The least growth of precision from one tightness to the next, ten times as large, from where it dominates."""
    told = [row for row in tables["tightness"] if row["what"] == "precision" and row["tightness_us"] >= 10]
    return min(float(b["us"]) / float(a["us"]) for a, b in pairwise(sorted_by(told, "tightness_us")))


def access_effect(tables: Tables) -> float:
    low, high = sorted_by(tables["access"], "access_ms")
    return float(high["precision_us"]) / float(low["precision_us"])


def over_lans(tables: Tables) -> float:
    return max(float(row["accuracy_us"]) / float(row["bound_accuracy_us"]) for row in tables["lans"])


def world_share(tables: Tables) -> float:
    return max(float(row["world_us"]) / (2 * float(row["bound_accuracy_us"])) for row in tables["lans"])


def beside_ntp(tables: Tables) -> float:
    return accuracy_ms(tables, "ways", NTP) / accuracy_ms(tables, "ways", OWN)


def accuracy_ms(tables: Tables, table: str, way: str) -> float:
    return figure_of(tables[table], "accuracy_us", way=way) / 1_000


def gated_drift(tables: Tables) -> float:
    """How far the clocks went, beyond the usual bound, per time since the only reference is off; ppm."""
    bound_us = figure_of(tables["references"], "bound_accuracy_us", way=GATED)
    return (1_000 * accuracy_ms(tables, "references", GATED) - bound_us) / (ROUNDS - FAULT_S)


def hold_over_growth(tables: Tables) -> float:
    """How fast the published bound grows in hold-over, ppm."""
    first, *_, last = sorted_by(tables["hold_over"], "holdover_s")
    return (float(last["error_us"]) - float(first["error_us"])) / (
        float(last["holdover_s"]) - float(first["holdover_s"])
    )


def none_of(column: str, statement: str) -> Claim:
    return Claim(
        statement=statement,
        source=SPEC,
        measure=lambda tables: sum(numbers_of(tables["promises"], column)),
        relation="at most",
        expected=0.0,
        unit="readings",
        kind="promise",
    )


CLAIMS = (
    *(figure(setting, name) for setting in FIGURES for name in ("precision", "accuracy")),
    within_bound("precision"),
    within_bound("accuracy"),
    Claim(
        statement="Precision follows the variance of the interrupt delay: with ten times the tightness,"
        " clocks are ten times as far apart.",
        source=PAPER,
        measure=tightness_growth,
        relation="at least",
        expected=10.0,
        tolerance=0.25,
        unit="times, least",
        note="from 10 us on; below, drift and the stamps' granularity count as much",
    ),
    Claim(
        statement="Precision does not depend on the delay of the LAN.",
        source=PAPER,
        measure=access_effect,
        relation="at most",
        expected=1.0,
        tolerance=0.15,
        unit="times, eight times the access delay",
    ),
    Claim(
        statement="Accuracy does not depend on the number of LANs.",
        source=PAPER,
        measure=over_lans,
        relation="at most",
        expected=1.0,
        unit="of one LAN's bound, largest over numbers of LANs",
    ),
    Claim(
        statement="Any two clocks, wherever they are, differ by at most twice the accuracy.",
        source=SPEC,
        measure=world_share,
        relation="at most",
        expected=1.0,
        unit="of that, largest over numbers of LANs",
        kind="promise",
    ),
    Claim(
        statement="Over ways of 55 ms there and 5 ms back, an NTP-like client is off by 28 ms.",
        source=SPEC,
        measure=lambda tables: accuracy_ms(tables, "ways", NTP),
        expected=28.0,
        tolerance=0.15,
        unit="ms",
        note="25 ms are half the asymmetry, which no number of samples shows; the rest is queueing",
        kind="sanity",
    ),
    Claim(
        statement="On the same network, a LAN with a reference of its own is a hundred times as accurate.",
        source=PAPER,
        measure=beside_ntp,
        relation="at least",
        expected=100.0,
        unit="times",
    ),
    Claim(
        statement="Three references outvote one that is a second off: 0.1 ms.",
        source=SPEC,
        measure=lambda tables: accuracy_ms(tables, "references", OUTVOTED),
        relation="at most",
        expected=0.1,
        unit="ms",
        kind="promise",
    ),
    Claim(
        statement="A single reference that is a second off is not believed, and costs drift only.",
        source=SPEC,
        measure=gated_drift,
        relation="at most",
        expected=DRIFT_PPM,
        unit="ppm beyond the bound",
        note="with a plausibility gate of 3 ms",
        kind="promise",
    ),
    Claim(
        statement="In hold-over the published bound grows by the drift, and no faster.",
        source=SPEC,
        measure=hold_over_growth,
        relation="at most",
        expected=DRIFT_PPM,
        tolerance=0.01,
        unit="ppm",
        note="slower where fast and slow clocks narrow each other's intervals",
        kind="promise",
    ),
    none_of("misses", "No published interval misses true time."),
    none_of("backwards", "No clock runs backwards once it is synchronised."),
)
