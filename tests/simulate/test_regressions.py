"""Scenarios that once broke something, each with the reason.

A seed belongs to the generator, so a scenario that an earlier one drew is kept as a file in `kept/`, named after the
stack and the seed that it once had. Seeds of the present generator stand here as they are.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from isthmus.fuzz.judge import judge
from isthmus.fuzz.watch import Limits
from isthmus.scenario.model import Scenario

FOLDER = Path(__file__).parent
KEPT = [
    # A flush gave a survivor what it lacked, which completed frames that it held behind the gap; it handed those up,
    # too, and the others, already flushed, never got them. The flush must go round until nothing moves.
    "fifo-64",
    "fifo-66",
    "fifo-181",
    # The dead sender had multicast to subsets: a survivor waited behind a frame that was addressed to it alone and died
    # with the sender, while others had handed up what follows. It must go over that gap, in the order of numbers.
    "fifo-15",
    "fifo-137",
    # Going over the gap took a held frame out of the buffer that tells repetitions; unordered, it had been handed up.
    "unordered-48",
    "unordered-322",
    "unordered-425",
    # A window of four over links that lose a third took longer to drain than the run waited; nothing was wrong.
    "token-site-287",
    # An entry behind one that died with its sender was refused, as if indexes could not be missing after a flush.
    "symmetric-3",
    "symmetric-49",
    "hybrid-56",
    # The transport had told flow control that it was full; then a null asked, was told of room, and with that the
    # transport forgot that it owed flow control a word.
    "symmetric-128",
    "symmetric-212",
    # A null was due while the transport was full: its timer was set again and again for the same instant.
    "dynamic-hybrid-0",
    "dynamic-hybrid-2",
    # A message to some went to them with its tickets, and to the rest as a packet of its own. The sender died, and a
    # survivor had neither: nobody alive had been sent the same packet, though another survivor knew the tickets.
    "dynamic-hybrid-217",
    "dynamic-hybrid-294",
    # A receiver kept as many frames of an origin as it may, and took no more until it would hear what is stable. The
    # origin had been told by all, but looked only when it had something to acknowledge itself, or was full: never.
    "token-site-352",
    # All that was in flight to a neighbour was lost in a partition, so that it could not tell what was missing: of a
    # thousand frames one was repeated per time-out.
    "flooding-dynamic-222",
]


KEPT_HARD = [
    # The only one left said that it was full before its own last frame had come back; nothing asked again.
    "hard-fifo-113",
    "hard-unordered-36",
    "hard-unordered-85",
    # As above: a null asked, and flow control was forgotten.
    "hard-hybrid-27",
    "hard-hybrid-142",
    # The only one left found, while it took a message, that all have it; the next one that it was given for that was
    # delivered first.
    "agreed-flooding-31019",
]


def load(path: Path) -> Scenario:
    """A scenario as it was written out, whatever the generator makes of its seed today."""
    return msgspec.json.decode(path.read_bytes(), type=Scenario)


def kept(name: str) -> Scenario:
    return load(FOLDER / "kept" / f"{name}.json")


@pytest.mark.parametrize("name", KEPT_HARD)
def test_hard_scenario_that_once_failed(name: str) -> None:
    assert judge(kept(name)).violations() == []


@pytest.mark.parametrize("name", KEPT)
def test_scenario_that_once_failed(name: str) -> None:
    assert judge(kept(name)).failures() == []


def test_every_scenario_that_is_kept_is_run() -> None:
    assert {path.stem for path in (FOLDER / "kept").iterdir()} == {*KEPT, *KEPT_HARD}


def test_a_full_link_that_reorders_comes_to_rest() -> None:
    """Six active sites over a link of 1 Mbit/s that loses, repeats and reorders, with room for four frames ahead of a
    gap. Repairs were asked for again before they could have come, and the queue of answers on the link grew faster than
    it drained: millions of packets, and no rest within ten minutes. It was seed 700089 of the stack hybrid."""
    scenario = msgspec.structs.replace(load(FOLDER / "congested.json"), drain_ms=120_000.0)
    assert judge(scenario, limits=Limits(packets=400_000)).failures() == []
