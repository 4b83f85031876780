"""Loops that are compiled where numba is installed (extra `fast`), and run as they are where it is not.

A function given to `compiled` uses only what numba and plain Python understand alike. The machine code is kept on disk
beside the source or in the user's cache; where neither can be written, it is made anew in each process.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])
MISSING = "numba is not installed (pip install 'isthmus[fast]'): loops over large traces are not compiled, and slow"


@cache
def numba() -> Any | None:
    """The package, or None with a line in the log."""
    try:
        return import_module("numba")
    except ImportError:
        logging.getLogger("isthmus").warning(MISSING)
        return None


@cache
def compiled(function: F) -> F:
    """The same function as machine code; compiled at the first call for each set of types."""
    package = numba()
    if package is None:
        return function
    try:
        made: F = package.njit(cache=True, nogil=True)(function)
    except RuntimeError:  # there is no folder that the machine code could be kept in
        made = package.njit(nogil=True)(function)
    return made
