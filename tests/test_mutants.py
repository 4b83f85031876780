"""The bugs of tests/mutants.toml still apply; whether the tests find them, `python -m tests.harness.mutants` tells."""

import pytest
from tests.harness.mutants import TREE, Mutant, finding, load


@pytest.mark.parametrize("mutant", load(), ids=lambda mutant: mutant.name)
def test_mutant_applies(mutant: Mutant) -> None:
    compile(mutant.applied(), mutant.file, "exec")
    assert mutant.tests and all((TREE / path).exists() for path in mutant.tests)


@pytest.mark.full
@pytest.mark.parametrize("mutant", load(), ids=lambda mutant: mutant.name)
def test_mutant_is_found(mutant: Mutant) -> None:
    assert finding(mutant), f"no test found: {mutant.name}"
