"""Columns as they come, brought to the schema of a trace: casts, defaults, and a sentence for what does not fit.

One expression per column, built from the type that was found; where a footer has vouched for the rows, the bare column,
so that Spark can push filters into the scan. Invariants: what does not fit fails the job and is named with its file and
column. A null becomes the default of an optional column, and "no message" in a row whose kind has none.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import (
    ArrayType,
    ByteType,
    DataType,
    IntegerType,
    IntegralType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
)

from isthmus.core.layer import Kind
from isthmus.pipeline.engine.spark_errors import refuse
from isthmus.trace.arrow import SCHEMA
from isthmus.trace.inputs.columns import (
    DEFAULTS,
    KINDS_EXPECTED,
    LIST,
    REQUIRED,
    VIEW_NUMBER,
    WITH_MESSAGE,
    arrow_type,
    missing_column,
    wrong_type,
)
from isthmus.trace.schema import ADDED, NONE

SPARK_TYPES: dict[str, DataType] = {
    "int8": ByteType(),
    "int16": ShortType(),
    "int32": IntegerType(),
    "int64": LongType(),
}
TRACE_TYPE = StructType(
    [
        StructField(field.name, SPARK_TYPES.get(str(field.type), ArrayType(IntegerType())), field.nullable)
        for field in SCHEMA
    ]
)
WIDTHS = {"tinyint": 1, "smallint": 2, "int": 4, "bigint": 8}
FILE = "_file"  # a column that may say which file a row came from


def conform(frame: DataFrame, source: str, trusted: bool = False) -> DataFrame:
    """A frame with at least the required columns in the one schema; `trusted`: no nulls and only known kinds."""
    types = {field.name: field.dataType for field in frame.schema}
    for name in REQUIRED:
        if name not in types:
            raise missing_column(source, name, [found for found in types if found != FILE])
    place = F.col(FILE) if FILE in types else F.lit(source)
    chosen: list[Column] = []
    for field in TRACE_TYPE:
        name = field.name
        if name not in types:
            chosen.append(F.lit(DEFAULTS[name]).cast(field.dataType).alias(name))
            continue
        fits = isinstance(types[name], StringType | (ArrayType if name == "destinations" else IntegralType))
        if not fits or (isinstance(types[name], ArrayType) and not integers(types[name])):
            raise wrong_type(source, name, types[name].simpleString())
        chosen.append(expression(field, types, place, trusted).alias(name))
    if "view" in types and not (trusted and "value" in types):
        chosen[TRACE_TYPE.names.index("value")] = value_of(types, place, trusted)
    found = frame.select(*chosen)
    return found if trusted and "origin" in types else with_added(found)


def with_added(frame: DataFrame) -> DataFrame:
    """Fill in what version 1 lacks: the origin of a message is the row's group, and no row is a gauge."""
    of_message = F.when(F.col("sender") != NONE, F.col("group")).otherwise(NONE)
    origin = F.coalesce("origin", of_message.cast("int"))
    gauge = F.coalesce("gauge", F.lit(0).cast("smallint"))
    return frame.withColumns(dict(zip(ADDED, (origin, gauge), strict=True)))


def expression(field: StructField, types: dict[str, DataType], place: Column, trusted: bool) -> Column:
    if field.name == "kind":
        return kind_of(types["kind"], place, trusted)
    if field.name == "destinations":
        return destinations_of(types["destinations"], place)
    found, name = types[field.name], field.name
    column = F.col(name)
    narrow = found.simpleString() in WIDTHS and WIDTHS[found.simpleString()] <= WIDTHS[field.dataType.simpleString()]
    if trusted and narrow:
        return column if found == field.dataType else column.cast(field.dataType)
    if isinstance(found, StringType):
        column = F.nullif(F.trim(column), F.lit(""))
    bad = refuse(place, name, quoted(column), arrow_type(name))
    absent = F.lit(DEFAULTS.get(name, NONE)).cast(field.dataType)
    if name in ("process", "local"):
        absent = F.coalesce(refuse(place, name, "nothing", f"{arrow_type(name)} in every row").cast("int"), absent)
    elif name in ("sender", "number"):
        needed = kind_of(types["kind"], place, trusted).isin(*map(int, WITH_MESSAGE))
        nothing = refuse(place, name, "nothing", "a message in a row of this kind").cast("int")
        absent = F.when(needed, F.coalesce(nothing, absent)).otherwise(absent)
    return F.when(column.isNull(), absent).otherwise(
        F.coalesce(column.try_cast(field.dataType), bad.cast(field.dataType))
    )


def value_of(types: dict[str, DataType], place: Column, trusted: bool) -> Column:
    """The value, in VIEW rows the number of the view, which a row may tell in either column."""
    view = expression(TRACE_TYPE["view"], types, place, trusted)
    installs = kind_of(types["kind"], place, trusted) == int(Kind.VIEW)
    if "value" not in types:
        return F.when(installs & (view != NONE), view).otherwise(0).cast("bigint").alias("value")
    value = expression(TRACE_TYPE["value"], types, place, trusted)
    untold = F.coalesce(F.trim(F.col("value").cast("string")), F.lit("")) == ""
    numbers = (view.cast("string"), F.lit(" in a row of the value "), value.cast("string"))
    bad = refuse(place, "view", F.concat(*numbers), VIEW_NUMBER).cast("bigint")
    told = F.when(untold, view.cast("bigint")).when((view > 0) & (view != value), bad).otherwise(value)
    return F.when(installs & (view != NONE), told).otherwise(value).alias("value")


def kind_of(found: DataType, place: Column, trusted: bool) -> Column:
    column = F.col("kind")
    if trusted and isinstance(found, ByteType):
        return column
    known = F.array(*(F.lit(int(kind)) for kind in Kind))
    number = column.try_cast("int")
    if isinstance(found, StringType):
        names = F.create_map(*(F.lit(part) for kind in Kind for part in (kind.name, int(kind))))
        number = F.coalesce(F.trim(column).try_cast("int"), F.try_element_at(names, F.upper(F.trim(column))))
    bad = refuse(place, "kind", F.coalesce(quoted(column), F.lit("nothing")), KINDS_EXPECTED)
    return F.when(F.array_contains(known, number), number).otherwise(bad.cast("int")).cast("tinyint")


def destinations_of(found: DataType, place: Column) -> Column:
    """Destinations from a list of any integers, or from the text of one; an empty list is null."""
    column = F.col("destinations")
    if isinstance(found, StringType):
        bad = refuse(place, "destinations", quoted(column), "numbers such as 1 2 3 or [1,2,3]")
        numbers = F.regexp_extract_all(column, F.lit(r"(-?\d+)"), 1).cast("array<int>")
        sound = F.regexp_like(column, F.lit(LIST)) | F.lower(F.trim(column)).isin("null", "all")
        column = F.when(sound, numbers).when(column.isNotNull(), bad.cast("array<int>"))
    elif found != ArrayType(IntegerType()):
        column = column.cast("array<int>")
    return F.when(F.size(column) > 0, column)


def quoted(column: Column) -> Column:
    return F.concat(F.lit("'"), column.cast("string"), F.lit("'"))


def integers(found: DataType) -> bool:
    return isinstance(found, ArrayType) and isinstance(found.elementType, IntegralType)
