"""The layer of participants at one site: what it refuses, its bounds, its state."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.harness.golden import StackRig
from tests.harness.recording import RecordingSite

from isthmus.core.errors import Busy, LocalError, RemoteError
from isthmus.core.layer import View
from isthmus.core.message import Carried, Message, SiteId
from isthmus.protocols.application import Application
from isthmus.protocols.participants.marked import MarkedParticipants
from isthmus.protocols.participants.ordered import OrderedParticipants, Participants
from isthmus.protocols.participants.wire import GroupChange, Mark, ParticipantHeader, ParticipantsOptions, Request
from isthmus.stacks.registry import STACKS, StackOptions

SITES = (SiteId(0), SiteId(1))


class Rig:
    """Site 0 of two, with a stack that has participants; only its own words come back."""

    def __init__(self, stack: str, members: tuple[SiteId, ...] = SITES, **options: str) -> None:
        self.site = RecordingSite(SiteId(0))
        given = {f"participants.{key}": value for key, value in ({"ahead_max": "2"} | options).items()}
        self.stack = StackRig(stack, self.site.host, given, self.site.note).stack
        self.layer = self.stack.find(Participants)
        self.site.attach(self.stack)
        self.enter(1, members)

    def enter(self, view_id: int, members: tuple[SiteId, ...]) -> None:
        self.site.run(lambda: self.site.host.install(View(view_id, members)))
        self.site.run(self.site.host.resume)
        self.site.drain()

    def do(self, event: Callable[[], object]) -> list[str]:
        self.site.run(event)
        return self.site.drain()

    def take(self, source: int, body: Message, payload: bytes = b"") -> list[str]:
        """Have a word of another site delivered."""
        cast: Carried[Message] = Carried(SiteId(source), 1, payload, (), None, body)
        return self.do(lambda: self.stack.layers[2].deliver(cast))


@pytest.mark.parametrize("stack", ["token-site", "fifo"])
def test_misuse_is_refused(stack: str) -> None:
    rig = Rig(stack, (SiteId(0),), local_max="1", groups_max="1")
    with pytest.raises(LocalError, match="is not a member"):
        rig.layer.say("orders", "ann", b"")
    with pytest.raises(LocalError, match="is not in"):
        rig.layer.leave("orders", "ann")
    with pytest.raises(LocalError, match="1 to 100"):
        rig.layer.join("orders", "")
    rig.do(lambda: rig.layer.join("orders", "ann"))
    assert rig.layer.view_of("orders").members == ((0, "ann"),)
    with pytest.raises(LocalError, match="yet to leave"):
        rig.layer.join("orders", "ann")
    with pytest.raises(Busy, match="1 participants are at this site"):
        rig.layer.join("orders", "bob")
    rig.do(lambda: rig.layer.leave("orders", "ann"))
    assert rig.layer.view_of("orders").number == 2 and not rig.layer.stays
    with pytest.raises(Busy, match="1 participant groups are known"):
        rig.layer.join("other", "ann")
    assert rig.layer.view_of("other").number == 0


def test_participants_need_an_order() -> None:
    options = StackOptions(participants=ParticipantsOptions())
    with pytest.raises(LocalError, match="each sender's order"):
        STACKS["unordered"].build(RecordingSite(SiteId(0)).host, Application(), options)


def test_a_join_that_is_taken_back_before_the_first_view_is_never_asked_for() -> None:
    site = RecordingSite(SiteId(0))
    stack = StackRig("fifo", site.host, {"participants.ahead_max": "2"}, site.note).stack
    site.attach(stack)
    layer = stack.find(Participants)
    layer.join("orders", "ann")
    layer.leave("orders", "ann")
    assert not layer.stays and layer.settled() == stack.layers[2].settled()


def test_a_sender_stops_ahead_of_a_view_that_is_not_installed() -> None:
    """Ann may send two messages for view 2 before the mark of site 1, then none until it is here."""
    rig = Rig("fifo")
    rig.do(lambda: rig.layer.join("orders", "ann"))
    rig.take(1, Request("orders", "bob", True, 1))
    rig.take(1, Request("orders", "eve", True, 1))  # view 3; of its hosts, site 1 has yet to mark
    assert [rig.layer.view_of("orders").number, len(rig.layer.view_of("orders").members)] == [2, 2]
    for _ in range(2):
        rig.do(lambda: rig.layer.say("orders", "ann", b"x"))
    woken: list[int] = []
    rig.layer.on_room = lambda: woken.append(1)
    with pytest.raises(Busy):
        rig.layer.say("orders", "ann", b"x")
    heard: list[bytes] = []
    rig.layer.on_message = lambda speech: heard.append(speech.payload)
    assert not woken and not heard
    rig.take(1, Mark("orders", 3, 1))
    assert woken and heard == [b"x", b"x"]
    rig.do(lambda: rig.layer.say("orders", "ann", b"y"))
    assert heard[-1] == b"y" and rig.layer.settled() is rig.stack.layers[2].settled()


HOSTILE: dict[str, tuple[str, int, Message]] = {
    "a change of one that does not lead": ("fifo", 1, GroupChange("orders", 2, ((SiteId(1), "bob", True),), 1)),
    "a change of a site that is not there": ("fifo", 0, GroupChange("orders", 2, ((SiteId(7), "bob", True),), 1)),
    "a change of nothing": ("fifo", 0, GroupChange("orders", 2, (), 1)),
    "a change of the future": ("fifo", 0, GroupChange("orders", 2, ((SiteId(1), "bob", True),), 8)),
    "a mark for a view that is installed": ("fifo", 1, Mark("orders", 1, 1)),
    "a request for what is so": ("fifo", 0, Request("orders", "ann", True, 1)),
    "a request of one that is not in": ("token-site", 1, Request("orders", "bob", False, 1)),
    "a message for a view to come": ("token-site", 1, ParticipantHeader("orders", "bob", 9, 1)),
    "a message of a view that is closed": ("fifo", 1, ParticipantHeader("orders", "bob", 0, 1)),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_word_that_breaks_the_rules_changes_nothing(what: str) -> None:
    stack, source, word = HOSTILE[what]
    rig = Rig(stack)
    if stack == "fifo":
        rig.do(lambda: rig.layer.join("orders", "ann"))
    before = rig.layer.state()
    assert f"reject {source}" in rig.take(source, word), what
    assert rig.layer.state() == before


def test_a_change_whose_predecessor_is_lost_changes_nothing() -> None:
    rig = Rig("fifo")
    rig.do(lambda: rig.layer.join("orders", "ann"))
    before = rig.layer.state()
    assert not rig.take(0, GroupChange("orders", 9, ((SiteId(1), "bob", True),), 1))
    assert rig.layer.state() == before


def test_words_of_an_earlier_site_view_are_void() -> None:
    rig = Rig("fifo")
    rig.do(lambda: rig.layer.join("orders", "ann"))
    rig.enter(2, SITES)
    for word in (
        Request("orders", "bob", True, 1),
        GroupChange("orders", 2, ((SiteId(1), "bob", True),), 1),
        Mark("orders", 2, 1),
    ):
        assert rig.take(1, word) == [], "neither done nor refused: flow control held it back"
    assert rig.layer.view_of("orders").number == 1


@pytest.mark.parametrize("kind", [OrderedParticipants, MarkedParticipants])
def test_a_state_is_taken_over(kind: type[Participants]) -> None:
    rig = Rig("token-site" if kind is OrderedParticipants else "fifo", (SiteId(0),))
    assert rig.layer.era == 1  # which goes over even where there are no groups yet
    for name in ("ann", "bob"):
        rig.do(lambda name=name: rig.layer.join("orders", name))  # type: ignore[misc]
    other = kind()
    other.restore(rig.layer.state())
    assert other.view_of("orders") == rig.layer.view_of("orders") and other.state() == rig.layer.state()
    with pytest.raises(RemoteError, match="does not decode"):
        other.restore(b"\xff")


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["join", "leave", "say"]), st.sampled_from("abc")), max_size=30))
def test_alone_a_site_does_what_is_asked_at_once(words: list[tuple[str, str]]) -> None:
    for stack in ("token-site", "fifo"):
        layer, heard, members, said = act(Rig(stack, (SiteId(0),)), words)
        assert [member.name for member in layer.view_of("g").members] == members
        assert heard == said and layer.settled()


def act(rig: Rig, words: list[tuple[str, str]]) -> tuple[Participants, list[str], list[str], list[str]]:
    """Do what is possible; who was heard, and in a plain model, who is in and who has spoken."""
    layer = rig.layer
    heard: list[str] = []
    members: list[str] = []
    said: list[str] = []
    layer.on_message = lambda speech: heard.append(speech.sender.name)
    for verb, name in words:
        if (verb == "join") == (name in members):
            continue
        if verb == "say":
            rig.do(partial(layer.say, "g", name, b""))
            said.append(name)
        elif verb == "join":
            rig.do(partial(layer.join, "g", name))
            members.append(name)
        else:
            rig.do(partial(layer.leave, "g", name))
            members.remove(name)
    return layer, heard, members, said
