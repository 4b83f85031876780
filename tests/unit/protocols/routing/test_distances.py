"""Distances that routers tell each other: split horizon, who takes what on, and that counting up ends."""

from __future__ import annotations

from isthmus.core.message import SiteId
from isthmus.protocols.routing.distances import DistanceTable

LIMIT = 4
RING = {SiteId(at): (at, (at + 1) % 4) for at in range(4)}  # router n joins groups n and n + 1


def ring() -> dict[SiteId, DistanceTable]:
    return {site: DistanceTable(site, nodes, 4, LIMIT) for site, nodes in RING.items()}


def exchange(tables: dict[SiteId, DistanceTable]) -> int:
    """Have all routers tell all they have to, until nothing changes; how many rounds it took."""
    for count in range(4 * LIMIT):
        before = [{node: dict(heard) for node, heard in table.heard.items()} for table in tables.values()]
        told = [(node, site, table.told(node)) for site, table in tables.items() for node in table.heard]
        for node, site, entries in told:
            for table in tables.values():
                if node in table.heard:
                    table.note(node, site, 0, entries)
        if before == [table.heard for table in tables.values()]:
            return count
    raise AssertionError("distances never come to rest")


def way(tables: dict[SiteId, DistanceTable], start: int, group: int) -> list[int]:
    """The nodes that a message for a group passes; exactly one router takes it on in each."""
    nodes = [start]
    while nodes[-1] != group:
        found = [table.next_node(nodes[-1], group) for table in tables.values() if nodes[-1] in table.heard]
        (onward,) = [node for node in found if node is not None]
        nodes.append(onward)
        assert len(nodes) <= 5, "a loop"
    return nodes


def test_ways_are_the_shortest_and_of_two_that_of_the_lower_number() -> None:
    tables = ring()
    exchange(tables)
    assert way(tables, 0, 1) == [0, 1]
    assert way(tables, 0, 3) == [0, 3]
    assert way(tables, 0, 2) == [0, 1, 2]  # router 0 rather than 3


def test_a_router_does_not_tell_in_a_node_what_it_learned_there() -> None:
    table = DistanceTable(SiteId(0), (0, 1), 4, LIMIT)
    table.note(1, SiteId(1), 0, ((2, 1), (3, 2)))
    assert table.told(0) == ((1, 1), (2, 2), (3, 3))
    assert table.told(1) == ((0, 1),)


def test_without_a_router_everything_goes_the_other_way() -> None:
    tables = ring()
    exchange(tables)
    del tables[SiteId(0)]
    for table in tables.values():
        for node in table.heard:
            table.keep_only(node, dict.fromkeys(tables, 0))
    exchange(tables)
    assert way(tables, 0, 1) == [0, 3, 2, 1]


def test_counting_up_ends_where_a_group_is_cut_off() -> None:
    """Groups 1, 2 and 3 are left in a row: the others tell each other of a way to 0 until it is too long."""
    tables = ring()
    exchange(tables)
    for gone in (0, 3):
        del tables[SiteId(gone)]
    for table in tables.values():
        for node in table.heard:
            table.keep_only(node, dict.fromkeys(tables, 0))
    assert exchange(tables) <= LIMIT + 2
    assert [table.next_node(node, 0) for table in tables.values() for node in table.heard] == [None] * 4


def test_what_an_earlier_life_told_is_forgotten() -> None:
    table = DistanceTable(SiteId(0), (0, 1), 4, LIMIT)
    table.note(1, SiteId(1), 3, ((2, 1),))
    table.keep_only(1, {SiteId(0): 0, SiteId(1): 4})
    assert table.told(0) == ((1, 1),)


def test_distances_beyond_the_limit_and_of_unknown_groups_do_not_count() -> None:
    table = DistanceTable(SiteId(0), (0, 1), 4, LIMIT)
    table.note(1, SiteId(1), 0, ((2, LIMIT + 1), (3, 0), (99, 1)))
    assert table.told(0) == ((1, 1),)
