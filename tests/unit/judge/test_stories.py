"""Every golden script for several sites; `--rewrite` takes what happened for what is expected."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.harness.golden import STORIES, StackRig
from tests.harness.script_blocks import differences, read_script, write_script
from tests.harness.scripts_many import Story


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_story(path: Path, rewrite: bool) -> None:
    blocks = read_script(path)
    outcomes = Story(StackRig).run(blocks)
    if rewrite:
        write_script(path, blocks, outcomes)
        return
    found = differences(blocks, outcomes)
    assert not found, "\n".join([str(path), *found])
