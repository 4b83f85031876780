"""The state of a program, taken and restored beside the event loop, at one point of the order.

Problem: a state of megabytes takes seconds to write down. On the event loop this would stop the site; beside it, the
program would go on meanwhile, and the state would be that of no point of the order.

Idea: while `state()` runs, the iteration of the group gives nothing, so that the program's state stays as of this
point: after all that the iteration has given. Only the program waits; the site goes on. What `state` may be:
- a function: it runs in a thread. It returns bytes, or what makes them later, from a consistent copy that it takes;
- a coroutine function: it is awaited on the event loop;
- what either returns: bytes; an iterator of pieces, or a function that returns bytes or pieces, which is run in a
  thread while the iteration goes on already.

A site that joins holds what is delivered to it until `restore(state)`, a function (run in a thread) or a coroutine
function, is done. What is held counts as consumed, so that the others go on meanwhile; the membership bounds it.

An error that is raised here is kept: the membership decides what follows, and the program is told it (`SiteFailed`).
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import suppress
from functools import partial
from typing import TypeVar

from isthmus.core.layer import View
from isthmus.live.api.events import Gap
from isthmus.live.api.inbox import Inbox
from isthmus.live.node.peers import logger
from isthmus.live.node.runtime import SiteRuntime
from isthmus.live.node.site_group import SiteGroup
from isthmus.protocols.total.positions import position
from isthmus.stacks.registry import STACKS

StateSource = bytes | Iterable[bytes] | Callable[[], bytes | Iterable[bytes]]
TakeState = Callable[[], StateSource | Awaitable[StateSource]]
RestoreState = Callable[[bytes], Awaitable[None] | None]
R = TypeVar("R")
Run = Callable[[Callable[[], None]], None]  # an event of the group's port in this life


class ProgramState:
    """Keeps the state of a program for the membership."""

    def __init__(
        self, inbox: Inbox, take: TakeState | None, restore: RestoreState | None, events: Callable[[], Run]
    ) -> None:
        self.inbox = inbox
        self.take = take
        self.take_over = restore
        self.events = events  # what runs later events in this life of the port
        self.error: Exception | None = None  # what the program raised
        self.tasks: set[asyncio.Task[None]] = set()  # kept from the garbage collector
        self.hold_count = 0  # a later hold, or the end of a life, outdates what an earlier one began
        self.life_count = 0

    def snapshot(self, done: Callable[[bytes | None], None]) -> None:
        """Take the state after all that the iteration has given, with what it has not given yet."""
        unread, run = self.inbox.unread_as_bytes(), self.events()
        if self.take is None:
            run(partial(done, unread))
        else:
            self.inbox.pause()
            self.begin(self.taken(self.take, unread, self.life_count, lambda state: run(partial(done, state))))

    async def taken(
        self, take: TakeState, unread: bytes, life_count: int, done: Callable[[bytes | None], None]
    ) -> None:
        state: bytes | None = None
        try:
            try:
                source = await called(take)
            finally:
                if life_count == self.life_count:
                    self.inbox.resume()
            state = await in_thread(lambda: unread + joined(source))
        except Exception as error:
            self.error = error
        done(state)

    def hold(self) -> None:
        """Keep what is delivered from here on; what was kept before is part of the state that will come."""
        self.hold_count += 1
        if self.take_over is not None:
            self.inbox.hold()

    def held_bytes(self) -> int:
        return self.inbox.held_bytes if self.inbox.holding else 0

    def restore(self, state: bytes | None, done: Callable[[bool], None]) -> None:
        """Have the program take over a state, then give it what was kept; without one, give it that at once."""
        run = self.events()
        if state is None or self.take_over is None:
            self.release()
            run(partial(done, True))
        else:
            self.begin(self.restored(self.take_over, state, self.hold_count, lambda good: run(partial(done, good))))

    async def restored(
        self, take_over: RestoreState, state: bytes, hold_count: int, done: Callable[[bool], None]
    ) -> None:
        unread = None
        try:
            unread, program = self.inbox.split_state(state)
            await called(take_over, program)
        except Exception as error:  # of the program, or of a state that does not decode
            self.error, unread = error, None
        if hold_count == self.hold_count:
            if unread is not None:
                self.inbox.put_before(unread)
                self.release()
            done(unread is not None)

    def release(self) -> None:
        if self.inbox.holding:
            self.inbox.release()

    def end_life(self) -> None:
        """Forget what this life has begun; the inbox is cleared besides."""
        self.hold_count += 1
        self.life_count += 1

    def begin(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)


async def called(function: Callable[..., object], *given: bytes) -> object:
    """Call a function of the program: a coroutine function on the event loop, any other in a thread."""
    if inspect.iscoroutinefunction(function):
        return await function(*given)
    found = await in_thread(lambda: function(*given))
    return await found if inspect.isawaitable(found) else found


def joined(source: object) -> bytes:
    """The bytes of a state, from what the program gave."""
    found = source() if callable(source) else source
    if isinstance(found, bytes):
        return found
    if isinstance(found, Iterable) and not isinstance(found, str):
        return b"".join(found)
    raise TypeError(f"state() gave {type(found).__name__}; bytes, pieces of bytes or a function that gives them can be")


async def in_thread(work: Callable[[], R]) -> R:
    """Run in a thread that nobody waits for at the end of the process."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[R] = loop.create_future()

    def finish(settle: Callable[[], None]) -> None:
        if not future.done():
            settle()

    def run() -> None:
        try:
            settle = partial(future.set_result, work())
        except BaseException as error:  # no future takes a StopIteration, and a SystemExit would end the event loop
            plain = isinstance(error, Exception) and not isinstance(error, StopIteration)
            settle = partial(future.set_exception, error if plain else RuntimeError(f"it raised {error!r}"))
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(finish, settle)

    threading.Thread(target=run, name="isthmus-state", daemon=True).start()
    return await future


def later_events(runtime: SiteRuntime, joined: SiteGroup) -> Run:
    """What runs later events of the present life, each as an event of its own."""
    port, loop = joined.port, asyncio.get_running_loop()
    assert port is not None

    def run(event: Callable[[], None]) -> None:
        loop.call_soon(runtime.run_in, port.owner, port, event)

    return run


def gap_before(view: View, stack: str, last: int) -> Gap:
    """What a site that takes over no state has missed before a view; logged, too."""
    gap = Gap(last or None, position(view, 1) if "total" in STACKS[stack].properties else None)
    where = "" if gap.next is None else f" after position {gap.last or 0}, up to {gap.next}"
    logger.warning("messages were missed here%s: join with state= and restore= to take over a state", where)
    return gap
