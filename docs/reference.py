"""Write docs/reference/: the public names of the package and the help of every command, as pages of the site."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import click

from isthmus.cli.main import root

HERE = Path(__file__).parent
DECLARED = re.compile(r"^from isthmus\.(\S+) import (\w+) as \2$", re.MULTILINE)
PAGES = {  # the first prefix of a name's module that fits: the page of the name
    "core.errors": "errors",
    "live.node.errors": "errors",
    "live": "live",
    "core": "layers",
    "topology": "networks",
    "scenario": "scenarios",
    "stacks": "stacks",
    "protocols": "stacks",
    "trace": "traces",
    "judge": "traces",
    "": "simulation",
}
TITLES = {
    "live": "Live groups",
    "simulation": "Simulation and comparison",
    "networks": "Networks",
    "scenarios": "Scenarios",
    "stacks": "Stacks and their options",
    "layers": "Layers and messages",
    "traces": "Traces and verdicts",
    "errors": "Errors",
}


def api_pages(stub: str) -> dict[str, str]:
    """One page per part of the package, one entry per public name."""
    names: dict[str, list[str]] = {page: [] for page in TITLES}
    for module, name in DECLARED.findall(stub):
        names[next(page for prefix, page in PAGES.items() if module.startswith(prefix))].append(name)
    head = "`import isthmus` provides every name of the Python API.\n"
    return {
        page: f"# {TITLES[page]}\n\n{head}\n" + "\n".join(f"::: isthmus.{name}\n" for name in sorted(found))
        for page, found in names.items()
    }


def commands_page() -> str:
    """The help of every command."""
    pages: dict[str, str] = defaultdict(str)

    def add(command: click.Command, parent: click.Context | None, name: str) -> None:
        context = click.Context(command, parent=parent, info_name=name, max_content_width=100)
        pages[context.command_path] = context.get_help()
        if isinstance(command, click.Group):
            for child in command.list_commands(context):
                found = command.get_command(context, child)
                assert found is not None
                add(found, context, child)

    add(root, None, "isthmus")
    return "# Commands\n" + "".join(f"\n## {path}\n\n```text\n{text}\n```\n" for path, text in pages.items())


if __name__ == "__main__":
    folder = HERE / "reference"
    folder.mkdir(exist_ok=True)
    stub = (HERE.parent / "src" / "isthmus" / "__init__.pyi").read_text(encoding="utf-8")
    for page, text in {**api_pages(stub), "commands": commands_page()}.items():
        (folder / f"{page}.md").write_text(text, encoding="utf-8")
