"""The transport for networks that neither lose, duplicate nor reorder: it adds nothing.

Studies use it to measure an ordering protocol alone. It asks of the network what the papers assume: reliable FIFO
channels, and a multicast that reaches all of its targets or, where its sender was down, none. Under layers that bring
messages into order themselves, channels may reorder. Each message is a packet of its own, as in the papers: this
transport batches nothing and adds no header.
"""

from __future__ import annotations

from typing import Any

from isthmus.core.errors import RemoteError
from isthmus.core.layer import Handler, View
from isthmus.core.message import ALL, Batch, Carried, Cast, Message, SiteId, Targets
from isthmus.protocols.transport.base import Transport


class Direct(Transport):
    """Hands every message straight to the network and straight up."""

    __slots__ = ("members",)

    def handlers(self) -> dict[type[Message], Handler]:
        """Handlers of the layers above, straight from the network; messages with an author are checked first."""
        owned: dict[type[Message], Handler] = {}
        for kind, handler in self.stack.owners.items():
            unchecked = kind.forwarded or kind.subjects is Message.subjects
            owned[kind] = handler if unchecked else self.on_authored
        return {Cast: self.on_cast, Carried: self.on_carried} | owned

    def install(self, view: View) -> None:
        super().install(view)
        self.members = view.members

    def submit(self, message: Message, targets: Targets = ALL) -> None:
        assert type(message) is not Batch
        if self.blocked:
            return
        if targets:
            targets = tuple(site for site in targets if site in self.members)
            if targets:
                self.send(targets, message)
        else:
            self.send(self.members, message)

    def on_cast(self, source: SiteId, cast: Cast) -> None:
        if cast.sender != source:
            raise RemoteError(f"site {source} sent a message of another author: {cast}")
        self.above.deliver(cast)

    def on_carried(self, source: SiteId, carried: Carried[Any]) -> None:
        self.check_body(source, carried)
        self.above.deliver(carried)

    def on_authored(self, source: SiteId, body: Message) -> None:
        self.check_body(source, body)
        self.stack.owners[type(body)](source, body)
