# Needs GNU make and Python >= 3.11. Everything is installed into $(VENV); nothing else is touched.
#
#   make demo     searches over Ridge, LogisticRegression, a pipeline and a table on real data, and on a
#                 cluster of this machine; components of genotypes; tables on the screen, pictures
#                 in out/
#   make test     lint, types, and the tests and doctests that find most: products of parameters
#                 by pairs of values, slow functions by a sample of their cases
#   make test-all all of them: the other combinations too, whole programs, and make bits
#   make bits     tests that compare bits, with the kernels that OpenBLAS has for several CPUs
#   make test-gpu tests that need a GPU, some processes side by side on one GPU; products by pairs,
#                 or all of them: GPU_TESTS=gpu
#   make lint     ruff, mypy, spelling and words only
#   make coverage all tests again, with the share of lines that they run
#   make docs     the documentation as a site, in out/docs, with the lessons run for their pictures
#                 (about three minutes; DOCS_GALLERY= leaves them out); docs/conf.py has other
#                 variables
#   make docs-check
#                 the site in a browser (Chromium): links, pictures, errors, width of a phone
#   make bench    this library and its rivals, timed; reports in out/bench (BENCH_ARGS=... for run.py)
#   make bench-compare OLD=before NEW=after
#                 what has become slower beyond noise in two reports, or folders of them
#   make bench-page
#                 docs/benchmarks*.md, and figures of README and the pages, from benchmarks/results
#   make dist     wheel and sdist in dist/, the same bytes for the same commit, and twine check
#   make clean    remove the environment and whatever was made
#
#   On a machine with an NVIDIA GPU add EXTRAS=gpu-cu13 (CUDA 13) or EXTRAS=gpu-cu12.

# The first Python that is new enough; `make PYTHON=/path/to/python ...` takes another.
PYTHON ?= $(shell for p in python3 python python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV ?= .venv
OUT ?= out
EXTRAS ?=
JOBS ?= auto
GPU_JOBS ?= 8
GPU_TESTS ?= gpu and not exhaustive

comma := ,
MORE := $(if $(EXTRAS),$(comma)$(EXTRAS))
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
EXAMPLES := $(VENV)/.examples$(EXTRAS)
TEST := $(VENV)/.test$(EXTRAS)
DOCS := $(VENV)/.docs$(EXTRAS)

.DEFAULT_GOAL := help
.PHONY: help demo test test-all test-rest test-seconds test-gpu quick bits lint coverage docs docs-check bench \
	bench-compare bench-page dist clean

help:
	@sed -n 's/^#   //p' Makefile

demo: $(EXAMPLES)
	$(BIN)/python benchmarks/programs/grid_search_ridge.py --output $(OUT)
	$(BIN)/python benchmarks/programs/classification_search.py --output $(OUT)
	$(BIN)/python benchmarks/programs/pipeline_search.py --output $(OUT)
	$(BIN)/python benchmarks/programs/table_search.py --rows 40000 --rival-rows 2000
	$(BIN)/python benchmarks/programs/cluster_search.py --output $(OUT)
	$(BIN)/python benchmarks/programs/population_structure.py --output $(OUT)

test: lint quick

test-all: test test-rest

lint: $(TEST)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/codespell
	$(BIN)/python -m pytest -q tests/test_words.py

# About as many processes as cores (JOBS=0: everything in one process, as a debugger needs it), each
# with one thread: with more they are slower than a single process. scikit-learn's array-API checks
# run only if SciPy was told so before its import.
quick test-seconds test-rest bits coverage: export SCIPY_ARRAY_API = 1
quick test-seconds test-rest bits coverage: export OMP_NUM_THREADS = 1
quick test-seconds test-rest bits coverage: export OPENBLAS_NUM_THREADS = 1
quick test-seconds test-rest bits coverage: export MKL_NUM_THREADS = 1
PYTEST := $(BIN)/python -m pytest --numprocesses=$(JOBS) --dist=worksteal

quick: $(TEST)
	$(PYTEST) -m "not exhaustive and not gpu" $(PYTEST_ARGS)

# Which cases of slow functions `make test` runs follows from these times.
test-seconds: $(TEST)
	$(PYTEST) -m "not exhaustive and not gpu" -p tests.seconds $(PYTEST_ARGS)

# What `make test` leaves out.
test-rest: bits
	$(PYTEST) -m "(exhaustive or gpu) and not alone" $(PYTEST_ARGS)
	$(BIN)/python -m pytest -m alone tests/test_architecture.py

# OpenBLAS takes kernels that this CPU has no instructions for, and dies: those are left out.
bits: $(TEST)
	@for kernels in Haswell:avx2 SkylakeX:avx512f; do \
		if grep -qsw "$${kernels#*:}" /proc/cpuinfo; then \
			echo "bits, with kernels for $${kernels%:*}"; \
			OPENBLAS_CORETYPE=$${kernels%:*} $(PYTEST) -m bits $(PYTEST_ARGS) || exit 1; \
		else \
			echo "bits: left out kernels for $${kernels%:*}, this CPU has no $${kernels#*:}"; \
		fi; \
	done

# A test of a GPU waits for Python more than for the GPU: GPU_JOBS processes share it. Each takes about
# a GB of its memory.
test-gpu: export SCIPY_ARRAY_API = 1
test-gpu: export OMP_NUM_THREADS = 1
test-gpu: export OPENBLAS_NUM_THREADS = 1
test-gpu: $(TEST)
	@test -n "$(EXTRAS)" || { \
		echo "Without cuML every test would be skipped: make test-gpu EXTRAS=gpu-cu13"; exit 2; }
	$(BIN)/python -m pytest -m "$(GPU_TESTS)" --numprocesses=$(GPU_JOBS) --dist=worksteal $(PYTEST_ARGS)

docs: export DOCS_GALLERY ?= 1
docs: $(DOCS)
	$(BIN)/python -m sphinx -b html -d $(OUT)/doctrees -W --keep-going -q docs $(OUT)/docs
	@echo "The site is in $(OUT)/docs: open $(abspath $(OUT))/docs/index.html"

docs-check: docs $(TEST)
	$(BIN)/python -m pytest -q tests/test_site_in_browser.py

# Takes about twice as long as the tests alone.
coverage: $(TEST)
	$(PYTEST) -m "not alone" --cov --cov-report=term $(PYTEST_ARGS)

bench: $(EXAMPLES)
	$(BIN)/python benchmarks/run.py --out $(OUT)/bench $(BENCH_ARGS)

bench-compare: $(EXAMPLES)
	@test -n "$(OLD)" -a -n "$(NEW)" || { \
		echo "Name two reports or folders: make bench-compare OLD=before NEW=after"; exit 2; }
	$(BIN)/python benchmarks/compare.py $(OLD) $(NEW)

bench-page: $(EXAMPLES)
	$(BIN)/python benchmarks/page.py
	$(BIN)/python benchmarks/published.py

dist: $(VENV)/.made
	@$(PIP) install 'build>=1.2' 'twine>=6'
	rm -rf dist
	$(BIN)/python .ci/dist.py
	$(BIN)/python -m twine check --strict dist/*

clean:
	rm -rf $(VENV) $(OUT) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache \
		docs/auto_examples docs/reference/generated
	find gpuml gpuml_dask tests examples benchmarks -name __pycache__ -type d -prune \
		-exec rm -rf {} +

# ------------------------------------------------------------------------------- environment
# A stamp file says what is installed; it is made again when pyproject.toml changes.

$(VENV)/.made:
	@test -n "$(PYTHON)" || { \
		echo "gpuml needs Python 3.11 or newer, and none was found."; \
		echo "Install one, or name it: make PYTHON=/path/to/python"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(EXAMPLES): $(VENV)/.made pyproject.toml
	@echo "Installing gpuml and what its examples need into $(VENV) (about a minute) ..."
	@$(PIP) install --editable '.[examples$(MORE)]'
	@touch $@

$(TEST): $(VENV)/.made pyproject.toml
	@echo "Installing gpuml and what its tests need into $(VENV) (a few minutes) ..."
	@$(PIP) install --editable '.[test$(MORE)]'
	@$(PIP) install --editable '.[test-torch]' \
		|| echo "torch could not be installed: its tests will be skipped."
	@touch $@ $(EXAMPLES)

$(DOCS): $(VENV)/.made pyproject.toml
	@echo "Installing gpuml and what builds its documentation into $(VENV) (about a minute) ..."
	@$(PIP) install --editable '.[docs$(MORE)]'
	@touch $@
