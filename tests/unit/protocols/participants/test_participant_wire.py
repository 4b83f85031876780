"""Conditions of participant groups, and what a change makes of members."""

from __future__ import annotations

import pytest

from isthmus.core.errors import RemoteError
from isthmus.core.message import SiteId
from isthmus.core.validation import BadValue
from isthmus.protocols.participants.wire import Conditions, Participant, applied, check_operations, hosts_of

ANN, BOB, TWIN = Participant(SiteId(0), "ann"), Participant(SiteId(2), "bob"), Participant(SiteId(1), "ann")


@pytest.mark.parametrize(
    ("conditions", "members", "unmet"),
    [
        (Conditions(), (), ()),
        (Conditions(majority_of=("ann", "bob", "eve")), (ANN, BOB), ()),
        (Conditions(majority_of=("ann", "bob", "eve")), (ANN, TWIN), ("1 of ann, bob, eve present, no majority",)),
        (Conditions(majority_of=("ann", "bob")), (ANN,), ("1 of ann, bob present, no majority",)),
        (Conditions(present=("bob", "eve")), (ANN, BOB), ("eve missing",)),
        (Conditions(majority_of=("eve",), present=("bob",)), (ANN,), ("0 of eve present, no majority", "bob missing")),
    ],
)
def test_conditions(conditions: Conditions, members: tuple[Participant, ...], unmet: tuple[str, ...]) -> None:
    assert conditions.unmet(members) == unmet


def test_a_name_is_counted_once() -> None:
    with pytest.raises(BadValue, match="each name once"):
        Conditions(majority_of=("ann", "ann"))


def test_members_join_last_and_leave() -> None:
    assert applied((ANN,), [(SiteId(2), "bob", True), (SiteId(0), "ann", False), (SiteId(1), "ann", True)]) == (
        BOB,
        TWIN,
    )
    assert hosts_of((BOB, TWIN, ANN)) == (0, 1, 2)


def test_changes_that_no_leader_makes_are_refused() -> None:
    with pytest.raises(RemoteError, match="1 to 256"):
        check_operations((), (SiteId(0),))
    with pytest.raises(RemoteError, match="site 7"):
        check_operations([(SiteId(7), "ann", True)], (SiteId(0),))
