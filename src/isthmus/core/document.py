"""TOML files into typed values, with errors for people.

A bad file is answered by one `InputError` that names the file, the key, what was found there and what would be
right. msgspec does the conversion; this module turns its words and its paths into ours.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from isthmus.core.errors import InputError

T = TypeVar("T")
PATH = re.compile(r"^(?P<what>.*?)(?: - at `(?P<path>.*)`)?$", re.DOTALL)
STEP = re.compile(r"\.([A-Za-z_][\w-]*)|\[(\d+)\]|\[\.\.\.\]")
NAMES = {"int": "a whole number", "float": "a number", "str": "a text", "bool": "true or false"}
NAMES |= {"array": "a list", "object": "a table", "null": "nothing"}


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
    except UnicodeDecodeError:
        raise InputError(str(path), "", "bytes that are not UTF-8", "a TOML file") from None
    except tomllib.TOMLDecodeError as error:
        raise InputError(str(path), "", f"a syntax error ({error})", "valid TOML") from None


def convert(tables: Any, kind: type[T], source: str, prefix: str = "") -> T:
    """Turn plain tables into a typed value; `prefix` is the key of the tables inside their file."""
    try:
        return msgspec.convert(tables, kind, strict=True)
    except msgspec.ValidationError as error:
        raise explain(error, tables, source, prefix) from None


def explain(error: msgspec.ValidationError, tables: Any, source: str, prefix: str) -> InputError:
    """Say in our words where a conversion failed, what stands there and what would be right."""
    match = PATH.match(str(error))
    assert match is not None
    what, path = match["what"], match["path"] or "$"
    found: Any = tables
    key = prefix
    for name, index in STEP.findall(path.removeprefix("$")):
        if name:
            key = f"{key}.{name}" if key else name
            found = found.get(name) if isinstance(found, dict) else found
        elif index:
            key = f"{key}[{index}]"
            found = found[int(index)] if isinstance(found, list) else found
    if unknown := re.search(r"unknown field `(.*?)`", what):
        name = unknown[1]
        return InputError(source, f"{key}.{name}" if key else name, "an unknown key", "one of the known keys")
    if missing := re.search(r"missing required field `(.*?)`", what):
        name = missing[1]
        return InputError(source, f"{key}.{name}" if key else name, "nothing", "this key, which is required")
    return InputError(source, key, show(found), plain(what))


def plain(what: str) -> str:
    """A conversion error's expectation in plain words."""
    expected = re.sub(r"^Expected ", "", what)
    expected = re.sub(r", got .*$", "", expected)
    if invalid := re.match(r"Invalid (?:enum )?value (.*)", expected):
        return f"a known value, not {invalid[1]}"
    return re.sub(r"`(.*?)`", lambda name: " or ".join(NAMES.get(n, n) for n in name[1].split(" | ")), expected)


def show(found: Any) -> str:
    """A value as it stands in the file, shortened."""
    if found is None:
        return "nothing"
    text = f"a table with {', '.join(found)}" if isinstance(found, dict) else repr(found)
    return text if len(text) <= 60 else text[:57] + "..."


def one_of(name: str, known: Iterable[str]) -> str:
    """The expectation 'one of a, b, c', with the nearest name first where there is one."""
    names = list(known)
    near = get_close_matches(name, names, n=1)
    listed = ", ".join(names[:12]) + (" ..." if len(names) > 12 else "")
    return f"one of {listed}" + (f" (did you mean {near[0]}?)" if near else "")
