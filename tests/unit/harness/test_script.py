"""The golden-script runner: parsing, refusing, rewriting."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.harness.golden import StackRig
from tests.harness.recording import RecordingSite, show
from tests.harness.script_blocks import (
    commands_of,
    differences,
    parse_bytes,
    parse_command,
    parse_message,
    parse_span,
    read_script,
    write_script,
)
from tests.harness.scripts import Script

from isthmus.core.errors import LocalError
from isthmus.core.layer import Handler, Layer, Stack, View
from isthmus.core.message import Batch, Carried, Cast, GroupId, Message, SiteId
from isthmus.protocols.transport.reliable.frames import Data

SCRIPT = """# Why.
stack fifo site=1 members=0,1
----
view 1

submit "a"
----
wrong
"""


def rig() -> StackRig:
    return StackRig("token-site", RecordingSite(SiteId(1)).host, {}, lambda _line: None)


def test_a_message_reads_back_as_shown() -> None:
    cast = Cast(SiteId(0), 3, b"x 'y'", (SiteId(0), SiteId(2)))
    for body in (cast, Batch((cast, cast)), Batch((cast,)), Carried(SiteId(0), 1, author=(GroupId(1), SiteId(2), 3))):
        data = Data(2, body, (SiteId(0),), (1,))
        assert parse_message(show(data), rig().stack) == data


@pytest.mark.parametrize("text", ["__import__('os')", "Data(1, open('x'))", "Data(1)", "(1, 2)", "Data(1, 3 + 4)"])
def test_nothing_but_literals_is_taken(text: str) -> None:
    with pytest.raises(LocalError):
        parse_message(text, rig().stack)


def test_a_command_is_words_and_options() -> None:
    command = parse_command('submit "a b=c" to=0,2')
    assert (command.verb, command.words, command.options) == ("submit", ['"a b=c"'], {"to": "0,2"})
    assert parse_command("site=2 submit x").verb == "submit", "options may stand first"


def test_indented_commands_belong_to_the_one_above(tmp_path: Path) -> None:
    path = tmp_path / "script.txt"
    path.write_text("turn\n  submit a\n  submit b\nadvance 1ms\n----\n\n  submit c\n----\n")
    first, second = read_script(path)
    assert [(command.verb, len(command.inner)) for command in commands_of(first)] == [("turn", 2), ("advance", 0)]
    with pytest.raises(LocalError, match="below nothing"):
        commands_of(second)


@pytest.mark.parametrize(
    ("text", "span_ns"), [("250ms", 250_000_000), ("1.5s", 1_500_000_000), ("2us", 2_000), ("-5s", -5_000_000_000)]
)
def test_spans(text: str, span_ns: int) -> None:
    assert parse_span(text) == span_ns


def test_bytes_are_literals() -> None:
    assert parse_bytes("b'\\x92a'") == b"\x92a"
    with pytest.raises(LocalError):
        parse_bytes("'text'")


def test_a_difference_is_told_and_rewritten(tmp_path: Path) -> None:
    path = tmp_path / "script.txt"
    path.write_text(SCRIPT)
    blocks = read_script(path)
    outcomes = Script(StackRig, RecordingSite).run(blocks)
    assert len(differences(blocks, outcomes)) == 1
    write_script(path, blocks, outcomes)
    assert path.read_text().startswith("# Why.\nstack fifo site=1 members=0,1\n----\nview 1\n\nsubmit")
    again = read_script(path)
    assert not differences(again, Script(StackRig, RecordingSite).run(again))


@pytest.mark.parametrize(
    "line", ["dance", "advance 3", "receive Data(1, Cast(0, 1))", "submit", "restore Nobody=b'x'", "a=b"]
)
def test_a_bad_command_names_its_line(tmp_path: Path, line: str) -> None:
    path = tmp_path / "script.txt"
    path.write_text(f"stack fifo site=1 members=0,1\n----\nview 1\n\n{line}\n----\n")
    with pytest.raises(LocalError, match="line 5"):
        Script(StackRig, RecordingSite).run(read_script(path))


class Ticking(Layer):
    """Notes its timers, and sends itself a message for some."""

    def __init__(self) -> None:
        self.fired: list[tuple[int, int]] = []

    def handlers(self) -> dict[type[Message], Handler]:
        return {Cast: lambda source, cast: self.fired.append((cast.number, self.host.now_ns))}

    def resume(self) -> None: ...

    def timer(self, key: int) -> None:
        self.fired.append((key, self.host.now_ns))
        if key == 9:
            self.send((self.host.site,), Cast(self.host.site, 90))
            self.fired.append((91, self.host.now_ns))


def ticking() -> tuple[RecordingSite, Ticking]:
    site, layer = RecordingSite(SiteId(0)), Ticking()
    site.attach(Stack(site.host, layer))
    site.run(lambda: site.host.install(View(1, (SiteId(0),))))
    site.run(site.host.resume)
    return site, layer


def test_timers_fire_in_order_of_due_time_then_of_setting() -> None:
    site, layer = ticking()
    for key, delay_ns in ((1, 20), (2, 10), (3, 20), (4, 10), (1, 10)):
        site.host.set_timer(layer, key, delay_ns)
    site.host.cancel_timer(layer, 4)
    site.advance(15)
    assert layer.fired == [(2, 10), (1, 10)] and site.now_ns == 15
    site.advance(5)
    assert layer.fired[2:] == [(3, 20)] and site.next_due_ns() is None


def test_a_message_to_oneself_comes_back_as_an_event_of_its_own() -> None:
    site, layer = ticking()
    site.host.set_timer(layer, 9, 5)
    site.advance(5)
    assert layer.fired == [(9, 5), (91, 5), (90, 5)]


def test_the_calendar_is_set_and_the_monotonic_clock_is_not() -> None:
    site, _ = ticking()
    site.set_calendar(-100, None)
    site.advance(40)
    assert site.host.clock()[:2] == (-60, None) and site.now_ns == 40


def test_nothing_happens_at_a_site_that_crashed() -> None:
    site, layer = ticking()
    site.host.set_timer(layer, 1, 5)
    site.crash()
    site.host.receive(SiteId(0), 1, Cast(SiteId(0), 1))
    site.advance(10)
    assert layer.fired == []
