"""Mean delays of a network, and notes on what means hide."""

from __future__ import annotations

import pytest

from isthmus.advise.order.delays import delay_notes, delays_of, spread_ms
from isthmus.topology.delay import Constant, Empirical, Gamma, Normal, Uniform
from isthmus.topology.model import Channel
from isthmus.topology.shapes import mesh, ring


def test_delays_are_means_along_the_way() -> None:
    net = ring(4, 1, Channel(Constant(1)), Channel(Constant(30)))
    assert delays_of(net)[0] == (0, 30, 60, 30)
    assert delay_notes(net) == []


@pytest.mark.parametrize(
    "channel, word",
    [
        (Channel(Uniform(10, 90)), "vary"),
        (Channel(Constant(50), loss=0.1), "lose"),
        (Channel(Constant(50), bandwidth_mbps=1), "bandwidth"),
    ],
)
def test_what_means_hide_is_noted(channel: Channel, word: str) -> None:
    notes = delay_notes(mesh(2, 1, Channel(Constant(1)), channel))
    assert len(notes) == 1 and word in notes[0]


def test_a_spread_too_small_to_matter_is_not_noted() -> None:
    assert delay_notes(mesh(2, 1, Channel(Constant(1)), Channel(Gamma(540, 0.5, 500)))) == []


def test_the_spread_of_each_kind_of_delay() -> None:
    kinds = (Constant(5), Uniform(0, 12), Normal(50, 2), Gamma(50, 9, 10), Empirical((1.0, 3.0)))
    assert [spread_ms(kind) for kind in kinds] == pytest.approx([0, 12**0.5, 2, 3, 1])
