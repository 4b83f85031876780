"""Causal separators: how large timestamps and histories are, with separators and without, as LANs are added.

A message must tell of the past what its addressees were not told. In a ring of LANs most traffic is local, yet without
separators every host hears, by and by, of messages in every LAN. The gateways of a LAN are a separator: once they were
told of a local message, no one outside needs to be. Figures are of timestamps as first sent, to the group of one LAN,
and of the history of one host, after 40 % of the time of sending.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from isthmus.core.layer import Kind
from isthmus.pipeline.measures.basics import of_kind
from isthmus.pipeline.measures.seeds import over_seeds
from isthmus.protocols.causal.options import CausalPolicy
from isthmus.studies.causal_setup import SENDING_MS, WARM_UP, causal_scenario
from isthmus.studies.model import Cell, Claim, Curve, Figure, Scale, Study, Tables, figure_of
from isthmus.trace.schema import Gauge

TITLE = "Topology-aware algorithms for large-scale communication"
PAPER = "the chapter on topology-aware protocols, section 4.4 and its figure 8"
OURS = "our own reading of the rules"
MODEL = f"an independent model of the set-up of {PAPER}"
GAUGE_MS = 5.0
BARE = CausalPolicy(gauge_ms=GAUGE_MS, anywhere=False, remainder=False, forgetting=False)  # the rules of the paper
RULES: dict[str, CausalPolicy] = {
    "literal": replace(BARE, symmetric=False, separators=False),
    "literal, R9": replace(BARE, symmetric=False),
    "symmetric": replace(BARE, separators=False),
    "symmetric, R9": BARE,
    "R9 anywhere": CausalPolicy(gauge_ms=GAUGE_MS, remainder=False, forgetting=False),
    "R9 anywhere, remainder": CausalPolicy(gauge_ms=GAUGE_MS, forgetting=False),
    "all": CausalPolicy(gauge_ms=GAUGE_MS),
    "all, masks": CausalPolicy(gauge_ms=GAUGE_MS, coding="masks"),
    "all, not extended": CausalPolicy(gauge_ms=GAUGE_MS, extended=False),
    "all, forced": CausalPolicy(gauge_ms=GAUGE_MS, forced=True),
}
SIZES: dict[Scale, dict[tuple[int, int], tuple[str, ...]]] = {
    "quick": {
        (3, 8): tuple(RULES),
        (12, 8): ("symmetric, R9", "all"),
        (24, 8): ("symmetric, R9", "all"),
    },
    "full": {
        (3, 8): tuple(RULES),
        (3, 16): ("symmetric", "symmetric, R9", "all"),
        (6, 16): ("symmetric", "symmetric, R9", "all"),
        (12, 16): (*tuple(RULES)[:4], "all", "all, masks"),
        (24, 16): ("symmetric, R9", "all"),
        (12, 32): ("symmetric", "symmetric, R9", "all", "all, masks"),
        **dict.fromkeys([(6, 8), (12, 8), (24, 8)], ("symmetric, R9", "all")),
    },
}
FIGURES = {  # of the model: timestamp mean and 95th percentile, history
    (3, 8): {
        "literal": (2.2, 6, 83),
        "literal, R9": (1.6, 3, 27),
        "symmetric": (2.2, 6, 26),
        "symmetric, R9": (1.6, 3, 11),
    },
    (12, 16): {
        "literal": (4.8, 18, 435),
        "literal, R9": (1.7, 3, 39),
        "symmetric": (4.8, 18, 223),
        "symmetric, R9": (1.7, 3, 18),
    },
}
TOLERANCE = 0.25
LANS = (3, 24)


def grid(scale: Scale, seeds: Sequence[int]) -> list[Cell]:
    return [
        Cell(
            {"lans": lans, "hosts": hosts, "rules": rules, "seed": seed},
            causal_scenario(lans, hosts, "causal-separators", RULES[rules], seed),
        )
        for (lans, hosts), chosen in SIZES[scale].items()
        for rules in chosen
        for seed in seeds
    ]


def is_gauge(gauge: Gauge) -> Column:
    return of_kind(Kind.GAUGE) & (F.col("gauge") == int(gauge))


def tables(trace: DataFrame, runs: DataFrame) -> dict[str, DataFrame]:
    """Sizes of timestamps and of one host's history, their distributions, and what a matrix would take."""
    parameters = runs.select("run", "lans", "hosts", "rules", "seed")
    first_ns = round(WARM_UP * SENDING_MS * 1e6)
    sent = trace.where((F.col("time_ns") >= first_ns) & (F.col("time_ns") <= round(SENDING_MS * 1e6)))
    local = (
        trace.where(of_kind(Kind.SUBMIT))
        .join(parameters, "run")
        .where(F.array_max("destinations") < F.col("hosts"))  # group G_1: the hosts of the first LAN
        .select("run", "sender", "number")
    )
    by = ["lans", "hosts", "rules"]
    values: dict[str, DataFrame] = {
        "entries": sent.where(is_gauge(Gauge.TIMESTAMP_ENTRIES)).join(local, ["run", "sender", "number"]),
        "bytes": sent.where(is_gauge(Gauge.TIMESTAMP_BYTES)).join(local, ["run", "sender", "number"]),
        "history": sent.where(is_gauge(Gauge.HISTORY_ENTRIES) & (F.col("process") == 0)),
    }
    found = None
    for name, rows in values.items():
        sizes = rows.groupBy("run").agg(
            F.mean("value").alias(name), F.percentile_approx("value", 0.95, 10_000).alias(f"{name}_p95")
        )
        found = sizes if found is None else found.join(sizes, "run")
    assert found is not None
    columns = [column for name in values for column in (name, f"{name}_p95")]
    sizes = over_seeds(found.join(parameters, "run"), by, columns)
    hosts = F.col("lans") * F.col("hosts")
    return {
        "sizes": sizes.withColumn("matrix", hosts * hosts).withColumn("vector", hosts),
        "growth": sizes.where((F.col("hosts") == 8) & F.col("rules").isin("symmetric, R9", "all")),
        "timestamps": distribution(values["entries"].join(parameters, "run")),
        "histories": distribution(values["history"].join(parameters, "run")),
    }


def distribution(rows: DataFrame) -> DataFrame:
    """The share of values up to each one, at 3 LANs of 8 hosts."""
    chosen = rows.where((F.col("lans") == 3) & (F.col("hosts") == 8) & F.col("rules").isin([*list(RULES)[:4], "all"]))
    counts = chosen.groupBy("rules", "value").agg(F.count("*").alias("count"))
    up_to = Window.partitionBy("rules").orderBy("value")
    total = Window.partitionBy("rules")
    share = F.sum("count").over(up_to) / F.sum("count").over(total)
    return counts.withColumn("share", share).select("rules", "value", "share").orderBy("rules", "value")


def size_claim(size: tuple[int, int], rules: str, column: str, expected: float, what: str) -> Claim:
    lans, hosts = size
    where = f"{lans} LANs of {hosts} hosts, {rules}"

    def measure(tables: Tables) -> float | None:
        rows = [row for row in tables["sizes"] if (row["lans"], row["hosts"], row["rules"]) == (lans, hosts, rules)]
        return float(rows[0][column]) if rows else None

    return Claim(
        statement=f"{where}: {what}.",
        source=MODEL,
        measure=measure,
        expected=expected,
        tolerance=TOLERANCE,
        unit="entries",
        full_only=size != (3, 8),
    )


def figures_claims() -> list[Claim]:
    made = []
    for size, by_rules in FIGURES.items():
        for rules, (mean, _, history) in by_rules.items():
            if not rules.startswith("symmetric"):
                made.append(size_claim(size, rules, "entries", mean, "the mean timestamp of a message to a LAN"))
            made.append(size_claim(size, rules, "history", history, "the mean history of a host"))
    return made


def growth_claim(column: str, rules: str, what: str) -> Claim:
    def measure(tables: Tables) -> float:
        least, most = (figure_of(tables["growth"], column, lans=lans, rules=rules) for lans in LANS)
        return most / least

    return Claim(
        statement=f"With separators ({rules}), {what} does not grow from {LANS[0]} to {LANS[1]} LANs.",
        source=PAPER,
        measure=measure,
        expected=1.0,
        tolerance=TOLERANCE,
        relation="at most",
        unit="times",
        note="8 hosts in each LAN",
    )


def worth_claim(statement: str, column: str, without: str, with_it: str, expected: float) -> Claim:
    def measure(tables: Tables) -> float:
        rows = {row["rules"]: float(row[column]) for row in tables["sizes"] if (row["lans"], row["hosts"]) == (3, 8)}
        return rows[without] / rows[with_it]

    return Claim(
        statement=statement,
        source=OURS,
        measure=measure,
        expected=expected,
        relation="at least",
        unit="times",
        note="3 LANs of 8 hosts",
        kind="promise",
    )


STUDY = Study(
    name="causal-separators",
    title="Causal order with separators",
    question="How much must a message say of the past, and does that depend on the number of LANs?",
    paper=TITLE,
    source=f"{PAPER}: LANs in a ring, groups inside LANs and across two of them",
    seeds={"quick": 1, "full": 5},
    grid=grid,
    properties=("integrity", "validity", "fifo", "causal"),
    tables=tables,
    claims=(
        *figures_claims(),
        growth_claim("entries", "symmetric, R9", "the timestamp of a local message"),
        growth_claim("history", "symmetric, R9", "the history of a host"),
        growth_claim("entries", "all", "the timestamp of a local message"),
        growth_claim("history", "all", "the history of a host"),
        worth_claim("Separators shorten histories.", "history", "literal", "literal, R9", 1.0),
        worth_claim("The symmetric rule shortens histories.", "history", "literal", "symmetric", 1.0),
        worth_claim("R9 by any process and forgetting shorten them further.", "history", "symmetric, R9", "all", 1.0),
        worth_claim("Extended timestamps have fewer entries.", "entries", "all, not extended", "all", 1.0),
        worth_claim("Extended timestamps shorten histories.", "history", "all, not extended", "all", 1.0),
        worth_claim("Extended timestamps are shorter in bytes.", "bytes", "all, not extended", "all", 1.0),
        worth_claim("Sets coded in groups are shorter than masks.", "bytes", "all, masks", "all", 1.0),
    ),
    figures=(
        Figure(
            id="timestamps",
            title="Timestamps of messages to one LAN",
            caption="Share of messages whose timestamp has at most so many entries; 3 LANs of 8 hosts.",
            table="timestamps",
            x="value",
            y="share",
            series="rules",
            xlabel="entries of a timestamp",
            ylabel="share of messages",
        ),
        Figure(
            id="histories",
            title="History of one host",
            caption="Share of time in which the history has at most so many entries; 3 LANs of 8 hosts.",
            table="histories",
            x="value",
            y="share",
            series="rules",
            xlabel="entries of the history",
            ylabel="share of time",
        ),
        Figure(
            id="growth",
            title="History of a host over the number of LANs",
            caption="Mean history of one host with separators, 8 hosts in each LAN.",
            table="growth",
            x="lans",
            y="history",
            series="rules",
            error="history_half",
            xlabel="LANs",
            ylabel="entries of the history",
            paper=(Curve("11 entries, whatever the number of LANs", (3.0, 24.0), (11.0, 11.0)),),
        ),
    ),
)
