"""Every named stack, top first."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from isthmus.core.layer import Host, Stack
from isthmus.core.message import SiteId
from isthmus.protocols.application import Application
from isthmus.protocols.total.token_site import TokenSite
from isthmus.protocols.transport.base import Transport
from isthmus.protocols.transport.credit import Credit, CreditOptions
from isthmus.protocols.transport.direct import Direct
from isthmus.protocols.transport.frames import ReliableOptions
from isthmus.protocols.transport.reliable import Reliable


class StackOptions(msgspec.Struct, frozen=True):
    """All that the stacks leave open; each takes what concerns it."""

    direct: bool = False  # over channels that neither lose nor reorder; otherwise reliable
    sequencer: SiteId | None = None  # None: the eldest member
    batch_ms: float | None = None  # the sequencer gathers messages this long for one ticket range
    credit: CreditOptions = CreditOptions()
    reliable: ReliableOptions = ReliableOptions()


def transport(options: StackOptions, fifo: bool = True) -> Transport:
    return Direct() if options.direct else Reliable(options.reliable, fifo)


def unordered(host: Host, application: Application, options: StackOptions) -> Stack:
    """Every message once, as it arrives."""
    return Stack(host, application, Credit(options.credit), transport(options, fifo=False))


def fifo(host: Host, application: Application, options: StackOptions) -> Stack:
    """Each sender's messages in the order sent."""
    return Stack(host, application, Credit(options.credit), transport(options))


def token_site(host: Host, application: Application, options: StackOptions) -> Stack:
    """One order for all, given by a fixed sequencer."""
    order = TokenSite(options.sequencer, options.batch_ms)
    return Stack(host, application, Credit(options.credit), order, transport(options))


Build = Callable[[Host, Application, StackOptions], Stack]
ALWAYS = ("integrity", "agreement", "validity", "views")


class NamedStack(msgspec.Struct, frozen=True):
    """A stack by its name, with what it promises."""

    build: Build
    properties: tuple[str, ...]  # the names that the trace's oracle and checks know them by


STACKS: dict[str, NamedStack] = {
    "unordered": NamedStack(unordered, ALWAYS),
    "fifo": NamedStack(fifo, (*ALWAYS, "fifo")),
    "token-site": NamedStack(token_site, (*ALWAYS, "fifo", "total")),
}
