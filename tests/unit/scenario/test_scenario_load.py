"""Scenarios from files: topologies inside and beside, seeds, recorded traffic."""

from __future__ import annotations

from pathlib import Path

import pytest

from isthmus.core.errors import InputError
from isthmus.scenario.load import load_scenario, read_traffic, seconds
from isthmus.scenario.model import Scenario
from isthmus.scenario.workload import Recorded

NET = "[defaults]\nlan = { delay = 1 }\nwan = { delay = 10 }\n[[clusters]]\nname = 'a'\nsites = 2\n"
INLINE = NET.replace("[defaults", "[topology.defaults").replace("[[clusters", "[[topology.clusters")
REST = "[stack]\nname = 'fifo'\n"
POISSON = "[[workloads]]\nkind = 'poisson'\nrate_per_s = 1\n"


def load(folder: Path, text: str, seed: int | None = None) -> Scenario:
    (folder / "s.toml").write_text(text)
    return load_scenario(folder / "s.toml", seed)


def recorded(folder: Path, csv: str, more: str = "") -> tuple[tuple[float, int, int], ...]:
    (folder / "talk.csv").write_text(csv)
    text = f"{INLINE}{REST}[[workloads]]\nkind = 'recorded'\nfile = 'talk.csv'\n{more}"
    workload = load(folder, text).workloads[0]
    assert isinstance(workload, Recorded)
    return workload.events


def test_a_topology_inside_or_beside_is_the_same(tmp_path: Path) -> None:
    (tmp_path / "nets").mkdir()
    (tmp_path / "nets" / "s.toml").write_text(NET)
    beside = load(tmp_path, f"topology = 'nets/s.toml'\n{REST}{POISSON}")
    assert beside.topology == load(tmp_path, INLINE + REST + POISSON).topology
    assert len(beside.topology.sites) == 2


def test_the_path_of_a_topology_is_relative_to_the_scenario(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "net.toml").write_text(NET)
    (tmp_path / "deep" / "s.toml").write_text(f"topology = '../net.toml'\n{REST}{POISSON}")
    monkeypatch.chdir("/")
    assert load_scenario(tmp_path / "deep" / "s.toml").topology.name == "net"


def test_a_seed_given_stands_over_the_file(tmp_path: Path) -> None:
    text = "seed = 5\n" + INLINE + REST + POISSON
    assert load(tmp_path, text).seed == 5
    assert load(tmp_path, text, 0).seed == 0
    assert load(tmp_path, text, -(2**70)).seed == -(2**70)
    assert load(tmp_path, INLINE + REST + POISSON).seed == 0


def test_recorded_traffic_is_read_in_order_of_time_and_senders_in_order_of_appearance(tmp_path: Path) -> None:
    csv = "time,sender,bytes\n12.5,bob,7\n10,ann,5\n11,bob,\n"
    assert recorded(tmp_path, csv) == ((0.0, 0, 5), (1.0, 1, 1), (2.5, 1, 7))


def test_only_messages_of_the_trace_asked_for_count(tmp_path: Path) -> None:
    csv = "trace,time,event,sender\nx,1,msg,a\ny,2,msg,b\nx,3,join,c\nx,4,message,d\n"
    assert recorded(tmp_path, csv, "trace = 'x'\n") == ((0.0, 0, 1), (3.0, 1, 1))
    assert len(recorded(tmp_path, csv)) == 3


@pytest.mark.parametrize("head", ["time,sender", "time_s,user", "timestamp,source", "time_minute_local,member"])
def test_columns_have_several_names(tmp_path: Path, head: str) -> None:
    assert recorded(tmp_path, f"{head}\n1,a\n2,b\n") == ((0.0, 0, 1), (1.0, 1, 1))


def test_a_table_program_may_mark_the_beginning_of_the_file(tmp_path: Path) -> None:
    assert len(recorded(tmp_path, "\ufefftime,sender\n1,a\n")) == 1


def test_events_may_stand_in_the_scenario_itself(tmp_path: Path) -> None:
    events = "[[workloads]]\nkind = 'recorded'\nevents = [[0, 0, 10], [1.5, 1, 20]]\n"
    workload = load(tmp_path, INLINE + REST + events).workloads[0]
    assert isinstance(workload, Recorded) and workload.events == ((0.0, 0, 10), (1.5, 1, 20))


@pytest.mark.parametrize(
    ("csv", "words"),
    [
        ("", "found no names of columns; expected columns time and sender"),
        ("when,who\n1,a\n", "found the columns when, who; expected columns time and sender"),
        ("time,sender\n", "found no messages"),
        ("time,sender\nsoon,a\n", "line 2: found ['soon', 'a']; expected a time"),
        ("time,sender\nnan,a\n", "line 2: found ['nan', 'a']; expected a time"),
        ("time,sender\n1,a\ninf,a\n", "line 3: found ['inf', 'a']; expected a time"),
        ("time,sender,bytes\n1,a,many\n", "line 2: found ['1', 'a', 'many']; expected a time"),
        ("time,sender,bytes\n1,a,99999999999\n", "line 2: found ['1', 'a', '99999999999']; expected a time"),
        ("sender,time\na\n", "line 2: found ['a']; expected a time"),
        ("time,sender\n1," + "x" * 200_000, "a syntax error (field larger"),
        ("time,sender\n0,a\n1e18,a\n", "workloads[0].events[1]: found 1e+18; expected seconds in order of time"),
    ],
)
def test_a_bad_csv_is_one_sentence_with_its_line(tmp_path: Path, csv: str, words: str) -> None:
    with pytest.raises(InputError) as refused:
        recorded(tmp_path, csv)
    assert words in str(refused.value) and "\n" not in str(refused.value)


def test_csv_that_cannot_be_read(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing.csv", tmp_path / "s.toml" / "x.csv"):
        with pytest.raises(InputError, match="CSV file"):
            read_traffic(path, None, "s.toml: workloads[0].file")
    (tmp_path / "talk.csv").write_bytes(b"time,sender\n1,\xff\n")
    with pytest.raises(InputError, match="UTF-8"):
        read_traffic(tmp_path / "talk.csv", None, "")
    with pytest.raises(InputError, match="no messages of trace 'x'"):
        recorded(tmp_path, "time,sender\n1,a\n", "trace = 'x'\n")


def test_times_are_seconds_or_dates() -> None:
    assert seconds("2.5") == 2.5
    assert seconds("2018-05-29T21:20:48") - seconds("2018-05-29T21:20:37") == 11
    assert seconds("2018-05-29T21:20:48+02:00") - seconds("2018-05-29T19:20:48Z") == 0


def test_a_stack_inside_or_beside_is_the_same(tmp_path: Path) -> None:
    (tmp_path / "stack.toml").write_text("name = 'token-site'\nsequencer = 'a-1'\n[credit]\nwindow = 7\n")
    beside = load(tmp_path, f"stack = 'stack.toml'\n{INLINE}{POISSON}")
    inside = "[stack]\nname = 'token-site'\nsequencer = 'a-1'\n[stack.credit]\nwindow = 7\n"
    assert beside.stack == load(tmp_path, INLINE + inside + POISSON).stack
    assert beside.stack.credit.window == 7


def test_a_mistake_in_a_stack_beside_names_that_file(tmp_path: Path) -> None:
    (tmp_path / "stack.toml").write_text("name = 'token-site'\n[credit]\nwidnow = 7\n")
    with pytest.raises(InputError) as refused:
        load(tmp_path, f"stack = 'stack.toml'\n{INLINE}{POISSON}")
    assert str(refused.value).startswith(f"{tmp_path}/stack.toml: credit.widnow: found an unknown key")
    (tmp_path / "stack.toml").write_text("name = 'token-site'\nsequencer = 'nobody'\n")
    with pytest.raises(InputError) as refused:
        load(tmp_path, f"stack = 'stack.toml'\n{INLINE}{POISSON}")
    assert str(refused.value).startswith(f"{tmp_path}/s.toml: stack.sequencer: found 'nobody'")


def test_membership_by_its_kind_alone_or_as_a_table(tmp_path: Path) -> None:
    alone = load(tmp_path, 'membership = "agreed"\n' + INLINE + REST + POISSON)
    table = load(tmp_path, INLINE + REST + POISSON + '[membership]\nkind = "agreed"\n')
    assert alone == table and alone.membership.kind == "agreed"
    more = "[membership]\nkind = 'agreed'\n[membership.agreed]\nfile = true\nweights = { a-0 = 3 }\n"
    made = load(tmp_path, INLINE + REST + POISSON + more)
    assert made.membership.agreed.file and made.membership.agreed.votes(made.topology) == {0: 3}


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("[membership]\nkind = 'agreed'\nhasty = true\n", "membership.hasty"),
        ("[membership.agreed]\nfile = true\n", "membership.agreed"),
        ("[membership]\nkind = 'agreed'\n[membership.agreed]\nweights = { nobody = 1 }\n", "nobody"),
        (
            "[membership]\nkind = 'agreed'\nagreed.lan = { heartbeat_ms = 5, floor_ms = 1, ceiling_ms = 9 }\n",
            "floor_ms",
        ),
        ("[membership]\nkind = 'voted'\n", "voted"),
        ("[[faults]]\nkind = 'leave'\nat_ms = 1\nsite = 'a-0'\n", "membership is agreed"),
    ],
)
def test_what_agreed_membership_refuses(tmp_path: Path, more: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        load(tmp_path, INLINE + REST + POISSON + more)


def test_the_direct_transport_keeps_nothing_to_agree_on(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="membership is not ideal"):
        load(tmp_path, 'membership = "agreed"\n' + INLINE + REST + "transport = 'direct'\n" + POISSON)
