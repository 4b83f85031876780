"""How tables are kept while a trace is judged: computed once, on disk where memory is short, given back at the end.

Spark recomputes a table for every reader, and a plan that carries the plans of its tables grows at every join; so there
is one way for each size. Invariants: nothing held is left after `release`; what `check` returns is kept, not held.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.utils import is_remote

SMALL = 200_000  # rows of a table that is sent to every task


class FrameStore:
    """The tables of one trace."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self.held: list[DataFrame] = []
        self.made: dict[str, DataFrame] = {}

    def keep(self, frame: DataFrame) -> DataFrame:
        """Compute a table now, once, and forget how: plans that carry their past double at every join."""
        return frame.localCheckpoint(eager=True)

    def small(self, frame: DataFrame) -> DataFrame:
        """A kept table that joins without a shuffle of the other side, as long as it is small."""
        kept = frame.localCheckpoint(eager=False)
        return F.broadcast(kept) if kept.count() <= SMALL else kept  # the count computes it

    def hold(self, frame: DataFrame) -> DataFrame:
        """A large table, computed when it is first read; unlike a kept one it remembers how it is partitioned.

        Not through a Connect server: there a plan goes over the wire with the plans of all its tables in it, and one
        that nests more than a hundred deep is refused. A shuffle more is the price.
        """
        if is_remote():
            return frame.localCheckpoint(eager=False)
        self.held.append(frame.persist(StorageLevel.MEMORY_AND_DISK))
        return frame

    def release(self) -> None:
        for frame in self.held:
            frame.unpersist()

    def nothing(self, frame: DataFrame) -> DataFrame:
        """A table without rows of the same columns, and Spark knows: what is joined with it costs nothing."""
        return self.spark.createDataFrame([], frame.schema).limit(0)

    def once(self, name: str, make: Callable[[], DataFrame]) -> DataFrame:
        """A table that several checks make, made by the first."""
        if name not in self.made:
            self.made[name] = make()
        return self.made[name]
