"""Wrong readings of the participants' rules, each a layer with one thing changed; the judge must catch them all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from isthmus.core.layer import Finality, Host, Stack
from isthmus.core.message import Carried, SiteId, Targets
from isthmus.protocols.application import Application
from isthmus.protocols.participants.marked import Coming, MarkedParticipants
from isthmus.protocols.participants.ordered import OrderedParticipants, Participants
from isthmus.protocols.participants.wire import GroupChange, LightGroup, ParticipantHeader, ParticipantsOptions, Request
from isthmus.stacks.registry import STACKS, Build, StackOptions

# Over FIFO order


class AppliedAtDelivery(OrderedParticipants):
    """Requests are applied where they are delivered, as over a total order; messages are delivered as they come."""

    __slots__ = ()

    def take(self, cast: Carried[Any], said: ParticipantHeader) -> None:
        group = self.known(said.group)
        self.came_back(group, cast, said)
        self.hand_over(group, cast, said)

    def hosts_changed(self, group: LightGroup, before: Targets) -> None:
        """Nothing is void."""


class Unmarked(MarkedParticipants):
    """Changes come from the leader and are applied at once; tags mean nothing."""

    __slots__ = ()

    def is_marked(self, group: LightGroup, coming: Coming) -> bool:
        return True

    def on_mark(self, source: SiteId, mark: object) -> None:
        """Nobody waits for it."""

    def take(self, cast: Carried[Any], said: ParticipantHeader) -> None:
        group = self.known(said.group)
        if said.view_id < group.valid_from:
            self.below.consumed(cast)
            return
        self.came_back(group, cast, said)
        self.hand_over(group, cast, said)


class TagsOnly(Unmarked):
    """The same, but what is tagged for a later view waits for it."""

    __slots__ = ()

    def take(self, cast: Carried[Any], said: ParticipantHeader) -> None:
        group = self.known(said.group)
        if said.number > group.number:
            MarkedParticipants.take(self, cast, said)
        else:
            super().take(cast, said)


class Leaderless(MarkedParticipants):
    """Every site multicasts changes of its own, numbered as they arrive, with marks."""

    __slots__ = ()

    def ask(self, request: Request) -> bool:
        if not self.view.view_id:
            return False
        operation = (self.host.site, request.name, request.joins)
        self.submit_ordered(GroupChange(request.group, 0, (operation,), self.view.view_id))
        return True

    def on_change(self, source: SiteId, change: GroupChange) -> None:
        if not self.is_void(change.view_id):
            number, _ = self.latest(self.known(change.group))
            super().on_change(self.leader(), msgspec.structs.replace(change, number=number + 1))


class Uncompleted(MarkedParticipants):
    """A site view leaves changes pending, to wait for their marks."""

    __slots__ = ()

    def complete(self, group: LightGroup, coming: Coming) -> None:
        self.coming[group.name] = coming


class Discarded(MarkedParticipants):
    """A site view drops pending changes and what waits for them."""

    __slots__ = ()

    def complete(self, group: LightGroup, coming: Coming) -> None:
        coming.pending.clear()
        super().complete(group, coming)


class AskedOnce(MarkedParticipants):
    """Requests are not repeated in a new site view."""

    __slots__ = ()

    def reopen(self) -> None:
        asked = {key: stay.asked for key, stay in self.stays.items()}
        ask, self.closing = self.closing, True
        super().reopen()
        self.closing = ask
        for key, was in asked.items():
            self.stays[key].asked = was
            if not was:
                self.ask_if_due(*key)


class SaidOnce(MarkedParticipants):
    """Messages that a site view made void are not repeated."""

    __slots__ = ()

    def repeat(self, group: LightGroup) -> None:
        for cast in group.unseen.values():
            assert isinstance(cast.body, ParticipantHeader)
            self.stays[group.name, cast.body.name].unseen_count -= 1
        group.unseen, group.ahead = {}, []


class ImpatientMarked(MarkedParticipants):
    """A view is installed once one mark is here."""

    __slots__ = ()

    def is_marked(self, group: LightGroup, coming: Coming) -> bool:
        marks = coming.marks.get(coming.pending[0].number, {})
        return not group.hosts or bool(marks)

    def on_mark(self, source: SiteId, mark: Any) -> None:
        if mark.number > self.known(mark.group).number:
            super().on_mark(source, mark)


# Over either


def without_removal(kind: type[Participants]) -> type[Participants]:
    class Unremoved(kind):  # type: ignore[misc,valid-type]
        """Participants of lost sites stay."""

        __slots__ = ()

        def close(self, group: LightGroup, survivors: Targets) -> None:
            super().close(group, tuple(member.site for member in group.members))

    return Unremoved


def without_state(kind: type[Participants]) -> type[Participants]:
    class Stateless(kind):  # type: ignore[misc,valid-type]
        """A site that joins is told nothing."""

        __slots__ = ()

        def state(self) -> bytes:
            return b""

    return Stateless


def leaving_at_once(kind: type[Participants]) -> type[Participants]:
    class Hasty(kind):  # type: ignore[misc,valid-type]
        """A participant leaves though what it sent has not come back."""

        __slots__ = ()

        def leave(self, group: str, name: str) -> None:
            super().leave(group, name)
            stay = self.stays.get((group, name))
            if stay is not None and stay.unseen_count and not stay.asked:
                stay.asked = self.ask(Request(group, name, False, self.view.view_id))

        def came_back(self, group: LightGroup, cast: Carried[Any], said: ParticipantHeader) -> None:
            if (group.name, said.name) in self.stays:
                super().came_back(group, cast, said)
            else:
                group.unseen.pop(cast.number, None)

    return Hasty


# Over a total order


class NothingVoid(OrderedParticipants):
    """What was sent before a site became a host is delivered after it."""

    __slots__ = ()

    def hosts_changed(self, group: LightGroup, before: Targets) -> None:
        """Nothing is repeated."""


class VoidByHosts(OrderedParticipants):
    """A message is void by the hosts of the view it comes in, though one may have come and gone in between."""

    __slots__ = ()

    def take(self, cast: Carried[Any], said: ParticipantHeader) -> None:
        group = self.known(said.group)
        if all(site in cast.destinations for site in group.hosts):
            self.came_back(group, cast, said)
            self.hand_over(group, cast, said)
        else:
            self.below.consumed(cast)


class RepeatedLate(OrderedParticipants):
    """What is void is repeated when it comes back, behind what was sent since."""

    __slots__ = ()

    def hosts_changed(self, group: LightGroup, before: Targets) -> None:
        if any(site not in before for site in group.hosts):
            group.valid_from = group.number

    def take(self, cast: Carried[Any], said: ParticipantHeader) -> None:
        group = self.known(said.group)
        if said.number < group.valid_from and cast.sender == self.host.site:
            del group.unseen[cast.number]
            self.speak(group, said.name, cast.payload)
        super().take(cast, said)


# Over an optimistic order


class GuessesKept(OrderedParticipants):
    """Guesses of messages that a new host makes void are not revoked."""

    __slots__ = ()

    def hosts_changed(self, group: LightGroup, before: Targets) -> None:
        told, self.guesses.told = self.guesses.told, {}
        super().hosts_changed(group, before)
        self.guesses.told = told


class GuessesOfVoid(OrderedParticipants):
    """A guess is passed on although its message is void."""

    __slots__ = ()

    def guess(self, cast: Carried[Any], said: ParticipantHeader, finality: Finality) -> None:
        group = self.known(said.group)
        super().guess(cast, msgspec.structs.replace(said, number=group.number), finality)


FIFO: dict[str, type[Participants]] = {
    "applied at delivery": AppliedAtDelivery,
    "leader without marks": Unmarked,
    "tags without marks": TagsOnly,
    "marks without leader": Leaderless,
    "no completion at a view": Uncompleted,
    "changes dropped at a view": Discarded,
    "no repeat": AskedOnce,
    "void messages not repeated": SaidOnce,
    "one mark is enough": ImpatientMarked,
    "lost participants stay": without_removal(MarkedParticipants),
    "no state for a joiner": without_state(MarkedParticipants),
}
TOTAL: dict[str, type[Participants]] = {
    "nothing is void": NothingVoid,
    "void by hosts": VoidByHosts,
    "repeated late": RepeatedLate,
    "a leave before its messages": leaving_at_once(OrderedParticipants),
    "lost participants stay": without_removal(OrderedParticipants),
    "no state for a joiner": without_state(OrderedParticipants),
}
OPTIMISTIC: dict[str, type[Participants]] = {
    "void guesses stay": GuessesKept,
    "guesses of void messages": GuessesOfVoid,
}


def with_participants(stack: str, kind: Callable[[ParticipantsOptions], Participants]) -> Build:
    """A named stack with another layer of participants."""

    given = STACKS[stack].build

    def build(host: Host, application: Application, options: StackOptions) -> Stack:
        plain = given(host, application, msgspec.structs.replace(options, participants=None))
        lights = options.participants or ParticipantsOptions()
        return Stack(host, application, kind(lights), *plain.layers[1:])

    return build
