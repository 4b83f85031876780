"""The public names: each declared once, complete for every public signature, and all that examples import."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isthmus

ROOT = Path(__file__).parents[2]
MADE_BY_OTHERS = {"Group", "LocalParticipant", "RouterNode"}  # programs do not call the constructors of these
SPECIAL = {"__init__", "__aenter__", "__aiter__", "__anext__", "__getitem__", "__iter__"}
NAMES = {"np": np}  # that modules import for their type hints alone
HEAVY = ("numpy", "pyarrow", "scipy", "networkx", "matplotlib", "pandas", "pyspark", "jinja2", "tomli_w")
LIGHT = f"""
import sys
from isthmus import join
heavy = [name for name in {HEAVY} if name in sys.modules]
assert not heavy, heavy
"""


def types_in(hint: Any) -> Iterator[type]:
    """The classes that a type hint names."""
    if isinstance(hint, type) and not typing.get_args(hint):
        yield hint
    if isinstance(hint, list):  # the arguments of a Callable
        for argument in hint:
            yield from types_in(argument)
    for argument in typing.get_args(hint):
        yield from types_in(argument)


def hints_of(name: str, found: Any) -> Iterator[tuple[str, Any]]:
    """The type hints of what a program can call and read of a public name."""
    if not isinstance(found, type):
        if inspect.isfunction(found):
            yield from typing.get_type_hints(found, localns=NAMES).items()
        return
    for field, hint in typing.get_type_hints(found, localns=NAMES).items():
        if not field.startswith("_"):
            yield field, hint
    for attribute, value in inspect.getmembers_static(found):
        called = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
        special = attribute in SPECIAL and not (attribute == "__init__" and name in MADE_BY_OTHERS)
        if inspect.isfunction(called) and (special or not attribute.startswith("_")):
            for parameter, hint in typing.get_type_hints(called, localns=NAMES).items():
                yield f"{attribute}({parameter})", hint


def test_every_type_of_a_public_signature_is_public() -> None:
    public = {getattr(isthmus, name) for name in isthmus.__all__ if isinstance(getattr(isthmus, name), type)}
    missing = {
        f"{kind.__module__}.{kind.__qualname__}, of {name}.{where}"
        for name in isthmus.__all__
        for where, hint in hints_of(name, getattr(isthmus, name))
        for kind in types_in(hint)
        if kind.__module__.startswith("isthmus") and kind not in public
    }
    assert not missing, "\n".join(sorted(missing))


def test_each_name_is_declared_once_and_says_what_it_is() -> None:
    stub = (ROOT / "src" / "isthmus" / "__init__.pyi").read_text(encoding="utf-8")
    lines = [line for line in stub.splitlines() if line.startswith(("from", "import"))]
    assert len(set(isthmus.__all__)) == len(isthmus.__all__) == len(lines), "a line that declares nothing, or twice"
    unexplained = [name for name in isthmus.__all__ if not inspect.getdoc(getattr(isthmus, name))]
    assert not unexplained
    assert set(isthmus.__all__) <= set(dir(isthmus))
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = isthmus.Nothing


def test_examples_and_documents_import_public_names_only() -> None:
    texts = [*ROOT.glob("examples/*.py"), *ROOT.glob("src/isthmus/starter/*.py"), ROOT / "README.md"]
    texts.append(ROOT / "docs" / "TUTORIAL.md")
    for path in texts:
        found = re.findall(r"^\s*(?:from|import) (isthmus\.[\w.]+)", path.read_text(encoding="utf-8"), re.MULTILINE)
        assert not found, f"{path.name} imports {found}"


def test_a_live_program_loads_no_package_of_the_laboratory() -> None:
    subprocess.run([sys.executable, "-c", LIGHT], check=True, timeout=60)
