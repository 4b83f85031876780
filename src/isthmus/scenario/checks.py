"""Checks of parts of a scenario; their errors name the full key."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

import msgspec

from isthmus.core.validation import BadValue, join

T = TypeVar("T")


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
