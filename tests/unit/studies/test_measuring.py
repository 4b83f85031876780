"""Tables of several studies: in their order, two at a time; and nothing more once somebody has stopped."""

from __future__ import annotations

from threading import Event
from types import SimpleNamespace

import pyarrow as pa
import pytest

from isthmus.studies import run
from isthmus.studies.run import SweptStudy, measure_studies


def swept(name, *actions):
    """A study with one table for each action, which is carried out when the table is computed."""

    def frame(action):
        return SimpleNamespace(toArrow=lambda: (action(), pa.table({"study": [name]}))[1])

    tables = {f"t{number}": frame(action) for number, action in enumerate(actions)}
    study = SimpleNamespace(name=name, tables=lambda trace, runs: tables)
    runs = SimpleNamespace(where=lambda condition: None)
    done = SimpleNamespace(runs=runs, good_trace=lambda: None, trace=SimpleNamespace(sparkSession="the session"))
    return SweptStudy(study, [], done)


@pytest.fixture
def folders(tmp_path):
    names = ("a", "b", "c")
    for name in names:
        (tmp_path / name).mkdir()
    return {name: tmp_path / name for name in names}


def test_tables_come_in_the_order_of_studies(folders):
    second = Event()
    asked = [swept("a", second.wait), swept("b", second.set), swept("c", lambda: None)]
    told = []
    found = list(measure_studies(asked, folders, told.append))
    assert [one["t0"] for one in found] == [[{"study": name}] for name in "abc"]
    assert told == ["measuring a", "measuring b", "measuring c"]
    assert (folders["b"] / "tables" / "t0.parquet").is_file()


def test_once_stopped_nothing_more_is_computed(folders, monkeypatch):
    cancelled, late, going = [], [], Event()

    def cancel(spark):
        cancelled.append(spark)
        going.set()

    monkeypatch.setattr(run, "cancel_jobs", cancel)
    started = Event()

    def slow():
        started.set()
        going.wait()

    asked = [
        swept("a", lambda: None),
        swept("b", slow, lambda: late.append("b")),
        swept("c", going.wait, lambda: late.append("c")),
    ]
    measured = measure_studies(asked, folders, lambda step: None)
    next(measured)
    started.wait()
    measured.close()
    assert cancelled == ["the session"] and late == []
