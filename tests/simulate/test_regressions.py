"""Seeds that once broke something, each with the reason; they belong to the generator in isthmus.testing.random_scenarios."""

from __future__ import annotations

import pytest

from isthmus.testing.judge import judge
from isthmus.testing.random_scenarios import hard_scenario, random_scenario

SEEDS = [
    # A flush gave a survivor what it lacked, which completed frames that it held behind the gap; it handed those up,
    # too, and the others, already flushed, never got them. The flush must go round until nothing moves.
    ("fifo", 64),
    ("fifo", 66),
    ("fifo", 181),
    # The dead sender had multicast to subsets: a survivor waited behind a frame that was addressed to it alone and died
    # with the sender, while others had handed up what follows. It must go over that gap, in the order of numbers.
    ("fifo", 15),
    ("fifo", 137),
    # Going over the gap took a held frame out of the buffer that tells repetitions; unordered, it had been handed up.
    ("unordered", 48),
    ("unordered", 322),
    ("unordered", 425),
    # A window of four over links that lose a third took longer to drain than the run waited; nothing was wrong.
    ("token-site", 287),
    # An entry behind one that died with its sender was refused, as if indexes could not be missing after a flush.
    ("symmetric", 3),
    ("symmetric", 49),
    ("hybrid", 56),
    # The transport had told flow control that it was full; then a null asked, was told of room, and with that the
    # transport forgot that it owed flow control a word.
    ("symmetric", 128),
    ("symmetric", 212),
    # A null was due while the transport was full: its timer was set again and again for the same instant.
    ("dynamic-hybrid", 0),
    ("dynamic-hybrid", 2),
    # A message to some went to them with its tickets, and to the rest as a packet of its own. The sender died, and a
    # survivor had neither: nobody alive had been sent the same packet, though another survivor knew the tickets.
    ("dynamic-hybrid", 217),
    ("dynamic-hybrid", 294),
]


HARD_SEEDS = [
    # The only one left said that it was full before its own last frame had come back; nothing asked again.
    ("fifo", 113),
    ("unordered", 36),
    ("unordered", 85),
    # As above: a null asked, and flow control was forgotten.
    ("hybrid", 27),
    ("hybrid", 142),
]


@pytest.mark.parametrize(("stack", "seed"), HARD_SEEDS)
def test_hard_seed_that_once_failed(stack: str, seed: int) -> None:
    assert judge(hard_scenario(stack, seed)).violations() == []


@pytest.mark.parametrize(("stack", "seed"), SEEDS)
def test_seed_that_once_failed(stack: str, seed: int) -> None:
    assert judge(random_scenario(stack, seed)).failures() == []
