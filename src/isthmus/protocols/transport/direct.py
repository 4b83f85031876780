"""The transport for networks that neither lose, repeat nor reorder: it adds nothing but the view.

Studies use it to measure an ordering protocol alone. It asks of the network what the papers assume: reliable FIFO
channels, and a multicast that reaches all of its targets or, where its sender was down, none. Under layers that bring
messages into order themselves, channels may reorder.
"""

from __future__ import annotations

from isthmus.core.layer import Handler
from isthmus.core.message import Body, Cast, Message, SiteId, Targets
from isthmus.protocols.transport.base import Transport


class Plain(Message, frozen=True, gc=False, array_like=True, tag=15):
    """A message as it is."""

    view_id: int
    body: Body

    def payload_bytes(self) -> int:
        return self.body.payload_bytes()

    def subject(self) -> Cast | None:
        return self.body.subject()


class Direct(Transport):
    """Hands every message straight to the network and straight up."""

    __slots__ = ()

    def handlers(self) -> dict[type[Message], Handler]:
        return {Plain: self.on_plain}

    def multicast(self, message: Message, targets: Targets) -> None:
        members = self.view.members
        chosen = tuple(site for site in targets if site in members) if targets else members
        if chosen:
            self.host.send(chosen, Plain(self.view.view_id, message))

    def on_plain(self, source: SiteId, plain: Plain) -> None:
        if plain.view_id == self.view.view_id:
            self.check_body(source, plain.body)
            self.hand_up(source, plain.body)
