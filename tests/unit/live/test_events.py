"""The iteration over events: views at their place, gaps where messages were missed, and the bound of both."""

from __future__ import annotations

import asyncio

from tests.harness.live_groups import join
from tests.harness.ports import free_ports
from tests.unit.live.test_live_membership import NAMES, NETWORK, eventually, run

from isthmus import Agreed, AgreedPlan, Delivered, Finality, Gap, Group, Revoked, Tentative, Timing, View
from isthmus.core.message import Cast, SiteId
from isthmus.live.api.events import Event
from isthmus.live.api.inbox import EVENTS_MAX, Guess, Inbox

BRIEF = AgreedPlan(Agreed(lan=Timing(heartbeat_ms=20, floor_ms=400, ceiling_ms=500)))


def test_a_site_that_joins_again_without_a_state_is_given_a_gap() -> None:
    async def read(group: Group, into: list[Event]) -> None:
        take = into.append
        async for event in group.events():
            take(event)

    async def program() -> None:
        ports = free_ports(NAMES)
        groups = [join(NETWORK, name, ports, membership=BRIEF) for name in NAMES]
        given: list[list[Event]] = [[] for _ in groups]
        for group in groups:
            await group
        reading = [asyncio.create_task(read(group, into)) for group, into in zip(groups, given, strict=True)]
        await groups[0].send(b"before")
        await eventually(lambda: all(any(isinstance(e, Delivered) for e in events) for events in given))
        sockets = [group.runtime.joined().socket for group in groups]
        sockets[0].cut = sockets[1].cut = frozenset({SiteId(2)})
        sockets[2].cut = frozenset({SiteId(0), SiteId(1)})
        await eventually(lambda: sorted(groups[0].members) == NAMES[:2] and not groups[0].blocked)
        await groups[0].send(b"missed")
        for socket in sockets:
            socket.cut = frozenset()
        await eventually(lambda: all(len(group.members) == 3 and not group.blocked for group in groups))
        await groups[1].send(b"after")
        await eventually(lambda: all(getattr(events[-1], "payload", b"") == b"after" for events in given))
        before, gap, view, after = [event for event in given[2] if not isinstance(event, View) or event.view_id][-4:]
        assert isinstance(before, Delivered) and isinstance(gap, Gap) and isinstance(after, Delivered)
        assert isinstance(view, View) and SiteId(2) in view.members
        assert before.position is not None and after.position is not None and gap.next is not None
        assert gap.last == before.position < gap.next <= after.position
        missed = next(event for event in given[0] if isinstance(event, Delivered) and event.payload == b"missed")
        assert missed.position is not None and gap.last < missed.position < gap.next
        assert not any(isinstance(event, Gap) for event in given[0])
        for task, group in zip(reading, groups, strict=True):
            task.cancel()
            await group.close()

    run(program)


def test_unread_views_are_bounded_and_messages_are_not_lost_among_them() -> None:
    inbox = Inbox(["a", "b"])
    for number in range(EVENTS_MAX + 5):
        inbox.put_event(View(number + 1, (SiteId(0),)))
    inbox.put(Cast(SiteId(1), 1, b"x", ()), 7)
    assert len(inbox.unread) == EVENTS_MAX + 1
    assert inbox.take_all() == [Delivered("b", 1, b"x", (), 7)]
    inbox.put_event(View(9, (SiteId(0),)))
    assert inbox.take() == View(9, (SiteId(0),))


def test_what_was_read_last_is_known_at_the_end_of_a_life() -> None:
    inbox = Inbox(["a"])
    assert inbox.last_read() == 0
    inbox.put_all([Cast(SiteId(0), number, b"", ()) for number in (1, 2, 3)], 10)
    assert inbox.last_read() == 9
    inbox.take()
    assert inbox.last_read() == 10
    inbox.clear()
    assert inbox.last_read() == 10


def payloads(events: list[Delivered]) -> list[bytes]:
    return [event.payload for event in events]


def test_what_came_with_a_state_is_read_first_in_order_and_takes_no_credit() -> None:
    """The joiner's own deliveries counted as consumed when they were held; the member's were sent to that member."""
    member, joiner = Inbox(["a", "b"]), Inbox(["a", "b"])
    member.put_all([Cast(SiteId(1), number, b"%d" % number, ()) for number in (1, 2, 3)], 10)
    joiner.hold()
    joiner.put(Cast(SiteId(1), 4, b"4", ()), 13)
    assert not joiner.unread and joiner.held_bytes
    assert [cast.number for cast in joiner.taken] == [4]
    earlier, state = joiner.split_state(member.unread_as_bytes() + b"state")
    assert state == b"state"
    joiner.put_before(earlier)
    joiner.release()
    assert payloads(joiner.take_all()) == [*payloads(member.take_all()), b"4"] == [b"1", b"2", b"3", b"4"]
    assert [cast.number for cast in joiner.taken] == [4]
    assert [cast.number for cast in member.taken] == [1, 2, 3]
    joiner.put(Cast(SiteId(1), 5, b"5", ()), 14)
    assert payloads(joiner.take_all()) == [b"5"] and [cast.number for cast in joiner.taken] == [4, 5]


def test_nothing_is_read_while_the_state_of_the_program_is_taken() -> None:
    inbox = Inbox(["a"])
    inbox.put(Cast(SiteId(0), 1, b"1", ()), 1)
    inbox.pause()
    inbox.put(Cast(SiteId(0), 2, b"2", ()), 2)
    assert not inbox.unread and inbox.last_read() == 0
    inbox.resume()
    assert payloads(inbox.take_all()) == [b"1", b"2"]


def test_guesses_that_were_read_are_revoked_with_the_life_of_their_site() -> None:
    """A site that is cut off guesses the place of its own message, which nobody orders."""

    async def read(group: Group, into: list[Event]) -> None:
        take = into.append
        async for event in group.events(tentative=True):
            take(event)

    async def program() -> None:
        ports = free_ports(NAMES)
        groups = [join(NETWORK, name, ports, "optimistic", membership=BRIEF) for name in NAMES]
        given: list[list[Event]] = [[] for _ in groups]
        reading = [asyncio.create_task(read(await group, into)) for group, into in zip(groups, given, strict=True)]
        await groups[2].send(b"before")
        await eventually(lambda: all(any(isinstance(e, Delivered) for e in events) for events in given))
        sockets = [group.runtime.joined().socket for group in groups]
        sockets[0].cut = sockets[1].cut = frozenset({SiteId(2)})
        sockets[2].cut = frozenset({SiteId(0), SiteId(1)})
        await groups[2].send(b"lost")
        await eventually(lambda: any(isinstance(e, Tentative) and e.message.payload == b"lost" for e in given[2]))
        await eventually(lambda: sorted(groups[0].members) == NAMES[:2] and not groups[0].blocked)
        for socket in sockets:
            socket.cut = frozenset()
        await eventually(lambda: all(len(group.members) == 3 and not group.blocked for group in groups))
        await eventually(lambda: any(isinstance(event, Gap) for event in given[2]))
        revoked = [event.message.payload for event in given[2] if isinstance(event, Revoked)]
        assert revoked == [b"lost"]
        places = [type(event) for event in given[2]]
        assert places.index(Tentative) < places.index(Revoked) < places.index(Gap)
        for task, group in zip(reading, groups, strict=True):
            task.cancel()
            await group.close()

    run(program)


def test_what_was_guessed_and_is_final_unread_is_revoked_too() -> None:
    """Its message is dropped with the life; the program must not keep the guess."""
    inbox = Inbox(["a", "b"])
    casts = [Cast(SiteId(0), number, str(number).encode()) for number in (1, 2, 3)]
    for cast in casts[:2]:
        inbox.put(Guess(cast, Finality.TENTATIVE))
    assert [type(inbox.take()) for _ in range(2)] == [Tentative, Tentative]
    inbox.put(casts[0])
    assert isinstance(inbox.take(), Delivered)
    inbox.put(Guess(casts[2], Finality.TENTATIVE))
    inbox.put(casts[1])
    inbox.clear()
    event = inbox.take()
    assert isinstance(event, Revoked) and event.message.number == 2 and not inbox.unread
