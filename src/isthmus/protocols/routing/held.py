"""Messages in the filters of a process: waiting to be sent, or delivered and not consumed."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from isthmus.core.message import Cast
from isthmus.protocols.routing.wire import StreamKey

BOTTOM = 1 << 30  # the level of messages inside a group: below every ordering node
NO_DOMAIN = -1  # of messages inside a group, which wait for those of all domains


class Waiting(msgspec.Struct, frozen=True):
    """A message in the sender's filter."""

    cast: Cast  # as it goes down
    to: tuple[int, ...]  # groups; () for what stays inside
    domain: int
    level: int  # of its ordering node
    holds: bool  # messages ordered lower wait until it has come back


class Unread(NamedTuple):
    """A delivered message that the application has not consumed."""

    key: StreamKey
    before: int
    reports: bool  # a router waits for a report on it
