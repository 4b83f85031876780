"""Scenarios loaded from TOML: a file that holds its topology and stack, or names the files that do.

Paths inside a scenario are relative to the scenario file. The traffic of a recorded workload is read here, so that
the scenario is self-contained and can be moved to another machine.
"""

from __future__ import annotations

import csv
from datetime import UTC, datetime
from math import isfinite
from pathlib import Path
from typing import Any

import msgspec

from isthmus.core.errors import InputError
from isthmus.core.validation import BadValue, convert, read_toml, show
from isthmus.protocols.routing.calculus.model import Composition
from isthmus.scenario.composition.check import check_wanted
from isthmus.scenario.composition.load import composition_from_tables, load_composition
from isthmus.scenario.composition.nodes import nodes_as_groups
from isthmus.scenario.model import Scenario, Settings, StackSpec
from isthmus.scenario.workload import PAYLOAD_MAX, Recorded, Workload
from isthmus.topology.load import load_topology, topology_from_tables
from isthmus.topology.model import Topology

TIME_COLUMNS = ("time", "time_s", "time_minute_local", "timestamp")
SENDER_COLUMNS = ("sender", "member", "source", "user")
MESSAGE_EVENTS = ("msg", "message")


def load_scenario(path: Path, seed: int | None = None) -> Scenario:
    """Read a scenario; a seed given here overrides that of the file."""
    return scenario_from_tables(read_toml(path), str(path), path.parent, seed)


def scenario_from_tables(tables: dict[str, Any], source: str, folder: Path, seed: int | None = None) -> Scenario:
    """Check and complete a scenario given as plain tables."""
    rest = dict(tables)
    topology = topology_of(rest.pop("topology", None), source, folder)
    workloads = workloads_of(rest.pop("workloads", None), source, folder)
    composition = composition_of(rest.pop("composition", None), source, folder)
    if composition is not None and "stack" not in rest:
        rest["stack"] = {"name": "fifo"}  # every group names its own stack, so this default is unused
    stack = stack_of(rest.get("stack"), source, folder)
    if seed is not None:
        rest["seed"] = seed
    for key in ("membership", "network"):
        if isinstance(rest.get(key), str):  # only the kind
            rest[key] = {"kind": rest[key]}
    # Values already converted are left out while msgspec checks the rest; of the stack, only the name is passed.
    options = convert(rest | {"stack": {"name": stack.name}}, Settings, source)
    settings = msgspec.structs.asdict(options) | {"stack": stack}
    if composition is not None:
        settings["groups"] = nodes_as_groups(composition, options.groups, stack, source)
    try:
        return Scenario(topology=topology, workloads=workloads, composition=composition, **settings)
    except BadValue as error:
        raise error.at(source, "") from None


def workloads_of(given: Any, source: str, folder: Path) -> tuple[Workload, ...]:
    if not isinstance(given, list) or not given:
        raise InputError(source, "workloads", show(given), "at least one [[workloads]] table")
    for index, table in enumerate(given):
        if isinstance(table, dict) and table.get("to_groups") == []:
            right = "names of groups; left out, messages stay in their own group"
            raise InputError(source, f"workloads[{index}].to_groups", "an empty list", right)
    return tuple(
        complete(convert(table, Workload, source, f"workloads[{index}]"), source, f"workloads[{index}]", folder)  # type: ignore[arg-type]
        for index, table in enumerate(given)
    )


def stack_of(given: Any, source: str, folder: Path) -> StackSpec:
    if isinstance(given, str):
        if not (folder / given).is_file():
            raise InputError(
                source,
                "stack",
                f"{given!r}, which is no file",
                "a [stack] table with a name, or the path of a stack file",
            )
        return convert(read_toml(folder / given), StackSpec, str(folder / given))
    if given is None:
        raise InputError(source, "stack", "nothing", "a [stack] table with a name, or the path of a stack file")
    return convert(given, StackSpec, source, "stack")


def composition_of(given: Any, source: str, folder: Path) -> Composition | None:
    """Return a composition from a file or a table; reject one that gives less than its domains require."""
    if given is None:
        return None
    composition = read_composition(given, source, folder)
    check_wanted(composition, str(folder / given) if isinstance(given, str) else source)
    return composition


def read_composition(given: Any, source: str, folder: Path) -> Composition:
    """Return a composition from a file or a table, without checking its domains."""
    if isinstance(given, str):
        if not (folder / given).is_file():
            raise InputError(source, "composition", f"{given!r}, which is no file", "the path of a composition file")
        return load_composition(folder / given)
    if isinstance(given, dict):
        return composition_from_tables(given, f"{source}: composition")
    raise InputError(source, "composition", show(given), "the path of a composition file, or a table")


def load_composition_of(path: Path) -> Composition:
    """Return the composition in a file, or that of a scenario file, without checking its domains."""
    tables = read_toml(path)
    if not is_scenario(tables):
        return composition_from_tables(tables, str(path))
    if "composition" not in tables:
        right = "a composition, or a scenario with one"
        raise InputError(str(path), "composition", "nothing, in a scenario of one group", right)
    return read_composition(tables["composition"], str(path), path.parent)


def is_scenario(tables: dict[str, Any]) -> bool:
    """Return whether tables are those of a scenario and not of a composition."""
    return any(key in tables for key in ("composition", "topology", "workloads"))


def topology_of(given: Any, source: str, folder: Path) -> Topology:
    if isinstance(given, str):
        if not (folder / given).is_file():
            raise InputError(source, "topology", f"{given!r}, which is no file", "the path of a topology file")
        return load_topology(folder / given)
    if isinstance(given, dict):
        return topology_from_tables(given, source, "topology")
    raise InputError(source, "topology", show(given), "the path of a topology file, or a [topology] table")


def complete(workload: Workload, source: str, key: str, folder: Path) -> Workload:
    """Return the workload, with traffic read from the file if it is recorded."""
    if not isinstance(workload, Recorded) or workload.file is None or workload.events:
        return workload
    events = read_traffic(folder / workload.file, workload.trace, f"{source}: {key}.file")
    try:
        return msgspec.structs.replace(workload, events=events)
    except BadValue as error:
        raise error.at(source, key) from None


def read_traffic(path: Path, trace: str | None, place: str) -> tuple[tuple[float, int, int], ...]:
    """Return (seconds since the first message, sender by order of appearance, bytes) per row of a recorded CSV."""
    rows: list[tuple[float, str, int]] = []
    try:
        with path.open(newline="", encoding="utf-8-sig") as lines:
            reader = csv.DictReader(lines)
            columns = reader.fieldnames or []
            time = next((name for name in TIME_COLUMNS if name in columns), None)
            sender = next((name for name in SENDER_COLUMNS if name in columns), None)
            if time is None or sender is None:
                found = f"the columns {', '.join(columns)}" if columns else "no names of columns"
                raise InputError(str(path), "", found, "columns time and sender")
            for row in reader:
                if row.get("event") not in (None, *MESSAGE_EVENTS) or (trace and row.get("trace") != trace):
                    continue
                try:
                    rows.append((seconds(row[time]), row[sender] or "", size(row.get("bytes"))))
                except (TypeError, ValueError):
                    where, values = f"line {reader.line_num}", [value for value in row.values() if value is not None]
                    expected = f"a time, a sender and at most {PAYLOAD_MAX} bytes"
                    raise InputError(str(path), where, show(values), expected) from None
    except (FileNotFoundError, IsADirectoryError):
        raise InputError(place, "", f"{str(path)!r}, which is no file", "the path of a CSV file") from None
    except OSError as error:
        raise InputError(place, "", f"{str(path)!r}: {error.strerror}", "a CSV file that can be read") from None
    except csv.Error as error:
        raise InputError(str(path), f"line {reader.line_num}", f"a syntax error ({error})", "a CSV file") from None
    except UnicodeDecodeError:
        raise InputError(str(path), "", "bytes that are not UTF-8", "a CSV file") from None
    if not rows:
        raise InputError(str(path), "", "no messages" + (f" of trace {trace!r}" if trace else ""), "at least one")
    rows.sort(key=lambda row: row[0])
    numbers: dict[str, int] = {}
    start = rows[0][0]
    return tuple((when - start, numbers.setdefault(who, len(numbers)), size) for when, who, size in rows)


def seconds(text: str) -> float:
    """Return a time in seconds, given as a number or as a date and time."""
    try:
        value = float(text)
    except ValueError:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    if not isfinite(value):
        raise ValueError(text)
    return value


def size(text: str | None) -> int:
    """Return a number of bytes; one if none is given."""
    value = max(1, int(text or 1))
    if value > PAYLOAD_MAX:
        raise ValueError(text)
    return value
