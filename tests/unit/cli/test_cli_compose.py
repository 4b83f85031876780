"""`isthmus compose` as a user meets it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[3] / "examples"
Isthmus = Callable[..., tuple[int, str, str]]
REFUSED = """
name = "refused"
groups = [
  { name = "A", members = 2, stack = "causal-vector" },
  { name = "B", members = 2, stack = "causal-vector" },
  { name = "C", members = 2, stack = "causal-vector" },
]
igps = [{ name = "I", stack = "fifo" }]
routers = [
  { name = "rA", joins = ["A", "I"] },
  { name = "rB", joins = ["B", "I"] },
  { name = "rC", joins = ["C", "I"] },
]
domains = [{ name = "everyone", wants = "causal", scope = "all" }]
"""


@pytest.fixture
def refused(tmp_path: Path) -> Path:
    path = tmp_path / "refused.toml"
    path.write_text(REFUSED)
    return path


def test_what_is_guaranteed_is_told_with_its_theorem(isthmus: Isthmus, tmp_path: Path) -> None:
    code, out, err = isthmus("compose", "check", str(EXAMPLES / "composition-paired.toml"), "-o", str(tmp_path / "out"))
    assert code == 0 and err == ""
    assert "guaranteed" in out and "causal  theorem 2: both groups are causal" in out
    assert not (tmp_path / "out").exists()


def test_a_refusal_has_a_reason_a_picture_and_a_change(isthmus: Isthmus, refused: Path, tmp_path: Path) -> None:
    code, out, err = isthmus("compose", "check", str(refused), "-o", str(tmp_path / "out"), "--png")
    assert code == 1 and err == ""
    assert "causal  no, third-party relay: I keeps only FIFO" in out
    assert "Counterexample: " in out and "which happened before it" in out
    assert "Cheapest change: make I causal instead of fifo." in out
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["everyone-causal.png", "everyone-causal.svg"]


def test_json_says_the_same(isthmus: Isthmus, refused: Path, tmp_path: Path) -> None:
    code, out, _ = isthmus("compose", "check", str(refused), "--json", "--no-pictures", "-o", str(tmp_path / "out"))
    document = json.loads(out)
    assert code == 1 and document["status"] == "refused"
    (domain,) = document["domains"]
    assert domain["gets"] == "fifo" and domain["change"]["changes"] == ["make I causal instead of fifo"]
    assert [one["guaranteed"] for one in domain["orders"]] == [True, False, False]
    assert domain["pictures"] == [] and not (tmp_path / "out").exists()


def test_domains_are_decided_together(isthmus: Isthmus) -> None:
    code, out, _ = isthmus("compose", "check", str(EXAMPLES / "composition-pipeline.toml"), "--json")
    (together,) = json.loads(out)["together"]
    assert code == 0 and together["domains"] == ["sensing", "acting"] and together["gets"].startswith("causal")


def test_bare_datagrams_are_refuted_by_a_loss(isthmus: Isthmus, refused: Path, tmp_path: Path) -> None:
    refused.write_text(REFUSED.replace('stack = "fifo" }]', 'kind = "datagrams" }]'))
    code, out, _ = isthmus("compose", "check", str(refused), "-o", str(tmp_path / "out"))
    assert code == 1 and "I is bare datagrams" in out and "a message is lost on its way" in out
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == ["everyone-fifo-reordered.svg", "everyone-fifo.svg"] and "Also, " in out


@pytest.mark.parametrize("ending", ["svg", "png"])
def test_a_picture_is_drawn_and_the_same_each_time(isthmus: Isthmus, tmp_path: Path, ending: str) -> None:
    pictures = []
    for number in range(2):
        path = tmp_path / f"{number}.{ending}"
        code, out, _ = isthmus("compose", "show", str(EXAMPLES / "composition-hierarchical.toml"), "-o", str(path))
        assert code == 0 and out == f"wrote {path}\n"
        pictures.append(path.read_bytes())
    assert pictures[0] == pictures[1]


def test_a_picture_is_not_overwritten_without_a_word(isthmus: Isthmus, refused: Path, tmp_path: Path) -> None:
    path = tmp_path / "net.svg"
    path.write_text("mine")
    code, _, err = isthmus("compose", "show", str(refused), "-o", str(path))
    assert code == 2 and "an existing file" in err and path.read_text() == "mine"
    assert isthmus("compose", "show", str(refused), "-o", str(path), "--force")[0] == 0


@pytest.mark.parametrize("what", ["check", "show"])
def test_bad_input_is_one_sentence(isthmus: Isthmus, refused: Path, what: str) -> None:
    refused.write_text(REFUSED.replace('joins = ["A", "I"]', 'joins = ["A"]'))
    code, out, err = isthmus("compose", what, str(refused))
    assert code == 2 and out == "" and err.count("\n") == 1
    assert "routers[0].joins: found only 'A'; expected two or more groups or IGPs" in err


RING = """
name = "ring"
groups = [
  { name = "A", members = 2, stack = "token-site" },
  { name = "B", members = 2, stack = "token-site" },
  { name = "C", members = 2, stack = "token-site" },
]
igps = [{ name = "AB", stack = "token-site" }, { name = "BC", stack = "token-site" }, { name = "CA", stack = "ring" }]
routers = [
  { name = "r0", joins = ["A", "AB"] }, { name = "r1", joins = ["AB", "B"] },
  { name = "r2", joins = ["B", "BC"] }, { name = "r3", joins = ["BC", "C"] },
  { name = "r4", joins = ["C", "CA"] }, { name = "r5", joins = ["CA", "A"] },
]
domains = [
  { name = "ab", groups = ["A", "B"], wants = "total", flows = [{ from = "A", to = ["A", "B"] }] },
  { name = "bc", groups = ["B", "C"], wants = "total", flows = [{ from = "B", to = ["B", "C"] }] },
  { name = "ca", groups = ["C", "A"], wants = "total", flows = [{ from = "C", to = ["C", "A"] }] },
]
"""


def test_domains_that_leave_each_other_too_little_are_refused(isthmus: Isthmus, tmp_path: Path) -> None:
    """Each gets total order by itself; in a run the groups that they share deliver the messages of both."""
    path = tmp_path / "ring.toml"
    path.write_text(RING)
    code, out, _ = isthmus("compose", "check", str(path), "-o", str(tmp_path / "out"))
    assert code == 1 and "ab, which shares groups with bc, ca:" in out
    assert "total   no, no tree: the domains and the groups that they share form a cycle" in out
    assert "Counterexample: " in out and "Cheapest change: no change of protocols" in out
    code, out, _ = isthmus("compose", "check", str(path), "--no-pictures", "--json")
    assert code == 1 and {one["verdict"] for one in json.loads(out)["domains"]} == {"refused"}
    path.write_text(RING.replace('wants = "total"', 'wants = "fifo"'))
    assert isthmus("compose", "check", str(path), "--no-pictures")[0] == 0


def test_a_change_helps_a_domain_among_those_that_it_shares_groups_with(isthmus: Isthmus, tmp_path: Path) -> None:
    """Total order of ab alone is given by one injector into B; what B itself sends needs an order there."""
    path = tmp_path / "chain.toml"
    chain = RING[: RING.index('  { name = "ca"')] + "]\n"
    chain = chain.replace(
        '{ name = "B", members = 2, stack = "token-site" }', '{ name = "B", members = 2, stack = "fifo" }'
    )
    chain = chain.replace('wants = "total"', 'wants = "fifo"', 2).replace('wants = "fifo"', 'wants = "total"', 1)
    path.write_text(chain)
    code, out, _ = isthmus("compose", "check", str(path), "--no-pictures")
    assert code == 1 and "ab, which shares groups with bc:" in out
    assert "Cheapest change: make B fifo-total instead of fifo." in out


@pytest.mark.parametrize("what", ["check", "show"])
@pytest.mark.parametrize("example", ["composed-offices.toml", "composed-regions.toml"])
def test_a_scenario_is_asked_for_its_composition(isthmus: Isthmus, what: str, example: str, tmp_path: Path) -> None:
    code, out, err = isthmus("compose", what, str(EXAMPLES / example), "-o", str(tmp_path / "picture.svg"))
    assert code == 0 and err == ""
    assert "wrote" in out if what == "show" else "To run it: isthmus sim" in out and "guaranteed" in out


def test_a_scenario_that_asks_for_too_much_is_told_why(isthmus: Isthmus, tmp_path: Path) -> None:
    """The simulator refuses it and says to ask here; here it is decided."""
    path = tmp_path / "scenario.toml"
    path.write_text((EXAMPLES / "composed-offices.toml").read_text().replace("shadow-and-hold", "total"))
    code, _, err = isthmus("sim", str(path))
    assert code == 2 and err.count("\n") == 1 and "a change that `isthmus compose check` tells" in err
    code, out, _ = isthmus("compose", "check", str(path), "--no-pictures")
    assert code == 1 and "Cheapest change: forward offices by shadow-and-hold instead of total." in out


def test_a_scenario_of_one_group_has_nothing_to_decide(isthmus: Isthmus) -> None:
    code, out, err = isthmus("compose", "check", str(EXAMPLES / "three-lans.toml"))
    assert code == 2 and out == "" and err.count("\n") == 1
    assert "composition: found nothing, in a scenario of one group; expected a composition" in err


@pytest.mark.parametrize(
    "words", [("compose",), ("compose", "check"), ("compose", "show"), ("compose", "plan")], ids=" ".join
)
def test_help_has_examples(isthmus: Isthmus, words: tuple[str, ...]) -> None:
    code, out, _ = isthmus(*words, "--help")
    assert code == 0 and "Examples:" in out and "isthmus compose" in out


NET = """
name = "two"
[defaults]
lan = { delay = 0.2 }
wan = { delay = 30 }
[[clusters]]
name = "west"
sites = 4
[[clusters]]
name = "east"
sites = 4
"""
TRAFFIC = """
[[workloads]]
kind = "poisson"
rate_per_s = 40
sites = ["west"]
to = ["west"]
[[workloads]]
kind = "poisson"
rate_per_s = 2
"""


@pytest.fixture
def network(tmp_path: Path) -> tuple[str, str]:
    (tmp_path / "net.toml").write_text(NET)
    (tmp_path / "traffic.toml").write_text(TRAFFIC)
    return str(tmp_path / "net.toml"), str(tmp_path / "traffic.toml")


def test_a_plan_is_granted_what_it_is_for(isthmus: Isthmus, network: tuple[str, str], tmp_path: Path) -> None:
    net, traffic = network
    target = str(tmp_path / "plan.toml")
    words = ("compose", "plan", net, "--traffic", traffic, "--wants", "causal-total", "--scope", "all", "-o", target)
    code, out, err = isthmus(*words)
    assert code == 0 and err == ""
    assert "single group" in out and "one group per cluster" in out and f"wrote {target}" in out
    code, out, _ = isthmus("compose", "check", target)
    assert code == 0 and "guaranteed" in out
    code, _, err = isthmus(*words)
    assert code == 2 and "an existing file" in err


def test_a_plan_as_json(isthmus: Isthmus, network: tuple[str, str]) -> None:
    code, out, _ = isthmus("compose", "plan", network[0], "--traffic", network[1], "--json")
    options = json.loads(out)["options"]
    assert code == 0 and options[0]["composition"] is None and options[1]["mean_ms"] > 0
    assert [group["name"] for group in options[1]["composition"]["groups"]] == ["group-0", "group-1"]


def test_a_plan_needs_traffic(isthmus: Isthmus, network: tuple[str, str]) -> None:
    code, _, err = isthmus("compose", "plan", network[0])
    assert code == 2 and "expected a scenario, or a network and --traffic FILE" in err
