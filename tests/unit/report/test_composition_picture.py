"""Pictures of compositions: every name is there, whatever the shape."""

from __future__ import annotations

from random import Random

import pytest
from tests.harness.random_compositions import random_composition

from isthmus.report.pictures.composition import draw_composition, label_shift


@pytest.mark.parametrize("seed", range(6))
def test_every_part_is_named(seed: int) -> None:
    composition = random_composition(Random(f"picture/{seed}"))
    figure = draw_composition(composition, {domain.name: "fifo" for domain in composition.domains})
    texts = [text.get_text() for axes in figure.axes for text in axes.texts]
    for thing in (*composition.nodes, *composition.routers):
        assert thing.name in texts
    assert sum("gets fifo" in text for text in texts) == len(composition.domains)
    spots = [tuple(round(value, 3) for value in text.get_position()) for axes in figure.axes for text in axes.texts]
    assert len(set(spots)) == len(spots), "two names on one spot"


@pytest.mark.parametrize(("joined", "side"), [((1, 1), -1), ((1, -1), 1), ((-1, 1), 0), ((0, 1), 0)])
def test_a_label_leaves_the_lines_to_the_right_alone(joined: tuple[float, float], side: int) -> None:
    shift = label_shift((0, 0), [joined, (0, -1)])
    assert (shift > 0) - (shift < 0) == side
