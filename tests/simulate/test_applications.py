"""What an application sees of tentative and final deliveries, and the store that uses both."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from isthmus.core.layer import Finality, Host, Kind, Stack
from isthmus.core.message import Cast, SiteId
from isthmus.protocols.application import Application
from isthmus.scenario.model import Scenario, StackSpec
from isthmus.scenario.workload import Periodic
from isthmus.sim.run import SimRun
from isthmus.stacks.registry import STACKS, StackOptions
from isthmus.topology.delay import Constant
from isthmus.topology.model import Channel
from isthmus.topology.shapes import mesh
from isthmus.trace.schema import KIND, PROCESS, SENDER, Row

SECOND = SiteId(1)
BOTH = [(1, Finality.TENTATIVE), (1, Finality.FINAL)]


@pytest.mark.parametrize(
    ("wants", "expected"),
    [(tuple(Finality), BOTH), ((Finality.TENTATIVE,), BOTH[:1]), ((Finality.FINAL,), BOTH[1:])],
)
def test_an_application_asks_for_either_or_both(wants, expected) -> None:
    told: list[tuple[int, Finality]] = []

    def note(cast: Cast, finality: Finality) -> None:
        told.append((cast.number, finality))

    def build(host: Host, application: Application, options: StackOptions) -> Stack:
        return STACKS["optimistic"].build(
            host, Application(note, wants=wants) if host.site == SECOND else application, options
        )

    channel = Channel(Constant(10))
    scenario = Scenario(
        topology=mesh(2, 1, channel, channel),
        stack=StackSpec(name="optimistic", batch_ms=50.0),
        workloads=(Periodic(rate_per_s=1, sites=("c0-0",), count=1),),
        duration_ms=2_000,
    )
    rows: list[Row] = []
    SimRun(scenario, rows, build).execute()
    assert told == expected
    traced = [row[KIND] for row in rows if row[PROCESS] == SECOND and row[SENDER] == 0]
    assert traced == [Kind.TENTATIVE, Kind.DELIVER], "the trace has both"


def test_the_store_certifies_alike_everywhere_and_the_window_hides_work(monkeypatch, capsys) -> None:
    path = Path(__file__).parents[2] / "examples" / "optimistic_certification.py"
    spec = importlib.util.spec_from_file_location("certification", path)
    store = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(store)
    monkeypatch.setattr(store, "DURATION_MS", 12_000.0)
    monkeypatch.setattr(store, "WARM_UP_MS", 5_000.0)
    assert store.main() == 0
    said = capsys.readouterr().out
    assert "All replicas are equal" in said
    hidden, of = (float(word) for word in said.split("The window hid ")[1].split(" ms")[0].split(" of "))
    assert 0.5 * of < hidden <= of


def test_an_answer_in_the_chat_never_precedes_its_question(capsys) -> None:
    path = Path(__file__).parents[2] / "examples" / "causal_chat.py"
    spec = importlib.util.spec_from_file_location("causal_chat", path)
    chat = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(chat)
    assert chat.main() == 0
    plain, causal = capsys.readouterr().out.split("Over ")[1:]
    assert plain.startswith("unordered") and "<- the answer, before its question" in plain
    assert causal.startswith("causal-separators") and "All in all 0 answers are shown before" in causal
