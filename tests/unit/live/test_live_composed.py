"""Groups of a composition as a program uses them: one order over groups, names, refusals, routers that go and come."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.harness.live_groups import join, site_of
from tests.harness.ports import free_ports

from isthmus import Group
from isthmus.cli.router import command
from isthmus.core.errors import InputError, LocalError
from isthmus.core.message import Carried, GroupId, SiteId
from isthmus.live.api.events import Delivered
from isthmus.live.api.inbox import Inbox
from isthmus.live.node.plans import AgreedPlan
from isthmus.protocols.routing.options import RouterOptions
from isthmus.protocols.routing.routes import site_names
from isthmus.scenario.composition.load import composition_from_tables, load_composition
from isthmus.stacks.registry import StackOptions
from isthmus.topology.load import topology_from_tables

TIMEOUT_S = 120.0
EXAMPLES = Path(__file__).parents[3] / "examples"
NETWORK = topology_from_tables(
    {
        "name": "offices",
        "defaults": {"lan": {"delay": 0.5}, "wan": {"delay": 5.0}},
        "clusters": [
            {"name": "lisbon-lan", "sites": ["lisbon-0", "lisbon-1", "lisbon-router", "vault-0"]},
            {"name": "osaka-lan", "sites": ["osaka-0", "osaka-1", "osaka-router"]},
        ],
    },
    "offices",
)
OFFICES = {
    "name": "offices",
    "groups": [
        {"name": "lisbon", "members": 2, "stack": "token-site"},
        {"name": "osaka", "members": 2, "stack": "token-site"},
        {"name": "vault", "members": 1, "stack": "token-site", "open": False},
    ],
    "igps": [{"name": "cable", "stack": "token-site"}],
    "routers": [
        {"name": "lisbon-router", "joins": ["lisbon", "vault", "cable"]},
        {"name": "osaka-router", "joins": ["osaka", "cable"]},
    ],
    "domains": [{"name": "all", "wants": "causal-total", "scope": "all", "forwarding": "shadow-and-hold"}],
}
COMPOSITION = composition_from_tables(OFFICES, "offices")
PROCESSES = ("lisbon-0", "lisbon-1", "osaka-0", "osaka-1", "vault-0")
ROUTERS = ("lisbon-router", "osaka-router")


def run(program: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(program, TIMEOUT_S))


@pytest.mark.parametrize("membership", [None, "static"])
def test_messages_to_several_groups_come_in_one_order(membership: Any) -> None:
    ports, count = free_ports([site.name for site in NETWORK.sites]), 5

    async def process(name: str, all_done: asyncio.Barrier) -> list[Delivered]:
        found: list[Delivered] = []
        async with join(NETWORK, name, ports, composition=COMPOSITION, membership=membership) as group:
            if name == "vault-0":
                await group.send(b"out", groups=["lisbon"])
            for number in range(count if name != "vault-0" else 0):
                await group.send(f"{name} {number}".encode(), groups=["lisbon", "osaka"])
            if name == "lisbon-0":
                await group.send(b"inside")
            expected = {"lisbon-0": 4 * count + 2, "lisbon-1": 4 * count + 2, "vault-0": 0}.get(name, 4 * count)
            while len(found) < expected:
                found.append(await anext(group))
            await group.settle()
            await all_done.wait()
        return found

    async def program() -> None:
        async with AsyncExitStack() as stack:
            for name in ROUTERS:
                router = site_of(NETWORK, name, ports, composition=COMPOSITION, membership=membership)
                await stack.enter_async_context(router)
            all_done = asyncio.Barrier(len(PROCESSES))
            orders = await asyncio.gather(*(process(name, all_done) for name in PROCESSES))
        shared = [[one for one in order if one.payload not in (b"inside", b"out")] for order in orders[:4]]
        told = [[(one.origin, one.sender, one.payload) for one in order] for order in shared]
        assert all(order == told[0] for order in told) and len(told[0]) == 4 * count
        assert {(one.origin, one.sender) for one in shared[3]} == {
            ("lisbon", "lisbon-0"), ("lisbon", "lisbon-1"), ("osaka", "osaka-0"), ("osaka", "osaka-1"),
        }  # fmt: skip
        inside, out = ([one for one in orders[1] if one.payload == text] for text in (b"inside", b"out"))
        assert [(one.origin, one.sender) for one in (*inside, *out)] == [("lisbon", "lisbon-0"), ("vault", "vault-0")]
        assert not orders[4], "the vault is closed"

    run(program())


def test_what_cannot_be_sent_is_refused_in_a_sentence() -> None:
    ports = free_ports([site.name for site in NETWORK.sites])

    async def program() -> None:
        async with join(NETWORK, "lisbon-0", ports, composition=COMPOSITION, membership="static") as group:
            with pytest.raises(LocalError, match="a message from lisbon to vault: vault is closed"):
                await group.send(b"x", groups=["vault"])
            with pytest.raises(InputError, match="found 'madrid'; expected"):
                await group.send(b"x", groups=["madrid"])
            with pytest.raises(InputError, match="besides groups; expected either sites or groups"):
                await group.send(b"x", to=["lisbon-1"], groups=["osaka"])
            with pytest.raises(LocalError, match="a message of 50000 bytes to other groups, which take"):
                await group.send(bytes(50_000), groups=["osaka"])

    run(program())

    async def alone() -> None:
        async with join(NETWORK, "lisbon-0", ports, membership="static") as group:
            with pytest.raises(LocalError, match="from a group of no composition"):
                await group.send(b"x", groups=["osaka"])

    run(alone())


def test_sites_and_options_that_do_not_fit_are_refused_in_a_sentence() -> None:
    ports = free_ports([site.name for site in NETWORK.sites])
    with pytest.raises(InputError, match="found 'osaka-router', which is a router; expected a process of a group"):
        join(NETWORK, "osaka-router", ports, composition=COMPOSITION)
    with pytest.raises(InputError, match="found 'ring'; expected none, as the composition names the stacks"):
        join(NETWORK, "osaka-1", ports, "ring", composition=COMPOSITION)
    with pytest.raises(InputError, match="found the options of one stack; expected options by node"):
        join(NETWORK, "osaka-1", ports, options=StackOptions(), composition=COMPOSITION)
    with pytest.raises(InputError, match="options: found options by node"):
        join(NETWORK, "osaka-1", ports, options={"osaka": StackOptions()})
    with pytest.raises(InputError, match="options: found 'paris'; expected a node of the composition: lisbon, osaka"):
        join(NETWORK, "osaka-1", ports, options={"paris": StackOptions()}, composition=COMPOSITION)
    more = {"groups": [*OFFICES["groups"], {"name": "paris", "members": 1, "stack": "fifo"}]}
    domain = {"name": "all", "wants": "fifo", "groups": ["lisbon", "osaka"]}
    larger = composition_from_tables(OFFICES | more | {"domains": [domain]}, "offices")
    with pytest.raises(InputError, match="found 'paris-0', which is no site; expected a topology with a site of that"):
        join(NETWORK, "osaka-1", ports, composition=larger)
    greedy = OFFICES | {"domains": [{"name": "all", "wants": "causal-total", "scope": "all"}]}
    with pytest.raises(InputError, match=r"domains\[0\].wants: found 'causal-total' over all messages, where"):
        join(NETWORK, "osaka-1", ports, composition=composition_from_tables(greedy, "offices"))


def test_views_by_agreement_over_datagrams_are_refused_in_a_sentence() -> None:
    """Nothing is promised over datagrams, so that a domain is beside them; where nobody asks, membership is static."""
    tables = {
        "name": "air",
        "groups": [{"name": name, "members": [f"{name}-0"], "stack": "fifo"} for name in ("lisbon", "osaka", "vault")],
        "igps": [{"name": "air", "kind": "datagrams"}],
        "routers": [
            {"name": "lisbon-router", "joins": ["lisbon", "vault", "air"]},
            {"name": "osaka-router", "joins": ["osaka", "air"]},
        ],
        "domains": [{"name": "near", "groups": ["lisbon", "vault"], "wants": "fifo"}],
    }
    composition = composition_from_tables(tables, "air")
    ports = free_ports([site.name for site in NETWORK.sites])
    with pytest.raises(InputError, match="membership: found agreed, where air is datagrams; expected ideal membership"):
        join(NETWORK, "osaka-0", ports, composition=composition, membership=AgreedPlan())
    assert join(NETWORK, "osaka-0", ports, composition=composition).runtime.agreed is None


def test_a_process_of_two_groups_joins_both() -> None:
    """Their domains are disjoint, as a composition demands."""
    tables = {
        "name": "two",
        "groups": [
            {"name": "a", "members": ["lisbon-0", "lisbon-1"], "stack": "fifo"},
            {"name": "b", "members": ["osaka-0"], "stack": "fifo"},
            {"name": "c", "members": ["lisbon-0", "osaka-1"], "stack": "fifo"},
            {"name": "d", "members": ["vault-0"], "stack": "fifo"},
        ],
        "routers": [{"name": "lisbon-router", "joins": ["a", "b"]}, {"name": "osaka-router", "joins": ["c", "d"]}],
        "domains": [
            {"name": "one", "groups": ["a", "b"], "wants": "fifo"},
            {"name": "other", "groups": ["c", "d"], "wants": "fifo"},
        ],
    }
    two = composition_from_tables(tables, "two")
    ports = free_ports([site.name for site in NETWORK.sites])
    with pytest.raises(InputError, match="found a process of a, c; expected a process of one group"):
        join(NETWORK, "lisbon-0", ports, composition=two)

    async def program() -> None:
        async with AsyncExitStack() as stack:
            for name in ROUTERS:
                await stack.enter_async_context(site_of(NETWORK, name, ports, composition=two))
            reading = {
                name: await stack.enter_async_context(join(NETWORK, name, ports, composition=two))
                for name in ("lisbon-1", "osaka-0", "osaka-1", "vault-0")
            }
            groups = await stack.enter_async_context(site_of(NETWORK, "lisbon-0", ports, composition=two))
            assert list(groups.groups) == ["a", "c"]
            await groups["a"].send(b"to b", groups=["b"])
            await groups["c"].send(b"to d", groups=["d"])
            assert [(one.origin, one.payload) for one in [await anext(reading["osaka-0"])]] == [("a", b"to b")]
            assert [(one.origin, one.payload) for one in [await anext(reading["vault-0"])]] == [("c", b"to d")]

    run(program())


def test_unread_messages_of_other_groups_are_handed_over() -> None:
    """A member that joins reads them with their authors; one that names an unknown group is refused."""
    names, groups = ["a-0", "b-0", "r"], ["a", "b"]
    inbox, joiner = Inbox(names, groups, GroupId(1)), Inbox(names, groups, GroupId(1))
    inbox.put(Carried(SiteId(2), 7, b"x", (), (GroupId(0), SiteId(0), 3)), 5)
    joiner.hold()
    unread, program = joiner.split_state(inbox.unread_as_bytes() + b"state")
    joiner.put_before(unread)
    joiner.release()
    assert program == b"state"
    assert joiner.take() == Delivered("a-0", 3, b"x", (), 5, "a") and not joiner.taken


def test_a_process_and_a_router_come_back_at_once() -> None:
    """Both within the second, so under the incarnations that they had; a process has its state of a process.

    A router keeps what a joiner's filters need, but not what applications know: it is asked last.
    """
    tables = {
        "name": "two",
        "groups": [
            {"name": "a", "members": ["lisbon-0", "lisbon-1"], "stack": "token-site"},
            {"name": "b", "members": ["osaka-0", "osaka-1"], "stack": "token-site"},
        ],
        "routers": [{"name": "lisbon-router", "joins": ["a", "b"]}],
        "domains": [{"name": "all", "wants": "fifo", "scope": "inter"}],
    }
    two = composition_from_tables(tables, "two")
    ports = free_ports([site.name for site in NETWORK.sites])
    known: dict[str, list[bytes]] = {}

    def started(name: str) -> Group:
        known[name] = []
        return join(
            *(NETWORK, name, ports),
            composition=two,
            state=lambda: b"|".join(known[name]),
            restore=lambda state: known[name].extend(state.split(b"|") if state else ()),
        )

    async def read(name: str, group: Group) -> None:
        async for message in group:
            known[name].append(message.payload)

    async def until(name: str, count: int) -> None:
        while len(known[name]) < count:
            await asyncio.sleep(0.01)

    async def program() -> None:
        names = ("lisbon-0", "lisbon-1", "osaka-0", "osaka-1")
        router = await site_of(NETWORK, "lisbon-router", ports, composition=two).__aenter__()
        groups = {name: await started(name).__aenter__() for name in names}
        tasks = {name: asyncio.create_task(read(name, group)) for name, group in groups.items()}
        for number in range(3):
            await groups["lisbon-0"].send(f"early {number}".encode(), groups=["a", "b"])
        await asyncio.gather(*(until(name, 3) for name in names))
        groups["osaka-0"].runtime.close()  # the eldest of its group, without a word
        groups["osaka-0"] = await started("osaka-0").__aenter__()
        tasks["osaka-0"] = asyncio.create_task(read("osaka-0", groups["osaka-0"]))
        await until("osaka-0", 3)
        await groups["lisbon-1"].send(b"late", groups=["a", "b"])
        await asyncio.gather(*(until(name, 4) for name in names))
        router.runtime.close()
        router = await site_of(NETWORK, "lisbon-router", ports, composition=two).__aenter__()
        while any(node.blocked for node in router.nodes.values()):
            await asyncio.sleep(0.01)
        await groups["osaka-0"].send(b"last", groups=["a", "b"])
        await asyncio.gather(*(until(name, 5) for name in names))
        expected = [b"early 0", b"early 1", b"early 2", b"late", b"last"]
        assert all(order == expected for order in known.values()), known
        for group in groups.values():
            group.runtime.close()
        router.runtime.close()
        await asyncio.gather(*tasks.values())

    run(program())


RING = {
    "name": "ring",
    "groups": [{"name": "abc"[at], "members": [PROCESSES[at]], "stack": "fifo"} for at in range(3)],
    "igps": [{"name": "link", "kind": "link"}],
    "routers": [
        {"name": "lisbon-router", "joins": ["a", "link"]},
        {"name": "vault-0", "joins": ["link", "b"]},
        {"name": "osaka-router", "joins": ["b", "c"]},
        {"name": "osaka-1", "joins": ["c", "a"]},
    ],
    "domains": [{"name": "all", "wants": "fifo", "scope": "all"}],
}


@pytest.mark.parametrize("killed", ["lisbon-router", "vault-0"])
def test_messages_take_another_way_when_a_router_is_killed(killed: str) -> None:
    """With recomputed routes, in a ring of three groups; no message in between is lost or comes twice.

    One of the two sites of a link may go on without the other, and the other may not: that one finds out by silence.
    """
    ring, options = composition_from_tables(RING, "ring"), RouterOptions(routes="recomputed")
    ports = free_ports([site.name for site in NETWORK.sites])

    async def program() -> None:
        async with AsyncExitStack() as stack:
            routers = {}
            for one in RING["routers"]:
                router = site_of(NETWORK, one["name"], ports, composition=ring, router=options)  # type: ignore[index]
                routers[one["name"]] = await stack.enter_async_context(router)  # type: ignore[index]
            groups = []
            for name in PROCESSES[:3]:
                joined = join(NETWORK, name, ports, composition=ring, router=options)
                groups.append(await stack.enter_async_context(joined))
            for number in range(20):
                if number == 10:
                    assert (await anext(groups[0])).payload == (await anext(groups[1])).payload == b"0"
                    routers[killed].runtime.close()  # without a word
                await groups[0].send(str(number).encode(), groups=["b"])
                await groups[1].send(str(number).encode(), groups=["a"])
            for group in groups[:2]:
                found = [(await anext(group)).payload for _ in range(19)]
                assert found == [str(number).encode() for number in range(1, 20)]

    run(program())


def test_a_lossy_link_of_two_routers_forms_and_heals_by_itself() -> None:
    """A router that lost a question and its repeat stayed out of the link, until an operator founded it anew."""
    network = topology_from_tables(
        {
            "name": "lossy",
            "defaults": {"lan": {"delay": 0.5}, "wan": {"delay": 5.0, "loss": 0.05}},
            "clusters": [{"name": "a", "sites": ["a-0", "ra"]}, {"name": "b", "sites": ["b-0", "rb"]}],
        },
        "lossy",
    )
    tables = {
        "name": "two",
        "groups": [{"name": "a", "members": 1, "stack": "fifo"}, {"name": "b", "members": 1, "stack": "fifo"}],
        "igps": [{"name": "link", "kind": "link"}],
        "routers": [{"name": "ra", "joins": ["a", "link"]}, {"name": "rb", "joins": ["link", "b"]}],
        "domains": [{"name": "all", "wants": "fifo"}],
    }
    two, ports = composition_from_tables(tables, "two"), free_ports([site.name for site in network.sites])

    async def program() -> None:
        async with AsyncExitStack() as stack:
            routers = [site_of(network, name, ports, composition=two, emulate=True) for name in ("ra", "rb")]
            for router in routers:
                await stack.enter_async_context(router)
            groups = [join(network, name, ports, composition=two, emulate=True) for name in ("a-0", "b-0")]
            for group in groups:
                await stack.enter_async_context(group)

            def heal() -> None:
                for router in routers:
                    router.runtime.joined().socket.cut = frozenset()

            for number in range(3):
                await groups[0].send(b"%d" % number, groups=["b"])
                await groups[1].send(b"%d" % number, groups=["a"])
            for group in groups:
                assert [(await anext(group)).payload for _ in range(3)] == [b"0", b"1", b"2"]
            views = [router.nodes["link"].view.view_id for router in routers]
            for router in routers:
                router.runtime.joined().socket.cut = frozenset(map(SiteId, range(len(network.sites))))
            while not any(
                router.nodes["link"].view.view_id > view for router, view in zip(routers, views, strict=True)
            ):
                await asyncio.sleep(0.01)
            heal()
            while any(len(router.nodes["link"].view.members) < 2 or router.nodes["link"].blocked for router in routers):
                await asyncio.sleep(0.01)
            await groups[0].send(b"after", groups=["b"])
            while (await anext(groups[1])).payload != b"after":
                pass

    run(program())


def test_routes_that_may_not_be_recomputed_are_refused_in_a_sentence() -> None:
    ports, options = free_ports([site.name for site in NETWORK.sites]), RouterOptions(routes="recomputed")
    with pytest.raises(InputError, match="routes: found 'recomputed' with shadow-and-hold forwarding; expected"):
        join(NETWORK, "lisbon-0", ports, composition=COMPOSITION, router=options)
    with pytest.raises(InputError, match="routes: found 'recomputed' with shadow-and-hold forwarding; expected"):
        site_of(NETWORK, "lisbon-router", ports, composition=COMPOSITION, router=options)
    for made in (join, site_of):
        with pytest.raises(InputError, match="router: found options of routers; expected nothing without"):
            made(NETWORK, "lisbon-0", ports, router=options)


def test_a_router_runs_from_the_command_line_until_it_is_interrupted(tmp_path: Path) -> None:
    """It passes messages on between a group here and one there, and leaves in order."""
    names = ("a-0", "b-0", "bridge")
    ports = free_ports(names)
    network, composition = tmp_path / "network.toml", tmp_path / "composition.toml"
    network.write_text(
        'name = "n"\ndefaults.lan = { delay = 1 }\n[[clusters]]\nname = "lan"\nsites = ['
        + ", ".join(f'{{ name = "{name}", address = "127.0.0.1:{ports[name]}" }}' for name in names)
        + "]\n"
    )
    composition.write_text(
        'name = "two"\n'
        '[[groups]]\nname = "a"\nmembers = 1\nstack = "fifo"\n'
        '[[groups]]\nname = "b"\nmembers = 1\nstack = "fifo"\n'
        '[[routers]]\nname = "bridge"\njoins = ["a", "b"]\n'
        '[[domains]]\nname = "all"\nwants = "fifo"\n'
    )

    async def program() -> tuple[Delivered, int | None, str]:
        words = (sys.executable, "-m", "isthmus", "router", str(composition), "bridge", "--topology", str(network))
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*words, stdout=pipe, stderr=asyncio.subprocess.STDOUT)
        try:
            async with (
                join(network, "a-0", composition=composition) as sender,
                join(network, "b-0", composition=composition) as reader,
            ):
                await sender.send(b"over the bridge", groups=["b"])
                found = await anext(reader)
                process.send_signal(signal.SIGINT)
                told, _ = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
        return found, process.returncode, told.decode()

    found, code, told = run(program())
    assert (found.origin, found.sender, found.payload) == ("a", "a-0", b"over the bridge")
    assert code == 0 and "bridge joins a, b; Ctrl-C stops it" in told and "bridge has left" in told, told


def paired_network(folder: Path) -> Path:
    """The sites of examples/composition-paired.toml."""
    sites = site_names(load_composition(EXAMPLES / "composition-paired.toml"))
    path = folder / "paired.toml"
    path.write_text(f'name = "n"\ndefaults.lan = {{ delay = 1 }}\n[[clusters]]\nname = "lan"\nsites = {list(sites)}\n')
    return path


def test_a_router_that_cannot_run_is_refused_in_a_sentence(tmp_path: Path) -> None:
    example = str(EXAMPLES / "composition-paired.toml")
    network = str(EXAMPLES / "three-lans.toml")

    def refused(*words: str) -> str:
        with pytest.raises((InputError, SystemExit)) as caught:
            command.main([example, *words], standalone_mode=False)
        return str(caught.value)

    assert "found 'r'; expected SITE=HOST:PORT" in refused("r", "--topology", network, "--address", "r")
    assert "found 'recomputed' with" in refused(
        "client-router", "--topology", str(paired_network(tmp_path)), "--routes", "recomputed"
    )
    assert "with --static" in refused("r", "--topology", network, "--static", "--state", str(tmp_path))
    topology = tmp_path / "network.toml"
    topology.write_text('name = "n"\ndefaults.lan = { delay = 1 }\n[[clusters]]\nname = "lan"\nsites = ["alpha"]\n')
    assert "found 'clients-0', which is no site" in refused("alpha", "--topology", str(topology))
