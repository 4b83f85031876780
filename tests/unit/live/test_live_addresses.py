"""Sites at addresses of their own: IPv4, IPv6 and names; what is wrong with them is told."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.harness.live_groups import join

from isthmus import Group
from isthmus.cli.router import command
from isthmus.core.errors import InputError
from isthmus.core.message import SiteId
from isthmus.live.net.names import Address, Resolver, look_up
from isthmus.live.node.plans import AgreedPlan, SiteAddress
from isthmus.topology.addresses import Endpoint, endpoint
from isthmus.topology.load import topology_from_tables
from isthmus.topology.model import Topology

NAMES = ["a", "b", "c"]


def network(*addresses: str) -> Topology:
    sites = [{"name": name, "address": address} for name, address in zip(NAMES, addresses, strict=False)]
    tables = {"defaults": {"lan": {"delay": 0.1}}, "clusters": [{"name": "k", "sites": sites or NAMES}]}
    return topology_from_tables(tables, "net.toml")


def free_port(host: str) -> int:
    """A port that is free at an address; where the machine has no such address, the test is skipped."""
    try:
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM) as one:
            one.bind((host, 0))
            return int(one.getsockname()[1])
    except OSError:
        pytest.skip(f"{host} is no address of this machine")


def at(*hosts: str) -> list[str]:
    return [str(Endpoint(host, free_port(host))) for host in hosts]


async def exchange(groups: list[Group]) -> list[list[bytes]]:
    """Have each member send once, and read what all sent."""

    async def one(group: Group, all_done: asyncio.Barrier) -> list[bytes]:
        async with group:
            await group.send(group.site_name(group.site).encode())
            order = [(await anext(group)).payload for _ in groups]
            await all_done.wait()
            return order

    all_done = asyncio.Barrier(len(groups))
    return await asyncio.gather(*(one(group, all_done) for group in groups))


@pytest.mark.parametrize("hosts", [("127.0.0.1", "127.0.0.2", "127.0.0.3"), ("::1", "::1", "::1")])
def test_sites_meet_at_addresses_of_the_topology(hosts: tuple[str, ...]) -> None:
    made = network(*at(*hosts))

    async def program() -> None:
        found = await exchange([join(made, name) for name in NAMES])
        assert found[0] == found[1] == found[2] and sorted(found[0]) == [b"a", b"b", b"c"]

    asyncio.run(asyncio.wait_for(program(), 30))


def test_addresses_of_the_call_come_before_those_of_the_topology() -> None:
    made, given = (
        network("10.255.255.1:9", "10.255.255.2:9", "10.255.255.3:9"),
        at("127.0.0.1", "127.0.0.2", "localhost"),
    )
    where: dict[str, SiteAddress] = dict(zip(NAMES, given, strict=True))

    async def program() -> None:
        found = await exchange([join(made, name, addresses=where) for name in NAMES])
        assert found[0] == found[1] == found[2]

    asyncio.run(asyncio.wait_for(program(), 30))


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ({"a": "127.0.0.1:70000"}, "a: found '127.0.0.1:70000'; expected a port from 1 to 65535"),
        ({"a": 0}, "a: found 0; expected a port from 1 to 65535"),
        ({"a": "127.0.0.1:7001", "b": ("127.0.0.1", 7001)}, "b: found '127.0.0.1:7001', which a has"),
        ({"a": 7001, "b": 7002}, "c: found nothing; expected the port of every site"),
        ({"a": 7001, "b": 7002, "c": 7003, "d": 7004}, "found 'd'"),
    ],
)
def test_bad_addresses_are_told(where: dict[str, SiteAddress], words: str) -> None:
    with pytest.raises(InputError, match=words):
        join(network(), "a", addresses=where)


def open_error(where: dict[str, SiteAddress], look: Any = look_up) -> str:
    async def program() -> None:
        group = join(network(), "a", addresses=where)
        group.runtime.resolver.look = look
        async with group:
            pass

    with pytest.raises(InputError) as error:
        asyncio.run(asyncio.wait_for(program(), 30))
    return str(error.value)


def test_unknown_names_families_and_foreign_addresses_are_told_at_opening() -> None:
    def nobody(endpoint: Endpoint, family: int) -> Address:
        if endpoint.is_numeric():
            return look_up(endpoint, family)
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    port = free_port("127.0.0.1")
    told = open_error({"a": port, "b": "nowhere.invalid:7001", "c": 7002}, nobody)
    assert "b: found 'nowhere.invalid:7001', which is not known (Name or service not known)" in told
    told = open_error({"a": port, "b": "[::1]:7001", "c": 7002})
    assert "b: found '[::1]:7001'; expected an IPv4 address, as that of a is" in told
    told = open_error({"a": "127.0.0.1:7001", "b": "localhost:7001", "c": 7002})
    assert "b: found 'localhost:7001', which is also where a listens" in told
    told = open_error({"a": "192.0.2.1:7001", "b": 7001, "c": 7002})
    assert "192.0.2.1:7001, which cannot be bound" in told


def test_a_name_is_looked_up_again_when_its_link_fails() -> None:
    """Site b comes back at another address under its name; the others find it there and take it in again."""
    ports = [free_port("127.0.0.1") for _ in NAMES]
    where: dict[str, SiteAddress] = {"a": ports[0], "b": f"b.example:{ports[1]}", "c": ports[2]}
    host = "127.0.0.1"

    def look(endpoint: Endpoint, family: int) -> Address:
        return look_up(endpoint._replace(host=host) if not endpoint.is_numeric() else endpoint, family)

    def joined(name: str) -> Group:
        group = join(network(), name, addresses=where, membership=AgreedPlan())
        group.runtime.resolver.look = look
        return group

    async def program() -> None:
        nonlocal host
        async with joined("a") as a, joined("c") as c:
            b = await joined("b").__aenter__()
            while len(a.members) < 3 or len(c.members) < 3:
                await asyncio.sleep(0.01)
            b.runtime.close()
            free_port("127.0.0.2")
            host = "127.0.0.2"
            while len(a.members) > 2:
                await asyncio.sleep(0.01)
            b = await joined("b").__aenter__()
            while len(a.members) < 3 or len(c.members) < 3:
                await asyncio.sleep(0.01)
            assert a.runtime.driver is not None
            assert a.runtime.driver.socket.addresses[SiteId(1)] == ("127.0.0.2", ports[1])
            b.runtime.close()

    asyncio.run(asyncio.wait_for(program(), 60))


def test_a_name_that_is_lost_keeps_its_address(caplog: pytest.LogCaptureFixture) -> None:
    def look(_endpoint: Endpoint, _family: int) -> Address:
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure")

    async def program() -> list[Address]:
        moved: list[Address] = []
        resolver = Resolver(SiteId(0), [endpoint("127.0.0.1:1"), endpoint("b.example:1")], ["a", "b"], look)
        for _ in range(3):  # one look-up at a time, and not at once again
            resolver.look_again(SiteId(1), lambda _site, address: moved.append(address))
        resolver.look_again(SiteId(0), lambda _site, address: moved.append(address))
        await asyncio.gather(*resolver.tasks.values())
        return moved

    assert asyncio.run(program()) == []
    assert [record.message for record in caplog.records] == [
        "site b: hostname b.example cannot be resolved now: [Errno -3] Temporary failure"
    ]


def test_a_router_without_addresses_is_told_of_its_option(tmp_path: Path) -> None:
    plain = tmp_path / "net.toml"
    plain.write_text('[[clusters]]\nname = "k"\nlan = { delay = 0.1 }\nsites = ["a-0", "b-0", "bridge"]\n')
    composition = tmp_path / "composition.toml"
    groups = "".join(f'[[groups]]\nname = "{name}"\nmembers = 1\nstack = "fifo"\n' for name in "ab")
    rest = '[[routers]]\nname = "bridge"\njoins = ["a", "b"]\n[[domains]]\nname = "all"\nwants = "fifo"\n'
    composition.write_text('name = "bridged"\n' + groups + rest)
    result = CliRunner().invoke(command, [str(composition), "bridge", "--topology", str(plain)])
    assert isinstance(result.exception, InputError)
    assert str(result.exception).startswith("--address: a-0: found nothing; expected the port of every site")
