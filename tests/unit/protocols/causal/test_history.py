"""The rules of extended histories, one by one, on tables of a few messages."""

from __future__ import annotations

from isthmus.core.message import SiteId
from isthmus.protocols.causal.histories.history import Entry, ExtendedHistory, HistoryRules, key_of
from isthmus.topology.gateways.separators import Separators, Zone, mask_of

P, Q, R, S = (SiteId(number) for number in range(4))
PLAIN = HistoryRules(extended=False, symmetric=False, separators=False)


def history(site: SiteId, policies: HistoryRules = PLAIN) -> ExtendedHistory:
    return ExtendedHistory(site, None, policies)


def test_a_timestamp_tells_what_an_addressee_was_not_told_r7() -> None:
    p = history(P)
    first, none = p.send(mask_of((Q, R)))
    assert none == ()
    second, told = p.send(mask_of((Q,)))
    assert told == (Entry(first, mask_of((Q, R)), 0),)
    _, told = p.send(mask_of((Q,)))
    assert [entry.key for entry in told] == [second]  # of the first one, Q was told by the second
    _, told = p.send(mask_of((R,)))
    assert first in [entry.key for entry in told]


def test_what_all_addressees_were_told_is_forgotten_r8() -> None:
    p = history(P)
    first, _ = p.send(mask_of((Q, R)))
    p.send(mask_of((Q, R)))
    assert first not in p.told


def test_a_message_waits_for_what_is_addressed_here_and_for_no_other() -> None:
    q = history(Q)
    mine, other = Entry(key_of(P, 1), mask_of((Q,)), 0), Entry(key_of(P, 2), mask_of((R,)), 0)
    assert q.missing((mine, other)) == mine.key
    q.deliver(mine.key, mine.address, ())
    assert q.missing((mine, other)) == 0


def test_a_delivered_message_is_told_on() -> None:
    q = history(Q)
    key = key_of(P, 1)
    q.deliver(key, mask_of((Q, R)), ())
    _, told = q.send(mask_of((R,)))
    assert told == (Entry(key, mask_of((Q, R)), 0),)


def test_a_later_message_covers_an_earlier_one_where_it_goes() -> None:
    literal, symmetric = history(Q), history(Q, HistoryRules(extended=False, separators=False))
    earlier, later = Entry(key_of(P, 1), mask_of((R, S)), 0), Entry(key_of(P, 2), mask_of((R, S)), 0)
    for q in (literal, symmetric):
        q.deliver(key_of(R, 1), mask_of((Q,)), (earlier,))
        q.deliver(key_of(R, 2), mask_of((Q,)), (later,))
    assert earlier.key in literal.told  # without it, histories leak
    assert earlier.key not in symmetric.told


def zones(separator: int, *parts: int) -> Separators:
    return Separators([Zone("", "LAN", separator, parts[0], parts)])


def test_a_separator_answers_for_what_stays_behind_it_r9() -> None:
    """P and Q in a LAN with gateway R, S outside."""
    around = zones(mask_of((R,)), mask_of((P, Q)), mask_of((S,)))
    r = ExtendedHistory(R, around, HistoryRules())
    local = Entry(key_of(P, 1), mask_of((Q,)), 0)
    (stamp,) = r.relay(key_of(P, 2), mask_of((R, S)), (local,), mask_of((S,)), (mask_of((S,)),))
    assert stamp == ()
    (stamp,) = r.relay(key_of(S, 1), mask_of((R, Q)), (), mask_of((Q,)), (mask_of((Q,)),))
    assert stamp[0].key == local.key and stamp[0].injected == mask_of((Q, R))


def test_far_zones_are_forgotten() -> None:
    around = zones(mask_of((R,)), mask_of((P, Q)), mask_of((S,)))
    told = Entry(key_of(P, 1), mask_of((Q,)), mask_of((R,)))
    for forgetting in (True, False):
        s = ExtendedHistory(S, around, HistoryRules(forgetting=forgetting))
        s.deliver(key_of(P, 2), mask_of((R, S)), (told,))
        assert (told.key in s.told) != forgetting


def test_an_empty_message_to_all_concerned_leaves_itself_alone_in_a_history() -> None:
    p, q = history(P), history(Q)
    p.send(mask_of((Q, S)))
    p.send(mask_of((R,)))
    assert p.concerned() == mask_of((Q, R, S))
    empty, told = p.send(p.concerned())
    assert len(told) == 2 and list(p.told) == [empty]
    q.deliver(told[0].key, told[0].address, ())
    q.deliver(empty, mask_of((Q, R, S)), told)
    assert list(q.told) == [empty]  # what it tells is told to all, though timestamps are not extended


def test_without_pruning_all_of_the_past_is_told_and_kept() -> None:
    p, q = (history(site, HistoryRules(extended=False, separators=False, pruning=False)) for site in (P, Q))
    first, _ = p.send(mask_of((Q,)))
    second, told = p.send(mask_of((Q,)))
    assert [entry.key for entry in told] == [first]
    q.deliver(first, mask_of((Q,)), ())
    q.deliver(second, mask_of((Q,)), told)
    _, told = q.send(mask_of((P,)))
    assert sorted(entry.key for entry in told) == [first, second]  # though P itself sent them


def test_a_relay_does_not_pass_on_what_everybody_was_told() -> None:
    zone = Zone("left", "LAN", mask_of((Q,)), mask_of((P,)), (mask_of((P,)), mask_of((R, S))))
    gateway = ExtendedHistory(Q, Separators([zone]))
    told_to_all = Entry(key_of(P, 1), mask_of((P,)), mask_of((P,)))
    gateway.insert(*told_to_all[:3])  # a relay forgets it only when it has passed the message on
    (stamp,) = gateway.relay(key_of(P, 2), mask_of((Q, R)), (), mask_of((R,)), (mask_of((R,)),))
    assert told_to_all.key not in [entry.key for entry in stamp]
