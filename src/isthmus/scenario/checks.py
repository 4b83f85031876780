"""Checks of a part of a scenario, whose refusals name the whole key."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

import msgspec

from isthmus.core.validation import BadValue, join

T = TypeVar("T")


@cache
def defaults_of(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """The keys of a table, each with what it is where it is left out."""
    return {field.name: field.default for field in msgspec.structs.fields(kind)}


def given_keys(table: msgspec.Struct) -> list[str]:
    """The keys of a table whose values are not what they are where they are left out."""
    return [name for name, default in defaults_of(type(table)).items() if getattr(table, name) != default]


def with_key(key: str, check: Callable[[], T]) -> T:
    """What a check finds; what it refuses is named by a key."""
    try:
        return check()
    except BadValue as error:
        raise BadValue(key, error.found, error.expected) from None


def with_prefix(prefix: str, check: Callable[[], object]) -> None:
    """Run a check; what it refuses is named with the prefix of its key."""
    try:
        check()
    except BadValue as error:
        raise BadValue(join(prefix, error.key), error.found, error.expected) from None
