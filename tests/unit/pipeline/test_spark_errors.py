"""What Spark says when a job fails, as one sentence: the words are Spark's, shortened."""

from __future__ import annotations

import logging

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.errors import AnalysisException, PySparkRuntimeError, PySparkTypeError

from isthmus.core.errors import InputError
from isthmus.pipeline.engine.spark_errors import PART_MAX, hush, one_sentence, sentence

JOB = "An error occurred while calling o81.parquet.\n: org.apache.spark.SparkException: [TASK_WRITE_FAILED] Task failed"
PLAN = "\n".join(f"+- Project [run#{number}L, process#{number}]" for number in range(20_000))


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("Caused by: java.io.IOException: No space left on device\n\tat java.io", "a full disk"),
        ("Caused by: java.io.IOException: File too large\n\tat java.io.FileOutputStream.writeBytes", "a full disk"),
        (
            "Caused by: org.apache.spark.SparkException: [FAILED_READ_FILE.NO_HINT] Encountered error while reading "
            "file file:///data/a%20b.parquet. SQLSTATE: KD001\n\tat x\nCaused by: java.lang.Error: not a Parquet file",
            "/data/a b.parquet: found an unreadable file (not a Parquet",
        ),
        ("[PATH_NOT_FOUND] Path does not exist: file:/data/none. SQLSTATE: 42K03", "/data/none: found no such file"),
        ("java.io.FileNotFoundException: /data/x (Permission denied)", "found "),
        ("Caused by: java.lang.OutOfMemoryError: Java heap space", "too little memory for Java"),
        ("Caused by: org.apache.spark.SparkException: Python worker failed to connect back.", "ten seconds"),
        ("Caused by: java.io.IOException: All masters are unresponsive! Giving up.", "a lost connection"),
        (
            "Traceback (most recent call last):\nisthmus.core.errors.InputError: /t/a.parquet: kind: found 99; "
            "expected 1 to 15\n\n\tat org.apache.spark",
            "/t/a.parquet: kind: found 99; expected 1 to 15",
        ),
    ],
)
def test_the_cause_is_told_and_nothing_else(said, told):
    found = str(sentence(PySparkRuntimeError(f"{JOB}\n{said}"), "x"))
    assert told in found
    assert "\n" not in found and "\tat " not in found and len(found) < 4 * PART_MAX + 100


@pytest.mark.parametrize(
    "text",
    [
        PLAN,
        f"[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column cannot be resolved. {PLAN}",
        f"InputError: {PLAN}: found {PLAN}; expected {PLAN}",
        f"Caused by: java.lang.IllegalStateException: {PLAN.replace(chr(10), ' ')}",
        f"FAILED_READ_FILE] reading file {'x' * 400_000} .",
        "",
    ],
    ids=["plan", "column", "ours", "cause", "file", "nothing"],
)
def test_a_plan_never_gets_out(text):
    found = str(sentence(AnalysisException(text), "x"))
    assert "\n" not in found
    assert len(found) < 4 * PART_MAX + 100


def test_what_py4j_logs_of_a_call_cut_short_is_not_shown():
    hush()
    root = logging.getLogger()
    for path, shown in (("/site-packages/py4j/java_gateway.py", False), ("/home/me/program.py", True)):
        record = root.makeRecord("root", logging.ERROR, path, 1, "Exception while sending command.", (), None)
        assert bool(root.filter(record)) is shown


def test_spark_s_errors_are_sentences_and_ours_keep_their_traceback():
    for error in (AnalysisException("no"), Py4JNetworkError("Answer from Java side is empty"), ConnectionError("no")):
        with pytest.raises(InputError), one_sentence("x"):
            raise error
    for error in (PySparkTypeError("misused"), KeyError("misused")):
        with pytest.raises(type(error)), one_sentence("x"):
            raise error


@pytest.mark.parametrize("end", [SystemExit(143), KeyboardInterrupt()])
def test_what_fails_while_an_ended_command_cleans_up_is_not_told(end):
    with pytest.raises(type(end)) as told, one_sentence():
        try:
            raise end
        finally:
            raise ConnectionError("the gateway is gone")
    assert told.value is end
