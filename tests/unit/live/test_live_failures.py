"""A site that cannot go on: it stops, the others go on, and its program is told why by whatever it calls."""

from __future__ import annotations

import asyncio
import errno
import logging
from pathlib import Path
from typing import Any

import pytest
from tests.harness.live_groups import join
from tests.harness.ports import free_ports
from tests.unit.live.test_group import run

from isthmus import Group, InputError, NotJoined, SiteFailed
from isthmus.core.layer import View
from isthmus.live.node.incarnations import FileStore
from isthmus.live.node.plans import AgreedPlan
from isthmus.topology.delay import Constant
from isthmus.topology.model import Channel
from isthmus.topology.shapes import mesh

LAN = Channel(Constant(0.1))
NETWORK = mesh(1, 3, LAN, LAN)
NAMES = [site.name for site in NETWORK.sites]


async def view_of(group: Group, count: int) -> View:
    async for view in group.views():
        if len(view.members) == count and all(view.weights):
            return view
    raise AssertionError("the group ended")


@pytest.mark.parametrize("victim", [0, 2])
def test_a_site_whose_disk_is_full_leaves_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, victim: int
) -> None:
    """It went on with a promise that was nowhere, with a traceback per call-back, and told nobody."""
    ports, full = free_ports(NAMES), asyncio.Event()
    write = FileStore.save

    def save(store: FileStore, record: Any) -> None:
        if full.is_set() and store.site == NAMES[victim]:
            raise OSError(errno.ENOSPC, "No space left on device", str(store.path))
        write(store, record)

    monkeypatch.setattr(FileStore, "save", save)

    async def program() -> None:
        groups = [join(NETWORK, name, ports, membership=AgreedPlan(folder=tmp_path)) for name in NAMES]
        for group in groups:
            await group
        await asyncio.gather(*(view_of(group, 3) for group in groups))
        full.set()
        others = [group for place, group in enumerate(groups) if place != victim]
        leaver = others.pop()
        await leaver.drain()  # a view changes, which must be written down
        with pytest.raises(SiteFailed, match="No space left on device") as failed:
            await anext(groups[victim])
        assert isinstance(failed.value.__cause__, OSError)
        with pytest.raises(SiteFailed, match=f"{NAMES[victim]}.view: No space left"):
            await groups[victim].send(b"lost")
        with pytest.raises(SiteFailed):
            await groups[victim].drain()
        for group in others:
            await group.close()

    run(program())
    told = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert [record.name for record in told] == ["isthmus.live"], "once, and no traceback in a call-back"


def test_a_site_that_cannot_write_its_file_does_not_begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def save(store: FileStore, _record: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(store.path))

    monkeypatch.setattr(FileStore, "save", save)

    async def program() -> None:
        group = join(NETWORK, NAMES[0], free_ports(NAMES), membership=AgreedPlan(folder=tmp_path, found=True))
        with pytest.raises(InputError, match=r"c0-0\.view.*No space left on device"):
            async with group:
                await group.send(b"lost")

    run(program())


def test_a_site_that_cannot_write_its_first_view_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_file = FileStore.save

    def save(store: FileStore, record: Any) -> None:
        if record is not None:
            raise OSError(errno.ENOSPC, "No space left on device", str(store.path))
        save_file(store, record)

    monkeypatch.setattr(FileStore, "save", save)

    async def program() -> None:
        group = join(NETWORK, NAMES[0], free_ports(NAMES), membership=AgreedPlan(folder=tmp_path, found=True))
        with pytest.raises(SiteFailed, match="No space left on device"):
            async with group:
                await group.send(b"lost")

    run(program())


@pytest.mark.parametrize("differs", ["stack", "topology", "address"])
def test_a_site_that_runs_something_else_does_not_wait_for_ever(differs: str, caplog: pytest.LogCaptureFixture) -> None:
    ports = free_ports([*NAMES, "elsewhere"])
    moved = ports.pop("elsewhere")
    odd: dict[str, Any] = {"topology": NETWORK, "stack": "token-site", "addresses": ports}
    odd |= {
        "stack": {"stack": "fifo"},
        "topology": {"topology": mesh(3, 1, LAN, LAN)},
        "address": {"addresses": ports | {NAMES[2]: moved}},
    }[differs]
    if differs == "topology":
        odd["addresses"] = dict(zip([site.name for site in odd["topology"].sites], ports.values(), strict=True))
    own = [site.name for site in odd["topology"].sites][1]

    async def program() -> None:
        usual = join(NETWORK, NAMES[0], ports, join_timeout_s=0.2)
        other = join(odd["topology"], own, odd["addresses"], odd["stack"], join_timeout_s=0.2)
        await usual
        await other
        told = []
        for group in (usual, other):
            with pytest.raises(NotJoined, match=r"not joined within 0.2 s: site ") as failed:
                await group.send(b"lost")
            told.append(str(failed.value).removeprefix("not joined within 0.2 s: "))
            with pytest.raises(NotJoined):
                await anext(group)
        logged = [record.getMessage() for record in caplog.records]
        assert all(sentence in logged for sentence in told), (told, logged)

    run(program())


def test_a_site_that_nobody_answers_goes_on_waiting() -> None:
    async def program() -> None:
        async with join(NETWORK, NAMES[0], free_ports(NAMES), join_timeout_s=0.0) as group:
            await asyncio.sleep(0)
            group.runtime.check_joined()
            assert group.runtime.is_open()

    run(program())
