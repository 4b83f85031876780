"""What a stack waits for, in words: which sites have not acknowledged or given credit, and when they were heard."""

from __future__ import annotations

from isthmus.core.layer import Stack
from isthmus.core.message import SiteId
from isthmus.live.peers import Peers
from isthmus.protocols.transport.base import Transport
from isthmus.protocols.transport.credit import Credit


def unacknowledged(stack: Stack) -> list[SiteId]:
    """The members that have not acknowledged all that they were sent."""
    return list(stack.find(Transport).lagging())


def without_credit(stack: Stack) -> list[SiteId]:
    """The members whose applications have not read enough to be sent more."""
    credit = next((layer for layer in stack.layers if isinstance(layer, Credit)), None)
    if credit is None:
        return []
    return [site for site in stack.view.members if credit.lacks_credit(site)]


def owed(stack: Stack) -> list[SiteId]:
    """The members that must be heard before all that was sent has arrived and been read."""
    return list(dict.fromkeys([*unacknowledged(stack), *without_credit(stack)]))


def waited_for(stack: Stack, peers: Peers, now_ns: int) -> str:
    """What keeps the stack from being done with what was sent, for people."""
    parts, slow = [], without_credit(stack)
    for site in slow:
        if site != peers.site:
            parts.append(f"{peers.name(site)} to read what it was sent: it {peers.since(site, now_ns)}")
        elif stack.find(Credit).unread_of.get(site):
            parts.append("the application here to read what it was sent")
        else:
            parts.append("the order of the messages sent here")
    late = [site for site in unacknowledged(stack) if site not in slow]
    parts += [f"{peers.name(site)} to acknowledge: it {peers.since(site, now_ns)}" for site in late]
    return "; ".join(parts) or "the order of messages under way"
