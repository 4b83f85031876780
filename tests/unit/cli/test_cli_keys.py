"""`isthmus keys`: files for their owner alone, three steps of a rotation, identities; no secret on the screen."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from isthmus.cli.keys import command
from isthmus.core.errors import InputError
from isthmus.live.seal.key_file import load_keys, read_key_file
from isthmus.live.seal.keys import SITE


def run(*words: object) -> Result:
    return CliRunner().invoke(command, [str(word) for word in words])


def test_a_new_file_is_for_its_owner_alone_and_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "cluster.key"
    assert run("init", path).exit_code == 0
    assert path.stat().st_mode & 0o777 == 0o600
    before = path.read_bytes()
    again = run("init", path)
    assert isinstance(again.exception, InputError) and "a file already" in str(again.exception)
    assert path.read_bytes() == before


def test_a_rotation_takes_three_steps_in_order(tmp_path: Path) -> None:
    path = tmp_path / "cluster.key"
    run("init", path)
    (old,) = load_keys(path, None, "a").cluster
    early = run("rotate", path, "--step", "promote")
    assert isinstance(early.exception, InputError) and "2, for the step promote" in str(early.exception)
    assert run("rotate", path, "--step", "add").exit_code == 0
    assert load_keys(path, None, "a").cluster[0] == old
    assert isinstance(run("rotate", path, "--step", "add").exception, InputError)
    assert run("rotate", path, "--step", "promote").exit_code == 0
    new, still = load_keys(path, None, "a").cluster
    assert still == old and new != old
    assert run("rotate", path, "--step", "remove").exit_code == 0
    assert load_keys(path, None, "a").cluster == (new,)
    assert path.stat().st_mode & 0o777 == 0o600


def test_identities_are_added_and_nothing_that_is_shown_is_secret(tmp_path: Path) -> None:
    path = tmp_path / "cluster.key"
    run("init", path)
    for site in ("paris", "tokyo", "paris"):
        (tmp_path / f"{site}.identity").unlink(missing_ok=True)
        assert run("identity", path, site, "-o", tmp_path / f"{site}.identity").exit_code == 0
    lines = read_key_file(path)
    assert [line.text for line in lines if line.kind == SITE] == ["tokyo", "paris"]
    keys = load_keys(path, tmp_path / "paris.identity", "paris")
    assert keys.mode == "identity" and set(keys.sites) == {"paris", "tokyo"}
    shown = run("show", path).output
    assert keys.cluster[0].id.hex() in shown and "mode identity" in shown
    for secret in (keys.cluster[0].secret, keys.identity):
        assert secret.hex() not in shown and b64encode(secret).decode() not in shown


@pytest.mark.parametrize("site", ["", " ", "paris\nisthmus-key-1"])
def test_a_site_without_a_name_of_one_line_leaves_the_key_file_as_it_is(site: str, tmp_path: Path) -> None:
    path = tmp_path / "cluster.key"
    run("init", path)
    before = path.read_bytes()
    found = run("identity", path, site, "-o", tmp_path / "own.identity")
    assert isinstance(found.exception, InputError) and "its name in the topology, as one line" in str(found.exception)
    assert path.read_bytes() == before and not (tmp_path / "own.identity").exists()
