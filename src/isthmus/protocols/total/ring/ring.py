"""Total order by a rotating token: the ring.

Problem: all members must deliver in one order, with a bound on the latency that is known in advance. Idea: a token
visits the members in turn. Its holder multicasts up to a batch of messages, which take the next positions of the order,
and passes the token on; all deliver by position. No member waits longer than one rotation for the token, and none sends
more than a batch per visit: that bounds the latency (`ring_bound`).

It runs over FIFO channels and a view-synchronous service.

Invariants:
- There is at most one token in a view: the eldest member has it at the start, and a member that passes it on no longer
  has it. Visits are numbered, and a duplicate of an earlier visit is dropped. The member that passed the token on keeps
  a copy and retransmits it until its heir acknowledges it. The token is lost only with its holder or its heir, and the
  next view then brings a new one. No time-out ever makes a token.
- Positions of a view are 1, 2, 3 ...; the token carries the last one given.
- The holder announces the positions of its messages to all members, whatever the destinations (as `Tickets`, of its own
  messages only); members deliver in the order of positions, and early announcements wait.
- The token leaves once the announcement has come back to the holder itself, so that its batch is on the wire first.

Where the transport batches nothing, each message is a packet of its own, and the announcement precedes the messages:
they are delivered as they arrive, not when the last of the batch has. A `BatchEnd` that the holder sends to itself
behind the batch then lets the token leave.

At rest: after a whole rotation without a message the holder keeps the token. A member that has something to send and
cannot rely on the token's coming multicasts a `TokenRequest`; the holder then passes the token straight to the next
such member along the ring, and rotation resumes from there. The token is sure to come to a member that has seen an
announcement since it last passed the token on without sending: n empty visits must follow an announcement before the
token rests, and one of them is its own. Announcements and token take different paths, so the test uses positions: those
beyond the last one given when the token was here.

When a holder crashes, survivors hold the same announcements and the same messages. All deliver the announced ones by
position, skipping announcements that no survivor has, and then the rest by sender and number.

The token, as seen by one member (`TokenPhase`):

| phase | event | next |
|---|---|---|
| AWAY | a token of a new visit arrives (`take`) | VISITING |
| VISITING | nothing to send (`visit`) | AWAY; RESTING after an empty rotation |
| VISITING, RESTING | the turn ends with messages sent (`end_batch`) | ANNOUNCED |
| RESTING | a `TokenRequest` arrives | AWAY |
| ANNOUNCED | the batch has come back (`leave`) | AWAY; VISITING where the member is alone |
| any | a view is installed | VISITING at the eldest member, elsewhere AWAY |
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

import msgspec

from isthmus.core.errors import RemoteError
from isthmus.core.layer import Finality, Handler, Kind, Layer, View, places
from isthmus.core.message import ALL, Cast, Message, SiteId, Targets
from isthmus.core.validation import check_range
from isthmus.protocols.total.positions import position
from isthmus.protocols.total.ring.visits import round_of
from isthmus.protocols.total.token_site import BATCH_MAX, Ticketed, Tickets, deliver_rest, ranges_of
from isthmus.protocols.transport.reliable.pacing import Pacing

REPEAT = 0  # timer key
FIRST_WAIT_MS = 100.0  # before the token is repeated, as long as no round trip is known
LEAST_WAIT_MS = 10.0  # beyond a round trip
LONGEST_WAIT_MS = 200.0  # unless a round trip takes longer
GONE_ROLE, RESTING_ROLE = 0, 1  # roles, as traced: the token rests here, or no longer does


class RingOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the ring leaves open."""

    batch: int = 30  # messages that a member may send at each visit of the token

    def __post_init__(self) -> None:
        check_range("batch", self.batch, 1, BATCH_MAX, "a whole number")


class Token(Message, frozen=True, gc=False, array_like=True, tag=28):
    """The right to send; one a view."""

    visit: int  # which visit of the view this is; the eldest's first is 1
    given: int  # the last position given out
    empty: int  # visits since the last one that sent anything


class TokenAck(Message, frozen=True, gc=False, array_like=True, tag=27):
    """An acknowledgement of the token, over channels that lose packets."""

    visit: int


class TokenRequest(Message, frozen=True, gc=False, array_like=True, tag=29):
    """A member has messages to send, and the token may be at rest."""


class BatchEnd(Message, frozen=True, gc=False, array_like=True, tag=31):
    """Sent by the holder to itself: the batch before it has been transmitted."""


class TokenInTransit(NamedTuple):
    """A token passed on and not acknowledged."""

    token: Token
    heir: SiteId
    at_ns: int
    once: bool  # it was not retransmitted yet


class TokenPhase(Enum):
    """Where the token is; the module docstring has the transitions."""

    AWAY = 0
    VISITING = 1  # here, so that this member may send
    RESTING = 2  # here, after a whole rotation without a message
    ANNOUNCED = 3  # here, until the batch of this member has come back


class Ring(Layer):
    """Sends when the token is here, and delivers by the positions that holders announce."""

    __slots__ = (
        "ahead",
        "asked",
        "assured",
        "data",
        "early",
        "left",
        "options",
        "order",
        "pacing",
        "passed",
        "phase",
        "repeats",
        "round",
        "sent",
        "ticketed",
        "token",
        "twice",
        "view",
        "waiting",
        "waking",
    )

    timer_names = ("repeat",)

    def __init__(self, options: RingOptions | None = None, repeats: bool = True, twice: Targets = ()) -> None:
        self.options = options or RingOptions()
        self.twice = twice  # members that the token visits twice per rotation
        self.round: Targets = ()  # the members as the token visits them
        self.repeats = repeats  # False: over channels that lose nothing
        self.ahead = not repeats  # announce messages before they are sent: the transport batches nothing
        self.pacing = Pacing(FIRST_WAIT_MS, LEAST_WAIT_MS / 2)
        self.view = View(0, ())
        self.reset()

    def reset(self) -> None:
        self.phase = TokenPhase.AWAY
        self.token = Token(0, 0, 0)  # its present state, or its state at the last visit
        self.passed: TokenInTransit | None = None  # unacknowledged by its heir
        self.left = 0  # messages that may still be sent at this visit
        self.sent: list[Cast] = []  # in this turn, at this visit; not announced yet, unless ahead
        self.asked = False  # a layer above wants to send
        self.assured = False  # the token will come without a TokenRequest
        self.waking = False  # a TokenRequest of this site is on its way
        self.waiting: set[SiteId] = set()  # members that sent a TokenRequest and have announced nothing since
        # Bounded by flow control: at most a window of messages of each member is undelivered.
        self.data: dict[SiteId, deque[Cast]] = defaultdict(deque)  # by sender: received, not delivered
        self.order: deque[Ticketed] = deque()  # announced without a gap, addressed here, not delivered
        self.ticketed = 0  # up to this position everything is announced
        self.early: dict[int, Tickets] = {}  # announced ahead of a gap, by first position

    def handlers(self) -> dict[type[Message], Handler]:
        return {Token: self.on_token, TokenAck: self.on_taken}

    def bodies(self) -> dict[type[Message], Handler]:
        return {Tickets: self.on_tickets, TokenRequest: self.on_wake, BatchEnd: self.on_batch_end}

    # Sending

    def writable(self) -> bool:
        if self.phase in (TokenPhase.VISITING, TokenPhase.RESTING) and self.left and self.below.writable():
            return True
        self.asked = self.host.turn_due = True
        return False

    def allowance(self) -> int:
        return min(self.left, self.below.allowance())

    def submit(self, message: Message, targets: Targets = ALL) -> None:
        assert isinstance(message, Cast)
        self.left -= 1
        self.sent.append(message)
        self.host.turn_due = True
        if self.ahead:
            self.announce((message,))
        self.below.submit(message, targets)

    def submit_all(self, casts: Sequence[Cast]) -> None:
        self.left -= len(casts)
        self.sent.extend(casts)
        self.host.turn_due = True
        if self.ahead:
            self.announce(casts)
        self.below.submit_all(casts)

    def end_turn(self) -> None:
        if self.sent:
            self.end_batch()
        if self.asked and self.below.writable():  # otherwise its `resume` makes those above ask again
            self.asked = False
            if self.phase is TokenPhase.AWAY and not (self.assured or self.waking):
                self.waking = True
                self.below.submit(TokenRequest())

    def announce(self, casts: Sequence[Cast]) -> None:
        """Give messages their positions."""
        self.below.submit(Tickets(self.token.given + 1, *ranges_of(casts)))
        self.token = Token(self.token.visit, self.token.given + len(casts), 0)

    def end_batch(self) -> None:
        """Send no more at this visit; the token leaves when what was sent has come back."""
        casts, self.sent = self.sent, []
        if self.phase is TokenPhase.RESTING:
            self.host.trace(Kind.ROLE, value=GONE_ROLE)
        self.phase = TokenPhase.ANNOUNCED
        if self.ahead:
            self.below.submit(BatchEnd(), (self.host.site,))
        else:
            self.announce(casts)

    def settled(self) -> bool:
        return not self.sent and self.passed is None and self.below.settled()

    # The token

    def on_token(self, source: SiteId, token: Token) -> None:
        members = places(self.view.members)
        if source not in members:
            raise RemoteError(f"a token of site {source}, which is not in the view")
        if token.visit > self.token.visit:
            if self.phase is not TokenPhase.AWAY:
                raise RemoteError(f"a token of site {source}, while there is one here")
            if token.given < max(self.ticketed, self.token.given) or token.empty < 0:
                raise RemoteError(f"{token} of site {source}; the last one here was {self.token}")
            self.passed = None  # it has been round, so its heir has had it
        if self.repeats:
            self.send((source,), TokenAck(token.visit))
        if token.visit > self.token.visit:
            self.take(token)

    def take(self, token: Token) -> None:
        self.token = token
        self.left = self.options.batch
        self.waking = self.assured = False
        self.phase = TokenPhase.VISITING
        self.visit()

    def visit(self) -> None:
        """Let the layers above send; a visit without messages ends at once, unless the token is to rest here."""
        if not self.below.writable():
            return  # its `resume` comes here
        self.above.resume()
        if self.sent:
            return  # it leaves with what is announced
        self.asked = False  # layers that wait for credit ask again when they have some
        empty = self.token.empty + 1
        self.token = Token(self.token.visit, self.token.given, empty)
        if empty < len(self.round):
            self.pass_on(self.successor())
        elif self.waiting:
            self.pass_on(min(self.waiting, key=self.distance))
        else:
            self.phase = TokenPhase.RESTING
            self.host.trace(Kind.ROLE, value=RESTING_ROLE)

    def place(self) -> int:
        """Return the place of the token, which is here, on its round, where some members have two places."""
        if len(self.round) > len(self.view.members):
            return (self.token.visit - 1) % len(self.round)
        return places(self.view.members)[self.host.site]

    def successor(self) -> SiteId:
        return self.round[(self.place() + 1) % len(self.round)]

    def distance(self, site: SiteId) -> int:
        """Return the steps to a member along the ring; the token only moves forward, so that it skips no member."""
        here = self.place()
        return min((place - here - 1) % len(self.round) + 1 for place, other in enumerate(self.round) if other == site)

    def pass_on(self, heir: SiteId) -> None:
        if self.view is not self.stack.view:
            return  # the view closes; the token would be sent in the next view, which has its own
        steps = self.distance(heir) if len(self.round) > len(self.view.members) else 1
        token = Token(self.token.visit + steps, self.token.given, self.token.empty)
        if heir == self.host.site:  # it is alone
            self.take(token)
            return
        self.phase = TokenPhase.AWAY
        self.waiting.discard(heir)
        self.send((heir,), token)
        if self.repeats:
            self.passed = TokenInTransit(token, heir, self.host.now_ns, True)
            self.arm(heir)

    def arm(self, heir: SiteId) -> None:
        """Retransmit the token when its acknowledgement is overdue; with a bound, as the whole group waits."""
        longest_ns = round(max(self.pacing.once_ms(heir, 0), LONGEST_WAIT_MS) * 1e6)
        self.host.set_timer(self, REPEAT, min(self.pacing.wait_ns(heir), longest_ns))

    def timer(self, key: int) -> None:
        assert key == REPEAT
        if self.passed is None:
            return
        token, heir, at_ns, _ = self.passed
        self.passed = TokenInTransit(token, heir, at_ns, False)
        self.pacing.in_vain(heir)
        self.send((heir,), token)
        self.arm(heir)

    def on_taken(self, source: SiteId, taken: TokenAck) -> None:
        passed = self.passed
        if passed is None or passed.heir != source or passed.token.visit != taken.visit:
            return  # of a copy
        if passed.once:
            self.pacing.answered(source, max(0, self.host.now_ns - passed.at_ns))
        self.passed = None
        self.host.cancel_timer(self, REPEAT)

    def on_wake(self, source: SiteId, _wake: TokenRequest) -> None:
        if source == self.host.site:
            return
        self.waiting.add(source)
        if self.phase is TokenPhase.RESTING and not self.sent:
            self.host.trace(Kind.ROLE, value=GONE_ROLE)
            self.pass_on(source)

    def resume(self) -> None:
        if self.phase is TokenPhase.VISITING and not self.sent:
            self.visit()
        else:
            self.above.resume()

    # Receiving

    def deliver(self, cast: Cast, finality: Finality = Finality.FINAL) -> None:  # noqa: ARG002  from below: always final
        self.data[cast.sender].append(cast)
        if self.order:
            self.deliver_ready()

    def deliver_all(self, casts: Sequence[Cast]) -> None:
        """Take messages of one sender."""
        self.data[casts[0].sender].extend(casts)
        if self.order:
            self.deliver_ready()

    def on_tickets(self, source: SiteId, tickets: Tickets) -> None:
        tickets.count()
        if any(sender != source for sender, _, _ in tickets.ranges):
            raise RemoteError(f"site {source} announces messages of others: {tickets}")
        if tickets.first <= self.ticketed or tickets.first in self.early:
            raise RemoteError(f"positions from {tickets.first} on of site {source}, which are given")
        self.waiting.discard(source)
        if self.phase is TokenPhase.AWAY and tickets.first > self.token.given:
            self.assured = True
        self.early[tickets.first] = tickets
        while (following := self.early.pop(self.ticketed + 1, None)) is not None:
            self.ticketed += following.count()
            self.order.extend(following.mine(self.host.site))
        self.deliver_ready()
        if source == self.host.site and not self.ahead:
            self.leave()

    def on_batch_end(self, source: SiteId, _end: BatchEnd) -> None:
        if source != self.host.site:
            raise RemoteError(f"the end of a batch of site {source}, expected only from the holder itself")
        self.leave()

    def leave(self) -> None:
        """Let the token go on: the batch has come back."""
        if self.phase is TokenPhase.ANNOUNCED:
            self.assured = True
            self.pass_on(self.successor())

    def deliver_ready(self) -> None:
        """Deliver from the head of the order as far as messages are here."""
        order = self.order
        while order:
            ticket, sender, first, count = order[0]
            waiting = self.data[sender]
            if not waiting or waiting[0].number != first:
                return
            self.stack.position = position(self.view, ticket)
            here = min(count, len(waiting))
            if here == count:
                order.popleft()
            else:
                order[0] = (ticket + here, sender, first + here, count - here)
            self.above.deliver_all([waiting.popleft() for _ in range(here)])

    # View change

    def install(self, view: View) -> None:
        self.close_view()
        self.host.cancel_timer(self, REPEAT)
        self.view = view
        self.round = round_of(view.members, self.twice)
        self.reset()
        if view.members[0] == self.host.site:
            self.token = Token(1, 0, len(self.round))
            self.left = self.options.batch
            self.phase = TokenPhase.VISITING

    def close_view(self) -> None:
        """Deliver the rest of the view: announced messages by position, then the others by sender and number."""
        for first in sorted(self.early):
            self.order.extend(self.early[first].mine(self.host.site))
        deliver_rest(self, self.view, self.order, self.data)
