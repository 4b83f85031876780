"""`make cluster-test`: the same job on this machine alone, on a standalone cluster and through a Connect server.

Starts a master, two workers and a Connect server from the pyspark package, on free ports of the loopback, and ends
exactly those processes. Each way of running is a process of its own, because one Python process has one kind of
session. The job is a small sweep, its trace read by Spark and by our data source, and all checks; then the commands
`isthmus check` and `isthmus study run` themselves. Everything must be what it is on `local[2]`.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec
import pyspark

from isthmus.pipeline.check.verdicts import check
from isthmus.pipeline.engine.java import java_home
from isthmus.pipeline.engine.session import spark_session
from isthmus.pipeline.engine.spark_errors import one_sentence
from isthmus.pipeline.ingest.frames import read_trace
from isthmus.pipeline.ingest.source import register
from isthmus.pipeline.sweep.sweep import RunSpec, sweep
from isthmus.scenario.load import load_scenario

ROOT = Path(__file__).parents[2]
SPARK_HOME = Path(pyspark.__file__).parent
HOST = "127.0.0.1"
RUNS = 6
JUDGED = ("integrity", "fifo", "total", "agreement", "validity", "views")
SETTINGS = {"spark.sql.shuffle.partitions": "4"}
CLUSTER = {"spark.executor.memory": "1g", "spark.cores.max": "2"}
START_S, JOB_S, STOP_S = 600, 1800, 30  # bounds for a busy machine; none is waited for in vain


def job(master: str | None, remote: str | None, folder: Path) -> dict[str, object]:
    """What every way of running must give alike."""
    scenario = msgspec.structs.replace(load_scenario(ROOT / "examples" / "three-lans.toml"), duration_ms=300)
    specs = [
        RunSpec(run=run, study="cluster", scenario=msgspec.structs.replace(scenario, seed=run + 1))
        for run in range(RUNS)
    ]
    settings = SETTINGS | (CLUSTER if master and master.startswith("spark://") else {})
    with one_sentence(), spark_session(master, remote, settings=settings) as spark:
        swept = sweep(spark, specs, folder, tasks=4)
        trace = read_trace(spark, folder / "trace")
        register(spark)
        sourced = spark.read.format("isthmus").load(str(folder / "trace"))
        asked = {name: [range(RUNS // 2), range(RUNS // 2, RUNS)] for name in JUDGED}  # of parts, as studies do
        verdicts = check(trace, asked).orderBy("run", "group", "domain", "property").drop("witness_events")
        return {
            "failed runs": len(swept.failed()),
            "rows": digest(trace.collect()),
            "rows by the data source": digest(sourced.collect()),
            "verdicts": [list(row) for row in verdicts.collect()],
        }


def digest(rows: list[object]) -> str:
    """So many rows, and a hash of them in any order."""
    texts = sorted(map(repr, rows))
    return f"{len(texts)} rows, {hashlib.sha256(''.join(texts).encode()).hexdigest()[:16]}"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


@contextmanager
def process(
    name: str, arguments: list[str], environment: dict[str, str], log: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """A process of the cluster; it is ended with the block, and no other is."""
    print(f"starting {name}", flush=True)
    with log.open("wb") as output:
        started = subprocess.Popen(arguments, env=environment, stdout=output, stderr=output, stdin=subprocess.DEVNULL)
    try:
        yield started
    finally:
        started.terminate()
        try:
            started.wait(STOP_S)
        except subprocess.TimeoutExpired:
            started.kill()
            started.wait()


def await_port(port: int, started: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + START_S
    while time.monotonic() < end and started.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex((HOST, port)) == 0:
                return
        time.sleep(0.2)
    why = "it ended" if started.poll() is not None else f"not within {START_S} s"
    raise SystemExit(f"nothing answers at port {port} ({why}):\n{log.read_text(errors='replace')[-2000:]}")


@contextmanager
def cluster(scratch: Path) -> Iterator[tuple[str, str]]:
    """A master, two workers and a Connect server on them; their two addresses."""
    environment = dict(os.environ, JAVA_HOME=java_home(), SPARK_HOME=str(SPARK_HOME), SPARK_LOCAL_IP=HOST,
                       PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_DIRS=str(scratch / "local"))  # fmt: skip
    spark_class, submit = str(SPARK_HOME / "bin" / "spark-class"), str(SPARK_HOME / "bin" / "spark-submit")
    port, connect_port = free_port(), free_port()
    master = f"spark://{HOST}:{port}"
    at = ["--host", HOST, "--webui-port", "0"]
    with ExitStack() as stack:
        log = scratch / "master.log"
        arguments = [spark_class, "org.apache.spark.deploy.master.Master", "--port", str(port), *at]
        await_port(port, stack.enter_context(process("a master", arguments, environment, log)), log)
        for number in range(2):
            log = scratch / f"worker-{number}.log"
            work = ["--cores", "2", "--memory", "3g", "--work-dir", str(scratch / f"work-{number}"), master]
            arguments = [spark_class, "org.apache.spark.deploy.worker.Worker", *at, *work]
            stack.enter_context(process(f"worker {number}", arguments, environment, log))
        log = scratch / "connect.log"
        settings = {"spark.connect.grpc.binding.port": str(connect_port), "spark.connect.grpc.binding.address": HOST,
                    "spark.driver.host": HOST, "spark.ui.enabled": "false", **CLUSTER}  # fmt: skip
        options = [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]
        service = "org.apache.spark.sql.connect.service.SparkConnectServer"
        arguments = [submit, "--class", service, "--master", master, *options]
        started = stack.enter_context(process("a Connect server", arguments, environment, log))
        await_port(connect_port, started, log)
        yield master, f"sc://{HOST}:{connect_port}"


def run_job(option: str, address: str, folder: Path) -> dict[str, object]:
    """The job in a process of its own."""
    arguments = [sys.executable, __file__, option, address, str(folder)]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=JOB_S, check=False)
    if done.returncode:
        return {"error": done.stderr.strip()[-1500:]}
    result: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return result


def command(*arguments: object) -> subprocess.CompletedProcess[str]:
    """The `isthmus` command in a process of its own."""
    program = [sys.executable, "-c", "from isthmus.cli.main import main; main()", *map(str, arguments)]
    return subprocess.run(program, capture_output=True, text=True, timeout=JOB_S, check=False)


def run_check(option: str, address: str, trace: Path, out: Path) -> dict[str, object]:
    """`isthmus check`, with a violation to find."""
    done = command("check", trace, option, address, "--property", "integrity", "--property", "total", "-o", out)
    drawn = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(out.glob("*.svg"))}
    output = done.stdout.replace(str(out), "OUT")
    return {"exit code": done.returncode, "output": output, "witnesses": drawn, "error": done.stderr[-500:]}


def run_study(option: str, address: str, out: Path) -> dict[str, object]:
    """`isthmus study run`, one seed; the checks are compared elsewhere."""
    done = command("study", "run", "token-site", "--seeds", 1, "--no-check", option, address, "-o", out)
    claims = out / "token-site" / "claims.json"
    found = json.loads(claims.read_bytes()) if claims.exists() else None
    return {"exit code": done.returncode, "claims": found, "error": done.stderr[-500:]}


def broken_csv(path: Path) -> Path:
    """Two processes that deliver two messages in different orders."""
    rows = ["1,submit,1,1", "2,submit,2,1", "1,deliver,1,1", "1,deliver,2,1", "2,deliver,2,1", "2,deliver,1,1"]
    path.write_text("\n".join(["process,kind,sender,number", *rows]) + "\n", encoding="utf-8")
    return path


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the cluster is ended then, too
    passed = failed = 0
    with tempfile.TemporaryDirectory(prefix="isthmus-cluster-") as name:
        scratch = Path(name)
        trace = broken_csv(scratch / "broken.csv")
        print("running locally", flush=True)
        expected = run_job("--master", "local[2]", scratch / "local-sweep")
        expected_check = run_check("--master", "local[2]", trace, scratch / "local-check")
        expected_study = run_study("--master", "local[2]", scratch / "local-study")
        assert "error" not in expected, expected["error"]
        assert expected_check["exit code"] == 1, expected_check
        assert expected_study["claims"], expected_study
        assert expected["rows"] == expected["rows by the data source"], expected
        with cluster(scratch) as (master, remote):
            for number, (option, address) in enumerate((("--master", master), ("--remote", remote))):
                print(f"running with {option} {address}", flush=True)
                found = run_job(option, address, scratch / f"sweep-{number}")
                checked = run_check(option, address, trace, scratch / f"check-{number}")
                studied = run_study(option, address, scratch / f"study-{number}")
                pairs = [(key, found.get(key), value) for key, value in expected.items()]
                for name, got, wanted in (("check", checked, expected_check), ("study run", studied, expected_study)):
                    pairs += [(f"isthmus {name}: {key}", got[key], wanted[key]) for key in wanted if key != "error"]
                equal = [(what, got == wanted) for what, got, wanted in pairs]
                for what, is_equal in equal:
                    print(f"  {'ok  ' if is_equal else 'FAIL'} {option}: {what}", flush=True)
                passed += sum(is_equal for _, is_equal in equal)
                failed += sum(not is_equal for _, is_equal in equal)
                if not all(is_equal for _, is_equal in equal):
                    print(*filter(None, (got.get("error") for got in (found, checked, studied))), sep="\n", flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    if len(sys.argv) == 4:
        way = {"--master": (sys.argv[2], None), "--remote": (None, sys.argv[2])}[sys.argv[1]]
        print(json.dumps(job(*way, Path(sys.argv[3]))))
    else:
        sys.exit(main())
