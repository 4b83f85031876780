"""Timestamps as bytes: what is written is read again, in either coding; noise is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isthmus.core.errors import RemoteError
from isthmus.protocols.causal.histories.coding import Coder, Coding, put_varints, read_varints
from isthmus.protocols.causal.histories.history import SENDER_BITS, Entry

SITES = 40
EVERYONE = (1 << SITES) - 1
KNOWN = (EVERYONE, *(0b1111 << (4 * lan) for lan in range(10)), *(0b11 << (4 * lan) for lan in range(10)))
MASKS = st.integers(1, EVERYONE)
SENDERS = st.integers(0, SITES - 1)
KEYS = st.tuples(st.integers(1, 1 << 40), SENDERS).map(lambda pair: pair[0] << SENDER_BITS | pair[1])
ENTRIES = st.builds(Entry, KEYS, MASKS, st.integers(0, EVERYONE), st.one_of(st.just(0), MASKS))


def coder(coding: Coding) -> Coder:
    return Coder(EVERYONE, KNOWN, coding, 100)


@pytest.mark.parametrize("coding", ["groups", "masks"])
@given(timestamp=st.lists(ENTRIES, max_size=8).map(tuple))
def test_what_is_written_is_read(coding: Coding, timestamp: tuple[Entry, ...]) -> None:
    assert coder(coding).decode(coder(coding).encode(timestamp)) == timestamp


@pytest.mark.parametrize("coding", ["groups", "masks"])
@given(noise=st.binary(max_size=30))
def test_noise_is_read_or_refused(coding: Coding, noise: bytes) -> None:
    try:
        read = coder(coding).decode(noise)
    except RemoteError:
        return
    assert all(entry.address | entry.told | entry.injected <= EVERYONE for entry in read)


@given(numbers=st.lists(st.integers(0, 1 << 62), max_size=20))
def test_varints(numbers: list[int]) -> None:
    assert read_varints(put_varints(numbers), len(numbers)) == numbers
    with pytest.raises(RemoteError):
        read_varints(put_varints(numbers), len(numbers) + 1)


def test_whole_zones_are_short_in_groups_and_long_as_masks() -> None:
    entry = Entry(5 << SENDER_BITS | 3, 0b1111 << 36, EVERYONE ^ 1)
    assert len(coder("groups").encode((entry,))) == 8  # head, counter; one set, no mask; one set, a mask of one byte
    assert len(coder("masks").encode((entry,))) == 12  # head, counter; a mask of one byte; one of five


def test_a_timestamp_has_a_bound() -> None:
    entry = Entry(1 << SENDER_BITS, 1, 0)
    with pytest.raises(RemoteError, match="more than 100 entries"):
        coder("masks").decode(coder("masks").encode((entry,) * 101))
