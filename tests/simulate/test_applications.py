"""What an application sees of tentative and final deliveries, and the store that uses both."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from isthmus.core.layer import Finality, View
from isthmus.core.message import Cast, SiteId
from isthmus.core.recording import RecordingHost
from isthmus.core.script import parse_message
from isthmus.protocols.application import Application
from isthmus.stacks import STACKS, StackOptions

BOTH = [(1, Finality.TENTATIVE), (1, Finality.FINAL)]


@pytest.mark.parametrize(
    ("wants", "expected"),
    [(tuple(Finality), BOTH), ((Finality.TENTATIVE,), BOTH[:1]), ((Finality.FINAL,), BOTH[1:])],
)
def test_an_application_asks_for_either_or_both(wants, expected) -> None:
    told: list[tuple[int, Finality]] = []

    def note(cast: Cast, finality: Finality) -> None:
        told.append((cast.number, finality))

    host = RecordingHost(SiteId(1))
    stack = STACKS["optimistic"].build(host, Application(note, wants=wants), StackOptions())
    host.attach(stack)
    host.run(lambda: stack.install(View(1, (SiteId(0), SiteId(1)))))
    host.receive(SiteId(0), parse_message('Data(1, 1, Posted(Cast(0, 1, b"x"), 1))', stack))
    host.receive(SiteId(0), parse_message("Data(1, 2, Numbers(1, 1, ((0, 1),)))", stack))
    assert told == expected
    lines = [line for line in host.drain() if line.endswith(" 0:1")]
    assert lines == ["tentative 0:1", "deliver 0:1"], "the trace has both"


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
