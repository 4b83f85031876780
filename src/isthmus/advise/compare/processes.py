"""Tasks over several processes of this machine: results as they come, no process left behind, no death unnoticed.

Workers are spawned, not forked. They do not hear Ctrl-C: the parent ends them on its way out, and should it be killed
they find their pipe closed. A worker that dies closes its pipe too, and that is an error.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from multiprocessing.resource_tracker import ensure_running
from threading import current_thread, main_thread
from typing import TypeVar

from isthmus.core.errors import LocalError

Task = TypeVar("Task")
Result = TypeVar("Result")


class WorkerDied(LocalError):
    """A process ended in the middle of a task."""


def each(work: Callable[[Task], Result], tasks: Sequence[Task], jobs: int) -> Iterator[tuple[int, Result]]:
    """The result of each task with its place, as they come; one job runs here, in order."""
    if min(jobs, len(tasks)) <= 1:
        for place, task in enumerate(tasks):
            yield place, work(task)
        return
    workers: dict[Connection, SpawnProcess] = {}
    try:
        workers |= (start(work) for _ in range(min(jobs, len(tasks))))
        waiting = iter(enumerate(tasks))
        at_work: dict[Connection, int] = {}

        def deal(pipe: Connection) -> None:
            for place, task in waiting:
                pipe.send(task)
                at_work[pipe] = place
                return

        for pipe in workers:
            deal(pipe)
        while at_work:
            for ready in wait(list(at_work)):
                pipe = next(pipe for pipe in at_work if pipe is ready)
                place = at_work.pop(pipe)
                try:
                    result = pipe.recv()
                except EOFError:
                    workers[pipe].join()
                    code = workers[pipe].exitcode
                    raise WorkerDied(
                        f"a worker process ended with code {code}; out of memory? Fewer --jobs may do"
                    ) from None
                if isinstance(result, ModuleNotFoundError):  # the install lacks an extra
                    raise result
                deal(pipe)
                yield place, result
    finally:
        for pipe, worker in workers.items():
            worker.terminate()
            pipe.close()
        for worker in workers.values():
            worker.join()


def start(work: Callable[[Task], Result]) -> tuple[Connection, SpawnProcess]:
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    worker = context.Process(target=serve, args=(work, theirs), daemon=True)
    ensure_running()  # the tracker of multiprocessing: to start it would end the block
    came: list[int] = []  # Ctrl-C while a worker is on its way into life, which another thread of ours may be told
    here = current_thread() is main_thread()
    before = signal.signal(signal.SIGINT, lambda number, _: came.append(number)) if here else None
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # a child inherits it, from its first instruction on
    try:
        worker.start()
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        if here:
            signal.signal(signal.SIGINT, before)
        theirs.close()
    if came:
        worker.terminate()
        worker.join()
        raise KeyboardInterrupt
    return ours, worker


def serve(work: Callable[[Task], Result], pipe: Connection) -> None:
    while True:
        try:
            task = pipe.recv()
        except EOFError:
            return
        try:
            pipe.send(work(task))
        except ModuleNotFoundError as error:
            pipe.send(error)
