"""Files that commands read and write: networks with their traffic, and outputs that replace nothing unasked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from isthmus.core.errors import InputError
from isthmus.core.validation import read_toml
from isthmus.scenario.load import topology_of, workloads_of
from isthmus.scenario.workload import Workload
from isthmus.topology.load import topology_from_tables
from isthmus.topology.model import Topology

PLANNED_SITES_MAX = 200


def read_network(path: Path) -> Topology:
    """The topology in a file, or the one that a scenario contains or names."""
    tables = read_toml(path)
    if "topology" not in tables:
        return topology_from_tables(tables, str(path))
    return topology_of(tables["topology"], str(path), path.parent)


def read_plan_input(network: Path, traffic: Path | None) -> tuple[Topology, tuple[Workload, ...]]:
    """A network to plan for, and the workloads of the traffic file or of the scenario that contains the network."""
    topology = read_network(network)
    if len(topology.sites) > PLANNED_SITES_MAX:
        raise InputError(str(network), "", f"{len(topology.sites)} sites", f"at most {PLANNED_SITES_MAX} to plan for")
    path = traffic or network
    tables = read_toml(path)
    if traffic is None and "workloads" not in tables:
        raise InputError(str(network), "workloads", "nothing", "a scenario, or a network and --traffic FILE")
    return topology, workloads_of(tables.get("workloads"), str(path), path.parent)


def refuse_overwrite(output: Path, force: bool, *sources: Path | None) -> None:
    """Refuse to replace an input, and another file unless forced."""
    if any(source is not None and same_file(output, source) for source in sources):
        raise InputError("-o", str(output), "the input itself", "another file")
    if output.is_dir():
        raise InputError("-o", str(output), "a folder", "a file")
    if output.exists() and not force:
        raise InputError("-o", str(output), "an existing file", "a new file, or --force to replace it")


def same_file(first: Path, second: Path) -> bool:
    return first.exists() and second.exists() and first.samefile(second)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Create the folder of a file that is written inside; report what the system refuses as bad input."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise InputError("-o", str(path), error.strerror or "an error", "a file that can be written") from None


def picture_files(folder: Path, name: str) -> list[Path]:
    """The two pictures of a thing in a folder, with characters that are safe in file names."""
    stem = "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in name)
    return [folder / f"{stem}.{ending}" for ending in ("svg", "png")]
