"""The failure detector of participants on a real machine: processes by their ids, channels by their sockets.

A process is watched by a descriptor of its own (pidfd), which becomes readable at its end and never stands for a later
process with the same number. A channel is a connected stream socket: its end, or a reset, ends the participant; any
data is a sign of life, and `PROBE` asks for one.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Callable
from functools import partial

from isthmus.protocols.participants.detector import DetectorOptions, LocalDetector, Removal

PROBE = b"?"  # sent once a probe period; any byte in answer will do
READ_BYTES = 65_536
Key = tuple[str, str]  # participant group, name


class ParticipantWatch:
    """The watched participants of a site; `on_removal` is called once for each that has ended or does not answer."""

    def __init__(self, on_removal: Callable[[Removal[Key]], None], options: DetectorOptions | None = None) -> None:
        self.detector: LocalDetector[Key] = LocalDetector(options)
        self.on_removal = on_removal
        self.loop = asyncio.get_running_loop()
        self.processes: dict[Key, int] = {}  # descriptors
        self.channels: dict[Key, socket.socket] = {}
        self.ticking: asyncio.TimerHandle | None = None

    def watch_process(self, key: Key, pid: int) -> None:
        """Watch a process of this machine; raises ProcessLookupError where there is none."""
        descriptor = os.pidfd_open(pid)
        self.detector.watch(key, probed=False)
        self.processes[key] = descriptor
        self.loop.add_reader(descriptor, self._end, partial(self.detector.died, key))

    def watch_channel(self, key: Key, channel: socket.socket) -> None:
        """Watch and probe over a connected socket, which is closed when the participant is gone."""
        channel.setblocking(False)
        self.detector.watch(key, probed=True)
        self.channels[key] = channel
        self.loop.add_reader(channel, self._read, key)
        if self.ticking is None:
            self._tick()

    def forget(self, key: Key) -> None:
        """Stop watching a participant."""
        self.detector.forget(key)
        descriptor = self.processes.pop(key, None)
        if descriptor is not None:
            self.loop.remove_reader(descriptor)
            os.close(descriptor)
        channel = self.channels.pop(key, None)
        if channel is not None:
            self.loop.remove_reader(channel)
            channel.close()

    def close(self) -> None:
        for key in [*self.processes, *self.channels]:
            self.forget(key)
        if self.ticking is not None:
            self.ticking.cancel()

    def _read(self, key: Key) -> None:
        try:
            heard = self.channels[key].recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            heard = b""
        if heard:
            self.detector.answered(key)
        else:
            self._end(partial(self.detector.closed, key))

    def _tick(self) -> None:
        """Probe, after reading what has come: a pause of this process is not the silence of a participant."""
        for key in list(self.channels):
            self._read(key)
        probed, removals = self.detector.tick(time.monotonic_ns())
        for removal in removals:
            self._remove(removal)
        for key in probed:
            try:
                self.channels[key].send(PROBE)
            except BlockingIOError:
                pass  # it reads nothing either
            except OSError:
                self._end(partial(self.detector.closed, key))
        self.ticking = self.loop.call_later(self.detector.options.probe_ms / 1e3, self._tick)

    def _end(self, event: Callable[[], Removal[Key] | None]) -> None:
        removal = event()
        if removal is not None:
            self._remove(removal)

    def _remove(self, removal: Removal[Key]) -> None:
        self.forget(removal.key)
        self.on_removal(removal)
