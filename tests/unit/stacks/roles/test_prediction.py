"""The closed form of latency, against cases worked out by hand and against brute force."""

from __future__ import annotations

from math import exp, inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isthmus.core.validation import BadValue
from isthmus.stacks.roles.assignment import paper_rule, symmetric_roles, token_site_roles
from isthmus.stacks.roles.prediction import RoleAssignment, Setting, predict
from isthmus.stacks.roles.rests import MessageStream, Rest, first_of
from isthmus.studies.tickets.instances import KINDS, drawn_setting, nine_setting
from isthmus.studies.tickets.labels import NINE


def periodic(period_ms: float) -> tuple[MessageStream, ...]:
    return (MessageStream("periodic", period_ms),)


def poisson(period_ms: float) -> tuple[MessageStream, ...]:
    return (MessageStream("poisson", period_ms),)


def alike(count: int, delay_ms: float) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(0.0 if a == b else delay_ms for b in range(count)) for a in range(count))


def near(expected: float) -> object:
    return pytest.approx(expected, rel=1e-9)


def test_two_active_sites_wait_for_each_others_rest() -> None:
    assert predict(Setting(alike(2, 100), (periodic(20),) * 2), symmetric_roles(2)).site_ms == near((110, 110))
    assert predict(Setting(alike(2, 100), (poisson(20),) * 2), symmetric_roles(2)).site_ms == near((120, 120))


@pytest.mark.parametrize("count", [3, 5, 30])
def test_of_many_periodic_rests_the_longest_counts(count: int) -> None:
    """The maximum of k uniform variables on (0, t) is k t / (k + 1) in the mean; a site does not wait for itself."""
    setting = Setting(alike(count, 50), (periodic(100),) * count)
    assert predict(setting, symmetric_roles(count)).mean_ms == near(50 + 100 * (count - 1) / count)


def test_of_many_poisson_rests_the_longest_counts() -> None:
    """The maximum of k exponential variables is the harmonic number H_k; of two unlike ones a + b - ab / (a + b)."""
    setting = Setting(alike(5, 50), (poisson(100),) * 5)
    assert predict(setting, symmetric_roles(5)).mean_ms == near(50 + 100 * (1 + 1 / 2 + 1 / 3 + 1 / 4))
    unlike = Setting(alike(3, 50), (poisson(1), poisson(30), poisson(60)))
    assert predict(unlike, symmetric_roles(3)).site_ms[0] == near(50 + 30 + 60 - 30 * 60 / 90)


def test_a_far_site_hides_the_rest_of_a_near_one() -> None:
    """From 1 to 2 it takes 10 ms and from 1 to 0 100: packets of 2, 40 ms apart at most, are always there in time."""
    delays = ((0.0, 100.0, 50.0), (100.0, 0.0, 10.0), (50.0, 10.0, 0.0))
    setting = Setting(delays, (periodic(8), periodic(60), periodic(40)))
    assert predict(setting, symmetric_roles(3)).site_ms == near((130, 104, 100 + 60 / 2 + 8**2 / (6 * 60)))


def test_a_token_site_takes_the_way_to_the_sequencer_and_on() -> None:
    setting = nine_setting("HLLLL")
    prediction = predict(setting, token_site_roles(5, 0))
    assert prediction.site_ms == near((540, 560, 560, 1080, 1080))
    assert prediction.mean_ms == near((100 * 540 + 2 * 560 + 2 * 1080) / 104)


@pytest.mark.parametrize("streams, rest", [(periodic(30), 15), (poisson(30), 30)])
def test_a_ticket_that_is_not_sent_at_once_waits_for_the_sequencers_next_packet(streams, rest) -> None:
    setting = Setting(alike(2, 100), (streams, poisson(1000)), eager=False)
    assert predict(setting, token_site_roles(2, 0)).site_ms == near((100, 200 + rest))


def test_tickets_sent_at_once_are_promises_too() -> None:
    """Site 1 is silent but sends a packet for each message of site 2."""
    delays = ((0.0, 100.0, 100.0), (100.0, 0.0, 1.0), (100.0, 1.0, 0.0))
    streams = (poisson(50), (), poisson(20))
    roles = RoleAssignment((0, 1, 1))
    assert predict(Setting(delays, streams), roles).site_ms[0] == near(120)
    assert predict(Setting(delays, streams, eager=False), roles).site_ms[0] == inf
    both = Setting(delays, (poisson(50), poisson(20), poisson(20)))
    assert predict(both, roles).site_ms[0] == near(110)


def test_a_silent_active_site_blocks_all_but_itself_unless_it_sends_nulls() -> None:
    setting = Setting(alike(2, 100), (poisson(1000), ()))
    assert predict(setting, symmetric_roles(2)).site_ms == (inf, near(1100))
    assert predict(setting, symmetric_roles(2)).mean_ms == inf
    assert predict(setting, token_site_roles(2, 1)).site_ms == near((200, 100))


def test_nulls_come_after_silence_once_something_is_heard() -> None:
    """Site 1 has nothing to say; it hears of a message in the mean 1100 ms after its last null, and replies by another.

    Of a message, which it hears of after 100 ms, the rest is at most that long, and below uniform on the cycle.
    """
    setting = Setting(alike(2, 100), (poisson(1100), ()), null_ms=25)
    cycle = 25 + 1100 * exp(-25 / 1100)
    assert predict(setting, symmetric_roles(2)).site_ms[0] == near(100 + 100 - 100**2 / (2 * cycle))
    quick = Setting(alike(2, 100), (poisson(1e-3), ()), null_ms=25)
    assert predict(quick, symmetric_roles(2)).site_ms[0] == near(100 + 25 / 2)


def test_nulls_of_a_near_site_come_when_its_silence_is_long_enough() -> None:
    """It hears of a message at once; where its last null is less than 25 ms old, it waits until it is."""
    setting = Setting(alike(2, 0), (poisson(1100), ()), null_ms=25)
    cycle = 25 + 1100 * exp(-25 / 1100)
    assert predict(setting, symmetric_roles(2)).site_ms[0] == near(25**2 / (2 * cycle))


def test_nobody_else_to_be_heard() -> None:
    """Site 0 never sends; if it did, site 1 would answer at once."""
    setting = Setting(alike(2, 100), ((), ()), null_ms=25)
    assert predict(setting, symmetric_roles(2)).site_ms == near((200, 200))


def test_late_data_holds_up_what_is_ordered_after_it() -> None:
    """0 to 2 takes 600 ms, but 100 through 1, which tickets 0's messages 550 ms before their data is at 2."""
    delays = ((0.0, 50.0, 600.0), (50.0, 0.0, 50.0), (600.0, 50.0, 0.0))
    often = predict(Setting(delays, (periodic(100), periodic(100), ())), token_site_roles(3, 1))
    assert often.site_ms[:2] == near((600, 550 - 50))
    rarely = predict(Setting(delays, (periodic(10_000), periodic(100), ())), token_site_roles(3, 1))
    assert rarely.site_ms[:2] == near((600, 50 + 500**2 / (2 * 10_000)))


def test_the_rest_between_nulls() -> None:
    """A period of 70 ms cut by nulls every 30 ms: gaps of 30, 30 and 10."""
    y = np.array([0.0, 5.0, 10.0, 20.0, 29.0, 30.0, 40.0])
    expected = [1, (25 + 25 + 5) / 70, 40 / 70, 20 / 70, 2 / 70, 0, 0]
    assert Rest(periodic(70), 30, 30).survival(y) == near(expected)
    assert Rest(periodic(70), 30, 30).survival_heard(y) == near(expected)
    truncated = (np.exp(-y / 70) - np.exp(-30 / 70)) / (1 - np.exp(-30 / 70))
    assert Rest(poisson(70), 30, 30).survival(y) == pytest.approx(np.maximum(0, truncated), abs=1e-12)
    assert Rest(periodic(1e9), 30, 30).survival(y) == near(np.maximum(0, 1 - y / 30))


def test_the_rest_between_nulls_that_wait_to_hear_something() -> None:
    """A period of 70 ms, nulls after 20 ms of silence and 30 where nothing was heard: 20 of 30, 20 of 30 and 10."""
    y = np.array([0.0, 5.0, 10.0, 15.0, 20.0, 25.0])
    assert Rest(periodic(70), 20, 30).survival_heard(y) == near([50 / 70, 35 / 70, 20 / 70, 10 / 70, 0, 0])


def test_the_first_of_several() -> None:
    assert first_of((*poisson(30), *poisson(60))) == near(20)
    assert first_of(poisson(30), 60) == near(60 + 30 * exp(-2))
    assert first_of(periodic(30)) == near(15)
    assert first_of(periodic(30), 20) == near(20 + 10 * (1 / 3) / 2)
    assert first_of(periodic(30), 40) == 40
    both = first_of((*periodic(30), *poisson(30)))  # the integral of (1 - y / 30) exp(-y / 30) from 0 to 30
    assert both == near(30 * exp(-1))
    assert first_of((), 5) == inf


@pytest.mark.parametrize(
    "kind, least, most", [("periodic", 545, 557), ("poisson", 550, 561)]
)  # periodic: what the paper's figure shows; Poisson: half a mean rest more for each that is waited for
@pytest.mark.parametrize("load", NINE)
def test_the_hybrid_is_flat_over_the_nine_scenarios(load, kind, least, most) -> None:
    setting = nine_setting(load, kind)
    assert least <= predict(setting, paper_rule(setting.delays_ms, setting.periods_ms)).mean_ms <= most


def test_the_ends_of_the_scale_over_the_nine_scenarios() -> None:
    token = [predict(nine_setting(load), token_site_roles(5, 0)).mean_ms for load in NINE]
    assert (round(token[0]), round(token[7])) == (551, 1072) and max(token) == token[7]
    flat = [predict(nine_setting(load), symmetric_roles(5)).mean_ms for load in NINE]
    assert round(min(flat)) == round(flat[8]) == 548 and max(flat) == pytest.approx(1335, rel=0.01)


def brute_force(setting: Setting, roles: RoleAssignment, rounds: int, seed: int) -> list[float]:
    """The same latencies, message by message and recipient by recipient, with every packet's time drawn."""
    random = np.random.default_rng(seed)
    active, sites = roles.active, range(setting.count)
    delays, sequencer = np.array(setting.delays_ms), roles.sequencer

    def before_and_after(streams: tuple[MessageStream, ...]) -> tuple[np.ndarray, np.ndarray]:
        """The time since the last and to the next message of several streams."""
        last, following = np.full(rounds, inf), np.full(rounds, inf)
        for stream in streams:
            if stream.kind == "periodic":
                after = random.uniform(0, stream.period_ms, rounds)
                before = stream.period_ms - after
            else:
                before, after = (random.exponential(stream.period_ms, rounds) for _ in range(2))
            last, following = np.minimum(last, before), np.minimum(following, after)
        return last, following

    ages, rests = {}, {}
    for site in sites:
        ages[site], rests[site] = before_and_after(setting.streams[site])
    packets = {
        j: np.minimum.reduce([rests[q] for q in sites if q == j or (setting.eager and sequencer[q] == j)])
        for j in active
    }
    result = []
    for p in sites:
        a, latest = sequencer[p], np.zeros(rounds)
        for r in sites:
            sent = packets[a] if p != a and not setting.eager else np.zeros(rounds)  # when a's ticket leaves
            here = np.maximum(sent + delays[a][r] + delays[p][a], delays[p][r])
            for j in active:
                if j not in (a, r):
                    here = np.maximum(here, delays[p][a] + packets[j] + delays[j][r])
            for q in sites:
                if q not in (p, sequencer[q]):
                    here = np.maximum(here, delays[p][a] + delays[q][r] - delays[q][sequencer[q]] - ages[q])
            latest = np.maximum(latest, here)
        result.append(float(latest.mean()))
    return result


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("eager", [True, False])
@pytest.mark.parametrize("seed", range(6))
def test_brute_force_agrees(seed: int, eager: bool, kind) -> None:
    setting = drawn_setting(seed, kind, eager=eager)
    # The paper's roles, all active, and roles that no rule would give.
    for roles in (
        paper_rule(setting.delays_ms, setting.periods_ms),
        symmetric_roles(5),
        RoleAssignment((0, 1, 0, 1, 0)),
    ):
        expected = brute_force(setting, roles, 100_000, seed)
        assert predict(setting, roles).site_ms == pytest.approx(expected, rel=0.02)


@st.composite
def instances(draw: st.DrawFn) -> tuple[Setting, RoleAssignment]:
    count = draw(st.integers(1, 5))
    delay = st.floats(0, 500)
    delays = [[0.0 if a == b else draw(delay) for b in range(count)] for a in range(count)]
    stream = st.builds(MessageStream, st.sampled_from(KINDS), st.floats(0.5, 5000))
    streams = draw(st.lists(st.lists(stream, max_size=2).map(tuple), min_size=count, max_size=count))
    active = sorted(draw(st.sets(st.integers(0, count - 1), min_size=1)))
    sequencer = tuple(site if site in active else draw(st.sampled_from(active)) for site in range(count))
    null_ms = draw(st.sampled_from((0.0, 25.0)))
    setting = Setting(tuple(map(tuple, delays)), tuple(streams), draw(st.booleans()), null_ms)
    return setting, RoleAssignment(sequencer)


@settings(max_examples=100, deadline=None)
@given(instances())
def test_no_message_is_faster_than_light_and_all_scales_with_time(instance: tuple[Setting, RoleAssignment]) -> None:
    setting, roles = instance
    prediction = predict(setting, roles)
    for site, latency in enumerate(prediction.site_ms):
        a = roles.sequencer[site]
        floor = max(setting.reach_ms[site], setting.delays_ms[site][a] + setting.reach_ms[a])
        assert latency >= floor - 1e-9
    slower = Setting(
        tuple(tuple(3 * delay for delay in row) for row in setting.delays_ms),
        tuple(tuple(MessageStream(s.kind, 3 * s.period_ms) for s in own) for own in setting.streams),
        setting.eager,
        3 * setting.null_ms,
    )
    assert predict(slower, roles).site_ms == pytest.approx([3 * latency for latency in prediction.site_ms], rel=1e-6)


@settings(max_examples=60, deadline=None)
@given(instances(), st.randoms(use_true_random=False))
def test_names_do_not_matter(instance: tuple[Setting, RoleAssignment], random) -> None:
    setting, roles = instance
    order = list(range(setting.count))
    random.shuffle(order)  # the new site k is the old site order[k]
    place = {old: new for new, old in enumerate(order)}
    renamed = Setting(
        tuple(tuple(setting.delays_ms[a][b] for b in order) for a in order),
        tuple(setting.streams[a] for a in order),
        setting.eager,
        setting.null_ms,
    )
    before = predict(setting, roles).site_ms
    after = predict(renamed, RoleAssignment(tuple(place[roles.sequencer[old]] for old in order))).site_ms
    assert after == pytest.approx([before[old] for old in order], rel=1e-7)


@settings(max_examples=60, deadline=None)
@given(instances())
def test_more_packets_never_make_anybody_wait_longer(instance: tuple[Setting, RoleAssignment]) -> None:
    """A stream more at an active site only brings its promises sooner; nulls are left out, as their cycle varies."""
    setting, roles = instance
    plain = Setting(setting.delays_ms, setting.streams, setting.eager)
    busy = roles.active[0]
    more = list(setting.streams)
    more[busy] = (*more[busy], MessageStream("periodic", 50.0))
    before, after = predict(plain, roles), predict(Setting(plain.delays_ms, tuple(more), plain.eager), roles)
    assert all(new <= old + 1e-6 for new, old in zip(after.site_ms, before.site_ms, strict=True))


@pytest.mark.parametrize(
    "make",
    [
        lambda: MessageStream("poisson", 0.0),
        lambda: MessageStream("poisson", inf),
        lambda: Setting((), ()),
        lambda: Setting(((0.0, 1.0),), ((),)),
        lambda: Setting(((1.0,),), ((),)),
        lambda: Setting(((0.0, -1.0), (1.0, 0.0)), ((), ())),
        lambda: Setting(((0.0,),), ((),), null_ms=-1.0),
        lambda: RoleAssignment((1, 0)),
        lambda: RoleAssignment((5,)),
    ],
)
def test_what_makes_no_sense_is_refused(make) -> None:
    with pytest.raises(BadValue):
        make()
