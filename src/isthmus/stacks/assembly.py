"""The assembly of a site, the same for both hosts: what stands on its ports, and what they share.

A site has a port per group, which carries the group's stack, and where its members agree on views one more, which
carries the suspicion of other sites that all its groups share. A host makes the ports; which layers stand on them, and
how a relay learns that a site is unreachable, is decided here.
"""

from __future__ import annotations

from typing import Protocol

from isthmus.core.layer import Host, Layer, Stack
from isthmus.protocols.application import Application
from isthmus.protocols.membership.suspicion import Suspicion
from isthmus.protocols.transport.relay import Relay
from isthmus.stacks.registry import Build, StackOptions


class AttachablePort(Host, Protocol):
    """A port of either host."""

    def attach(self, stack: Stack) -> None: ...


def attach_group(
    port: AttachablePort, build: Build, application: Application, options: StackOptions, suspicion: Suspicion | None
) -> Stack:
    """Put the stack of a group on its port; a relay goes round sites that the suspicion takes for unreachable."""
    stack = build(port, application, options)
    port.attach(stack)
    if suspicion is not None and options.relay is not None:
        stack.find(Relay).reaches = suspicion.reaches
    return stack


def attach_suspicion(
    port: AttachablePort, suspicion: Suspicion, previous: Suspicion | None, *beside: Layer
) -> Suspicion:
    """Put the suspicion of a site on its port; it keeps what that of an earlier life has learnt of delays."""
    port.attach(Stack(port, suspicion, *beside))
    if previous is not None:
        suspicion.inherit(previous)
    return suspicion
