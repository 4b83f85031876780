"""What a stack waits for, as text: the sites that lack acknowledgements or credit, and when they were last heard."""

from __future__ import annotations

import time
from collections.abc import Callable

from isthmus.core.layer import Stack
from isthmus.core.message import SiteId
from isthmus.live.node.peers import Peers, logger
from isthmus.protocols.routing.process import ComposedProcess
from isthmus.protocols.transport.base import Transport
from isthmus.protocols.transport.credit import Credit

LOG_S = 1.0  # after which a wait is logged,
REPEAT_S = 30.0  # and logged again


class WaitLog:
    """A log of long waits, at a bounded rate."""

    __slots__ = ("logged_s",)

    def __init__(self) -> None:
        self.logged_s = 0.0  # when a wait was last logged

    def log(self, call: str, waited_s: float, why: Callable[[], str]) -> None:
        now_s = time.monotonic()
        if now_s - self.logged_s >= (LOG_S if waited_s < 2 * LOG_S else REPEAT_S):
            self.logged_s = now_s
            logger.warning("%s has waited %.1f s for %s", call, waited_s, why())


def unacknowledged(stack: Stack) -> list[SiteId]:
    """The members with unacknowledged data."""
    return list(stack.find(Transport).lagging())


def without_credit(stack: Stack) -> list[SiteId]:
    """The members whose applications have not read enough to grant credit."""
    credit = next((layer for layer in stack.layers if isinstance(layer, Credit)), None)
    if credit is None:
        return []
    return [site for site in stack.view.members if credit.lacks_credit(site)]


def owed(stack: Stack) -> list[SiteId]:
    """The members without which not all that was sent has arrived and been read."""
    return list(dict.fromkeys([*unacknowledged(stack), *without_credit(stack)]))


def waited_for(stack: Stack, peers: Peers, now_ns: int) -> str:
    """What the stack waits for until all is sent and read, for people."""
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
    parts += beyond(stack)
    return "; ".join(parts) or "the order of messages under way"


def beyond(stack: Stack) -> list[str]:
    """What a message to other groups of a composition waits for at its sender."""
    member = next((layer for layer in stack.layers if isinstance(layer, ComposedProcess)), None)
    if member is None or not member.waiting:
        return []
    first, groups = member.waiting[0], member.routes.composition.groups
    if member.is_held(first):
        away = dict.fromkeys(groups[group].name for one in member.outstanding.values() for group in one.to)
        return [f"an earlier message to {', '.join(away)} to come back from where it is ordered"]
    full = [groups[group].name for group in member.full(first)]
    if full:
        return [f"{', '.join(full)} to read what it was sent"]
    if not member.has_way(first):
        return [f"a router to {', '.join(groups[group].name for group in first.to)}, which is not in the view"]
    return []
