"""Sizes of timestamps and histories at any number of LANs and hosts."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from isthmus.cli.study import command
from isthmus.studies.causal.setup import RULES, Traffic, causal_scenario
from isthmus.studies.causal.sizes import causal_sizes, spread_of


def test_a_spread_has_mean_95th_percentile_and_maximum() -> None:
    assert spread_of([]) is None
    assert spread_of([7]) is not None
    spread = spread_of([*range(100, 0, -1)])
    assert spread is not None and (spread.mean, spread.p95, spread.most) == (50.5, 95, 100)


@pytest.mark.parametrize("traffic", ["groups", "subsets", "drawn"])
def test_separators_shorten_what_is_told_and_kept(traffic: Traffic) -> None:
    without, with_them = (causal_sizes(3, 4, rules, [1], traffic) for rules in ("all but R9", "all"))
    assert without.messages == with_them.messages > 20
    assert without.entries is not None and with_them.entries is not None
    assert without.history is not None and with_them.history is not None
    assert with_them.entries.mean < without.entries.mean
    assert with_them.history.mean < without.history.mean


def test_a_vector_has_an_entry_per_host_and_no_history() -> None:
    sizes = causal_sizes(3, 4, "vector", [1, 2], "groups")
    assert sizes.entries is not None and (sizes.entries.mean, sizes.entries.most) == (12, 12)
    assert sizes.history is None


def test_sets_are_drawn_for_each_message() -> None:
    local, across = causal_scenario(3, 4, "causal-separators", RULES["all"], 1, "drawn").workloads[:2]
    assert (local.to, len(local.among), len(across.among)) == (2, 4, 12)


def test_the_command_prints_json_and_refuses_hosts_of_nodes() -> None:
    words = ["causal", "--lans", "2", "--hosts", "3", "--rules", "all", "--rules", "matrix", "--json"]
    done = CliRunner().invoke(command, words)
    found = json.loads(done.stdout)
    assert (found["lans"], found["hosts"], [row["rules"] for row in found["sizes"]]) == (2, 3, ["all", "matrix"])
    assert found["sizes"][1]["entries"]["mean"] == 36
    refused = CliRunner().invoke(command, ["causal", "--traffic", "nested", "--hosts", "4"])
    assert refused.exit_code != 0 and "expected 10" in str(refused.exception)
