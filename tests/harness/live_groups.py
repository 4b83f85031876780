"""Live groups and sites for tests: what `SiteConfig` has is given as keywords, too."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from isthmus import Group, Site, SiteConfig, Topology
from isthmus import join as isthmus_join


def split(given: dict[str, Any]) -> dict[str, Any]:
    """Keywords with those of `SiteConfig` put into one."""
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
