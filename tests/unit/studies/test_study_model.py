"""Claims and grids: what holds, what is unknown, and that a run's number and command bring it back."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys

import msgspec
import pytest
from click.testing import CliRunner

from isthmus.cli.main import COMMANDS, root
from isthmus.cli.study import command
from isthmus.core.errors import InputError
from isthmus.pipeline.sweep.simulate import Outcome
from isthmus.scenario.model import Scenario
from isthmus.studies.catalogue import STUDIES
from isthmus.studies.claim import ClaimSource, Criterion, Quantity
from isthmus.studies.model import SCALES, find_study
from isthmus.studies.token_site.claims import STUDY as TOKEN_SITE
from isthmus.studies.verdicts import NOT_JUDGED, RunVerdict, count_by_status, to_table, unknown_all


def claim(compute=lambda tables: tables["t"][0]["v"], expected=2.0, within=0.0, relation="near"):
    return ClaimSource("p").claim("s", Criterion(Quantity(compute), relation, expected, "", within))


def verdict(value, failed=0, **more):
    return claim(**more).judge({"t": [{"v": value}]}, failed).verdict


def test_a_claim_holds_within_its_tolerance():
    assert verdict(2.0) == "holds"
    assert verdict(2.01) == "does not hold"
    assert verdict(2.01, within=0.01) == verdict(1.99, within=0.01) == "holds"
    assert verdict(2.03, within=0.01) == "does not hold"
    assert verdict(0.4, expected=0.0, within=0.5) == "holds"  # around 0 a tolerance is a margin
    assert verdict(9.0, relation="at least") == verdict(1.0, relation="at most") == "holds"
    assert verdict(1.0, relation="at least") == verdict(9.0, relation="at most") == "does not hold"


@pytest.mark.parametrize("measure", [lambda t: None, lambda t: t["no"], lambda t: 1 / 0, lambda t: float("nan")])
def test_a_claim_without_a_figure_is_unknown(measure):
    judged = claim(measure).judge({})
    assert (judged.verdict, judged.measured) == ("unknown", None)
    assert "no" in judged.detail


def test_a_claim_about_runs_of_which_one_failed_is_unknown_and_still_shows_its_figure():
    judged = claim().judge({"t": [{"v": 2.0}]}, 1)
    assert (judged.verdict, judged.measured, judged.detail) == ("unknown", 2.0, "1 run failed")


def test_claims_of_empty_tables_are_unknown():
    empty = {"latency": [], "senders": [], "runs": []}
    assert {claim.judge(empty).verdict for claim in TOKEN_SITE.claims} == {"unknown"}


@pytest.mark.parametrize("study", STUDIES.values(), ids=list(STUDIES))
@pytest.mark.parametrize("scale", SCALES)
def test_grids_are_stable_and_their_scenarios_travel(study, scale):
    specs = study.specs(scale)
    assert [spec.run for spec in specs] == list(range(len(specs)))
    assert specs == study.specs(scale)
    assert len({msgspec.json.encode(dict(spec.parameters)) for spec in specs}) == len(specs)
    for spec in specs:
        assert msgspec.json.decode(msgspec.json.encode(spec.scenario), type=Scenario) == spec.scenario
        assert spec.parameters["seed"] == spec.scenario.seed
    assert study.runs[scale] == len(specs), "as `isthmus study list` says"


def test_the_grid_of_the_first_study():
    assert len(TOKEN_SITE.specs("quick")) == 2 * 4 * 2
    assert len(TOKEN_SITE.specs("full")) == 2 * 8 * 5
    delays = {spec.parameters["delay_ms"] for spec in TOKEN_SITE.specs("full")}
    assert (min(delays), max(delays)) == (25.0, 500.0)


def test_the_replay_command_of_a_run_runs_that_run():
    spec = TOKEN_SITE.specs("quick", 1)[4]
    words = shlex.split(spec.replay)
    assert words[:3] == ["isthmus", "study", "replay"]
    done = CliRunner().invoke(root, words[1:])
    assert done.exit_code == 0, done.output
    assert "source Poisson, delay_ms 25.0, seed 1" in done.output
    assert "0 undelivered" in done.output
    done = CliRunner().invoke(root, [*words[1:], "--json"])
    assert done.exit_code == 0, done.output
    assert {verdict["status"] for verdict in json.loads(done.output)["verdicts"]} == {"valid"}


def test_what_is_not_there_is_said_in_one_sentence():
    with pytest.raises(InputError, match="token-site"):
        find_study(STUDIES, "token-sit")
    with pytest.raises(InputError, match="0 to 15"):
        TOKEN_SITE.spec(16, "quick")
    with pytest.raises(InputError, match="--all"):
        CliRunner().invoke(command, ["run"], catch_exceptions=False)
    with pytest.raises(InputError, match="no such folder"):
        CliRunner().invoke(command, ["show", "/nowhere/at/all"], catch_exceptions=False)


def test_the_list_names_every_study():
    assert "study" in COMMANDS
    listed = CliRunner().invoke(command, ["list"]).output
    assert all(name in listed for name in STUDIES)
    found = json.loads(CliRunner().invoke(command, ["list", "--json"]).output)
    assert [study["name"] for study in found] == list(STUDIES)


def test_the_list_loads_neither_spark_nor_the_simulator():
    script = "import sys; from isthmus.cli.main import root; root(['study', 'list'], standalone_mode=False); "
    heavy = ("pyspark", "pandas", "matplotlib", "scipy", "pyarrow", "isthmus.sim", "isthmus.scenario.model")
    found = subprocess.run([sys.executable, "-c", script + f"print([m for m in {heavy} if m in sys.modules])"],
                           capture_output=True, text=True, check=True)  # fmt: skip
    assert found.stdout.splitlines()[-1] == "[]"


def rows_of(found, outcomes=None, runs=3):
    specs = TOKEN_SITE.specs("quick")[:runs]
    given = outcomes or [Outcome(run=number) for number in range(runs)]
    return count_by_status(specs, given, ["total"], found)


def test_verdicts_are_added_up_and_no_run_is_lost():
    found = {
        (0, "total"): RunVerdict("valid", 10),
        (1, "total"): RunVerdict("violated", 5, 2, "m before n"),
        (2, "total"): RunVerdict("valid", 20),
    }
    bad, good = rows_of(found)
    assert (bad.status, bad.runs, bad.violations, bad.witness) == ("violated", 1, 2, "m before n")
    assert bad.replay == "isthmus study replay token-site --run 1 --scale quick"
    assert (good.status, good.runs, good.evidence, good.replay) == ("valid", 2, 30, "")
    assert to_table([bad, good]).num_rows == 2


def test_what_no_check_spoke_of_is_unknown():
    (row,) = rows_of({})
    assert (row.status, row.runs, row.witness) == ("unknown", 3, NOT_JUDGED)
    (row,) = rows_of(unknown_all(range(3), ["total"], "the checks were not run"))
    assert (row.status, row.witness) == ("unknown", "the checks were not run")
    found = dict.fromkeys([(number, "total") for number in range(3)], RunVerdict("valid", 1))
    outcomes = [Outcome(run=0), Outcome(run=1, status="failed", error="ValueError: no"), Outcome(run=2)]
    unknown, valid = rows_of(found, outcomes)
    assert (unknown.status, unknown.runs, "ValueError: no" in unknown.witness) == ("unknown", 1, True)
    assert valid.runs == 2
