# A bare machine needs Python 3.11+ (with pip and venv) and make. The demo installs its few packages
# into .venv-demo, everything else goes into .venv.

PYTHON ?= python3
BIN := .venv/bin
CODE := src tests benchmarks examples docs/*.py
SET_UP := .venv/.set-up
DEMO := .venv-demo

# The matrices are small: more BLAS threads only make them slower, and tests already run in parallel.
ONE_THREAD := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 MKL_NUM_THREADS=1

.DEFAULT_GOAL := help
.PHONY: help demo test test-all coverage lint docs evidence speed cost-to-target screenshots page-times recording clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-16s%s\n", $$1, $$2 }' Makefile

demo: $(DEMO)/.set-up ## tune a model for at most a minute, in a small environment of its own
	@$(DEMO)/bin/farthing demo

test: $(SET_UP) ## run the quick tests, about three CPU minutes
	$(ONE_THREAD) $(BIN)/python -m pytest -m "not slow" -n 2 --dist loadgroup

test-all: $(SET_UP) ## run every test, the slow ones too
	$(ONE_THREAD) $(BIN)/python -m pytest -n 6 --dist loadgroup

coverage: $(SET_UP) ## the lines and branches of src that the tests reach, child processes included
	$(BIN)/python -m coverage erase
	mkdir -p build/coverage
	$(ONE_THREAD) $(BIN)/python -m coverage run -m pytest -n 6 --dist loadgroup
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m coverage report

lint: $(SET_UP) ## check style, format and types
	$(BIN)/python -m ruff check $(CODE)
	$(BIN)/python -m ruff format --check $(CODE)
	$(BIN)/python -m mypy

docs: $(SET_UP) ## build the documentation site in build/site
	$(BIN)/python -m pip install -q -e '.[docs]'
	$(BIN)/python docs/make_names.py
	$(BIN)/python docs/make_methods.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

evidence: $(SET_UP) ## write docs/evidence.md and docs/evidence/ from the kept results
	$(BIN)/python -m benchmarks evidence

speed: ## install the peers in .venv-peers and time one suggestion of each
	$(PYTHON) benchmarks/evidence/install_peers.py
	.venv-peers/bin/python -m benchmarks.speed

cost-to-target: $(SET_UP) ## measure what every policy pays to reach the result of random search
	$(ONE_THREAD) $(BIN)/python -m benchmarks.evidence.cost_to_target

screenshots: $(SET_UP) ## take the pictures of docs/seeing.md; needs chromium
	$(ONE_THREAD) $(BIN)/python -m benchmarks.site.screenshots

page-times: $(SET_UP) ## time a page of the dashboard with 50,000 trials; needs chromium
	$(ONE_THREAD) $(BIN)/python -m benchmarks.site.page_times

recording: $(SET_UP) ## record the run in a terminal that opens the README, in five minutes
	$(ONE_THREAD) $(BIN)/python -m benchmarks.site.recording

clean: ## remove the environments and every cache
	rm -rf .venv .venv-* .pytest_cache .mypy_cache .ruff_cache .hypothesis dist build farthing-demo.*
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(SET_UP): pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -q -e '.[test,lint,demo,evidence]'
	@touch $@

# Bytecode is left out here, because the demo imports only a small part of what is installed.
$(DEMO)/.set-up: pyproject.toml
	@echo "Installing Farthing and scikit-learn into $(DEMO), once."
	@$(PYTHON) -m venv $(DEMO)
	@$(DEMO)/bin/python -m pip install -q --no-compile -e '.[demo]'
	@touch $@
