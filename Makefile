# Every target sets up what it needs in .venv, then does its job.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
KERNEL := $(wildcard native/*.h) native/avx512.cpp native/avx2.cpp native/baseline.cpp

PYTEST := $(BIN)/python -m pytest -n 2 --dist worksteal

.PHONY: test test-fast test-slow test-faults test-faults-long coverage sanitize reproduce
.PHONY: reproduce-full realdata verify setup dev lint types bench bench-ops peers format
.PHONY: wheel wheels release-check clean

# All but the tests that are marked slow.
test: dev lint types
	$(PYTEST) -m "not slow"

# Under a minute, to run while at work: the core without its thorough tests.
FAST := tests/core tests/paper/test_instantiations.py tests/paper/test_parameter_counts.py \
  $(patsubst %,tests/groups/test_%.py,bad_input block_kinds blocks constructors golden margin registry) \
  $(patsubst %,tests/ops/test_%.py,dispatch exclude_self native_library tiled) \
  $(patsubst %,tests/test_%.py,checkpoint heads losses masks model model_bad_input relations scores)

test-fast: dev
	$(PYTEST) -m "not slow" $(FAST)

# Those that take over ten seconds each: compilers, ONNX, killed runs, several processes.
test-slow: dev
	$(PYTEST) -m slow

# What `make test` runs of the library, line by line, in build/coverage/index.html.
coverage: dev
	$(PYTEST) -m "not slow" --cov --cov-report=term --cov-report=html

# Kills, full disks, signals, damaged files, extreme poses: under half an hour on two cores, with
# QUICK=1 under four minutes. Its counts go to runs/faults.jsonl.
test-faults: LEVEL := $(if $(QUICK),quick,full)
test-faults-long: LEVEL := long
test-faults test-faults-long: dev
	@mkdir -p runs && rm -f runs/faults.jsonl
	LIEATTN_FAULTS=$(LEVEL) LIEATTN_FAULT_LOG=$(CURDIR)/runs/faults.jsonl \
	  $(BIN)/python -m pytest tests/faults -n 2 --dist worksteal

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

dev: $(VENV)/.dev

# One stamp for every set of requirements: whoever wants results installs no tools of tests. They
# are installed anew when the requirements or the kernel change, not on every call.
$(VENV)/.installed: EXTRAS := data,lab
$(VENV)/.dev: EXTRAS := dev
$(VENV)/.peers: EXTRAS := data,bench
$(VENV)/.release: EXTRAS := release

$(VENV)/.installed $(VENV)/.dev $(VENV)/.peers $(VENV)/.release: pyproject.toml constraints.txt setup.py $(KERNEL)
	@echo "Installing into $(VENV) (about two minutes, once)..."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[$(EXTRAS)]'
	@touch $@ $(if $(filter dev,$(EXTRAS)),$(VENV)/.installed)

lint: dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: dev
	$(BIN)/mypy

format: dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The attention operator against plain attention and peers; best on a quiet machine.
bench: peers
	$(BIN)/lieattn bench --long 65536

# Lie group logarithms against kornia, pypose, jaxlie and scipy.
bench-ops: peers
	$(BIN)/python benchmarks/lie_ops.py --write

# Those that are compared with, in the same environment.
peers: $(VENV)/.peers

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

# The sdist, and from it the wheel for this kind of machine, checked, in dist/: for Linux with glibc
# 2.28 or newer, as torch's own wheels, and every Python. Nothing is uploaded.
PLATFORM := manylinux_2_28_$(shell uname -m)

wheel: $(VENV)/.release
	rm -rf dist build/wheel
	$(BIN)/python -m build --outdir build/wheel
	PATH="$(abspath $(BIN)):$$PATH" auditwheel repair --plat $(PLATFORM) --only-plat -w dist build/wheel/*.whl
	cp build/wheel/*.tar.gz dist
	$(BIN)/python tools/check_wheel.py dist/*.whl
	$(BIN)/twine check --strict dist/*

# The wheel as it is released: built in manylinux's own container, tried on every Python. Needs
# Docker.
wheels: $(VENV)/.release
	rm -rf dist
	$(BIN)/cibuildwheel --output-dir dist
	$(BIN)/python -m build --sdist --outdir dist
	$(BIN)/python tools/check_wheel.py dist/*.whl
	$(BIN)/twine check --strict dist/*

# Whether all files that name the version agree with VERSION, and the changelog has its date.
release-check:
	$(PYTHON) tools/check_release.py $(VERSION)

clean:
	rm -rf $(VENV) build dist .coverage* src/*.egg-info .mypy_cache .ruff_cache .hypothesis
	rm -f src/lieattn/ops/native/_*.so
