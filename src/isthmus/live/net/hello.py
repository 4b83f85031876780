"""Datagrams beside messages: a Hello says what its sender runs, a Refusal which life of a site is not taken.

A Hello has all that goes into the token of a run as text, so that two sites whose tokens differ can name the reason.
Only what must be the same everywhere is in it, not the delays of a topology or local bounds.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Annotated, TypeVar

import msgspec

from isthmus.core.errors import RemoteError
from isthmus.core.message import PACKET_HEAD_BYTES
from isthmus.live.net.framing import VERSION
from isthmus.topology.model import Topology

TEXT_MAX = 200
ADDRESSES_MAX = 64  # a digest stands for more
OTHER_RUN = "is of another run of the same groups"
ShortText = Annotated[str, msgspec.Meta(max_length=TEXT_MAX, pattern=r"^[^\x00-\x1f\x7f]*$")]  # they go into a log
N = TypeVar("N")


class GroupHello(msgspec.Struct, frozen=True, array_like=True):
    """What a site runs in one group."""

    group: int
    name: ShortText
    stack: ShortText
    members: tuple[int, ...]
    options: dict[ShortText, ShortText]  # those that must be the same at all sites, as text


class Hello(msgspec.Struct, frozen=True, array_like=True):
    """What a site runs."""

    version: int
    site: ShortText
    topology: ShortText
    topology_digest: ShortText
    addresses: tuple[ShortText, ...]  # of the sites, in the order of the topology
    groups: tuple[GroupHello, ...]
    asks: bool = False  # for the receiver's own Hello


class Refusal(msgspec.Struct, frozen=True, array_like=True):
    """The receiver's life is not taken: the sender knows another one."""

    life: int  # that is refused
    known: int  # the life of that site that was heard before


encode_body = msgspec.msgpack.Encoder().encode
_hello = msgspec.msgpack.Decoder(Hello)
_refusal = msgspec.msgpack.Decoder(Refusal)


def read_hello(datagram: bytes) -> Hello:
    return _read(_hello, datagram)


def read_refusal(datagram: bytes) -> Refusal:
    return _read(_refusal, datagram)


def _read(decoder: msgspec.msgpack.Decoder[N], datagram: bytes) -> N:
    try:
        return decoder.decode(datagram[PACKET_HEAD_BYTES:])
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise RemoteError(f"a greeting of {len(datagram)} bytes does not decode: {error}") from error


def hello_of(topology: Topology, site: int, addresses: tuple[str, ...], groups: tuple[GroupHello, ...]) -> Hello:
    """The greeting of a site."""
    names = [(each.name, topology.clusters[each.cluster].name) for each in topology.sites]
    shown = addresses if len(addresses) <= ADDRESSES_MAX else (digest(addresses).hex(),)
    name = topology.sites[site].name
    return Hello(VERSION, name, topology.name, digest(names).hex(), shown, groups)


def token_of(hello: Hello) -> int:
    """A number that is the same at all sites whose greetings differ only in the name of the sender."""
    return int.from_bytes(digest((hello.version, hello.topology, hello.topology_digest, hello.addresses, hello.groups)))


def short_text(text: str) -> str:
    """A text as a Hello carries it; a digest stands for the end of a long one."""
    return text if len(text) <= TEXT_MAX else f"{text[: TEXT_MAX - 20]}... {digest(text).hex()}"


def digest(value: object) -> bytes:
    return blake2b(repr(value).encode(), digest_size=8).digest()


def difference(ours: Hello, theirs: Hello) -> str:
    """How a site of another run differs, as a phrase that follows its name."""
    if theirs.version != ours.version:
        return f"speaks version {theirs.version} of the wire format, here version {ours.version}"
    if theirs.topology != ours.topology:
        return f"is in the topology {theirs.topology}, here {ours.topology}"
    if theirs.topology_digest != ours.topology_digest:
        return f"has other sites or clusters in the topology {theirs.topology}"
    if theirs.addresses != ours.addresses:
        pairs = zip(theirs.addresses, ours.addresses, strict=False)
        there, here = next((pair for pair in pairs if pair[0] != pair[1]), ("another address", "some"))
        return f"expects a site at {there}, here at {here}"
    for mine, other in zip(ours.groups, theirs.groups, strict=False):
        if mine != other:
            return group_difference(mine, other)
    if len(ours.groups) != len(theirs.groups):
        return f"has {len(theirs.groups)} groups, here there are {len(ours.groups)}"
    return OTHER_RUN


def group_difference(ours: GroupHello, theirs: GroupHello) -> str:
    where = f" in the group {ours.name}" if ours.name else ""
    if theirs.name != ours.name:
        return f"calls group {ours.group} {theirs.name!r}, here it is {ours.name!r}"
    if theirs.stack != ours.stack:
        return f"runs the stack {theirs.stack}{where}, here {ours.stack}"
    if theirs.members != ours.members:
        return f"has other members{where}"
    for key in ours.options:
        if theirs.options.get(key) != ours.options[key]:
            return f"has the option {key} {theirs.options.get(key, 'unset')}{where}, here {ours.options[key]}"
    return f"has other options{where}"
