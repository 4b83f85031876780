"""Scenarios with one mistake each, through the command line: one sentence, exit code 2, nothing left behind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from isthmus.cli.main import main

GOOD = """
duration_ms = 1000
stack = { name = "token-site" }
[topology.defaults]
lan = { delay = 1 }
wan = { delay = 10 }
[[topology.clusters]]
name = "a"
sites = 2
[[topology.clusters]]
name = "b"
[[workloads]]
kind = "poisson"
rate_per_s = 5
"""


def head(line: str) -> str:
    """The good scenario with a line in front."""
    return line + "\n" + GOOD


def tail(*lines: str) -> str:
    """The good scenario with lines at the end, first of all inside its workload."""
    return GOOD + "\n".join(lines) + "\n"


def swap(old: str, new: str) -> str:
    assert GOOD.count(old) == 1
    return GOOD.replace(old, new)


def stack(inside: str) -> str:
    return swap('name = "token-site"', f'name = "token-site", {inside}')


def workload(*lines: str) -> str:
    return swap('kind = "poisson"\nrate_per_s = 5', "\n".join(lines))


def fault(*lines: str) -> str:
    return tail("[[faults]]", *lines)


def participant(*lines: str) -> str:
    return tail("[[participants]]", 'name = "ann"', 'group = "orders"', *lines)


CASES: dict[str, tuple[str, str]] = {  # what is wrong: the scenario, then how the sentence goes on after the file
    # Participants
    "a participant nowhere": (participant('site = "c"'), ": participants[0].site: found 'c'; expected"),
    "a participant of another group": (
        participant('site = "a-0"', 'within = "x"'),
        ": participants[0].within: found 'x'; expected",
    ),
    "a participant that leaves first": (
        participant('site = "a-0"', "join_ms = 9", "leave_ms = 9"),
        ": participants[0].leave_ms: found 9.0; expected a time after join_ms, 9",
    ),
    "a participant over no order": (
        participant('site = "a-0"').replace("token-site", "unordered"),
        ": participants[0].within: found a group with the stack unordered; expected one with a stack of fifo, causal",
    ),
    "conditions of nobody": (
        participant('site = "a-0"', "[participant_groups.order]", 'present = ["ann"]'),
        ": participant_groups.order: found conditions; expected",
    ),
    # The clock service
    "a drift no service bears": (
        tail("[clocks]", "drift_ppm = 50000", "[clocks.service]"),
        ": clocks.drift_ppm: found 50000.0; expected at most 10000, with a clock service",
    ),
    "an agreement longer than the period": (
        tail("[clocks.service]", "period_ms = 25"),
        ": clocks.service.agreement_ms: found 20, with a window of 10; expected less than the period (25) with",
    ),
    "a LAN without a reference, refused": (
        tail("[clocks.service]", 'without_reference = "refuse"'),
        ": clocks.service.without_reference: found 'refuse', and a has no reference; expected a reference in a, or",
    ),
    "an unknown way without a reference": (
        tail("[clocks.service]", 'without_reference = "guess"'),
        ": clocks.service.without_reference: found 'guess'; expected one of clients, refuse, round-trips",
    ),
    "a repeat before its frame": (
        tail("[clocks.broadcast]", "repeat_ms = [8, 2]"),
        ": clocks.broadcast.repeat_ms[1]: found 2.0; expected a number from 8",
    ),
    "negative tightness": (
        tail("[clocks.broadcast]", "tightness_us = -1"),
        ": clocks.broadcast.tightness_us: found -1.0; expected a number from 0",
    ),
    "a reference outside": (
        swap("sites = 2", 'sites = 2\nreferences = ["b-0"]'),
        ": topology.clusters[0].references[0]: found 'b-0'; expected a site of a: one of a-0, a-1",
    ),
    "a fault of a reference that is none": (
        fault('kind = "reference-death"', 'site = "a-0"', "at_ms = 5") + "[clocks.service]\n",
        ": faults[0].site: found 'a-0', which has no reference; expected one of ",
    ),
    "a fault of a reference without a service": (
        swap("sites = 2", 'sites = 2\nreferences = ["a-0"]')
        + '[[faults]]\nkind = "reference-jump"\nsite = "a-0"\nat_ms = 5\nby_ms = 3\n',
        ": faults[0].kind: found 'reference-jump'; expected another fault, unless there is a [clocks.service]",
    ),
    "a reference that lies for no time": (
        fault('kind = "reference-lie"', 'site = "a-0"', "at_ms = 5", "until_ms = 5", "by_ms = 3"),
        ": faults[0].until_ms: found 5.0; expected a time after at_ms (5)",
    ),
    "clocks over packets": (
        tail("[clocks.service]", "[network]", 'kind = "packets"'),
        ": clocks.service: found a clock service; expected none on a packet network",
    ),
    # Costs of hosts and LANs
    "negative costs": (
        tail("[network.costs]", "send_us = -1"),
        ": network.costs.send_us: found -1.0; expected a number",
    ),
    "a LAN of no group": (
        tail("[network.costs]", 'lans = [["x"]]'),
        ": network.costs.lans[0][0]: found 'x'; expected",
    ),
    "a loop without rounds": (
        workload('kind = "closed"', "burst_count = 2", "rounds = 0"),
        ": workloads[0].rounds: found 0; expected a whole number from 1",
    ),
    # The file as a whole
    "syntax": (head("seed = "), ": found a syntax error"),
    "a number of 5000 digits": (head("seed = " + "9" * 5000), ": found a syntax error"),
    "lists without end": (head("name = " + "[" * 5000), ": found lists or tables too deep"),
    "empty": ("", ": topology: found nothing; expected the path of a topology file, or a [topology] table"),
    "unknown key": (head("sead = 3"), ": sead: found an unknown key; expected one of stack, name, seed"),
    "unknown table": (tail("[fault]"), ": fault: found an unknown key; expected one of "),
    # Settings
    "seed is text": (head('seed = "3"'), ": seed: found '3'; expected a whole number"),
    "seed is a fraction": (head("seed = 1.5"), ": seed: found 1.5; expected a whole number"),
    "duration is text": (swap("1000", '"1 s"'), ": duration_ms: found '1 s'; expected a number"),
    "negative duration": (swap("1000", "-1"), ": duration_ms: found -1.0; expected a number from "),
    "duration nan": (swap("1000", "nan"), ": duration_ms: found nan; expected a number from "),
    "duration inf": (swap("1000", "inf"), ": duration_ms: found inf; expected a number from "),
    "endless duration": (swap("1000", "1" + 400 * "0"), ": duration_ms: found 1000"),
    "negative drain": (head("drain_ms = -0.5"), ": drain_ms: found -0.5; expected a number from 0"),
    "name out of the folder": (head('name = "../x"'), ": name: found '../x'; expected a name for a folder"),
    "name is a number": (head("name = 3"), ": name: found 3; expected a text"),
    "unknown wire": (head('wire = "coded"'), ": wire: found 'coded'; expected one of codec, reference, sized (did"),
    "unknown trace": (head("trace = true"), ": trace: found true; expected one of events, none, wire"),
    # Topology
    "topology is a number": ("topology = 3\n", ": topology: found 3; expected"),
    "topology file is missing": ('topology = "net.toml"\n', ": topology: found 'net.toml', which is no file; expected"),
    "topology path is a folder": ('topology = "."\n', ": topology: found '.', which is no file; expected the path"),
    "topology path goes through a file": ('topology = "bad.toml/net.toml"\n', ": topology: found 'bad.toml/net"),
    "no clusters": ("topology = {}\n", ": topology.clusters: found nothing; expected at least one cluster"),
    "negative delay": (swap("delay = 10", "delay = -10"), ": topology.defaults.wan.delay"),
    "unknown key in a cluster": (swap("sites = 2", "site = 2"), ": topology.clusters[0].site: found an unknown key"),
    "clusters apart": (swap("wan = { delay = 10 }", ""), ": topology.links: found no path from a to b"),
    # Stack
    "no stack": (swap('stack = { name = "token-site" }', ""), ": stack: found nothing; expected a [stack] table"),
    "stack is text": (
        swap('{ name = "token-site" }', '"fifo"'),
        ": stack: found 'fifo', which is no file; expected a [stack] table",
    ),
    "stack without name": (swap('{ name = "token-site" }', "{}"), ": stack.name: found nothing; expected this key"),
    "unknown stack": (swap("token-site", "tokensite"), ": stack.name: found 'tokensite'; expected one of unordered"),
    "unknown transport": (stack('transport = "udp"'), ": stack.transport: found 'udp'; expected one of direct"),
    "unknown sequencer": (stack('sequencer = "a-7"'), ": stack.sequencer: found 'a-7'; expected one of a-0, a-1, b-0"),
    "sequencer is a cluster": (stack('sequencer = "a"'), ": stack.sequencer: found 'a'; expected one of a-0, a-1"),
    "negative batch": (stack("batch_ms = -1"), ": stack.batch_ms: found -1.0; expected a number from 0"),
    "batch nan": (stack("batch_ms = nan"), ": stack.batch_ms: found nan; expected a number from 0"),
    "window 0": (stack("credit = { window = 0 }"), ": stack.credit.window: found 0; expected a whole number from 1"),
    "negative window": (stack("credit = { window = -5 }"), ": stack.credit.window: found -5; expected a whole number"),
    "queue 0": (stack("credit = { queue_max = 0 }"), ": stack.credit.queue_max: found 0; expected a whole number"),
    "no probes": (stack("credit = { probe_period_ms = 0 }"), ": stack.credit.probe_period_ms: found 0.0; expected"),
    "keep nothing": (stack("reliable = { keep_max = 0 }"), ": stack.reliable.keep_max: found 0; expected a whole"),
    "hold nothing": (stack("reliable = { hold_max = -1 }"), ": stack.reliable.hold_max: found -1; expected a whole"),
    "never acknowledge": (stack("reliable = { ack_every = 0 }"), ": stack.reliable.ack_every: found 0; expected"),
    "never repair": (stack("reliable = { repair_max = 0 }"), ": stack.reliable.repair_max: found 0; expected"),
    "negative nak": (stack("reliable = { nak_delay_ms = -1 }"), ": stack.reliable.nak_delay_ms: found -1.0; expected"),
    "nak at once for ever": (stack("reliable = { nak_retry_ms = 0 }"), ": stack.reliable.nak_retry_ms: found 0.0;"),
    "status nan": (stack("reliable = { status_period_ms = nan }"), ": stack.reliable.status_period_ms: found nan;"),
    "unknown option": (stack("credit = { windo = 1 }"), ": stack.credit.windo: found an unknown key; expected one of"),
    "direct over loss": (
        stack('transport = "direct"').replace("wan = { delay = 10 }", "wan = { delay = 10, loss = 0.1 }"),
        ": stack.transport: found 'direct'; expected reliable, where channels lose",
    ),
    # Workloads
    "no workloads": (workload().replace("[[workloads]]", ""), ": workloads: found nothing; expected at least one"),
    "workloads is a table": (GOOD.replace("[[workloads]]", "[workloads]"), ": workloads: found a table with kind"),
    "workloads is empty": (GOOD.split("[[w")[0].replace("dur", "workloads = []\ndur"), ": workloads: found []; exp"),
    "a workload is text": (GOOD.split("[[w")[0].replace("dur", "workloads = ['x']\ndur"), ": workloads[0]: found 'x'"),
    "no kind": (workload("rate_per_s = 5"), ": workloads[0].kind: found nothing; expected this key"),
    "unknown kind": (workload('kind = "poison"'), ": workloads[0].kind: found 'poison'; expected one of periodic"),
    "key of another kind": (tail("burst_count = 3"), ": workloads[0].burst_count: found an unknown key; expected one"),
    "no rate": (workload('kind = "poisson"'), ": workloads[0].rate_per_s: found nothing; expected this key"),
    "rate 0": (swap("= 5", "= 0"), ": workloads[0].rate_per_s: found 0.0; expected a number from"),
    "rate beyond time": (swap("= 5", "= 1e200"), ": workloads[0].rate_per_s: found 1e+200; expected a number from"),
    "payload of 10 GB": (tail("payload_bytes = 10_000_000_000"), ": workloads[0].payload_bytes: found 10000000000;"),
    "negative count": (tail("count = -1"), ": workloads[0].count: found -1; expected a whole number of at least 0"),
    "negative start": (tail("start_ms = -1"), ": workloads[0].start_ms: found -1.0; expected a number from 0"),
    "stop before start": (tail("start_ms = 9", "stop_ms = 5"), ": workloads[0].stop_ms: found 5.0; expected a time"),
    "unknown sender": (tail('sites = ["a", "x"]'), ": workloads[0].sites[1]: found 'x'; expected one of a, b, a-0"),
    "sites is text": (tail('sites = "a"'), ": workloads[0].sites: found 'a'; expected a list"),
    "unknown addressee": (tail('to = ["z"]'), ": workloads[0].to[0]: found 'z'; expected one of a, b, a-0"),
    "to one word": (tail('to = "a"'), ": workloads[0].to: found 'a'; expected \"all\", a list of names, or a number"),
    "to nobody": (tail("to = []"), ": workloads[0].to: found an empty list; expected at least one name"),
    "subset too large": (tail("to = 4"), ": workloads[0].to: found 4; expected at most the 3 sites of the topology"),
    "subset too large for where it is drawn": (
        tail("to = 2", 'among = ["b"]'),
        ": workloads[0].to: found 2; expected at most the 1 sites of the topology that `among` names",
    ),
    "drawn among unknown sites": (tail("to = 1", 'among = ["z"]'), ": workloads[0].among[0]: found 'z'; expected one"),
    "nothing drawn": (tail('among = ["b"]'), ": workloads[0].among: found ['b']; expected nothing, unless `to` is"),
    "burst of none": (
        workload('kind = "burst"', "period_ms = 10", "burst_count = 0"),
        ": workloads[0].burst_count: found 0; expected a whole number from 1",
    ),
    "burst beyond floats": (
        workload('kind = "burst"', "period_ms = 10", "burst_count = 1" + 400 * "0"),
        ": workloads[0].burst_count: found 1000",
    ),
    "burst longer than its period": (
        workload('kind = "burst"', "period_ms = 10", "burst_count = 3", "spacing_ms = 6"),
        ": workloads[0].spacing_ms: found 6.0; expected a burst that fits in period_ms",
    ),
    "never on": (
        workload('kind = "on-off"', "rate_per_s = 1", "on_ms = 1e-300", "off_ms = 1"),
        ": workloads[0].on_ms: found 1e-300; expected a number from",
    ),
    "reply too deep": (tail("[[workloads]]", 'kind = "reply"', "depth = 999"), ": workloads[1].depth: found 999; exp"),
    "nothing recorded": (
        workload('kind = "recorded"'),
        ": workloads[0].file: found nothing; expected the path of a CSV file, or events in its place",
    ),
    "recording is missing": (
        workload('kind = "recorded"', 'file = "no.csv"'),
        ": workloads[0].file: found 'no.csv', which is no file; expected the path of a CSV file",
    ),
    "recording is no CSV": (
        workload('kind = "recorded"', 'file = "bad.toml"'),
        ": found no names of columns; expected columns time and sender",
    ),
    "recorded backwards": (
        workload('kind = "recorded"', "events = [[1, 0, 1], [0, 0, 1]]"),
        ": workloads[0].events[1]: found 0.0; expected seconds in order of time",
    ),
    "an event too short": (
        workload('kind = "recorded"', "events = [[1, 0]]"),
        ": workloads[0].events[0]: found [1, 0]; expected",
    ),
    # Faults
    "unknown fault": (fault('kind = "crush"', "at_ms = 1"), ": faults[0].kind: found 'crush'; expected one of crash"),
    "fault without time": (fault('kind = "heal"'), ": faults[0].at_ms: found nothing; expected this key"),
    "fault before the start": (fault('kind = "heal"', "at_ms = -1"), ": faults[0].at_ms: found -1.0; expected"),
    "fault after the end": (
        fault('kind = "heal"', "at_ms = 1001"),
        ": faults[0].at_ms: found 1001.0; expected a time within the scenario's 1000 ms",
    ),
    "unknown site crashes": (
        fault('kind = "crash"', "at_ms = 1", 'site = "c"'),
        ": faults[0].site: found 'c'; expected one of a-0, a-1, b-0",
    ),
    "a cluster crashes": (
        fault('kind = "crash"', "at_ms = 1", 'site = "a"'),
        ": faults[0].site: found 'a'; expected one of a-0, a-1, b-0",
    ),
    "unknown site in a group": (
        fault('kind = "partition"', "at_ms = 1", 'groups = [["a"], ["x"]]'),
        ": faults[0].groups[1][0]: found 'x'; expected one of a, b",
    ),
    "groups overlap": (
        fault('kind = "partition"', "at_ms = 1", 'groups = [["a"], ["b", "a-1"]]'),
        ": faults[0].groups[1]: found ['b', 'a-1']; expected groups that share no site",
    ),
    "no groups": (fault('kind = "partition"', "at_ms = 1", "groups = []"), ": faults[0].groups: found []; expected"),
    "fault ends before it begins": (
        fault('kind = "loss"', "at_ms = 5", "until_ms = 4", "probability = 0.1"),
        ": faults[0].until_ms: found 4.0; expected a time after at_ms (5)",
    ),
    "fault without end": (
        fault('kind = "loss"', "at_ms = 5", "until_ms = inf", "probability = 0.1"),
        ": faults[0].until_ms: found inf; expected a time after at_ms (5)",
    ),
    "loss above 1": (
        fault('kind = "loss"', "at_ms = 5", "until_ms = 6", "probability = 1.1"),
        ": faults[0].probability: found 1.1; expected a probability from 0 to 1",
    ),
    "unknown source": (
        fault('kind = "delay-shift"', "at_ms = 5", "until_ms = 6", 'source = ["q"]'),
        ": faults[0].source[0]: found 'q'; expected one of a, b",
    ),
    "unknown target": (
        fault('kind = "delay-shift"', "at_ms = 5", "until_ms = 6", 'target = ["q"]'),
        ": faults[0].target[0]: found 'q'; expected one of a, b",
    ),
    "negative factor": (
        fault('kind = "delay-shift"', "at_ms = 5", "until_ms = 6", "factor = -2"),
        ": faults[0].factor: found -2.0; expected a number from 0",
    ),
    "jump to nowhere": (
        fault('kind = "clock-jump"', "at_ms = 5", 'site = "a-0"', "by_ms = inf"),
        ": faults[0].by_ms: found inf; expected a number from",
    ),
    "negative number of faults": (tail("[random_faults]", "crashes = -1"), ": random_faults.crashes: found -1; expec"),
    "a billion partitions": (tail("[random_faults]", "partitions = 1_000_000_000"), ": random_faults.partitions: fou"),
    "half a crash": (tail("[random_faults]", "crashes = 0.5"), ": random_faults.crashes: found 0.5; expected a whole"),
    # Clocks, readers, membership
    "drift too large": (tail("[clocks]", "drift_ppm = 100000"), ": clocks.drift_ppm: found 100000.0; expected"),
    "negative offset": (tail("[clocks]", "offset_ms = -1"), ": clocks.offset_ms: found -1.0; expected"),
    "unknown reader": (
        tail("[[readers]]", 'sites = ["x"]', "consume_ms = 1"),
        ": readers[0].sites[0]: found 'x'; expected one of a, b",
    ),
    "nobody reads": (tail("[[readers]]", "sites = []", "consume_ms = 1"), ": readers[0].sites: found an empty list;"),
    "reads in no time": (tail("[[readers]]", 'sites = ["a"]', "consume_ms = 0"), ": readers[0].consume_ms: found 0.0"),
    "detected before": (tail("[membership]", "detection_ms = -1"), ": membership.detection_ms: found -1.0; expected"),
    "a table of another stack": (
        stack("ring = { batch = 3 }"),
        ": stack.ring: found a table with batch; expected one of ",
    ),
    "a switch of another stack": (
        swap('name = "token-site"', 'name = "flooding-dynamic", safe = true'),
        ": stack.safe: found true; expected false, with the stack flooding-dynamic: a flood tells nobody who has what",
    ),
    "a table for another membership": (
        tail("[membership]", 'kind = "ideal"', "agreed.weights = { a-0 = 2 }"),
        ": membership.agreed: found a table with weights; expected nothing",
    ),
    "a broken weight": (
        tail("[membership]", 'kind = "agreed"', "agreed.weights = { b-0 = 1, a-0 = 1.5 }"),
        ": membership.agreed.weights.a-0: found 1.5; expected a whole number",
    ),
    "no votes at all": (
        tail("[membership]", 'kind = "agreed"', "agreed.weights = { a-0 = 0, a-1 = 0, b-0 = 0 }"),
        ": membership.agreed.weights: found a weight of 0 for every site; expected at least one site with a vote",
    ),
}


def answer(monkeypatch, capsys, *arguments: str) -> str:
    """What the command line says to bad input: one line, and nothing else."""
    monkeypatch.setattr(sys, "argv", ["isthmus", *arguments])
    with pytest.raises(SystemExit) as left:
        main()
    out, err = capsys.readouterr()
    assert left.value.code == 2, err
    assert out == "" and err.count("\n") == 1 and "Traceback" not in err
    assert err.startswith("isthmus: ") and "; expected " in err, err
    return err.removeprefix("isthmus: ").rstrip("\n")


def test_the_good_scenario_is_good(tmp_path: Path, monkeypatch, capsys) -> None:
    (tmp_path / "good.toml").write_text(GOOD)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["isthmus", "sim", "good.toml"])
    main()
    assert "6 valid" in capsys.readouterr().out


@pytest.mark.parametrize("wrong", CASES)
def test_a_mistake_is_one_sentence(wrong: str, tmp_path: Path, monkeypatch, capsys) -> None:
    text, words = CASES[wrong]
    (tmp_path / "bad.toml").write_text(text)
    monkeypatch.chdir(tmp_path)
    sentence = answer(monkeypatch, capsys, "sim", "bad.toml")
    assert sentence.startswith("bad.toml" + words), sentence
    assert len(sentence) < 300
    assert [path.name for path in tmp_path.iterdir()] == ["bad.toml"], "nothing is left behind"


def test_files_that_are_none(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "latin.toml").write_bytes(b'name = "caf\xe9"\n')
    assert answer(monkeypatch, capsys, "sim", "folder").startswith("folder: found a folder; expected the path of a")
    assert answer(monkeypatch, capsys, "sim", "none.toml").startswith("none.toml: found no such file; expected the pa")
    assert answer(monkeypatch, capsys, "sim", "latin.toml").startswith("latin.toml: found bytes that are not UTF-8")
    assert "File name too long" in answer(monkeypatch, capsys, "sim", "x" * 300)


def test_a_csv_beside_the_scenario_is_named_with_its_line(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "talk.csv").write_text("time,sender\n1,a\nlater,b\n")
    (tmp_path / "bad.toml").write_text(workload('kind = "recorded"', 'file = "talk.csv"'))
    assert answer(monkeypatch, capsys, "sim", "bad.toml").startswith("talk.csv: line 3: found ['later', 'b']; expect")


@pytest.mark.parametrize("wrong", ["syntax", "unknown stack", "groups overlap"])
def test_a_process_of_its_own_says_the_same(wrong: str, tmp_path: Path) -> None:
    text, words = CASES[wrong]
    (tmp_path / "bad.toml").write_text(text)
    command = [sys.executable, "-c", "from isthmus.cli.main import main; main()", "sim", "bad.toml"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith("isthmus: bad.toml" + words) and done.stderr.count("\n") == 1


@pytest.mark.parametrize("seed", ["9223372036854775808", "-1", str(10**60)])
def test_any_whole_number_is_a_seed(seed: str, tmp_path: Path, monkeypatch, capsys) -> None:
    (tmp_path / "good.toml").write_text(head(f"seed = {seed}"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["isthmus", "sim", "good.toml"])
    main()
    assert "6 valid" in capsys.readouterr().out
    assert (tmp_path / "out" / f"scenario-token-site-{seed}").is_dir()
