# `make test` and `make reproduce` set up everything they need in .venv, then do their job.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
KERNEL := $(wildcard native/*.h) native/avx512.cpp native/avx2.cpp native/baseline.cpp

.PHONY: test reproduce reproduce-full verify setup lint types bench bench-ops peers format clean

test: setup lint types
	$(BIN)/python -m pytest -n 2 --dist worksteal

# A first look in minutes; the same command goes on if it is stopped.
reproduce: verify
	$(BIN)/lieattn reproduce --quick

# All of the paper's runs, and those it left out: about an hour on two cores.
reproduce-full: setup
	$(BIN)/lieattn reproduce --full --group all --protocol all

verify: setup
	$(BIN)/lieattn verify

setup: $(VENV)/.installed

# Reinstalled when the requirements or the kernel change, not on every call.
$(VENV)/.installed: pyproject.toml constraints.txt setup.py $(KERNEL)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The attention operator against plain attention and peers; best on a quiet machine.
bench: peers
	$(BIN)/lieattn bench

# Lie group logarithms against kornia, pypose, jaxlie and scipy.
bench-ops: peers
	$(BIN)/python benchmarks/lie_ops.py --write

# Those that are compared with, in the same environment.
peers: setup
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[bench]'

clean:
	rm -rf $(VENV) build dist src/*.egg-info .mypy_cache .ruff_cache .hypothesis
	rm -f src/lieattn/ops/_native_*.so
