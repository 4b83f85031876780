"""What a turn has gathered, cut into frames."""

from __future__ import annotations

import pytest

from isthmus.core.message import Cast, SiteId
from isthmus.protocols.transport.base import BODY_BYTES, cut


@pytest.mark.parametrize(
    ("sizes", "limit", "parts"),
    [
        ([10], 1000, [1]),
        ([10, 10, 10], 1000, [3]),
        ([10, 10, 10], 2 * (10 + BODY_BYTES), [2, 1]),
        ([10, 10, 10], 2 * (10 + BODY_BYTES) - 1, [1, 1, 1]),
        ([5000], 1000, [1]),  # one alone may exceed the limit
        ([5000, 5000], 1000, [1, 1]),
        ([10, 5000, 10], 1000, [1, 1, 1]),
        ([0] * 100, 10 * BODY_BYTES, [10] * 10),
    ],
)
def test_parts_stay_within_the_limit(sizes: list[int], limit: int, parts: list[int]) -> None:
    bodies = [Cast(SiteId(0), number, bytes(size)) for number, size in enumerate(sizes)]
    found = cut(bodies, limit)
    assert [len(part) for part in found] == parts
    assert [body for part in found for body in part] == bodies
