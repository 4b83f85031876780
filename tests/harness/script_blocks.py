"""The text of golden scripts: blocks of commands, what they should lead to, and the values that commands name.

A script is a list of blocks. A block has comments (#), commands, a line of four dashes, the expected effects one per
line, and a blank line. Running a script compares; rewriting it puts what happened in place of what was expected, and
the diff is the review.

A command is a verb with words and `key=value` options. Commands that are indented belong to the one above them.
Messages are literals of a stack's own wire types, parsed, never evaluated.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from isthmus.core.errors import LocalError
from isthmus.core.layer import Stack
from isthmus.core.message import Message, SiteId, Targets

RULE = "----"
TOKEN = re.compile(r'"[^"]*"|[A-Za-z_]\w*\(.*\)|\S+')
UNIT_NS = {"us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}


class Block(NamedTuple):
    """Commands and what they should lead to."""

    line: int  # of the file, counted from 1
    comments: list[str]
    commands: list[str]  # as written
    expected: list[str]


class Command(NamedTuple):
    """One command, taken apart."""

    text: str
    verb: str
    options: dict[str, str]
    words: list[str]
    inner: list[Command]  # those indented below it

    def word(self, what: str) -> str:
        if len(self.words) != 1:
            raise LocalError(f"{self.verb} takes one {what}, not {self.words}")
        return self.words[0]

    def option(self, key: str) -> str:
        if key not in self.options:
            raise LocalError(f"{self.verb} needs {key}=")
        return self.options[key]


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


def run_blocks(blocks: list[Block], obey: Callable[[Command], None], drain: Callable[[], list[str]]) -> list[list[str]]:
    """What each block leads to, carried out command by command."""
    outcomes = []
    for block in blocks:
        for command in commands_of(block):
            try:
                obey(command)
            except (LocalError, ValueError, SyntaxError, KeyError) as error:
                raise LocalError(f"line {block.line}, {command.text!r}: {error!r}") from error
        outcomes.append(drain())
    return outcomes


def commands_of(block: Block) -> list[Command]:
    """The commands of a block, each with those indented below it."""
    found: list[Command] = []
    for line in block.commands:
        try:
            command = parse_command(line)
        except LocalError as error:
            raise LocalError(f"line {block.line}: {error}") from error
        if not line.startswith(" "):
            found.append(command)
        elif found:
            found[-1].inner.append(command)
        else:
            raise LocalError(f"line {block.line}: {line!r} is indented below nothing")
    return found


def parse_command(line: str) -> Command:
    """A command without its inner ones; options may stand before the verb."""
    tokens = TOKEN.findall(line)
    options = {}
    words = []
    for token in tokens:
        key, equals, value = token.partition("=")
        if equals and re.fullmatch(r"[\w.]+", key):
            options[key] = value
        else:
            words.append(token)
    if not words:
        raise LocalError(f"{line!r} has no verb")
    return Command(line.strip(), words[0], options, words[1:], [])


def parse_sites(text: str) -> Targets:
    return tuple(SiteId(int(number)) for number in text.split(","))


def parse_span(text: str) -> int:
    """A span of time such as 250ms or -1s, in ns."""
    match = re.fullmatch(r"([+-]?\d+(?:\.\d+)?)(us|ms|s)", text)
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


def parse_bytes(text: str) -> bytes:
    """A literal such as b'\\x92'."""
    value = literal(ast.parse(text, mode="eval").body, {})
    if not isinstance(value, bytes):
        raise LocalError(f"{text!r} is no bytes literal")
    return value


def literal(node: ast.expr, types: Mapping[str, type[Message]]) -> Any:
    """The value of a literal: constants, tuples and known wire types, nothing else."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float | bytes | str | None):
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
