"""The tables that all checks share, each made once: what became of every message, in bits.

The problem: a dozen checks, each with its own scan, shuffle and sort of all deliveries, cost a dozen sorts. The idea:
one shuffle and one sort by process give each delivery its *position*, the view and the place within it by local order;
one aggregate by message then keeps, for each life and view, the set of deliverers as words of 64 bits, their number,
the least and greatest position, time and payload. Everything else is asked of these few rows: a run of 20 million
deliveries to 100 processes is 400,000 of them.

    marks     a row for each message, life, view and word of processes: deliverers, positions, what the SUBMIT row said
    holders   the same over all views: a row for each message, life and word
    messages  a row for each message
    groups    a row for each run and group; `orderly` where all deliverers of a message have it in the same position

Invariants: all tables are linear in the trace and spill to disk; only counts of control rows come to the driver. In an
orderly group the position is a clock that ticks at each delivery at each process, which proves total order, and by
comparing two numbers a message fifo and causal order too; the exact and dearer ways are for groups that are not.
"""

from __future__ import annotations

from functools import cached_property

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from isthmus.core.layer import Kind
from isthmus.pipeline.lives import bit, epochs, is_kind, lives, mask_of, restless, with_epochs, with_lives, word
from isthmus.trace.schema import NONE

GROUP = ("run", "group")
MESSAGE = ("run", "group", "sender", "number")
HOLDER = (*MESSAGE, "life", "word")
VIEW_SHIFT = 32  # a position is (view + 1) << 32 | place in the view, from 1
SMALL = 200_000  # rows of a table that is sent to every task
TOLD = (Kind.SUBMIT, Kind.VIEW, Kind.SUSPECT, Kind.TRUST, Kind.CRASH, Kind.RECOVER)
ABOUT = (Kind.SUBMIT, Kind.TENTATIVE, Kind.DELIVER, Kind.REVOKE, Kind.VIEW, Kind.CLOCK)


def position(view: str = "view", place: str = "place") -> Column:
    return F.shiftleft((F.col(view) + 1).cast("long"), VIEW_SHIFT) + F.col(place)


def distinct_count(bits: str) -> Column:
    return F.bit_count(F.col(bits)).cast("long")


class Tables:
    """One trace, arranged for checking."""

    def __init__(self, trace: DataFrame) -> None:
        addressed = F.col("destinations").isNotNull() & (F.size("destinations") > 0)
        self.trace = trace.withColumn("destinations", F.when(addressed, F.col("destinations")))

    def keep(self, frame: DataFrame) -> DataFrame:
        """Work a table out now, once, and forget how: plans that carry their past double at every join."""
        return frame.localCheckpoint(eager=True)

    def small(self, frame: DataFrame) -> DataFrame:
        """A kept table that joins without a shuffle of the other side, as long as it is small."""
        kept = frame.localCheckpoint(eager=False)
        return F.broadcast(kept) if kept.count() <= SMALL else kept  # the count works it out

    # The few rows

    @cached_property
    def told(self) -> DataFrame:
        """All rows that are no deliveries and that a check asks for."""
        return self.keep(self.trace.where(is_kind(*TOLD)).drop("control_bytes"))

    @cached_property
    def lives(self) -> DataFrame:
        return self.small(lives(self.told))

    @cached_property
    def epochs(self) -> DataFrame:
        return self.small(epochs(self.told, self.lives))

    @cached_property
    def has_ends(self) -> bool:
        """Whether any life ever ended."""
        return not self.lives.isEmpty()

    @cached_property
    def restless(self) -> DataFrame:
        return self.small(restless(self.told, self.lives, self.epochs))

    def located(self, rows: DataFrame) -> DataFrame:
        """Rows with life, view and stay."""
        return with_epochs(with_lives(rows, self.lives), self.epochs)

    @cached_property
    def seen(self) -> DataFrame:
        """The runs and groups to judge: run, group, static, and how many rows of some kinds there are."""
        about = is_kind(*ABOUT)
        counts = [
            F.count_if(is_kind(kind)).alias(kind.name.lower())
            for kind in (Kind.SUBMIT, Kind.DELIVER, Kind.TENTATIVE, Kind.REVOKE, Kind.VIEW, Kind.CLOCK)
        ]
        found = self.trace.groupBy(*GROUP).agg(F.max(about).alias("about"), *counts)
        run = Window.partitionBy("run")
        first = ~F.max("about").over(run) & (F.col("group") == F.min("group").over(run))
        kept = found.withColumn("alone", first).where(F.col("about") | F.col("alone")).drop("about", "alone")
        return self.small(kept.withColumn("static", F.col("view") == 0).withColumnRenamed("view", "installs"))

    # Messages

    @cached_property
    def submits(self) -> DataFrame:
        """The first SUBMIT row of each message: where the sender was, its index in the stay, the addressees."""
        own = self.told.where(is_kind(Kind.SUBMIT) & (F.col("process") == F.col("sender")))
        again = Window.partitionBy(*MESSAGE).orderBy("local")
        firsts = own.withColumn("again", F.row_number().over(again)).withColumn(
            "submits", F.count("*").over(Window.partitionBy(*MESSAGE))
        )
        stay = Window.partitionBy("run", "group", "sender", "life", "stay").orderBy("local")
        return self.keep(
            self.located(firsts.where(F.col("again") == 1))
            .withColumn("index", F.row_number().over(stay))
            .select(
                *MESSAGE,
                F.col("life").alias("from_life"),
                F.col("up").alias("from_up"),
                F.col("view").alias("from_view"),
                F.col("stay").alias("from_stay"),
                F.col("final").alias("from_final"),
                F.col("last").alias("from_last"),
                F.col("local").alias("from_local"),
                F.col("time_ns").alias("from_ns"),
                F.col("payload_bytes").alias("from_bytes"),
                "index",
                "submits",
                "destinations",
            )
        )

    @cached_property
    def uncounted(self) -> DataFrame:
        """The deliveries that total order passes over, as bits: those of lives that ended, in their last view."""
        ended = self.lives.where(~F.col("up")).select("run", "process", "life")
        ends = self.epochs.where(F.col("last")).select("run", "group", "process", "life", "view")
        return self.small(
            ended.join(self.seen.select(*GROUP), "run")
            .join(ends, ["run", "group", "process", "life"], "left")
            .withColumn("view", F.coalesce("view", F.lit(NONE)))
            .groupBy("run", "group", "life", "view", word().alias("word"))
            .agg(F.bit_or(bit()).alias("uncounted"))
        )

    @cached_property
    def down(self) -> DataFrame:
        """The lives that ended, as bits."""
        ended = self.lives.where(~F.col("up"))
        return self.small(ended.groupBy("run", "life", word().alias("word")).agg(F.bit_or(bit()).alias("down")))

    @cached_property
    def marks(self) -> DataFrame:
        given = is_kind(Kind.DELIVER)
        sent = is_kind(Kind.SUBMIT)
        rows = self.trace.where(given | (sent & (F.col("process") == F.col("sender"))))
        order = Window.partitionBy("run", "group", "process", "life", "epoch").orderBy("local")
        placed = (
            self.located(rows)
            .select(
                *MESSAGE, "process", "life", "view", "epoch", "local", "time_ns", "payload_bytes", given.alias("given")
            )
            .withColumn("place", F.count_if(F.col("given")).over(order))
            .withColumn("position", position())
            .withColumn("word", word())
        )
        given = F.col("given")
        summed = placed.groupBy(*MESSAGE, "life", "view", "word").agg(
            F.count_if(given).alias("n"),
            F.coalesce(F.bit_or(F.when(given, bit())), F.lit(0).cast("long")).alias("bits"),
            F.min(F.when(given, F.col("position"))).alias("least"),
            F.max(F.when(given, F.col("position"))).alias("most"),
            F.min(F.when(given, F.col("time_ns"))).alias("time_ns"),
            F.min(F.when(given, F.col("payload_bytes"))).alias("bytes_least"),
            F.max(F.when(given, F.col("payload_bytes"))).alias("bytes_most"),
            F.min(F.when(~given, F.col("position"))).alias("from_position"),
        )
        if self.has_ends:
            summed = summed.join(self.down, ["run", "life", "word"], "left").join(
                self.uncounted, ["run", "group", "life", "view", "word"], "left"
            )
        else:
            nothing = F.lit(None).cast("long")
            summed = summed.withColumn("down", nothing).withColumn("uncounted", nothing)
        return self.keep(
            summed.join(self.submits, list(MESSAGE), "left")
            .withColumn("sent", F.col("from_local").isNotNull())
            .withColumn("to", mask_of(F.col("destinations"), F.col("word")))
            .withColumn("up_bits", F.col("bits").bitwiseAND(F.bitwise_not(F.coalesce("down", F.lit(0)))))
            .withColumn("counted_bits", F.col("bits").bitwiseAND(F.bitwise_not(F.coalesce("uncounted", F.lit(0)))))
            .drop("down", "uncounted")
        )

    @cached_property
    def holders(self) -> DataFrame:
        return self.keep(
            self.marks.groupBy(*HOLDER, "to", "sent").agg(
                F.sum("n").alias("n"),
                F.bit_or("bits").alias("bits"),
                F.bit_or("counted_bits").alias("counted_bits"),
                F.bit_or("up_bits").alias("up_bits"),
                F.min("least").alias("least"),
                F.max("most").alias("most"),
                F.min("time_ns").alias("time_ns"),
                F.min("bytes_least").alias("bytes_least"),
                F.max("bytes_most").alias("bytes_most"),
                F.max("from_position").alias("from_position"),
            )
        )

    @cached_property
    def messages(self) -> DataFrame:
        summed = self.holders.groupBy(*MESSAGE, "sent").agg(
            F.sum("n").alias("n"),
            F.sum(distinct_count("bits")).alias("lives"),
            F.sum(distinct_count("counted_bits")).alias("counted_lives"),
            F.sum(distinct_count("up_bits")).alias("up_lives"),
            F.sum(F.bit_count(F.col("bits").bitwiseAND(F.col("to"))).cast("long")).alias("addressed_lives"),
            F.min("least").alias("least"),
            F.max("most").alias("most"),
            F.min("time_ns").alias("time_ns"),
            F.min("bytes_least").alias("bytes_least"),
            F.max("bytes_most").alias("bytes_most"),
            F.max("from_position").alias("from_position"),
        )
        return self.keep(summed.join(self.submits, list(MESSAGE), "left"))

    @cached_property
    def groups(self) -> DataFrame:
        """The groups with `orderly`, and how many lives delivered anything there."""
        backward = self.epochs.where(F.col("view") <= F.col("before")).select(*GROUP).distinct()
        same = (F.col("n") == 0) | ((F.col("n") == F.col("lives")) & (F.col("least") == F.col("most")))
        agree = self.messages.groupBy(*GROUP).agg(F.min(same).alias("same"))
        held = self.holders.groupBy(*GROUP, "life", "word").agg(F.bit_or("bits").alias("bits"))
        present = held.groupBy(*GROUP).agg(F.sum(distinct_count("bits")).alias("present"))
        return self.small(
            self.seen.join(agree, list(GROUP), "left")
            .join(present, list(GROUP), "left")
            .join(backward.withColumn("backward", F.lit(True)), list(GROUP), "left")
            .withColumn("orderly", F.coalesce("same", F.lit(True)) & F.col("backward").isNull())
            .withColumn("present", F.coalesce("present", F.lit(0)))
            .drop("same", "backward")
        )

    @cached_property
    def disorderly(self) -> DataFrame:
        """The groups whose order takes a closer look."""
        return self.small(self.groups.where(~F.col("orderly")).select(*GROUP))

    @cached_property
    def all_orderly(self) -> bool:
        return self.disorderly.isEmpty()

    def firsts(self, chosen: DataFrame) -> DataFrame:
        """The deliveries of some groups, each message once a life; `counted` where total order counts them."""
        rows = self.trace.where(is_kind(Kind.DELIVER)).join(chosen, list(GROUP), "left_semi")
        return (
            self.located(rows)
            .groupBy(*MESSAGE, "process", "life")
            .agg(
                F.min("local").alias("local"),
                F.min("time_ns").alias("time_ns"),
                F.min("view").alias("view"),
                F.max(F.col("up") | ~F.col("last")).alias("counted"),
            )
        )

    @cached_property
    def unordered(self) -> DataFrame:
        """The first deliveries of the groups that are not orderly."""
        return self.keep(self.firsts(self.disorderly))
