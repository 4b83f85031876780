"""Golden scripts: one site's stack driven by a text file, its effects written below each command.

Problem: what a protocol does in a given situation should be readable by someone who does not know its code, and any
change of it should show as a diff. Idea: a script is a list of blocks. A block has comments (#), commands, a line of
four dashes, the expected effects one a line, and a blank line. Running a script compares; rewriting it puts what
happened in place of what was expected, and the diff is the review.

    stack NAME site=1 members=0,1,2 [key=value ...]     build the stack; install view 1
    submit "text" [to=0,2]                              the application multicasts
    receive from=0 Data(view_id=1, seq=1, body=...)     a message comes in from the network
    advance 250ms                                       time passes; timers fire
    consume [3]                                         the application is done with its oldest unread messages
    block | absorb from=0 Data(...) | unstable          what a view change asks of the transport
    view 2 members=0,1                                  a view is installed
    suspect 2 | trust 2                                 an opinion about a site

Messages are literals of the stack's own wire types, parsed, never evaluated. The stacks come in as a factory, the host
as a bench, so that one script runs on every host; `core` knows neither.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from isthmus.core.errors import LocalError
from isthmus.core.layer import Host, Stack, View
from isthmus.core.message import ALL, Message, SiteId, Targets

RULE = "----"
TOKEN = re.compile(r'"[^"]*"|[A-Za-z_]\w*\(.*\)|\S+')
UNIT_NS = {"us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}


class Rig(Protocol):
    """A stack with the handles that a script pulls."""

    stack: Stack

    def submit(self, payload: bytes, destinations: Targets) -> None: ...
    def consume(self, count: int) -> None: ...
    def block(self) -> None: ...
    def absorb(self, origin: SiteId, frame: Message) -> None: ...
    def unstable(self) -> dict[SiteId, dict[int, Message]]: ...


class Bench(Protocol):
    """A host under test, with its clock in our hands."""

    @property
    def host(self) -> Host: ...
    def attach(self, stack: Stack) -> None: ...
    def run(self, event: Callable[[], None]) -> None: ...  # and the messages to oneself that follow from it
    def receive(self, source: SiteId, message: Message) -> None: ...  # likewise
    def advance(self, delay_ns: int) -> None: ...
    def note(self, line: str) -> None: ...  # among the effects
    def drain(self) -> list[str]: ...  # the effects since the last call


MakeRig = Callable[[str, Host, Mapping[str, str], Callable[[str], None]], Rig]  # name, host, options, note
MakeBench = Callable[[SiteId], Bench]


class Block(NamedTuple):
    """Commands and what they should lead to."""

    line: int  # of the file, counted from 1
    comments: list[str]
    commands: list[str]
    expected: list[str]


class Command(NamedTuple):
    """One command, taken apart."""

    verb: str
    options: dict[str, str]
    words: list[str]

    def word(self, what: str) -> str:
        if len(self.words) != 1:
            raise LocalError(f"{self.verb} takes one {what}, not {self.words}")
        return self.words[0]


class Script:
    """Runs the commands of one script on one bench."""

    def __init__(self, make_rig: MakeRig, make_bench: MakeBench) -> None:
        self.make_rig = make_rig
        self.make_bench = make_bench
        self.bench: Bench
        self.rig: Rig

    def run(self, blocks: list[Block]) -> list[list[str]]:
        """What each block leads to."""
        outcomes = []
        for block in blocks:
            for line in block.commands:
                try:
                    self.obey(parse_command(line))
                except (LocalError, ValueError, SyntaxError, KeyError) as error:
                    raise LocalError(f"line {block.line}, {line!r}: {error!r}") from error
            outcomes.append(self.bench.drain())
        return outcomes

    def obey(self, command: Command) -> None:
        verb, options = command.verb, command.options
        if verb == "stack":
            self.build(command)
            return
        rig, bench = self.rig, self.bench
        if verb == "advance":
            bench.advance(parse_span(command.word("span of time")))
        elif verb == "receive":
            message = parse_message(command.word("message"), rig.stack)
            bench.receive(SiteId(int(options["from"])), message)
        elif verb == "unstable":
            for origin, frames in rig.unstable().items():
                bench.note(f"unstable {origin}: {' '.join(map(str, frames))}")
        else:
            event = self.event(verb, options, command)
            try:
                bench.run(event)
            except LocalError as error:  # a refusal is an effect too
                bench.note(f"error {type(error).__name__}: {error}")

    def event(self, verb: str, options: dict[str, str], command: Command) -> Callable[[], None]:
        """The event that a command stands for."""
        rig, stack = self.rig, self.rig.stack
        if verb == "submit":
            payload = command.word("text").strip('"').encode()
            targets = parse_sites(options["to"]) if "to" in options else ALL
            return lambda: rig.submit(payload, targets)
        if verb == "absorb":
            origin = SiteId(int(options["from"]))
            frame = parse_message(command.word("message"), stack)
            return lambda: rig.absorb(origin, frame)
        if verb == "view":
            view = View(int(command.word("number")), parse_sites(options["members"]))
            return lambda: stack.install(view)
        if verb in ("suspect", "trust"):
            site = SiteId(int(command.word("site")))
            return lambda: stack.layers[-1].suspect(site, verb == "suspect")
        if verb == "consume":
            count = int(command.word("count")) if command.words else 1
            return lambda: rig.consume(count)
        if verb == "block":
            return rig.block
        raise LocalError(f"no such command: {verb}")

    def build(self, command: Command) -> None:
        options = dict(command.options)
        site, members = SiteId(int(options.pop("site"))), parse_sites(options.pop("members"))
        self.bench = bench = self.make_bench(site)
        self.rig = self.make_rig(command.word("name"), bench.host, options, bench.note)
        bench.attach(self.rig.stack)
        bench.run(lambda: self.rig.stack.install(View(1, members)))


def read_script(path: Path) -> list[Block]:
    """The blocks of a script file."""
    blocks: list[Block] = []
    block: Block | None = None
    into: list[str] | None = None  # the expected effects, once the rule is passed
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if into is not None and line:
            into.append(line)
        elif into is not None:
            block = into = None
        elif line:
            if block is None:
                block = Block(number, [], [], [])
                blocks.append(block)
            if line == RULE:
                into = block.expected
            else:
                (block.comments if line.startswith("#") else block.commands).append(line)
    if block is not None and into is None:
        raise LocalError(f"{path}: the last block has no {RULE}")
    return blocks


def write_script(path: Path, blocks: list[Block], outcomes: list[list[str]]) -> None:
    """The same script, expecting what happened."""
    texts = []
    for block, outcome in zip(blocks, outcomes, strict=True):
        texts.append("\n".join([*block.comments, *block.commands, RULE, *outcome]) + "\n")
    path.write_text("\n".join(texts), encoding="utf-8")


def differences(blocks: list[Block], outcomes: list[list[str]]) -> list[str]:
    """Where what happened is not what was expected, for people."""
    found = []
    for block, outcome in zip(blocks, outcomes, strict=True):
        for expected, actual in zip_longest(block.expected, outcome, fillvalue="nothing"):
            if expected != actual:
                found.append(f"line {block.line}, {block.commands[0]}\n  expected {expected}\n  happened {actual}")
                break
    return found


def parse_command(line: str) -> Command:
    verb, *tokens = TOKEN.findall(line)
    options = {}
    words = []
    for token in tokens:
        key, equals, value = token.partition("=")
        if equals and re.fullmatch(r"[\w.]+", key):
            options[key] = value
        else:
            words.append(token)
    return Command(verb, options, words)


def parse_sites(text: str) -> Targets:
    return tuple(SiteId(int(number)) for number in text.split(","))


def parse_span(text: str) -> int:
    """A span of time such as 250ms, in ns."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(us|ms|s)", text)
    if match is None:
        raise LocalError(f"{text!r} is no span of time such as 250ms")
    return round(float(match[1]) * UNIT_NS[match[2]])


def parse_message(text: str, stack: Stack) -> Message:
    """A literal of one of the stack's wire types."""
    types = {kind.__name__: kind for kind in stack.codec.types.values()}
    message = literal(ast.parse(text, mode="eval").body, types)
    if not isinstance(message, Message):
        raise LocalError(f"{text!r} is no message of this stack: {', '.join(types)}")
    return message


def literal(node: ast.expr, types: Mapping[str, type[Message]]) -> Any:
    """The value of a literal: constants, tuples and known wire types, nothing else."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int | bytes | str | None):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -literal(node.operand, types)
    if isinstance(node, ast.Tuple):
        return tuple(literal(item, types) for item in node.elts)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in types:
        values = [literal(item, types) for item in node.args]
        named = {item.arg: literal(item.value, types) for item in node.keywords if item.arg is not None}
        try:
            return types[node.func.id](*values, **named)
        except TypeError as error:
            raise LocalError(f"{node.func.id}: {error}") from error
    raise LocalError(f"{ast.unparse(node)} is neither a plain value nor a wire type of this stack")
