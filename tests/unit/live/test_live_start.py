"""Beginnings and ends: a group forms in one step and says nothing of it; all may leave at once; Ctrl-C is quiet."""

from __future__ import annotations

import asyncio
import logging
import sys
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import Any

import pytest
from tests.harness.live_groups import join
from tests.harness.ports import free_ports
from tests.unit.live.test_group import run

from isthmus.__main__ import run as command
from isthmus.live.node.peers import logger
from isthmus.topology.delay import Constant
from isthmus.topology.load import load_topology
from isthmus.topology.model import Channel
from isthmus.topology.shapes import mesh

STARTER = Path(__file__).parents[3] / "src/isthmus/starter"


def test_the_program_of_the_readme_begins_in_one_view_without_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """It needed four views, waited for votes, and ended with all sites waiting for each other: eight seconds."""
    network = load_topology(STARTER / "network.toml")
    names = [site.name for site in network.sites]
    ports = free_ports(names)
    left: list[bool] = []
    views: dict[str, list[int]] = {}  # of each site, until it had all messages: how many members they had
    caplog.set_level(logging.INFO, logger.name)

    async def site(name: str) -> list[bytes]:
        group = join(network, name, ports, emulate=True)
        views[name] = sizes = []
        async with group:
            group._watchers.append(watcher := asyncio.Queue())
            await group.send(f"hello from {name}".encode())
            order = [(await anext(group)).payload for _ in names]
            while not watcher.empty():
                sizes.append(len(watcher.get_nowait().members))
        left.append(group._joined.agreement is None)
        return order

    async def program() -> None:
        first, *rest = await asyncio.gather(*map(site, names))
        assert len(set(first)) == len(names) and all(order == first for order in rest)

    run(program())
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []
    assert views == {name: [5] for name in names}
    assert left == [True] * len(names), "a site waited in vain for the others to go on without it"


def test_all_leave_at_once_and_none_waits_for_the_others() -> None:
    network = mesh(1, 5, Channel(Constant(0.1)), Channel(Constant(0.1)))
    names = [site.name for site in network.sites]
    ports = free_ports(names)

    async def program() -> None:
        groups = [join(network, name, ports) for name in names]
        for group in groups:
            await group
        await asyncio.gather(*(group.send(group.site_name(group.site).encode()) for group in groups))
        assert await asyncio.gather(*(group.drain() for group in groups)) == [True] * len(names)
        assert [group._joined.agreement for group in groups] == [None] * len(names)
        for group in groups:
            assert sorted([message.payload async for message in group]) == sorted(map(str.encode, names))

    run(program())


def test_a_group_that_was_closed_may_be_drained() -> None:
    """At the end of `async with`, where the program closed it within."""
    network = mesh(1, 1, Channel(Constant(0.1)), Channel(Constant(0.1)))

    async def program() -> None:
        async with join(network, "c0-0", free_ports(["c0-0"])) as group:
            await group.close()

    run(program())


class Interrupts(MetaPathFinder):
    """A Ctrl-C while the command's modules are loaded."""

    def find_spec(self, name: str, *_: Any) -> None:
        if name == "isthmus.cli.main":
            raise KeyboardInterrupt


def test_ctrl_c_while_modules_are_loaded_is_quiet(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "isthmus.cli.main", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Interrupts(), *sys.meta_path])
    with pytest.raises(SystemExit) as ended:
        command()
    assert ended.value.code == 130
    assert capsys.readouterr().err == "\nisthmus: interrupted\n"
