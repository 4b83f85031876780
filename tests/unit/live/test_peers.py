"""Which datagrams of the other sites are taken, life by life."""

from __future__ import annotations

from isthmus.core.message import SiteId
from isthmus.live.net.framing import REFUSAL, head
from isthmus.live.net.hello import Refusal, encode_body
from isthmus.live.node.peers import Peers
from isthmus.live.node.site import NOBODY

HERE, THERE = SiteId(0), SiteId(1)
LIFE, TOKEN = 5_000, 77


def peers(renewable: bool) -> Peers:
    return Peers(HERE, LIFE, TOKEN, ("here", "there"), NOBODY, lambda *_: None, 0, renewable)


def refusal() -> bytes:
    return head(THERE, 3_000, TOKEN, REFUSAL) + encode_body(Refusal(LIFE, 4_000))


def test_a_refusal_stops_a_site_with_static_membership() -> None:
    known = peers(renewable=False)
    known.admits(THERE, refusal(), 10)
    assert "refuses this site" in known.refused_why


def test_a_refusal_is_no_message_of_agreed_membership() -> None:
    """Sent from the port of a site that was down, it stopped a member: nobody else had a use for it."""
    known = peers(renewable=True)
    assert not known.admits(THERE, refusal(), 10)
    assert not known.refused_why and known.foreign_count == 1
