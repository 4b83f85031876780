"""Participants: many light groups on one site group.

Problem: a view change of a site group costs all its sites an agreement and a flush. Most joins and leaves are of
programs that come and go at sites that stay. Idea: a *participant* joins and leaves a *participant group* at a site
that is in the site group already. Such a change is a message or two in the site group, whose order and views do the
rest. Every site knows the members of every participant group; messages to a group go only to the sites that host its
members.

What holds (`participant virtual synchrony`):
- the views of a group are the same sequence at all sites;
- of two members that install views k and k+1 of a group, both deliver the same messages of it in between;
- the messages of one participant are delivered in the order sent, each once; over a total order all members deliver all
  messages of the group, and see its views, in one order.

How a change finds its place among the messages depends on the order below; two layers do it, with the same wire
types: `OrderedParticipants` over a total order, `MarkedParticipants` over FIFO or causal order. This module has what
they share: the participants of this site, their messages that have not come back, and the state for a site that joins.

Invariants:
- a participant sends only while it is in the installed view here, and leaves only when all its messages have come back:
  a message that has not come back was sent by a member of the installed view;
- the first copy of a message that its sender repeats is void at every receiver, by a rule that all apply alike.

Only `install`, `state` and `restore` of the contract are needed: it does not matter how site views come about. A
member is removed for one of two reasons: its own site asks for it, or its site is not in the site view any more.

Bounds: `groups_max` groups, `local_max` participants here; messages wait in flow control below.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from isthmus.core.errors import Busy, LocalError, RemoteError
from isthmus.core.layer import Finality, Handler, Kind, Layer, View
from isthmus.core.message import Carried, Cast, Message, SiteId, Targets
from isthmus.protocols.participants.guesses import ParticipantGuesses
from isthmus.protocols.participants.wire import (
    NAME_MAX,
    Conditions,
    GroupState,
    LightGroup,
    Participant,
    ParticipantHeader,
    ParticipantsOptions,
    ParticipantView,
    Request,
    Speech,
    hosts_of,
)
from isthmus.trace.schema import Gauge

FINAL = Finality.FINAL
PLAIN = {Cast}
DECODER = msgspec.msgpack.Decoder(tuple[int, tuple[GroupState, ...]])
Key = tuple[str, str]  # group, name: a participant here


class ParticipantStay(msgspec.Struct, eq=False):
    """A participant of this site in one group, from its request to join until it has left."""

    number: int  # stays at this site are numbered as they begin, for the trace
    present: bool = False  # it is in the installed view
    leaving: bool = False  # it sends nothing more
    asked: bool = False  # a request is on its way
    unseen_count: int = 0  # messages that it sent and that have not come back


class Participants(Layer, ABC):
    """The participants of a site; right below the application, above flow control."""

    __slots__ = (
        "auto_consume",
        "closing",
        "deferred",
        "era",
        "groups",
        "guesses",
        "on_message",
        "on_room",
        "on_view",
        "options",
        "refusing",
        "stay_count",
        "stays",
        "view",
    )

    def __init__(self, options: ParticipantsOptions | None = None) -> None:
        self.options = options or ParticipantsOptions()
        self.view = View(0, ())
        self.era = 0  # the site view in which the numbers of groups began: the first, or one founded without state
        self.groups: dict[str, LightGroup] = {}
        self.stays: dict[Key, ParticipantStay] = {}
        self.stay_count = 0  # so far
        self.closing = False  # a site view is being installed: numbers are not final
        self.deferred: list[tuple[str, str, bytes]] = []  # sent while it was; empty otherwise
        self.refusing = False  # `say` raised Busy; `on_room` is owed
        # What the host of the participants may set:
        self.on_message: Callable[[Speech], None] | None = None
        self.guesses = ParticipantGuesses()  # its `on_guess`
        self.on_view: Callable[[ParticipantView], None] | None = None  # of groups with members here, before or after
        self.on_room: Callable[[], None] | None = None  # after Busy: a send may be taken again
        self.auto_consume = True  # False: the host calls `done_with` for each message

    def ordered(self) -> dict[type[Message], Handler]:
        return {Request: self.on_request, ParticipantHeader: self.on_stray}

    # What participants do

    def join(self, group: str, name: str) -> None:
        """Have a participant of this site join a group; it is a member from the `on_view` that names it."""
        for what in (group, name):
            if not 0 < len(what) <= NAME_MAX:
                raise LocalError(f"a name of {len(what)} characters; 1 to {NAME_MAX} are possible")
        if (group, name) in self.stays:
            raise LocalError(f"{name!r} is already in {group!r} here, or has yet to leave it")
        if len(self.stays) >= self.options.local_max:
            raise Busy(f"{len(self.stays)} participants are at this site, the most that its options allow")
        if group not in self.groups and len(self.groups) >= self.options.groups_max:
            raise Busy(f"{len(self.groups)} participant groups are known, the most that the options allow")
        self.stay_count += 1
        self.stays[group, name] = ParticipantStay(self.stay_count)
        self.ask_if_due(group, name)

    def leave(self, group: str, name: str) -> None:
        """Have a participant of this site leave, once all that it sent is delivered here; it sends nothing more."""
        stay = self.stays.get((group, name))
        if stay is None or stay.leaving:
            raise LocalError(f"{name!r} is not in {group!r} here, or is already leaving it")
        stay.leaving = True
        self.ask_if_due(group, name)

    def say(self, group: str, name: str, payload: bytes) -> None:
        """Multicast to the members of a group, the sender included; raises Busy where a buffer is full."""
        stay = self.stays.get((group, name))
        if stay is None or not stay.present or stay.leaving:
            raise LocalError(f"{name!r} is not a member of {group!r} here")
        if not self.takes(group):
            self.refusing = True
            raise Busy(f"the group {group!r} accepts no message now: a buffer is full")
        stay.unseen_count += 1
        if self.closing:
            self.deferred.append((group, name, payload))
        else:
            self.speak(self.groups[group], name, payload)

    def done_with(self, speech: Speech) -> None:
        """Return the credit of a message that the participants here have consumed; only without `auto_consume`."""
        if speech.owed is not None:
            self.below.consumed(speech.owed)

    def view_of(self, group: str) -> ParticipantView:
        """The installed view of a group; number 0 where there was none."""
        known = self.groups.get(group) or LightGroup(group)
        unmet = self.options.conditions.get(group, Conditions()).unmet(known.members)
        return ParticipantView(group, known.number, known.members, unmet)

    def takes(self, group: str) -> bool:
        """Whether a message to a group would be taken now."""
        return self.below.writable() and len(self.groups[group].ahead) < self.options.ahead_max

    # Requests

    def ask_if_due(self, group: str, name: str) -> None:
        """Ask for what a participant wants, unless something must come first."""
        stay = self.stays[group, name]
        if stay.asked or stay.unseen_count or self.closing:
            return
        if stay.leaving and not stay.present:  # its join was never requested, or the request is void
            del self.stays[group, name]
        elif stay.leaving or not stay.present:
            stay.asked = self.ask(Request(group, name, not stay.present, self.view.view_id))

    @abstractmethod
    def ask(self, request: Request) -> bool:
        """Send a request; whether it is on its way."""

    @abstractmethod
    def on_request(self, source: SiteId, request: Request) -> None:
        """Apply a request, or have it applied in its turn."""

    # Views

    def set_members(self, group: LightGroup, members: tuple[Participant, ...]) -> None:
        """Install the next view of a group, and notify its members here."""
        before = group.hosts
        group.number += 1
        group.members, group.hosts = members, hosts_of(members)
        group.ahead = [number for number in group.ahead if number > group.number]
        here = {member.name for member in members if member.site == self.host.site}
        mine = [key for key in self.stays if key[0] == group.name]
        for key in mine:
            self.update_stay(key, key[1] in here)
        self.hosts_changed(group, before)
        if self.on_view is not None and (self.host.site in group.hosts or self.host.site in before):
            self.on_view(self.view_of(group.name))
        for key in mine:
            if key in self.stays:
                self.ask_if_due(*key)
        self.give_room()

    def update_stay(self, key: Key, present: bool) -> None:
        """Note whether a participant of this site is in the installed view."""
        stay = self.stays[key]
        if present != stay.present:
            stay.asked = False
            stay.present = present
            if self.host.traces:
                self.host.gauge(Gauge.PARTICIPANT_JOIN if present else Gauge.PARTICIPANT_LEAVE, stay.number)
            if not present:
                del self.stays[key]

    def hosts_changed(self, group: LightGroup, before: Targets) -> None:
        """Act on a new view before its members are notified."""

    def install(self, view: View) -> None:
        """Close the old site view in every group, then repeat the messages and requests that it made void."""
        survivors = view.survivors(self.view)
        self.view = view
        self.era = self.era or view.view_id
        self.closing = True
        for group in list(self.groups.values()):
            self.close(group, survivors)
        self.closing = False
        self.reopen()
        deferred, self.deferred = self.deferred, []
        for name, sender, payload in deferred:
            self.speak(self.groups[name], sender, payload)

    def close(self, group: LightGroup, survivors: Targets) -> None:
        """Remove the participants of lost sites, after the last delivery of the old site view."""
        staying = tuple(member for member in group.members if member.site in survivors)
        if staying != group.members:
            self.set_members(group, staying)

    def reopen(self) -> None:
        """Act on a site view in which all groups are up to date."""

    def resume(self) -> None:
        self.give_room()
        self.above.resume()

    def give_room(self) -> None:
        """Let a refused sender try again."""
        if self.refusing and not self.closing:
            self.refusing = False
            if self.on_room is not None:
                self.on_room()

    def state(self) -> bytes:
        states = tuple(group.state() for group in self.groups.values() if group.number)
        return msgspec.msgpack.encode((self.era, states))

    def restore(self, state: bytes) -> None:
        try:
            self.era, states = DECODER.decode(state)
        except msgspec.DecodeError as error:
            raise RemoteError(f"a state of participants that does not decode: {error}") from error
        self.groups = {one.name: LightGroup(one.name, one.number, one.members, one.valid_from) for one in states}

    # Messages

    def speak(self, group: LightGroup, name: str, payload: bytes) -> None:
        """Send to the hosts of the latest view of a group that is known here."""
        number, hosts = self.latest(group)
        said = ParticipantHeader(group.name, name, number, self.view.view_id)
        cast: Carried[Message] = Carried(self.host.site, self.host.next_number(), payload, hosts, None, said)
        group.unseen[cast.number] = cast
        if number > group.number:
            group.ahead.append(number)
        self.below.submit(cast, hosts)

    def latest(self, group: LightGroup) -> tuple[int, Targets]:
        """The number and the hosts of the last view of a group that is known here, installed or not."""
        return group.number, group.hosts

    def repeat(self, group: LightGroup) -> None:
        """Send again the messages that have not come back; the first copies are void everywhere."""
        unseen, group.unseen, group.ahead = group.unseen, {}, []
        for cast in unseen.values():
            said = cast.body
            assert isinstance(said, ParticipantHeader)
            self.speak(group, said.name, cast.payload)

    def deliver(self, cast: Cast, finality: Finality = FINAL) -> None:
        if type(cast) is Cast or not isinstance(cast, Carried) or type(cast.body) is not ParticipantHeader:
            self.above.deliver(cast, finality)
        elif finality is FINAL:
            try:
                if cast.destinations and self.host.site not in cast.destinations:
                    raise RemoteError(f"a message for the hosts {cast.destinations}, not for this site")
                self.take(cast, cast.body)
            except RemoteError:
                self.host.trace(Kind.REJECT, value=cast.sender)
                self.below.consumed(cast)
        else:
            self.guess(cast, cast.body, finality)

    def guess(self, cast: Carried[Any], said: ParticipantHeader, finality: Finality) -> None:
        """Pass a guess on where the message would be delivered now."""
        group = self.groups.get(said.group)
        if finality is Finality.REVOKED:
            self.guesses.revoke(said.group, cast)
        elif group is not None and group.valid_from <= said.number <= group.number and self.host.site in group.hosts:
            sender = Participant(cast.sender, said.name)
            self.guesses.pass_on(cast, Speech(group.name, sender, cast.payload, group.number, finality=finality))

    def deliver_all(self, casts: Sequence[Cast]) -> None:
        if PLAIN.issuperset(map(type, casts)):
            self.above.deliver_all(casts)
            return
        super().deliver_all(casts)

    def submit_all(self, casts: Sequence[Cast]) -> None:
        self.below.submit_all(casts)

    def on_stray(self, source: SiteId, said: ParticipantHeader) -> None:
        raise LocalError(f"{said} of site {source} bypassed the participants layer")

    def known(self, name: str) -> LightGroup:
        """The record of a group, new where there was none."""
        group = self.groups.get(name)
        if group is None:
            if len(self.groups) >= 2 * self.options.groups_max:  # sites may each have thought theirs the last
                raise RemoteError(f"the participant group {name!r} exceeds the bound of {2 * self.options.groups_max}")
            group = self.groups[name] = LightGroup(name)
        return group

    @abstractmethod
    def take(self, cast: Carried[Any], said: ParticipantHeader) -> None:
        """Deliver a message in the installed view, keep it for a later one, or drop one that was repeated."""

    def came_back(self, group: LightGroup, cast: Carried[Any], said: ParticipantHeader) -> None:
        """Note that a message of this site is at its place."""
        if cast.sender == self.host.site and group.unseen.pop(cast.number, None) is not None:
            stay = self.stays[group.name, said.name]
            stay.unseen_count -= 1
            self.ask_if_due(group.name, said.name)

    def hand_over(self, group: LightGroup, cast: Carried[Any], said: ParticipantHeader, owed: bool = True) -> None:
        """Deliver a message to the participants here."""
        self.guesses.settle(cast)
        if self.host.site in group.hosts and self.on_message is not None:
            kept = cast if owed and not self.auto_consume else None
            sender = Participant(cast.sender, said.name)
            self.on_message(Speech(group.name, sender, cast.payload, group.number, kept))
            owed = owed and self.auto_consume
        if owed:
            self.below.consumed(cast)

    def settled(self) -> bool:
        waits = any(stay.leaving or stay.unseen_count or not stay.present for stay in self.stays.values())
        return not waits and self.below.settled()


class OrderedParticipants(Participants):
    """Over a total order: a request is a message to all, applied where it is delivered.

    All sites deliver requests and messages in one order, so each finds the same views at the same places. One problem
    remains: a message goes to the sites that host members when it is *sent*; where a site becomes a host before the
    message's place in the order, that site would lack it. Such a message is void: its tag is older than the last view
    that added a host (`valid_from`), which all receivers see alike at its place. Its sender, which has that view before
    the message comes back, repeats it at once, with all others that have not come back, in order.
    """

    __slots__ = ()

    def ask(self, request: Request) -> bool:
        self.submit_ordered(request)
        return True

    def on_request(self, source: SiteId, request: Request) -> None:
        participant = Participant(source, request.name)
        if (participant in self.view_of(request.group).members) == request.joins:
            verb = "join" if request.joins else "leave"
            raise RemoteError(f"{participant} asks to {verb} {request.group!r}, as it has done already")
        group = self.known(request.group)
        others = tuple(member for member in group.members if member != participant)
        self.set_members(group, (*others, participant) if request.joins else others)

    def hosts_changed(self, group: LightGroup, before: Targets) -> None:
        if any(site not in before for site in group.hosts):
            group.valid_from = group.number
            self.guesses.revoke(group.name)  # what is not final is void, and repeated
            self.repeat(group)

    def take(self, cast: Carried[Any], said: ParticipantHeader) -> None:
        group = self.groups.get(said.group)
        if group is None or said.number > group.number:
            raise RemoteError(f"a message for view {said.number} of {said.group!r}, which is not installed yet")
        if said.number < group.valid_from:
            self.below.consumed(cast)
            return
        self.came_back(group, cast, said)
        self.hand_over(group, cast, said)
