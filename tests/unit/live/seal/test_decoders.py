"""Every decoder that faces the socket or a file, under whatever may come."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.harness.sealed_network import SealedNetwork, identities_of, keys_of

from isthmus.core.errors import InputError, RemoteError
from isthmus.core.message import SiteId
from isthmus.live.net.framing import ANSWER, GREET, HELLO, MAGIC, REFUSAL, SEALED, VERSION, head, read_head, split
from isthmus.live.net.hello import read_hello, read_refusal
from isthmus.live.seal.keys import CLUSTER, IDENTITY, SITE, KeyLine, read_lines, seal_keys
from isthmus.live.seal.noise import Answerer, Greeter
from isthmus.live.seal.wire import CONTROL_GROUP, GREET_BYTES, SealError

A, B = SiteId(0), SiteId(1)
KINDS = st.sampled_from([0, 1, 2, SEALED, GREET, ANSWER, 6, 255])
LENGTHS = st.sampled_from([0, 15, 16, 31, 32, 100, 148, 191, GREET_BYTES, 193])


@st.composite
def datagrams(draw: st.DrawFn, net: SealedNetwork) -> bytes:
    """Noise, noise that begins as ours does and names true indices and keys, or a true datagram with a change."""
    form = draw(st.integers(0, 2))
    if form == 0:
        return draw(st.binary(max_size=300))
    if form == 1:
        machine = net.machines[B]
        index = draw(st.sampled_from([*machine.sessions, bytes(4), b"\0\0\0\0", b"\0\0\0\1"]))
        rest = draw(st.sampled_from([*machine.key_by_id, bytes(8), b"\xff" * 8]))
        beginning = MAGIC + bytes([draw(st.sampled_from([VERSION, 3, 0])), draw(KINDS)]) + index + rest
        return (beginning + draw(st.binary(max_size=200))).ljust(draw(LENGTHS), b"\0")
    _, _, datagram = draw(st.sampled_from(net.wire))
    place = draw(st.integers(0, len(datagram) - 1))
    return datagram[:place] + draw(st.binary(min_size=0, max_size=20)) + datagram[place + draw(st.integers(0, 20)) :]


def network(mode: str) -> SealedNetwork:
    keys = identities_of(["s0", "s1"], b"first")
    net = SealedNetwork(1, 2, keys.__getitem__ if mode == "identity" else lambda _: keys_of(b"first"))
    for number in range(5):
        net.send(A, B, b"%d" % number)
        net.send(B, A, b"%d" % number)
        net.run(100)
    return net


NETWORKS = {mode: network(mode) for mode in ("key", "identity")}


@pytest.mark.parametrize("mode", ["key", "identity"])
@given(data=st.data())
@settings(max_examples=300, deadline=None)
def test_whatever_comes_is_dropped_and_counted(mode: str, data: st.DataObject) -> None:
    net = NETWORKS[mode]
    machine = net.machines[B]
    before, sessions = sum(machine.dropped.values()), dict(machine.sessions)
    assert machine.open(A, data.draw(datagrams(net)), net.now_ns) is None
    assert sum(machine.dropped.values()) == before + 1
    assert machine.sessions == sessions and not machine.out


@given(
    plain=st.one_of(
        st.binary(min_size=1, max_size=200), st.binary(max_size=50).map(lambda rest: b"\0\0\xff\xfd" + rest)
    )
)
@settings(max_examples=300, deadline=None)
def test_what_a_member_seals_is_a_clear_datagram_or_no_datagram(plain: bytes) -> None:
    """A member may lie: what it seals goes the way of clear datagrams, whose decoders refuse what is none."""
    net = NETWORKS["key"]
    sealed = net.machines[A].seal(B, head(A, net.lives[A], 77) + plain, net.now_ns)
    opened = net.machines[B].open(A, sealed, net.now_ns)
    if opened is None:
        assert plain.startswith(b"\0\0\xff\xfd") and len(plain) <= 8  # with nothing in it
        return
    beginning, rest = opened
    found = read_head(beginning + rest)
    assert (found.site, found.life) == (A, net.lives[A])
    is_control = plain[:4] == b"\0\0" + CONTROL_GROUP.to_bytes(2, "big")
    assert (found.kind == 0) is not is_control and rest == (plain[8:] if is_control else plain)
    try:
        if found.kind == HELLO:
            read_hello(beginning + rest)
        elif found.kind == REFUSAL:
            read_refusal(beginning + rest)
        elif found.kind == 0:
            assert sum(8 + len(packet) for _, _, packet in split(rest, 0)) == len(rest)
    except RemoteError:
        pass


@given(message=st.binary(max_size=200), identity=st.booleans())
@settings(max_examples=200, deadline=None)
def test_no_noise_is_a_handshake(message: bytes, identity: bool) -> None:
    own = b"i" * 32 if identity else b""
    with pytest.raises(SealError):
        Answerer(b"p" * 32, b"", own).read(message)
    greeter = Greeter(b"p" * 32, b"", b"e" * 32, own)
    greeter.write(b"")
    with pytest.raises(SealError):
        greeter.read(message)


WORDS = st.sampled_from([CLUSTER, SITE, IDENTITY, "isthmus-key-2", "#", "", "A" * 43 + "=", "AAAA", "paris", "=", "é"])


@given(
    text=st.one_of(
        st.text(max_size=200), st.lists(st.lists(WORDS, max_size=4).map(" ".join), max_size=8).map("\n".join)
    )
)
@settings(max_examples=300, deadline=None)
def test_a_key_file_is_read_or_refused_in_a_sentence(text: str) -> None:
    try:
        lines = read_lines(text, "cluster.key")
        keys = seal_keys(lines, "cluster.key")
    except InputError as error:
        assert "cluster.key" in str(error) and "expected" in str(error)
    else:
        assert keys.cluster and keys.mode == "key"
        assert read_lines("\n".join(map(str, lines)), "again") == lines


@given(
    secret=st.binary(min_size=32, max_size=32), comment=st.text(max_size=30).map(lambda text: " ".join(text.split()))
)
def test_a_line_is_read_as_it_was_written_and_no_secret_is_shown(secret: bytes, comment: str) -> None:
    line = KeyLine(CLUSTER, secret, comment)
    assert read_lines(str(line), "file") == [line]
    keys = seal_keys([line], "file")
    assert secret.hex() not in repr(keys) and repr(secret) not in repr((keys, keys.cluster))
    assert msgspec.structs.replace(keys, identity=b"x").mode == "identity"
