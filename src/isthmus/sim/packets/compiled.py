"""The compiled engine as an object, and the check of its compilation cache.

Numba is an extra (`pip install isthmus[fast]`); without it the plain engine gives the same results, ten times slower.
Compiled code is cached on disk beside the source, or in numba's cache directory if that folder is not writable; the
first run reports that it compiles, because that takes longer than most runs.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from isthmus.core.errors import InputError
from isthmus.sim.packets.plain import CompletedMessage, Hop
from isthmus.sim.packets.ways import Roots, Ways

CHUNKS_FIRST = 1024
HOPS_ROOM = 4096  # hops buffered between two calls of take_hops
ROOM_FIRST = 256  # steps
COMPILED = ("kernel.py", "twins.py")


def has_numba() -> bool:
    return find_spec("numba") is not None


def need_numba(field: str, found: str) -> None:
    """Reject an option that needs numba if it is not installed."""
    if not has_numba():
        raise InputError("network", field, found, "numba, which is not installed: pip install 'isthmus[fast]'")


@cache
def say_that_it_is_slow() -> None:
    """Print a notice on stderr, once, that the run is slower without numba."""
    words = "the packet network runs in plain Python, to the same result; pip install 'isthmus[fast]' makes it faster"
    print(f"isthmus: numba is not installed: {words}", file=sys.stderr, flush=True)


def find_compiled(*functions: Any) -> None:
    """Discard stale compiled code on disk; report on stderr which functions are about to be compiled."""
    missing = [function for function in functions if not function.signatures and not is_kept(function)]
    if missing:
        names = ", ".join(function.__name__ for function in missing)
        place = missing[0].stats.cache_path
        print(f"isthmus: compiling the packet network ({names}), once: kept in {place}", file=sys.stderr, flush=True)


def is_kept(function: Any) -> bool:
    """Return whether the compiled form of a function is cached and up to date.

    Numba checks only the source file of the function; callees are compiled into it. So all files with compiled code
    are checked here, and a cache entry older than any of them is removed.
    """
    code = function.py_func.__code__
    changed_s = max(path.stat().st_mtime for name in COMPILED if (path := Path(__file__).with_name(name)).exists())
    kept = False
    for index in Path(function.stats.cache_path).glob(f"{Path(code.co_filename).stem}.{function.__name__}-*.nbi"):
        if index.stat().st_mtime < changed_s:
            index.unlink(missing_ok=True)
        else:
            kept |= f"-{code.co_firstlineno}." in index.name
    return kept


class CompiledEngine:
    """The state of the kernel between calls; kernel.py describes the arrays."""

    __slots__ = (
        "chunks", "following", "heads", "heap", "hops", "kernel", "links", "marks",
        "room", "steps", "wants_hops", "ways",
    )  # fmt: skip

    def __init__(self, ways: Ways, wants_hops: bool = False) -> None:
        import numpy as np

        from isthmus.sim.packets import kernel

        find_compiled(kernel.new_state, kernel.advance, kernel.send)
        self.kernel: Any = kernel
        wiring = ways.wiring
        self.ways = ways
        self.heads = wiring.heads
        propagation, rate = (np.array(given, np.int64) for given in (wiring.propagation_ns, wiring.ps_per_byte))
        state = kernel.new_state(propagation, rate, CHUNKS_FIRST)
        self.links, self.chunks, self.following, self.heap, self.marks = state
        self.steps = np.zeros((ROOM_FIRST, 4), np.int32)
        self.room = 0  # steps copied from `ways`
        self.wants_hops = wants_hops
        self.hops = np.empty((HOPS_ROOM if wants_hops else 0, 4), np.int64)

    @property
    def hop_count(self) -> int:
        return int(self.marks[self.kernel.HOPS])

    @property
    def load_ns(self) -> int:
        return int(self.marks[self.kernel.LOAD_NS])

    @property
    def load_max(self) -> int:
        return int(self.marks[self.kernel.LOAD_MAX])

    @property
    def last_ns(self) -> int:
        return int(self.marks[self.kernel.LAST_NS])

    def learn(self) -> None:
        """Copy the steps that `ways` has added since."""
        import numpy as np

        ways, count = self.ways, len(self.ways.link)
        while count > len(self.steps):
            self.steps = np.concatenate([self.steps, np.zeros_like(self.steps)])
        columns = (ways.link, ways.first_branch, ways.branch_count, ways.deliver_to)
        for column, values in enumerate(columns):
            self.steps[self.room : count, column] = values[self.room :]
        self.room = count

    def start(self, now_ns: int, roots: Roots, message: int, sizes: Sequence[int]) -> None:
        if len(self.ways.link) > self.room:
            self.learn()
        self.make_room(len(sizes) * roots[1])
        state = (self.steps, self.links, self.chunks, self.following, self.heap, self.marks)
        self.kernel.send(now_ns, *roots, message, sizes[0], len(sizes) - 1, sizes[-1], *state)

    def make_room(self, need: int) -> None:
        if self.marks[self.kernel.SPARES] < need:
            self.chunks, self.following = self.kernel.grown(self.chunks, self.following, self.marks, need)

    def next_ns(self) -> int | None:
        return int(self.heap[0, 0]) if self.marks[self.kernel.HEAPED] else None

    def advance(self, limit_ns: int) -> CompletedMessage | None:
        kernel, marks, need = self.kernel, self.marks, self.ways.widest
        while True:
            state = (self.steps, self.links, self.chunks, self.following, self.heap, self.marks)
            ended = kernel.advance(limit_ns, need, self.hops, *state)
            if ended == kernel.ARRIVED:
                at = (marks[kernel.AT_NS], marks[kernel.AT_NODE], marks[kernel.AT_MESSAGE])
                return CompletedMessage(*map(int, at))
            if ended == kernel.QUIET:
                return None
            self.make_room(need)
            if self.wants_hops and marks[kernel.LOGGED] == HOPS_ROOM:
                return None  # the caller takes the hops, and calls again

    def take_hops(self) -> list[Hop]:
        count = int(self.marks[self.kernel.LOGGED])
        self.marks[self.kernel.LOGGED] = 0
        found = self.hops[:count].tolist()
        return [(time_ns, self.heads[link], message, left) for time_ns, link, message, left in found]
