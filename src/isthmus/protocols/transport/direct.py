"""The transport for networks that neither lose, repeat nor reorder: it adds nothing.

Studies use it to measure an ordering protocol alone. It asks of the network what the papers assume: reliable FIFO
channels, and a multicast that reaches all of its targets or, where its sender was down, none. Under layers that bring
messages into order themselves, channels may reorder. Each message is a packet of its own, as in the papers: this
transport gathers nothing.
"""

from __future__ import annotations

from typing import Generic

from isthmus.core.layer import Handler, View
from isthmus.core.message import ALL, B, Cast, Message, SiteId, Targets
from isthmus.protocols.transport.base import Transport


class Plain(Message, Generic[B], frozen=True, gc=False, array_like=True, tag=15):
    """A message as it is."""

    body: B

    def payload_bytes(self) -> int:
        return self.body.payload_bytes()  # type: ignore[attr-defined,no-any-return]

    def subjects(self) -> tuple[Cast, ...]:
        return self.body.subjects()  # type: ignore[attr-defined,no-any-return]


class Direct(Transport):
    """Hands every message straight to the network and straight up."""

    __slots__ = ("members",)

    def handlers(self) -> dict[type[Message], Handler]:
        return {Plain: self.on_plain}

    def install(self, view: View) -> None:
        super().install(view)
        self.members = view.members

    def submit(self, message: Message, targets: Targets = ALL) -> None:
        if self.blocked:
            return
        if targets:
            targets = tuple(site for site in targets if site in self.members)
            if targets:
                self.send(targets, Plain(message))
        else:
            self.send(self.members, Plain(message))

    def on_plain(self, source: SiteId, plain: Plain[Message]) -> None:
        body = plain.body
        if type(body) is Cast and body.sender == source:
            self.above.deliver(body)
            return
        self.check_body(source, body)
        self.hand_up(source, body)
