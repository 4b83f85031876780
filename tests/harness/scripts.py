"""Golden scripts for one site: a stack driven by a text file, its effects written below each command.

Problem: what a protocol does in a given situation should be readable by someone who does not know its code, and any
change of it should show as a diff. `tests/harness/script_blocks.py` has the form of a script; these are its commands:

    stack NAME site=1 [members=0,1,2] [key=value ...]   build the stack; with members also install and resume view 1
    submit "text" [to=0,2]                              the application multicasts
    receive from=0 [view=2] [times=3] Data(1, ...)      a message comes in, of the installed view if none is named
    advance 250ms                                       time passes; timers fire
    consume [3]                                         the application is done with its oldest unread messages
    turn                                                the commands indented below are one event
    block | absorb from=0 Data(...) | unstable          what a view change asks of the transport
    freeze | install 2 members=0,1 | resume             what it asks of the port, step by step
    state | restore Hybrid=b'...'                       what a member that stayed knows, and one that joins is told
    view 2 members=0,1                                  install, then resume
    suspect 2 | trust 2                                 an opinion about a site
    clock +5s [error=2ms | error=unknown]               set the calendar ahead of the monotonic clock, or behind it
    port                                                which view is installed and open, and what waits for the next

The stacks come in as a factory, the host as a bench, so that one script runs on every host.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from tests.harness.script_blocks import (
    Block,
    Command,
    parse_bytes,
    parse_message,
    parse_sites,
    parse_span,
    run_blocks,
)

from isthmus.core.errors import LocalError, RemoteError
from isthmus.core.layer import Host, Stack, View
from isthmus.core.message import ALL, Message, SiteId, Targets
from isthmus.core.port import NO_OPEN_VIEW


class Rig(Protocol):
    """A stack with the handles that a script pulls."""

    stack: Stack

    def submit(self, payload: bytes, destinations: Targets) -> None: ...
    def consume(self, count: int) -> None: ...
    def block(self) -> None: ...
    def absorb(self, origin: SiteId, frame: Message) -> None: ...
    def unstable(self) -> dict[SiteId, dict[int, Message]]: ...


class PortHost(Host, Protocol):
    """What a script needs of a port besides the effects of layers."""

    view_id: int
    open_id: int
    overflow_count: int

    @property
    def early(self) -> Sequence[Any]: ...
    def take(self, source: SiteId, view_id: int, message: Message) -> None: ...
    def freeze(self) -> None: ...


class Bench(Protocol):
    """A host under test, with its clocks in our hands."""

    @property
    def host(self) -> PortHost: ...
    def attach(self, stack: Stack) -> None: ...
    def run(self, event: Callable[[], None]) -> None: ...  # and the messages to oneself that follow from it
    def receive(self, source: SiteId, view_id: int, message: Message) -> None: ...  # likewise
    def advance(self, delay_ns: int) -> None: ...
    def set_calendar(self, ahead_ns: int, error_ns: int | None) -> None: ...
    def note(self, line: str) -> None: ...  # among the effects
    def drain(self) -> list[str]: ...  # the effects since the last call


MakeRig = Callable[[str, Host, Mapping[str, str], Callable[[str], None]], Rig]  # name, host, options, note
MakeBench = Callable[[SiteId], Bench]


class Script:
    """Runs the commands of one script on one bench."""

    def __init__(self, make_rig: MakeRig, make_bench: MakeBench) -> None:
        self.make_rig = make_rig
        self.make_bench = make_bench
        self.bench: Bench
        self.rig: Rig

    def run(self, blocks: list[Block]) -> list[list[str]]:
        """What each block leads to."""
        return run_blocks(blocks, self.obey, lambda: self.bench.drain())

    def obey(self, command: Command) -> None:
        verb = command.verb
        if verb == "stack":
            self.build(command)
        elif verb == "advance":
            self.bench.advance(parse_span(command.word("span of time")))
        elif verb == "receive":
            source, view_id, message, times = self.packet(command)
            for _ in range(times):
                self.bench.receive(source, view_id, message)
        elif verb == "clock":
            error = command.options.get("error", "0s")
            ahead_ns = parse_span(command.word("span of time"))
            self.bench.set_calendar(ahead_ns, None if error == "unknown" else parse_span(error))
        elif verb == "turn":
            self.run_event(together([self.guarded(self.event(inner)) for inner in command.inner]))
        elif verb == "view":
            self.install(int(command.word("number")), parse_sites(command.option("members")))
            self.bench.run(self.bench.host.resume)
        elif verb in ("unstable", "state", "port"):
            self.tell(verb)
        else:
            self.run_event(self.event(command))

    def run_event(self, event: Callable[[], None]) -> None:
        try:
            self.bench.run(event)
        except (LocalError, RemoteError) as error:  # a refusal is an effect too
            self.note_error(error)

    def guarded(self, event: Callable[[], None]) -> Callable[[], None]:
        """The same event, which does not end the turn that it is part of when it is refused."""

        def guarded() -> None:
            try:
                event()
            except (LocalError, RemoteError) as error:
                self.note_error(error)

        return guarded

    def note_error(self, error: LocalError | RemoteError) -> None:
        self.bench.note(f"error {type(error).__name__}: {error}")

    def install(self, number: int, members: Targets) -> None:
        self.bench.run(lambda: self.bench.host.install(View(number, members)))

    def packet(self, command: Command) -> tuple[SiteId, int, Message, int]:
        """Source, view and message of a packet, and how often it comes."""
        options = command.options
        message = parse_message(command.word("message"), self.rig.stack)
        view_id = 0 if message.viewless else int(options.get("view", self.bench.host.view_id))
        return SiteId(int(command.option("from"))), view_id, message, int(options.get("times", 1))

    def event(self, command: Command) -> Callable[[], None]:
        """The event that a command stands for."""
        verb, options = command.verb, command.options
        rig, stack, host = self.rig, self.rig.stack, self.bench.host
        if verb == "submit":
            payload = command.word("text").strip('"').encode()
            targets = parse_sites(options["to"]) if "to" in options else ALL
            return lambda: rig.submit(payload, targets)
        if verb == "receive":  # within a turn
            source, view_id, received, times = self.packet(command)
            return together([lambda: host.take(source, view_id, received)] * times)
        if verb == "absorb":
            origin = SiteId(int(command.option("from")))
            frame = parse_message(command.word("message"), stack)
            return lambda: rig.absorb(origin, frame)
        if verb == "install":
            view = View(int(command.word("number")), parse_sites(command.option("members")))
            return lambda: host.install(view)
        if verb == "restore":
            given = {name: parse_bytes(text) for name, text in options.items()}
            states = [given.pop(type(layer).__name__, b"") for layer in stack.layers]
            if given:
                raise LocalError(f"no layer {', '.join(given)} in {stack}")
            return lambda: stack.restore(states)
        if verb in ("suspect", "trust"):
            site = SiteId(int(command.word("site")))
            return lambda: stack.layers[-1].suspect(site, verb == "suspect")
        if verb == "consume":
            count = int(command.word("count")) if command.words else 1
            return lambda: rig.consume(count)
        simple = {"block": rig.block, "freeze": host.freeze, "resume": host.resume}
        if verb not in simple:
            raise LocalError(f"no such command: {verb}")
        return simple[verb]

    def tell(self, verb: str) -> None:
        """Note what a command asks for."""
        bench, host, stack = self.bench, self.bench.host, self.rig.stack
        if verb == "unstable":
            for origin, frames in self.rig.unstable().items():
                bench.note(f"unstable {origin}: {' '.join(map(str, frames))}")
        elif verb == "state":
            for layer, state in zip(stack.layers, stack.state(), strict=True):
                if state:
                    bench.note(f"state {type(layer).__name__}={state!r}")
        else:
            gate = "shut" if host.open_id == NO_OPEN_VIEW else "open"
            waiting = f", {len(host.early)} early" if host.early else ""
            dropped = f", {host.overflow_count} dropped" if host.overflow_count else ""
            bench.note(f"port view {host.view_id} {gate}{waiting}{dropped}")

    def build(self, command: Command) -> None:
        options = dict(command.options)
        site, members = SiteId(int(options.pop("site"))), options.pop("members", "")
        self.bench = bench = self.make_bench(site)
        self.rig = self.make_rig(command.word("name"), bench.host, options, bench.note)
        bench.attach(self.rig.stack)
        if members:
            self.install(1, parse_sites(members))
            bench.run(bench.host.resume)


def together(events: Sequence[Callable[[], None]]) -> Callable[[], None]:
    """Several events as one."""

    def run() -> None:
        for event in events:
            event()

    return run
