"""Optimistic total order: a tentative delivery now, the final one when the sequencer has ordered.

Problem: a sequencer's order costs a message two network delays, of which the application could use the second if it
knew the order beforehand. Idea: each follower delivers a message twice: tentatively, in the order that it expects, and
finally, by number. A delay rule (compensation.py) chooses when a message is delivered tentatively, so that the two
orders agree as often as may be. Final delivery is never delayed by it.

A message goes to all at once, with what its sender asks of the sequencer (how long it should hold back its own
messages) and, for the stamped rule, the sender's time. The sequencer numbers others' messages as they arrive, its own
after the longest delay asked for, and multicasts the number at once, or with `batch_ms` together with those that come
soon; a batch says how long each of its numbers waited, so that the rules see when it was given.

The transport need not keep order: a lost packet then delays no tentative delivery but its own. Numbers are taken in
their order whenever they come. With `fifo` a sender counts its messages, and the sequencer gives their numbers in that
order; without, in the order of arrival, as in the paper.

Invariants:
- numbers of a view are 1, 2, 3 ... and come from its sequencer alone; final delivery goes by number, without a gap;
- a message is tentative at most once, and never after it is final: it leaves `waiting` when it is final;
- a message that was tentative will be final, at every site that stays: what is received is never given up;
- the sequencer numbers what came back from the transport, so all survivors hold it once the view is flushed.

When a view ends, survivors hold the same messages and the same numbers. Say the sequencer gave 4 to m and 5 to n, and
died; n's number reached somebody, m's nobody. All deliver up to 3, then the rest by sender and number: to follow 5
over the gap could put a sender's later message before its earlier one. The next view numbers from 1 again.

Bounds: `waiting` and `numbers` hold what is on its way, at most window messages of each member (credit.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any

from isthmus.core.errors import RemoteError
from isthmus.core.layer import Finality, Handler, Kind, Layer, View
from isthmus.core.message import ALL, Cast, Message, SiteId, Targets
from isthmus.protocols.total.compensation import POLICIES, Arrived, OptimisticOptions, Requests
from isthmus.protocols.total.optimistic_wire import Numbers, Posted
from isthmus.protocols.total.token_site import BATCH_MAX, FOLLOWER, SEQUENCER, MessageId, Range, ranges_of, sequencer_of
from isthmus.protocols.transport.base import cut

ISSUE, DUE = 0, 1  # timer keys; DUE + n for the n-th time that messages wait for


class Waiting:
    """A message that is here and not final."""

    __slots__ = ("arrived", "cast", "due_ns", "id", "key", "numbered_ns", "place", "request_ns")

    def __init__(self, cast: Cast, place: int, posted: Posted[Any], now_ns: int, sizes: bool) -> None:
        self.cast = cast
        self.id = (cast.sender, cast.number)
        self.place = place
        self.request_ns = posted.request_ns
        self.arrived = Arrived(cast.sender, posted.stamp_ns, len(cast.payload) if sizes else 0, now_ns)
        self.due_ns = now_ns  # when to be tentative, or numbered; fixed at arrival, whether that timer fires or not
        self.key = ISSUE  # of the timer that waits for it; ISSUE: none does
        self.numbered_ns = now_ns  # at the sequencer


class Optimistic(Layer):
    """Delivers tentatively when a delay rule says so, finally in the order of the sequencer's numbers."""

    __slots__ = (
        *("batch_ns", "delivered", "due", "due_count", "early", "fifo", "issued", "numbers", "pending", "policy"),
        *("preferred", "requests", "sent_count", "sequencer", "to_number", "view", "waiting"),
    )
    timer_names = ("issue", "due_")

    def __init__(
        self,
        options: OptimisticOptions | None = None,
        sequencer: SiteId | None = None,
        batch_ms: float | None = None,
        fifo: bool = True,
    ) -> None:
        options = options or OptimisticOptions()
        self.preferred = sequencer
        self.batch_ns = None if batch_ms is None else round(batch_ms * 1e6)  # None: numbers leave with the turn
        self.fifo = fifo
        self.policy = POLICIES[options.policy](options)
        self.requests = Requests(options)
        self.sequencer = SiteId(-1)
        self.view = View(0, ())
        self.reset()

    def reset(self) -> None:
        self.sent_count = 0  # messages that this site sent in the view
        self.waiting: dict[MessageId, Waiting] = {}  # here, addressed here, not final
        # By timer key, in the order of arrival: not yet tentative, or at the sequencer not yet numbered.
        self.due: dict[int, list[Waiting]] = {}
        self.due_count = 0  # timer keys used so far
        self.numbers: dict[int, tuple[MessageId | None, int]] = {}  # not passed: whose (None: not ours), when it came
        self.delivered = 0  # the last number passed
        # By sender: the place of its next message to be numbered here, or to be final.
        self.to_number = dict.fromkeys(self.view.members, 1)
        # At the sequencer
        self.issued = 0  # the last number sent
        self.pending: list[Waiting] = []  # numbered, to be sent with the next batch, or when there is room
        self.early: dict[tuple[SiteId, int], Waiting] = {}  # by sender and place: one before it has not come

    def bodies(self) -> dict[type[Message], Handler]:
        return {Posted: self.on_posted, Numbers: self.on_numbers}

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
        return Posted(casts, place, request_ns, self.host.now_ns if self.policy.stamps else 0)

    def on_posted(self, source: SiteId, posted: Posted[Any]) -> None:
        """Take messages of one sender, or none of them."""
        now, sizes = self.host.now_ns, self.policy.options.sizes
        arrived = [Waiting(cast, posted.place + n, posted, now, sizes) for n, cast in enumerate(posted.casts)]
        for waiting in arrived:
            if waiting.id in self.waiting or (self.fifo and self.is_past(source, waiting.place)):
                number = waiting.cast.number
                raise RemoteError(f"site {source} sent its message {number}, or the place {waiting.place}, again")
        mine = self.mine(arrived[0].cast.destinations)
        if mine:
            self.waiting.update({waiting.id: waiting for waiting in arrived})
        if self.leads():
            own = source == self.host.site
            self.schedule(arrived, self.requests.longest_ns(now) if own else 0)
        elif mine:
            for waiting in arrived:
                waiting.due_ns = self.policy.due_ns(waiting.arrived)
            self.deliver_ready()
            tentative = [waiting for waiting in arrived if waiting.id in self.waiting]
            for due_ns, together in groupby(tentative, attrgetter("due_ns")):
                self.schedule(list(together), due_ns - now)

    def mine(self, destinations: Targets) -> bool:
        return not destinations or self.host.site in destinations

    def is_past(self, sender: SiteId, place: int) -> bool:
        """Whether a sender cannot have sent a message of that place only now."""
        return place < self.to_number[sender] or (sender, place) in self.early

    def schedule(self, together: list[Waiting], delay_ns: int) -> None:
        """Act on messages now or after a while; which of the two is not left to the host's timers."""
        due_ns = self.host.now_ns + delay_ns
        for waiting in together:
            waiting.due_ns = due_ns
        if delay_ns <= 0:
            self.act(together)
            return
        key = DUE + self.due_count
        self.due_count += 1
        for waiting in together:
            waiting.key = key
        self.due[key] = together
        self.host.set_timer(self, key, delay_ns)

    def timer(self, key: int) -> None:
        if key == ISSUE:
            self.issue()
        else:
            self.act(self.due.pop(key))

    def act(self, together: list[Waiting]) -> None:
        leads = self.leads()
        for waiting in together:
            waiting.key = ISSUE
            if leads:
                self.number(waiting)
            else:
                self.above.deliver(waiting.cast, Finality.TENTATIVE)

    # The sequencer

    def number(self, waiting: Waiting) -> None:
        """Give a message the next number, or keep it until those that its sender sent before have theirs."""
        sender = waiting.cast.sender
        self.requests.note(sender, waiting.request_ns, self.host.now_ns)
        if not self.fifo:
            self.add(waiting)
        else:
            self.early[sender, waiting.place] = waiting
        while (following := self.early.pop((sender, self.to_number[sender]), None)) is not None:
            self.to_number[sender] += 1
            self.add(following)

    def add(self, waiting: Waiting) -> None:
        waiting.numbered_ns = self.host.now_ns
        self.pending.append(waiting)
        if self.batch_ns is not None and len(self.pending) == 1:
            self.host.set_timer(self, ISSUE, self.batch_ns)
        if self.batch_ns is None or len(self.pending) >= BATCH_MAX:
            self.host.turn_due = True

    def end_turn(self) -> None:
        """Send what was numbered in this turn in one packet, unless a batch still gathers."""
        if self.batch_ns is None or len(self.pending) >= BATCH_MAX:
            self.issue()

    def issue(self) -> None:
        """Send the numbers of the pending; not while the transport is full, whose `resume` comes here."""
        while self.pending and self.below.writable():
            batch, self.pending = self.pending[:BATCH_MAX], self.pending[BATCH_MAX:]
            ranges: list[Range] = []
            waits_ns: list[int] = []
            destinations: list[Targets] = []
            for wait_ns, together in groupby(batch, lambda waiting: self.host.now_ns - waiting.numbered_ns):
                some, targets = ranges_of([waiting.cast for waiting in together])
                ranges += some
                waits_ns += [wait_ns] * len(some)
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
            raise RemoteError(f"numbers for {len(counts)} ranges that say something else of fewer or more")
        if first <= self.delivered or not self.numbers.keys().isdisjoint(range(first, first + sum(counts))):
            raise RemoteError(f"numbers from {first} on, some of which have been given")
        for place, (sender, start, count) in enumerate(numbers.ranges):
            given_ns = self.host.now_ns - (numbers.waits_ns[place] if numbers.waits_ns else 0)
            mine = not numbers.destinations or self.mine(numbers.destinations[place])
            for offset in range(count):
                self.numbers[first + offset] = ((sender, start + offset) if mine else None, given_ns)
            first += count
        self.deliver_ready()

    def deliver_ready(self) -> None:
        """Deliver finally as far as numbers and their messages are here, and let the rule learn from it."""
        ready: list[Cast] = []
        learnt: tuple[SiteId, int, int] | None = None  # messages of one frame and one ticket are one sample
        while (number := self.numbers.get(self.delivered + 1)) is not None:
            message_id, given_ns = number
            if message_id is not None:
                waiting = self.waiting.pop(message_id, None)
                if waiting is None:
                    break
                self.forget_due(waiting)
                ready.append(waiting.cast)
                if not self.leads():
                    self.to_number[waiting.cast.sender] = waiting.place + 1
                    sample = (waiting.cast.sender, waiting.arrived.arrival_ns, given_ns)
                    if sample != learnt:
                        learnt = sample
                        self.policy.ordered(waiting.arrived, waiting.due_ns, given_ns)
            self.delivered += 1
            del self.numbers[self.delivered]
        if len(ready) == 1:
            self.above.deliver(ready[0])
        elif ready:
            self.above.deliver_all(ready)

    def forget_due(self, waiting: Waiting) -> None:
        """A message is about to be final: a tentative delivery that has not happened will not."""
        together = self.due.get(waiting.key)
        if together is not None:
            together.remove(waiting)
            if not together:
                del self.due[waiting.key]
                self.host.cancel_timer(self, waiting.key)

    def finish(self, waiting: Waiting) -> None:
        self.forget_due(waiting)
        self.above.deliver(waiting.cast)

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
        """Deliver all that the flush left: the numbered without a gap, then the rest by sender and number."""
        self.host.cancel_timer(self, ISSUE)
        while (entry := self.numbers.get(self.delivered + 1)) is not None:
            self.delivered += 1
            waiting = self.waiting.pop(entry[0], None) if entry[0] is not None else None
            if waiting is not None:  # otherwise it died with its sender, for all alike
                self.finish(waiting)
        for message_id in sorted(self.waiting):
            self.finish(self.waiting[message_id])
        for key in self.due:  # what only the sequencer was to number
            self.host.cancel_timer(self, key)

    def become_sequencer(self) -> None:
        self.host.trace(Kind.ROLE, value=SEQUENCER)

    def become_follower(self) -> None:
        self.host.trace(Kind.ROLE, value=FOLLOWER)
