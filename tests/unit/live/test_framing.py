"""Datagrams: batching, bounds, and what is refused."""

from __future__ import annotations

from random import Random

import pytest

from isthmus.core.errors import LocalError, RemoteError
from isthmus.core.message import SiteId
from isthmus.live import framing

HEAD = framing.head(SiteId(3), 1, 77)


def test_messages_come_apart_as_they_went_in() -> None:
    packets = [b"", b"a", b"bc" * 100]
    (datagram,) = framing.join(HEAD, packets)
    assert framing.split(datagram, 77) == framing.Frame(SiteId(3), 1, packets)


def test_datagrams_are_filled_in_order_up_to_their_bound() -> None:
    packets = [bytes([number]) * 300 for number in range(20)]
    datagrams = list(framing.join(HEAD, packets))
    assert all(len(datagram) <= framing.DATAGRAM_BYTES for datagram in datagrams)
    assert len(datagrams) == 5
    assert [packet for datagram in datagrams for packet in framing.split(datagram, 77).packets] == packets


def test_a_large_message_travels_alone() -> None:
    packets = [b"a", bytes(framing.MESSAGE_MAX), b"b"]
    sizes = [len(framing.split(datagram, 77).packets) for datagram in framing.join(HEAD, packets)]
    assert sizes == [1, 1, 1]


def test_a_message_that_is_too_large_is_our_mistake() -> None:
    with pytest.raises(LocalError, match="does not fit"):
        list(framing.join(HEAD, [bytes(framing.MESSAGE_MAX + 1)]))


def test_nothing_to_send_is_no_datagram() -> None:
    assert list(framing.join(HEAD, [])) == []


@pytest.mark.parametrize("datagram", [b"", b"hello", framing.head(SiteId(3), 1, 78) + b"\0\1x", b"xx" + HEAD[2:]])
def test_another_run_or_program_is_foreign(datagram: bytes) -> None:
    with pytest.raises(framing.Foreign):
        framing.split(datagram, 77)


@pytest.mark.parametrize("rest", [b"", b"\0", b"\0\5abc", b"\0\1a\0"])
def test_half_a_datagram_is_garbled(rest: bytes) -> None:
    with pytest.raises(RemoteError):
        framing.split(HEAD + rest, 77)


def test_noise_never_does_more_than_be_refused() -> None:
    random = Random(1)
    for _ in range(2000):
        noise = HEAD + random.randbytes(random.randrange(40))
        try:
            frame = framing.split(noise, 77)
        except RemoteError:
            continue
        assert HEAD + b"".join(framing.LENGTH.pack(len(each)) + each for each in frame.packets) == noise
