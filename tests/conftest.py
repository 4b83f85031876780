"""Options and fixtures that all tests share."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from xdist.scheduler import LoadScopeScheduling

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# where tests may use the fixture of that name
SPARK = ("tests/pipeline/", "tests/unit/cli/test_cli_check.py", "tests/unit/pipeline/")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="put what happened into the golden scripts; read the diff")


@pytest.fixture
def rewrite(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--rewrite"))


@pytest.fixture
def isthmus(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """The command, called in this process: its exit code, and what it prints."""

    def call(*arguments: str) -> tuple[int, str, str]:
        from isthmus.cli.main import main

        monkeypatch.setattr(sys, "argv", ["isthmus", *arguments])
        try:
            main()
            code = 0
        except SystemExit as left:
            code = int(left.code or 0)
        out, err = capsys.readouterr()
        return code, out, err

    return call


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One session for all tests; no test starts one of its own."""
    from isthmus.pipeline.engine.session import spark_session

    with spark_session(master="local[2]", settings={"spark.sql.shuffle.partitions": "4"}) as session:
        yield session


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """Keep all that need Spark on one worker: its session is started once, and the other workers go on without."""
    return SparkTogether(config, log)


class SparkTogether(LoadScopeScheduling):  # type: ignore[misc]
    """Tests go to workers one by one, but for those in the places where Spark is needed."""

    def _split_scope(self, nodeid: str) -> str:
        return "spark" if nodeid.startswith(SPARK) else nodeid
