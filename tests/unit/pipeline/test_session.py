"""What a session is told for each kind of master; none is started here."""

from __future__ import annotations

import signal
import socket
from pathlib import Path

import pytest

from isthmus.core.errors import InputError
from isthmus.pipeline.engine import session
from isthmus.pipeline.engine.session import (
    LOOPBACK,
    SETTINGS,
    connect,
    driver_settings,
    first_line,
    own_interrupt,
    refuse_silent,
    spark_session,
)


class Builder:
    """Stands for Spark's builder: remembers what it is told."""

    def __init__(self) -> None:
        self.told: dict[str, str] = {}
        self.address = ""

    def remote(self, address: str) -> Builder:
        self.address = address
        return self

    def config(self, key: str, value: str) -> Builder:
        self.told[key] = value
        return self

    def getOrCreate(self) -> Builder:  # noqa: N802
        return self


@pytest.mark.parametrize(
    "master",
    ["local", "local[1]", "local[*]", "local[2,4]", "local-cluster[2,1,1024]", "spark://127.0.0.1:7077",
     "spark://localhost:7077", "spark://[::1]:7077"],
)  # fmt: skip
def test_on_this_machine_nobody_else_reaches_the_driver(master):
    told = driver_settings(master, "4g", Path("/scratch"))
    assert told.items() >= LOOPBACK.items()


@pytest.mark.parametrize(
    "master",
    ["spark://10.0.0.7:7077", "spark://a.example:7077,b.example:7077", "spark://localhost.example:7077",
     "spark://127.0.0.1:7077,10.0.0.7:7077", "yarn", "k8s://https://10.0.0.7:6443"],
)  # fmt: skip
def test_executors_elsewhere_can_call_the_driver_back(master):
    told = driver_settings(master, "4g", Path("/scratch"))
    assert not told.keys() & LOOPBACK.keys()
    assert "127.0.0.1" not in " ".join(told.values())


def test_every_driver_is_quiet_and_keeps_its_files_in_its_own_folder():
    for master in ("local[*]", "spark://10.0.0.7:7077"):
        told = driver_settings(master, "3g", Path("/scratch"))
        assert told.items() >= SETTINGS.items()
        assert told["spark.driver.memory"] == "3g"
        assert told["spark.ui.enabled"] == told["spark.ui.showConsoleProgress"] == "false"
        assert told["spark.local.dir"] == "/scratch/local"
        assert told["spark.sql.warehouse.dir"] == "/scratch/warehouse"


def test_a_connect_server_is_told_nothing_about_its_driver(monkeypatch):
    builder = Builder()

    class Session:
        pass

    Session.builder = builder
    monkeypatch.setattr(session, "SparkSession", Session)
    monkeypatch.setattr(session, "refuse_silent", lambda *_: None)
    connect("sc://10.0.0.7:15002", {"spark.sql.shuffle.partitions": "4"})
    assert builder.address == "sc://10.0.0.7:15002"
    assert builder.told == SETTINGS | {"spark.sql.shuffle.partitions": "4"}


def test_where_nothing_listens_is_said_at_once():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        dead = f"spark://127.0.0.1:{port},localhost:{port}"
        for options in ({"master": dead}, {"remote": f"sc://127.0.0.1:{port}/;user_id=x"}):
            with pytest.raises(InputError, match="which does not answer"), spark_session(**options):
                pass
        probe.listen()
        refuse_silent("--master", f"spark://127.0.0.1:{port}", "")
        refuse_silent("--master", f"spark://[::1]:1,127.0.0.1:{port}", "")  # a second master stands by
    for elsewhere in ("local[*]", "yarn", "nonsense"):
        refuse_silent("--master", elsewhere, "")


def test_of_what_the_launcher_says_the_error_counts():
    notes = 'WARNING: Using incubator modules: jdk.incubator.vector\nSetting default log level to "WARN".\n'
    assert first_line(notes) == ""
    assert (
        first_line(notes + "Error: Could not find or load main class\nmore")
        == "Error: Could not find or load main class"
    )
    assert first_line("All masters are down\n\tat x") == "All masters are down"


def test_ctrl_c_stays_what_it_was():
    before = signal.getsignal(signal.SIGINT)
    with own_interrupt():
        signal.signal(signal.SIGINT, lambda *_: None)  # as Spark does
    assert signal.getsignal(signal.SIGINT) is before


def test_one_place_to_run_not_two():
    with pytest.raises(InputError, match="one of the two"), spark_session("local", "sc://host"):
        pass
