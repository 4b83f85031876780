"""What the paper on optimistic total order says in figures, and what we say beyond it, as claims with verdicts."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

from isthmus.measure.optimism import usable_ms
from isthmus.studies.model import Claim, Tables, one

PAPER = "Optimistic total order in wide area networks"
OURS = "ours, beyond the paper"
TABLE_1: dict[tuple[str, str], tuple[float, float]] = {  # role, column: plain, compensated, in ms
    ("sequencer", "own_latency_ms"): (0.0, 41.4),
    ("sequencer", "own_window_ms"): (0.0, 0.0),
    ("sequencer", "latency_ms"): (28.5, 32.3),
    ("sequencer", "window_ms"): (0.0, 0.0),
    ("near", "own_latency_ms"): (40.1, 40.2),
    ("near", "own_window_ms"): (40.1, 21.8),
    ("near", "latency_ms"): (48.8, 52.6),
    ("near", "window_ms"): (20.3, 20.2),
    ("distant", "own_latency_ms"): (80.6, 80.8),
    ("distant", "own_window_ms"): (80.6, 27.3),
    ("distant", "latency_ms"): (69.3, 73.0),
    ("distant", "window_ms"): (42.0, 24.6),
}


def at(tables: Tables, sigma: float, policy: str, role: str = "distant") -> dict[str, Any]:
    """The paper's set-up at 100 messages a second."""
    return one(tables["roles"], part="paper", sigma=sigma, rate_per_s=100.0, policy=policy, role=role)


def largest_deviation(tables: Tables) -> float:
    """Of all 24 cells of Table 1 the one that is farthest off."""
    off = [
        abs(at(tables, 0.1, policy, role)[column] - expected)
        for (role, column), cells in TABLE_1.items()
        for policy, expected in zip(("none", "compensation"), cells, strict=True)
    ]
    return float(max(off))


def hit_claim(statement: str, policy: str, expected: float) -> Claim:
    return Claim(
        statement=statement,
        source="section 5",
        measure=lambda tables: float(at(tables, 0.03, policy)["hit_percent"]),
        expected=expected,
        tolerance=1.5 / expected,
        unit="%",
        note="sigma 3 %, 100 messages per second, a distant site; within 1.5 points",
    )


def limit(policy: str, expected: float) -> Claim:
    """The paper's limit on g, made as the paper makes it: hit ratio at 3 %, window at 10 %."""

    def measure(tables: Tables) -> float:
        return usable_ms(at(tables, 0.1, policy)["window_ms"], at(tables, 0.03, policy)["hit"])

    which = "Without" if policy == "none" else "With"
    return Claim(
        statement=f"{which} compensation, processing of up to {expected:g} ms gains from tentative delivery.",
        source="section 5",
        measure=measure,
        expected=expected,
        tolerance=0.1,
        unit="ms",
        note="as in the paper, which takes the hit ratio at sigma 3 % and the window at 10 %; see the next two claims",
    )


def consistent(sigma: float) -> Claim:
    def measure(tables: Tables) -> float:
        plain, made = (at(tables, sigma, policy)["usable_ms"] for policy in ("none", "compensation"))
        return float(made / plain)

    return Claim(
        statement=f"Hit ratio and window both at sigma {100 * sigma:g} %: compensation lets longer processing gain.",
        source=OURS,
        kind="promise",
        measure=measure,
        expected=1.0,
        relation="at least",
        unit="times",
        note="ratio of usable times w / (1 - r), compensated to plain, a distant site",
    )


def equal_window(sigma: float) -> Claim:
    """Hits of stamped less those of the paper's rule, at the window that the paper's rule has."""

    def measure(tables: Tables) -> float | None:
        theirs = at(tables, sigma, "compensation")
        ours = [row for row in tables["windows"] if row["policy"] == "stamped" and row["sigma"] == sigma]
        found = interpolated([(row["window_ms"], row["hit_percent"]) for row in ours], theirs["window_ms"])
        return None if found is None else found - float(theirs["hit_percent"])

    return Claim(
        statement=f"At equal window, sender stamps guess better than the paper's rule, sigma {100 * sigma:g} %.",
        source=OURS,
        kind="promise",
        measure=measure,
        expected=0.0,
        relation="at least",
        unit="points",
        note="hits of a distant site, interpolated between the two nearest windows of the rule stamped",
    )


def interpolated(points: list[tuple[float, float]], x: float) -> float | None:
    """The value at x on the line between the neighbours; None outside of what was measured."""
    points = sorted(points)
    for (left, low), (right, high) in pairwise(points):
        if left <= x <= right:
            return low if left == right else low + (high - low) * (x - left) / (right - left)
    return None


def own_latency(tables: Tables) -> float:
    ratios = [
        at(tables, sigma, "open-loop", "sequencer")["own_latency_ms"]
        / at(tables, sigma, "compensation", "sequencer")["own_latency_ms"]
        for sigma in (0.03, 0.1)
    ]
    return float(max(ratios))


def fewer_misses_by_size(tables: Tables) -> float:
    """Misses with sizes allowed for, over misses without, a distant site; the rule where it helps least."""
    rows = [row for row in tables["roles"] if row["part"] == "narrow" and row["role"] == "distant"]
    policies = sorted({row["policy"] for row in rows})
    misses = {(row["policy"], row["sizes"]): 1 - row["hit"] for row in rows}
    return float(max(misses[policy, True] / misses[policy, False] for policy in policies))


def in_cloud(network: str) -> Callable[[Tables], float]:
    """Usable time of stamped over that of the spontaneous order, distant sites of a cloud."""

    def measure(tables: Tables) -> float:
        found = [
            one(tables["clouds"], network=network, policy=policy, role="distant")["usable_ms"]
            for policy in ("none", "stamped")
        ]
        return float(found[1] / found[0])

    return measure


def guess_words(tables: Tables) -> str:
    """What a guess offers far from the sequencer, with the rule that stamps."""
    found = at(tables, 0.03, "stamped")
    return (
        f"{found['hit_percent']:.0f} % of guesses far from the sequencer are right, {found['window_ms']:.0f} ms before "
        "the final order, where delays vary by 3 %"
    )


def undelivered_total(tables: Tables) -> float | None:
    return float(sum(row["undelivered"] for row in tables["runs"])) if tables["runs"] else None


CLAIMS = (
    Claim(
        statement="Latencies and windows of sequencer, near and distant processes are those of Table 1.",
        source="Table 1",
        measure=largest_deviation,
        expected=0.0,
        tolerance=1.5,
        relation="at most",
        unit="ms",
        note="the largest deviation of 24 cells; sigma 10 %, 100 messages per second",
    ),
    hit_claim("In spontaneous order, 11.2 % of a distant process's guesses are right.", "none", 11.2),
    hit_claim("With delay compensation, 82.5 % are right.", "compensation", 82.5),
    Claim(
        statement="After compensation, distant processes guess nearly as well as near ones.",
        source="section 4.2",
        measure=lambda tables: float(
            at(tables, 0.03, "compensation", "near")["hit_percent"] - at(tables, 0.03, "compensation")["hit_percent"]
        ),
        expected=0.0,
        tolerance=5.0,
        relation="at most",
        unit="points",
        note="near less distant, sigma 3 %",
    ),
    Claim(
        statement="In batches of two, at least one message of nearly every pair is predicted, even at sigma 10 %.",
        source="section 4.2, in the reading that fits its prose",
        measure=lambda tables: float(at(tables, 0.1, "compensation")["hit_either_percent"]),
        expected=90.0,
        relation="at least",
        unit="%",
        note="100 messages per second, a distant site",
    ),
    Claim(
        statement="Pairs that must be the same two messages are predicted more often than single messages, sigma 10 %.",
        source="section 4.2, in the reading that fits its definition",
        measure=lambda tables: float(
            at(tables, 0.1, "compensation")["hit_pair_percent"] - at(tables, 0.1, "compensation")["hit_percent"]
        ),
        expected=0.0,
        relation="at least",
        unit="points",
        note="if this does not hold, the paper's figures for pairs use another definition",
    ),
    limit("none", 47.2),
    limit("compensation", 140.7),
    consistent(0.03),
    consistent(0.1),
    equal_window(0.03),
    equal_window(0.1),
    Claim(
        statement="The open-loop rule halves the delay of the sequencer's own messages.",
        source=OURS,
        kind="promise",
        measure=own_latency,
        expected=0.5,
        tolerance=0.1,
        unit="times",
        note="ratio of own latencies, open-loop to the paper's rule, the worse of sigma 3 and 10 %",
    ),
    Claim(
        statement="Where bandwidth makes large messages slow, allowing for size leaves fewer wrong guesses.",
        source=OURS,
        kind="promise",
        measure=fewer_misses_by_size,
        expected=1.0,
        relation="at most",
        unit="times",
        note="ratio of wrong guesses with and without, the rule that gains least; a distant site",
    ),
    Claim(
        statement="Between continents, with the sequencer far from all senders, stamps let longer processing gain.",
        source=OURS,
        kind="promise",
        measure=in_cloud("continents, sequencer apart"),
        expected=1.0,
        relation="at least",
        unit="times",
        note="ratio of usable times, stamped to spontaneous order",
    ),
    Claim(
        statement="The same with senders near the sequencer.",
        source=OURS,
        kind="promise",
        measure=in_cloud("continents"),
        expected=1.0,
        relation="at least",
        unit="times",
        note="no rule can learn of their messages much before the number arrives, so windows nearly vanish",
    ),
    Claim(
        statement="Every message is delivered at every process.",
        source="ours",
        measure=undelivered_total,
        expected=0.0,
        unit="deliveries",
        kind="sanity",
    ),
)
