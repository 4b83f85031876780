"""A chat over three LANs in which an answer never precedes its question, on a network that reorders.

Everybody writes to everybody. Ann asks; whoever reads the question answers now and then, and answers are answered in
turn. Delays are long-tailed and packets overtake each other, so that on a third LAN an answer often arrives before what
it answers. The same people write the same things twice: over `unordered`, which shows messages as they come, and over
`causal-separators`, which holds an answer back until its question was shown. The example prints a stretch of the chat
as one reader saw it both times, counts answers without questions, and tells what the order cost.
"""

from __future__ import annotations

import sys
from statistics import fmean

from isthmus.core.layer import Finality, Host, Stack
from isthmus.core.message import ONLY_GROUP, Cast
from isthmus.protocols.application import Application
from isthmus.scenario.model import Scenario, StackSpec
from isthmus.scenario.workload import Poisson
from isthmus.sim.run import Run
from isthmus.stacks.registry import STACKS, StackOptions
from isthmus.topology.delay import Gamma
from isthmus.topology.model import Channel
from isthmus.topology.shapes import ring

NAMES = ("Ann", "Bob", "Cem", "Dee", "Eve", "Fay", "Gus", "Hal", "Ida")
LANS, SEATS = 3, 3
DURATION_MS = 20_000.0
QUESTIONS = 40
ANSWERED = 0.25  # how often a reader answers
DEPTH = 3  # how long an exchange goes on
MS = 1_000_000
READER = NAMES.index("Gus")


class Line:
    """One line of the chat: who wrote it, and what it answers."""

    def __init__(self, cast: Cast) -> None:
        self.name, self.answers, self.text = cast.payload.decode().split("|")


class Chat:
    """All readers of one run, and what each was shown."""

    def __init__(self, stack: str, seed: int) -> None:
        lan = Channel(Gamma(1.5, 1.0, 0.5), fifo=False)
        wan = Channel(Gamma(120.0, 110.0**2, 30.0), fifo=False)  # long-tailed
        scenario = Scenario(
            name="chat",
            topology=ring(LANS, SEATS, lan, wan),
            stack=StackSpec(name=stack),
            workloads=(Poisson(rate_per_s=1, count=0),),  # the people below write instead
            seed=seed,
            duration_ms=DURATION_MS,
        )
        self.stack = stack
        self.applications: list[Application] = []
        self.shown: list[list[Line]] = [[] for _ in NAMES]
        self.written_ns: dict[str, int] = {}
        self.waits_ms: list[float] = []
        self.run = Run(scenario, build=self.build)
        for number in range(QUESTIONS):
            self.run.scheduler.at(round((100 + 400 * number) * MS), self.ask, number)

    def build(self, host: Host, application: Application, options: StackOptions) -> Stack:
        site = len(self.applications)
        application.on_deliver = lambda cast, _finality: self.read(site, Line(cast))
        application.wants = (Finality.FINAL,)
        self.applications.append(application)
        return STACKS[self.stack].build(host, application, options)

    def ask(self, number: int, _: object) -> None:
        self.write(number * 4 % len(NAMES), f"q{number}", "", f"question {number}?")

    def write(self, site: int, name: str, answers: str, text: str) -> None:
        self.written_ns[name] = self.run.scheduler.now_ns
        line = f"{name}|{answers}|{text}".encode()
        self.run.sites[site].ports[ONLY_GROUP].run(lambda: self.applications[site].cast(line) and None)

    def read(self, site: int, line: Line) -> None:
        """Show a line, and answer it if this reader is one who would; the same ones whatever the order."""
        self.shown[site].append(line)
        self.waits_ms.append((self.run.scheduler.now_ns - self.written_ns[line.name]) / MS)
        depth = line.name.count(".")
        if depth < DEPTH and self.run.scenario.random("answer", site, line.name).random() < ANSWERED / (depth + 1):
            name, text = f"{line.name}.{site}", f"{NAMES[site]} on {line.text.rstrip('?')}"
            at_ns = self.run.scheduler.now_ns + 5 * MS
            self.run.scheduler.at(at_ns, lambda *_: self.write(site, name, line.name, text))

    def too_early(self, site: int) -> list[int]:
        """The places of answers that were shown before what they answer."""
        seen: set[str] = set()
        found = []
        for place, line in enumerate(self.shown[site]):
            if line.answers and line.answers not in seen:
                found.append(place)
            seen.add(line.name)
        return found


def main() -> int:
    chats = [Chat(stack, seed=4) for stack in ("unordered", "causal-separators")]
    for chat in chats:
        chat.run.execute()
    plain, causal = chats
    lines = len(plain.written_ns)
    print(f"{len(NAMES)} people on {LANS} LANs write {lines} lines, of which {lines - QUESTIONS} are answers.")
    first = plain.too_early(READER)[0]
    stretch = plain.shown[READER][first : first + 4]
    named = {name for line in stretch for name in (line.name, line.answers)}
    for chat in chats:
        early = sum(len(chat.too_early(site)) for site in range(len(NAMES)))
        print(f"\nOver {chat.stack}, {NAMES[READER]} reads:")
        for place, line in enumerate(chat.shown[READER]):
            if line.name in named:
                mark = "   <- the answer, before its question" if place in chat.too_early(READER) else ""
                print(f"  {line.text}{mark}")
        print(f"All in all {early} answers are shown before what they answer.")
    late_ms = fmean(causal.waits_ms) - fmean(plain.waits_ms)
    print(f"\nA line is read {late_ms:.0f} ms later on average, {fmean(causal.waits_ms):.0f} ms after it was written.")
    return 0 if not any(causal.too_early(site) for site in range(len(NAMES))) else 1


if __name__ == "__main__":
    sys.exit(main())
