"""Schedules made by hand, for wrong readings of the agreement that drawn ones seldom meet.

Each is a story of a few sites, packet by packet up to the point where the reading matters; then faults end, and the
group must keep what it promises and come to rest if a quorum is left. The right agreement passes all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations

from tests.harness.membership_bench import QUICK, ROUND_NS, Bench, Kind
from tests.harness.membership_bench_checks import wrong

from isthmus.core.message import Message, SiteId
from isthmus.protocols.membership.agreement import DECIDED, Agreement
from isthmus.protocols.membership.quorum import quorum
from isthmus.protocols.membership.wire import (
    Accepted,
    Decide,
    Fetch,
    Frames,
    Here,
    Join,
    Nudge,
    Prepare,
    Promise,
    Propose,
    StateAsk,
)
from isthmus.protocols.transport.reliable.frames import Ack, Data, Nak, Repair, Status

Way = tuple[int, int]
TRAFFIC = (Ack, Data, Nak, Repair, Status)
REST = 150  # round trips


class Hand:
    """A bench whose packets are passed on by hand."""

    def __init__(self, count: int, files: bool = False, kind: Kind = Agreement, safe: bool = False) -> None:
        self.bench = Bench(count, files, kind, safe=safe, options=QUICK)
        self.cuts: set[Way] = set()
        self.losing: tuple[
            tuple[type[Message], int | None], ...
        ] = ()  # kinds of packets that are lost, of one site or all

    def pass_on(self, *kinds: type[Message], ways: tuple[Way, ...] = ()) -> None:
        """Let packets of some kinds, or all, arrive on some ways, or all; and what is sent in answer."""
        bench = self.bench
        while True:
            place = next(
                (n for n, packet in enumerate(bench.pool) if self.fits(packet[:2], packet[3], kinds, ways)), None
            )
            if place is None:
                return
            if self.is_lost(*bench.pool[place]):
                del bench.pool[place]
            else:
                bench.arrive(place)

    def is_lost(self, source: SiteId, target: SiteId, _view_id: int, message: Message) -> bool:
        if (source, target) in self.cuts:
            return True
        return any(isinstance(message, kind) and site in (None, source) for kind, site in self.losing)

    @staticmethod
    def fits(
        way: tuple[SiteId, SiteId], message: Message, kinds: tuple[type[Message], ...], ways: tuple[Way, ...]
    ) -> bool:
        return (not kinds or isinstance(message, kinds)) and (not ways or way in ways)

    def lose(self, *kinds: type[Message], ways: tuple[Way, ...] = ()) -> None:
        """Lose packets of some kinds, or all, that are under way on some ways, or all."""
        self.bench.pool = [one for one in self.bench.pool if not self.fits(one[:2], one[3], kinds, ways)]

    def rounds(self, count: int) -> None:
        """Let time pass with nothing wrong but the cuts."""
        for _ in range(2 * count):
            self.pass_on()
            self.bench.now_ns += ROUND_NS // 2
            self.bench.fire_due()

    def suspect(self, *pairs: Way) -> None:
        for one, other in pairs:
            self.bench.suspect(SiteId(one), SiteId(other), suspected=True)

    def crash(self, *sites: int) -> None:
        """Crash sites, which all others find out."""
        for site in sites:
            self.bench.crash(SiteId(site))
        self.suspect(*[(one, site) for site in sites for one in self.bench.sites if one != site])

    def recover(self, *sites: int) -> None:
        for site in sites:
            self.bench.recover(SiteId(site))
            for one in self.bench.sites:
                self.bench.suspect(one, SiteId(site), suspected=False)

    def cut(self, *ways: Way) -> None:
        """Let nothing pass on some ways, which those who hear nothing more find out."""
        self.cuts.update(ways)
        self.suspect(*[(target, source) for source, target in ways])

    def trust_all(self) -> None:
        bench = self.bench
        for one, other in permutations(bench.sites, 2):
            if bench.at[other].alive and (other, one) not in self.cuts:
                bench.suspect(one, other, suspected=False)

    def outcome(self) -> list[str]:
        """What is wrong once the group had time to come to rest, if it can."""
        up = [port.agreement for port in self.bench.at.values() if port.alive]
        last = max([layer.view for layer in up], key=lambda view: view.view_id)
        able = quorum(last, [life for layer in up for life in (layer.me, layer.sitting)])
        self.rounds(REST)
        found = wrong(self.bench)
        up = [port.agreement for port in self.bench.at.values() if port.alive]
        rests = all(layer.view == up[0].view and layer.is_idle() for layer in up)
        return found if found or rests or not able else ["the group does not come to rest"]


def leaver_alone_reports(kind: Kind) -> list[str]:
    """Site 2's message is safe at 1, which has it with its origin; 2 dies and 1 leaves: only 1 can report it."""
    hand = Hand(3, kind=kind, safe=True)
    hand.bench.submit(SiteId(2))
    hand.pass_on(Data, ways=((2, 2), (2, 1)))
    hand.lose(ways=((2, 0), (1, 0)))
    hand.crash(2)
    hand.bench.leave(SiteId(1))
    hand.pass_on()
    return hand.outcome()


def stable_after_reports(kind: Kind) -> list[str]:
    """Sites 0 and 1 report before 2's message comes; if they acknowledge it, 2 reports it as stable, and it is lost."""
    hand = Hand(3, kind=kind)
    hand.bench.rebel(SiteId(0))
    hand.pass_on(Prepare, ways=((0, 1),))
    hand.bench.submit(SiteId(2))
    hand.pass_on(Data)
    hand.pass_on(Ack)
    hand.bench.at[SiteId(2)].run(hand.bench.at[SiteId(2)].stack.layers[1].send_ack)  # type: ignore[attr-defined]
    hand.pass_on()
    return hand.outcome()


def left_out(hand: Hand, *sites: int) -> None:
    """Have sites be left out one after the other, and ask to come back."""
    for site in sites:
        hand.crash(site)
        hand.rounds(8)
    hand.recover(*sites)


def half_rounds(hand: Hand, until: Callable[[], bool]) -> None:
    """Let time pass until something has come about."""
    for _ in range(40):
        if until():
            return
        hand.pass_on()
        hand.bench.now_ns += ROUND_NS // 2
        hand.bench.fire_due()
    raise AssertionError("the story does not come about")


def joiners_alone_hold(kind: Kind) -> list[str]:
    """The cut of a view that takes in 3 and 4 is held by 0 and 1, which die, and by the joiners; 2 lacks it."""
    hand = Hand(5, kind=kind)
    left_out(hand, 3, 4)
    bench = hand.bench
    bench.submit(SiteId(0))
    hand.pass_on(Data, ways=((0, 0), (0, 1)))
    hand.lose(*TRAFFIC)
    hand.losing = (*((kind, None) for kind in (*TRAFFIC, StateAsk)), (Fetch, 2))
    half_rounds(hand, lambda: all(len(bench.at[SiteId(site)].agreement.view.members) == 5 for site in (3, 4)))
    hand.crash(0, 1)
    hand.losing = ()
    return hand.outcome()


def joiners_outvote(kind: Kind) -> list[str]:
    """Two members with the state let three in and die before they could tell it: these alone must not be a quorum."""
    hand = Hand(5, kind=kind)
    left_out(hand, 4, 3, 2)
    hand.losing = ((StateAsk, None),)
    half_rounds(hand, lambda: all(len(port.agreement.view.members) == 5 for port in hand.bench.at.values()))
    hand.crash(0, 1)
    hand.losing = ()
    return hand.outcome()


def safe_with_two(count: int, kind: Kind) -> list[str]:
    """A message that its origin and one more have is lost with these two; the rest go on."""
    hand = Hand(count, kind=kind, safe=True)
    hand.bench.submit(SiteId(2))
    hand.pass_on(Data, ways=((2, 2), (2, 1)))
    hand.pass_on(Ack, ways=((1, 2), (2, 1)))
    hand.lose()
    hand.crash(1, 2)
    return hand.outcome()


def safe_with_two_of_four(kind: Kind) -> list[str]:
    """The two are half of the view, without its first member."""
    return safe_with_two(4, kind)


def safe_with_two_of_five(kind: Kind) -> list[str]:
    """The two are less than half of the view."""
    return safe_with_two(5, kind)


def safe_for_some(kind: Kind) -> list[str]:
    """A message to 1 and 3 is at 1 alone; 0 and 4 acknowledge the next one, to all; then 1 and its origin die."""
    hand = Hand(5, kind=kind, safe=True)
    hand.bench.submit(SiteId(2), (SiteId(1), SiteId(3)))
    hand.pass_on(Data, ways=((2, 1),))
    hand.bench.submit(SiteId(2))
    hand.lose(ways=((2, 3),))
    hand.pass_on(Data, ways=((2, 0), (2, 1), (2, 4)))
    hand.bench.now_ns += 5 * ROUND_NS
    hand.bench.fire_due()
    hand.pass_on(Ack, ways=((0, 1), (4, 1)))
    hand.lose()
    hand.crash(1, 2)
    return hand.outcome()


def two_accepted(kind: Kind) -> list[str]:
    """Site 0 alone accepted {0, 1, 2, 3}; then 1, 2 and 3 decided on {1, 2, 3}; then 0 asks 2 and 3 once more."""
    hand = Hand(5, kind=kind)
    bench = hand.bench
    hand.crash(4)
    bench.suspicions.clear()
    hand.suspect((0, 4))
    hand.pass_on(Prepare, Promise)
    bench.now_ns += 3 * ROUND_NS
    hand.lose()
    bench.fire_due()
    hand.lose()
    hand.suspect((1, 0), (1, 4))
    bench.rebel(SiteId(1))
    hand.pass_on(Prepare, Promise, ways=((1, 2), (1, 3), (2, 1), (3, 1)))
    bench.now_ns += 3 * ROUND_NS
    bench.tick(SiteId(1))
    hand.pass_on(Propose, ways=((1, 2), (1, 3)))
    hand.pass_on(Accepted, ways=((2, 1), (3, 1)))
    hand.lose()
    bench.suspicions.clear()
    hand.suspect((0, 4), (0, 1))
    bench.now_ns += 50 * ROUND_NS
    agreement = bench.at[SiteId(0)].agreement
    agreement.ledger.round_seen = 9
    bench.rebel(SiteId(0))
    ways = ((0, 2), (0, 3), (2, 0), (3, 0))
    hand.pass_on(Prepare, Promise, ways=ways)
    bench.now_ns += 3 * ROUND_NS
    bench.tick(SiteId(0))
    hand.pass_on(Propose, Accepted, ways=(*ways, (2, 3), (3, 2)))
    hand.lose()
    hand.trust_all()
    hand.suspect(*[(one, 4) for one in range(4)])
    return hand.outcome()


def forgotten_vote(kind: Kind) -> list[str]:
    """Site 1's vote decides {0, 1}, which 0 alone knows; 1 crashes and comes back by its file; 2 asks it to promise."""
    hand = Hand(3, files=True, kind=kind)
    hand.cut((0, 2), (2, 0))
    hand.pass_on(Prepare, Promise, Propose, ways=((0, 1), (1, 0)))
    hand.pass_on(Accepted, ways=((1, 0),))
    hand.bench.crash(SiteId(1))
    hand.lose()
    hand.recover(1)
    hand.suspect((0, 1))
    for _ in range(8):
        hand.bench.now_ns += ROUND_NS
        hand.bench.fire_due()
        hand.lose(ways=((0, 1), (1, 0)))
        hand.pass_on(ways=((1, 2), (2, 1), (2, 2), (1, 1)))
    hand.cuts.clear()
    hand.trust_all()
    return hand.outcome()


def cut_out_of_reach(kind: Kind) -> list[str]:
    """All who held the cut of a decided view lose it in a crash, and come back by their files; 2 waits for it."""
    hand = Hand(3, files=True, kind=kind)
    bench = hand.bench
    bench.submit(SiteId(0))
    hand.pass_on(Data, ways=((0, 0), (0, 1)))
    hand.lose(*TRAFFIC)
    bench.rebel(SiteId(0))
    hand.pass_on(Prepare, Promise, Propose, Accepted, Decide, Here)
    hand.lose(Fetch, Frames)
    hand.crash(0, 1)
    hand.lose()
    hand.recover(0, 1)
    return hand.outcome()


def holder_dies(kind: Kind) -> list[str]:
    """Site 0 alone has its message and proposes it; whoever accepts without it is left with a cut that is nowhere."""
    hand = Hand(3, kind=kind)
    hand.bench.submit(SiteId(0))
    hand.pass_on(Data, ways=((0, 0),))
    hand.lose(*TRAFFIC)
    hand.losing = ((Fetch, None),)
    hand.bench.rebel(SiteId(0))
    hand.pass_on()
    hand.crash(0)
    hand.losing = ()
    return hand.outcome()


def one_is_behind(kind: Kind) -> list[str]:
    """Sites 0 and 1 are in the next view when 2 asks for what it lacks of the old one; then 0 dies, and 2 is needed."""
    hand = Hand(3, kind=kind)
    hand.bench.submit(SiteId(0))
    hand.pass_on(Data, ways=((0, 0), (0, 1)))
    hand.lose(*TRAFFIC)
    hand.losing = ((Fetch, 2),)
    hand.bench.rebel(SiteId(0))
    hand.pass_on()
    hand.crash(0)
    hand.losing = ()
    return hand.outcome()


def cut_made_anew(kind: Kind) -> list[str]:
    """What 4 alone had handed up is in the cut that 0 saw decided; 4 is gone when 1 takes the ballot over."""
    hand = Hand(5, kind=kind)
    hand.bench.submit(SiteId(4))
    hand.pass_on(Data, ways=((4, 4),))
    hand.lose(*TRAFFIC)
    hand.bench.leave(SiteId(4))
    hand.pass_on(Here)
    hand.bench.tick(SiteId(4))
    hand.losing = tuple([(kind, None) for kind in TRAFFIC])
    hand.pass_on(Nudge, Prepare, Promise)
    hand.pass_on(
        Propose, Fetch, Frames, ways=((0, 1), (0, 2), (1, 0), (2, 0), (0, 4), (4, 0), (1, 4), (4, 1), (2, 4), (4, 2))
    )
    hand.pass_on(Accepted, ways=((1, 0), (2, 0)))
    hand.lose()
    hand.crash(4)
    hand.cut(*[way for other in (1, 2, 3) for way in ((0, other), (other, 0))])
    hand.rounds(20)
    hand.cuts.clear()
    hand.trust_all()
    return hand.outcome()


def lower_ballot_later(kind: Kind) -> list[str]:
    """2 and 3 have promised a high ballot of 1's when 0 asks for a low one; 1 proposes after 0's was decided."""
    hand = Hand(5, kind=kind)
    bench = hand.bench
    hand.suspect((1, 0), (1, 4), (0, 1))
    hand.lose()
    bench.at[SiteId(1)].agreement.ledger.round_seen = 9
    bench.rebel(SiteId(1))
    hand.pass_on(Prepare, Promise, ways=((1, 2), (1, 3), (2, 1), (3, 1)))
    bench.now_ns += 30 * ROUND_NS
    bench.rebel(SiteId(0))
    ways = tuple([way for other in (2, 3, 4) for way in ((0, other), (other, 0))])
    hand.pass_on(Prepare, Promise, Propose, Accepted, ways=ways)
    hand.pass_on(Propose, Accepted, ways=((1, 2), (1, 3), (2, 1), (3, 1)))
    hand.lose()
    hand.trust_all()
    return hand.outcome()


def message_after_report(kind: Kind) -> list[str]:
    """The message of 2, which is left out, comes to 1 when 1 has reported."""
    hand = Hand(3, kind=kind)
    hand.bench.submit(SiteId(2))
    hand.suspect((0, 2))
    hand.pass_on(Prepare, ways=((0, 1),))
    hand.pass_on(Data, ways=((2, 1),))
    hand.lose(*TRAFFIC)
    hand.crash(2)
    return hand.outcome()


def message_after_time_out(kind: Kind) -> list[str]:
    """A first ballot of 0's comes to nothing; the message of 2, which is left out, comes to 0 during the second."""
    hand = Hand(3, kind=kind)
    hand.bench.submit(SiteId(2))
    hand.suspect((0, 2), (1, 2))
    hand.lose(Prepare)
    hand.bench.now_ns += 6 * ROUND_NS
    hand.bench.tick(SiteId(0))
    hand.pass_on(Data, ways=((2, 0),))
    hand.lose(*TRAFFIC)
    hand.crash(2)
    return hand.outcome()


def rival_proposals(kind: Kind, round_seen: int) -> list[str]:
    """2 and 3 have promised 1's ballot when 0's proposal comes, then 1's."""
    hand = Hand(5, kind=kind)
    bench = hand.bench
    hand.suspect((0, 1))
    ways = tuple([way for other in (2, 3, 4) for way in ((0, other), (other, 0))])
    hand.pass_on(Prepare, Promise, ways=ways)
    bench.at[SiteId(1)].agreement.ledger.round_seen = round_seen
    hand.suspect((1, 4), (1, 0))
    own = ((1, 2), (1, 3), (2, 1), (3, 1))
    hand.pass_on(Prepare, Promise, ways=own)
    hand.pass_on(Propose, Accepted, ways=ways)
    hand.pass_on(Propose, Accepted, ways=own)
    hand.lose()
    hand.trust_all()
    return hand.outcome()


def lower_proposal_later(kind: Kind) -> list[str]:
    """1's ballot is of a higher round."""
    return rival_proposals(kind, 9)


def two_of_one_round(kind: Kind) -> list[str]:
    """1's ballot is of the same round."""
    return rival_proposals(kind, 0)


def end_life(hand: Hand, site: int) -> None:
    """End a life whose process lives, as where the life of another group of the site ends."""
    port = hand.bench.at[SiteId(site)]
    hand.bench.event(port.site, lambda: port.agreement.end_life(None, keep_seat=True))


def ended_life_knows_a_safe_message(kind: Kind) -> list[str]:
    """Site 2's message is safe at 2 and 1; 2 dies and the life of 1 ends, but not its process: 0 must deliver it."""
    hand = Hand(3, files=True, kind=kind, safe=True)
    hand.bench.submit(SiteId(2))
    hand.pass_on(Data, ways=((2, 2), (2, 1)))
    hand.bench.now_ns += 5 * ROUND_NS
    hand.bench.fire_due()
    hand.pass_on(Ack, ways=((1, 2), (2, 1)))
    hand.lose()
    assert hand.bench.at[SiteId(2)].top.delivered == [[(2, 1)]]
    hand.crash(2)
    end_life(hand, 1)
    found = hand.outcome()
    return found if (2, 1) in hand.bench.at[SiteId(0)].top.delivered[0] else [*found, "a safe message is lost"]


def ended_life_moves_on(kind: Kind) -> list[str]:
    """The seat of an ended life goes on into a view in which the life had nothing; that view then closes."""
    hand = Hand(4, kind=kind)
    bench = hand.bench
    bench.submit(SiteId(0))
    hand.pass_on(Data)
    bench.submit(SiteId(0))
    hand.pass_on(Data, ways=((0, 0), (0, 2)))
    hand.lose(*TRAFFIC)
    hand.losing = ((Frames, None),)
    hand.crash(3)
    half_rounds(hand, lambda: bench.at[SiteId(1)].agreement.phase is DECIDED)
    hand.losing = ((Frames, None), (Join, None))
    end_life(hand, 1)
    hand.rounds(2)
    hand.losing = ()
    return hand.outcome()


def clock_set_back(kind: Kind) -> list[str]:
    """A site without a file comes back with a clock that was set back: below the life that the others know."""
    hand = Hand(3, kind=kind)
    left_out(hand, 2)
    hand.rounds(20)
    hand.crash(2)
    hand.rounds(20)
    hand.bench.recover(SiteId(2), set_back=2)
    hand.trust_all()
    return hand.outcome()


def forge(hand: Hand, target: int, message: Message) -> None:
    """Have a message arrive that site 1 never sent."""
    port = hand.bench.at[SiteId(target)]
    hand.bench.event(port.site, lambda: port.take(SiteId(1), 0, message))


def forged_life(kind: Kind) -> list[str]:
    """One packet claims a life of site 1 that is not there."""
    hand = Hand(3, kind=kind)
    forge(hand, 0, Here((1 << 31) - 1, 0, 1, True))
    found = hand.outcome()
    return found if not hand.bench.at[SiteId(1)].incarnation else [*found, "one packet ended a life"]


def forged_rounds(kind: Kind) -> list[str]:
    """Site 2 gets two ballots of rounds that nobody has come to; the others have yet to hear of them."""
    hand = Hand(3, kind=kind)
    for number in (1 << 20, 1 << 21):
        forge(hand, 2, Prepare(0, 0, 1, (number, SiteId(1), 0)))
    found = hand.outcome()
    return found if hand.bench.at[SiteId(0)].agreement.view.view_id > 1 else [*found, "the view never changed"]


DIRECTED: dict[str, Callable[[Kind], list[str]]] = {
    function.__name__: function
    for function in (
        *(leaver_alone_reports, stable_after_reports, joiners_alone_hold, joiners_outvote, two_accepted),
        *(forgotten_vote, cut_out_of_reach, safe_with_two_of_four, safe_with_two_of_five, safe_for_some),
        *(holder_dies, one_is_behind, cut_made_anew, lower_ballot_later, message_after_report),
        *(message_after_time_out, lower_proposal_later, two_of_one_round),
        *(ended_life_knows_a_safe_message, ended_life_moves_on, clock_set_back, forged_life, forged_rounds),
    )
}
