"""The tables that all checks share, each made once: what became of every message, in bits (docs/design/checks.md).

One shuffle and one sort by process give each delivery its *position*, the view and the place within it by local order;
one aggregate by message keeps, for each life and view, the deliverers as words of 64 bits.

    marks     one row per message, life, view and word of processes: deliverers, positions, what the SUBMIT row said
    holders   the same over all views: one row per message, life and word
    messages  one row per message
    groups    one row per run and group, with all sums that checks ask for (totals.py)
    alarms    one row of the whole trace: which closer looks are called for at all

Invariants: all tables are linear in the trace and spill to disk; only counts, and whether there is any, come to the
driver. What a SUBMIT row said is looked up in the origin group; `home` says whether it was submitted in this one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql import functions as F  # noqa: N812

from isthmus.core.layer import Kind
from isthmus.judge.arrange import told_cut
from isthmus.pipeline.check.domains import is_domain, with_domains
from isthmus.pipeline.check.incarnations import (
    bit,
    distinct_count,
    down,
    epochs,
    extremes,
    in_runs,
    is_home,
    is_kind,
    is_own,
    lives,
    mask_of,
    restless,
    uncounted,
    with_epochs,
    with_lives,
    with_weights,
    word,
)
from isthmus.pipeline.check.nested import is_nested, without_unsure
from isthmus.pipeline.check.totals import alarms, rosters, totals
from isthmus.pipeline.engine.formats import GROUP, HOLDER, IDENTITY, MESSAGE
from isthmus.pipeline.engine.store import FrameStore
from isthmus.trace.domain import DOMAIN_PROPERTIES, Domain
from isthmus.trace.schema import NONE, Recording

VIEW_SHIFT = 32  # a position is (view + 1) << 32 | place in the view, from 1
RECORDINGS = (Recording.BEGUN, Recording.ENDED, Recording.CUT)
TOLD = (Kind.SUBMIT, Kind.VIEW, Kind.SUSPECT, Kind.TRUST, Kind.CRASH, Kind.RECOVER, Kind.RECORD)
ABOUT = (Kind.SUBMIT, Kind.TENTATIVE, Kind.DELIVER, Kind.REVOKE, Kind.VIEW, Kind.CLOCK)
COUNTED = (*ABOUT, Kind.CRASH, Kind.RECOVER, Kind.RECORD)
SUBMITTED = (  # what a message's SUBMIT row says; null where there is none
    "from_life",
    "from_up",
    "from_view",
    "from_stay",
    "from_final",
    "from_local",
    "from_ns",
    "from_bytes",
    "from_digest",
    "index",
    "submits",
    "destinations",
    "home",
)
NEIGHBOURS = 8  # processes of a block, at most
BLOCKS = 16  # of a group, at least, if it has as many processes


def position(view: str = "view", place: str = "place") -> Column:
    return F.shiftleft((F.col(view) + 1).cast("long"), VIEW_SHIFT) + F.col(place)


class Tables(FrameStore):
    """One trace, arranged for checking; `asked` are the properties with the runs they are asked of, None: all."""

    def __init__(
        self,
        trace: DataFrame,
        asked: Mapping[str, Sequence[range] | None],
        domains: Sequence[Domain] = (),
        partial: bool = False,
    ) -> None:
        super().__init__(trace.sparkSession)
        self.asked = asked
        self.domains = domains
        self.partial = partial
        addressed = F.col("destinations").isNotNull() & (F.size("destinations") > 0)
        self.rows = with_weights(trace.withColumn("destinations", F.when(addressed, F.col("destinations"))))

    def asks(self, name: str) -> Column:
        """Whether a row's run, and group or domain, is asked for a property, or for one that it is a part of."""
        asked = in_runs(self.asked.get(name, ()))
        return asked if name in DOMAIN_PROPERTIES or not self.domains else asked & ~is_domain()

    # The few rows

    @cached_property
    def counts(self) -> DataFrame:
        """How many rows of each kind a run and group has."""
        return self.counted_trace[0]

    @cached_property
    def trace(self) -> DataFrame:
        """All rows that are judged, those of domains too."""
        return self.counted_trace[1]

    @cached_property
    def counted_trace(self) -> tuple[DataFrame, DataFrame]:
        """The counts of rows by kind, and the rows, without what is not judged of nested groups."""
        found = self.counted(whole := with_domains(self.rows, self.domains, self.hold))
        if not found.where(F.col("nested") > 0).isEmpty():
            whole = with_domains(self.hold(without_unsure(self.rows)), self.domains, self.hold)
            found = self.counted(whole)
        return found, whole

    def counted(self, rows: DataFrame) -> DataFrame:
        kinds = [F.count_if(is_kind(kind)).alias(kind.name.lower()) for kind in COUNTED]
        carried = F.count_if(is_kind(Kind.DELIVER) & ~is_own()).alias("carried")
        nested = F.count_if(is_nested()).alias("nested")
        return self.keep(rows.groupBy(*GROUP).agg(F.max("process").alias("highest"), carried, nested, *kinds))

    @cached_property
    def census(self) -> dict[str, int]:
        """How many rows of each kind there are in all, how many deliveries are carried, and the highest process."""
        sums = [F.sum(name).alias(name) for name in ("carried", *(kind.name.lower() for kind in COUNTED))]
        row = self.counts.agg(F.max("highest").alias("highest"), *sums).first()
        return {name: count or 0 for name, count in row.asDict().items()} if row else {}

    @cached_property
    def told(self) -> DataFrame:
        """All rows that are no deliveries and that a check asks for."""
        return self.hold(self.trace.where(is_kind(*TOLD)).drop("control_bytes"))

    @cached_property
    def has_ends(self) -> bool:
        return self.census["crash"] + self.census["recover"] > 0

    @cached_property
    def has_views(self) -> bool:
        return self.census["view"] > 0

    @cached_property
    def lives(self) -> DataFrame:
        found = lives(self.told)
        return self.small(found) if self.has_ends else self.nothing(found)

    @cached_property
    def epochs(self) -> DataFrame:
        found = epochs(self.told, self.lives)
        return self.small(found) if self.has_views else self.nothing(found)

    @cached_property
    def missing(self) -> DataFrame:
        """The processes whose trace is incomplete: run, process."""
        if self.partial:
            senders = self.trace.select("run", F.col("sender").alias("process")).where(F.col("process") != NONE)
            return self.small(self.trace.select("run", "process").union(senders).distinct())
        latest = self.told.where(is_kind(Kind.RECORD)).groupBy("run", "process")
        begun, ended, cut = (F.count_if(F.col("value") == int(how)) for how in RECORDINGS)
        counted = latest.agg(begun.alias("begun"), ended.alias("ended"), cut.alias("cut"))
        found = counted.where((F.col("ended") < F.col("begun")) | (F.col("cut") > 0)).select("run", "process")
        return self.small(found) if self.census["record"] else self.nothing(found)

    @cached_property
    def cut(self) -> DataFrame:
        """The runs of which a trace is incomplete, with the reason that verdicts give: run, reason."""
        if self.partial:
            reason = F.lit(told_cut(frozenset(), partial=True))
        else:
            named, many = F.slice("missing", 1, 3), F.size("missing") > 3
            several = F.when(F.size("missing") > 1, "es").otherwise("")
            listed = F.concat(F.array_join(named, ", "), F.when(many, " ...").otherwise(""))
            reason = F.concat(F.lit("the trace of process"), several, F.lit(" "), listed, F.lit(" was cut short"))
        runs = self.missing.groupBy("run").agg(F.array_sort(F.collect_list("process")).alias("missing"))
        return self.small(runs.select("run", reason.alias("reason")))

    @cached_property
    def restless(self) -> DataFrame:
        found = restless(self.told, self.lives, self.epochs)
        moving = found if self.has_views else self.nothing(found)
        cut = self.seen.select(*GROUP).join(self.cut, "run").select(*GROUP, "reason")
        return self.small(moving.join(cut.select(*GROUP), list(GROUP), "left_anti").unionByName(cut))

    def located(self, rows: DataFrame) -> DataFrame:
        """Rows with life, view and stay."""
        return with_epochs(with_lives(rows, self.lives), self.epochs)

    @cached_property
    def seen(self) -> DataFrame:
        """The runs and groups to judge: run, group, static, how many rows of some kinds."""
        about = sum((F.col(kind.name.lower()) for kind in ABOUT), F.lit(0)) > 0
        run = Window.partitionBy("run")
        first = ~F.max("about").over(run) & (F.col("group") == F.min("group").over(run))
        found = self.counts.withColumn("about", about).withColumn("alone", first)
        kept = found.where(F.col("about") | F.col("alone"))
        return self.small(kept.withColumn("static", F.col("view") == 0).select(*GROUP, "static", "tentative", "revoke"))

    # Messages

    @cached_property
    def submits(self) -> DataFrame:
        """The first SUBMIT row of each message in each group that it is seen in; `home` where that is the group's own.

        It says where the sender was, its index in the stay, the addressees.
        """
        return self.hold(self.submitted.unionByName(self.carried) if self.census["carried"] else self.submitted)

    @cached_property
    def submitted(self) -> DataFrame:
        """What was submitted in a group, or in a domain."""
        own = self.told.where(is_kind(Kind.SUBMIT) & is_home())
        again = Window.partitionBy(*MESSAGE).orderBy("local")
        whole = again.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
        firsts = (
            own.repartition("run", "group", "origin", "sender")
            .withColumn("again", F.row_number().over(again))
            .withColumn("submits", F.count("*").over(whole))
        )
        stay = Window.partitionBy("run", "group", "sender", "life", "stay").orderBy("local")
        names = {"local": "from_local", "time_ns": "from_ns", "payload_bytes": "from_bytes", "value": "from_digest"}
        names |= {name: f"from_{name}" for name in ("life", "up", "view", "stay", "final")}
        found = self.located(firsts.where(F.col("again") == 1)).withColumn("index", F.row_number().over(stay))
        own = found.withColumns({"home": F.lit(True), "destinations": F.when(is_own(), F.col("destinations"))})
        made = own.withColumnsRenamed(names).select(*MESSAGE, *SUBMITTED)
        return self.hold(made) if self.census["carried"] else made

    @cached_property
    def carried(self) -> DataFrame:
        """What was submitted elsewhere: for messages that were delivered in a group which they were carried into."""
        here = self.trace.where(is_kind(Kind.DELIVER) & ~is_own()).select(*MESSAGE).distinct()
        unknown = here.join(self.submitted.select(*MESSAGE), list(MESSAGE), "left_anti")
        source = self.submitted.where(is_own()).drop("group")
        elsewhere = {"home": F.lit(False), "destinations": F.lit(None).cast("array<int>"), "submits": F.lit(1)}
        return unknown.join(source, list(IDENTITY)).withColumns(elsewhere).select(*MESSAGE, *SUBMITTED)

    @cached_property
    def down(self) -> DataFrame:
        return self.small(down(self.lives))

    @cached_property
    def uncounted(self) -> DataFrame:
        return self.small(uncounted(self.lives, self.epochs, self.seen))

    @cached_property
    def placed(self) -> DataFrame:
        """Deliveries and submits by block, with life, view and position."""
        size = max(1, min(NEIGHBOURS, -(-(self.census["highest"] + 1) // BLOCKS)))
        given = is_kind(Kind.DELIVER)
        own = is_kind(Kind.SUBMIT) & is_home()
        payload, digest = F.col("payload_bytes"), F.when(F.col("value") != 0, F.col("value"))
        if "integrity" not in self.asked:  # nobody compares them: two columns less to shuffle
            payload, digest = F.lit(0), F.lit(None).cast("long")
        rows = self.trace.where(given | own).select(
            *(*MESSAGE, "process", "local"),
            payload.alias("payload_bytes"),
            digest.alias("digest"),
            given.alias("given"),
            F.floor(F.col("process") / size).cast("int").alias("block"),
        )
        order = Window.partitionBy("run", "group", "block", "process", "life", "epoch").orderBy("local")
        return (
            self.located(rows.repartition("run", "group", "block"))
            .withColumn("place", F.count_if("given").over(order))
            .withColumn("doubled", F.coalesce(F.lag("local").over(order) == F.col("local"), F.lit(False)))
            .withColumn("position", position())
            .withColumn("word", word())
        )

    @cached_property
    def marks(self) -> DataFrame:
        given, position = F.col("given"), F.col("position")
        by_block = self.placed.groupBy(*MESSAGE, "life", "view", "word", "block").agg(
            F.count_if(given).alias("n"),
            F.coalesce(F.bit_or(F.when(given, bit())), F.lit(0).cast("long")).alias("bits"),
            F.min(F.when(given, position)).alias("least"),
            F.max(F.when(given, position)).alias("most"),
            F.min(F.when(given, F.col("payload_bytes"))).alias("bytes_least"),
            F.max(F.when(given, F.col("payload_bytes"))).alias("bytes_most"),
            F.min(F.when(given, F.col("digest"))).alias("digest_least"),
            F.max(F.when(given, F.col("digest"))).alias("digest_most"),
            F.min(F.when(~given, position)).alias("from_position"),
            F.max("doubled").alias("doubled"),
        )
        summed = (
            by_block.repartition(*MESSAGE)
            .groupBy(*MESSAGE, "life", "view", "word")
            .agg(F.sum("n").alias("n"), F.bit_or("bits").alias("bits"), *extremes())
        )
        if self.has_ends:
            summed = summed.join(self.down, ["run", "life", "word"], "left").join(
                self.uncounted, ["run", "group", "life", "view", "word"], "left"
            )
        else:
            nobody = F.lit(0).cast("long")
            summed = summed.withColumn("down", nobody).withColumn("uncounted", nobody)
        return self.hold(
            summed.join(self.submits, list(MESSAGE), "left")
            .withColumn("sent", F.col("from_local").isNotNull())
            .withColumn("to", mask_of(F.col("destinations"), F.col("word")))
            .withColumn("up_bits", F.col("bits").bitwiseAND(F.bitwise_not(F.coalesce("down", F.lit(0)))))
            .withColumn("counted_bits", F.col("bits").bitwiseAND(F.bitwise_not(F.coalesce("uncounted", F.lit(0)))))
            .drop("down", "uncounted")
        )

    @cached_property
    def holders(self) -> DataFrame:
        here = F.when(F.col("view") == F.col("from_view"), F.col("n")).otherwise(0)
        return self.hold(
            self.marks.groupBy(*HOLDER, "to", "sent", *SUBMITTED).agg(
                F.sum("n").alias("n"),
                F.bit_or("bits").alias("bits"),
                *extremes(),
                F.sum(here).alias("here"),  # delivered in the view it was submitted in
                F.bit_or("counted_bits").alias("counted_bits"),
                F.bit_or("up_bits").alias("up_bits"),
            )
        )

    @cached_property
    def messages(self) -> DataFrame:
        return self.hold(
            self.holders.groupBy(*MESSAGE, "sent", *SUBMITTED).agg(
                F.sum("n").alias("n"),
                *extremes(),
                F.sum("here").alias("here"),
                F.sum(distinct_count("bits")).alias("lives"),
                F.sum(distinct_count("counted_bits")).alias("counted_lives"),
                F.sum(distinct_count("up_bits")).alias("up_lives"),
                F.sum(F.bit_count(F.col("bits").bitwiseAND(F.col("to"))).cast("long")).alias("addressed_lives"),
            )
        )

    @cached_property
    def rosters(self) -> DataFrame:
        """Who delivered anything of a sender, as bits."""
        return self.small(rosters(self.holders))

    @cached_property
    def groups(self) -> DataFrame:
        """The groups with all their sums; `orderly` where all deliverers of a message have it in one position."""
        backward = self.epochs.where(F.col("view") <= F.col("before")).select(*GROUP).distinct()
        found = totals(self.seen, self.messages, self.rosters, backward)
        cares = {"descending": self.asks("fifo"), "incomplete": self.asks("fifo") | self.asks("causal")}
        return self.small(found.withColumns({alarm: F.col(alarm) & who for alarm, who in cares.items()}))

    @cached_property
    def alarms(self) -> Row:
        return alarms(self.groups)

    @cached_property
    def disorderly(self) -> DataFrame:
        """The groups whose order takes a closer look."""
        return self.small(self.groups.where(~F.col("orderly")).select(*GROUP))

    def firsts(self, chosen: DataFrame) -> DataFrame:
        """The deliveries of some groups, each message once per life; `counted` where total order counts them."""
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
