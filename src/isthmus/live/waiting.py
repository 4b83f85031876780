"""What a stack waits for, in words: who has not acknowledged, who gives no credit, and since when nobody heard of it."""

from __future__ import annotations

from isthmus.core.layer import Layer, Stack
from isthmus.core.message import SiteId
from isthmus.live.peers import Peers
from isthmus.protocols.transport.base import Transport
from isthmus.protocols.transport.credit import Credit


def unacknowledged(stack: Stack) -> list[SiteId]:
    """The members that have not acknowledged all that they were sent."""
    return list(stack.find(Transport).lagging())


def without_credit(stack: Stack) -> list[SiteId]:
    """The members whose applications have not read enough to be sent more."""
    credit: Layer | None = next((layer for layer in stack.layers if isinstance(layer, Credit)), None)
    if not isinstance(credit, Credit):
        return []
    return [site for site in stack.view.members if credit.lacks_credit(site)]


def owed(stack: Stack) -> list[SiteId]:
    """The members that must be heard before all that was sent has arrived and been read."""
    return list(dict.fromkeys([*unacknowledged(stack), *without_credit(stack)]))


def waited_for(stack: Stack, peers: Peers, now_ns: int) -> str:
    """What keeps the stack from being done with what was sent, for people."""
    parts = []
    for site in without_credit(stack):
        if site == peers.site:
            parts.append("the application here to read what it was sent")
        else:
            parts.append(f"{peers.name(site)} to read what it was sent: it {peers.since(site, now_ns)}")
    credited = without_credit(stack)
    for site in unacknowledged(stack):
        if site not in credited:
            parts.append(f"{peers.name(site)} to acknowledge: it {peers.since(site, now_ns)}")
    return "; ".join(parts) or "the order of messages under way"
