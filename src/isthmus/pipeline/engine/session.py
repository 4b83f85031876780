"""One Spark session per command: local by default, any master or Connect server by name; quiet on the terminal.

It shows no UI and no progress; Spark's log goes to a scratch file. Where all of Spark is on this machine the driver is
bound to the loopback; other executors must call the driver back, so there Spark chooses the address, or SPARK_LOCAL_IP.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from isthmus.core.errors import InputError
from isthmus.pipeline.engine.java import java_home
from isthmus.pipeline.engine.spark_errors import hush

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
    "spark.sql.execution.arrow.maxBytesPerBatch": "16m",  # rows of binaries: segments of events
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.optimizer.canChangeCachedPlanOutputPartitioning": "true",  # few tasks for small tables that are held
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.files.ignoreCorruptFiles": "false",
}
DRIVER_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.warehouse.dir": "{scratch}/warehouse",
    "spark.local.dir": "{scratch}/local",
    "spark.sql.codegen.cache.maxEntries": "5000",  # the checks make some hundred classes; 100 is the default
}
COLLECTOR = "-XX:+UseParallelGC"  # the usual collector's own threads are in the way where cores are few
OPTIONS_OF_JAVA = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS")  # of the environment; Java takes one collector only
ADDRESS = re.compile(r"(?:spark|sc)://(?P<hosts>[^/;]+)")
CONNECT_PORT = 15002  # of a Connect server, where an address names none
PROBE_S = 10.0
CORES_OTHERWISE = 8  # where Spark does not say how many cores it has
NOTE = re.compile(r"WARNING: |Setting default log level|To adjust logging level|NOTE: |Using Spark's default log4j")
LOOPBACK = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
ON_THIS_MACHINE = re.compile(r"local(-cluster)?(\[.*\])?|spark://(127\.[\d.]+|localhost|\[::1\])(:\d+)?")


@contextmanager
def spark_session(
    master: str | None = None,
    remote: str | None = None,
    memory: str = "4g",
    settings: dict[str, str] | None = None,
    small: bool = False,
) -> Iterator[SparkSession]:
    """A session for one command; it ends with the block, and leaves no files behind.

    `small`: all tables will fit in memory with ease, and time is what counts.
    """
    if master and remote:
        raise InputError("--master", "", f"{master} and --remote {remote}", "one of the two")
    hush()
    with tempfile.TemporaryDirectory(prefix="isthmus-spark-") as scratch:
        if remote:
            spark = connect(remote, settings or {})
        else:
            java = collector() if small else ""
            spark = start(master or LOCAL, memory, Path(scratch), settings, java)
        try:
            yield spark
        finally:
            spark.stop()


def connect(remote: str, settings: dict[str, str]) -> SparkSession:
    refuse_silent("--remote", remote, "sc://host:port of a running Connect server")
    builder = SparkSession.builder.remote(remote)
    for key, value in {**SETTINGS, **settings}.items():
        builder = builder.config(key, value)
    try:
        return builder.getOrCreate()
    except Exception as error:
        raise InputError(
            "--remote", "", f"{remote}, which does not answer ({first_line(error)})", "sc://host:port"
        ) from error


def cores_of(spark: SparkSession) -> int:
    """Return the number of tasks that run at once."""
    try:
        return spark.sparkContext.defaultParallelism
    except Exception:  # Connect has no context
        return CORES_OTHERWISE


def cancel_jobs(spark: SparkSession) -> None:
    """End all that is being computed; those who wait for it get an error. Nothing happens where Spark is gone."""
    with suppress(Exception):
        if is_remote():
            spark.interruptAll()
        else:
            spark.sparkContext.cancelAllJobs()


def driver_settings(master: str, memory: str, scratch: Path) -> dict[str, str]:
    """What a driver in this process is told; its address only where nobody on another machine needs it."""
    chosen = SETTINGS | {"spark.driver.memory": memory} | DRIVER_SETTINGS
    if ON_THIS_MACHINE.fullmatch(master):
        chosen |= LOOPBACK
    return {key: value.replace("{scratch}", str(scratch)) for key, value in chosen.items()}


def start(master: str, memory: str, scratch: Path, settings: dict[str, str] | None, java: str) -> SparkSession:
    refuse_silent("--master", master, "a running master, or no --master to run on this machine")
    os.environ["JAVA_HOME"] = java_home()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    logging = scratch / "log4j2.properties"
    logging.write_text(LOGGING.format(log=scratch / "spark.log"), encoding="utf-8")
    builder = SparkSession.builder.master(master).appName("isthmus")
    chosen = driver_settings(master, memory, scratch) | (settings or {})
    chosen["spark.driver.extraJavaOptions"] = f"{java} -Dlog4j2.configurationFile=file:{logging}"
    for key, value in chosen.items():
        builder = builder.config(key, value)
    try:
        with quiet(scratch / "launch.log"), own_interrupt():
            return builder.getOrCreate()
    except Exception as error:
        log = (scratch / "launch.log").read_text(encoding="utf-8", errors="replace")
        said = first_line(log) or first_line(error)
        raise InputError(
            "Spark", "", f"no start with master {master} ({said})", "a running master and a working Java"
        ) from error


def collector() -> str:
    """The garbage collector for small tables, unless the environment names one."""
    named = any(re.search(r"-XX:\+Use\w+GC", os.environ.get(name, "")) for name in OPTIONS_OF_JAVA)
    return "" if named else COLLECTOR


def refuse_silent(option: str, address: str, right: str) -> None:
    """Refuse an address at which nothing listens; Spark itself would retry for minutes."""
    match = ADDRESS.match(address)
    if match is None:
        return
    for host in match["hosts"].split(","):
        name, _, port = host.rpartition(":") if re.search(r":\d+$", host) else (host, "", str(CONNECT_PORT))
        try:
            socket.create_connection((name.strip("[]"), int(port)), PROBE_S).close()
        except (OSError, OverflowError) as error:
            said = error
        else:
            return
    raise InputError(option, "", f"{address}, which does not answer ({said})", right)


@contextmanager
def own_interrupt() -> Iterator[None]:
    """Keep Ctrl-C as it was: Spark's handler calls Java from within the call it interrupts, and prints the clash."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)


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
    """The line that tells what went wrong; "" where there are only notes and warnings."""
    lines = [line.strip() for line in str(said).splitlines() if line.strip() and not NOTE.match(line)]
    return next((line for line in lines if "rror" in line or "xception" in line), lines[0] if lines else "")[:200]
