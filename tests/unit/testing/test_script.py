"""The golden-script runner: parsing, refusing, rewriting."""

from __future__ import annotations

from pathlib import Path

import pytest

from golden import StackRig
from isthmus.core.errors import LocalError
from isthmus.core.layer import Layer
from isthmus.core.message import Cast, SiteId
from isthmus.core.recording import RecordingHost, show
from isthmus.core.script import Script, differences, parse_command, parse_message, parse_span, read_script, write_script
from isthmus.protocols.transport.frames import Data

SCRIPT = """# Why.
stack fifo site=1 members=0,1
----
view 1

submit "a"
----
wrong
"""


def rig() -> StackRig:
    return StackRig("token-site", RecordingHost(SiteId(1)), {}, lambda _line: None)


def test_a_message_reads_back_as_shown() -> None:
    data = Data(1, 2, Cast(SiteId(0), 3, b"x 'y'", (SiteId(0), SiteId(2))), (SiteId(0),), (1,))
    assert parse_message(show(data), rig().stack) == data


@pytest.mark.parametrize(
    "text", ["__import__('os')", "Data(1, 2, open('x'))", "Data(1)", "(1, 2)", "Data(1, 2, 3 + 4)"]
)
def test_nothing_but_literals_is_taken(text: str) -> None:
    with pytest.raises(LocalError):
        parse_message(text, rig().stack)


def test_a_command_is_words_and_options() -> None:
    command = parse_command('submit "a b=c" to=0,2')
    assert (command.verb, command.words, command.options) == ("submit", ['"a b=c"'], {"to": "0,2"})


@pytest.mark.parametrize(("text", "span_ns"), [("250ms", 250_000_000), ("1.5s", 1_500_000_000), ("2us", 2_000)])
def test_spans(text: str, span_ns: int) -> None:
    assert parse_span(text) == span_ns


def test_a_difference_is_told_and_rewritten(tmp_path: Path) -> None:
    path = tmp_path / "script.txt"
    path.write_text(SCRIPT)
    blocks = read_script(path)
    outcomes = Script(StackRig, RecordingHost).run(blocks)
    assert len(differences(blocks, outcomes)) == 1
    write_script(path, blocks, outcomes)
    assert path.read_text().startswith("# Why.\nstack fifo site=1 members=0,1\n----\nview 1\n\nsubmit")
    again = read_script(path)
    assert not differences(again, Script(StackRig, RecordingHost).run(again))


@pytest.mark.parametrize("line", ["dance", "advance 3", "receive Data(1, 1, Cast(0, 1))", "submit"])
def test_a_bad_command_names_its_line(tmp_path: Path, line: str) -> None:
    path = tmp_path / "script.txt"
    path.write_text(f"stack fifo site=1 members=0,1\n----\nview 1\n\n{line}\n----\n")
    with pytest.raises(LocalError, match="line 5"):
        Script(StackRig, RecordingHost).run(read_script(path))


def test_timers_fire_in_order_of_due_time_then_of_setting() -> None:
    host = RecordingHost(SiteId(0))
    fired: list[int] = []

    class Ticking(Layer):
        def timer(self, key: int) -> None:
            fired.append(key)

    layer = Ticking()
    for key, delay_ns in ((1, 20), (2, 10), (3, 20), (4, 10), (1, 10)):
        host.set_timer(layer, key, delay_ns)
    host.cancel_timer(layer, 4)
    host.advance(15)
    assert fired == [2, 1] and host.now_ns == 15
    host.advance(5)
    assert fired == [2, 1, 3]
