"""Errors of Spark jobs, each as one sentence.

A failure reaches Python as a page of Java, wrapped differently by each way of connecting. A list of rules looks for
known words, the most telling first; what no rule knows is cut to the innermost cause's first line.

Invariants: an `InputError` raised inside an executor, by Python or by `raise_error`, comes out as it went in. No part
of a sentence has a second line or more than PART_MAX characters. The original error stays attached as the cause. An
error that is not Spark's passes unchanged: it is a bug of ours.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote

from pyspark.errors import (
    PySparkAssertionError,
    PySparkAttributeError,
    PySparkException,
    PySparkTypeError,
    PySparkValueError,
)
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from isthmus.core.errors import InputError

PART_MAX = 300  # characters of each part of a sentence
MARK = "InputError: "  # also how a Python traceback from a worker names it
OURS = re.compile(
    MARK + r"(?P<place>.*?): found (?P<found>.*?); expected (?P<expected>.*?)(?: SQLSTATE|\n|$)", re.DOTALL
)
READING = re.compile(r"FAILED_READ_FILE\S*\].*?(?:reading|read) file (?P<file>\S+?)\.?\s", re.DOTALL)
CAUSE = re.compile(r"^Caused by: (?:[\w.$]+: )?(?P<said>.+)$", re.MULTILINE)
WRAPPING = re.compile(r"^(?:An error occurred while calling \S+|: |[\w.$]+(?:Exception|Error): |\[[A-Z_.]+\] )+")


def refuse(place: Column | str, key: str, found: Column | str, expected: str) -> Column:
    """An expression that fails the job with an `InputError` when it is evaluated."""
    source, what = (F.lit(part) if isinstance(part, str) else part for part in (place, found))
    return F.raise_error(
        F.concat(F.lit(MARK), source, F.lit(f": {key}: found "), what, F.lit(f"; expected {expected}"))
    )


@contextmanager
def one_sentence(source: str = "Spark") -> Iterator[None]:
    """Turn what Spark raises inside the block into an `InputError`; `source` is named where the text names no file.

    Errors during the clean-up of an interrupted command are dropped in favour of the interrupt.
    """
    hush()
    try:
        yield
    except Exception as error:
        if (end := ended_by(error)) is not None:
            raise end from None
        if not of_spark(error):
            raise
        raise sentence(error, source) from error


def ended_by(error: BaseException | None) -> SystemExit | KeyboardInterrupt | None:
    """What was under way when an error came up, if it was the end of the command."""
    while error is not None:
        if isinstance(error, SystemExit | KeyboardInterrupt):
            return error
        error = error.__context__
    return None


def of_spark(error: BaseException) -> bool:
    """Whether Spark, its gateway or its Connect client raised it, and not because we called it wrongly."""
    if isinstance(error, PySparkTypeError | PySparkValueError | PySparkAttributeError | PySparkAssertionError):
        return False
    module = type(error).__module__
    return isinstance(error, PySparkException | ConnectionError) or module.startswith(("py4j", "grpc"))


def sentence(error: BaseException, source: str = "Spark") -> InputError:
    text = str(error) or type(error).__name__
    failure = InputError(source, "", f"a failed Spark job ({innermost(text)})", "a job that completes")
    found = next(filter(None, (rule(text, source) for rule in RULES)), failure)
    return InputError(*map(clipped, (found.source, found.key, found.found, found.expected)))


def clipped(part: str) -> str:
    line = " ".join(part.split())
    return line if len(line) <= PART_MAX else f"{line[:PART_MAX]} ..."


def ours(text: str, source: str) -> InputError | None:  # noqa: ARG001
    found = OURS.search(text)
    if found is None:
        return None
    place, _, key = local(found["place"]).rpartition(": ")
    return InputError(place or key, key if place else "", found["found"].strip(), found["expected"].strip())


def full_disk(text: str, source: str) -> InputError | None:  # noqa: ARG001
    if not any(words in text for words in ("No space left on device", "Disk quota exceeded", "File too large")):
        return None
    return InputError("Spark", "", "a full disk", "space for its scratch files (TMPDIR) and its output")


def bad_file(text: str, source: str) -> InputError | None:
    found = READING.search(text)
    if found is None:
        return None
    if "MALFORMED" in text:
        return InputError(local(found["file"]), "", malformed(text), "as many fields as the header, or one JSON object")
    return InputError(local(found["file"]) or source, "", f"an unreadable file ({innermost(text)})", "a complete file")


def malformed(text: str) -> str:
    record = re.search(r"Malformed records? (?:are|is) detected in (?:record parsing|parsing): ?(.*?)\.?\s*\n", text)
    return f"a malformed line ({local(record[1])[:120]})" if record else "a malformed line"


def missing_path(text: str, source: str) -> InputError | None:
    found = re.search(r"PATH_NOT_FOUND\] Path does not exist: (\S+?)\.? ", text)
    if found is not None:
        return InputError(local(found[1]), "", "no such file or directory", "a trace that every executor can see")
    if "FileNotFoundException" in text or "FILE_NOT_EXIST" in text:
        return InputError(
            source, "", f"a file that vanished ({innermost(text)})", "files that are not removed while being read"
        )
    return None


def overflow(text: str, source: str) -> InputError | None:
    found = re.search(r'\[CAST_OVERFLOW\S*\] The value (\S+?)L? of the type "\w+" cannot be cast to "(\w+)"', text)
    return InputError(source, "", f"the value {found[1]}", f"what fits {found[2].lower()}") if found else None


def unwritable(text: str, source: str) -> InputError | None:
    found = re.search(r"Mkdirs failed to create (\S+)|(\S+): Permission denied|Permission denied: (\S+)", text)
    if found is None:
        return None
    place = local(next(filter(None, found.groups()), source)).split("/_temporary", maxsplit=1)[0]
    return InputError(place, "", "no permission to write or read", "a writable folder")


def lost(text: str, source: str) -> InputError | None:  # noqa: ARG001
    if "OutOfMemoryError" in text or "Java heap space" in text:
        return InputError("Spark", "", "too little memory for Java", "more of it, or fewer cores (--master local[1])")
    if "ExecutorLostFailure" in text or "Python worker exited unexpectedly" in text:
        return InputError("Spark", "", f"a lost executor ({innermost(text)})", "running executors with enough memory")
    if "failed to connect back" in text:
        slow = "a Python worker that took more than ten seconds to start"
        return InputError("Spark", "", slow, "a less busy machine; run it again, a stream resumes where it stopped")
    gone = (
        "stopped SparkContext",
        "SparkContext was shut down",
        "masters are unresponsive",
        "Answer from Java side is",
    )
    refused = ("Connection refused", "StatusCode.UNAVAILABLE", "Connection reset", "Error while receiving")
    if any(words in text for words in gone + refused):
        return InputError("Spark", "", "a lost connection", "a driver, master or server that keeps running")
    return None


RULES: tuple[Callable[[str, str], InputError | None], ...] = (
    *(ours, full_disk, bad_file, missing_path, overflow, unwritable, lost),
)


def innermost(text: str) -> str:
    """The first line of the deepest cause, without the names of exceptions around it."""
    causes = CAUSE.findall(text)
    python = re.findall(r"^(\w[\w.]*(?:Error|Exception): .+)$", text, re.MULTILINE) if "Traceback" in text else []
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("An error occurred")]
    said = causes[-1] if causes else python[-1] if python else lines[0] if lines else text
    return local(WRAPPING.sub("", said).split(" SQLSTATE")[0].strip())[:200]


def local(place: str) -> str:
    return unquote(re.sub(r"file:/+", "/", place))


def hush() -> None:
    """Keep what prints whole stack traces off the terminal: pyspark's and py4j's loggers, and py4j on the root one."""
    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger", "py4j.clientserver", "py4j.java_gateway"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    logging.getLogger().addFilter(not_of_py4j)  # a filter is added once, however often


def not_of_py4j(record: logging.LogRecord) -> bool:
    """False for what py4j logs of a call that Ctrl-C or a stop has cut short; its caller gets the error."""
    return "py4j" not in Path(record.pathname).parts
