"""Live groups and sites for tests: what `SiteConfig` has is given as keywords, too.

With ISTHMUS_SEALED=FILE in the environment all of them have the keys of a file: what works in clear works sealed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from isthmus import Group, Site, SiteConfig, Topology
from isthmus import join as isthmus_join


def split(given: dict[str, Any]) -> dict[str, Any]:
    """Keywords with those of `SiteConfig` put into one."""
    if sealed := os.environ.get("ISTHMUS_SEALED"):
        given.setdefault("keys", sealed)
    own = {name: given.pop(name) for name in SiteConfig.__struct_fields__ if name in given}
    return given | {"config": SiteConfig(**own)}


def join(
    topology: Topology | Path,
    name: str,
    addresses: Mapping[str, Any] | None = None,
    stack: str | None = None,
    options: Any = None,
    **given: Any,
) -> Group:
    """A group of all sites, or of a composition."""
    return isthmus_join(topology, name, addresses=addresses, stack=stack, options=options, **split(given))


def site_of(topology: Topology | Path, name: str, addresses: Mapping[str, Any] | None = None, **given: Any) -> Site:
    """A site with several groups, or a router."""
    return Site(topology, name, addresses=addresses, **split(given))
