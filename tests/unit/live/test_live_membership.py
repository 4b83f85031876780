"""Live groups that agree on their views: sites that die, freeze, leave, come back, with their state."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import msgspec
import pytest
from bench.membership import measure
from tests.harness.live_groups import join
from tests.harness.ports import free_ports

from isthmus import Delivered, Gap
from isthmus.core.errors import InputError
from isthmus.core.layer import View
from isthmus.core.message import SiteId
from isthmus.live.api import send_queue
from isthmus.live.node.errors import Blocked
from isthmus.live.node.incarnations import EPOCH_S, FileStore, next_incarnation
from isthmus.live.node.plans import AgreedPlan
from isthmus.protocols.membership.home import Record
from isthmus.protocols.membership.suspicion import Timing
from isthmus.protocols.membership.wire import NO_BALLOT
from isthmus.scenario.model import Agreed
from isthmus.topology.delay import Constant
from isthmus.topology.model import Channel
from isthmus.topology.shapes import mesh

LAN = Channel(Constant(0.1))
NETWORK = mesh(1, 3, LAN, LAN)
NAMES = [site.name for site in NETWORK.sites]
# A closed port is noticed at once; silence, which a busy machine may bring about, is borne for long.
PATIENT = Agreed(lan=Timing(heartbeat_ms=20, floor_ms=20_000, ceiling_ms=30_000))
TIMEOUT_S = 60.0  # for what takes tens of milliseconds on an idle machine


class Site:
    """A replica: the list of all payloads."""

    def __init__(self, name: str, ports: dict[str, int], plan: AgreedPlan | None = None, **options: Any) -> None:
        self.log: list[bytes] = []
        self.group = join(
            *(NETWORK, name, ports),
            membership=plan or AgreedPlan(PATIENT),
            state=lambda: msgspec.msgpack.encode(self.log),
            restore=self.restore,
            **options,
        )
        self.views: list[View] = []
        self.gaps: list[Gap] = []

    def restore(self, state: bytes) -> None:
        self.log = msgspec.msgpack.decode(state, type=list[bytes])

    async def start(self) -> Site:
        await self.group.__aenter__()
        self.reading = asyncio.create_task(self.read())
        return self

    async def read(self) -> None:
        async for event in self.group.events():
            if isinstance(event, View):
                self.views.append(event)
            elif isinstance(event, Gap):
                self.gaps.append(event)
            elif isinstance(event, Delivered):
                self.log.append(event.payload)

    def die(self) -> None:
        """Stop without a word."""
        self.reading.cancel()
        self.group.runtime.close()

    async def until(self, members: list[str]) -> None:
        """Wait for a view in which all have their vote: those who join have none until they have the state.

        In any order: a site whose port refused while it started may be let in after the others.
        """

        def holds() -> bool:
            group = self.group
            return sorted(group.members) == sorted(members) and all(group.view.weights) and not group.blocked

        await eventually(holds)


async def eventually(holds: Callable[[], bool]) -> None:
    while not holds():
        await asyncio.sleep(0.005)


async def three(**options: Any) -> tuple[dict[str, int], list[Site]]:
    ports = free_ports(NAMES)
    sites = [Site(name, ports, **options) for name in NAMES]
    for site in sites:
        await site.start()
    for site in sites:
        await site.until(NAMES)
    return ports, sites


def run(program: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def bounded() -> None:
        await asyncio.wait_for(program(), TIMEOUT_S)

    asyncio.run(bounded())


async def alike(sites: list[Site], count: int) -> None:
    await eventually(lambda: all(len(site.log) == count for site in sites))
    assert all(site.log == sites[0].log for site in sites)


async def each_sends(sites: list[Site], word: str, count: int) -> None:
    for number in range(count):
        for site in sites:
            await site.group.send(f"{word} {site.group.site} {number}".encode())


def test_a_site_that_dies_is_left_out_and_comes_back_with_the_state() -> None:
    async def program() -> None:
        ports, sites = await three()
        await each_sends(sites, "before", 10)
        await alike(sites, 30)
        sites[0].die()  # the eldest, which coordinates and gives the order
        for site in sites[1:]:
            await site.until(NAMES[1:])
        await each_sends(sites[1:], "without", 10)
        await alike(sites[1:], 50)
        back = await Site(NAMES[0], ports).start()
        await back.until([*NAMES[1:], NAMES[0]])
        await alike([back, *sites[1:]], 50)
        await each_sends([back, *sites[1:]], "after", 5)
        await alike([back, *sites[1:]], 65)
        for site in (back, *sites[1:]):
            site.die()

    run(program)


def test_a_site_that_leaves_is_not_waited_for() -> None:
    async def program() -> None:
        _, sites = await three()
        await each_sends(sites, "all", 3)
        await alike(sites, 9)
        await sites[2].group.__aexit__(None, None, None)
        await sites[0].until(NAMES[:2])
        await each_sends(sites[:2], "rest", 3)
        await alike(sites[:2], 15)
        assert sites[2].group.blocked
        for site in sites[:2]:
            site.die()

    run(program)


def test_a_minority_waits_or_is_told() -> None:
    async def program() -> None:
        ports, sites = await three()
        for site in sites[:2]:
            site.die()
        await eventually(lambda: sites[2].group.blocked)
        with pytest.raises(Blocked, match=r"a majority of view \d+ \(c0-0, c0-1, c0-2\) to go on"):
            await sites[2].group.send(b"refused", wait=False)
        waiting = asyncio.create_task(sites[2].group.send(b"patient"))
        back = [await Site(name, ports, AgreedPlan(PATIENT, found=name == NAMES[0])).start() for name in NAMES[:2]]
        await waiting  # an operator had to found the group anew; the third gives its view up and joins
        await eventually(lambda: all(site.log == [b"patient"] for site in (*back, sites[2])))
        assert set(sites[2].group.members) == {*NAMES}
        for site in (*back, sites[2]):
            site.die()

    run(program)


def test_views_come_at_their_place_among_messages() -> None:
    async def program() -> None:
        _, sites = await three()
        await each_sends(sites, "one", 4)
        await alike(sites, 12)
        sites[1].die()
        await sites[0].until([NAMES[0], NAMES[2]])
        await each_sends([sites[0], sites[2]], "two", 4)
        await alike([sites[0], sites[2]], 20)
        assert [view.view_id for view in sites[0].views] == sorted({view.view_id for view in sites[0].views})
        assert sites[0].views[-1] == sites[2].views[-1]
        assert sites[0].views[-1].members == (SiteId(0), SiteId(2))
        for site in (sites[0], sites[2]):
            site.die()

    run(program)


def test_all_stop_and_start_again_by_their_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(send_queue, "FORM_S", 0.1)  # the third one does not come back

    async def program() -> None:
        plan = AgreedPlan(PATIENT, tmp_path)
        ports, sites = await three(plan=plan)
        last = sites[0].group.view.view_id
        for site in sites:
            site.die()
        back = [await Site(name, ports, plan).start() for name in NAMES[:2]]  # a quorum of the last view
        for site in back:
            await eventually(lambda site=site: len(site.group.members) == 2 and not site.group.blocked)
        assert back[0].group.view.view_id > last
        await each_sends(back, "again", 3)
        await alike(back, 6)
        for site in back:
            site.die()

    run(program)


def test_what_is_sent_first_after_a_total_restart_waits_for_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two of three are a quorum of the last view; what they sent at once, the third one never got."""
    monkeypatch.setattr(send_queue, "FORM_S", TIMEOUT_S)

    async def program() -> None:
        plan = AgreedPlan(PATIENT, tmp_path)
        ports, sites = await three(plan=plan)
        for site in sites:
            site.die()
        back = [await Site(name, ports, plan).start() for name in NAMES[:2]]
        for site in back:
            await eventually(lambda site=site: len(site.group.members) == 2)
        first = asyncio.create_task(back[0].group.send(b"first"))
        await asyncio.sleep(0)
        assert back[0].group.blocked and "c0-2" in back[0].group.waits_for()
        back.append(await Site(NAMES[2], ports, plan).start())
        await first
        assert len(back[0].group.members) == 3
        await alike(back, 1)
        for site in back:
            site.die()

    run(program)


def test_what_was_not_read_yet_goes_over_with_the_state() -> None:
    """The application has read half of what was delivered: the other half travels as messages."""

    async def program() -> None:
        ports, sites = await three()
        sites[2].die()
        await sites[0].until(NAMES[:2])
        for site in sites[:2]:
            site.reading.cancel()
        await each_sends(sites[:2], "unread", 5)
        await eventually(lambda: all(len(site.group._inbox.unread) == 10 for site in sites[:2]))
        for site in sites[:2]:
            site.log += [(await anext(site.group)).payload for _ in range(5)]
        back = await Site(NAMES[2], ports).start()
        await alike([back], 10)
        assert back.log[:5] == sites[0].log
        for site in (back, *sites[:2]):
            site.die()

    run(program)


@pytest.mark.full
def test_processes_that_are_killed_and_stopped() -> None:
    """Each of three sites is killed and started again, stopped and continued, under load; all have one order."""
    found = asyncio.run(measure(3, 3))
    assert {len(times) for times in found.values()} == {3}


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"no such thing", "a file that does not decode"),
        (msgspec.msgpack.encode((7, "c0-0", "", 5, None)), "found 7; expected version 1"),
        (msgspec.msgpack.encode((1, "c0-1", "", 5, None)), "the file of site c0-1"),
    ],
)
def test_a_foreign_file_is_refused_and_left_alone(tmp_path: Path, content: bytes, told: str) -> None:
    path = tmp_path / "c0-0.view"
    path.write_bytes(content)
    with pytest.raises(InputError, match=told):
        FileStore(tmp_path, "c0-0", "")
    assert path.read_bytes() == content


def test_a_file_is_whole_or_as_before(tmp_path: Path) -> None:
    store = FileStore(tmp_path, "a", "chat")
    assert store.load() is None
    record = Record(View(3, (SiteId(0),), (5,)), 5, NO_BALLOT, None, None)
    store.incarnation = 5
    store.save(record)
    again = FileStore(tmp_path, "a", "chat")
    assert (again.load(), again.incarnation) == (record, 5)
    assert [path.name for path in tmp_path.iterdir()] == ["a-chat.view"]


def test_incarnations_rise() -> None:
    assert next_incarnation(0, EPOCH_S + 100.5) == 100
    assert next_incarnation(0, EPOCH_S - 1e9) == 1  # a clock that knows nothing
    assert next_incarnation(0, EPOCH_S + 1e12) == 1 << 30
    assert next_incarnation(5, EPOCH_S + 100.5) == 6  # the file or others know: the calendar does not matter
    assert next_incarnation(5_000, EPOCH_S + 3) == 5_001


def test_an_incarnation_is_in_the_file_before_anything_is_sent_under_it(tmp_path: Path) -> None:
    """A life that crashed before it was in a view once left no mark, and the next one had its incarnation."""
    FileStore(tmp_path, "a", "").begin(7)
    assert FileStore(tmp_path, "a", "").incarnation == 7


def test_a_site_that_cannot_open_leaves_no_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The port was bound when the stack failed; the next attempt found it taken."""

    async def program() -> None:
        ports = free_ports(NAMES)
        failing = Site(NAMES[0], ports)
        with monkeypatch.context() as patched, pytest.raises(ZeroDivisionError):
            patched.setattr(failing.group.runtime, "begin_life", lambda _socket: 1 // 0)
            await failing.start()
        again = await Site(NAMES[0], ports).start()
        again.die()

    run(program)
