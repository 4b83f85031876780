"""The participants of one site, as given by a scenario: they join, send, leave, and rejoin after a crash.

A host supplies a way to schedule actions, as for the site's applications (scenario/traffic.py), and records the events:
messages sent, and views and messages delivered to the local participants, in order. A run of participants is judged and
shown from these events, or from the rows that participants/trace.py makes of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from isthmus.core.errors import Busy, LocalError
from isthmus.core.layer import Layer
from isthmus.core.message import GroupId, SiteId
from isthmus.core.units import NS_PER_MS
from isthmus.protocols.participants.ordered import Participants
from isthmus.protocols.participants.wire import Participant, ParticipantView, Speech
from isthmus.scenario.model import GroupOfRun, Scenario
from isthmus.scenario.participants.model import LABEL_BYTES, ParticipantSpec
from isthmus.scenario.traffic import At

AGAIN_NS = 10 * NS_PER_MS  # delay before a join is retried while the participant's last leave is in progress


class SentMessage(NamedTuple):
    """A message that a participant was allowed to send."""

    group: str
    sender: Participant
    payload: bytes


class ParticipantEvent(NamedTuple):
    """A participant event at one incarnation of a site."""

    time_ns: int
    site: SiteId
    incarnation: int
    within: GroupId  # the site group
    view_id: int  # the site view of the event; at the end of a view, events that the next one completes belong to it
    era: int  # the site view in which the numbering of participant views began
    what: ParticipantView | Speech | SentMessage


class ParticipantTraffic:
    """The participants of one site, across all its incarnations."""

    def __init__(
        self,
        scenario: Scenario,
        site: SiteId,
        at: At,
        now_ns: Callable[[], int],
        groups: Sequence[GroupOfRun],
        on_event: Callable[[ParticipantEvent], None],
    ) -> None:
        self.site = site
        self.at = at
        self.now_ns = now_ns
        self.end_ns = round(scenario.duration_ms * NS_PER_MS)
        self.on_event = on_event
        self.said_count = 0
        self.layers: dict[GroupId, Participants] = {}  # of the current incarnation; empty while the site is down
        self.specs: list[tuple[GroupId, ParticipantSpec]] = []
        for spec in scenario.participants:
            group = next(group for group in groups if spec.within in ("", group.name))
            if scenario.topology.site_id(spec.site) == site:
                self.specs.append((group.id, spec))

    def boot(self, group: GroupId, layers: Sequence[Layer]) -> None:
        """Attach to the stack of a new incarnation; after a crash, due participants join again."""
        for layer in layers:
            if isinstance(layer, Participants):
                self.layers[group] = layer
                layer.on_view = layer.on_message = layer.guesses.on_guess = partial(self.note, layer)
                for within, spec in self.specs:
                    if within == group and layer.host.incarnation:
                        self.at(self.now_ns(), group, partial(self.join, group, spec))

    def crash(self) -> None:
        self.layers = {}

    def start(self) -> None:
        for group, spec in self.specs:
            self.at(round(spec.join_ms * NS_PER_MS), group, partial(self.join, group, spec))
            if spec.leave_ms is not None and spec.leave_ms * NS_PER_MS < self.end_ns:
                self.at(round(spec.leave_ms * NS_PER_MS), group, partial(self.leave, group, spec))
            if spec.period_ms is not None:
                self.schedule(group, spec, round(spec.join_ms * NS_PER_MS))

    def is_due(self, spec: ParticipantSpec) -> bool:
        """Return whether a participant should be present now."""
        now_ms = self.now_ns() / NS_PER_MS
        return now_ms >= spec.join_ms and (spec.leave_ms is None or now_ms < spec.leave_ms)

    def join(self, group: GroupId, spec: ParticipantSpec) -> None:
        layer = self.layers.get(group)
        if layer is None or not self.is_due(spec) or self.now_ns() >= self.end_ns:
            return
        stay = layer.stays.get((spec.group, spec.name))
        if stay is None:
            layer.join(spec.group, spec.name)
        elif stay.leaving:
            self.at(self.now_ns() + AGAIN_NS, group, partial(self.join, group, spec))

    def leave(self, group: GroupId, spec: ParticipantSpec) -> None:
        layer = self.layers.get(group)
        if layer is not None:
            stay = layer.stays.get((spec.group, spec.name))
            if stay is not None and not stay.leaving:
                layer.leave(spec.group, spec.name)

    def schedule(self, group: GroupId, spec: ParticipantSpec, after_ns: int) -> None:
        assert spec.period_ms is not None
        time_ns = after_ns + max(1, round(spec.period_ms * NS_PER_MS))
        if time_ns < self.end_ns and (spec.leave_ms is None or time_ns < spec.leave_ms * NS_PER_MS):
            self.at(time_ns, group, partial(self.say, group, spec, time_ns))

    def say(self, group: GroupId, spec: ParticipantSpec, time_ns: int) -> None:
        """Send a message if the participant is a member and the buffer has room."""
        self.schedule(group, spec, time_ns)
        layer = self.layers.get(group)
        if layer is None:
            return
        self.said_count += 1
        label = f"{layer.host.incarnation}.{self.said_count}".encode().ljust(LABEL_BYTES)
        payload = label.ljust(spec.payload_bytes, b".")
        try:
            layer.say(spec.group, spec.name, payload)
        except (Busy, LocalError):  # an open-loop source does not wait
            return
        self.note(layer, SentMessage(spec.group, Participant(self.site, spec.name), payload))

    def note(self, layer: Participants, what: ParticipantView | Speech | SentMessage) -> None:
        host, view_id = layer.host, layer.view.view_id - layer.closing
        note = ParticipantEvent(self.now_ns(), host.site, host.incarnation, host.group, view_id, layer.era, what)
        self.on_event(note)
