"""Participants, their groups and views; the messages of sites about them, and the record of a group.

A participant is named by its site and its own name; two sites may each have one of the same name. A participant group
has views of its own, numbered 1, 2, 3 ... for as long as the site group exists, whether it has members or not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, NamedTuple

import msgspec

from isthmus.core.errors import RemoteError
from isthmus.core.layer import Finality
from isthmus.core.message import Carried, Message, SiteId, Targets
from isthmus.core.validation import BadValue, check_range

NAME_MAX = 100
OPERATIONS_MAX = 256  # of one GroupChange

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=NAME_MAX)]
Operation = tuple[SiteId, Name, bool]  # the participant's site and name; whether it joins


class Participant(NamedTuple):
    """A member of a participant group."""

    site: SiteId
    name: str

    def __str__(self) -> str:
        return f"{self.name}@{self.site}"


class Conditions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """When a participant group may act; without any, it always may."""

    majority_of: tuple[str, ...] = ()  # more than half of these names are present
    present: tuple[str, ...] = ()  # all of these names are present

    def __post_init__(self) -> None:
        for key in ("majority_of", "present"):
            names: tuple[str, ...] = getattr(self, key)
            if len(set(names)) < len(names):
                raise BadValue(key, f"the names {', '.join(names)}", "each name once")

    def unmet(self, members: Sequence[Participant]) -> tuple[str, ...]:
        """What is missing, one phrase per condition; () where the group may act."""
        here = {member.name for member in members}  # a name at two sites counts once
        found = []
        count = sum(name in here for name in self.majority_of)
        if self.majority_of and 2 * count <= len(self.majority_of):
            found.append(f"{count} of {', '.join(self.majority_of)} present, no majority")
        missing = [name for name in self.present if name not in here]
        if missing:
            found.append(f"{', '.join(missing)} missing")
        return tuple(found)


class ParticipantView(msgspec.Struct, frozen=True):
    """The members of a participant group, and whether it may act."""

    group: str
    number: int  # 1, 2, 3 ...
    members: tuple[Participant, ...]  # by seniority
    unmet: tuple[str, ...]  # the conditions that do not hold

    @property
    def active(self) -> bool:
        return not self.unmet


class Speech(msgspec.Struct, frozen=True):
    """A message as it reaches the participants of a site; over an optimistic order also a guess, or its revocation."""

    group: str
    sender: Participant
    payload: bytes
    view_number: int  # of the view in which it is delivered
    owed: Carried[Message] | None = None  # what `done_with` gives back to flow control; None: nothing
    finality: Finality = Finality.FINAL


class ParticipantsOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of the participants of a site group, equal at all sites."""

    conditions: dict[str, Conditions] = msgspec.field(default_factory=dict)  # by participant group
    # Messages of one site to one group that may be sent before the view that they are for is installed there.
    ahead_max: int = 256
    groups_max: int = 4096  # groups that a site knows; a record is kept when its members are gone
    local_max: int = 1024  # participants at one site

    def __post_init__(self) -> None:
        for key in ("ahead_max", "groups_max", "local_max"):
            check_range(key, getattr(self, key), 1, 1_000_000, "a whole number")


# Wire types. `view_id` is the site view in which a message was submitted: flow control may hold it back beyond its end.


class Request(Message, frozen=True, gc=False, array_like=True, tag=70):
    """Asks for a participant of its sender to join or to leave."""

    group: Name
    name: Name
    joins: bool
    view_id: int


class GroupChange(Message, frozen=True, gc=False, array_like=True, tag=71):
    """Announces the next view of a group, from the leader."""

    group: Name
    number: int
    operations: tuple[Operation, ...]
    view_id: int


class Mark(Message, frozen=True, gc=False, array_like=True, tag=72):
    """Announces that its sender has sent all its messages for views of a group before this number."""

    group: Name
    number: int
    view_id: int


class ParticipantHeader(Message, frozen=True, gc=False, array_like=True, tag=73):
    """Names sender and group of a participant's message, beside the payload of the message that carries it."""

    group: Name
    name: Name  # of the participant at the sending site
    number: int  # the tag: the last view of the group that the sender knew of
    view_id: int


class GroupState(msgspec.Struct, frozen=True, array_like=True):
    """A group in the state for a site that joins."""

    name: Name
    number: int
    members: tuple[Participant, ...]
    valid_from: int


class LightGroup:
    """The record of one participant group at a site."""

    __slots__ = ("ahead", "hosts", "members", "name", "number", "unseen", "valid_from")

    def __init__(self, name: str, number: int = 0, members: tuple[Participant, ...] = (), valid_from: int = 0) -> None:
        self.name = name
        self.number = number  # of the installed view; 0: there was none yet
        self.members = members  # by seniority
        self.hosts = hosts_of(members)
        self.valid_from = valid_from  # messages from before are void everywhere, and their senders have repeated them
        self.unseen: dict[int, Carried[Message]] = {}  # submitted here, not come back yet, in order, by number
        self.ahead: list[int] = []  # the tags of messages sent from here for views that are not installed here

    def state(self) -> GroupState:
        return GroupState(self.name, self.number, self.members, self.valid_from)


def hosts_of(members: Sequence[Participant]) -> Targets:
    """The sites of some participants."""
    return tuple(sorted({member.site for member in members}))


def applied(members: tuple[Participant, ...], operations: Sequence[Operation]) -> tuple[Participant, ...]:
    """Members after some have joined, last in seniority, or left."""
    now = list(members)
    for site, name, joins in operations:
        participant = Participant(site, name)
        if joins and participant not in now:
            now.append(participant)
        elif not joins and participant in now:
            now.remove(participant)
    return tuple(now)


def check_operations(operations: Sequence[Operation], members: Targets) -> None:
    """Refuse a change that no correct leader makes."""
    if not 0 < len(operations) <= OPERATIONS_MAX:
        raise RemoteError(f"a change of {len(operations)} participants; 1 to {OPERATIONS_MAX} are possible")
    strangers = [site for site, _, _ in operations if site not in members]
    if strangers:
        raise RemoteError(f"a change of participants at site {strangers[0]}, which is not in the view")
