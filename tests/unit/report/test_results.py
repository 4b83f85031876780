"""Studies from folders: what is read, and the one sentence that each broken one is answered with."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.unit.report.sample import nine, token_site, write_json

from isthmus.core.errors import InputError
from isthmus.report.lines import plots_of
from isthmus.report.results import find_studies


def refusal(*folders: Path) -> str:
    with pytest.raises(InputError) as caught:
        for study in find_studies(list(folders)):
            plots_of(study)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def edit(path: Path, change: Callable[[Any], Any]) -> None:
    value = json.loads(path.read_text())
    write_json(path, change(value) or value)


def test_studies_come_by_name_and_once(tmp_path: Path) -> None:
    one, two = token_site(tmp_path), nine(tmp_path)
    (tmp_path / "figures").mkdir()
    (tmp_path / "report.html").write_text("")
    assert [study.about.name for study in find_studies([tmp_path])] == ["nine", "token-site"]
    assert [study.about.name for study in find_studies([one, tmp_path, two])] == ["token-site", "nine"]


def test_checks_are_grouped_with_the_worst_first(tmp_path: Path) -> None:
    checks = {check.name: check for check in find_studies([nine(tmp_path)])[0].checks}
    assert checks["total"].status == "violated"
    assert [checks["total"].runs(status) for status in ("valid", "violated", "unknown")] == [44, 1, 0]
    assert checks["views"].status == "unknown" and checks["fifo"].status == "valid"


def test_a_table_may_be_the_folder_that_spark_leaves(tmp_path: Path) -> None:
    study = token_site(tmp_path)
    table = pq.read_table(study / "verdicts.parquet")
    (study / "verdicts.parquet").unlink()
    (study / "verdicts.parquet").mkdir()
    (study / "verdicts.parquet" / "_SUCCESS").touch()
    for part in range(2):
        pq.write_table(table.slice(3 * part, 3), study / "verdicts.parquet" / f"part-0000{part}.snappy.parquet")
    assert len(find_studies([study])[0].checks) == 6


def test_no_studies_is_said_of_the_folder(tmp_path: Path) -> None:
    assert refusal(tmp_path) == (
        f"{tmp_path}: found no studies; expected folders with a study.json, as `isthmus study run` writes"
    )
    assert "no such folder" in refusal(tmp_path / "nowhere")
    (tmp_path / "file").touch()
    assert "found a file" in refusal(tmp_path / "file")


@pytest.mark.parametrize("name", ["study.json", "claims.json", "verdicts.parquet", "tables/latency.parquet"])
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    study = token_site(tmp_path)
    (study / name).unlink()
    assert refusal(tmp_path).startswith(f"{study / name}: found no such file")


@pytest.mark.parametrize("name", ["study.json", "claims.json", "figures.json", "verdicts.parquet"])
@pytest.mark.parametrize("content", [b"", b'[{"a": 1,}', b"\xff\xfe", b"[" * 100_000, b"null"])
def test_a_broken_file_is_named(tmp_path: Path, name: str, content: bytes) -> None:
    study = token_site(tmp_path)
    (study / name).write_bytes(content)
    assert refusal(tmp_path).startswith(f"{study / name}: found ")


@pytest.mark.parametrize(
    ("name", "change", "where"),
    [
        ("study.json", lambda v: v.pop("title"), "title: found nothing"),
        ("study.json", lambda v: v | {"runs": "many"}, "runs: found 'many'"),
        ("claims.json", lambda v: v[1].update(verdict="maybe"), "[1].verdict: found 'maybe'"),
        ("figures.json", lambda v: v[0].update(kind="pie"), "[0].kind: found 'pie'"),
        ("figures.json", lambda v: v[0].update(table="../../x"), "[0].table: found '../../x'"),
        ("figures.json", lambda v: v[0]["paper"][1].update(x=[1]), "[0].paper[1]: found 1 x and 4 y"),
        ("figures.json", lambda v: v[0]["paper"][0].update(x=["a"] * 4), "[0]: paper[0].x: found 'a'"),
    ],
)
def test_a_wrong_value_is_named_by_its_key(tmp_path: Path, name: str, change: Any, where: str) -> None:
    study = token_site(tmp_path)
    edit(study / name, lambda value: got if isinstance(got := change(value), dict) else value)
    assert refusal(tmp_path).startswith(f"{study / name}: {where}")


def test_a_column_that_is_missing_or_no_numbers_is_named(tmp_path: Path) -> None:
    study = token_site(tmp_path)
    path = study / "tables" / "latency.parquet"
    table = pq.read_table(path)
    pq.write_table(table.drop_columns(["latency_ms"]), path)
    expected = "stack, delay_ms, half_width_ms"
    assert refusal(tmp_path) == f"{path}: latency_ms: found no such column; expected one of {expected}"
    texts = pa.array(["x"] * table.num_rows)
    pq.write_table(table.set_column(2, "latency_ms", texts), path)
    assert refusal(tmp_path) == f"{path}: latency_ms: found a column of string; expected numbers"
    pq.write_table(pa.concat_tables([table, table.slice(0, 1)]), path)
    assert "found two rows of 'token-site' at delay_ms 25" in refusal(tmp_path)
    pq.write_table(pa.table({name: range(30) for name in table.column_names}), path)
    assert "stack: found 30 series and 2 of a paper; expected at most 24" in refusal(tmp_path)


def test_a_verdict_of_no_known_kind_is_named(tmp_path: Path) -> None:
    study = token_site(tmp_path)
    rows = pq.read_table(study / "verdicts.parquet").to_pylist()
    rows[2]["status"] = "fine"
    pq.write_table(pa.Table.from_pylist(rows), study / "verdicts.parquet")
    assert refusal(tmp_path).startswith(f"{study / 'verdicts.parquet'}: [2].status: found 'fine'")


def test_values_that_are_missing_are_left_out_of_a_line(tmp_path: Path) -> None:
    study = token_site(tmp_path)
    path = study / "tables" / "latency.parquet"
    table = pq.read_table(path)
    holes = [None, float("nan"), *table.column("latency_ms").to_pylist()[2:]]
    pq.write_table(table.set_column(2, "latency_ms", pa.array(holes)), path)
    [plot] = plots_of(find_studies([study])[0])
    assert len(plot.ours[0].xs) == 7 and len(plot.ours[1].xs) == 9


def test_no_figures_is_no_error(tmp_path: Path) -> None:
    study = token_site(tmp_path)
    (study / "figures.json").unlink()
    shutil.rmtree(study / "tables")
    assert find_studies([tmp_path])[0].figures == []
