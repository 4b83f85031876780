"""The simulator's entry points: a scenario in, a `RunResult` out.

`make_run` is the constructor of every run; `simulate` executes one with a judge as a second sink.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable

import msgspec

from isthmus.core.errors import InputError
from isthmus.judge.judgement import Judgement, RunJudge
from isthmus.judge.participants import participant_figures
from isthmus.judge.result import RunResult
from isthmus.scenario.model import Scenario
from isthmus.sim.base import Simulation
from isthmus.sim.packets.twin import CompiledRun, has_twin
from isthmus.sim.run import SimRun
from isthmus.stacks.registry import Build
from isthmus.trace.schema import Recording, Row, Sink

Progress = Callable[[int, int], None]  # called with the virtual time in ns and the events so far


class Tee:
    """A sink that hands every row to two others."""

    __slots__ = ("first", "second")

    def __init__(self, first: Sink, second: Sink) -> None:
        self.first = first.append
        self.second = second.append

    def append(self, row: Row) -> None:
        self.first(row)
        self.second(row)


def make_run(scenario: Scenario, sink: Sink | None = None, run: int = 0, build: Build | None = None) -> Simulation:
    """Return a run of a scenario, over sites with stacks or compiled end points; `build` substitutes another stack."""
    if scenario.network.kind == "packets" and has_twin(scenario.network):
        return CompiledRun(scenario, sink, run)
    return SimRun(scenario, sink, build, run)


def simulate(
    scenario: Scenario, sink: Sink | None = None, *, judged: bool = True, progress: Progress | None = None
) -> RunResult:
    """Run a scenario in virtual time and judge it; its rows go to the sink, too."""
    if judged and scenario.trace == "none":
        scenario = msgspec.structs.replace(scenario, trace="events")
    judge = RunJudge(scenario)
    start = time.process_time()
    run = make_run(scenario, judge if sink is None else Tee(sink, judge))
    error = execute(run, progress)
    cpu_s = time.process_time() - start
    judgement = judge.judgement(run.participant_events) if judged and not error else None
    return result_of(run, judge, judgement, error, cpu_s)


def execute(run: Simulation, progress: Progress | None = None) -> str:
    """Execute a run; return the traceback if it failed. The trace records whether it was cut short."""
    run.record(Recording.BEGUN)
    try:
        for now_ns in run.steps():
            if progress is not None:
                progress(now_ns, run.scheduler.event_count)
    except InputError:  # the trace cannot be written: not a failure of the run
        raise
    except Exception:
        run.record(Recording.CUT)
        return traceback.format_exc()
    except BaseException:  # interrupted, or exiting
        run.record(Recording.CUT)
        raise
    run.record(Recording.ENDED)
    return ""


def result_of(
    run: Simulation, judge: RunJudge, judgement: Judgement | None, error: str = "", cpu_s: float = 0.0
) -> RunResult:
    """Return the result of a run that has ended; `judge` has seen its rows."""
    names = [site.name for site in run.scenario.topology.sites]
    return RunResult(
        scenario=run.scenario,
        summary=run.summary,
        judgement=judgement,
        guesses=judge.guesses(),
        participants=participant_figures(run.participant_events, names) if run.participant_events else (),
        packets=run.network.packet_count,
        packets_lost=run.network.dropped_count,
        wan_packets=run.network.wan_count,
        wan_bytes=run.network.wan_bytes,
        control_bytes=None if run.meter is None else run.meter.control_bytes,
        event_count=run.scheduler.event_count,
        virtual_ns=run.scheduler.now_ns,
        cpu_s=cpu_s,
        last_view=run.last_view(),
        figures=run.figures(),
        error=error,
    )
