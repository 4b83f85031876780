"""Optimistic total order: a tentative delivery now, the final one when the sequencer has ordered.

Problem: a sequencer's order costs a message two network delays, of which the application could use the second if it
knew the order beforehand. Idea: each follower delivers a message twice: tentatively, in the order that it expects, and
finally, by number. A delay rule (compensation.py) chooses when a message is delivered tentatively, so that the two
orders agree as often as may be. Final delivery is never delayed by it.

A message goes to all members at once, with its sender's request to the sequencer (how long to hold back the sequencer's
own messages) and, for the stamped rule, the sender's time. The sequencer numbers others' messages as they arrive, its
own after the longest delay requested, and multicasts the number at once, or with `batch_ms` in batches; a batch carries
the time that each of its numbers waited, so that the rules know when it was given.

The transport need not keep order: a lost packet then delays no other tentative delivery. Numbers are processed in
order, whenever they arrive. With `fifo` a sender counts its messages, and the sequencer gives their numbers in that
order; without, in the order of arrival, as in the paper.

Invariants:
- numbers of a view are 1, 2, 3 ... and come from its sequencer alone; final delivery goes by number, without a gap;
- a message is tentative at most once, and never after it is final: it leaves `waiting` when it is final;
- a message that was tentative will be final, at every site that stays: what is received is never given up;
- the sequencer numbers what came back from the transport, so all survivors hold it once the view is flushed.

When a view ends, survivors hold the same messages and the same numbers. Say the sequencer gave 4 to m and 5 to n, and
crashed; n's number reached a survivor, m's none. All deliver up to 3, then the rest by sender and number: to follow 5
over the gap could put a sender's later message before its earlier one. The next view numbers from 1 again.

Bounds: `waiting` and `numbers` hold what is on its way, at most window messages of each member (credit.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from isthmus.core.errors import RemoteError
from isthmus.core.layer import Finality, Handler, Kind, Layer, View
from isthmus.core.message import ALL, Cast, Message, SiteId, Targets
from isthmus.protocols.total.optimistic.compensation import DELAY_RULES, HoldBackRequests, OptimisticOptions
from isthmus.protocols.total.optimistic.wire import Numbers, Posted
from isthmus.protocols.total.positions import left_over, position
from isthmus.protocols.total.together import ISSUE, Together, Waiting, arrivals, own_stamp, stamp_here
from isthmus.protocols.total.token_site import BATCH_MAX, FOLLOWER, SEQUENCER, MessageId, Range, ranges_of, sequencer_of
from isthmus.protocols.transport.base import cut

DUE = 1  # timer key, like ISSUE; DUE + n for the n-th time that messages wait for
Given = tuple[SiteId, int, int, int, bool]  # sender, first of its numbers, how many, when given; whether for us


class Optimistic(Layer):
    """Delivers tentatively when a delay rule says so, finally in the order of the sequencer's numbers."""

    __slots__ = (
        "batch_ns",
        "delivered",
        "due",
        "due_count",
        "early",
        "fifo",
        "issued",
        "numbers",
        "pending",
        "policy",
        "preferred",
        "requests",
        "safe",
        "sent_count",
        "sequencer",
        "to_number",
        "unsafe",
        "view",
        "waiting",
    )
    timer_names = ("issue", "due_")

    def __init__(
        self,
        options: OptimisticOptions | None = None,
        sequencer: SiteId | None = None,
        batch_ms: float | None = None,
        fifo: bool = True,
        safe: bool = False,
    ) -> None:
        options = options or OptimisticOptions()
        self.preferred = sequencer
        self.batch_ns = None if batch_ms is None else round(batch_ms * 1e6)  # None: numbers leave with the turn
        self.fifo = fifo
        self.safe = safe  # the transport delivers on arrival, and reports later what is safe
        self.policy = DELAY_RULES[options.policy](options)
        self.requests = HoldBackRequests(options)
        self.sequencer = SiteId(-1)
        self.view = View(0, ())
        self.reset()

    def reset(self) -> None:
        self.sent_count = 0  # messages that this site sent in the view
        self.waiting: dict[MessageId, Waiting] = {}  # received, addressed here, not final
        # By timer key, in the order of arrival: not yet tentative, or at the sequencer not yet numbered.
        self.due: dict[int, Together] = {}
        self.due_count = 0  # timer keys used so far
        self.unsafe: dict[MessageId, bool] = {}  # of those waiting: not to be final yet
        self.numbers: dict[int, Given] = {}  # by the first number of each range that is not passed
        self.delivered = 0  # the last number passed
        # By sender: the place of its next message to be numbered here, or to be final.
        self.to_number = dict.fromkeys(self.view.members, 1)
        # At the sequencer
        self.issued = 0  # the last number sent
        # Numbered (when, what), to be sent with the next batch, or when there is room:
        self.pending: list[tuple[int, Cast]] = []
        self.early: dict[tuple[SiteId, int], Cast] = {}  # by sender and place: one before it has not come

    def bodies(self) -> dict[type[Message], Handler]:
        return {Posted: self.on_posted, Numbers: self.on_numbers}

    def unsafe_bodies(self) -> dict[type[Message], Handler]:
        return {Posted: self.on_safe} if self.safe else {}

    def leads(self) -> bool:
        return self.sequencer == self.host.site

    # Messages

    def submit(self, message: Message, targets: Targets = ALL) -> None:
        assert isinstance(message, Cast)
        if targets and self.sequencer not in targets:  # it orders what it does not deliver, too
            targets = (*targets, self.sequencer)
        self.below.submit(self.posted((message,)), targets)

    def submit_all(self, casts: Sequence[Cast]) -> None:
        for part in cut(casts, self.host.frame_bytes):
            self.below.submit(self.posted(tuple(part)))

    def posted(self, casts: tuple[Cast, ...]) -> Posted[Cast]:
        place = self.sent_count + 1
        self.sent_count += len(casts)
        request_ns = 0 if self.leads() else self.policy.request_ns()
        stamp_ns = own_stamp(self.host, self.policy.options.calendar) if self.policy.stamps else 0
        return Posted(casts, place, request_ns, stamp_ns)

    def on_posted(self, source: SiteId, posted: Posted[Any]) -> None:
        """Take messages of one sender: all, or none where one is invalid."""
        if self.fifo and self.is_past(source, posted.place, len(posted.casts)):
            raise RemoteError(f"site {source} sent messages of the place {posted.place} or later again")
        stamp_ns = stamp_here(posted.stamp_ns, self.host, self.policy.options.calendar)
        arrived = arrivals(source, posted, stamp_ns, self.host.now_ns, self.policy.options.sizes)
        mine = self.mine(posted.casts[0].destinations)
        fresh: dict[MessageId, Waiting] = {}
        for together in arrived:
            for place, cast in enumerate(together.casts, together.place):
                fresh[cast.sender, cast.number] = (cast, place, together)
        if len(fresh) < len(posted.casts) or not self.waiting.keys().isdisjoint(fresh):
            raise RemoteError(f"site {source} sent a message from place {posted.place} on again")
        if mine:
            self.waiting.update(fresh)
            if self.safe:
                self.unsafe.update(dict.fromkeys(fresh, True))
        if self.leads():
            delay_ns = self.requests.longest_ns(self.host.now_ns) if source == self.host.site else 0
            for together in arrived:
                self.schedule(together, delay_ns)
        elif mine:
            for together in arrived:
                together.due_ns = self.policy.due_ns(together.arrived)
            self.deliver_ready()
            for together in arrived:
                left = [cast for cast in together.casts if (cast.sender, cast.number) in self.waiting]
                if left:
                    together.casts, together.left = left, len(left)
                    self.schedule(together, together.due_ns - self.host.now_ns)

    def on_safe(self, _source: SiteId, posted: Posted[Any]) -> None:
        """Let safe messages become final."""
        for cast in posted.casts:
            self.unsafe.pop((cast.sender, cast.number), None)
        self.deliver_ready()

    def mine(self, destinations: Targets) -> bool:
        return not destinations or self.host.site in destinations

    def is_past(self, sender: SiteId, place: int, count: int) -> bool:
        """Whether one of these places of a sender was taken before."""
        if place < self.to_number[sender]:
            return True
        return bool(self.early) and any((sender, one) in self.early for one in range(place, place + count))

    def schedule(self, together: Together, delay_ns: int) -> None:
        """Act on messages now or after a delay; without a delay no timer is used, whose order the host decides."""
        together.due_ns = self.host.now_ns + delay_ns
        if delay_ns <= 0:
            self.act(together)
            return
        together.key = DUE + self.due_count
        self.due_count += 1
        self.due[together.key] = together
        self.host.set_timer(self, together.key, delay_ns)

    def timer(self, key: int) -> None:
        if key == ISSUE:
            self.issue()
        else:
            self.act(self.due.pop(key))

    def act(self, together: Together) -> None:
        """Number messages, or deliver them tentatively unless they are final."""
        together.key = ISSUE
        if self.leads():
            self.number(together)
            return
        for cast in together.casts:
            if (cast.sender, cast.number) in self.waiting:
                self.above.deliver(cast, Finality.TENTATIVE)

    # The sequencer

    def number(self, together: Together) -> None:
        """Give messages the next numbers, or keep them until earlier messages of their sender have theirs."""
        sender, casts = together.arrived.sender, together.casts
        self.requests.note(sender, together.request_ns, self.host.now_ns)
        if not self.fifo:
            self.add(casts)
        elif together.place == self.to_number[sender] and not self.early:
            self.to_number[sender] += len(casts)
            self.add(casts)
        else:
            for place, cast in enumerate(casts, together.place):
                self.early[sender, place] = cast
            while (following := self.early.pop((sender, self.to_number[sender]), None)) is not None:
                self.to_number[sender] += 1
                self.add((following,))

    def add(self, casts: Sequence[Cast]) -> None:
        now = self.host.now_ns
        if self.batch_ns is not None and not self.pending:
            self.host.set_timer(self, ISSUE, self.batch_ns)
        self.pending += [(now, cast) for cast in casts]
        if self.batch_ns is None or len(self.pending) >= BATCH_MAX:
            self.host.turn_due = True

    def end_turn(self) -> None:
        """Send the numbers of this turn in one packet, unless a batch is still open."""
        if self.batch_ns is None or len(self.pending) >= BATCH_MAX:
            self.issue()

    def issue(self) -> None:
        """Send the numbers of pending messages, as far as the transport is writable; `resume` goes on."""
        while self.pending and self.below.writable():
            batch, self.pending = self.pending[:BATCH_MAX], self.pending[BATCH_MAX:]
            ranges: list[Range] = []
            waits_ns: list[int] = []
            destinations: list[Targets] = []
            for numbered_ns, alike in groupby(batch, itemgetter(0)):
                some, targets = ranges_of([cast for _, cast in alike])
                ranges += some
                waits_ns += [self.host.now_ns - numbered_ns] * len(some)
                destinations += targets or (ALL,) * len(some)
            numbers = Numbers(
                self.issued + 1,
                tuple(ranges),
                tuple(waits_ns) if any(waits_ns) else (),
                tuple(destinations) if any(destinations) else (),
            )
            self.issued += len(batch)
            self.below.submit(numbers)

    def resume(self) -> None:
        self.issue()
        self.above.resume()

    # The order

    def on_numbers(self, source: SiteId, numbers: Numbers) -> None:
        if source != self.sequencer:
            raise RemoteError(f"numbers of site {source}; the sequencer is site {self.sequencer}")
        first, counts = numbers.first, [count for _, _, count in numbers.ranges]
        if not counts or min(counts) < 1 or sum(counts) > BATCH_MAX:
            raise RemoteError(f"numbers for {counts} messages; at most {BATCH_MAX} together")
        if {len(numbers.waits_ns), len(numbers.destinations)} - {0, len(counts)}:
            raise RemoteError(f"numbers for {len(counts)} ranges, with waits or destinations for another count")
        end = first + sum(counts)
        if first <= self.delivered or any(at < end and first < at + given[2] for at, given in self.numbers.items()):
            raise RemoteError(f"numbers from {first} on, some of which have been given")
        for place, (sender, start, count) in enumerate(numbers.ranges):
            given_ns = self.host.now_ns - (numbers.waits_ns[place] if numbers.waits_ns else 0)
            mine = not numbers.destinations or self.mine(numbers.destinations[place])
            self.numbers[first] = (sender, start, count, given_ns, mine)
            first += count
        self.deliver_ready()

    def deliver_ready(self) -> None:
        """Deliver finally as far as numbers and messages have arrived, and let the rule learn from it."""
        ready: list[Cast] = []
        first = self.delivered + 1  # the number of the first of these
        numbers, follows = self.numbers, not self.leads()
        learnt: tuple[SiteId, int, int] | None = None  # messages of one frame and one ticket are one sample
        while (given := numbers.pop(self.delivered + 1, None)) is not None:
            sender, start, count, given_ns, mine = given
            if not mine:
                self.hand_over(ready, first)
                self.delivered += count
                ready, first = [], self.delivered + 1
                continue
            found = self.take(sender, start, count)
            ready += [cast for cast, _, _ in found]
            self.delivered += len(found)
            if follows and found:
                self.to_number[sender] = found[-1][1] + 1
                for together in dict.fromkeys([waiting[2] for waiting in found]):
                    sample = (sender, together.arrived.arrival_ns, given_ns)
                    if sample != learnt:
                        learnt = sample
                        self.policy.ordered(together.arrived, together.due_ns, given_ns)
            if len(found) < count:
                numbers[self.delivered + 1] = (sender, start + len(found), count - len(found), given_ns, mine)
                break
        self.hand_over(ready, first)

    def hand_over(self, casts: list[Cast], number: int) -> None:
        """Deliver messages with consecutive numbers finally."""
        self.stack.position = position(self.view, number)
        if len(casts) == 1:
            self.above.deliver(casts[0])
        elif casts:
            self.above.deliver_all(casts)

    def take(self, sender: SiteId, start: int, count: int) -> list[Waiting]:
        """Remove numbered messages of a sender from those that wait, as far as they have arrived."""
        found: list[Waiting] = []
        for number in range(start, start + count):
            if (sender, number) in self.unsafe:
                break
            waiting = self.waiting.pop((sender, number), None)
            if waiting is None:
                break
            if waiting[2].key != ISSUE:
                self.forget_due(waiting[2])
            found.append(waiting)
        return found

    def forget_due(self, together: Together) -> None:
        """Cancel the tentative delivery of a message that is about to be final."""
        together.left -= 1
        if not together.left:
            del self.due[together.key]
            self.host.cancel_timer(self, together.key)

    def finish(self, waiting: Waiting, number: int | None = None) -> None:
        """Deliver a message finally as the view closes; None: it has no number."""
        cast, _, together = waiting
        if together.key != ISSUE:
            self.forget_due(together)
        self.stack.position = left_over(self.view, cast) if number is None else position(self.view, number)
        self.above.deliver(cast)

    def settled(self) -> bool:
        return not (self.leads() and (self.pending or self.due or self.early)) and self.below.settled()

    # View change

    def install(self, view: View) -> None:
        joining = self.view.view_id == 0 and view.view_id > 1
        self.close_view()
        self.view = view
        self.reset()
        led = self.leads()
        self.sequencer = sequencer_of(view, self.preferred)
        self.policy.enter(view.members, self.sequencer, joining)
        self.requests.keep(view.members if led else ())
        if self.leads():
            self.become_sequencer()
        else:
            self.become_follower()

    def close_view(self) -> None:
        """Deliver the rest of the view: numbered messages up to the first gap, then the others by sender and number."""
        self.host.cancel_timer(self, ISSUE)
        while (given := self.numbers.get(self.delivered + 1)) is not None:
            sender, start, count, _, _ = given
            first, self.delivered = self.delivered + 1, self.delivered + count
            for number in range(start, start + count):
                waiting = self.waiting.pop((sender, number), None)
                if waiting is not None:  # otherwise it was lost with its sender, for all members
                    self.finish(waiting, first + number - start)
        for message_id in sorted(self.waiting):
            self.finish(self.waiting[message_id])
        for key in self.due:  # messages that only the sequencer was to number
            self.host.cancel_timer(self, key)

    def take_back(self) -> None:
        """Take back the guesses that are not final: those that go on may order them, but not for this life."""
        for cast, _, together in [] if self.leads() else list(self.waiting.values()):
            if together.key == ISSUE:
                self.above.deliver(cast, Finality.REVOKED)

    def become_sequencer(self) -> None:
        self.host.trace(Kind.ROLE, value=SEQUENCER)

    def become_follower(self) -> None:
        self.host.trace(Kind.ROLE, value=FOLLOWER)
