"""Composed scenarios: what does not fit together is refused in one sentence, which says what would."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from isthmus.advise.compare.run import promised_by, variants
from isthmus.cli.sim import command
from isthmus.core.errors import InputError
from isthmus.protocols.routing.wire import ROUTED_MAX
from isthmus.scenario.load import load_scenario
from isthmus.scenario.variants import with_stack
from isthmus.stacks.registry import STACKS

EXAMPLES = Path(__file__).parents[3] / "examples"
TEXT = (EXAMPLES / "composed-offices.toml").read_text(encoding="utf-8")
ROUTER = '[[composition.routers]]\nname = "osaka-router"'
SECOND = '[[composition.routers]]\nname = "second"\njoins = ["lisbon", "osaka"]\n\n'
OSAKA = 'name = "osaka"\nmembers = 2'
OTHERS = 'to_groups = "others"'
OSAKA_SENDS = 'group = "osaka"\nrate_per_s = 5'

REFUSED = {
    "a cycle": ((ROUTER, SECOND + ROUTER), r"domains\[0\].forwarding: found 'shadow-and-hold' on a cycle.*a tree"),
    "one group": (('joins = ["lisbon", "cable"]', 'joins = ["lisbon"]'), r"joins: found only 'lisbon'; expected two"),
    "overlap": ((OSAKA, OSAKA.replace("2", '["osaka-0", "lisbon-0"]')), r"'lisbon-0' in both lisbon and osaka"),
    "unknown stack": (('"token-site"', '"token-sight"'), r"groups\[0\].stack: found 'token-sight'.*token-site\?"),
    "asks for more": (('"shadow-and-hold"', '"plain"'), r"domains\[0\].wants: found 'causal-total' over all messages"),
    "a closed group": (
        (OSAKA, OSAKA + "\nopen = false", 'rate_per_s = 5\nto_groups = "all"', 'rate_per_s = 5\nto_groups = ["osaka"]'),
        r"workloads\[1\].to_groups: found a message from lisbon to osaka: osaka is closed; expected",
    ),
    "to an unknown group": (
        ('["lisbon", "osaka"]', '["lisbon", "madrid"]'),
        r"workloads\[3\].to_groups\[1\]: found 'madrid'; expected a group of the composition",
    ),
    "from an unknown group": (
        (OSAKA_SENDS, OSAKA_SENDS.replace("osaka", "madrid")),
        r"workloads\[2\].group: found 'madrid'; expected a group of the composition: one of lisbon, osaka",
    ),
    "from an IGP": ((OSAKA_SENDS, OSAKA_SENDS.replace("osaka", "cable")), r"workloads\[2\].group: found 'cable'"),
    "no such word": ((OTHERS, 'to_groups = "everybody"'), r"workloads\[2\].to_groups: found 'everybody'; expected"),
    "no groups": ((OTHERS, "to_groups = []"), r"workloads\[2\].to_groups: found an empty list; expected names"),
    "no such flow": (
        ('"shadow-and-hold"', '"shadow-and-hold"\nflows = [{ from = "lisbon", to = ["osaka"] }]'),
        r"a message from lisbon to lisbon, osaka: the domain offices has no such flow",
    ),
    "no such site": (
        ('"osaka-1", "osaka-router"]', '"osaka-1", "osaka-routr"]'),
        r"composition: found 'osaka-router', which is no site; expected a topology.*osaka-routr\?",
    ),
    "a router that sends": (
        (OSAKA_SENDS, OSAKA_SENDS + '\nsites = ["osaka-router"]'),
        r"workloads\[2\].sites: found \['osaka-router'\]; expected processes of osaka",
    ),
    "a message to a router": (
        ('rate_per_s = 20', 'rate_per_s = 20\nto = ["lisbon-router"]'),
        r"workloads\[0\].to: found 'lisbon-router', a router; expected processes of lisbon",
    ),
    "more receivers than there are": (
        ('rate_per_s = 20', 'rate_per_s = 20\nto = 3'),
        r"workloads\[0\].to: found 3; expected at most the 2 processes of lisbon",
    ),
    "too large": (
        (OTHERS, f"{OTHERS}\npayload_bytes = {ROUTED_MAX + 1}"),
        r"workloads\[2\].payload_bytes: found a message of 32,001 bytes to other groups; expected at most 32,000",
    ),
    "a stack that keeps less": (
        ("[topology]", '[[groups]]\nname = "lisbon"\nstack = { name = "fifo" }\n\n[topology]'),
        r"groups\[0\].stack.name: found 'fifo'; expected a stack that keeps fifo-total, as lisbon must",
    ),
    "options of no node": (
        ("[topology]", '[[groups]]\nname = "lisboa"\nstack = { name = "ring" }\n\n[topology]'),
        r"groups\[0\].name: found 'lisboa'; expected a node: one of lisbon, osaka, cable \(did you mean lisbon\?\)",
    ),
    "a participant at a router": (
        ("[topology]", '[[participants]]\nname = "ann"\ngroup = "g"\nsite = "lisbon-router"\n\n[topology]'),
        r"participants\[0\].site: found 'lisbon-router'",
    ),
}  # fmt: skip


def written(folder: Path, *changes: str) -> Path:
    text = TEXT
    for old, new in zip(changes[::2], changes[1::2], strict=True):
        assert old in text
        text = text.replace(old, new, 1)
    path = folder / "scenario.toml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_refused_in_a_sentence(case: str, tmp_path: Path) -> None:
    changes, sentence = REFUSED[case]
    with pytest.raises(InputError, match=sentence) as caught:
        load_scenario(written(tmp_path, *changes))
    assert "\n" not in str(caught.value)


def test_a_message_as_large_as_may_be_arrives(tmp_path: Path) -> None:
    """It is never cut, whatever the frames of the stacks on its way."""
    small = (
        '[[groups]]\nname = "lisbon"\nstack = { name = "token-site", fragments = { piece_bytes = 500 } }\n\n[topology]'
    )
    path = written(tmp_path, OTHERS, f"{OTHERS}\npayload_bytes = {ROUTED_MAX}", "[topology]", small)
    text = path.read_text(encoding="utf-8").replace("duration_ms = 3000", 'duration_ms = 1000\npayloads = "varied"')
    path.write_text(text, encoding="utf-8")
    found = CliRunner().invoke(command, [str(path), "-o", str(tmp_path / "out")])
    assert found.exit_code == 0 and "and 0 undelivered" in found.output, found.output
    assert "offices" in found.output and "lisbon │ to groups" in found.output


@pytest.mark.parametrize("replicas", [1, 3])
def test_what_a_router_without_replicas_loses_is_told(replicas: int, tmp_path: Path) -> None:
    """With replicas nothing is lost, and validity is judged."""
    names = ", ".join(f'"lisbon-router-{number}"' for number in range(replicas)) if replicas > 1 else '"lisbon-router"'
    crashed = "lisbon-router-0" if replicas > 1 else "lisbon-router"
    fault = f'[[faults]]\nkind = "crash"\nsite = "{crashed}"\nat_ms = 500\n\n[topology]'
    changes = ("[topology]", fault, '"lisbon-1", "lisbon-router"]', f'"lisbon-1", {names}]')
    path = written(tmp_path, 'name = "lisbon-router"\n', f'name = "lisbon-router"\nreplicas = {replicas}\n', *changes)
    found = CliRunner().invoke(command, [str(path), "-o", str(tmp_path / "out")])
    assert found.exit_code == 0, found.output
    told = (
        "lisbon-router crashed or was left out of a view, without replicas: messages that it had not forwarded are lost"
    )
    assert (told in found.output) == (replicas == 1)
    assert ("validity  │ valid" in found.output) == (replicas == 3)
    assert ("and 0 undelivered" in found.output) == (replicas == 3)


def test_another_stack_is_that_of_all_groups_of_processes(tmp_path: Path) -> None:
    scenario = load_scenario(written(tmp_path))
    other = with_stack(scenario, "ring")
    assert [group.stack.name for group in other.groups_of_run()] == ["ring", "ring", "token-site"]
    with pytest.raises(InputError, match=r"--stack causal-vector: domains.*where total is not kept"):
        with_stack(scenario, "causal-vector")
    made, left_out = variants(scenario, list(STACKS), strict=False)
    assert list(made) == ["token-site", "ring", "symmetric", "hybrid", "dynamic-hybrid", "optimistic"]
    assert "where fifo is not kept" in left_out["unordered"]
    assert promised_by(scenario) == ("integrity", "fifo", "causal", "total")
