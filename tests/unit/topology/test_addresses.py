"""Addresses as text: what is taken, what is refused and how."""

from __future__ import annotations

import tomllib

import pytest

from isthmus.core.errors import InputError
from isthmus.core.validation import BadValue
from isthmus.topology.addresses import Endpoint, endpoint
from isthmus.topology.load import topology_from_tables
from isthmus.topology.written import topology_to_toml

LAN = {"lan": {"delay": 0.1}}


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("10.0.0.1:7000", Endpoint("10.0.0.1", 7000)),
        ("paris.example.org:1", Endpoint("paris.example.org", 1)),
        ("localhost:65535", Endpoint("localhost", 65535)),
        ("[::1]:7000", Endpoint("::1", 7000)),
        ("[fe80::1%eth0]:7000", Endpoint("fe80::1%eth0", 7000)),
    ],
)
def test_an_address_is_read_and_written(text: str, made: Endpoint) -> None:
    assert endpoint(text) == made
    assert str(made) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "an address such as"),
        ("paris", "an address such as"),
        (":7000", "an address such as"),
        ("paris:0", "a port from 1 to 65535"),
        ("paris:65536", "a port from 1 to 65535"),
        ("paris:http", "a port from 1 to 65535"),
        ("10.0.0.256:7000", "four numbers from 0 to 255"),
        ("::1:7000", "in brackets"),
        ("[::g]:7000", "within the brackets"),
        ("-paris:7000", "an address such as"),
        ("pa ris:7000", "an address such as"),
    ],
)
def test_what_is_no_address_is_refused(text: str, expected: str) -> None:
    with pytest.raises(BadValue) as error:
        endpoint(text)
    assert expected in error.value.expected


def test_a_topology_says_where_its_sites_listen() -> None:
    sites = [{"name": "a", "address": "10.0.0.1:7000"}, "b", {"name": "c"}]
    made = topology_from_tables({"defaults": LAN, "clusters": [{"name": "k", "sites": sites}]}, "net.toml")
    assert [site.address for site in made.sites] == ["10.0.0.1:7000", "", ""]
    again = topology_from_tables(tomllib.loads(topology_to_toml(made)), "net.toml")
    assert again.sites == made.sites


@pytest.mark.parametrize(
    ("second", "words"),
    [
        ("10.0.0.1:7000", r"clusters\[0\].sites\[1\].address: found '10.0.0.1:7000', which a has"),
        ("10.0.0.1:70000", r"clusters\[0\].sites\[1\].address: found '10.0.0.1:70000'; expected a port"),
    ],
)
def test_a_topology_with_bad_addresses_is_refused(second: str, words: str) -> None:
    sites = [{"name": "a", "address": "10.0.0.1:7000"}, {"name": "b", "address": second}]
    with pytest.raises(InputError, match=words):
        topology_from_tables({"defaults": LAN, "clusters": [{"name": "k", "sites": sites}]}, "net.toml")
