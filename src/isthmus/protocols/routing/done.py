"""Up to where a process is done with each author's messages, where some of them may never come.

The problem: a process reports one number per author, and its author's credit and what routers keep go by it. Where a
router without replicas crashes, or datagrams get lost, a message is missing for ever. If everything before a number had
to have come, that number would stand still, and the author with it once its window is full.

The idea: what is missing counts as done with once it is not worth waiting for. Where nobody sends anything again
(`final`), that is when a later one is handed up, or a trailer comes: messages count in the order in which they were
handed up, and one that was overtaken is credited early. Where a replica may send it again, a gap is waited for, and
taken for a loss when it has been there for `GAP_ENQUIRIES` enquiries. Where nothing can be lost, it is waited for
whatever it takes.

Invariant: a number that was told never falls.

Bounds: those of filter.py; per author one gap with its age.
"""

from __future__ import annotations

from isthmus.protocols.routing.filter import Filter, StreamState
from isthmus.protocols.routing.wire import StreamKey

GAP_ENQUIRIES = 25


class DoneTable:
    """The messages that the application of a process has consumed."""

    __slots__ = ("filter", "gap_ns", "gaps", "handed", "lossy")

    def __init__(self, enquire_ms: float) -> None:
        self.gap_ns = round(GAP_ENQUIRIES * enquire_ms * 1e6)  # after which a gap counts as a loss
        self.filter = Filter()
        self.handed: dict[StreamKey, int] = {}  # the last message delivered
        self.lossy: dict[StreamKey, None] = {}  # streams in which a gap may last forever
        self.gaps: dict[StreamKey, tuple[int, int]] = {}  # of these: the number before the oldest gap, and since when

    def note_handed(self, key: StreamKey, number: int, before: int, final: bool, complete: bool) -> int:
        """Note a delivery; return the message that must be consumed before it counts.

        final: missing messages never arrive; complete: nothing is ever lost.
        """
        previous = self.handed.get(key, 0)
        self.handed[key] = max(previous, number)
        if not complete:
            self.lossy[key] = None
        return previous if final and previous < number else before

    def note_consumed(self, key: StreamKey, number: int, before: int) -> None:
        self.filter.of(key).take(number, before)

    def skip(self, key: StreamKey, number: int) -> None:
        """Give up missing messages up to a number."""
        self.filter.of(key).skip(number)

    def keys(self) -> list[StreamKey]:
        return list(self.filter.streams)

    def count(self, key: StreamKey) -> int:
        """Return how many messages of an author were consumed."""
        return self.filter.count(key)

    def advance(self, key: StreamKey, now_ns: int) -> int:
        """Give up gaps that have lasted too long; return how far nothing is missing that may still arrive."""
        stream = self.filter.of(key)
        if not stream.ahead or key not in self.lossy:
            self.gaps.pop(key, None)
            return stream.last
        number, since_ns = self.gaps.get(key, (-1, 0))
        if number != stream.last:
            self.gaps[key] = (stream.last, now_ns)
        elif now_ns - since_ns >= self.gap_ns:
            stream.skip(min(stream.ahead))
            del self.gaps[key]
        return stream.last

    def restore(self, states: tuple[StreamState, ...]) -> None:
        """Begin with the state of another member: all that it had taken counts as consumed, except for its gaps."""
        self.filter.restore(states)
        self.lossy |= dict.fromkeys(one.key for one in states if one.ahead)
