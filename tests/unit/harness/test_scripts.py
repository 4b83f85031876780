"""Every golden script on the recording host; `--rewrite` takes what happened for what is expected."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.harness.golden import SCRIPTS, StackRig
from tests.harness.recording import RecordingSite
from tests.harness.script_blocks import differences, read_script, write_script
from tests.harness.scripts import Script


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_script(path: Path, rewrite: bool) -> None:
    blocks = read_script(path)
    outcomes = Script(StackRig, RecordingSite).run(blocks)
    if rewrite:
        write_script(path, blocks, outcomes)
        return
    found = differences(blocks, outcomes)
    assert not found, "\n".join([str(path), *found])
