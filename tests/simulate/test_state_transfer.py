"""Members take over the state of a group while views change, givers crash and pieces go wrong; wrong readings show."""

from __future__ import annotations

import pytest
from tests.harness.state_runs import GIVER, JOINER, STORIES, failures, transfer_ms
from tests.planted.transfer import PLANTED_TRANSFER

LEAVE = {"a snapshot fails": (GIVER,), "a snapshot never ends": (GIVER,), "all restores fail": (JOINER,)}


@pytest.mark.parametrize("story", STORIES)
def test_a_state_arrives_or_its_site_leaves(story: str) -> None:
    assert failures(STORIES[story], gone=LEAVE.get(story, ())) == []


@pytest.mark.parametrize("name", PLANTED_TRANSFER)
def test_wrong_readings_are_found(name: str) -> None:
    story, patches = PLANTED_TRANSFER[name]
    found = failures(STORIES[story], patches)
    assert found, name
    print(f"{name}: {found[0]}")


@pytest.mark.parametrize(("loss", "most_ms"), [(0.0, 1_000), (0.01, 1_300)])
def test_a_transfer_takes_little_longer_than_its_bytes(loss: float, most_ms: float) -> None:
    """1 MB at 10 Mbit/s with round trips of 40 ms, after the layers' state: 0.86 s for the bytes alone."""
    assert 860 < transfer_ms(1_000_000, mbps=10.0, one_way_ms=20.0, loss=loss, seed=1) < most_ms
