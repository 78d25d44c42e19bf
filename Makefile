# `make test` and `make reproduce` set up everything they need in .venv, then do their job.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
KERNEL := $(wildcard native/*.h) native/avx512.cpp native/avx2.cpp native/baseline.cpp

.PHONY: test sanitize reproduce reproduce-full realdata verify setup lint types bench bench-ops peers format clean

test: setup lint types
	$(BIN)/python -m pytest -n 2 --dist worksteal

# A first look in minutes; the same command goes on if it is stopped.
reproduce: verify
	$(BIN)/lieattn reproduce --quick

# All of the paper's runs, and those it left out: about an hour on two cores.
reproduce-full: setup
	$(BIN)/lieattn reproduce --full --group all --protocol all

# Models and simple rivals on real poses of the six groups: about an hour on two cores.
realdata: peers
	$(BIN)/lieattn realdata

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
	$(BIN)/lieattn bench --long 65536

# Lie group logarithms against kornia, pypose, jaxlie and scipy.
bench-ops: peers
	$(BIN)/python benchmarks/lie_ops.py --write

# Those that are compared with, in the same environment.
peers: setup
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[bench]'

# The CPU kernel over many shapes, with reads and writes out of bounds and undefined behaviour made
# fatal; only the baseline where the machine is no x86.
SANITIZE := -std=c++17 -O1 -g -pthread -Wno-psabi -Wno-maybe-uninitialized -Wno-uninitialized \
  -fsanitize=address,undefined -fno-sanitize-recover=all
FLAGS_avx512 := -mavx512f -mavx512dq -mavx512vl -mavx512bw -mfma
FLAGS_avx2 := -mavx2 -mfma
BUILDS := baseline $(if $(filter x86_64,$(shell uname -m)),avx2 avx512)

sanitize: $(BUILDS:%=build/sanitize_%)
	@for program in $^; do echo $$program && $$program || exit 1; done

build/sanitize_%: native/test_shapes.cpp $(KERNEL) Makefile
	@mkdir -p build
	$(CXX) $(SANITIZE) $(FLAGS_$*) $< -o $@

clean:
	rm -rf $(VENV) build dist src/*.egg-info .mypy_cache .ruff_cache .hypothesis
	rm -f src/lieattn/ops/_native_*.so
