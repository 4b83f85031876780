"""One Spark session for all tests of the pipeline that a worker runs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from isthmus.pipeline.session import spark_session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    with spark_session(master="local[2]", settings={"spark.sql.shuffle.partitions": "4"}) as session:
        yield session
