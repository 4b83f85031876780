"""Wrong readings of safe links, each of which the runs with changing members must find."""

from __future__ import annotations

from isthmus.core.layer import Host, Stack, View
from isthmus.core.message import SiteId
from isthmus.protocols.application import Application
from isthmus.protocols.causal.flooding.safe_links import OutgoingLink, SafeFlooding
from isthmus.protocols.causal.flooding.safe_wire import Pong, Vector
from isthmus.protocols.transport.links.links import Links
from isthmus.stacks.registry import Build, StackOptions


class NaiveLinks(SafeFlooding):
    """Uses a new link at once: what it carries overtakes what is on its way by others."""

    __slots__ = ()

    def open(self, peer: SiteId) -> None:
        self.links.setdefault(peer, OutgoingLink(safe=True))


class NoNumbers(SafeFlooding):
    """Takes any PONG for an answer to the last PING, although the buffer was emptied since."""

    __slots__ = ()

    def is_current(self, link: OutgoingLink, pong: Pong) -> bool:
        return True


class NoVector(SafeFlooding):
    """Begins as a joiner that has delivered nothing: it takes old messages for new ones."""

    __slots__ = ()

    def take_vector(self, vector: Vector) -> None:
        """Ignore what the contact has delivered."""


class ClosesEarly(SafeFlooding):
    """Closes the links that a view does not have when it hears of the view."""

    __slots__ = ()

    def install(self, view: View) -> None:
        super().install(view)
        self.commit()


class DropsTheBuffer(SafeFlooding):
    """Forgets what it delivered while a link was opened."""

    __slots__ = ()

    def become_safe(self, peer: SiteId, link: OutgoingLink) -> None:
        link.buffer.clear()
        super().become_safe(peer, link)


def with_order(kind: type[SafeFlooding]) -> Build:
    def build(host: Host, application: Application, options: StackOptions) -> Stack:
        order = kind(options.overlay, options.dynamic)
        return Stack(host, application, order, Links(options.reliable, free=True))

    return build


PLANTED_SAFE_LINKS: dict[str, Build] = {
    "a naive link": with_order(NaiveLinks),
    "a missing number": with_order(NoNumbers),
    "a missing vector": with_order(NoVector),
    "closing too early": with_order(ClosesEarly),
    "a dropped buffer": with_order(DropsTheBuffer),
}
