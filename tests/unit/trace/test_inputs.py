"""Traces of other systems as rows: the same history in every format, what may be left out, and what is refused."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from isthmus.core.errors import InputError
from isthmus.core.layer import Kind
from isthmus.trace.inputs.rows import TraceInput
from isthmus.trace.schema import NONE, Row

ROWS: list[Row] = [
    (0, 1, 0, 0, int(Kind.SUBMIT), 0, 1, 1, 0, NONE, (1, 2), 0, 0, 0, 0),
    (0, 1, 1, 0, int(Kind.DELIVER), 0, 1, 1, 0, NONE, None, 0, 0, 0, 0),
    (0, 2, 0, 0, int(Kind.DELIVER), 0, 1, 1, 0, NONE, None, 0, 0, 0, 0),
    (0, 2, 1, 0, int(Kind.CRASH), NONE, NONE, NONE, 0, NONE, None, 0, 0, 0, 0),
]
CSV = "process,kind,sender,number,destinations\n1,submit,1,1,1 2\n1,DELIVER,1,1,\n2,5,1,1,\n2,crash,,,\n"
JSON = (
    '{"process":1,"kind":"submit","sender":1,"number":1,"destinations":[1,2]}\n'
    '{"process":1,"kind":"deliver","sender":1,"number":"1"}\n\n'
    '{"process":2,"kind":5,"sender":1,"number":1,"destinations":null}\n'
    '{"process":2,"kind":"crash","sender":null,"number":null}\n'
)


def columns() -> dict[str, pa.Array]:
    return {
        "process": pa.array([1, 1, 2, 2], pa.int16()),
        "local": pa.array([0, 1, 0, 1]),
        "kind": pa.array(["submit", "deliver", "deliver", "crash"]),
        "sender": pa.array([1, 1, 1, None]),
        "number": pa.array([1, 1, 1, None]),
        "destinations": pa.array([[1, 2], None, [], None]),
    }


def saved(folder: Path, form: str) -> Path:
    path = folder / {"csv": "t.csv", "tabs": "t.tsv", "zipped": "t.csv.gz", "json": "t.jsonl"}.get(form, "t.parquet")
    if form == "parquet":
        pq.write_table(pa.table(columns()), path)
    elif form == "zipped":
        path.write_bytes(gzip.compress(CSV.encode()))
    else:
        text = {"csv": CSV, "tabs": CSV.replace(" ", ";").replace(",", "\t"), "json": JSON}[form]
        path.write_text(text)
    return path


@pytest.mark.parametrize("form", ["csv", "tabs", "zipped", "json", "parquet"])
def test_one_history_in_every_format(tmp_path, form):
    source = TraceInput(saved(tmp_path, form))
    assert list(source.rows()) == ROWS
    assert source.size() >= len(ROWS)
    assert len(source.digest()) == 64


def test_rows_of_a_text_have_lines(tmp_path):
    assert TraceInput(saved(tmp_path, "csv")).places({(0, 2, 0)}) == {(0, 2, 0): "t.csv:4"}
    assert TraceInput(saved(tmp_path, "json")).places({(0, 2, 0)}) == {(0, 2, 0): "t.jsonl:4"}
    assert TraceInput(saved(tmp_path, "parquet")).places({(0, 2, 0)}) == {}


@pytest.mark.parametrize(("column", "numbers"), [("view", [(3, 3), (NONE, 0)]), ("value", [(NONE, 3), (NONE, 0)])])
def test_the_number_of_a_view_may_be_in_either_column(tmp_path, column, numbers):
    """A view whose number was taken for 0 would be the same installation told again, and nothing could break views."""
    text = f"process,kind,sender,number,destinations,{column}\n1,view,,,1 2,3\n1,crash,,,,\n"
    (tmp_path / "t.csv").write_text(text)
    table = {"process": [1, 1], "local": [0, 1], "kind": ["view", "crash"], "sender": [None, None]}
    table |= {"number": [None, None], "destinations": [[1, 2], None], column: pa.array([3, None], pa.int32())}
    ints = {name: pa.array(cells, pa.int64()) for name, cells in table.items() if name in ("sender", "number")}
    pq.write_table(pa.table(table | ints), tmp_path / "t.parquet")
    for name in ("t.csv", "t.parquet"):
        assert [(row[9], row[13]) for row in TraceInput(tmp_path / name).rows()] == numbers


@pytest.mark.parametrize("form", ["csv", "json", "parquet"])
def test_a_column_that_looks_misspelt_is_told(tmp_path, form):
    """Without its destinations a message is for all, and nobody would be told."""
    assert TraceInput(saved(tmp_path, form)).notes() == []
    if form == "parquet":
        table = pa.table(columns()).rename_columns(["process", "local", "kind", "sender", "number", "Destination"])
        pq.write_table(table, tmp_path / "t.parquet")
    else:
        path = saved(tmp_path, form)
        path.write_text(path.read_text().replace("destinations", "Destination"))
    assert TraceInput(next(tmp_path.iterdir())).notes() == [
        "The column 'Destination' is ignored; one that would be read is called 'destinations'"
    ]


def test_partition_folders_supply_columns(tmp_path):
    for run in (3, 4):
        folder = tmp_path / "t" / f"run={run}"
        folder.mkdir(parents=True)
        pq.write_table(pa.table(columns()), folder / "a.parquet")
    assert {row[0] for row in TraceInput(tmp_path / "t").rows()} == {3, 4}


def test_a_run_that_two_studies_have_is_refused(tmp_path):
    for study in ("a", "b"):
        folder = tmp_path / "t" / f"study={study}"
        folder.mkdir(parents=True)
        pq.write_table(pa.table(columns()), folder / "a.parquet")
    with pytest.raises(InputError, match="run 0 in the studies a and b"):
        list(TraceInput(tmp_path / "t").rows())


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("process,kind,sender\n1,deliver,1\n", "number: found no such column among process, kind, sender"),
        ("process,kind,sender,number\n", "a header without rows"),
        ("process,kind,sender,number\n1,deliver,,1\n", "line 2: sender: found nothing; expected a message"),
        ("process,kind,sender,number\n1,deliver,1,1\n1,deliver,1\n", "line 3: found 3 cells; expected 4"),
        ("process,kind,sender,number,local\n,deliver,1,1,0\n", "line 2: process: found nothing"),
        ("process,kind,sender,number\n9999999999,deliver,1,1\n", "line 2: process: found '9999999999'; expected int32"),
        ("process,kind,sender,number,destinations\n1,submit,1,1,x\n", "line 2: destinations: found 'x'"),
        ("process,kind,sender,number\n1,17x,1,1\n", "line 2: kind: found '17x'"),
        ("process,kind,sender,number,view,value\n1,view,,,2,0\n", "line 2: view: found 2 in a row of the value 0"),
    ],
)
def test_what_is_wrong_with_a_text_has_its_line(tmp_path, text, error):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(InputError) as raised:
        list(TraceInput(tmp_path / "t.csv").rows())
    assert error in str(raised.value)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"kind": pa.array([1, 5, 5, 99])}, "kind: found '99'"),
        ({"kind": pa.array(["submit", "deliver", "arrive", "crash"])}, "kind: found 'arrive'"),
        ({"process": pa.array([1, None, 2, 2])}, "process: found nothing"),
        ({"sender": pa.array([1, None, 1, None])}, "sender: found nothing; expected a message"),
        (
            {"kind": pa.array([7, 5, 5, 11]), "view": pa.array([2] * 4), "value": pa.array([0] * 4)},
            "view: found 2 in a",
        ),
        ({"local": pa.array([0.0, 1.0, 0.0, 1.0])}, "local: found a column of double"),
    ],
)
def test_what_is_wrong_with_a_table_has_its_column(tmp_path, changes, error):
    pq.write_table(pa.table(columns() | changes), tmp_path / "t.parquet")
    with pytest.raises(InputError) as raised:
        list(TraceInput(tmp_path / "t.parquet").rows())
    assert error in str(raised.value)


def test_hosts_runs_and_misspelt_words_of_a_log(tmp_path):
    log = '=== one ===\nbob {"bob":1}\nsubmit m=bob:1 to=eve\namy {"amy":1}\ndeliver m=bob:1\n'
    log += '=== two ===\namy {"amy":1}\nDelivered m=bob:1\namy {"amy":2}\ncrash\n'
    (tmp_path / "t.log").write_text(log)
    source = TraceInput(tmp_path / "t.log")
    assert source.names() == {0: "bob", 1: "amy", 2: "eve"}
    assert [(row[0], row[1], row[4], row[10]) for row in source.rows()] == [
        (0, 0, Kind.SUBMIT, (2,)),
        (0, 1, Kind.DELIVER, None),
        (1, 1, Kind.CRASH, None),
    ]
    assert source.notes() == ["1 event ignored as misspelt: 'Delivered' 1 time (first in t.log:8)"]


def test_a_log_without_a_word_of_ours_is_refused(tmp_path):
    (tmp_path / "t.log").write_text('bob {"bob":1}\nlunch\n')
    with pytest.raises(InputError, match="no event that a pattern matches"):
        TraceInput(tmp_path / "t.log").names()
    (tmp_path / "t.log").write_text('bob {"amy":1}\ndeliver m=bob:1\n')
    with pytest.raises(InputError, match="line 1: clock: found bob"):
        list(TraceInput(tmp_path / "t.log").rows())
