# Everything runs in a virtual environment inside the tree; each target sets up what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
WORKERS ?= 2
MINUTES ?= 3

.PHONY: help docs versions demo tour test test-full cluster-test check bench bench-check bench-live bench-sealed bench-flood bench-ring bench-membership bench-idle bench-sim bench-spark lock clean bench-congestion soak
.DEFAULT_GOAL := help

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 20

demo: $(READY)  ## set up, then run all studies at quick scale through Spark, with every check, to a report
	@$(BIN)/isthmus study run --all --scale quick -o out/studies
	@$(BIN)/isthmus report out/studies -o out/report.html

tour: $(READY)  ## one example network with every stack, compared in the simulator, then one live (half a minute)
	@$(BIN)/python examples/tour.py

test: check  ## set up, check, and run the tests (minutes)
	@$(BIN)/python -m pytest -n $(WORKERS) -m "not full"

test-full: check  ## the same with every seed and scale, with coverage of the code (many hours)
	@$(BIN)/python -m pytest -n $(WORKERS) --cov --cov-report=term --cov-report=html:out/coverage

versions: $(READY)  ## the tests on each of Python 3.11 to 3.13 that is installed
	@$(BIN)/nox

docs: $(READY)  ## the documentation site, to out/site; needs no network
	@$(BIN)/python docs/reference.py
	@$(BIN)/zensical build --clean --strict

cluster-test: $(READY)  ## the pipeline on a Spark master with two workers and through Spark Connect, beside local
	@$(BIN)/python tests/cluster/run.py

check: $(READY)  ## ruff, mypy --strict on src and tests/harness, unused code, the architecture test
	@$(BIN)/ruff check src tests bench examples docs/reference.py noxfile.py
	@$(BIN)/ruff format --check --quiet src tests bench examples docs/reference.py noxfile.py
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/vulture
	@$(BIN)/python -m pytest tests/test_architecture.py

bench: $(READY)  ## figures, as ratios taken in one run
	@$(BIN)/python -m bench

bench-check: $(READY)  ## isthmus check in one process: CPU per command, and per row of a million (two minutes)
	@$(BIN)/python -m bench.check

bench-live: $(READY)  ## live groups on the loopback: CPU per delivery of each stack, beside bare UDP (minutes)
	@$(BIN)/python -m bench.live

bench-sealed: $(READY)  ## sealed live groups beside clear ones: CPU ratios by pairs (ten minutes)
	@$(BIN)/python -m bench.sealed

bench-flood: $(READY)  ## a sealed group under 10,000 forgeries a second: views, and the throughput left (two minutes)
	@$(BIN)/python -m bench.flood

bench-ring: $(READY)  ## the ring live on the loopback beside the simulated one, 1-byte messages (three minutes)
	@$(BIN)/python -m bench.ring

bench-membership: $(READY)  ## live groups whose sites are killed and stopped: how soon the others go on, and it is back, with large states (minutes)
	@$(BIN)/python -m bench.membership
	@$(BIN)/python -m bench.states

bench-idle: $(READY)  ## idle live groups of 3, 5 and 16 sites: CPU and datagrams per site (two minutes)
	@$(BIN)/python -m bench.idle

soak: $(READY)  ## live sites under load without a false view change: 3 minutes, or MINUTES=60
	@$(BIN)/python -m bench.soak $(MINUTES)

bench-congestion: $(READY)  ## a slow link under three times its rate: goodput, repeats, queue, the others (seconds)
	@$(BIN)/python -m bench.congestion

bench-sim: $(READY)  ## the packet network beside SimPy, one workload four ways; LARGE=1: 50,000 nodes, too (minutes)
	@$(BIN)/python -m bench.packets $(if $(LARGE),--large)

bench-spark: $(READY)  ## all checks on 20 million deliveries, and causal order alone on 5, beside one sort of them (half an hour)
	@$(BIN)/python -m bench.spark_checks
	@$(BIN)/python -m bench.spark_causal

lock: pyproject.toml  ## pin every dependency with its hashes, naming no index
	@$(PYTHON) -m venv $(VENV) && $(BIN)/python -m pip install --quiet uv
	@$(BIN)/uv pip compile pyproject.toml --quiet --extra dev --universal --python-version 3.11 \
		--generate-hashes --no-emit-index-url --no-header --no-annotate --upgrade -o requirements.lock

$(READY): requirements.lock pyproject.toml
	@echo "setting up $(VENV) (once; a minute or two)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Isthmus needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version)"; exit 2; }
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

clean:  ## remove the environment and everything built
	@rm -rf $(VENV) build dist out docs/reference .nox .mypy_cache .ruff_cache .pytest_cache .hypothesis
