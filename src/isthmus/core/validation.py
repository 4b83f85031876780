"""Conversion of TOML files into typed values, with readable errors.

A bad file raises one `InputError` that names the file, the key, the value found and the values expected. msgspec does
the conversion; this module rewrites its messages and paths. A struct that checks its own values raises `BadValue` from
`__post_init__`, naming its field; the conversion adds the place of the struct in the file.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from isthmus.core.errors import InputError

T = TypeVar("T")
PATH = re.compile(r"^(?P<what>.*?)(?: - at `(?P<path>.*)`)?$", re.DOTALL)
STEP = re.compile(r"\.([A-Za-z_][\w-]*)|\[(\d+)\]|\[\.\.\.\]")
NAMES = {"int": "a whole number", "float": "a number", "str": "a text", "bool": "true or false"}
NAMES |= {"array": "a list", "object": "a table", "null": "nothing"}
DURATION_MAX_MS = 1e12  # some 30 years; in nanoseconds, twice this still fits a trace
COUNT_MAX = 1_000_000_000  # of messages: effectively unbounded
PERIOD_MIN_MS = 1e-3  # of a timer that repeats: below a nanosecond, time would stand still


class BadValue(InputError, ValueError):
    """An InputError from a value under construction; as a ValueError, it is caught and placed by the conversion."""

    def __init__(self, key: str, found: str, expected: str) -> None:
        InputError.__init__(self, "", key, found, expected)

    def __reduce__(self) -> tuple[type[BadValue], tuple[str, str, str]]:
        return BadValue, (self.key, self.found, self.expected)

    def at(self, source: str, prefix: str) -> InputError:
        """The same error with the place of the value in its file."""
        return InputError(source, join(prefix, self.key), self.found, self.expected)


def join(prefix: str, key: str) -> str:
    """A key inside a table, as one path."""
    return f"{prefix}.{key}" if prefix and key and not key.startswith("[") else prefix + key


def read_toml(path: Path) -> dict[str, Any]:
    """Parse a TOML file into plain tables."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(str(path), "", "no such file", "the path of a TOML file") from None
    except IsADirectoryError:
        raise InputError(str(path), "", "a folder", "the path of a TOML file") from None
    except PermissionError:
        raise InputError(str(path), "", "a file that may not be read", "read permission") from None
    except OSError as error:
        raise InputError(str(path), "", error.strerror or "an error", "the path of a TOML file") from None
    except UnicodeDecodeError:
        raise InputError(str(path), "", "bytes that are not UTF-8", "a TOML file") from None
    except ValueError as error:  # of the parser's own kind, or a number of thousands of digits
        raise InputError(str(path), "", f"a syntax error ({error})", "valid TOML") from None
    except RecursionError:
        raise InputError(str(path), "", "lists or tables too deep in each other", "a TOML file") from None


def convert(tables: Any, kind: type[T], source: str, prefix: str = "") -> T:
    """Turn plain tables into a typed value; `prefix` is the key of the tables inside their file."""
    try:
        return msgspec.convert(tables, kind, strict=True)
    except msgspec.ValidationError as error:
        raise explain(error, tables, source, prefix, kind) from None


def explain(
    error: msgspec.ValidationError, tables: Any, source: str, prefix: str, kind: type[Any] | None = None
) -> InputError:
    """Turn a conversion error into one with the place, the value found and the values expected."""
    match = PATH.match(str(error))
    assert match is not None
    what, path = match["what"], match["path"] or "$"
    found: Any = tables
    key = prefix
    shape = None if kind is None else inspect.type_info(kind)
    outer, holder = shape, found
    for name, index in STEP.findall(path.removeprefix("$")):
        outer, holder = shape, found
        if not name and not index and isinstance(found, dict):
            name = misfit(shape, found)
        if name:
            key = join(key, name)
            found = found.get(name) if isinstance(found, dict) else found
        elif index:
            key = f"{key}[{index}]"
            found = found[int(index)] if isinstance(found, list) else found
        shape = None if isinstance(shape, inspect.DictType) else inner(shape, name, holder)
    if isinstance(error.__cause__, BadValue):
        return error.__cause__.at(source, key)
    if unknown := re.search(r"unknown field `(.*?)`", what):
        name = unknown[1]
        fields = [field.encode_name for struct in structs(shape, found) for field in struct.fields]
        tags = [struct.tag_field for struct in structs(shape, found) if struct.tag_field]
        expected = one_of(name, dict.fromkeys([*tags, *fields])) if fields else "one of the known keys"
        return InputError(source, join(key, name), "an unknown key", expected)
    if missing := re.search(r"missing required field `(.*?)`", what):
        return InputError(source, join(key, missing[1]), "nothing", "this key, which is required")
    if what.startswith("Invalid value") and (tags := [str(struct.tag) for struct in structs(outer)]):
        return InputError(source, key, show(found), one_of(str(found), tags))
    if words := literals(shape):
        return InputError(source, key, show(found), one_of(str(found), words))
    return InputError(source, key, show(found), plain(what))


def misfit(shape: inspect.Type | None, table: dict[str, Any]) -> str:
    """The first key whose value does not have the plain type that all values of the table must have."""
    kinds: dict[type[inspect.Type], tuple[type, ...]] = {
        inspect.IntType: (int,),
        inspect.FloatType: (int, float),
        inspect.StrType: (str,),
        inspect.BoolType: (bool,),
    }
    wanted = kinds.get(type(shape.value_type), ()) if isinstance(shape, inspect.DictType) else ()
    return next((key for key, value in table.items() if wanted and type(value) not in wanted), "")


def inner(shape: inspect.Type | None, name: str, table: Any) -> inspect.Type | None:
    """The type one step down: of the named field, or of an item if no name is given."""
    if name:
        fields = [field for struct in structs(shape, table) for field in struct.fields if field.encode_name == name]
        return fields[0].type if fields else shape
    options = shape.types if isinstance(shape, inspect.UnionType) else (shape,)
    items = [option.item_type for option in options if isinstance(option, inspect.ListType | inspect.VarTupleType)]
    return items[0] if items else None


def structs(shape: inspect.Type | None, table: Any = None) -> list[inspect.StructType]:
    """The structs that a type allows; only the one with the table's tag if it has one."""
    options = shape.types if isinstance(shape, inspect.UnionType) else (shape,)
    found = [option for option in options if isinstance(option, inspect.StructType)]
    tagged = [s for s in found if isinstance(table, dict) and s.tag_field and table.get(s.tag_field) == s.tag]
    return tagged or found


def literals(shape: inspect.Type | None) -> list[str]:
    """The strings that a literal type allows."""
    return [str(value) for value in shape.values] if isinstance(shape, inspect.LiteralType) else []


def plain(what: str) -> str:
    """The expectation of a conversion error in plain words."""
    if what.startswith("Number out of range"):
        return "a number of a usual size"
    expected = re.sub(r"^Expected ", "", what)
    expected = re.sub(r", got .*$", "", expected)
    if invalid := re.match(r"Invalid (?:enum )?value (.*)", expected):
        return f"a known value, not {invalid[1]}"
    return re.sub(r"`(.*?)`", lambda names: alternatives(names[1].split(" | ")), expected)


def alternatives(names: list[str]) -> str:
    """Type names as words, without null, which TOML does not have."""
    return " or ".join(NAMES.get(name, name) for name in names if name != "null")


def check_range(key: str, value: float, low: float, high: float, what: str = "a number") -> None:
    """Refuse a number outside a closed interval, and NaN."""
    if not low <= value <= high:
        low_text, high_text = (str(end) if isinstance(end, int) else f"{end:g}" for end in (low, high))
        raise BadValue(key, show(value), f"{what} from {low_text} to {high_text}")


def show(found: Any) -> str:
    """A value as written in the file, shortened."""
    if found is None:
        return "nothing"
    if isinstance(found, bool):
        return "true" if found else "false"
    if isinstance(found, msgspec.Struct):
        found = [field.name for field in msgspec.structs.fields(found) if getattr(found, field.name) != usual(field)]
        return f"a table with {', '.join(found)}" if found else "an empty table"
    text = f"a table with {', '.join(found)}" if isinstance(found, dict) else repr(found)
    return text if len(text) <= 60 else text[:57] + "..."


def usual(field: msgspec.structs.FieldInfo) -> Any:
    """The default value of a field."""
    return field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()


def one_of(name: str, known: Iterable[str]) -> str:
    """The expectation 'one of a, b, c', with the closest known name if there is one."""
    names = list(known)
    near = get_close_matches(name, names, n=1)
    listed = ", ".join(names[:12]) + (" ..." if len(names) > 12 else "")
    return f"one of {listed}" + (f" (did you mean {near[0]}?)" if near else "")


@cache
def defaults_of(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the keys of a table with their defaults."""
    return {field.name: field.default for field in msgspec.structs.fields(kind)}


def given_keys(table: msgspec.Struct) -> list[str]:
    """Return the keys of a table whose values differ from their defaults."""
    return [name for name, default in defaults_of(type(table)).items() if getattr(table, name) != default]


def with_key(key: str, check: Callable[[], T]) -> T:
    """Return the result of a check; an error names the given key."""
    try:
        return check()
    except BadValue as error:
        raise BadValue(key, error.found, error.expected) from None


def with_prefix(prefix: str, check: Callable[[], object]) -> None:
    """Run a check; an error names its key with the prefix."""
    try:
        check()
    except BadValue as error:
        raise BadValue(join(prefix, error.key), error.found, error.expected) from None
