"""Items fetched in pieces from several holders at once, each holder within a window of its own.

Problem: a view change may have to move megabytes, over links of a few Mbit/s, from sites that may crash half-way. One
request per round trip leaves a link idle; everything at once fills its queue, and delays heartbeats behind it.

Idea: an item (a frame of a cut, a snapshot of the application's state) is fetched in pieces of `piece_bytes`. A piece
is in flight at one holder at a time. Each holder has a window of bytes in flight, which grows by every piece that it
sends as long as pieces do not queue on their way, and is halved where it is late or a piece was lost. Arrivals make
room for more requests, so they follow the rate of the slowest link without a timer. The holders that are known to have
an item are asked first, then all other sites.

Use: `want` each item with its known holders; one that is wanted already keeps its pieces and takes the new holders.
Call `requests` after that, after each answer and at every tick, and send what it returns; give answers to `take`, which
returns an item once it is whole, and to `deny` where a site lacks it. Keys are opaque. The size of an item may be
given, or becomes known with the first of its pieces; pieces start at multiples of `piece_bytes`. `progress_ns` tells
when the last new piece came.

A holder is late if it has sent nothing for `late_ns` while something was in flight there: all of that is asked of
others, and it is asked again once it sends something, or where no other is left. One whose answer to an earlier request
comes after all was only slow: from then on holders have twice the time, up to `DOUBLINGS_MAX` times, or requests that
come again and again would fill the link that is slow. A piece is lost if `PASSED_MAX` pieces that were asked for after
it came before it. A site that denied an item is not asked for it for `late_ns`.

Bounds: per holder `WINDOW_MAX_BYTES` and `ASKED_MAX` pieces in flight. What has come of an item is kept until it is
whole or forgotten: `total_max` bytes of each item wanted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from isthmus.core.errors import RemoteError
from isthmus.core.message import SiteId, Targets

PIECE_BYTES = 16_384
WINDOW_FIRST_BYTES = 65_536
WINDOW_MAX_BYTES = 524_288
ASKED_MAX = 512  # pieces in flight at a holder, however small
DOUBLINGS_MAX = 3  # of the time after which a holder is late
PASSED_MAX = 8  # later pieces that overtake one that is not lost
QUEUED_MAX = 3  # times the shortest time of a piece that one may take while the window grows
QUEUED_NS = 20_000_000  # and this much more
EXPECTED_MIN_BYTES = 64  # of a piece whose size is not known
NEWEST = 0.25  # share of the newest answer in the expected size of the next

K = TypeVar("K", bound=Hashable)


class Holder(msgspec.Struct, eq=False):
    """What is in flight at one site, and how much may be."""

    window_bytes: int = WINDOW_FIRST_BYTES
    expected_bytes: float = 0.0  # of a first piece, as the item's size is not known; 0: none has come
    in_flight: dict[tuple[Any, int], InFlight] = {}  # item and offset, in the order of the requests
    bytes_in_flight: int = 0
    least_ns: int | None = None  # the shortest time from a request to its piece
    moved_ns: int = 0  # when it last answered, or was asked while nothing was in flight
    is_late: bool = False
    asked_count: int = 0
    halved_at: int = 0  # as a count of requests: a piece asked for before does not halve the window again

    def room(self) -> int:
        """Bytes that it may still be asked for; a window with nothing in flight has room for any one piece."""
        if len(self.in_flight) >= ASKED_MAX:
            return 0
        return max(self.window_bytes - self.bytes_in_flight, not self.in_flight)

    def end(self, piece: tuple[Any, int]) -> InFlight | None:
        """Take a piece out of flight."""
        found = self.in_flight.pop(piece, None)
        if found is not None:
            self.bytes_in_flight -= found.size
        return found

    def halve(self, least: int) -> None:
        self.window_bytes = max(self.window_bytes // 2, least)
        self.halved_at = self.asked_count


class InFlight(msgspec.Struct, eq=False):
    """A request for a piece."""

    size: int  # as expected
    number: int  # of the holder's requests
    asked_ns: int
    passed_count: int = 0  # later requests answered before this one


class Item(msgspec.Struct, eq=False):
    """What is known, here and wanted of one item."""

    holders: Targets  # known to have it, best first
    total: int | None  # bytes; None: not known yet
    parts: dict[int, bytes] = {}  # by offset
    next_offset: int = 0  # from here on nothing was asked for
    again: deque[int] = msgspec.field(default_factory=deque)  # offsets to ask for once more
    denied_ns: dict[SiteId, int] = {}  # when a site last said that it lacks the item

    def offset(self) -> int | None:
        """The offset of the next piece to ask for; None where all are in flight or here."""
        if self.again:
            return self.again[0]
        known = 1 if self.total is None else self.total
        return self.next_offset if self.next_offset < known else None


class PieceWindow(Generic[K]):
    """The items that one site wants, and its requests for them."""

    __slots__ = ("asked_at", "doublings", "groups", "holders", "items", "piece_bytes", "progress_ns", "total_max")

    def __init__(self, total_max: int, piece_bytes: int = PIECE_BYTES) -> None:
        self.total_max = total_max  # bytes of an item
        self.piece_bytes = piece_bytes
        self.items: dict[K, Item] = {}
        self.groups: dict[Targets, dict[K, None]] = {}  # items with a piece to ask for, by their known holders
        self.asked_at: dict[tuple[K, int], SiteId] = {}  # the holder that a piece is in flight at
        self.holders: dict[SiteId, Holder] = {}
        self.doublings = 0  # of the time after which a holder is late
        self.progress_ns: int | None = None  # when a piece last came that was not here

    # What is wanted

    def want(self, key: K, holders: Sequence[SiteId] = (), total: int | None = None) -> None:
        """Want an item; of one that is wanted already, take the holders."""
        item = self.items.get(key)
        if item is None:
            item = self.items[key] = Item(tuple(holders), total)
        elif item.holders != tuple(holders):
            self.groups.get(item.holders, {}).pop(key, None)
            item.holders = tuple(holders)
        self.enqueue(key, item)

    def forget(self, key: K) -> None:
        """Want an item no longer, and drop what is here of it; also to begin anew with one that came out wrong."""
        item = self.items.pop(key, None)
        if item is not None:
            self.groups.get(item.holders, {}).pop(key, None)
            for offset in range(0, item.next_offset, self.piece_bytes):
                self.end(key, offset)

    def enqueue(self, key: K, item: Item) -> None:
        if item.offset() is not None:
            self.groups.setdefault(item.holders, {})[key] = None

    def end(self, key: K, offset: int) -> tuple[Holder, InFlight] | None:
        """Take a piece out of flight, wherever it is."""
        site = self.asked_at.pop((key, offset), None)
        found = None if site is None else self.holders[site].end((key, offset))
        return None if site is None or found is None else (self.holders[site], found)

    # Requests

    def requests(self, now_ns: int, late_ns: int, usable: Targets) -> dict[SiteId, list[tuple[K, int]]]:
        """Items and offsets to ask for now, by holder; `usable` are all sites that may be asked, by preference."""
        late_ns <<= self.doublings
        for site, holder in self.holders.items():
            if site not in usable:
                self.release(holder)
            elif holder.in_flight and now_ns - holder.moved_ns > late_ns:
                self.release(holder)
                holder.is_late = True
                holder.halve(self.piece_bytes)
        asked: dict[SiteId, list[tuple[K, int]]] = {}
        for group in list(self.groups):
            for key in list(self.groups[group]):
                item = self.items[key]
                if not self.ask_for(key, item, now_ns, late_ns, usable, asked) and not item.denied_ns:
                    break  # all holders are at their windows, for the rest of the group as well
            if not self.groups[group]:
                del self.groups[group]
        return asked

    def ask_for(
        self,
        key: K,
        item: Item,
        now_ns: int,
        late_ns: int,
        usable: Targets,
        asked: dict[SiteId, list[tuple[K, int]]],
    ) -> bool:
        """Ask for the pieces of an item as far as there is room; return whether all are asked for."""
        while (offset := item.offset()) is not None:
            site = self.holder_for(item, now_ns, late_ns, usable)
            if site is None:
                return False
            if item.again:
                item.again.popleft()
            else:
                item.next_offset += self.piece_bytes
            self.note_asked(site, (key, offset), item, now_ns)
            asked.setdefault(site, []).append((key, offset))
        del self.groups[item.holders][key]
        return True

    def holder_for(self, item: Item, now_ns: int, late_ns: int, usable: Targets) -> SiteId | None:
        """The site with most room: a known holder, or else any other, or else one that denied it once or is late.

        Of those that denied it the one that did so first: where nobody has the item any more, all say so in turn.
        """
        able = [site for site in usable if now_ns - item.denied_ns.get(site, now_ns - late_ns) >= late_ns]
        timely = [site for site in able if not self.holder(site).is_late]
        fresh = [site for site in timely if site not in item.denied_ns]
        known = [site for site in item.holders if site in fresh]
        ready = [site for site in known or fresh or timely or able if self.holder(site).room() > 0]
        return max(ready, key=lambda site: (-item.denied_ns.get(site, 0), self.holder(site).room()), default=None)

    def holder(self, site: SiteId) -> Holder:
        return self.holders.setdefault(site, Holder())

    def note_asked(self, site: SiteId, piece: tuple[K, int], item: Item, now_ns: int) -> None:
        holder = self.holder(site)
        if not holder.in_flight:
            holder.moved_ns = now_ns
        if item.total is not None:
            size = min(self.piece_bytes, item.total - piece[1])
        else:
            size = round(holder.expected_bytes or self.piece_bytes)
        holder.asked_count += 1
        holder.in_flight[piece] = InFlight(size, holder.asked_count, now_ns)
        holder.bytes_in_flight += size
        self.asked_at[piece] = site

    def release(self, holder: Holder) -> None:
        """Have all that is in flight at a holder asked for again."""
        for key, offset in list(holder.in_flight):
            self.ask_again(key, offset)

    def ask_again(self, key: K, offset: int) -> None:
        self.end(key, offset)
        item = self.items[key]
        item.again.append(offset)
        self.enqueue(key, item)

    # Answers

    def take(self, now_ns: int, source: SiteId, key: K, offset: int, total: int, piece: bytes) -> bytes | None:
        """Take a piece that came from a site; return the item once it is whole."""
        if self.was_slow(source, (key, offset), now_ns):
            self.doublings = min(self.doublings + 1, DOUBLINGS_MAX)
        self.note_answer(source, now_ns)
        item = self.items.get(key)
        if item is None:
            return None
        self.check(source, item, offset, total, len(piece))
        item.total = total
        item.denied_ns.pop(source, None)
        if not offset:
            self.learn_size(source, len(piece))
        has_room = self.note_end(source, key, offset, now_ns)
        if offset in item.parts:
            return None
        if offset in item.again:
            item.again.remove(offset)
        elif offset >= item.next_offset:  # a late answer to a request of an earlier time
            item.again.extend(range(item.next_offset, offset, self.piece_bytes))
            item.next_offset = offset + self.piece_bytes
        item.parts[offset] = piece
        self.progress_ns = now_ns
        if has_room:
            grown = self.holder(source).window_bytes + len(piece)
            self.holder(source).window_bytes = min(grown, WINDOW_MAX_BYTES)
        if len(item.parts) < -(-total // self.piece_bytes):
            if item.offset() is None:
                self.groups.get(item.holders, {}).pop(key, None)
            self.enqueue(key, item)
            return None
        self.forget(key)
        return b"".join([item.parts[start] for start in range(0, total, self.piece_bytes)])

    def was_slow(self, source: SiteId, piece: tuple[K, int], now_ns: int) -> bool:
        """Whether a holder that is late answers a request of before: nothing was lost."""
        holder = self.holder(source)
        request = holder.in_flight.get(piece)
        too_soon = request is None or now_ns - request.asked_ns < (holder.least_ns or 0)
        return holder.is_late and too_soon

    def check(self, source: SiteId, item: Item, offset: int, total: int, size: int) -> None:
        """Refuse a piece that does not fit its item."""
        if not 0 < total <= self.total_max or total != (item.total or total):
            raise RemoteError(f"site {source} sends a piece of an item of {total} bytes, not of {item.total}")
        if offset % self.piece_bytes or not 0 <= offset < total or size != min(self.piece_bytes, total - offset):
            raise RemoteError(f"site {source} sends {size} bytes at {offset} of {total}: no piece of the item")

    def deny(self, now_ns: int, source: SiteId, key: K) -> None:
        """Take note that a site lacks an item."""
        self.note_answer(source, now_ns)
        item = self.items.get(key)
        if item is None:
            return
        item.denied_ns[source] = now_ns
        self.learn_size(source, 0)
        holder = self.holder(source)
        for found, offset in [piece for piece in holder.in_flight if piece[0] == key]:
            self.ask_again(found, offset)

    def denials(self, key: K) -> dict[SiteId, int]:
        """When sites last said that they lack an item."""
        return self.items[key].denied_ns if key in self.items else {}

    def note_answer(self, source: SiteId, now_ns: int) -> None:
        holder = self.holder(source)
        holder.moved_ns, holder.is_late = now_ns, False

    def learn_size(self, source: SiteId, size: int) -> None:
        """Learn how large the first pieces of items are at a site."""
        holder = self.holder(source)
        before = holder.expected_bytes or self.piece_bytes
        holder.expected_bytes = max(before + NEWEST * (size - before), EXPECTED_MIN_BYTES)

    def note_end(self, source: SiteId, key: K, offset: int, now_ns: int) -> bool:
        """Take a piece that came out of flight; return whether it came as fast as on an idle link.

        Those that were asked for long before it are lost.
        """
        ended = self.end(key, offset)
        if ended is None or ended[0] is not self.holder(source):
            return False
        holder, number = ended[0], ended[1].number
        lost = []
        for piece, request in holder.in_flight.items():
            if request.number > number:
                break
            request.passed_count += 1
            if request.passed_count >= PASSED_MAX:
                lost.append((piece, request.number))
        for (found, at), asked in lost:
            self.ask_again(found, at)
            if asked > holder.halved_at:
                holder.halve(self.piece_bytes)
        took_ns = now_ns - ended[1].asked_ns
        holder.least_ns = min(took_ns, took_ns if holder.least_ns is None else holder.least_ns)
        return took_ns <= QUEUED_MAX * holder.least_ns + QUEUED_NS
