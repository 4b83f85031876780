"""What the command line does when something goes wrong that is nobody's input."""

from __future__ import annotations

import signal

import pytest

from isthmus.cli import main as cli


@pytest.fixture(autouse=True)
def handler():
    """Leave the signal as it was."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def run(monkeypatch, action):
    monkeypatch.setattr(cli.root, "main", lambda **_: action())
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return ended.value.code


def test_a_fault_of_ours_has_a_traceback_and_no_verdicts_exit_code(monkeypatch, capsys):
    def explode():
        raise RuntimeError("planted")

    assert run(monkeypatch, explode) == 70
    told = capsys.readouterr().err
    assert "RuntimeError: planted" in told and told.splitlines()[-1].startswith("isthmus: internal error; no verdict")


def test_whoever_is_ended_cleans_up(monkeypatch):
    cleaned = []

    def work():
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            cleaned.append(True)

    assert run(monkeypatch, work) == 143
    assert cleaned
