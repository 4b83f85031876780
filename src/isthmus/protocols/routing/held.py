"""Messages in the filters of a process: those that wait to be sent, and those that its application has not consumed."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from isthmus.core.message import Cast
from isthmus.protocols.routing.wire import StreamKey

BOTTOM = 1 << 30  # the level of what stays inside a group: below every ordering node of its sender
NO_DOMAIN = -1  # of what stays inside: it waits for messages of all domains


class Waiting(msgspec.Struct, frozen=True):
    """A message in the sender's filter."""

    cast: Cast  # as it goes down
    to: tuple[int, ...]  # groups; () for what stays inside
    domain: int
    level: int  # of its ordering node
    holds: bool  # what is ordered lower waits until it has come back


class Unread(NamedTuple):
    """A message that the application has not consumed."""

    key: StreamKey
    before: int
    reports: bool  # a router waits to hear of it
