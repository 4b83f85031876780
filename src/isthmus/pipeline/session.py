"""One Spark session a command: local by default, any master or Connect server by name; quiet on the terminal.

In local mode it binds to the loopback only, shows no UI and no progress of its own; what Spark logs goes to a file
nobody has to see. The session's settings are few and said here, because every job depends on them.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from isthmus.core.errors import InputError
from isthmus.pipeline.java import java_home

LOCAL = "local[*]"
LOGGING = """rootLogger.level = error
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {log}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d %p %c: %m%n%ex
"""
SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.files.ignoreCorruptFiles": "false",
}
LOCAL_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.warehouse.dir": "{scratch}/warehouse",
    "spark.local.dir": "{scratch}/local",
}


@contextmanager
def spark_session(
    master: str | None = None, remote: str | None = None, memory: str = "4g", settings: dict[str, str] | None = None
) -> Iterator[SparkSession]:
    """A session for one command; it ends with the block, and leaves no files behind."""
    if master and remote:
        raise InputError("--master", "", f"{master} and --remote {remote}", "one of the two")
    with tempfile.TemporaryDirectory(prefix="isthmus-spark-") as scratch:
        spark = connect(remote, settings or {}) if remote else start(master or LOCAL, memory, Path(scratch), settings)
        try:
            yield spark
        finally:
            spark.stop()


def connect(remote: str, settings: dict[str, str]) -> SparkSession:
    """A session of a Connect server."""
    builder = SparkSession.builder.remote(remote)
    for key, value in {**SETTINGS, **settings}.items():
        builder = builder.config(key, value)
    try:
        return builder.getOrCreate()
    except Exception as error:
        raise InputError(
            "--remote", "", f"{remote}, which does not answer ({first_line(error)})", "sc://host:port"
        ) from error


def start(master: str, memory: str, scratch: Path, settings: dict[str, str] | None) -> SparkSession:
    """A session with a driver in this process's own Java."""
    os.environ["JAVA_HOME"] = java_home()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    logging = scratch / "log4j2.properties"
    logging.write_text(LOGGING.format(log=scratch / "spark.log"), encoding="utf-8")
    builder = SparkSession.builder.master(master).appName("isthmus")
    chosen = {**SETTINGS, "spark.driver.memory": memory, **LOCAL_SETTINGS}
    chosen["spark.driver.extraJavaOptions"] = f"-Dlog4j2.configurationFile=file:{logging}"
    for key, value in {**chosen, **(settings or {})}.items():
        builder = builder.config(key, value.replace("{scratch}", str(scratch)))
    try:
        with quiet(scratch / "launch.log"):
            return builder.getOrCreate()
    except Exception as error:
        log = (scratch / "launch.log").read_text(encoding="utf-8", errors="replace")
        said = first_line(log) or first_line(error)
        raise InputError(
            "Spark", "", f"no start with master {master} ({said})", "a running master, and a Java that works"
        ) from error


@contextmanager
def quiet(log: Path) -> Iterator[None]:
    """Send what the launcher prints, warnings of incubating modules and the like, to a file instead of the terminal."""
    sys.stderr.flush()
    kept = os.dup(2)
    with log.open("wb") as file:
        os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)


def first_line(said: object) -> str:
    lines = [line.strip() for line in str(said).splitlines() if line.strip()]
    return next((line for line in lines if "rror" in line or "xception" in line), lines[0] if lines else "")[:200]
