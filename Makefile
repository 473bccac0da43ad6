# `make help` lists the targets. All of them need only make and a Python of at least 3.11 with its venv module.

.DEFAULT_GOAL := help
.PHONY: help demo test gpu-test test-core test-pure compile check lint types rules docs wheel bench bench-task faults nightly dask-suites cases clean

VENV ?= .venv
BIN := $(VENV)/bin
CASES ?= ../shared/cases
# The newest Python that runs (a name on the PATH may be a shim that does not). `make PYTHON=...` overrides it.
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
# A test that hangs ends its process, and another goes on with the rest.
JOBS ?= 2
PYTEST := $(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal
PIP_INSTALL := $(BIN)/python -m pip install -qq --disable-pip-version-check

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "  make %-14s %s\n", $$1, $$2}'

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "hetsched needs Python 3.11 or newer; none was found. Name one: make PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "hetsched needs Python 3.11 or newer, and $(PYTHON) is not that."; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "$(PYTHON) cannot make virtual environments: its venv or ensurepip module is missing (on Debian and Ubuntu: apt-get install python3-venv)."; exit 1; }
	@echo "making $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV)

# One stamp per set of extras; a change of pyproject.toml installs again. HETSCHED_PURE=1 has no compiler fetched for an
# install in place, which is of the sources anyway: `make compile` compiles.
$(VENV)/.demo: pyproject.toml | $(BIN)/python
	@echo "installing hetsched and what the demo needs into $(VENV) (once)"
	@HETSCHED_PURE=1 $(PIP_INSTALL) -e '.[demo]'
	@touch $@

$(VENV)/.test: pyproject.toml | $(BIN)/python
	@echo "installing hetsched and what its tests need into $(VENV) (once)"
	@HETSCHED_PURE=1 $(PIP_INSTALL) -e '.[compile,test]'
	@touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	@echo "installing hetsched and what its development needs into $(VENV) (once)"
	@HETSCHED_PURE=1 $(PIP_INSTALL) -e '.[dev]'
	@touch $@ $(VENV)/.test $(VENV)/.demo

demo: $(VENV)/.demo ## run a mixed workload and show what ran where
	@$(BIN)/python examples/mixed.py

compile: $(VENV)/.test ## compile the hot modules in place, if they changed and if a C compiler is there
	@$(BIN)/python tools/compile.py

test: compile ## run the whole test suite, in two processes (JOBS=n)
	@$(PYTEST) $(ARGS)

test-core: $(VENV)/.test ## run the tests that are quick and depend on the Python version, on the sources
	@HETSCHED_PURE=1 $(PYTEST) -m "not slow" $(addprefix tests/,core worker comm graph gpu client server) tests/test_get*.py $(ARGS)

test-pure: $(VENV)/.test ## run the tests of the modules that are compiled, on their sources
	@HETSCHED_PURE=1 $(PYTEST) tests/core tests/worker $(ARGS)

gpu-test: $(VENV)/.test ## run the tests that need a GPU (CuPy and torch have to be in the environment)
	@$(BIN)/python -m pytest -q -rs -m gpu $(ARGS)

check: lint types rules docs wheel ## style, types, the rules of the house, docs, packaging

lint: $(VENV)/.dev
	@echo "--- ruff"
	@$(BIN)/ruff check .

types: $(VENV)/.dev
	@echo "--- mypy"
	@$(BIN)/mypy --strict hetsched

rules: $(VENV)/.dev
	@echo "--- floors, sizes, exports, imports"
	@$(BIN)/python -m pytest -q tests/test_floors.py tests/test_sizes.py tests/test_exports.py tests/test_imports.py

docs: $(VENV)/.dev ## build the documentation into docs/_build/html
	@echo "--- docs"
	@$(BIN)/sphinx-build -q -W --keep-going -b html docs docs/_build/html && echo "docs/_build/html/index.html"

wheel: $(VENV)/.dev ## build the wheel and try it in a virtual environment of its own
	@echo "--- wheel"
	@BUILDER=$(BIN)/python sh tools/try_wheel.sh

bench: compile ## compare with dask's threaded scheduler (minutes)
	@$(BIN)/python benchmarks/embedded.py $(ARGS)

nightly: faults dask-suites ## what takes too long for each change: 20,000 simulated cases, all of dask's own suites

faults: compile ## run 20,000 simulated cases in which things go wrong (SEEDS=n, FROM=n)
	@$(BIN)/python -m hetsched.sims faults --seeds $(or $(SEEDS),20000) --from $(or $(FROM),0) $(ARGS)

bench-task: compile ## what a task costs as an object, in each form (seconds)
	@$(BIN)/python benchmarks/taskspec.py $(ARGS)

dask-suites: $(VENV)/.test ## run the suites that dask ships on hetsched (SAMPLE=1: a few of them)
	@$(BIN)/python tests/dask_suites/run.py $(if $(SAMPLE),--sample) $(ARGS)

cases: $(VENV)/.test ## run the case files in CASES, where that folder exists
	@if test -f $(CASES)/run_cases.py; then \
		$(BIN)/python $(CASES)/run_cases.py hetsched:get --cases $(CASES) $(ARGS); \
	else echo "no cases at $(CASES)"; fi

clean: ## remove everything that make made
	rm -rf .venv .venv-* dist build docs/_build hetsched/_compiled .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
