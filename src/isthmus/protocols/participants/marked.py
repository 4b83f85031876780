"""Participants over FIFO or causal order: a leader decides the next view, marks find its place among messages.

Problem: without a total order, sites deliver a request at different places among the messages of others. Idea: two
things are needed. A *leader*, the most senior site, puts the changes of a group in one order: requests go to it, and it
multicasts GroupChange(g, k+1). *Marks* place each change among the messages: on a GroupChange each site that hosts
members multicasts Mark(g, k+1), and tags what it sends from then on k+1. A site installs k+1 once it has the marks of
all sites that host members of k: channels are FIFO, so nothing with tag k can come after them. What comes with a later
tag, early, waits for its view.

A site view ends what is under way. After the flush all survivors have the same Changes and marks, so the same views are
installed and the same Changes pending; each survivor completes these in order, with what waits for them, drops what is
tagged for a view that no survivor knows of (its sender and the leader died), and then removes the participants of lost
sites. A Change whose predecessor was lost with the leader, so that no survivor has it, is dropped by all. Requests,
Changes and marks of an earlier site view are void; what they asked for is requested again, from the new leader. A
message that flow control held back beyond the end of a site view that changed its group is void too, and its sender
repeats it.

Why both, by what breaks. Leader without marks: site 1 applies a join at once, site 2 has yet to receive a message
with tag k that site 1 has delivered before. Marks without a leader: two joins at once, each with marks of all, are
applied in different orders. No completion: a leader dies when its GroupChange is at all sites and the marks of some are
not sent; the marks never come. No repeat: a leader dies with a request, and the participant waits for ever.

Bounds: the leader has one GroupChange per group under way, of at most `OPERATIONS_MAX` requests, of which each
participant has one. Of what waits for its view, `ahead_max` messages per sender and group count as consumed. A sender
has at most as many of them under way for a view that it has not installed itself. So what waits for a mark that is *not
sent* never takes the credit that the mark itself may need, in whatever group; what waits for marks that are on their
way may, and is bounded by flow control.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import msgspec

from isthmus.core.errors import RemoteError
from isthmus.core.layer import Handler
from isthmus.core.message import Carried, Message, SiteId, Targets
from isthmus.protocols.participants.ordered import Participants
from isthmus.protocols.participants.wire import (
    OPERATIONS_MAX,
    GroupChange,
    LightGroup,
    Mark,
    Operation,
    Participant,
    ParticipantHeader,
    ParticipantsOptions,
    Request,
    applied,
    check_operations,
    hosts_of,
)

MARKS_MAX = 4096  # views of a group that marks are kept for before their Changes are here


class EarlyMessage(msgspec.Struct, eq=False):
    """A message that arrived before its view."""

    cast: Carried[Any]
    said: ParticipantHeader
    owed: bool  # its credit is not returned to flow control yet


class Coming(msgspec.Struct, eq=False):
    """The next views of a group as far as a site knows them, in one site view."""

    members: tuple[Participant, ...]  # after all pending changes
    pending: deque[GroupChange] = msgspec.field(default_factory=deque)  # received, not installed, in order
    marks: dict[int, dict[SiteId, None]] = {}  # by view: the sites that have sent all messages from before it
    held: list[EarlyMessage] = []  # in the order of arrival
    early: dict[SiteId, int] = {}  # by sender: how many of these count as consumed
    # At the leader:
    requests: deque[Operation] = msgspec.field(default_factory=deque)
    issued: bool = False  # a GroupChange of this site is on its way, or pending


class MarkedParticipants(Participants):
    """Over FIFO or causal order: changes by a leader, places by marks."""

    __slots__ = ("coming",)

    def __init__(self, options: ParticipantsOptions | None = None) -> None:
        super().__init__(options)
        self.coming: dict[str, Coming] = {}

    def ordered(self) -> dict[type[Message], Handler]:
        return {**super().ordered(), GroupChange: self.on_change, Mark: self.on_mark}

    def next_of(self, group: LightGroup) -> Coming:
        """The record of the next views of a group."""
        coming = self.coming.get(group.name)
        if coming is None:
            coming = self.coming[group.name] = Coming(group.members)
        return coming

    def is_void(self, view_id: int) -> bool:
        """Whether a message was submitted in an earlier site view."""
        if view_id > self.view.view_id:
            raise RemoteError(f"a message of site view {view_id} in site view {self.view.view_id}")
        return view_id < self.view.view_id

    # The leader

    def leader(self) -> SiteId:
        return self.view.members[0]

    def ask(self, request: Request) -> bool:
        if not self.view.view_id:
            return False  # `install` of the first view asks
        self.submit_ordered(request, (self.leader(),))
        return True

    def on_request(self, source: SiteId, request: Request) -> None:
        if self.is_void(request.view_id):
            return
        if self.leader() != self.host.site:
            raise RemoteError(f"a request of site {source} to this site; the leader is site {self.leader()}")
        group = self.known(request.group)
        coming, operation = self.next_of(group), (source, request.name, request.joins)
        participant = Participant(source, request.name)
        asked = any(other[:2] == operation[:2] for other in coming.requests)
        if asked or (participant in coming.members) == request.joins:
            raise RemoteError(f"{participant} repeats a request, or asks for its present state")
        coming.requests.append(operation)
        self.issue(group, coming)

    def issue(self, group: LightGroup, coming: Coming) -> None:
        """Multicast the next view of a group, if none is under way and one is requested."""
        if coming.requests and not coming.issued:
            count = min(OPERATIONS_MAX, len(coming.requests))
            operations = tuple(coming.requests.popleft() for _ in range(count))
            coming.issued = True
            self.submit_ordered(GroupChange(group.name, group.number + 1, operations, self.view.view_id))

    # Changes and marks

    def on_change(self, source: SiteId, change: GroupChange) -> None:
        if self.is_void(change.view_id):
            return
        group = self.known(change.group)
        coming = self.next_of(group)
        number, hosts = self.latest(group)
        if source != self.leader() or change.number <= number:
            raise RemoteError(f"site {source} changes {group.name!r} to view {change.number}, from {number}")
        check_operations(change.operations, self.view.members)
        if change.number > number + 1:
            return  # the one before was lost with the leader: no survivor has it, and all drop this one
        coming.pending.append(change)
        coming.members = applied(coming.members, change.operations)
        if self.host.site in hosts:
            self.submit_ordered(Mark(group.name, change.number, self.view.view_id))
        self.advance(group, coming)

    def on_mark(self, source: SiteId, mark: Mark) -> None:
        if self.is_void(mark.view_id):
            return
        group = self.known(mark.group)
        coming = self.next_of(group)
        if mark.number <= group.number or len(coming.marks) >= MARKS_MAX:
            raise RemoteError(f"site {source} marks view {mark.number} of {group.name!r}, now in {group.number}")
        coming.marks.setdefault(mark.number, {})[source] = None
        self.advance(group, coming)

    def latest(self, group: LightGroup) -> tuple[int, Targets]:
        coming = self.coming.get(group.name)
        if coming is None or not coming.pending:
            return group.number, group.hosts
        return coming.pending[-1].number, hosts_of(coming.members)

    def advance(self, group: LightGroup, coming: Coming) -> None:
        """Install the views whose marks are all here."""
        while coming.pending and self.is_marked(group, coming):
            self.install_next(group, coming)
        if self.leader() == self.host.site:
            self.issue(group, coming)

    def is_marked(self, group: LightGroup, coming: Coming) -> bool:
        """Whether no message of the installed view can come any more."""
        marks = coming.marks.get(coming.pending[0].number, {})
        return all(site in marks for site in group.hosts)

    def install_next(self, group: LightGroup, coming: Coming) -> None:
        """Install the first pending view, and deliver the messages that have waited for it."""
        change = coming.pending.popleft()
        coming.marks.pop(change.number, None)
        coming.issued = False  # at the leader: it has one under way at a time
        self.set_members(group, applied(group.members, change.operations))
        ready = [one for one in coming.held if one.said.number == group.number]
        coming.held = [one for one in coming.held if one.said.number != group.number]
        for one in ready:
            if not one.owed:
                coming.early[one.cast.sender] -= 1
            self.hand_over(group, one.cast, one.said, one.owed)
        self.ease(coming)

    def ease(self, coming: Coming) -> None:
        """Return the credit of waiting messages, within the bound per sender."""
        for one in coming.held:
            sender = one.cast.sender
            if one.owed and coming.early.get(sender, 0) < self.options.ahead_max:
                coming.early[sender] = coming.early.get(sender, 0) + 1
                one.owed = False
                self.below.consumed(one.cast)

    # Messages

    def take(self, cast: Carried[Any], said: ParticipantHeader) -> None:
        group = self.known(said.group)
        if said.view_id < group.valid_from:
            self.below.consumed(cast)
            return
        if said.number < group.number:
            raise RemoteError(f"a message of view {said.number} of {group.name!r} in view {group.number}")
        self.came_back(group, cast, said)
        if said.number == group.number:
            self.hand_over(group, cast, said)
            return
        coming = self.next_of(group)
        coming.held.append(EarlyMessage(cast, said, owed=True))
        self.ease(coming)

    # Site views

    def close(self, group: LightGroup, survivors: Targets) -> None:
        coming = self.coming.pop(group.name, None)
        number = group.number
        if coming is not None:
            self.complete(group, coming)
        super().close(group, survivors)
        if group.number != number:
            group.valid_from = self.view.view_id

    def complete(self, group: LightGroup, coming: Coming) -> None:
        """Install pending views without their marks, and drop messages for views that no survivor knows."""
        while coming.pending:
            self.install_next(group, coming)
        for one in coming.held:
            if one.owed:
                self.below.consumed(one.cast)

    def reopen(self) -> None:
        """Repeat messages of groups that this site view changed, and all requests: they are void now."""
        for group in list(self.groups.values()):
            if group.valid_from == self.view.view_id:
                self.repeat(group)
        for key, stay in list(self.stays.items()):
            stay.asked = False
            self.ask_if_due(*key)

    def settled(self) -> bool:
        waits = any(one.pending or one.held or one.requests or one.issued for one in self.coming.values())
        return not waits and super().settled()
