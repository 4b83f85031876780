"""Datagrams: heads, batching, bounds, and what is refused."""

from __future__ import annotations

from random import Random

import pytest

from isthmus.core.errors import LocalError, RemoteError
from isthmus.core.message import SiteId
from isthmus.live.net import framing

HEAD = framing.head(SiteId(3), 10**18, 77)
LIMIT = framing.PATH_DATAGRAM_BYTES


def entries(*packets: bytes) -> list[bytes]:
    return [framing.entry(2, 5, packet) for packet in packets]


def test_a_head_is_24_bytes_and_comes_apart() -> None:
    assert len(HEAD) == 24
    assert framing.read_head(HEAD) == framing.Head(framing.MESSAGES, SiteId(3), 10**18, 77)
    assert framing.read_head(framing.head(SiteId(1), 2, 3, framing.REFUSAL)).kind == framing.REFUSAL


def test_messages_come_apart_as_they_went_in() -> None:
    packets = [b"", b"a", b"bc" * 100]
    (datagram,) = framing.join(HEAD, entries(*packets), LIMIT)
    assert len(datagram) == 24 + 3 * 8 + 201
    assert framing.split(datagram) == [(2, 5, packet) for packet in packets]


def test_datagrams_are_filled_in_order_up_to_their_bound() -> None:
    packets = [bytes([number]) * 300 for number in range(20)]
    datagrams = list(framing.join(HEAD, entries(*packets), LIMIT))
    assert all(len(datagram) <= LIMIT for datagram in datagrams)
    assert len(datagrams) == 5
    assert [packet for datagram in datagrams for _, _, packet in framing.split(datagram)] == packets


def test_a_large_message_travels_alone() -> None:
    datagrams = framing.join(HEAD, entries(b"a", bytes(framing.MESSAGE_MAX), b"b"), LIMIT)
    assert [len(framing.split(datagram)) for datagram in datagrams] == [1, 1, 1]


def test_a_message_that_is_too_large_is_our_mistake() -> None:
    framing.check_size(bytes(framing.MESSAGE_MAX))
    with pytest.raises(LocalError, match="does not fit"):
        framing.check_size(bytes(framing.MESSAGE_MAX + 1))


def test_nothing_to_send_is_no_datagram() -> None:
    assert list(framing.join(HEAD, [], LIMIT)) == []


@pytest.mark.parametrize(("datagram_bytes", "frame_bytes"), [(60_000, 32_000), (1400, 1328)])
def test_a_frame_fits_its_datagram(datagram_bytes: int, frame_bytes: int) -> None:
    assert framing.frame_bytes_for(datagram_bytes) == frame_bytes


@pytest.mark.parametrize("datagram", [b"", b"iS", b"hello", b"xx" + HEAD[2:], HEAD[:-1]])
def test_another_program_is_foreign(datagram: bytes) -> None:
    with pytest.raises(framing.Foreign):
        framing.read_head(datagram)


@pytest.mark.parametrize("version", [framing.VERSION - 1, framing.VERSION + 1])
def test_another_version_is_told_apart_whatever_follows(version: int) -> None:
    with pytest.raises(framing.OtherVersion) as caught:
        framing.read_head(b"iS" + bytes([version]))
    assert caught.value.version == version


@pytest.mark.parametrize("rest", [b"", b"\0", b"\0\5\0\0\0\0\0\1abc", b"\0\1\0\0\0\0\0\1a\0"])
def test_half_a_datagram_is_garbled(rest: bytes) -> None:
    with pytest.raises(RemoteError):
        framing.split(HEAD + rest)


def test_all_messages_of_a_datagram_are_taken_or_none() -> None:
    first, second = entries(b"one", b"two")
    for end in range(1, len(second)):
        with pytest.raises(RemoteError):
            framing.split(HEAD + first + second[:end])


def test_noise_never_does_more_than_be_refused() -> None:
    random = Random(1)
    for _ in range(2000):
        noise = HEAD + random.randbytes(random.randrange(40))
        try:
            found = framing.split(noise)
        except RemoteError:
            continue
        assert HEAD + b"".join(framing.entry(*each) for each in found) == noise
