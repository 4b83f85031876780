"""Ordered multicast for a WAN of LANs.

The public names are those of `__init__.pyi`, which declares each once, by its import. They stay; the modules that they
come from may change. A name is imported when it is first used, so that `import isthmus` costs nothing.

    join, Site, SiteConfig, GroupPlan   join one group, or several, from asyncio
    Group, Delivered, View, Gap         send; receive in order; see who is in, and what was missed
    Blocked, SendTimeout, Refused       what a program in a group must be ready to catch
    NotJoined, SiteFailed               why a site had to stop
    load_topology, load_scenario        a network, and an experiment on it, from TOML
    simulate, compare                   run a scenario in virtual time; over several stacks, with a recommendation
    read_rows, Oracle                   read a trace; judge whether an order was kept
"""

from __future__ import annotations

import re
from importlib import import_module

__version__ = "0.1.0"
_DECLARED = re.compile(r"^from (\S+) import (\w+) as \2$", re.MULTILINE)


def _modules() -> dict[str, str]:
    """The module of each public name, as the stub file declares it."""
    with open(f"{__path__[0]}/__init__.pyi", encoding="utf-8") as stub:  # noqa: PTH123 (importing pathlib takes longer)
        return {name: module for module, name in _DECLARED.findall(stub.read())}


_MODULES = _modules()
__all__ = list(_MODULES)


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module 'isthmus' has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
