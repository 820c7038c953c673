# `make help` lists what there is. `make demo` and `make test` do everything on a fresh machine with Python 3.11+.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help setup java demo unit simulate-coverage test test-all bench

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
NAME ?=
ARGS ?=

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP) java ## prepare: virtual environment, dependencies, Java 17+; does nothing when nothing changed

demo: setup ## a word count that loses a host, then everything, and still counts right
	@$(BIN)/perseid demo

unit: setup ## the tests that need no Spark
	$(BIN)/pytest -m "not slow" -n auto --dist worksteal tests/unit tests/property

simulate-coverage: setup ## how much of what decides is run by 300 simulated worlds; fails under 90 %
	$(BIN)/python tests/simulation/simulate_coverage.py

# Two lanes, since two cores are what every machine has: a third one only makes each of them late. Both have as much to do.
test: setup ## lint, types, and all tests but the slow ones: real faults and simulated worlds in one lane, all others in a second one beside it
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	@mkdir -p build; status=0; \
	echo "real faults and simulated worlds run beside all other tests, see build/beside.log"; \
	set -m; ( export PYTHONUNBUFFERED=1; status=0; \
	  $(BIN)/pytest -m "not slow" --durations=10 tests/faults || status=$$?; \
	  nice $(BIN)/pytest -m "not slow" --durations=10 tests/simulation || status=$$?; \
	  exit $$status ) > build/beside.log 2>&1 & beside=$$!; set +m; \
	trap "kill -- -$$beside 2>/dev/null || true" EXIT; \
	$(BIN)/mypy || status=$$?; \
	$(BIN)/pytest -m "not slow" --durations=10 tests/spark || status=$$?; \
	nice $(BIN)/pytest -m "not slow" --durations=10 --ignore=tests/spark --ignore=tests/faults --ignore=tests/simulation || status=$$?; \
	echo "real faults and simulated worlds, which ran beside:"; wait $$beside || status=$$?; cat build/beside.log; \
	exit $$status

test-all: setup ## lint, types, and every test: real faults and Spark's tests in one lane, all others in a second one beside it
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	@mkdir -p build; status=0; \
	echo "all tests without Spark run beside the others, see build/others.log"; \
	PYTHONUNBUFFERED=1 nice $(BIN)/pytest --durations=10 --ignore=tests/spark --ignore=tests/faults > build/others.log 2>&1 & others=$$!; \
	trap "kill $$others 2>/dev/null || true" EXIT; \
	$(BIN)/pytest --durations=15 tests/faults || status=$$?; \
	$(BIN)/pytest --durations=15 tests/spark || status=$$?; \
	echo "all others, which ran beside:"; wait $$others || status=$$?; cat build/others.log; \
	exit $$status

bench: setup ## run a benchmark: make bench NAME=engine [ARGS=--quick]; without NAME, list them
	@$(BIN)/perseid bench $(NAME) $(ARGS)

# The virtual environment, made again when pyproject.toml is newer than the last installation.
$(STAMP): pyproject.toml
	@command -v apt-get >/dev/null && { test "$$(id -u)" = 0 || sudo -n true 2>/dev/null; } && may_install=yes || may_install=; \
	test "$$(id -u)" = 0 && as_root= || as_root="sudo -n"; \
	python=; \
	for name in python3 python3.13 python3.12 python3.11; do \
	  if "$$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then python=$$name; break; fi; \
	done; \
	if [ -z "$$python" ]; then echo "setup: Python 3.11 or newer is needed and was not found: install it, then run make again." >&2; exit 1; fi; \
	if [ ! -x $(BIN)/python ]; then \
	  echo "setup: making $(VENV) with $$($$python --version)"; \
	  if $$python -c 'import ensurepip' 2>/dev/null; then $$python -m venv $(VENV); \
	  elif command -v uv >/dev/null; then uv venv --quiet --seed --python "$$(command -v $$python)" $(VENV); \
	  elif [ -n "$$may_install" ]; then \
	    echo "setup: installing python3-venv"; \
	    $$as_root apt-get update -qq; \
	    $$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq python3-venv >/dev/null; \
	    $$python -m venv $(VENV); \
	  else echo "setup: this Python cannot make virtual environments: install the package python3-venv (or uv), then run make again." >&2; exit 1; fi; \
	fi; \
	echo "setup: installing the dependencies"; \
	{ command -v uv >/dev/null && uv pip install --quiet --python $(BIN)/python -e '.[dev]'; } \
	  || $(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'; \
	touch $@

# Spark needs Java 17 or newer, taken as Spark takes it: JAVA_HOME first, then the path.
java:
	@version() { "$${JAVA_HOME:+$$JAVA_HOME/bin/}java" -version 2>&1 | sed -n 's/.* version "\(1\.\)\{0,1\}\([0-9]*\).*/\2/p' | head -n 1; }; \
	found=$$(version || true); \
	if [ "$${found:-0}" -ge 17 ]; then exit 0; fi; \
	have=$${found:+", found Java $$found"}; \
	if [ -n "$${JAVA_HOME:-}" ] || ! command -v apt-get >/dev/null || ! { test "$$(id -u)" = 0 || sudo -n true 2>/dev/null; }; then \
	  echo "setup: Spark needs Java 17 or newer$${have:-, found none}: install a JRE (or point JAVA_HOME at one), then run make again." >&2; exit 1; fi; \
	test "$$(id -u)" = 0 && as_root= || as_root="sudo -n"; \
	echo "setup: installing Java 17$${have:-, found none}"; \
	$$as_root apt-get update -qq; \
	$$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq openjdk-17-jre-headless >/dev/null; \
	found=$$(version || true); \
	if [ "$${found:-0}" -lt 17 ]; then echo "setup: openjdk-17-jre-headless is installed, but 'java' on the path is still older than 17: choose it, then run make again." >&2; exit 1; fi
