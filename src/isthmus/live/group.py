"""A group as a Python program uses it.

    async with Group.join("network.toml", site="paris-0", ports=ports) as group:
        await group.send(b"hello")
        async for message in group:
            print(message.sender, message.payload)

`ports` says where each site listens on the loopback, the same at all sites. Membership is static: all sites of the
topology, in view 1, whether they are there yet or not; what a site misses before it joins is repaired once it does. A
site that was stopped cannot join again under the same ports: its peers would take its frames for repeated ones.

Back-pressure, both ways: `send` waits while the stack is busy; a message counts as consumed when the iteration takes
it, so that a slow reader slows its senders. Unread messages are bounded by flow control: window times members, twice
that just after a view change.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Self

from isthmus.core.document import Invalid, one_of
from isthmus.core.errors import InputError, LocalError
from isthmus.core.layer import Finality, Stack, View
from isthmus.core.message import Cast, SiteId
from isthmus.live.emulation import Emulation
from isthmus.live.framing import PAYLOAD_MAX
from isthmus.live.host import LiveHost
from isthmus.live.network import LOOPBACK, Driver, Endpoint
from isthmus.protocols.application import Application
from isthmus.scenario.model import HybridSpec
from isthmus.scenario.workload import named_sites
from isthmus.stacks import STACKS, StackOptions
from isthmus.topology.load import load_topology
from isthmus.topology.model import Topology
from isthmus.trace.log import SiteLog
from isthmus.trace.schema import Sink

SETTLE_S = 2.0  # how long leaving waits, at most, for others to have what was sent
CHECK_S = 0.02


class Group:
    """One site's membership in the group of all sites of a topology."""

    def __init__(
        self,
        topology: Topology,
        site: SiteId,
        stack: str,
        ports: Mapping[str, int],
        options: StackOptions,
        emulate: bool,
    ) -> None:
        self.topology = topology
        self.site = site
        self.ports = ports
        self.stack_name = stack
        self.options = options
        self.emulate = emulate
        self.sink: Sink | None = None  # set before joining: where the trace goes
        self.on_tentative: Callable[[Cast, Finality], None] | None = None  # told at once of what is not final
        self.application = Application(self._deliver, on_resume=self._resume, auto_consume=False)
        self.view = View(0, ())
        self._unread: deque[Cast] = deque()
        self._changed = asyncio.Event()  # something was delivered, or the group was left
        self._writable = asyncio.Event()
        self._stack: Stack
        self._driver: Driver | None = None

    @classmethod
    def join(
        cls,
        topology: Topology | Path | str,
        site: str,
        ports: Mapping[str, int],
        stack: str = "token-site",
        options: StackOptions | None = None,
        emulate: bool = False,
    ) -> Group:
        """A group to be entered with `async with`; `emulate` adds the topology's delays and losses."""
        network = topology if isinstance(topology, Topology) else load_topology(Path(topology))
        if stack not in STACKS:
            raise InputError("stack", "", repr(stack), one_of(stack, STACKS))
        try:
            number = network.site_id(site)
        except Invalid as error:
            raise error.at("site", "") from None
        for known in network.sites:
            if known.name not in ports:
                raise InputError("ports", known.name, "nothing", "the port of every site of the topology")
            if not 0 < ports[known.name] < 65536:
                raise InputError("ports", known.name, repr(ports[known.name]), "a port from 1 to 65535")
        if len({ports[known.name] for known in network.sites}) < len(network.sites):
            raise InputError("ports", "", "one port for two sites", "a port of its own for each site")
        if options is None:  # what the stack's name means in this network, for roles
            options = StackOptions(hybrid=HybridSpec().of(stack, network))
        return cls(network, number, stack, ports, options, emulate)

    async def __aenter__(self) -> Self:
        names = [site.name for site in self.topology.sites]
        endpoint = await Endpoint.bind(self.ports[names[self.site]])
        seed = f"{time.time_ns()}/{self.site}"  # nothing here need be repeatable
        log, token = SiteLog(self.site, self.sink), self._token(names)
        host = LiveHost(self.site, Random(seed), endpoint.send, time.monotonic_ns, time.time_ns, log, token=token)
        self._stack = STACKS[self.stack_name].build(host, self.application, self.options)
        host.attach(self._stack)
        self._driver = Driver(host, endpoint)
        others = {SiteId(n): (LOOPBACK, self.ports[name]) for n, name in enumerate(names) if n != self.site}
        endpoint.open(others, Emulation(self.topology, self.site, Random(seed)) if self.emulate else None)
        self.view = View(1, tuple(SiteId(n) for n in range(len(names))))
        self._driver.run(lambda: self._stack.install(self.view))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        if error is None:
            await self.settle()
        assert self._driver is not None
        self._driver.close()
        self._driver = None
        self._changed.set()
        self._writable.set()

    async def send(self, payload: bytes, to: Sequence[str] = ()) -> Cast:
        """Multicast to all, or to the named sites and clusters; waits while the stack is busy."""
        if not isinstance(payload, bytes):
            raise TypeError(f"a payload is bytes, not {type(payload).__name__}: encode it first")
        if len(payload) > PAYLOAD_MAX:
            raise LocalError(f"a payload of {len(payload)} bytes; a message carries at most {PAYLOAD_MAX}")
        destinations = named_sites(self.topology, tuple(to), "to")
        driver = self._joined()
        while not self.application.below.writable():
            self._writable.clear()
            await self._writable.wait()
            driver = self._joined()
        sent: list[Cast] = []
        driver.run(lambda: sent.append(self.application.cast(payload, destinations)))
        await asyncio.sleep(0)  # a sender in a loop lets the others have their turns
        return sent[0]

    async def settle(self, timeout_s: float = SETTLE_S) -> bool:
        """Wait until the others have all that was sent here, as they could not ask for it once we are gone."""
        end_s = time.monotonic() + timeout_s
        while not self.application.settled():
            if time.monotonic() >= end_s:
                return False
            await asyncio.sleep(CHECK_S)
        return True

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Cast:
        """The next message in order; ends when the group is left."""
        while not self._unread:
            if self._driver is None:
                raise StopAsyncIteration
            self._changed.clear()
            await self._changed.wait()
        cast = self._unread.popleft()
        if self._driver is not None:
            self._driver.run(lambda: self.application.below.consumed(cast))
        return cast

    def name(self, site: SiteId) -> str:
        return self.topology.sites[site].name

    def _joined(self) -> Driver:
        if self._driver is None:
            raise LocalError("the group is not joined: enter it with `async with`")
        return self._driver

    def _deliver(self, cast: Cast, finality: Finality) -> None:
        if finality is Finality.FINAL:
            self._unread.append(cast)
            self._changed.set()
        elif self.on_tentative is not None:
            self.on_tentative(cast, finality)

    def _resume(self) -> None:
        self._writable.set()

    def _token(self, names: list[str]) -> int:
        """The same number at all sites that mean the same group."""
        text = repr((self.topology.name, self.stack_name, [(name, self.ports[name]) for name in names]))
        return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")
