"""`--json` prints one JSON document and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from isthmus.cli.init import command as init
from isthmus.cli.main import root


@pytest.mark.parametrize(
    "words",
    [
        ["topology", "show", "demo/network.toml"],
        ["topology", "show", "lans.toml", "--zones"],
        ["topology", "overlay", "8"],
        ["topology", "overlay", "demo/network.toml", "--kind", "ring"],
        ["plan", "demo/scenario.toml"],
        ["plan", "demo/scenario.toml", "--order", "causal"],
        ["compose", "plan", "demo/scenario.toml"],
    ],
    ids=" ".join,
)
def test_a_result_is_one_json_document(words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    runner = CliRunner()
    assert runner.invoke(init, ["demo"]).exit_code == 0
    assert runner.invoke(root, ["topology", "shape", "lan-ring", "--clusters", "3", "-o", "lans.toml"]).exit_code == 0
    result = runner.invoke(root, [*words, "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)


def commands(group: click.Command, path: str = "isthmus") -> list[tuple[str, click.Command]]:
    """All commands that do something, with their full names."""
    if not isinstance(group, click.Group):
        return [(path, group)]
    context = click.Context(group)
    children = [(name, group.get_command(context, name)) for name in group.list_commands(context)]
    return [found for name, child in children if child is not None for found in commands(child, f"{path} {name}")]


ALL = commands(root)


@pytest.mark.parametrize("name,command", ALL, ids=[name for name, _ in ALL])
def test_every_command_has_examples_and_the_shared_options(name: str, command: click.Command) -> None:
    assert "Examples:" in (command.help or "") and f"{name} " in (command.help or "") + " ", name
    given = {option: parameter for parameter in command.params for option in parameter.opts}
    if "-o" in given:
        assert given["-o"].name == "output"
    if "--force" in given:
        assert given["--force"].help == "Replace files of an earlier run."  # type: ignore[attr-defined]
    if "--json" in given:
        assert given["--json"].name == "as_json"
    for option in given.values():
        assert not isinstance(option, click.Option) or option.help, f"{name} {option.opts}"
