"""Optimistic stacks with a bug planted in them, each with the properties that must be seen to break."""

from __future__ import annotations

import msgspec

from isthmus.core.layer import Finality, Host, Stack
from isthmus.core.message import SiteId
from isthmus.protocols.application import Application
from isthmus.protocols.total.optimistic.compensation import CompensatedDelay
from isthmus.protocols.total.optimistic.optimistic import Optimistic
from isthmus.protocols.total.optimistic.wire import Numbers
from isthmus.protocols.total.together import Together, Waiting
from isthmus.protocols.transport.credit import Credit
from isthmus.stacks.registry import Build, StackOptions, bottom


class SignReversed(CompensatedDelay):
    """Lowers the delay that should be raised. No order breaks; the delays never settle where they should."""

    __slots__ = ()

    def adjust(self, lowered: SiteId, raised: SiteId, delta_ns: float) -> None:
        super().adjust(raised, lowered, delta_ns)


class TentativeAfterFinal(Optimistic):
    """Forgets, when a message is final, that it was still to be tentative."""

    __slots__ = ()

    def forget_due(self, together: Together) -> None:
        pass

    def act(self, together: Together) -> None:
        if self.leads():
            super().act(together)
            return
        for cast in together.casts:
            self.above.deliver(cast, Finality.TENTATIVE)


class TentativeTwice(Optimistic):
    """Delivers a message tentatively once more as its number comes."""

    __slots__ = ()

    def take(self, sender: SiteId, start: int, count: int) -> list[Waiting]:
        found = super().take(sender, start, count)
        if not self.leads():
            for cast, _, _ in found:
                self.above.deliver(cast, Finality.TENTATIVE)
        return found


class ShiftedByALateMessage(Optimistic):
    """Passes over numbers whose messages are late: those behind move up, the late ones come after them."""

    __slots__ = ()

    def deliver_ready(self) -> None:
        super().deliver_ready()
        first = self.delivered + 1
        late = self.numbers.get(first)
        if late is None:
            return
        following = self.numbers.get(first + late[2])
        if following is not None and following[:2] in self.waiting:
            del self.numbers[first + late[2]]
            self.numbers[first] = following
            self.numbers[first + following[2]] = late
            super().deliver_ready()


class NumbersAsTheyCome(Optimistic):
    """Takes whatever numbers come for the next ones."""

    __slots__ = ()

    def on_numbers(self, source: SiteId, numbers: Numbers) -> None:
        if numbers.first > self.delivered + 1:
            known = sum(count for _, _, count, _, _ in self.numbers.values())
            numbers = msgspec.structs.replace(numbers, first=self.delivered + 1 + known)
        super().on_numbers(source, numbers)


class SendersOrderIgnored(Optimistic):
    """Promises each sender's order, and numbers as messages arrive."""

    __slots__ = ()

    def number(self, together: Together) -> None:
        self.add(together.casts)


class LeftoversAsTheyCame(Optimistic):
    """Closes a view by delivering what has no number as it came, which differs from site to site."""

    __slots__ = ()

    def close_view(self) -> None:
        while (given := self.numbers.get(self.delivered + 1)) is not None:
            sender, start, count, _, _ = given
            self.delivered += count
            for number in range(start, start + count):
                waiting = self.waiting.pop((sender, number), None)
                if waiting is not None:
                    self.finish(waiting)
        for waiting in list(self.waiting.values()):
            self.finish(waiting)
        self.waiting.clear()
        super().close_view()


class NumberedAgain(Optimistic):
    """Keeps what a view left without a number, and delivers it again in the next."""

    __slots__ = ()

    def reset(self) -> None:
        kept = dict(getattr(self, "waiting", {}))
        super().reset()
        self.waiting.update(kept)


def with_order(order: type[Optimistic]) -> Build:
    def build(host: Host, application: Application, options: StackOptions) -> Stack:
        ordering = order(options.optimistic, options.sequencer, options.batch_ms)
        return Stack(host, application, Credit(options.credit), ordering, *bottom(options, fifo=False))

    return build


PLANTED: dict[str, tuple[type[Optimistic], tuple[str, ...]]] = {
    "tentative after final": (TentativeAfterFinal, ("final",)),
    "tentative twice": (TentativeTwice, ("final",)),
    "position shifted by a late message": (ShiftedByALateMessage, ("total", "final")),
    "numbers as they come": (NumbersAsTheyCome, ("total", "final")),
    "a sender's order ignored": (SendersOrderIgnored, ("fifo",)),
    "leftovers as they came": (LeftoversAsTheyCame, ("total", "fifo")),
    "numbered again": (NumberedAgain, ("integrity",)),
}
