"""`isthmus check` of a composed run: orders are judged of the domains that the trace tells."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[3] / "examples" / "composition-multi-group.toml"
Isthmus = Callable[..., tuple[int, str, str]]
GROUPS = ("north", "south", "east", "west")


@pytest.fixture
def trace(isthmus: Isthmus, tmp_path: Path) -> Path:
    """Two groups with traffic inside, which may be out of order beside what comes from others: nobody promises more."""
    sites = [f'"{group}-{place}"' for group in GROUPS for place in ("0", "1", "2", "router")]
    loads = [
        f'[[workloads]]\nkind = "poisson"\ngroup = "{group}"\nrate_per_s = {rate}\n{to}'
        for group in ("north", "south")
        for rate, to in ((20, ""), (5, 'to_groups = "all"\n'))
    ]
    text = f'name = "mg"\nduration_ms = 3000\ncomposition = "{EXAMPLE}"\n[[topology.clusters]]\nname = "a"\n'
    text += f"lan = {{ delay = {{ kind = 'uniform', low_ms = 0.5, high_ms = 60 }} }}\nsites = [{', '.join(sites)}]\n"
    path, folder = tmp_path / "mg.toml", tmp_path / "trace"
    path.write_text(text + "".join(loads))
    code, _, err = isthmus("sim", str(path), "-o", str(folder))
    assert code == 0, err
    return folder


def test_check_agrees_with_the_run_on_what_was_promised(isthmus: Isthmus, trace: Path, tmp_path: Path) -> None:
    code, out, err = isthmus("check", str(trace), "-o", str(tmp_path / "check"))
    assert code == 0, (out, err)


def test_a_domain_that_is_typed_is_judged_beside_each_group(isthmus: Isthmus, trace: Path, tmp_path: Path) -> None:
    typed = ("--domain", "world=0,1,2,3:inter", "--property", "fifo", "--json")
    _, alone, _ = isthmus("check", str(trace), *typed[2:], "-o", str(tmp_path / "alone"))
    _, beside, _ = isthmus("check", str(trace), *typed, "-o", str(tmp_path / "beside"))
    assert len(beside) > 0 and alone != beside


def test_a_domain_that_is_typed_must_be_there(isthmus: Isthmus, trace: Path, tmp_path: Path) -> None:
    code, _, err = isthmus("check", str(trace), "--domain", "world=0,9", "-o", str(tmp_path / "check"))
    assert code == 2 and "found group 9, which the trace does not have" in err
