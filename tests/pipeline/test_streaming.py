"""Following segments: killed and restarted anywhere, the lake holds every row exactly once, and verdicts follow."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F  # noqa: N812
from tests.unit.judge.stories import Story

from isthmus.core.errors import InputError
from isthmus.judge.oracle import Oracle
from isthmus.pipeline.engine import formats
from isthmus.pipeline.engine.formats import ddl
from isthmus.pipeline.engine.spark_errors import one_sentence
from isthmus.pipeline.ingest.frames import read_trace
from isthmus.pipeline.ingest.streaming import Lake, VerdictChange, follow
from isthmus.trace.arrow import SCHEMA, VERSION_KEY
from isthmus.trace.reader import read_rows
from isthmus.trace.schema import ADDED
from isthmus.trace.writer import TraceWriter, to_batch

FIFO = ("fifo",)
VERDICT = ddl({name: kind for name, kind in formats.VERDICT.items() if name not in ("witness_events", "shown")})


def judge(trace, properties):
    """The oracle as a judge: the subject here is the stream, not the checks."""
    found = []
    rows = sorted(tuple(row) for row in trace.select(*SCHEMA.names).drop("destinations").collect())
    for run in sorted({row[0] for row in rows}):
        story = [(*row[:10], None, *row[10:]) for row in rows if row[0] == run]
        for verdict in Oracle(story).verdicts(properties):
            told = (verdict.status, verdict.evidence_count, verdict.violation_count, verdict.witness)
            found.append((run, 0, "", verdict.property, *told))
    return trace.sparkSession.createDataFrame(found, VERDICT)


class Watch:
    """A watcher of one folder that can be started again and again."""

    def __init__(self, spark, root: Path) -> None:
        self.spark = spark
        self.live, self.lake = root / "live", Lake(root / "lake")
        self.changes: list[VerdictChange] = []

    def run(self, judge=judge, **options) -> None:
        query = follow(self.spark, self.live, self.lake, judge, self.changes.extend, FIFO, once=True, **options)
        query.awaitTermination()

    def write(self, prefix: str, rows, each: int = 4) -> None:
        with TraceWriter(self.live, prefix=prefix, batch_rows=each, segment_rows=each) as sink:
            for row in rows:
                sink.append(row)

    def check(self) -> None:
        """Compare the lake with the source, row by row."""
        found = sorted(
            tuple(row) for row in self.lake.read_rows(self.spark).select(*SCHEMA.names).drop("destinations").collect()
        )
        assert found == sorted((*row[:10], *row[11:]) for row in read_rows(self.live))


def orderly(process: int, run: int = 0, count: int = 10):
    story = Story()
    if process == 1:
        story.submit(1, *range(count))
    story.deliver(process, *((1, number) for number in range(count)))
    return [(run, *row[1:]) for row in story.rows]


def test_rows_and_verdicts_follow_what_sites_write(spark, tmp_path):
    watch = Watch(spark, tmp_path)
    watch.write("site-002", orderly(2))
    watch.run()
    watch.check()
    watch.write("site-001", orderly(1) + orderly(1, run=1))  # a prefix that sorts before, and a second run
    watch.run(segments_max=2)
    watch.check()
    # Segments of one millisecond come in any order: a batch may show a gap that the next one fills.
    assert {change.run: change.after for change in watch.changes} == {0: "valid", 1: "valid"}
    told = len(watch.changes)
    watch.run()
    assert len(watch.changes) == told  # nothing new
    late = [(0, 3, local, 0, 5, 0, 1, number, 0, 0, None, 10, 0, 0, 0) for local, number in ((0, 5), (1, 3))]  # swapped
    watch.write("site-009", late)
    watch.run()
    assert (watch.changes[-1].before, watch.changes[-1].after) == ("valid", "violated")
    assert watch.lake.read_verdicts(spark).where("run = 0").first().status == "violated"
    assert read_trace(spark, watch.lake.rows).count() == sum(1 for _ in read_rows(watch.live))


def test_segments_of_version_1_are_taken_and_an_unknown_one_is_refused(spark, tmp_path):
    watch = Watch(spark, tmp_path)
    watch.live.mkdir()
    old = pa.Table.from_batches([to_batch(orderly(1))]).drop_columns(list(ADDED))
    pq.write_table(old.replace_schema_metadata({VERSION_KEY: b"1"}), watch.live / "site-001-00000.parquet")
    watch.write("site-002", orderly(2))
    watch.run()
    watch.check()
    pq.write_table(old.replace_schema_metadata({VERSION_KEY: b"9"}), watch.live / "site-003-00000.parquet")
    with pytest.raises(InputError, match="schema version: found 9; expected version 1 or 2"), one_sentence("x"):
        watch.run()


def test_late_rows_withdraw_what_only_seemed_broken(spark, tmp_path):
    watch = Watch(spark, tmp_path)
    story = Story().submit(1, 1, 2).deliver(2, (1, 1), (1, 2))
    first, rest = [row for row in story.rows if row[2:3] != (0,) or row[1] == 1], []
    rest = [row for row in story.rows if row not in first]
    watch.write("b", first)
    watch.run()
    assert watch.changes[-1].after in ("violated", "unknown")
    watch.write("a", rest)
    watch.run()
    assert watch.changes[-1].after == "valid"


@pytest.mark.parametrize("place", ["before the write", "after the write", "after the verdicts"])
def test_a_kill_anywhere_loses_and_repeats_nothing(spark, tmp_path, place):
    watch = Watch(spark, tmp_path)
    watch.write("site-001", orderly(1))
    watch.run()
    watch.write("site-002", orderly(2))

    def dies(trace, properties):
        raise RuntimeError("killed")

    if place == "after the write":
        with pytest.raises(Exception, match="killed"):
            watch.run(judge=dies)
    else:
        watch.run()
        commits = sorted((watch.lake.checkpoint / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
        for path in (commits[-1], commits[-1].with_name(f".{commits[-1].name}.crc")):
            path.unlink(missing_ok=True)
        if place == "before the write":
            for path in watch.lake.rows.glob(f"run=*/batch={commits[-1].name}/*.parquet"):
                path.unlink()
    watch.write("site-003", orderly(3))
    watch.run()
    watch.check()
    batches = [row.batch for row in watch.lake.read_rows(spark).select("batch").distinct().orderBy("batch").collect()]
    assert batches == [0, 1, 2]
    assert watch.lake.read_rows(spark).where(F.col("batch") == 1).count() == 10


def test_a_stopped_stream_goes_on(spark, tmp_path):
    watch = Watch(spark, tmp_path)
    watch.write("site-001", orderly(1, count=40))
    query = follow(spark, watch.live, watch.lake, judge, watch.changes.extend, FIFO, every_s=0.1, segments_max=1)
    while not (watch.lake.checkpoint / "commits" / "1").exists():
        assert query.isActive, query.exception()
        query.awaitTermination(1)
    query.stop()
    watch.write("site-000", orderly(2, count=40))
    watch.run()
    watch.check()


def test_a_lake_belongs_to_one_folder(spark, tmp_path):
    lake = Lake(tmp_path / "lake")
    lake.claim(tmp_path / "a")
    lake.claim(tmp_path / "a")
    with pytest.raises(InputError, match="the lake of"):
        lake.claim(tmp_path / "b")
    with pytest.raises(InputError, match="no such file or directory"):
        follow(spark, tmp_path / "none", lake, judge, print, FIFO, once=True)
