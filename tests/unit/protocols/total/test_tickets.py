"""The ticket order: what is stable, in which order, and what a clock may do to it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.harness.recording import RecordingPort, RecordingSite

from isthmus.core.message import SiteId
from isthmus.protocols.total.hybrid.clocks import Lamport, Rate, Synchronised
from isthmus.protocols.total.hybrid.tickets import Held, TicketOrder

A, B, C = SiteId(0), SiteId(1), SiteId(2)


def order(site: SiteId = C, active: tuple[SiteId, ...] = (A, B)) -> TicketOrder:
    return TicketOrder(site, (A, B, C), active, 0)


def test_a_ticket_is_stable_once_every_issuer_is_beyond_it() -> None:
    tickets = order()
    tickets.promise(A, 5)
    tickets.add(5, A, A, 1)
    assert tickets.head() is None
    tickets.promise(B, 3)
    assert tickets.head() is None
    tickets.promise(B, 5)
    assert tickets.head() == (5, A, A, 1, 1)


def test_an_equal_number_of_a_higher_issuer_goes_behind() -> None:
    tickets = order()
    tickets.promise(A, 5)
    tickets.add(5, A, A, 1)
    tickets.promise(B, 4)  # its next ticket is at least (5, B), behind (5, A)
    assert tickets.head() == (5, A, A, 1, 1)
    tickets = order()
    tickets.promise(B, 5)
    tickets.add(5, B, B, 1)
    tickets.promise(A, 4)  # its next ticket may be (5, A), before (5, B)
    assert tickets.head() is None


def test_own_tickets_under_way_bound_the_order() -> None:
    tickets = order(site=B)
    own = tickets.issue(C, 1, 0)
    tickets.promise(A, 7)
    tickets.add(7, A, A, 1)
    assert own == 1 and tickets.head() is None
    tickets.add(own, B, C, 1)
    tickets.returned()
    assert tickets.head() == (1, B, C, 1, 1)


def test_a_second_ticket_changes_nothing() -> None:
    tickets = order(active=(A,))
    tickets.promise(A, 9)
    tickets.add(3, A, C, 1)
    tickets.add(4, A, C, 1)
    assert tickets.head() == (3, A, C, 1, 1)
    tickets.pop()
    assert tickets.head() is None
    tickets.delivered[C] = 1
    tickets.add(5, A, C, 1)
    assert tickets.head() is None


def test_tickets_go_beyond_what_was_heard_whatever_the_clock_reads() -> None:
    tickets = order(site=A)
    tickets.promise(B, 100)
    assert tickets.issue(A, 1, 0) == 101
    assert tickets.issue(A, 2, 500) == 500
    assert tickets.issue(A, 3, 20) == 501


def test_who_is_admitted_is_waited_for_and_who_is_dismissed_is_not() -> None:
    tickets = order(active=(A,))
    tickets.promise(A, 9)
    tickets.add(9, A, A, 1)
    tickets.admit(B, 6)
    assert tickets.head() is None
    tickets.dismiss(B)
    assert tickets.head() == (9, A, A, 1, 1)


@given(st.lists(st.tuples(st.sampled_from([A, B]), st.integers(0, 3), st.booleans()), max_size=60), st.randoms())
def test_two_members_deliver_the_same_order(steps: list[tuple[SiteId, int, bool]], random: object) -> None:
    """Each issuer's packets come in order; how two issuers' packets interleave does not matter."""
    clocks, indexes = {A: 0, B: 0}, {A: 0, B: 0}
    packets: dict[SiteId, list[tuple[int, int]]] = {A: [], B: []}
    for issuer, advance, null in steps:
        clocks[issuer] += advance + (not null)
        indexes[issuer] += not null
        packets[issuer].append((clocks[issuer], 0 if null else indexes[issuer]))
    seen = [run([A, B], packets), run([B, A], packets), interleaved(packets, random)]
    shortest = min(map(len, seen))
    assert seen[0][:shortest] == seen[1][:shortest] == seen[2][:shortest]
    assert seen[0] == sorted(seen[0])


def run(first: list[SiteId], packets: dict[SiteId, list[tuple[int, int]]]) -> list[Held]:
    return feed([(issuer, packet) for issuer in first for packet in packets[issuer]])


def interleaved(packets: dict[SiteId, list[tuple[int, int]]], random: object) -> list[Held]:
    turns = [issuer for issuer in packets for _ in packets[issuer]]
    random.shuffle(turns)  # type: ignore[attr-defined]
    rest = {issuer: iter(packets[issuer]) for issuer in packets}
    return feed([(issuer, next(rest[issuer])) for issuer in turns])


def feed(packets: list[tuple[SiteId, tuple[int, int]]]) -> list[Held]:
    tickets = order()
    delivered = []
    for issuer, (number, index) in packets:
        tickets.promise(issuer, number)
        if index:
            tickets.add(number, issuer, issuer, index)
        while (held := tickets.head()) is not None:
            delivered.append(held)
            tickets.pop()
    return delivered


def test_a_range_is_delivered_as_far_as_it_is_stable() -> None:
    tickets = order()
    tickets.promise(A, 5)
    tickets.add(3, A, A, 1, count=3)  # 3, 4 and 5 for entries 1, 2 and 3
    tickets.promise(B, 3)
    assert tickets.head() == (3, A, A, 1, 2), "(5, A) may be behind (4, B), which is still to come"
    tickets.pop(2)
    assert tickets.head() is None
    tickets.promise(B, 4)
    assert tickets.head() == (5, A, A, 3, 1)


def test_a_range_ends_where_a_ticket_of_another_issuer_lies_within_it() -> None:
    tickets = order()
    tickets.promise(A, 10)
    tickets.promise(B, 10)
    tickets.add(3, A, A, 1, count=4)  # 3 to 6
    tickets.add(4, B, B, 1, count=2)  # (4, B) goes behind (4, A), (5, B) behind (5, A)
    taken = []
    while (held := tickets.head()) is not None:
        taken.append(held)
        tickets.pop(held[4])
    assert taken == [(3, A, A, 1, 2), (4, B, B, 1, 1), (5, A, A, 3, 1), (5, B, B, 2, 1), (6, A, A, 4, 1)]


def test_a_range_of_which_some_have_tickets_is_taken_for_the_rest() -> None:
    tickets = order(active=(A,))
    tickets.promise(A, 9)
    tickets.add(2, A, C, 2)
    tickets.add(4, A, C, 1, count=3)
    taken = []
    while (held := tickets.head()) is not None:
        taken.append(held)
        tickets.pop(held[4])
    assert taken == [(2, A, C, 2, 1), (4, A, C, 1, 1), (6, A, C, 3, 1)]


def test_a_range_issued_here_is_consecutive_and_comes_back_whole() -> None:
    tickets = order(site=A)
    assert tickets.issue(A, 1, 0, count=5) == 1
    assert tickets.issue(C, 1, 0) == 6
    assert list(tickets.under_way) == [1, 6] and tickets.known == {A: 5, B: 0, C: 1}


def host_at(now_ns: int, calendar_ns: int = 0) -> RecordingPort:
    site = RecordingSite(A)
    site.now_ns = now_ns
    site.set_calendar(calendar_ns - now_ns, 0)
    port = site.host
    port.now_ns = now_ns
    return port


def test_a_rate_clock_catches_up_with_what_it_hears_and_never_goes_back_by_it() -> None:
    clock = Rate()
    assert clock.reading(host_at(5_000_000)) == 0
    assert clock.reading(host_at(6_000_000)) == 1_000
    clock.heard(10_000, 2_000_000, host_at(6_000_000))
    assert clock.reading(host_at(6_000_000)) == 12_000
    clock.heard(1, 0, host_at(7_000_000))
    assert clock.reading(host_at(7_000_000)) == 13_000


def test_other_clocks() -> None:
    assert Lamport().reading(host_at(10**12)) == 0
    assert Synchronised().reading(host_at(5, calendar_ns=10**12)) == 10**9
    assert Synchronised().reading(host_at(10**12, calendar_ns=-5)) == 0
