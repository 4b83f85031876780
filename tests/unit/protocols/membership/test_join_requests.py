"""Which answers a joiner counts."""

from __future__ import annotations

from isthmus.core.message import SiteId
from isthmus.protocols.membership.succession import LONGEST, PART, JoinRequests
from isthmus.protocols.membership.wire import JoinAck

FRESH_NS = 1000
MEMBER = SiteId(1)


def answered_at(request_ns: int, now_ns: int, asking_ns: int = 0) -> bool:
    """Whether the answer to a request counts, at one that has asked since a time."""
    requests = JoinRequests(FRESH_NS)
    requests.answered(asking_ns)
    requests.note_answer(MEMBER, JoinAck(0, 0, request_ns))
    return requests.answered(now_ns) == ((MEMBER, 0),)


def test_an_answer_counts_while_it_is_fresh() -> None:
    assert answered_at(0, FRESH_NS - 1)
    assert not answered_at(0, FRESH_NS)


def test_one_that_has_asked_for_long_counts_older_answers() -> None:
    now_ns = 100 * FRESH_NS
    assert answered_at(now_ns - now_ns // PART + 1, now_ns)
    assert not answered_at(now_ns - now_ns // PART, now_ns)
    assert not answered_at(now_ns - now_ns // PART + 1, now_ns, asking_ns=now_ns - FRESH_NS)


def test_no_answer_counts_for_ever() -> None:
    now_ns = 1000 * LONGEST * FRESH_NS
    assert not answered_at(now_ns - LONGEST * FRESH_NS, now_ns)
