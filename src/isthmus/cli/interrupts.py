"""Ctrl-C where a command has processes of its own."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from isthmus.live.run.child import SiteChild


@contextmanager
def gentle_interrupt(children: list[SiteChild]) -> Iterator[None]:
    """Have the first Ctrl-C end the run, so that all sites write their traces, and the second one kill them."""
    loop, run = asyncio.get_running_loop(), asyncio.current_task()
    assert run is not None
    interrupted = False

    def interrupt() -> None:
        nonlocal interrupted
        if not interrupted:
            interrupted = True
            run.cancel()
        else:
            for child in children:
                child.kill()

    loop.add_signal_handler(signal.SIGINT, interrupt)
    try:
        yield
    except asyncio.CancelledError:
        if interrupted:
            raise KeyboardInterrupt from None
        raise
