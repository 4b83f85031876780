"""Groups as a program uses them: one order, back-pressure both ways, an end."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from tests.harness.live_groups import join, site_of
from tests.harness.ports import free_ports

from isthmus import Delivered, Group, Site, Tentative
from isthmus.core.errors import InputError, LocalError
from isthmus.core.layer import View
from isthmus.core.message import Cast, SiteId
from isthmus.live.api.send_queue import TURN_MAX, SendQueue
from isthmus.live.node.errors import Refused, SendTimeout
from isthmus.live.node.plans import AgreedPlan, GroupPlan, SiteAddress
from isthmus.protocols.fragments import LARGEST_BYTES
from isthmus.protocols.participants.wire import ParticipantsOptions
from isthmus.protocols.transport.credit import CreditOptions
from isthmus.stacks.registry import STACKS, StackOptions
from isthmus.topology.delay import Constant
from isthmus.topology.model import Channel
from isthmus.topology.shapes import mesh
from isthmus.trace.schema import Gauge

TIMEOUT_S = 60.0
NETWORK = mesh(3, 1, Channel(Constant(0.1)), Channel(Constant(2.0), loss=0.1))
NAMES = [site.name for site in NETWORK.sites]
ALONE = mesh(1, 1, Channel(Constant(0.1)), Channel(Constant(0.1)))


def static(*given: Any, **more: Any) -> Group:
    """A group whose members are all sites, for good."""
    return join(*given, **{"membership": "static"} | more)


def run(program: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(program, TIMEOUT_S))


def test_tentative_messages_come_beside_the_final_ones() -> None:
    ports, count = free_ports(NAMES), 5

    async def site(name: str, all_done: asyncio.Barrier) -> tuple[list[bytes], list[bytes]]:
        guessed: list[bytes] = []
        order: list[bytes] = []
        async with static(NETWORK, name, ports, stack="optimistic", emulate=True) as group:
            events = group.events(tentative=True)
            for number in range(count):
                await group.send(f"{name} {number}".encode())
            while len(order) < 3 * count:
                event = await anext(events)
                if isinstance(event, Tentative):
                    assert event.message.payload not in order, "a guess comes before what it guesses"
                    guessed.append(event.message.payload)
                elif isinstance(event, Delivered):
                    order.append(event.payload)
            await all_done.wait()
            await group.settle(0.0)
            await all_done.wait()
        return order, guessed

    async def program() -> None:
        all_done = asyncio.Barrier(3)
        found = await asyncio.gather(*(site(name, all_done) for name in NAMES))
        assert all(order == found[0][0] for order, _ in found)
        assert not found[0][1], "the sequencer knows the order"
        for order, guessed in found[1:]:
            assert guessed and len(set(guessed)) == len(guessed) and set(guessed) <= set(order)

    run(program())


def test_three_sites_see_one_order() -> None:
    ports, count = free_ports(NAMES), 10

    async def site(name: str, all_done: asyncio.Barrier) -> list[bytes]:
        async with static(NETWORK, name, ports, emulate=True) as group:
            for number in range(count):
                await group.send(f"{name} {number}".encode())
            order = [(await anext(group)).payload for _ in range(3 * count)]
            await all_done.wait()
            await group.settle(0.0)
            await all_done.wait()
        return order

    async def program() -> None:
        all_done = asyncio.Barrier(3)
        first, *rest = await asyncio.gather(*(site(name, all_done) for name in NAMES))
        assert len(set(first)) == 3 * count and all(order == first for order in rest)

    run(program())


def test_a_late_site_gets_what_it_missed_and_some_messages_are_for_some() -> None:
    ports = free_ports(NAMES)

    async def program() -> None:
        async with static(NETWORK, NAMES[0], ports, "fifo") as early:
            await early.send(b"before")
            await early.send(b"for one", to=[NAMES[1]])
            async with static(NETWORK, NAMES[1], ports, "fifo") as late:
                casts = [await anext(late), await anext(late)]
                assert [cast.payload for cast in casts] == [b"before", b"for one"]
                assert casts[0].sender == NAMES[0] and casts[1].destinations == (NAMES[1],)
                raise TimeoutError  # leave at once: the third site never comes

    with pytest.raises(TimeoutError):
        run(program())


def test_a_sender_waits_for_a_slow_reader() -> None:
    ports = free_ports(NAMES)
    options = StackOptions(credit=CreditOptions(window=4, queue_max=4))

    async def program() -> None:
        async with static(NETWORK, NAMES[0], ports, "fifo", options) as group:
            sent = 0

            async def send_all() -> None:
                nonlocal sent
                for _ in range(20):
                    await group.send(b"x", to=[NAMES[0]])
                    sent += 1

            sender = asyncio.create_task(send_all())
            while sent < 8:
                await asyncio.sleep(0)
            for _ in range(50):
                await asyncio.sleep(0)
            assert 8 <= sent <= 12  # four at the reader, four in the queue, at most four of the last turn
            numbers = [(await anext(group)).number for _ in range(20)]
            await sender
            assert numbers == list(range(1, 21))

    run(program())


def test_leaving_ends_the_iteration_and_the_sending() -> None:
    ports = free_ports(NAMES)

    async def program() -> None:
        async with static(NETWORK, NAMES[0], ports) as group:
            reader = asyncio.create_task(anext(group, None))  # type: ignore[arg-type]
            await asyncio.sleep(0)
        assert await reader is None
        with pytest.raises(LocalError, match="not joined"):
            await group.send(b"x")

    run(program())


def test_bad_arguments_are_told() -> None:
    ports = free_ports(NAMES)
    with pytest.raises(InputError, match="did you mean token-site"):
        static(NETWORK, NAMES[0], ports, "token-sites")
    with pytest.raises(InputError, match="c1-0"):
        static(NETWORK, "c1-9", ports)
    with pytest.raises(InputError, match="the port of every site"):
        static(NETWORK, NAMES[0], {})

    async def taken() -> None:
        async with static(NETWORK, NAMES[0], ports), static(NETWORK, NAMES[0], ports):
            pass

    with pytest.raises(InputError, match="a free port"):
        run(taken())
    with pytest.raises(LocalError, match="at most"):
        run(too_large(ports))


async def too_large(ports: dict[str, int]) -> None:
    async with static(NETWORK, NAMES[0], ports) as group:
        await group.send(bytes(LARGEST_BYTES + 1))


def test_messages_come_in_lists_and_count_as_consumed() -> None:
    ports, count = free_ports(NAMES), 500
    options = StackOptions(credit=CreditOptions(window=50, queue_max=50))

    async def program() -> None:
        async with static(NETWORK, NAMES[0], ports, "fifo", options) as group:

            async def send_all() -> None:
                for number in range(count):
                    await group.send(b"%d" % number, to=[NAMES[0]] if number % 7 else [])

            sender = asyncio.create_task(send_all())
            others = [static(NETWORK, name, ports, "fifo", options) for name in NAMES[1:]]
            async with others[0], others[1]:
                readers = [asyncio.create_task(read_lists(other, len(range(0, count, 7)))) for other in others]
                lists = await read_lists(group, count)
                assert [cast.payload for casts in lists for cast in casts] == [b"%d" % n for n in range(count)]
                assert len(lists) < count
                for reader in readers:
                    await reader
                await sender
                assert await group.settle()

    run(program())


async def read_lists(group: Group, count: int) -> list[list[Cast]]:
    lists: list[list[Cast]] = []
    async for casts in group.batches():
        assert casts
        lists.append(casts)
        if sum(map(len, lists)) >= count:
            break
    return lists


def test_a_turn_leaves_as_one_and_a_sender_is_made_to_yield() -> None:
    ports = free_ports(NAMES)

    async def program() -> None:
        async with static(NETWORK, NAMES[0], ports, "fifo") as group:
            assert group.runtime.driver is not None
            counters = group.runtime.driver.site.counters
            rounds = 0

            async def count_rounds() -> None:
                nonlocal rounds
                while True:
                    rounds += 1
                    await asyncio.sleep(0)

            counting = asyncio.create_task(count_rounds())
            await asyncio.sleep(0)
            before = counters.datagram_count
            for _ in range(TURN_MAX):
                await group.send(b"x")
            assert rounds == 1 and counters.datagram_count == before, "nothing leaves before the turn ends"
            await asyncio.sleep(0)
            assert counters.datagram_count == before + 2, "one datagram to each of the others"
            rounds = 0
            for _ in range(10 * TURN_MAX):
                await group.send(b"x")
            assert rounds >= 9
            counting.cancel()
            raise TimeoutError  # leave at once: the others never come

    with pytest.raises(TimeoutError):
        run(program())


def test_several_groups_at_one_site_share_its_socket() -> None:
    ports = free_ports(NAMES)
    plans = [GroupPlan("orders"), GroupPlan("chat", "fifo", (NAMES[0], NAMES[2])), GroupPlan("all", "optimistic")]

    async def site(name: str, done: asyncio.Barrier) -> dict[str, list[bytes]]:
        async with site_of(NETWORK, name, ports, groups=plans) as groups:
            for number in range(20):
                for group in groups.groups.values():
                    await group.send(f"{group.name} {name} {number}".encode())
            found = {
                plan.name: [(await anext(groups[plan.name])).payload for _ in range(20 * len(plan.sites or NAMES))]
                for plan in plans
                if plan.name in groups.groups
            }
            for group in groups.groups.values():
                assert await group.settle(10)
            await done.wait()
        return found

    async def program() -> None:
        done = asyncio.Barrier(3)
        first, second, third = await asyncio.gather(*(site(name, done) for name in NAMES))
        assert list(second) == ["orders", "all"]
        for name in second:
            assert first[name] == second[name] == third[name]
            assert all(payload.startswith(name.encode()) for payload in first[name])
        assert sorted(first["chat"]) == sorted(third["chat"])
        with pytest.raises(InputError, match="a group that this site is in: orders, all"):
            site_of(NETWORK, NAMES[1], ports, groups=plans)["chat"]

    run(program())


def test_a_site_comes_back_into_each_of_its_groups_with_the_state_of_each() -> None:
    ports = free_ports(NAMES)
    plans = [GroupPlan("orders"), GroupPlan("chat", "causal-vector", (NAMES[0], NAMES[2]))]
    restored: dict[str, bytes] = {}

    def joined(name: str) -> Site:
        return site_of(NETWORK, name, ports, groups=plans, state=str.encode, restore=restored.__setitem__)

    async def program() -> None:
        async with joined(NAMES[0]) as first, joined(NAMES[1]):
            async with joined(NAMES[2]) as third:
                for group in third.groups.values():
                    await group.send(b"first life")
                    assert (await anext(first[group.name])).payload == b"first life"
            restored.clear()
            async with joined(NAMES[2]) as third:
                for group in third.groups.values():
                    await group.send(b"second life", timeout=30)
                    assert (await anext(first[group.name])).payload == b"second life"
                assert restored == {"orders": b"orders", "chat": b"chat"}

    run(program())


# A site that was started again


def test_a_restarted_site_is_refused_at_both_ends(caplog: pytest.LogCaptureFixture) -> None:
    """Killed and joined again under its port, it must neither lose what it sends nor be told that all is well."""
    ports = free_ports(NAMES)

    async def program() -> None:
        async with static(NETWORK, NAMES[0], ports, "fifo") as stays, static(NETWORK, NAMES[2], ports, "fifo"):
            async with static(NETWORK, NAMES[1], ports, "fifo") as before:
                await before.send(b"first life")
                assert (await anext(stays)).payload == b"first life"
                assert await before.settle(10)
            again = static(NETWORK, NAMES[1], ports, "fifo")
            with pytest.raises(Refused, match=f"site ({NAMES[0]}|{NAMES[2]}) refuses this site, site {NAMES[1]}"):
                async with again:
                    for _ in range(50):
                        await again.send(b"second life")
                    with pytest.raises(Refused):
                        async for message in again:
                            assert message.sender == NAMES[1], "its own, until it is told"
                    with pytest.raises(Refused):
                        await again.settle()
                    with pytest.raises(Refused):
                        async for _ in again.batches():
                            pass
                    await again.send(b"once more")
            assert stays.runtime.driver is not None and stays.runtime.driver.site.peers.refused_count
            for _ in range(3):
                await stays.send(b"to all")
            assert not await stays.settle(0.1), "one of the three is gone"
            assert f"site {NAMES[1]} to acknowledge" in stays.waits_for()
            assert "was started again" in stays.waits_for()
            got = [(await anext(stays)).payload for _ in range(3)]
            assert got == [b"to all"] * 3, "nothing of the second life"
            raise TimeoutError  # leave at once

    with pytest.raises(TimeoutError):
        run(program())
    errors = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert any("was started again" in error for error in errors), "where it is refused"
    assert any("refuses this site" in error for error in errors), "at the refused site"
    assert len(errors) <= 4


# Peers that run something else


@pytest.mark.parametrize(
    ("change", "here", "there"),
    [
        ({"stack": "fifo"}, "runs the stack fifo, here token-site", "runs the stack token-site, here fifo"),
        (
            {"options": StackOptions(sequencer=SiteId(1))},
            "has the option sequencer site 1, here the eldest",
            "has the option sequencer the eldest, here site 1",
        ),
        (
            {"safe": True},
            "has the option safe True, here False",
            "has the option safe False, here True",
        ),
        (
            {"membership": AgreedPlan()},
            "has the option membership agreed, here static",
            "has the option membership static, here agreed",
        ),
        (
            {"topology": msgspec.structs.replace(NETWORK, name="mars")},
            f"is in the topology mars, here {NETWORK.name}",
            f"is in the topology {NETWORK.name}, here mars",
        ),
    ],
)
def test_a_peer_that_runs_something_else_is_named_at_both_ends(
    change: dict[str, Any], here: str, there: str, caplog: pytest.LogCaptureFixture
) -> None:
    ports = free_ports(NAMES)

    async def program() -> None:
        first = static(NETWORK, NAMES[0], ports)
        other = static(**{"topology": NETWORK, "name": NAMES[1], "addresses": ports} | change)
        async with first, other:
            await first.send(b"x")
            await until(lambda: SiteId(1) in first.runtime.joined().site.peers.troubles)
            await until(lambda: SiteId(0) in other.runtime.joined().site.peers.troubles)
            assert f"site {NAMES[1]} {here}" in first.waits_for()
            raise TimeoutError  # leave at once

    with pytest.raises(TimeoutError):
        run(program())
    errors = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert sorted(errors) == sorted([f"site {NAMES[1]} {here}", f"site {NAMES[0]} {there}"])


def test_another_port_map_is_named_at_both_ends(caplog: pytest.LogCaptureFixture) -> None:
    ports = free_ports(NAMES)
    moved = ports | {NAMES[1]: free_ports(NAMES)[NAMES[1]]}

    async def program() -> None:
        first, other = static(NETWORK, NAMES[0], ports), static(NETWORK, NAMES[1], moved)
        async with first, other:
            await until(lambda: SiteId(1) in first.runtime.joined().site.peers.troubles)
            await until(lambda: SiteId(0) in other.runtime.joined().site.peers.troubles)
            raise TimeoutError  # leave at once

    with pytest.raises(TimeoutError):
        run(program())
    errors = " ".join(record.getMessage() for record in caplog.records if record.levelname == "ERROR")
    assert f"sends from 127.0.0.1:{moved[NAMES[1]]}, here it is at 127.0.0.1:{ports[NAMES[1]]}" in errors
    assert f"expects a site at 127.0.0.1:{ports[NAMES[1]]}, here at 127.0.0.1:{moved[NAMES[1]]}" in errors


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.01)


# Waiting


def test_a_timeout_says_which_site_is_waited_for() -> None:
    ports = free_ports(NAMES)
    options = StackOptions(credit=CreditOptions(window=4, queue_max=4))

    async def program() -> None:
        async with static(NETWORK, NAMES[0], ports, "fifo", options) as group:
            with pytest.raises(SendTimeout) as caught:
                for _ in range(30):
                    await group.send(b"x", to=[NAMES[0], NAMES[1]], timeout=0.05)
            assert isinstance(caught.value, LocalError) and isinstance(caught.value, TimeoutError)
            text = str(caught.value)
            assert text.startswith("not sent within 0.05 s; waiting for the application here to read what it was sent")
            assert f"site {NAMES[1]} to read what it was sent: it has not been heard in" in text
            assert NAMES[2] not in text
            raise ZeroDivisionError  # leave at once

    with pytest.raises(ZeroDivisionError):
        run(program())


def test_a_long_wait_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    ports = free_ports(NAMES)

    async def program() -> None:
        async with static(NETWORK, NAMES[0], ports, "fifo") as group:
            await group.send(b"x")
            assert not await group.settle(1.3)
            raise TimeoutError

    with pytest.raises(TimeoutError):
        run(program())
    (line,) = [record.getMessage() for record in caplog.records if "waited" in record.getMessage()]
    words = rf"settle has waited \d\.\d s for site {NAMES[1]} to acknowledge: it has not been heard in \d\.\d s; site"
    assert re.match(words, line)


def test_a_group_works_under_uvloop() -> None:
    uvloop = pytest.importorskip("uvloop")

    async def program() -> None:
        async with static(ALONE, "c0-0", {"c0-0": free_ports(NAMES)[NAMES[0]]}) as group:
            for _ in range(200):
                await group.send(b"x")
            for _ in range(200):
                await anext(group)
            assert await group.settle()

    uvloop.run(asyncio.wait_for(program(), TIMEOUT_S))


@pytest.mark.parametrize(
    ("stack", "rule"), [("symmetric", "fixed"), ("hybrid", "fixed"), ("dynamic-hybrid", "planned")]
)
def test_a_stack_means_the_same_as_in_a_scenario(stack: str, rule: str) -> None:
    group = static(NETWORK, NAMES[0], dict(zip(NAMES, (5001, 5002, 5003), strict=True)), stack=stack)
    options = group.runtime.groups[0].options
    assert options.hybrid.rule == rule
    assert options.hybrid.active == ((0, 1, 2) if stack == "hybrid" else None)  # the agents of three clusters
    assert options.hybrid.distances[0][1] == 2.0


def test_datagrams_are_as_large_as_the_path_takes() -> None:
    ports = dict(zip(NAMES, (5001, 5002, 5003), strict=True))
    elsewhere: dict[str, SiteAddress] = {**ports, NAMES[2]: ("192.0.2.7", 5003)}
    assert static(NETWORK, NAMES[0], ports).runtime.datagram_bytes == 60_000
    assert static(NETWORK, NAMES[0], ports, emulate=True).runtime.datagram_bytes == 1400
    assert static(NETWORK, NAMES[0], elsewhere).runtime.datagram_bytes == 1400
    assert static(NETWORK, NAMES[0], elsewhere, datagram_bytes=8900).runtime.datagram_bytes == 8900
    with pytest.raises(InputError, match="from 576 to 60000"):
        static(NETWORK, NAMES[0], ports, datagram_bytes=100)


def test_sites_agree_on_views_unless_told_otherwise() -> None:
    """The founder begins alone, yet all sites get what it sends first."""
    ports = free_ports(NAMES)

    async def site(name: str) -> list[bytes]:
        group = join(NETWORK, name, ports)
        assert group.runtime.agreed == AgreedPlan()
        async with group:
            await group.send(name.encode())
            found = [(await anext(group)).payload for _ in NAMES]
            assert set(group.members) <= set(NAMES) and len(group.members) > 1
        return found

    async def program() -> None:
        found = await asyncio.gather(*map(site, NAMES))
        assert sorted(found[0]) == sorted(name.encode() for name in NAMES)
        assert found[0] == found[1] == found[2]

    run(program())


def test_members_agree_on_views_unless_asked_not_to_or_unable(caplog: pytest.LogCaptureFixture) -> None:
    ports = free_ports(NAMES)
    assert join(NETWORK, NAMES[0], ports, "unordered", StackOptions(bare=True)).runtime.agreed is None
    assert "membership is static: groups of datagrams cannot agree on views" in caplog.text
    assert static(NETWORK, NAMES[0], ports).runtime.agreed is None
    for stack in STACKS:
        assert join(NETWORK, NAMES[0], ports, stack).runtime.agreed is not None
        assert site_of(NETWORK, NAMES[0], ports, groups=[GroupPlan(stack=stack)]).runtime.agreed is not None
    participants = StackOptions(participants=ParticipantsOptions())
    assert join(NETWORK, NAMES[0], ports, options=participants).runtime.agreed is not None
    assert site_of(NETWORK, NAMES[0], ports, groups=[GroupPlan()], membership="static").runtime.agreed is None
    with pytest.raises(InputError, match="an AgreedPlan"):
        join(NETWORK, NAMES[0], ports, membership="fixed")  # type: ignore[arg-type]


def test_an_operator_need_not_wait_and_others_say_what_they_wait_for() -> None:
    """An operator's group begins with whoever is there; another says whom it waits for."""
    ports = free_ports(NAMES)

    async def program() -> None:
        async with join(NETWORK, NAMES[0], ports, membership=AgreedPlan(found=True)) as group:
            await group.send(b"alone", timeout=10)
        async with join(NETWORK, NAMES[0], free_ports(NAMES)) as group:
            with pytest.raises(SendTimeout, match="a view that admits this site"):
                await group.send(b"nobody", timeout=0.2)

    run(program())


def test_settle_says_no_once_after_a_life_that_ended_with_messages_unacknowledged() -> None:
    """The next life has nothing pending: settle said that the others had what was lost with the last one."""

    async def program() -> None:
        runtime: Any = SimpleNamespace(joined=lambda: None)
        joined: Any = SimpleNamespace(options=SimpleNamespace(credit=CreditOptions()))
        pending = [b"unacknowledged"]
        application: Any = SimpleNamespace(settled=lambda: not pending)
        queue = SendQueue(runtime, joined, application)
        queue.clear()  # the life ends,
        pending.clear()  # and the next one has sent nothing
        assert not await queue.settle(1.0)
        assert await queue.settle(1.0)
        queue.clear()
        assert await queue.settle(1.0), "all had been acknowledged"

    run(program())


def test_what_is_submitted_as_the_view_changes_is_traced_as_sent_in_the_new_one() -> None:
    """It enters the stack at the end of the turn: safe delivery promises the view that it was sent in."""

    async def program() -> None:
        gauges: list[tuple[int, int, Any]] = []
        host = SimpleNamespace(gauge=lambda gauge, value, cast: gauges.append((gauge, value, cast)))
        stack = SimpleNamespace(view=View(8, (SiteId(0),)))
        submitted: list[Any] = []
        application: Any = SimpleNamespace(
            host=host, stack=stack, submit_all=submitted.extend, submit=lambda cast, *_: submitted.append(cast)
        )
        port = SimpleNamespace(incarnation=1)
        joined: Any = SimpleNamespace(options=SimpleNamespace(credit=CreditOptions()), port=port, members=(0,))
        queue = SendQueue(SimpleNamespace(), joined, application)  # type: ignore[arg-type]
        first, second = Cast(SiteId(0), 1, b"first"), Cast(SiteId(0), 2, b"second")
        queue.casts.append(first)
        queue.note_view(View(8, (SiteId(0),)))
        queue.casts.append(second)
        queue.gather()
        assert submitted == [first, second]
        assert gauges == [(Gauge.SENT_VIEW, 8, first)]
        queue.casts.append(second)
        queue.gather()
        assert len(gauges) == 1

    run(program())
