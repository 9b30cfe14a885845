# Wenmai: `make serve` runs it, `make test` checks it. Both set up what they need.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV   := .venv
BIN    := $(VENV)/bin
DATA   ?= .data
PORT   ?= 8001
PROFILE ?= npc
# A profile brings its sample evidence to an empty store only, so each has a file of its own.
STORE  ?= sqlite:///$(DATA)/$(if $(filter npc,$(PROFILE)),wenmai,$(PROFILE)).db

export OMP_NUM_THREADS = 1
# Set elsewhere, it would make each of the hundreds of interpreters that tests start compile every module anew.
export PYTHONDONTWRITEBYTECODE =

.DEFAULT_GOAL := help
.PHONY: help install serve test quick check format docs types audit bench bench-loaded soak lock screenshots clean

help:           ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

install: $(VENV)/.installed  ## .venv with everything that serving and testing need

# uv installs the hashed pins several times faster than pip, which takes over where uv does not trust the network.
$(VENV)/.installed: requirements.txt pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'uv>=0.9'
	$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes --no-deps -r requirements.txt \
	  || $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

serve: install  ## the service on 127.0.0.1:8001 with PROFILE=npc, assistant or both, joined by a comma; everything is kept in $(DATA)
	mkdir -p $(DATA)
	$(BIN)/wenmai serve --profile $(PROFILE) --store "$(STORE)" --port $(PORT)

test: install   ## all tests but the soak forms; of three processes, one waits for a server or a timeout
	$(BIN)/python tests/opensearch_server.py
	$(BIN)/python -m pytest -m "not soak" -n 3 --dist loadgroup

quick: install  ## the unit tests, in less than a minute
	$(BIN)/python -m pytest tests/unit -m "not soak" -n 2

check: install  ## lint and strict types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: install ## rewrite the sources as `check` wants them
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: install   ## the documentation as a site, in site/
	$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes --no-deps -r requirements-docs.txt
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

types: install  ## how completely the package is typed for those who import it
	$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes --no-deps -r requirements-types.txt
	$(BIN)/python .ci/type_completeness.py

audit: install  ## known vulnerabilities of the pinned packages, asked of PyPI; insecure code is found by `check`
	for pins in requirements.txt deploy/requirements.txt; do \
	  $(BIN)/uv tool run --quiet 'pip-audit>=2.9' --strict --disable-pip --require-hashes --progress-spinner off -r $$pins || exit 1; \
	done

bench: install  ## the figures of docs/benchmarks.md
	$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes --no-deps -r requirements-bench.txt
	$(BIN)/python -m benchmarks
	$(BIN)/python -m benchmarks.business_state
	$(BIN)/python -m benchmarks.assistant_turn
	PYTHONPATH=tests $(BIN)/python -m benchmarks.opensearch

bench-loaded: install  ## a store of 100 000 sessions beside an empty one; memory of a worker
	$(BIN)/python -m benchmarks.loaded

soak: install   ## the long forms of the crash, concurrency and growth tests
	$(BIN)/python -m pytest -m soak --timeout 3600

lock: install   ## new pins, without registry addresses
	$(BIN)/uv lock --upgrade
	$(BIN)/uv export --quiet --no-emit-project --no-annotate --no-header --group dev -o requirements.txt
	$(BIN)/uv export --quiet --no-emit-project --no-annotate --no-header --extra bench --no-group dev -o requirements-bench.txt
	$(BIN)/uv export --quiet --no-emit-project --no-annotate --no-header --only-group docs -o requirements-docs.txt
	$(BIN)/uv export --quiet --no-emit-project --no-annotate --no-header --only-group types -o requirements-types.txt
	$(BIN)/uv export --quiet --no-emit-project --no-annotate --no-header --no-group dev \
	  --extra serve --extra openai --extra postgresql --extra redis --extra embed --extra encrypt -o deploy/requirements.txt
	echo hatchling | $(BIN)/uv pip compile --quiet --no-annotate --no-header --generate-hashes -c requirements.txt - -o deploy/requirements-build.txt

screenshots: install  ## the pictures of the documentation; needs Chromium and a Chinese font
	PYTHONPATH=tests $(BIN)/python -m screenshots docs/images
	PYTHONPATH=tests $(BIN)/python -m console_screenshots docs/images

clean:          ## remove what was set up, but not the data
	rm -rf $(VENV) site .mypy_cache .ruff_cache .hypothesis
