"""Golden scripts of the agreement: a few sites, packet by packet.

A script is a list of commands, a line `----` and what they led to: words that arrived, views that were installed,
messages that were handed up. `--rewrite` takes what happened for what is expected; read the difference, and keep only
what you can explain.

Commands: `sites N [file]`; `submit S`; `suspect A B`, `trust A B`; `crash S`, `recover S`; `repeat S` (it comes back
under the incarnation that it had); `leave S`; `lose A->B` (all that is under way); `deliver` (all, until nothing is);
`deliver A->B`; `pass N` (round trips, timers fire).
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.harness.membership_bench import ROUND_NS, Bench
from tests.harness.membership_bench_checks import wrong

from isthmus.core.message import SiteId
from isthmus.protocols.membership.wire import MembershipMessage

FOLDER = Path(__file__).parents[3] / "scripts_agreement"
SCRIPTS = sorted(FOLDER.glob("*.txt"))
DELIVERIES_MAX = 500


class Script:
    """A script under way."""

    def __init__(self) -> None:
        self.bench = Bench(1, files=False)
        self.lines: list[str] = []
        self.told: dict[tuple[int, int], int] = {}  # notes of each life that were shown

    def run(self, command: str) -> None:
        name, *rest = command.split()
        bench = self.bench
        if name == "sites":
            self.bench = Bench(int(rest[0]), files="file" in rest)
        elif name == "submit":
            bench.submit(SiteId(int(rest[0])))
        elif name in ("suspect", "trust"):
            bench.suspect(SiteId(int(rest[0])), SiteId(int(rest[1])), name == "suspect")
        elif name == "crash":
            bench.crash(SiteId(int(rest[0])))
        elif name == "recover":
            bench.recover(SiteId(int(rest[0])))
        elif name == "repeat":
            site = SiteId(int(rest[0]))
            bench.boot(site, bench.at[site].incarnation, None)
        elif name == "leave":
            site = SiteId(int(rest[0]))
            bench.event(site, bench.at[site].agreement.leave)
        elif name == "lose":
            bench.pool = [packet for packet in bench.pool if f"{packet[0]}->{packet[1]}" not in rest]
        elif name == "deliver":
            self.deliver(rest)
        elif name == "pass":
            for _ in range(int(rest[0])):
                bench.now_ns += ROUND_NS
                bench.fire_due()
        else:
            raise ValueError(command)
        self.show_notes()

    def deliver(self, ways: list[str]) -> None:
        for _ in range(DELIVERIES_MAX):
            places = [n for n, packet in enumerate(self.bench.pool) if not ways or f"{packet[0]}->{packet[1]}" in ways]
            if not places:
                return
            source, target, _, message = self.bench.pool[places[0]]
            if isinstance(message, MembershipMessage):
                self.lines.append(f"{source}->{target} {short(message)}")
            self.bench.arrive(places[0])
            self.show_notes()
        raise AssertionError("the script does not come to rest")

    def show_notes(self) -> None:
        for life in self.bench.lives:
            notes = []
            for view, delivered in zip(life.top.views, life.top.delivered, strict=True):
                notes.append(f"view {view.view_id} of {view.lives()} with weights {view.weights}")
                notes += [f"deliver {sender}:{number & 0xFFFFFFFF}" for sender, number in delivered]
            key = (life.site, life.incarnation)
            for note in notes[self.told.get(key, 0) :]:
                self.lines.append(f"  {life.site}.{life.incarnation}: {note}")
            self.told[key] = max(len(notes), self.told.get(key, 0))


def short(word: MembershipMessage) -> str:
    """A word with the fields that tell it from others of its kind."""
    hidden = ("incarnation", "seat", "asked_ns", "frames", "piece", "digest")
    fields = {name: getattr(word, name) for name in type(word).__struct_fields__ if name not in hidden}
    shown = []
    for name, value in fields.items():
        if name == "proposal":
            cut = [(part.origin, part.floor, part.numbers) for part in value.cut if part.numbers]
            shown.append(f"{value.view_id} -> {value.view.view_id} of {value.view.lives()} cut {cut}")
        elif name == "report" and value is not None:
            shown.append(f"report={[(one.origin, one.delivered) for one in value if one.delivered]}")
        elif name == "accepted" and value is not None:
            shown.append(f"accepted={value[0]}")
        elif name == "transfer":
            shown += [f"transfer={(value.base, value.kept)}"] if value.base or value.kept else []
        elif value not in ((), None, False):
            shown.append(f"{name}={value}")
    return f"{type(word).__name__}({', '.join(shown)})"


def results(path: Path) -> str:
    """A script with what its commands lead to."""
    script, made = Script(), []
    for block in path.read_text(encoding="utf-8").split("\n\n"):
        commands = block.split("----")[0].strip().splitlines()
        script.lines = []
        for command in commands:
            if not command.startswith("#"):
                script.run(command)
        made.append("\n".join([*commands, "----", *script.lines]).strip())
    assert wrong(script.bench) == []
    return "\n\n".join(made) + "\n"


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_script(path: Path, rewrite: bool) -> None:
    found = results(path)
    if rewrite:
        path.write_text(found, encoding="utf-8")
    assert found == path.read_text(encoding="utf-8")


def test_there_are_scripts() -> None:
    assert SCRIPTS
