"""Estimates of the application's message period and of one-way delays, measured while the group runs.

Problem: a protocol that adapts to load and distance must know both, and neither is given.

Idea: the times between the application's messages are samples of its period; this layer is directly below it and
sees each one before flow control or a change of roles can delay it. A delay is half of a probe's round trip: every
`probe_ms` a site probes all others. A probe also carries the prober's period, so that all know it without messages of
its own. If both sites' clocks are synchronised, with errors small beside the round trip, the probe carries its send
time, and the echo its one-way delay, however much longer the way back. A delay that changes is probed again at once,
once: a failed link is then known after two round trips instead of two periods, and a packet that was late by chance
has cost one more.

One member may collect the estimates of all others (planned.py): echoes of its probes carry a *report*, the period of
the application and all delays, which costs no packet of its own. Urgent reports are sent at once.

A detector turns samples into a mean that follows shifts (detectors.py). Where `silence` is on, the time since the
last message counts as a sample as soon as it is longer than the mean: a site that has stopped sending gives no samples,
and would seem busy for ever. A site that has sent next to nothing counts as silent after one probe period.

Nothing here is needed for safety: a lost probe or a late echo makes an estimate worse, no order wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

import msgspec

from isthmus.core.errors import RemoteError
from isthmus.core.layer import ClockState, Handler, Layer, View
from isthmus.core.message import ALL, Cast, Message, SiteId, Targets
from isthmus.core.validation import DURATION_MAX_MS, check_range
from isthmus.protocols.detectors import DETECTORS, Detector, Level

PROBE = 0  # timer key
SHORTEST_PROBE_MS = 1.0
ROUND_TRIP_MAX_NS = 60_000_000_000  # an echo that seems longer answers no probe of ours
SILENT_US = 2**40  # a period that stands for silence
Micros = Annotated[int, msgspec.Meta(ge=0, le=2**50)]
Span = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
Time = Annotated[int, msgspec.Meta(ge=-(2**62), le=2**62)]
ERROR_SHARE = 4  # a delay by synchronised clocks is taken if its error is at most this part of the round trip
DOUBT_NS = 1_000_000  # a smaller deviation of a delay does not matter enough for another probe


class EstimatorOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of the estimates."""

    probe_ms: float = 2_000.0
    detector: Literal["mean-shift", "sliding", "exponential", "cusum"] = "sliding"
    samples: int = 32  # of the mean; of the run that shifts it
    silence: bool = True  # a time without a message counts as a sample

    def __post_init__(self) -> None:
        check_range("probe_ms", self.probe_ms, SHORTEST_PROBE_MS, DURATION_MAX_MS)
        check_range("samples", self.samples, 1, 10_000, "a whole number")

    def new(self) -> Detector:
        """A detector of periods."""
        return DETECTORS[self.detector](self.samples)

    def new_delay(self) -> Detector:
        """A detector of delays: the paper's has one for both."""
        return self.new() if self.detector == "mean-shift" else Level()


class DelayProbe(Message, frozen=True, gc=False, array_like=True, tag=22):
    """A probe, with its send time by the prober's clock and the period of the prober's application."""

    viewless: ClassVar[bool] = True
    sent_ns: int
    period_ns: Span  # 0: it has not sent yet


class DelayReport(Message, frozen=True, gc=False, array_like=True, tag=33):
    """A site's estimates of its application's period and of delays."""

    viewless: ClassVar[bool] = True
    period_us: Micros  # between messages of its application; 0: it has sent too little to tell
    regular: bool  # whether they come periodically rather than at random
    delays_us: tuple[tuple[SiteId, Micros], ...]  # to those whose echoes have come, in the order of the view


class ProbeEcho(Message, frozen=True, gc=False, array_like=True, tag=23):
    """The answer to a probe, at once."""

    viewless: ClassVar[bool] = True
    sent_ns: int
    report: DelayReport | None = None  # for the member that collects them


class TimedProbe(DelayProbe, frozen=True, gc=False, array_like=True, tag=35):
    """A probe of a site whose clock is synchronised, with its send time and error bound."""

    time_ns: Time
    error_ns: Span


class TimedEcho(ProbeEcho, frozen=True, gc=False, array_like=True, tag=36):
    """The echo of a site whose clock is synchronised, too, with the probe's one-way delay and error bound."""

    delay_ns: Time = 0
    error_ns: Span = 0


class Estimator(Layer):
    """Estimates of periods and delays."""

    __slots__ = (
        "again",
        "collector",
        "delays",
        "last_ns",
        "members",
        "options",
        "own",
        "periods",
        "reported",
        "reports",
    )
    timer_names = ("probe",)

    def __init__(self, options: EstimatorOptions | None = None) -> None:
        self.options = options or EstimatorOptions()
        self.own = self.options.new()  # times between the application's messages
        self.last_ns: int | None = None  # when the application sent last
        self.delays: dict[SiteId, Detector] = {}  # of the members
        self.periods: dict[SiteId, int] = {}  # as the members report them
        self.members: Targets = ()
        self.again: list[SiteId] = []  # members probed again in this period, each at most once
        self.collector: SiteId | None = None  # the member that collects reports
        self.reports: dict[SiteId, DelayReport] = {}  # by member, if this site collects them
        self.reported: DelayReport | None = None  # the last report sent to the collector

    def handlers(self) -> dict[type[Message], Handler]:
        timed: dict[type[Message], Handler] = {TimedProbe: self.on_ask, TimedEcho: self.on_echo}
        return timed | {DelayProbe: self.on_ask, ProbeEcho: self.on_echo, DelayReport: self.on_report}

    # What is known

    def period_ns(self, site: SiteId | None = None) -> float | None:
        """The mean time between the messages of the application here, or as a member reports its own.

        None before there are two, or a long silence.
        """
        if site is not None and site != self.host.site:
            return self.periods.get(site)
        mean = self.own.mean
        if self.last_ns is None or not self.options.silence:
            return mean
        silence = float(self.host.now_ns - self.last_ns)
        told = self.own.with_sample(max(silence, mean or 0.0))
        return told if told is not None or silence < self.options.probe_ms * 1e6 else silence

    def delay_ns(self, site: SiteId) -> float | None:
        """The mean one-way delay to a member; None before the first echo."""
        detector = self.delays.get(site)
        return None if detector is None else detector.mean

    def report(self) -> DelayReport:
        period_ns = self.period_ns()
        period_us = 0 if period_ns is None else min(SILENT_US, max(1, round(period_ns / 1e3)))
        known = ((site, self.delay_ns(site)) for site in self.members)
        delays = tuple((site, round(delay / 1e3)) for site, delay in known if delay is not None)
        return DelayReport(period_us, self.own.regular(), delays)

    def note_period(self, site: SiteId, period_ns: int) -> None:
        """Record the period of a member's application."""
        self.periods[site] = period_ns
        if site in self.reports:
            period_us = min(SILENT_US, max(1, round(period_ns / 1e3)))
            self.reports[site] = msgspec.structs.replace(self.reports[site], period_us=period_us)

    def collect(self, collector: SiteId | None) -> None:
        """Report to a member from now on, which may be this site; None: to none."""
        self.collector, self.reported = collector, None
        if collector != self.host.site:
            self.reports = {}

    # Events

    def start(self) -> None:
        if self.options.silence:
            self.last_ns = self.host.now_ns  # silence counts from the start

    def install(self, view: View) -> None:
        self.members = tuple(site for site in view.members if site != self.host.site)
        self.delays = {site: self.delays[site] for site in self.members if site in self.delays}
        self.periods = {site: self.periods[site] for site in self.members if site in self.periods}
        self.reports = {site: self.reports[site] for site in self.members if site in self.reports}
        self.probe()

    def timer(self, key: int) -> None:
        assert key == PROBE
        self.probe()

    def probe(self) -> None:
        self.again.clear()
        if self.members:
            self.ask(self.members)
            self.host.set_timer(self, PROBE, round(self.options.probe_ms * 1e6))

    def ask(self, members: Targets) -> None:
        period, now_ns, clock = self.period_ns(), self.host.now_ns, self.host.clock()
        told = 0 if period is None else round(period)
        timed = clock.state is ClockState.SYNCHRONISED and clock.error_ns is not None
        self.send(
            members, TimedProbe(now_ns, told, clock.time_ns, clock.error_ns or 0) if timed else DelayProbe(now_ns, told)
        )

    def submit(self, message: Message, targets: Targets = ALL) -> None:
        self.note_sent(1)
        self.below.submit(message, targets)

    def submit_all(self, casts: Sequence[Cast]) -> None:
        self.note_sent(len(casts))
        self.below.submit_all(casts)

    def deliver_all(self, casts: Sequence[Cast]) -> None:
        self.above.deliver_all(casts)

    def consumed_all(self, casts: Sequence[Cast]) -> None:
        self.below.consumed_all(casts)

    def note_sent(self, count: int) -> None:
        """Take the time since the last message as a sample; messages of one turn share it."""
        now = self.host.now_ns
        if self.last_ns is not None:
            self.own.add((now - self.last_ns) / count)
        self.last_ns = now

    def on_ask(self, source: SiteId, ask: DelayProbe) -> None:
        if source not in self.members:
            return  # of a view that one of us is not in yet, or no longer
        if ask.period_ns:
            self.note_period(source, ask.period_ns)
        report = None
        if source == self.collector:
            report = self.reported = self.report()
        clock = self.host.clock()
        timed = clock.state is ClockState.SYNCHRONISED and clock.error_ns is not None
        if isinstance(ask, TimedProbe) and timed:
            error_ns = ask.error_ns + (clock.error_ns or 0)
            self.send((source,), TimedEcho(ask.sent_ns, report, clock.time_ns - ask.time_ns, error_ns))
        else:
            self.send((source,), ProbeEcho(ask.sent_ns, report))

    def on_echo(self, source: SiteId, echo: ProbeEcho) -> None:
        if source not in self.members:
            return
        round_trip_ns = self.host.now_ns - echo.sent_ns
        if not 0 <= round_trip_ns <= ROUND_TRIP_MAX_NS:
            raise RemoteError(f"an echo of site {source} to a probe that was never sent")
        delay_ns = round_trip_ns / 2
        if isinstance(echo, TimedEcho) and echo.error_ns * ERROR_SHARE <= round_trip_ns:
            delay_ns = min(max(0.0, float(echo.delay_ns)), float(round_trip_ns))
        detector = self.delays.setdefault(source, self.options.new_delay())
        detector.add(delay_ns)
        if isinstance(detector, Level) and detector.doubt() > DOUBT_NS and source not in self.again:
            self.again.append(source)
            self.ask((source,))
        if echo.report is not None:
            self.on_report(source, echo.report)

    def on_report(self, source: SiteId, report: DelayReport) -> None:
        if source in self.members and self.collector == self.host.site:  # otherwise of a view that one of us is not in
            self.reports[source] = report

    def tell(self, report: DelayReport) -> None:
        """Report at once, without a probe."""
        if self.collector in self.members:
            self.reported = report
            self.send((self.collector,), report)
