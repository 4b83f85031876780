"""The result of one run, whichever host carried it out: figures, judgement, and the command that repeats it.

The simulator, live runs, comparisons, replays of studies and fuzzing all hand their callers a `RunResult`; `isthmus sim
--json` prints its `document`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from isthmus import __version__
from isthmus.judge.judgement import Judgement
from isthmus.judge.participants import ParticipantFigures
from isthmus.judge.verdict import Verdict
from isthmus.measure.optimism import Guesses
from isthmus.measure.spread import LatencySpread, spread_of
from isthmus.measure.summary import RunSummary
from isthmus.scenario.model import Scenario

CLASSES = {False: "inside", True: "to groups"}  # of a composition's messages: whether they leave their group


class RunResult(msgspec.Struct, frozen=True, kw_only=True):
    """One run, from its figures to its verdicts."""

    scenario: Scenario
    summary: RunSummary
    judgement: Judgement | None = None  # None: not asked for, or an error ended the run
    guesses: Guesses | None = None  # None: no stack delivers tentatively
    participants: tuple[ParticipantFigures, ...] = ()  # of a host that records their events
    packets: int = 0  # copies sent, those to oneself included
    packets_lost: int = 0
    wan_packets: int = 0  # copies sent to another LAN
    wan_bytes: int = 0  # of these; 0 where sizes are not measured
    control_bytes: int | None = None  # over all copies; None: sizes are not measured
    event_count: int = 0  # of the simulator
    virtual_ns: int = 0
    cpu_s: float = 0.0
    last_view: int = 0  # the number of the view that the first group ended in
    figures: dict[str, float] = {}  # what only some networks and clocks measure, by name
    error: str = ""  # the traceback of the error that ended the run
    trace: str = ""  # the folder of the trace; empty: none was kept
    replay: str = ""  # the command that repeats the run

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        return () if self.judgement is None else self.judgement.verdicts

    def exit_code(self) -> int:
        """0 all valid, or not judged; 1 a violation or an error; 3 unknown."""
        if self.error:
            return 1
        return 0 if self.judgement is None else self.judgement.exit_code()

    def class_spreads(self) -> list[tuple[str, str, LatencySpread]]:
        """The latency per message of a composition by the group that sends and the class of messages."""
        composition, classes = self.scenario.composition, self.summary.by_class
        if composition is None or classes is None:
            return []
        return [
            (composition.nodes[group].name, CLASSES[leaves], spread_of([latencies]))
            for (group, leaves), latencies in sorted(classes.items(), key=lambda item: item[0])
        ]

    def document(self) -> dict[str, Any]:
        scenario, summary, guessed = self.scenario, self.summary, self.guesses
        classes = [{"group": name, "kind": kind, "message_ms": spread} for name, kind, spread in self.class_spreads()]
        return {
            "isthmus": __version__,
            "scenario": scenario.name,
            "stack": scenario.stack.name,
            "seed": scenario.seed,
            "sites": len(scenario.topology.sites),
            "submitted": summary.submitted_count,
            "refused": summary.refused_count,
            "undelivered": summary.undelivered_count(),
            "delivery_ms": spread_of([summary.delivered]),
            "message_ms": spread_of([summary.per_message]),
            "classes": None if scenario.composition is None else classes,
            "tentative_ms": spread_of([guessed.seen]) if guessed else None,
            "hit_percent": 100 * guessed.hit if guessed else None,
            "participants": self.participants,
            "packets": self.packets,
            "packets_lost": self.packets_lost,
            "control_bytes": self.control_bytes,
            "crashes": summary.crash_count,
            "events": self.event_count,
            "virtual_s": self.virtual_ns / 1e9,
            "cpu_s": self.cpu_s,
            "trace": self.trace or None,
            "figures": self.figures,
            "error": self.error,
            "verdicts": self.verdicts,
            "participant_groups": () if self.judgement is None else self.judgement.participants,
            "replay": self.replay,
        }

    def as_json(self) -> str:
        return msgspec.json.format(msgspec.json.encode(self.document())).decode()
