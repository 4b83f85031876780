"""Recorded talk over a measured network: the data that the studies start from, where it is beside the repository."""

from __future__ import annotations

from pathlib import Path

import pytest

from isthmus.fuzz.judge import judge
from isthmus.scenario.load import load_scenario, read_traffic
from isthmus.scenario.workload import Recorded
from isthmus.topology.delay import Constant
from isthmus.topology.inputs.round_trips import load_measured
from isthmus.topology.model import Channel
from isthmus.topology.written import topology_to_toml

DATA = Path(__file__).parents[4] / "shared" / "data"
TALK = DATA / "irc" / "rust_seconds.csv"
CLOUD = DATA / "cloud" / "aws_2020_06.csv"
needs_talk = pytest.mark.skipif(not TALK.exists(), reason=f"{TALK} is not there")
needs_cloud = pytest.mark.skipif(not CLOUD.exists(), reason=f"{CLOUD} is not there")


@needs_talk
def test_recorded_talk_is_read() -> None:
    events = read_traffic(TALK, None, "")
    assert len(events) > 1000 and events[0][0] == 0
    assert [event[0] for event in events] == sorted(event[0] for event in events)
    assert len({event[1] for event in events}) > 5
    assert len(read_traffic(TALK, "rust.0", "")) < len(events)


@needs_talk
@needs_cloud
def test_recorded_talk_over_a_measured_network_is_ordered(tmp_path: Path) -> None:
    topology, _ = load_measured(
        CLOUD, model="gamma", rows="auto", sites=1, threshold_ms=None, per_pair=False, lan=Channel(Constant(0.5))
    )
    (tmp_path / "cloud.toml").write_text(topology_to_toml(topology))
    (tmp_path / "talk.toml").write_text(
        f"""
        topology = "cloud.toml"
        duration_ms = 60000
        wire = "reference"
        stack = {{ name = "token-site" }}
        [[workloads]]
        kind = "recorded"
        file = "{TALK}"
        trace = "rust.0"
        compression = 500
        """
    )
    scenario = load_scenario(tmp_path / "talk.toml")
    workload = scenario.workloads[0]
    assert isinstance(workload, Recorded)
    inside = sum(when / 500 < 60 for when, _, _ in workload.events)
    judged = judge(scenario)
    assert judged.failures() == []
    assert judged.summary.submitted_count == inside > 50
    assert judged.summary.delivered.count == inside * len(topology.sites)
    assert judged.summary.undelivered_count() == 0
