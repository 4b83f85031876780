"""The commands that the process of a site takes from its parent process: one line of JSON each, on standard input.

The end of the input means that the parent process is done or gone, and a signal means the same.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from typing import Any

COMMANDS_MAX = 16  # unread ones, beyond which the input is not read on


class CommandPipe:
    """Standard input as a queue of commands; `stopped` is set at its end."""

    def __init__(self) -> None:
        self.stopped = asyncio.Event()
        self.commands: asyncio.Queue[dict[str, Any]] = asyncio.Queue(COMMANDS_MAX)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stopped.set)
        self.listener = asyncio.create_task(self.listen())

    async def listen(self) -> None:
        """Queue the commands as they come."""
        reader = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while line := await reader.readline():
            await self.commands.put(json.loads(line))
        self.stopped.set()

    async def next(self) -> dict[str, Any] | None:
        """The next command; None where the run is stopped."""
        receiving, stopping = asyncio.ensure_future(self.commands.get()), asyncio.ensure_future(self.stopped.wait())
        done, waiting = await asyncio.wait({receiving, stopping}, return_when=asyncio.FIRST_COMPLETED)
        for task in waiting:
            task.cancel()
        return receiving.result() if receiving in done else None

    def close(self) -> None:
        self.listener.cancel()
