"""The numbers of a sender's frames, by tables: what came before at each target, and how far each was sent."""

from __future__ import annotations

import pytest

from isthmus.core.message import Cast, SiteId, Targets
from isthmus.protocols.transport.reliable.frames import Data
from isthmus.protocols.transport.reliable.outgoing import Outgoing

MEMBERS: Targets = tuple(SiteId(site) for site in range(7))
ALL = "0123456"


def send(out: Outgoing, targets: str) -> Data[Cast]:
    to = out.members if targets == ALL else tuple(SiteId(int(site)) for site in targets)
    return out.frame(Cast(SiteId(0), out.seq + 1), to)  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("sent", "targets", "prevs"),
    [
        # To all, again and again: nothing needs saying.
        ([], ALL, None),
        ([ALL], ALL, None),
        ([ALL, ALL, ALL], ALL, None),
        # To some: what came before at each of them.
        ([], "12", (0, 0)),
        ([ALL, ALL], "12", (2, 2)),
        ([ALL, "12"], "12", (2, 2)),
        ([ALL, "12"], "23", (2, 1)),
        ([ALL, "12", "23"], "1234", (2, 3, 3, 1)),
        (["5"], "5", (1,)),
        (["5", "5", "4"], "54", (2, 3)),
        # To all after some: said once for all, and then not any more.
        ([ALL, "12"], ALL, (1, 2, 2, 1, 1, 1, 1)),
        (["12", "34", "1"], ALL, (0, 3, 1, 2, 2, 0, 0)),
        ([ALL, "12", ALL], ALL, None),
        ([ALL, "12", ALL], "6", (3,)),
        (["1", ALL, "2"], ALL, (2, 2, 3, 2, 2, 2, 2)),
    ],
)
def test_a_frame_names_the_one_before_it_at_each_target(
    sent: list[str], targets: str, prevs: tuple[int, ...] | None
) -> None:
    out = Outgoing(MEMBERS)
    for earlier in sent:
        send(out, earlier)
    data = send(out, targets)
    assert data.seq == len(sent) + 1
    assert data.prevs == (prevs or ()) and (data.targets == () or targets != ALL)
    for site in data.targets or MEMBERS:
        before = [place for place, earlier in enumerate(sent, start=1) if str(site) in earlier]
        assert data.prev(site, MEMBERS) == max(before, default=0), "as the receiver reads it"


@pytest.mark.parametrize(
    ("sent", "lasts"),
    [
        ([], (0, 0, 0, 0, 0, 0, 0)),
        ([ALL, ALL], (2, 2, 2, 2, 2, 2, 2)),
        ([ALL, "12", "2"], (1, 2, 3, 1, 1, 1, 1)),
        (["6", "06"], (2, 0, 0, 0, 0, 0, 2)),
        (["6", ALL], (2, 2, 2, 2, 2, 2, 2)),
        ([ALL, "1", ALL, "3"], (3, 3, 3, 4, 3, 3, 3)),
    ],
)
def test_the_last_frame_for_a_member_is_not_the_last_of_all(sent: list[str], lasts: tuple[int, ...]) -> None:
    """A receiver that a Status told of a frame for others would ask for it for ever."""
    out = Outgoing(MEMBERS)
    for targets in sent:
        send(out, targets)
    assert tuple(out.last(site) for site in MEMBERS) == lasts
