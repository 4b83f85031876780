"""The clock service of a site: rounds of its LAN, and the time that users read (paper 000, section 3).

Problem: true time enters a LAN at a few references; clocks drift, frames are lost and repeated, references lie.

Idea: one broadcast reaches all sites of a LAN at nearly the same instant, however long it waited for access. So a
reception is a shared instant, and stamping it compares all clocks at once. A round, by the hardware clock of each
member:

    begin            a period after the last one, or when a candidate of a later round arrives
    begin + place    broadcast a candidate; places are spread over the first half of the window
    begin + W        close: send the table of receptions to the others
    + A/2            request missing tables again
    begin + W + A    with all tables: choose a candidate, agree on its time, install it; otherwise there is no round

The interval is that of the agreed time, widened by the drift since the candidate's *stamp*: the time that agreement
took has aged it, too. A clock that has an interval is never stepped again, only steered: within half a period to the
agreed time, if the median of the LAN's clocks is as near it as in an undisturbed round. Of what goes beyond that, all
clocks of the LAN work off the same part, at most `slew_ppm`.

Invariants:
- a table is final when it is closed: all members with all tables of a round have the same ones, and choose alike;
- true time is within the interval, as long as drift, tightness and error of references are within the options, and more
  than half of the LAN's references are right;
- once there is an interval, the clock never runs backwards;
- a candidate or table of an earlier round, or of a view that is not installed, changes nothing.

Bounds: one round is open; a table has one entry per member.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from isthmus.core.errors import RemoteError
from isthmus.core.layer import ClockState, Handler, Layer, Reading, View, places
from isthmus.core.message import Message, SiteId, Targets
from isthmus.core.units import NS_PER_MS
from isthmus.protocols.clocks.agreement import CommonTime, Reception, Table, agree, choose
from isthmus.protocols.clocks.intervals import Span, VirtualClock, beyond, fit_rate
from isthmus.protocols.clocks.options import ClockOptions, accuracy_ns
from isthmus.protocols.clocks.wire import Candidate, ClockHost, Receptions, TableRequest

ROUND, SEND, CLOSE, ASK, INSTALL = range(5)  # timer keys
ROUNDS_KEPT = 8  # for the rate
LATE = 2.5  # periods without a reference, after which the clock is in hold-over


class ClockService(Layer):
    """The clock of a site, synchronised with its LAN's and, by references, with true time."""

    __slots__ = (
        "adopted_count",
        "clock",
        "closed",
        "members",
        "missed_count",
        "options",
        "points",
        "referenced_ns",
        "remote",
        "round",
        "span",
        "table",
        "tables",
    )
    timer_names = ("round", "send", "close", "ask", "install")
    host: ClockHost

    def __init__(self, options: ClockOptions) -> None:
        self.options = options
        self.members: Targets = ()  # of the LAN's view
        self.round = 0  # the latest that was begun
        self.closed = True  # whether its table is final
        self.table: list[Reception | None] = []  # of the round, by the place of the candidate's sender
        self.tables: dict[SiteId, Table] = {}  # the final ones, by member
        self.span: Span | None = None  # the interval of true time; None: free-running
        self.referenced_ns: int | None = None  # the hardware clock at the last agreement by a reference
        self.points: deque[tuple[int, int, int]] = deque(maxlen=ROUNDS_KEPT)  # stamp, its time by references, error
        self.remote: Callable[[int], Reading | None] | None = None  # time by round trips, at a hardware time
        self.adopted_count = 0  # rounds
        self.missed_count = 0  # rounds without agreement

    def handlers(self) -> dict[type[Message], Handler]:
        return {Candidate: self.on_candidate, Receptions: self.on_receptions, TableRequest: self.on_table_request}

    def start(self) -> None:
        time_ns = self.host.calendar().time_ns
        self.clock = VirtualClock(self.host.now_ns, time_ns, self.options.slew_ppm / 1e6)

    # What users read

    def read(self, hardware_ns: int) -> Reading | None:
        """The time with its error bound; None: free-running, the site's own calendar is as good."""
        if self.span is None:
            return None
        time_ns = self.clock.read(hardware_ns)
        low, high = self.span.at(hardware_ns)
        return Reading(time_ns, max(time_ns - low, high - time_ns), self.state_at(hardware_ns))

    def state_at(self, hardware_ns: int) -> ClockState:
        if self.span is None:
            return ClockState.FREE_RUNNING
        since = self.referenced_ns
        fresh = since is not None and hardware_ns - since <= LATE * self.options.period_ns
        return ClockState.SYNCHRONISED if fresh else ClockState.HOLD_OVER

    # Rounds

    def install(self, view: View) -> None:
        """Abandon the current round: its tables would be of the wrong members."""
        first = not self.members
        self.members = view.members
        self.closed, self.table, self.tables = True, [], {}
        for key in (SEND, CLOSE, ASK, INSTALL):
            self.host.cancel_timer(self, key)
        if first:
            self.host.set_timer(self, ROUND, self.options.window_ns)

    def begin(self, number: int) -> None:
        options, host, count = self.options, self.host, len(self.members)
        self.round, self.closed = number, False
        self.table, self.tables = [None] * count, {}
        close_ns = options.window_ns
        host.set_timer(self, SEND, places(self.members)[host.site] * close_ns // (2 * count))
        host.set_timer(self, CLOSE, close_ns)
        host.set_timer(self, ASK, close_ns + options.agreement_ns // 2)
        host.set_timer(self, INSTALL, close_ns + options.agreement_ns)
        host.set_timer(self, ROUND, options.period_ns)

    def timer(self, key: int) -> None:
        if key == ROUND:
            self.begin(self.round + 1)
        elif key == SEND:
            self.send(self.members, Candidate(self.round))
        elif key == CLOSE:
            self.close()
        elif key == ASK:
            missing = tuple(site for site in self.members if site not in self.tables)
            if missing:
                self.send(missing, TableRequest(self.round))
        else:
            assert key == INSTALL
            self.conclude()

    def on_candidate(self, source: SiteId, candidate: Candidate) -> None:
        if source not in self.members:
            raise RemoteError(f"a candidate of site {source}, which is not on this LAN")
        if candidate.round > self.round:
            self.begin(candidate.round)
        place = places(self.members)[source]
        if candidate.round == self.round and not self.closed and self.table[place] is None:
            self.table[place] = self.reception(candidate.attempt)

    def reception(self, attempt: int) -> Reception:
        """The stamp of the message being handled."""
        stamp_ns = self.host.received_ns
        reading = self.read(stamp_ns)
        time_ns = self.clock.read(stamp_ns) if reading is None else reading.time_ns
        error_ns = None if reading is None else reading.error_ns
        reference = self.host.reference()
        if reference is None and self.remote is not None:
            reference = self.remote(stamp_ns)
        if reference is None or reference.error_ns is None:
            return Reception(attempt, stamp_ns, time_ns, error_ns)
        return Reception(attempt, stamp_ns, time_ns, error_ns, reference.time_ns, reference.error_ns)

    def close(self) -> None:
        """Make the table final and send it to the others."""
        self.closed = True
        self.tables[self.host.site] = table = tuple(self.table)
        others = tuple(site for site in self.members if site != self.host.site)
        if others:
            self.send(others, Receptions(self.round, table))

    def on_receptions(self, source: SiteId, received: Receptions) -> None:
        if source not in self.members or len(received.table) != len(self.members):
            raise RemoteError(f"a table of {len(received.table)} receptions of site {source}, for {len(self.members)}")
        if received.round == self.round and self.table:
            self.tables.setdefault(source, received.table)

    def on_table_request(self, source: SiteId, request: TableRequest) -> None:
        if request.round == self.round and self.host.site in self.tables:
            self.send((source,), Receptions(self.round, tuple(self.table)))

    def conclude(self) -> None:
        """Install the time that the round agreed on, if it did."""
        chosen = None
        if all(site in self.tables for site in self.members):
            chosen = choose([self.tables[site] for site in self.members])
        if chosen is None:
            self.missed_count += 1
            return
        stamps = [stamp for site in self.members if (stamp := self.tables[site][chosen]) is not None]
        own = self.tables[self.host.site][chosen]
        assert own is not None and len(stamps) == len(self.members)
        gate_ms = self.options.gate_ms
        gate_ns = None if gate_ms is None else round(gate_ms * NS_PER_MS)
        self.adopt(agree(stamps, self.options.slack_ns, gate_ns), own.stamp_ns)

    def adopt(self, agreed: CommonTime, stamp_ns: int) -> None:
        """Install the agreed time of a stamp."""
        now_ns, stepping = self.host.now_ns, self.span is None
        if agreed.referenced and agreed.bounds is not None:
            self.referenced_ns = now_ns
            self.points.append((stamp_ns, agreed.time_ns, (agreed.bounds[1] - agreed.bounds[0]) // 2))
        rate, spread = self.rate(agreed.referenced)
        if agreed.bounds is not None:
            span = Span(stamp_ns, *agreed.bounds, rate, spread).moved(now_ns)
            self.span = span if self.span is None else span.intersect(self.span)
        passed = now_ns - stamp_ns
        shared_ns = agreed.time_ns if agreed.shared_ns is None else agreed.shared_ns
        usual_ns = 2 * accuracy_ns(self.options)  # the clocks' distance from the agreed time in an undisturbed round
        common_ns = beyond(agreed.time_ns - shared_ns, usual_ns)
        time_ns = agreed.time_ns - common_ns + passed + round(passed * rate)
        if stepping:
            self.clock.step(now_ns, time_ns, rate, common_ns)
        else:
            self.clock.steer(now_ns, time_ns, rate, common_ns, self.options.period_ns // 2)
        self.adopted_count += 1

    def rate(self, referenced: bool) -> tuple[float, float]:
        """The rate of true time over the hardware clock, and its error bound."""
        if not referenced and self.span is not None:
            return self.span.rate, self.span.spread  # as of the last agreement by a reference
        drift = self.options.drift
        if self.options.rate_correction and len(self.points) == ROUNDS_KEPT:
            fit = fit_rate([point[:2] for point in self.points])
            error_ns = max(point[2] for point in self.points)
            spread = error_ns * fit.sensitivity + self.options.wander_ppm / 1e6
            if spread < drift:
                return fit.rate, spread
        return 0.0, drift
