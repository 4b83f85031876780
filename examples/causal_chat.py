"""A chat over three LANs in which an answer never precedes its question, on a network that reorders.

Everybody writes to everybody. Ann asks; whoever reads the question answers now and then, and answers are answered in
turn. Delays are long-tailed and packets overtake each other, so that on a third LAN an answer often arrives before what
it answers. The same people write the same things twice: over `unordered`, which shows messages as they come, and over
`causal-separators`, which holds an answer back until its question was shown. The example prints a stretch of the chat
as one reader saw it both times, counts answers without questions, and tells what the order cost.
"""

from __future__ import annotations

import sys
from functools import partial
from statistics import fmean

from isthmus import Cast, Channel, Finality, Gamma, Poisson, Scenario, SimulatedProgram, StackSpec, ring

NAMES = ("Ann", "Bob", "Cem", "Dee", "Eve", "Fay", "Gus", "Hal", "Ida")
LANS, SEATS = 3, 3
DURATION_MS = 20_000.0
QUESTIONS = 40
ANSWERED = 0.25  # how often a reader answers
DEPTH = 3  # how long an exchange goes on
READER = NAMES.index("Gus")


class Line:
    """One line of the chat: its name, the line that it answers, and its text."""

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
        self.shown: list[list[Line]] = [[] for _ in NAMES]
        self.written_ms: dict[str, float] = {}
        self.waits_ms: list[float] = []
        self.scenario = scenario
        self.simulation = SimulatedProgram(scenario, self.read)
        for number in range(QUESTIONS):
            self.simulation.at(100.0 + 400.0 * number, partial(self.ask, number))

    def ask(self, number: int) -> None:
        self.write(number * 4 % len(NAMES), f"q{number}", "", f"question {number}?")

    def write(self, site: int, name: str, answers: str, text: str) -> None:
        self.written_ms[name] = self.simulation.now_ms
        self.simulation.send(site, f"{name}|{answers}|{text}".encode())

    def read(self, site: int, cast: Cast, finality: Finality) -> None:
        """Show a line, and perhaps answer it; the same readers answer the same lines whatever the order."""
        if finality is not Finality.FINAL:
            return
        line = Line(cast)
        self.shown[site].append(line)
        self.waits_ms.append(self.simulation.now_ms - self.written_ms[line.name])
        depth = line.name.count(".")
        if depth < DEPTH and self.scenario.random("answer", site, line.name).random() < ANSWERED / (depth + 1):
            name, text = f"{line.name}.{site}", f"{NAMES[site]} on {line.text.rstrip('?')}"
            answer = partial(self.write, site, name, line.name, text)
            self.simulation.at(self.simulation.now_ms + 5.0, answer)

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
        chat.simulation.run()
    plain, causal = chats
    lines = len(plain.written_ms)
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
