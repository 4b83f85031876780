"""The judgement of a round by what its processes noted; it knows nothing of views but where they lay in each history.

What must hold, whatever happened:
- nothing was delivered that was not sent, or not with these bytes; nothing twice; nothing that `send` refused;
- messages of one source in the order sent; in causal order, none before what its sender had delivered before it;
- all processes that are up at the end have delivered the same, in a total order in the same order;
- what a life had delivered before its last view is in that, too; with safe delivery all that it had delivered is, and
  in a total order at the same place;
- what `settle` reported as at the others is in it.

Bound: `SHOWN_MAX` findings of each kind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from itertools import zip_longest
from typing import Literal

import msgspec

from isthmus.live.chaos.records import LifeRecord, ProcessRecord

Order = Literal["fifo", "causal", "total"]
Key = tuple[int, int]  # site, and the number of its start
SHOWN_MAX = 3


class ChaosFinding(msgspec.Struct, frozen=True):
    """Something that should not have happened."""

    kind: str
    text: str


class RecordComparison:
    """The records of one round, compared."""

    def __init__(
        self,
        records: Mapping[Key, ProcessRecord],
        names: list[str],
        order: Order,
        safe: bool,
        ended: Collection[Key],
        first_start: int = 0,
    ) -> None:
        self.records = records
        self.names = names
        self.order = order
        self.safe = safe
        self.ended = sorted(ended)  # the processes that came to the end of the round, at rest
        self.first_start = first_start  # whose messages must be there in the end; all before were killed at once
        self.findings: list[ChaosFinding] = []
        self.counts: Counter[str] = Counter()
        self.sent = {name: sent for record in records.values() for name, sent in record.sent.items()}
        self.refused = {name for record in records.values() for name in record.refused}

    def add(self, kind: str, key: Key, text: str) -> None:
        self.counts[kind] += 1
        if self.counts[kind] <= SHOWN_MAX:
            again = f" (start {key[1] + 1})" if key[1] else ""
            self.findings.append(ChaosFinding(kind, f"{self.names[key[0]]}{again}: {text}"))

    def run(self) -> list[ChaosFinding]:
        for key, record in self.records.items():
            self.check_contents(key, record)
            for life in record.lives:
                self.check_history(key, life)
        if self.ended:
            self.check_ends()
        return self.findings

    def check_contents(self, key: Key, record: ProcessRecord) -> None:
        for name, crc in record.delivered:
            if name not in self.sent:
                self.add("not sent", key, f"delivered {name}, which nobody sent")
            elif self.sent[name].crc != crc:
                self.add("altered", key, f"delivered {name} with other bytes than were sent")
            elif name in self.refused:
                self.add("refused", key, f"delivered {name}, whose sender was told that nothing was sent")

    def check_history(self, key: Key, life: LifeRecord) -> None:
        """No message twice, each source in order, and in causal order after what came before it."""
        place = {name: index for index, name in reversed(list(enumerate(life.history)))}
        last: dict[str, int] = {}
        for index, name in enumerate(life.history):
            source, number = split(name)
            if place[name] != index:
                self.add("duplicate", key, f"delivered {name} twice")
                continue
            if number < last.get(source, 0):
                self.add("fifo", key, f"delivered {name} after {source}.{last[source]}")
            last[source] = max(number, last.get(source, 0))
            if self.order == "fifo" or name not in self.sent:
                continue
            late = next((one for one in self.sent[name].after if place.get(one, -1) > index), None)
            if late is not None:
                self.add("causal", key, f"delivered {name} before {late}, which its sender had delivered before it")

    def check_ends(self) -> None:
        """What all have at the end, and what must be in it."""
        first, *others = self.ended
        final = self.records[first].lives[-1].history
        place = {name: index for index, name in enumerate(final)}
        for key in others:
            self.check_same(key, first, self.records[key].lives[-1].history, final)
        for key, record in self.records.items():
            if key[1] < self.first_start:
                continue
            for life in record.lives:
                judged = life.history if self.safe else life.history[: life.sealed]
                lost = [name for name in judged if name not in place]
                if lost:
                    how = "safely " if self.safe else "before its last view "
                    self.add("lost", key, f"delivered {lost[0]} {how}({len(lost)} such), which is lost")
                elif self.order == "total" and judged != final[: len(judged)]:
                    pairs = zip_longest(judged, final[: len(judged)], fillvalue="nothing")  # one may be there twice
                    at, (name, there) = next((n, pair) for n, pair in enumerate(pairs) if pair[0] != pair[1])
                    self.add("order", key, f"delivered {name} as number {at + 1}, where {there} is in the end")
            lost = [name for name in record.settled if name not in place]
            if lost:
                text = f"`settle` said that the others had {lost[0]} ({len(lost)} such), which is lost"
                self.add("settled", key, text)

    def check_same(self, key: Key, first: Key, history: list[str], final: list[str]) -> None:
        here, there = dict.fromkeys(history), dict.fromkeys(final)
        name = self.names[first[0]]
        if odd := [one for one in history if one not in there]:
            self.add("agreement", key, f"delivered {odd[0]} ({len(odd)} such), which {name} did not")
        elif odd := [one for one in final if one not in here]:
            self.add("agreement", key, f"did not deliver {odd[0]} ({len(odd)} such), which {name} did")
        elif self.order == "total" and history != final:
            at = next((n for n, pair in enumerate(zip(history, final, strict=False)) if pair[0] != pair[1]), 0)
            self.add("order", key, f"delivered {history[at]} as number {at + 1}, where {name} delivered {final[at]}")


def split(name: str) -> tuple[str, int]:
    """The source and the number of a message."""
    source, _, number = name.rpartition(".")
    return source, int(number.removesuffix("!"))
