"""Time for a LAN without a reference: its agent requests it from agents of LANs that have one (paper 000, section 3).

The interval of a reply holds for some instant between request and reply. So when the reply arrives, true time is within
it, widened by the whole round trip towards later: half the round trip to either side of the middle. The agent then is a
reference to its LAN, with that as its error.

Requests go to the nearest source; for each period without a reply, to one more. The narrowest of the last eight replies
is used, each widened by its age; one that is some periods old does not count: that is hold-over.

Invariant: only replies of a source to one of the last sixteen requests are accepted.
"""

from __future__ import annotations

from collections import deque

from isthmus.core.errors import RemoteError
from isthmus.core.layer import ClockState, Handler, Layer, Reading, View
from isthmus.core.message import Message, SiteId, Targets
from isthmus.protocols.clocks.intervals import Span
from isthmus.protocols.clocks.options import ClockOptions
from isthmus.protocols.clocks.service import LATE, ClockService
from isthmus.protocols.clocks.wire import TimeReply, TimeRequest

ASK = 0  # timer key
ASKS_A_PERIOD = 4
ANSWERS_KEPT = 8
ASKS_KEPT = 16  # a reply that takes longer is useless


class RoundTrips(Layer):
    """Requests the time from other LANs if this one has no reference; replies to their requests."""

    __slots__ = ("answers", "asked", "asks", "options", "service", "unanswered_count")
    timer_names = ("ask",)

    def __init__(self, options: ClockOptions, service: ClockService) -> None:
        self.options = options
        self.service = service
        self.answers: deque[Span] = deque(maxlen=ANSWERS_KEPT)
        self.asked: deque[int] = deque(maxlen=ASKS_KEPT)  # when the last requests were sent
        self.unanswered_count = 0  # requests since the last reply
        self.asks = False  # whether this site sends the requests of its LAN

    def handlers(self) -> dict[type[Message], Handler]:
        return {TimeRequest: self.on_ask, TimeReply: self.on_answer}

    def start(self) -> None:
        self.service.remote = self.reading

    def install(self, view: View) -> None:
        """Send requests if this site is the agent of its LAN, or stands in for it."""
        agent = self.options.agent
        acting = agent if agent in view.members else view.members[0]
        self.asks = agent is not None and bool(self.options.sources) and acting == self.host.site
        if self.asks:
            self.host.set_timer(self, ASK, 0)
        else:
            self.answers.clear()

    def resume(self) -> None:
        """Do nothing: this is the top of its stack, and no application waits above."""

    def suspect(self, site: SiteId, suspected: bool) -> None:
        """Do nothing: views define the members."""

    def timer(self, key: int) -> None:
        assert key == ASK
        if self.asks:
            self.ask()
            self.host.set_timer(self, ASK, self.options.period_ns // ASKS_A_PERIOD)

    def ask(self) -> None:
        now_ns = self.host.now_ns
        targets: Targets = self.options.sources[: 1 + self.unanswered_count // ASKS_A_PERIOD]
        self.asked.append(now_ns)
        self.unanswered_count += 1
        self.send(targets, TimeRequest(now_ns))

    def on_ask(self, source: SiteId, ask: TimeRequest) -> None:
        reading = self.service.read(self.host.now_ns)
        interval = None if reading is None else reading.interval()
        if interval is not None and self.service.state_at(self.host.now_ns) is ClockState.SYNCHRONISED:
            self.send((source,), TimeReply(ask.sent_ns, *interval))

    def on_answer(self, source: SiteId, answer: TimeReply) -> None:
        if answer.earliest_ns > answer.latest_ns:
            raise RemoteError(f"a reply of site {source} whose earliest time is after its latest")
        if answer.sent_ns not in self.asked or source not in self.options.sources:
            return  # too late, or not requested
        self.unanswered_count = 0
        now_ns, drift = self.host.now_ns, self.options.drift
        trip = Span(answer.sent_ns, answer.earliest_ns, answer.latest_ns, 0.0, drift)
        self.answers.append(Span(now_ns, answer.earliest_ns, trip.at(now_ns)[1], 0.0, drift))

    def reading(self, hardware_ns: int) -> Reading | None:
        """The time by the narrowest recent reply; None if there is none."""
        age_ns = LATE * self.options.period_ns
        spans = [span.at(hardware_ns) for span in self.answers if hardware_ns - span.stamp_ns <= age_ns]
        if not spans:
            return None
        low, high = min(spans, key=lambda ends: ends[1] - ends[0])
        return Reading((low + high) // 2, (high - low + 1) // 2)
