"""What a site of a flood is told before its first view, or means an earlier life of it."""

from __future__ import annotations

from tests.harness.recording import RecordingSite

from isthmus.core.layer import View
from isthmus.core.message import Batch, Cast, SiteId
from isthmus.core.port import EARLY_MAX
from isthmus.protocols.application import Application
from isthmus.protocols.causal.flooding.safe_links import SafeFlooding
from isthmus.protocols.causal.flooding.safe_wire import LinkMessage, VectorRequest
from isthmus.protocols.transport.links.channel import FreeFrame
from isthmus.protocols.transport.links.links import LIFE_BITS
from isthmus.stacks.registry import STACKS, StackOptions


def test_frames_are_dropped_unacknowledged_while_too_much_waits() -> None:
    """A frame that is acknowledged is never repeated, so it must not be dropped after that."""
    site = RecordingSite(SiteId(1))
    site.attach(STACKS["flooding-dynamic"].build(site.host, Application(), StackOptions()))
    full = Batch(tuple(LinkMessage(Cast(SiteId(0), 1 + number)) for number in range(EARLY_MAX)))
    site.receive(SiteId(0), 0, FreeFrame(1, full))
    site.drain()
    site.receive(SiteId(0), 0, FreeFrame(2, LinkMessage(Cast(SiteId(0), EARLY_MAX + 1)), ask=True))
    assert site.drain() == []
    assert len(site.host.stack.find(SafeFlooding).early) == EARLY_MAX


def test_a_request_to_an_earlier_life_is_not_answered() -> None:
    """What this life has delivered says nothing of what the link to the earlier one still carries."""
    site = RecordingSite(SiteId(1), incarnation=7)
    site.attach(STACKS["flooding-dynamic"].build(site.host, Application(), StackOptions()))
    site.run(lambda: site.host.install(View(1, (SiteId(0), SiteId(1)), (3, 7))))
    site.drain()
    site.receive(SiteId(0), 0, VectorRequest(3, 6, 1))
    assert site.drain() == []
    site.receive(SiteId(0), 0, VectorRequest(3, 7, 1))
    assert [line for line in site.drain() if "VectorReply" in line]


def test_the_end_of_a_life_does_not_end_a_later_one() -> None:
    """The first frames of a life may arrive before the record that the earlier one is over."""
    site = RecordingSite(SiteId(1))
    site.attach(STACKS["flooding-dynamic"].build(site.host, Application(), StackOptions()))
    flooding = site.host.stack.find(SafeFlooding)
    frame = FreeFrame(1, LinkMessage(Cast(SiteId(0), 1)), ask=True, lives=2 << LIFE_BITS)
    site.receive(SiteId(0), 0, frame)
    assert [line for line in site.drain() if "FreeAck" in line]
    site.run(lambda: flooding.end_life(SiteId(0), 1))
    site.receive(SiteId(0), 0, frame)
    assert [line for line in site.drain() if "FreeAck" in line]
    site.run(lambda: flooding.end_life(SiteId(0), 2))
    site.receive(SiteId(0), 0, frame)
    assert site.drain() == []
