"""Checks of a part of a scenario, whose refusals name the whole key."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from isthmus.core.document import Invalid, join

T = TypeVar("T")


def with_key(key: str, check: Callable[[], T]) -> T:
    """What a check finds; what it refuses is named by a key."""
    try:
        return check()
    except Invalid as error:
        raise Invalid(key, error.found, error.expected) from None


def with_prefix(prefix: str, check: Callable[[], object]) -> None:
    """Run a check; what it refuses is named with the prefix of its key."""
    try:
        check()
    except Invalid as error:
        raise Invalid(join(prefix, error.key), error.found, error.expected) from None
