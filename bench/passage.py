"""How a run passes through the packages: `python -m bench.passage [SCENARIO]`.

Runs `isthmus sim SCENARIO` twice in this process, first to import what it needs, then under `sys.setprofile`, and
prints the modules of isthmus in the order in which the second run first enters a function of each. What an import
executes (module bodies, class bodies, defaults) does not count: it is no step of the run.

A *change of package* is a module whose package differs from that of the module before it in this order; a package is a
folder directly below src/isthmus, and a file there is a package of its own. Few changes mean that a run passes through
the house in one direction. The aim is at most 60 modules and at most 16 changes.
"""

from __future__ import annotations

import os
import sys
import tempfile
from contextlib import redirect_stdout
from io import StringIO
from itertools import groupby
from pathlib import Path
from types import FrameType

import isthmus
from isthmus.cli.main import main as command

HOME = Path(isthmus.__file__).parent
MODULES_MAX, CHANGES_MAX = 60, 16
SCENARIO = """
name = "passage"
duration_ms = 2000

[topology]
name = "two-lans"

[[topology.clusters]]
name = "lisbon"
sites = 3
lan = { delay = 1 }

[[topology.clusters]]
name = "osaka"
sites = 3
lan = { delay = 1 }

[[topology.links]]
from = "lisbon"
to = "osaka"
delay = 40

[stack]
name = "token-site"

[[workloads]]
kind = "poisson"
rate_per_s = 10
"""


def run_command(arguments: list[str]) -> None:
    """Run the `isthmus` command in this process; its output is dropped."""
    sys.argv = ["isthmus", *arguments]
    with redirect_stdout(StringIO()):
        try:
            command()
        except SystemExit as end:
            if end.code:
                raise RuntimeError(f"isthmus {' '.join(arguments)} ended with {end.code}") from None


def modules_entered(arguments: list[str]) -> list[str]:
    """The modules of isthmus in the order in which a command enters them, relative to the package."""
    found: dict[str, None] = {}
    prefix = f"{HOME}{os.sep}"
    names = ("<module>", "<lambda>")

    def note(frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(prefix) and code.co_name not in names:
            found.setdefault(code.co_filename.removeprefix(prefix))

    run_command([*arguments, "--seed", "1"])
    sys.setprofile(note)
    try:
        run_command(arguments)
    finally:
        sys.setprofile(None)
    return list(found)


def package_of(module: str) -> str:
    return Path(module).parts[0].removesuffix(".py")


def main(arguments: list[str]) -> int:
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        given = Path(arguments[0]) if arguments else Path("passage.toml")
        if not arguments:
            given.write_text(SCENARIO)
        modules = modules_entered(["sim", str(given)])
    passage = [(package, list(inside)) for package, inside in groupby(modules, package_of)]
    for package, inside in passage:
        print(f"{package:12} {', '.join(module.removeprefix(package + os.sep) for module in inside)}")
    changes = len(passage) - 1
    print(f"{len(modules)} modules (at most {MODULES_MAX}), {changes} changes of package (at most {CHANGES_MAX})")
    return int(len(modules) > MODULES_MAX or changes > CHANGES_MAX)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
