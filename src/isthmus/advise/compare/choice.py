"""Which stack to choose: one sentence, with the figures that it rests on.

Candidates promise at least what the scenario's own stack does and kept it in every run; the one with the least latency
per message leads. Seeds are paired: where the interval of the differences from the leader contains zero, a stack is as
fast, and of those the one with the fewest packets is chosen, then the one with the fewest control bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from isthmus.advise.compare.figures import SEEDS_MIN, StackFigures, mean_of

GUESSES = "final"  # a promise about tentative deliveries; who asks for an order need not ask for guesses


class StackChoice(msgspec.Struct, frozen=True):
    """What to choose, and why."""

    stack: str | None
    sentence: str


def choose(rows: Sequence[StackFigures], promises: Mapping[str, Sequence[str]], needed: Sequence[str]) -> StackChoice:
    """The choice among stacks that promise what is needed; `promises` are the properties of each."""
    wanted = [name for name in needed if name != GUESSES]
    able = [row for row in rows if set(wanted) <= set(promises[row.stack])]
    kept = [row for row in able if row.promises == "kept" and not row.undelivered and row.message_spread.count]
    what = ", ".join(wanted)
    if not kept:
        if not able:
            return StackChoice(None, f"No choice: none of the stacks promises {what}.")
        seen = "none was seen to keep all of it and to deliver every message"
        return StackChoice(None, f"No choice: of the stacks that promise {what}, {seen}.")
    ranked = sorted(kept, key=lambda row: row.message_ms.mean)
    equal = [row for row in ranked if as_fast(row, ranked[0])]
    chosen = min(equal, key=lambda row: (round(row.packets_per_message.mean, 1), control_bytes(row)))
    text = f"Choose {chosen.stack}: {message_ms(chosen)} per message"
    others = [row for row in ranked if row is not chosen]
    if not others:
        return StackChoice(chosen.stack, f"{text}, the only one here that keeps {what}{guess_clause(rows)}.")
    tied = [row for row in equal if row is not chosen]
    if tied:
        names = ", ".join(row.stack for row in tied)
        text += f", as fast as {names} within the spread of the seeds, with {saving(chosen, tied)}"
    else:
        text += f", the least of the {len(kept)} that keep {what}"
    slower = next((row for row in others if row not in tied), None)
    if slower is not None:
        text += f"; next is {slower.stack} with {message_ms(slower)} and {packets(slower)} packets per message"
        text += "" if tied else f" against {packets(chosen)}"
    if len(chosen.seeds) < SEEDS_MIN:
        text += f" (from {len(chosen.seeds)} seed{'s' if len(chosen.seeds) > 1 else ''}: no interval)"
    return StackChoice(chosen.stack, f"{text}{guess_clause(kept)}.")


def as_fast(row: StackFigures, first: StackFigures) -> bool:
    """Whether the seeds cannot tell a stack from the fastest; without enough of them, only if it is the fastest."""
    if row is first:
        return True
    apart = mean_of([mine - best for mine, best in zip(row.message_ms_by_seed, first.message_ms_by_seed, strict=True)])
    return apart.half is not None and apart.mean <= apart.half


def guess_clause(rows: Sequence[StackFigures]) -> str:
    """What tentative delivery offers beside, where some stack has it."""
    able = [
        (row.tentative_ms.mean, row.hit_percent.mean, row.stack) for row in rows if row.tentative_ms and row.hit_percent
    ]
    if not able:
        return ""
    after_ms, hits, stack = min(able)
    return (
        f"; for work that can be undone, {stack} shows a message after {after_ms:.1f} ms on average, "
        f"{hits:.0f} % in its final place"
    )


def message_ms(row: StackFigures) -> str:
    half = row.message_ms.half
    return (
        f"{row.message_ms.mean:.1f} ms"
        if half is None
        else f"{row.message_ms.mean:.1f} \N{PLUS-MINUS SIGN} {half:.1f} ms"
    )


def saving(chosen: StackFigures, tied: Sequence[StackFigures]) -> str:
    """What a stack spares that is as fast as others: packets, or where these are equal bytes."""
    if all(packets(row) == packets(chosen) for row in tied) and chosen.control_bytes_per_message is not None:
        return f"fewer control bytes ({control_bytes(chosen):,.0f} per message)"
    return f"fewer packets ({packets(chosen)} per message)"


def control_bytes(row: StackFigures) -> float:
    return row.control_bytes_per_message.mean if row.control_bytes_per_message is not None else 0.0


def packets(row: StackFigures) -> str:
    return f"{row.packets_per_message.mean:.1f}"
