"""The one shape of a trace: what happened, one row per event, integer columns (docs/TRACE.md).

A row in memory is a plain tuple in the order of the columns, because hosts build one for every event; whatever has an
`append` is a sink, a Python list too.

Invariants: `local` increases at each process of a run, and that alone orders its rows; `time_ns` is never an order.
(origin, sender, number) names a message within a run: `origin` is the group it was submitted to, `group` the one in
which the row happened. Destinations are null where a message goes to every member of the view; an empty tuple in
memory says the same. Readers accept all versions and fill in what older ones lack.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, Protocol, TypeAlias

VERSION = 4
READABLE = ("1", "2", "3", "4")  # versions that readers take
PROMISES = "promises"  # in that: the names of the properties that the stacks promise, with commas between
NONE = -1  # as origin, sender and number: no message; as a view: before the first one
COUNTER_BITS = 32  # of a message's number; the incarnation of its sender is above them

MessageKey: TypeAlias = tuple[int, int, int]  # origin, sender, number
Row: TypeAlias = tuple[
    int,  # run
    int,  # process
    int,  # local: the order at that process
    int,  # time_ns: virtual in the simulator, the wall clock live
    int,  # kind: core.layer.Kind
    int,  # origin: the group that the message was submitted to, -1 where there is no message
    int,  # sender, -1 where there is no message
    int,  # number, -1 where there is no message
    int,  # group: where this row happened
    int,  # view
    tuple[int, ...] | None,  # destinations
    int,  # payload_bytes
    int,  # control_bytes
    int,  # value
    int,  # gauge: Gauge, 0 for none; of a VIEW row: how many members, where their weights follow; of CLOCK: its state
]
RUN: Final = 0
PROCESS: Final = 1
LOCAL: Final = 2
TIME_NS: Final = 3
KIND: Final = 4
ORIGIN: Final = 5
SENDER: Final = 6
NUMBER: Final = 7
GROUP: Final = 8
VIEW: Final = 9
DESTINATIONS: Final = 10
PAYLOAD: Final = 11
CONTROL: Final = 12
VALUE: Final = 13
GAUGE: Final = 14

COLUMN_BITS: Final = {  # each column in its order, with the width of its integers; destinations is a list, or null
    "run": 64,
    "process": 32,
    "local": 64,
    "time_ns": 64,
    "kind": 8,
    "origin": 32,
    "sender": 32,
    "number": 64,
    "group": 32,
    "view": 32,
    "destinations": 32,
    "payload_bytes": 32,
    "control_bytes": 32,
    "value": 64,
    "gauge": 16,
}
COLUMN_NAMES: Final = tuple(COLUMN_BITS)
ADDED = ("origin", "gauge")  # by version 2; a file may lack them


class Gauge(IntEnum):
    """What the value of a GAUGE row counts, with its unit; the row may name the message that it is about."""

    TIMESTAMP_BYTES = 1  # bytes of the ordering timestamp that a message carries
    TIMESTAMP_ENTRIES = 2  # entries of that timestamp
    HISTORY_ENTRIES = 3  # messages that a process keeps in its causal history
    HOPS = 4  # links that a message has passed
    FRAGMENTS = 5  # packets that a message was cut into
    QUEUE_LENGTH = 6  # messages that wait in a layer's queue
    LINK_QUEUE = 7  # packets that wait for a link
    CLOCK_NS = 8  # a reading of the clock, ns; time_ns is the true or reference time
    CLOCK_BOUND_NS = 9  # the error bound that the clock published with that reading, ns
    STATE_BYTES = 10  # bytes of state transferred to a process that joined
    PARTICIPANT_JOIN = 11  # the participant that joined, by its number
    PARTICIPANT_LEAVE = 12  # the participant that left, by its number
    PAUSE_NS = 13  # how long the process was paused, up to this row
    SENT_VIEW = 14  # the view that a message was sent in, which flow control held back over a change of views
    ZONE_ENTRIES = 15  # entries of a timestamp that a separator sends out of its zone, of messages that stay in it


class Recording(IntEnum):
    """The value of a RECORD row: how far the trace of its process reaches."""

    BEGUN = 0  # and nothing more is known: the writer was killed, unless a later row says otherwise
    ENDED = 1  # the run came to its planned end, and its trace is complete
    CUT = 2  # the run was interrupted; later events are missing


class Sink(Protocol):
    """Destination of a host's rows: a writer, or a plain list."""

    def append(self, row: Row, /) -> None: ...
