"""The process of one site of a live run, as the process that started it sees it."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from isthmus.core.errors import RunError

STOP_S = 10.0
STDERR_LINES = 20
SITE_PROCESS = "isthmus.live.run.site_process"
OnEvent = Callable[[str, dict[str, Any]], None]  # the site, and what it reports


class SiteSummary(msgspec.Struct, frozen=True):
    """What one site counted; docs/design/live.md explains the columns."""

    submitted: int
    refused: int
    delivered: int
    rejected: int
    messages: int
    datagrams: int
    payload_bytes: int
    control_bytes: int
    lost: int
    overflow: int
    foreign: int


NOTHING = SiteSummary(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)  # of a site that was killed and not started again


class SiteChild:
    """One site's process, as the coordinator sees it."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, on_event: OnEvent) -> None:
        self.name = name
        self.on_event = on_event
        self.begun = False  # it knows the ports of all sites, and takes commands
        self.killed = False  # on purpose
        self.stopped_ns: int | None = None  # on the wall clock: since when it is stopped, on purpose
        self.process = process
        self.status: dict[str, Any] = {}  # the latest
        self.formed = False  # it is in its groups, with all their sites
        self.summary: SiteSummary | None = None
        self.port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.errors: deque[str] = deque(maxlen=STDERR_LINES)
        self.tasks = [asyncio.create_task(self.listen()), asyncio.create_task(self.listen_for_errors())]

    @classmethod
    async def spawn(
        cls, name: str, arguments: Iterable[str], on_event: OnEvent, program: str = SITE_PROCESS
    ) -> SiteChild:
        """Start the process of a site: a module that takes the commands of `site_process`."""
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", program, *arguments),
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            start_new_session=True,  # Ctrl-C is for the coordinator, which then stops the sites
        )
        return cls(name, process, on_event)

    async def listen(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            report = json.loads(line)
            if "port" in report:
                self.port.set_result(report["port"])
            elif "summary" in report:
                self.summary = msgspec.convert(report["summary"], SiteSummary)
            elif "formed" in report:
                self.formed = True
            elif "view" in report or "suspects" in report:
                self.on_event(self.name, report)
            else:
                self.status = report

    async def listen_for_errors(self) -> None:
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            self.errors.append(line.decode(errors="replace").rstrip())

    def tell(self, command: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(command).encode() + b"\n")

    def begin(self, begin: dict[str, Any]) -> None:
        """Tell the process the ports of all sites: it takes commands from now on."""
        self.tell(begin)
        self.begun = True

    def takes_commands(self) -> bool:
        return self.begun and not self.killed

    def pause(self) -> bool:
        """Stop the process until `go_on`; return whether it was running."""
        if self.process.returncode is not None or self.stopped_ns is not None:
            return False
        self.stopped_ns = time.time_ns()
        self.process.send_signal(signal.SIGSTOP)
        return True

    def go_on(self) -> None:
        """Continue the process, and report to it how long it was stopped."""
        if self.process.returncode is None and self.stopped_ns is not None:
            self.tell({"stood_ns": time.time_ns() - self.stopped_ns})
            self.process.send_signal(signal.SIGCONT)
        self.stopped_ns = None

    def kill(self) -> None:
        """End the process at once."""
        if self.process.returncode is None:
            self.process.kill()

    def check(self) -> None:
        """Fail the run where the process has ended too early."""
        if self.process.returncode is not None and not self.killed:
            why = self.errors[-1] if self.errors else f"exit code {self.process.returncode}"
            raise RunError(f"the process of site {self.name} ended too early: {why}")

    async def stop(self) -> None:
        """End the process by closing its input, and kill it where that does not help."""
        assert self.process.stdin is not None
        self.go_on()
        self.process.stdin.close()
        if self.killed and self.process.returncode is None:
            self.process.kill()
        try:
            await asyncio.wait_for(self.process.wait(), STOP_S)
        except TimeoutError:
            self.process.kill()
            await self.process.wait()
        await asyncio.gather(*self.tasks)
