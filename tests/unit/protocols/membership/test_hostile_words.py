"""Forged words against the agreement: refused, counted, nothing changed; whatever decodes never ends a site."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.harness.membership_bench import Notes
from tests.harness.recording import RecordingSite

from isthmus.core.layer import Stack, View
from isthmus.core.message import Message, SiteId
from isthmus.protocols.membership.agreement import Agreement
from isthmus.protocols.membership.cut import CutSlice, Holding
from isthmus.protocols.membership.home import Past
from isthmus.protocols.membership.sanity import COUNT_MAX, INCARNATION_MAX, NUMBERS_MAX, ROUND_MAX
from isthmus.protocols.membership.succession import LEAP_MAX
from isthmus.protocols.membership.suspicion import Heartbeat, Suspicion
from isthmus.protocols.membership.wire import (
    Accepted,
    Behind,
    Decide,
    Fetch,
    FramePiece,
    Frames,
    Gone,
    Here,
    Join,
    JoinAck,
    Nack,
    Nudge,
    Prepare,
    Progress,
    Promise,
    Proof,
    Proposal,
    Propose,
    Prove,
    StateAsk,
    StatePiece,
    StateTask,
    TransferReport,
)
from isthmus.protocols.transport.reliable.frames import ReliableOptions
from isthmus.protocols.transport.reliable.reliable import Reliable

ZERO, ONE, TWO, THREE = map(SiteId, range(4))
STRANGER = SiteId(9)
MEMBERS = (ZERO, ONE, TWO)
VIEW = View(5, MEMBERS, (3, 3, 3), (1, 1, 1), ((ZERO, 3), (ONE, 3), (TWO, 3), (THREE, 2)))
NEXT = View(6, MEMBERS, (3, 3, 3), (1, 1, 1), VIEW.last)
PROPOSAL = Proposal(5, MEMBERS, NEXT, (), MEMBERS)
FORGED = {  # each says one thing that cannot be
    "a list of weights that is too short": replace(NEXT, weights=(1,)),
    "a list of incarnations that is too long": replace(NEXT, incarnations=(3, 3, 3, 3)),
    "a member of no group": replace(NEXT, members=(ZERO, ONE, STRANGER)),
    "a member twice": replace(NEXT, members=(ZERO, ONE, ONE)),
    "nobody": replace(NEXT, members=(), incarnations=(), weights=()),
    "a negative weight": replace(NEXT, weights=(1, -1, 1)),
    "a view from the future": replace(NEXT, view_id=7),
    "a view from the past": replace(NEXT, view_id=4),
    "a number that fits no packet": replace(NEXT, view_id=1 << 40),
    "an earlier life": replace(NEXT, incarnations=(3, 2, 3)),
    "a later life than it says was ever admitted": replace(NEXT, incarnations=(3, 4, 3)),
    "a life that was admitted before": View(6, (ZERO, ONE, TWO, THREE), (3, 3, 3, 2), (1, 1, 1, 1), VIEW.last),
}


class Home:
    """A site that suspects nobody."""

    contacts = (*MEMBERS, THREE)
    round_trip_ns = 1_000_000
    past = store = None

    def __init__(self) -> None:
        self.weights: dict[SiteId, int] = {}
        self.renewed: list[Past] = []
        self.behind: list[tuple[SiteId, int, int]] = []

    def is_suspected(self, _site: SiteId) -> bool:
        return False

    suspects_us = is_suspected

    def renew(self, past: Past) -> None:
        self.renewed.append(past)

    def note_behind(self, site: SiteId, asked: int, known: int) -> None:
        self.behind.append((site, asked, known))

    def left(self) -> None:
        raise AssertionError("nobody leaves")


class Bench:
    """Site 0 of a view of three, which it has founded."""

    def __init__(self, joined: bool = True) -> None:
        self.home = Home()
        self.site = RecordingSite(ZERO, 3)
        self.agreement = Agreement(self.home)
        self.site.attach(Stack(self.site.host, Notes(), Reliable(ReliableOptions()), self.agreement))
        self.site.run(self.agreement.start)
        if joined:
            self.site.run(lambda: self.agreement.found(VIEW))
        self.agreement.known.learn([(site, 3) for site in MEMBERS])
        self.site.drain()

    def hear(self, source: SiteId, word: Message) -> list[str]:
        """The effects of a packet, which travels as bytes."""
        codec = self.site.host.stack.codec
        self.site.receive(source, 0, codec.decode(codec.encode(word)))
        return self.site.drain()

    def state(self) -> list[Any]:
        a, ledger = self.agreement, self.agreement.ledger
        return [
            *(a.view, a.seat, a.phase, ledger.promised, ledger.accepted, a.decided, a.stateful, dict(a.known.highest)),
            *(dict(a.heard), dict(a.requests.heard), dict(a.requests.answers), dict(ledger.votes), ledger.round_seen),
            *(
                ledger.proposed,
                a.attempt,
                a.nudged_ns,
                a.leaving,
                dict(a.transfer.parts),
                a.flush,
                self.site.host.view_id,
            ),
            len(self.home.renewed),
        ]


def promise(**more: Any) -> Promise:
    return replace(Promise(3, 3, 5, (1, ZERO, 3), None, (), (), True, False), **more)


BALLOT = (1, ONE, 3)
HOSTILE: dict[str, tuple[SiteId, Message]] = {
    "a stranger's request to join": (STRANGER, Join(1, 5, ())),
    "a stranger's promise": (STRANGER, promise()),
    "a stranger's decision": (STRANGER, Decide(3, PROPOSAL)),
    "a request that names a stranger": (THREE, Join(3, 5, ((STRANGER, 3),))),
    "a request that names a life as often as fits a packet": (THREE, Join(3, 5, ((ONE, 3),) * 9000)),
    "an incarnation below 0": (ONE, Here(-1, 3, 5, True)),
    "an incarnation that no clock has come to": (ONE, Here(INCARNATION_MAX + 1, 3, 5, True)),
    "a seat below 0": (ONE, Here(3, -1, 5, True)),
    "a view below 0": (ONE, Here(3, 3, -5, True)),
    "a ballot of a round beyond all": (ONE, Prepare(3, 3, 5, (ROUND_MAX + 1, ONE, 3))),
    "a ballot from the far future": (ONE, Prepare(3, 3, 5, ((1 << 64) - 1, ONE, 3))),
    "a ballot below 0": (ONE, Prepare(3, 3, 5, (-1, ONE, 3))),
    "another's ballot": (ONE, Prepare(3, 3, 5, (1, TWO, 3))),
    "the ballot of another life": (ONE, Prepare(3, 3, 5, (1, ONE, 2))),
    "a ballot for a seat that is not there": (THREE, Prepare(3, 3, 5, (1, THREE, 3))),
    "the ballot of a stranger": (ONE, Accepted(3, 3, 5, (1, STRANGER, 3))),
    "a vote from the future": (ONE, Accepted(3, 3, 5, (ROUND_MAX + 1, ONE, 3))),
    "a round from the future": (ONE, Nudge(3, 3, 5, (), ROUND_MAX + 1)),
    "a promise from the future": (ONE, Nack(3, 3, 5, (ROUND_MAX + 1, ONE, 3))),
    "a promise for a seat that is not there": (THREE, promise()),
    "a report of too many frames": (ONE, promise(report=(Holding(ONE, 0, ((1, NUMBERS_MAX + 1),), ()),))),
    "a report of more frames than there are numbers": (ONE, promise(report=(Holding(ONE, 0, (), ((1, 1 << 62),)),))),
    "a report of runs that turn back": (ONE, promise(report=(Holding(ONE, 0, ((5, 4),), ()),))),
    "a report that speaks of a stranger": (ONE, promise(report=(Holding(STRANGER, 0, (), ()),))),
    "a report that says it twice": (ONE, promise(report=(Holding(ONE, 0, (), ()), Holding(ONE, 9, (), ())))),
    "accepted under a later ballot": (ONE, promise(accepted=((2, ONE, 3), PROPOSAL))),
    "accepted for another view": (ONE, promise(accepted=((1, ZERO, 3), Proposal(4, MEMBERS, VIEW, (), MEMBERS)))),
    "a proposal for another view": (ONE, Propose(3, 3, 4, BALLOT, PROPOSAL)),
    "another's proposal": (ONE, Propose(3, 3, 5, (1, TWO, 3), PROPOSAL)),
    "other electors": (ONE, Propose(3, 3, 5, BALLOT, replace(PROPOSAL, electors=(ONE, TWO)))),
    "state at a stranger's": (ONE, Propose(3, 3, 5, BALLOT, replace(PROPOSAL, stateful=(STRANGER,)))),
    "a cut of too many frames": (
        ONE,
        Propose(3, 3, 5, BALLOT, replace(PROPOSAL, cut=(CutSlice(ONE, 0, ((1, 1 << 60),), ()),))),
    ),
    "a cut with frames of a stranger": (
        ONE,
        Propose(3, 3, 5, BALLOT, replace(PROPOSAL, cut=(CutSlice(THREE, 0, ((1, 2),), ()),))),
    ),
    "a decision by one who had no part in it": (THREE, Decide(3, PROPOSAL)),
    "an answer to what was never asked": (ONE, JoinAck(3, 3, 1 << 62)),
    "gone in a view that cannot be": (ONE, Gone(3, 1 << 40, 3)),
    "state from below 0": (ONE, StateAsk(3, 5, 0, b"", 16, (-5,))),
    "a third part of a state": (ONE, StateAsk(3, 5, 2, b"", 16, (0,))),
    "a digest that is too short": (ONE, StateAsk(3, 5, 0, b"short", 16, (0,))),
    "pieces of a state that are too large": (ONE, StateAsk(3, 5, 0, b"", 1 << 20, (0,))),
    "more pieces of a state than may be asked for": (ONE, StateAsk(3, 5, 0, b"", 16, (0,) * 513)),
    "a state without a digest": (ONE, StatePiece(3, 5, 0, b"", 0, 5, b"state")),
    "the state of a view to come": (ONE, Decide(3, replace(PROPOSAL, transfers=(StateTask(ONE, 99, ZERO),)))),
    "more snapshots than are kept": (ONE, promise(transfer=TransferReport(kept=tuple(range(9))))),
    "a request for frames of a stranger": (ONE, Fetch(3, 5, 1_000, ((STRANGER, 1, 0),))),
    "a request for pieces of no size": (ONE, Fetch(3, 5, 0, ((ONE, 1, 0),))),
    "a request from below 0": (ONE, Fetch(3, 5, 1_000, ((ONE, 1, -1),))),
    "frames of a stranger": (ONE, Frames(3, 5, (), ((STRANGER, 1),))),
    "progress of a stranger's ballot": (ONE, Progress(3, 3, 5, (1, STRANGER, 3))),
    "a life of this site beyond all": (ONE, Behind(3, 3, INCARNATION_MAX + 1)),
    **{
        f"a proposal of {name}": (ONE, Propose(3, 3, 5, BALLOT, replace(PROPOSAL, view=view)))
        for name, view in FORGED.items()
    },
    **{f"a decision for {name}": (ONE, Decide(3, replace(PROPOSAL, view=view))) for name, view in FORGED.items()},
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_cannot_be_meant_is_refused_and_changes_nothing(name: str) -> None:
    bench = Bench()
    before = bench.state()
    source, word = HOSTILE[name]
    assert bench.hear(source, word) == [f"reject {source}"]
    assert bench.state() == before
    assert bench.hear(ONE, Prepare(3, 3, 5, BALLOT))[0].startswith("send [1] Promise(")  # and it goes on


def test_the_honest_words_that_the_forged_ones_differ_from_are_taken() -> None:
    for word in (Prepare(3, 3, 5, BALLOT), Propose(3, 3, 5, BALLOT, PROPOSAL), Decide(3, PROPOSAL)):
        assert not [line for line in Bench().hear(ONE, word) if line.startswith("reject")]


def test_a_request_that_is_replayed_counts_once() -> None:
    """It is answered, so that its author may hear it, but does not count as made again."""
    bench = Bench()
    request = Join(3, 1_000, ())
    bench.hear(THREE, request)
    noted = dict(bench.agreement.requests.heard)
    bench.site.now_ns += 3_000_000
    bench.hear(THREE, request)
    bench.hear(THREE, replace(request, asked_ns=999))
    assert bench.agreement.requests.heard == noted


def prove(bench: Bench, source: SiteId, incarnation: int) -> None:
    """Have a life of a site return the challenge that its first word leads to."""
    (sent,) = bench.hear(source, Here(incarnation, 3, 5, True))
    nonce = bench.agreement.known.nonces[source]
    assert sent == f"send [{source}] Prove(incarnation=3, nonce={nonce})"
    bench.hear(source, Proof(incarnation, nonce))


def test_words_of_an_earlier_life_are_dropped() -> None:
    bench = Bench()
    prove(bench, ONE, 4)
    before = bench.state()
    assert bench.hear(ONE, Prepare(3, 3, 5, BALLOT)) == []
    assert bench.hear(ONE, Decide(3, PROPOSAL)) == []
    assert bench.state() == before


def test_a_request_to_join_of_a_life_that_was_admitted_is_told_so() -> None:
    bench = Bench()
    before = dict(bench.agreement.requests.heard)
    answer = ["send [3] Behind(incarnation=3, asked_incarnation=2, highest=2)"]
    assert bench.hear(THREE, Join(2, 5, ())) == answer
    assert bench.home.behind == [(THREE, 2, 2)]
    assert bench.agreement.requests.heard == before


def test_answers_of_a_site_are_kept_for_one_life() -> None:
    bench = Bench()
    bench.site.now_ns = 1_000
    for incarnation in range(3, 50):
        bench.agreement.known.learn([(ONE, incarnation)])
        bench.hear(ONE, JoinAck(incarnation, 3, 10))
    assert list(bench.agreement.requests.answers) == [(ONE, 49)]


def test_a_place_that_a_life_has_not_asked_for_ends_it() -> None:
    """A life before had the same incarnation: what it promised, sent and handed up is not known any more."""
    joined = View(6, (ONE, ZERO), (3, 3), (1, 1), ((ZERO, 3), (ONE, 3)))
    proposal = Proposal(5, (ONE, ZERO), joined, (), (ONE, ZERO))
    for word in (Decide(3, proposal), Propose(3, 3, 5, (1, ONE, 3), proposal)):
        bench = Bench(joined=False)
        assert bench.hear(ONE, word) == [] and len(bench.home.renewed) == 1
        assert not bench.agreement.is_seated() and bench.agreement.ledger.voted is None


def test_a_higher_life_counts_once_it_has_returned_a_challenge() -> None:
    """One packet of a life that is not there once locked the true one out."""
    bench = Bench()
    before = bench.state()
    assert bench.hear(ONE, Here(INCARNATION_MAX, 3, 5, True))[0].startswith("send [1] Prove(")
    assert bench.hear(ONE, Here(9, 3, 5, True)) == []  # one challenge per tick
    nonce = bench.agreement.known.nonces[ONE]
    bench.hear(ONE, Proof(INCARNATION_MAX, nonce ^ 1))
    bench.hear(TWO, Proof(INCARNATION_MAX, nonce))
    assert bench.state() == before
    bench.hear(ONE, Proof(9, nonce))
    assert bench.agreement.known.of(ONE) == 9
    bench.hear(ONE, Proof(10, nonce))
    assert bench.agreement.known.of(ONE) == 9  # a nonce counts once


def test_a_challenge_is_answered_to_any_life() -> None:
    for incarnation in (0, 3, 99):
        assert Bench().hear(ONE, Prove(incarnation, 7)) == ["send [1] Proof(incarnation=3, nonce=7)"]


def test_a_site_that_is_behind_is_told_and_comes_back_above() -> None:
    bench = Bench()
    bench.agreement.known.learn([(THREE, 8)])
    assert bench.hear(THREE, Join(7, 5, ())) == ["send [3] Behind(incarnation=3, asked_incarnation=7, highest=8)"]
    joiner = Bench(joined=False)
    joiner.hear(ONE, Behind(3, 2, 8))  # the answer to an earlier life
    assert not joiner.home.renewed
    joiner.hear(ONE, Behind(3, 3, 8))
    assert [past.told for past in joiner.home.renewed] == [8]
    member = Bench()
    member.hear(ONE, Behind(3, 3, 8))
    assert not member.home.renewed  # it has not asked


def test_a_life_far_above_is_believed_from_a_quorum_only() -> None:
    joiner, far = Bench(joined=False), 3 + LEAP_MAX + 1
    joiner.hear(ONE, Behind(3, 3, far + 7))
    joiner.hear(ONE, Behind(3, 3, far + 9))
    assert not joiner.home.renewed
    joiner.hear(TWO, Behind(3, 3, far))
    assert [past.told for past in joiner.home.renewed] == [far]


def test_no_round_from_another_site_uses_up_the_rounds() -> None:
    """A ballot of round 2^20 in one packet once froze the group; refusals and nudges are always heeded."""
    for forged in (1 << 20, LEAP_MAX, LEAP_MAX + 1, ROUND_MAX):
        bench = Bench()
        lines = bench.hear(ONE, Prepare(3, 3, 5, (forged, ONE, 3)))
        is_far = forged > LEAP_MAX
        assert lines[0].startswith("send [1] Nack(" if is_far else "send [1] Promise("), forged
        for word in (Nudge(3, 3, 5, (), forged), Nack(3, 3, 5, (forged, TWO, 3))):
            bench.hear(TWO, word)
        ballot = bench.agreement.next_ballot()
        assert ballot > bench.agreement.ledger.promised and ballot[0] <= bench.agreement.ledger.promised[0] + LEAP_MAX
    far = Bench()
    far.agreement.ledger.promised = (1 << 40, TWO, 3)
    assert far.hear(ONE, Prepare(3, 3, 5, (2 << 40, ONE, 3)))[0].startswith("send [1] Nack(")


def test_a_state_that_layers_cannot_take_ends_the_life_that_got_it() -> None:
    bench = Bench(joined=False)
    joined = View(6, (ONE, ZERO), (3, 3), (1, 0), ((ZERO, 3), (ONE, 3)))
    bench.hear(ONE, JoinAck(3, 3, 0))
    bench.hear(ONE, Decide(3, Proposal(5, (ONE,), joined, (), (ONE,))))
    bench.site.advance(5_000_000)
    bench.site.drain()
    state = msgspec.msgpack.encode((b"no", b"such", b"layers", b"here"))
    lines = bench.hear(ONE, StatePiece(3, 6, 0, sha256(state).digest(), 0, len(state), state))
    assert "reject 1" in lines and len(bench.home.renewed) == 1


def test_a_heartbeat_that_cannot_be_is_refused() -> None:
    site = RecordingSite(ZERO)
    site.attach(Stack(site.host, Suspicion({ZERO: 0, ONE: 0}, lambda *_: None)))
    site.run(site.host.stack.layers[0].start)
    site.drain()
    bad: list[tuple[SiteId, Heartbeat]] = [
        (STRANGER, Heartbeat(1)),
        (ONE, Heartbeat(-1)),
        (ONE, Heartbeat(1 << 62)),
        (ONE, Heartbeat(1, (ZERO,) * 9)),
    ]
    for source, word in bad:
        site.receive(source, 0, word)
        assert site.drain() == [f"reject {source}"]
    assert site.host.stack.find(Suspicion).peers[ONE].incarnation == -1


# Whatever decodes

numbers = st.sampled_from(
    [
        -(1 << 63),
        -1,
        0,
        1,
        2,
        3,
        4,
        5,
        6,
        9,
        COUNT_MAX,
        COUNT_MAX + 1,
        LEAP_MAX,
        ROUND_MAX,
        ROUND_MAX + 1,
        (1 << 63) - 1,
    ]
)
sites = st.sampled_from([SiteId(n) for n in (-1, 0, 1, 2, 3, 9)])
flags = st.booleans()
lives = st.tuples(sites, numbers)
ballots = st.tuples(numbers, sites, numbers)


def few(of: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(of, max_size=3).map(tuple)


runs = few(st.tuples(numbers, numbers))
digests = st.sampled_from([b"", bytes(32), sha256(b"").digest()])
tasks = few(st.builds(StateTask, sites, numbers, sites))
transfers = st.builds(TransferReport, flags, numbers, few(numbers), flags, few(sites))
views = st.one_of(
    st.builds(View, numbers, few(sites), few(numbers), few(numbers), few(lives)), st.just(NEXT), st.just(VIEW)
)
cuts = few(st.builds(CutSlice, sites, numbers, runs, few(sites)))
proposals = st.one_of(
    st.builds(Proposal, numbers, few(sites), views, cuts, few(sites), flags, tasks),
    st.builds(Proposal, st.just(5), st.just(MEMBERS), views, cuts, few(sites), flags, tasks),
)
reports = st.one_of(st.none(), few(st.builds(Holding, sites, numbers, runs, runs)))
head = (numbers, numbers, numbers)
words = st.one_of(
    st.builds(Here, *head, flags),
    st.builds(Prepare, *head, ballots),
    st.builds(
        Promise,
        *(*head, ballots, st.one_of(st.none(), st.tuples(ballots, proposals)), reports, few(sites), flags, flags),
        transfers,
    ),
    st.builds(Propose, *head, ballots, proposals),
    st.builds(Accepted, *head, ballots),
    st.builds(Decide, numbers, proposals),
    st.builds(Nudge, *head, few(sites), numbers, flags),
    st.builds(Nack, *head, ballots),
    st.builds(Join, numbers, numbers, few(lives)),
    st.builds(JoinAck, *head),
    st.builds(Gone, *head),
    st.builds(Fetch, numbers, numbers, numbers, few(st.tuples(sites, numbers, numbers))),
    st.builds(
        Frames,
        numbers,
        numbers,
        few(st.builds(FramePiece, sites, numbers, numbers, numbers, st.binary(max_size=4))),
        few(st.tuples(sites, numbers)),
        few(st.tuples(sites, numbers)),
    ),
    st.builds(Progress, *head, ballots),
    st.builds(Prove, numbers, numbers),
    st.builds(Proof, numbers, numbers),
    st.builds(Behind, *head),
    st.builds(StateAsk, numbers, numbers, numbers, st.binary(max_size=4), numbers, few(numbers)),
    st.builds(StatePiece, numbers, numbers, numbers, digests, numbers, numbers, st.binary(max_size=4)),
)


@settings(max_examples=400, deadline=None)
@given(st.booleans(), st.lists(st.tuples(sites, words), max_size=8))
def test_no_words_end_a_site_or_make_it_say_what_cannot_be_sent(joined: bool, given: list[tuple[SiteId, Any]]) -> None:
    bench = Bench(joined)
    codec, sent = bench.site.host.stack.codec, []

    def transmit(_port: object, target: SiteId, _view_id: int, message: Message) -> None:
        assert target in Home.contacts
        codec.decode(codec.encode(message))
        sent.append(message)

    bench.site.transmit = transmit
    for source, word in given:
        if bench.home.renewed:
            break
        bench.hear(source, word)
        bench.site.advance(2_000_000)
