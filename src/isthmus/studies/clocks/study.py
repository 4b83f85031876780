"""How well the clock service keeps time (paper 000, section 3): precision and accuracy, and what they depend on.

Runs are those of clocks_setup.py. A figure is the worst over readings, rounds and seeds; the bounds beside it are the
formulas of the service's options. Every run is checked: no published interval may miss true time.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from isthmus.studies.clocks.claims import CLAIMS
from isthmus.studies.clocks.setup import drift_cells, network, other_cells
from isthmus.studies.model import Cell, Figure, Scale, Study

WORST = ("precision_us", "accuracy_us", "world_us", "error_us")
BOUNDS = ("bound_precision_us", "bound_accuracy_us")
SHOWN = {"precision": "precision_us", "accuracy": "accuracy_us"}
SHOWN |= {f"bound of {name}": f"bound_{column}" for name, column in SHOWN.items()}


def grid(scale: Scale, seeds: Sequence[int]) -> list[Cell]:
    return [one for seed in seeds for one in (*drift_cells(seed), *other_cells(scale, seed))]


def tables(_trace: DataFrame, runs: DataFrame) -> dict[str, DataFrame]:
    """The worst over seeds of each part of the grid; and what no run may show."""
    worst = [F.max(f"clock_{name}").alias(name) for name in WORST] + [F.max(name).alias(name) for name in BOUNDS]

    def part(name: str, *by: str) -> DataFrame:
        return runs.where(F.col("part") == name).groupBy(*by).agg(*worst).orderBy(*by)

    drift = part("drift", "drift_ppm", "tightness_us", "period_s")
    period = F.concat(F.col("period_s").cast("int").cast("string"), F.lit(" s"))
    counts = {"clock_misses": "misses", "clock_backwards": "backwards", "clock_readings": "readings"}
    return {
        "drift": drift,
        "drift_sweep": drift.where(F.col("tightness_us") == 10.0).withColumn("period", period),
        "tightness": with_bounds(part("tightness", "tightness_us"), "tightness_us"),
        "access": part("access", "access_ms"),
        "lans": part("lans", "lans"),
        "lans_shown": with_bounds(part("lans", "lans"), "lans"),
        "ways": part("ways", "way"),
        "references": part("references", "way"),
        "hold_over": part("hold-over", "holdover_s"),
        "promises": runs.groupBy("part").agg(*(F.sum(name).alias(short) for name, short in counts.items())),
    }


def with_bounds(rows: DataFrame, x: str) -> DataFrame:
    """Precision and accuracy as measured and as bounded, one row each."""
    pairs = [F.struct(F.lit(name).alias("what"), F.col(column).alias("us")) for name, column in SHOWN.items()]
    return rows.select(x, F.explode(F.array(*pairs)).alias("pair")).select(x, "pair.what", "pair.us").orderBy("what", x)


STUDY = Study(
    name="clocks",
    title="Clocks of a WAN of LANs",
    question="How precise and how accurate are clocks that tight broadcasts and a few references synchronise?",
    paper="Topology-aware algorithms for large-scale communication",
    source="section 3",
    seeds={"quick": 3, "full": 10},
    grid=grid,
    properties=("clock-precision", "clock-accuracy"),
    tables=tables,
    claims=CLAIMS,
    figures=(
        Figure(
            id="clocks_tightness",
            title="Precision and accuracy over the tightness of broadcasts",
            caption="Eight nodes, drift 1 ppm, a round per second; the worst of 40 rounds, with the bounds.",
            table="tightness",
            x="tightness_us",
            y="us",
            series="what",
            xlabel="tightness, us",
            ylabel="us at worst",
            log=("x", "y"),
            headline=True,
        ),
        Figure(
            id="clocks_drift",
            title="Precision over drift and period",
            caption="Tightness 10 us; rates at plus and minus the drift: clocks part by twice that between rounds.",
            table="drift_sweep",
            x="drift_ppm",
            y="precision_us",
            series="period",
            xlabel="drift, ppm",
            ylabel="precision, us at worst",
            log=("x", "y"),
        ),
        Figure(
            id="clocks_lans",
            title="Precision and accuracy over the number of LANs",
            caption="Eight nodes and one reference per LAN, drift 10 ppm, tightness 10 us, a round per second.",
            table="lans_shown",
            x="lans",
            y="us",
            series="what",
            xlabel="LANs",
            ylabel="us at worst",
        ),
        Figure(
            id="clocks_hold_over",
            title="The published error in hold-over",
            caption="The only reference dies; drift 10 ppm.",
            table="hold_over",
            x="holdover_s",
            y="error_us",
            xlabel="time without a reference, s",
            ylabel="published error, us",
        ),
    ),
    networks=(network((1, 0), 4),),
)
