"""The runner of stories: channels, time, views, and what it says when a script asks for the impossible."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.harness.golden import StackRig
from tests.harness.script_blocks import read_script
from tests.harness.scripts_many import Story

from isthmus.core.errors import LocalError


def told(tmp_path: Path, *commands: str) -> list[str]:
    """What the last command leads to."""
    path = tmp_path / "story.txt"
    path.write_text("\n----\n\n".join(commands) + "\n----\n")
    return Story(StackRig).run(read_script(path))[-1]


PAIR = "sites 0,1 stack=fifo"


@pytest.mark.parametrize(
    ("command", "complaint"),
    [
        ("dance", "no such command"),
        ("site=0 dance", "no such command"),
        ("deliver 0->1", "nothing is on the channel 0->1"),
        ("deliver 01", "no channel"),
        ("site=0 carry 3 x", "no message of a group"),
        ("site=0 start", "site 0 is up"),
        ("site=0 install 2", "the view to install is 1"),
        ("view 2", "needs members="),
    ],
)
def test_the_impossible_is_refused_with_its_line(tmp_path: Path, command: str, complaint: str) -> None:
    with pytest.raises(LocalError, match=f"line 4.*{complaint}"):
        told(tmp_path, PAIR, command)


def test_a_packet_waits_until_it_is_delivered(tmp_path: Path) -> None:
    sent = (PAIR, 'site=0 submit "a"', "advance 10ms")
    assert told(tmp_path, *sent, "packets") == ["0->1 Data(seq=1, body=0:1)"]
    assert told(tmp_path, *sent, "deliver 0->1") == ["deliver 0->1 Data(seq=1, body=0:1)", "1: deliver 0:1"]
    assert told(tmp_path, *sent, "duplicate 0->1", "deliver 0->1") == ["deliver 0->1 Data(seq=1, body=0:1)"]
    assert told(tmp_path, *sent, "drop 0->1", "packets") == []


def test_stabilize_repairs_and_waits_for_all_to_be_acknowledged(tmp_path: Path) -> None:
    lost = (PAIR, 'site=0 submit "a"', "drop 0->1")
    assert told(tmp_path, *lost, "stabilize") == ["1: deliver 0:1"]
    assert told(tmp_path, *lost, "stabilize", "packets") == []


def test_stabilize_says_when_it_gives_up(tmp_path: Path) -> None:
    silent = "sites 0,1 stack=symmetric direct=true hybrid.clock=lamport hybrid.null_ms=0"
    assert told(tmp_path, silent, 'site=1 submit "a"', "stabilize within=1s")[-1] == "not settled after 1s: 1"


def test_nothing_reaches_a_site_that_is_down_nor_its_next_life(tmp_path: Path) -> None:
    crashed = (PAIR, 'site=0 submit "a"', "site=1 crash", 'site=0 submit "b"', "site=1 start")
    assert told(tmp_path, *crashed, "packets") == []
    assert told(tmp_path, *crashed, "view 2 members=0,1", "status") == [
        "0: view 2, delivered a, b",
        "1: view 2, delivered nothing",
    ]


def test_who_joins_waits_for_one_who_knows(tmp_path: Path) -> None:
    with pytest.raises(LocalError, match="no member has installed view 2"):
        told(tmp_path, PAIR, "site=2 start", "flush 2 members=0,1,2", "site=2 install 2")


def test_timers_of_all_sites_fire_in_order(tmp_path: Path) -> None:
    """Both acknowledge 250 ms after they received: site 1 first, as it did."""
    crossed = ('site=1 submit "b"', "deliver 1->0", "advance 5ms", 'site=0 submit "a"', "deliver 0->1")
    lines = told(tmp_path, PAIR, *crossed, "advance 250ms")
    assert [line for line in lines if "Ack" in line] == [
        "0: send [1] Ack(received=(1, 1))",
        "1: send [0] Ack(received=(1, 1))",
    ]
