"""The same golden scripts on every host: what they share must be the same, effect by effect."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from benches import LiveBench, SimBench, shared
from tests.harness.golden import SCRIPTS, StackRig
from tests.harness.recording import RecordingSite
from tests.harness.script_blocks import read_script
from tests.harness.scripts import MakeBench, Script

from isthmus.core.message import SiteId


@pytest.mark.parametrize("bench", [RecordingSite, SimBench, LiveBench], ids=["recording", "sim", "live"])
@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_host_keeps_to_the_script(path: Path, bench: MakeBench) -> None:
    blocks = read_script(path)
    outcomes = Script(StackRig, bench).run(blocks)
    site = SiteId(0)
    for block, outcome in zip(blocks, outcomes, strict=True):
        for command in block.commands:
            if match := re.match(r"stack .*site=(\d+)", command):
                site = SiteId(int(match[1]))
        assert shared(outcome, site) == shared(block.expected, site), f"{path}, line {block.line}"
