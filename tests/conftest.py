"""What all tests share."""

import os

# Read by scipy and scikit-learn when they are imported, so before any import that might do so:
# without it scikit-learn's own array-API checks skip.
os.environ["SCIPY_ARRAY_API"] = "1"
# JAX would take three quarters of the GPU's memory, which the other processes of a run need.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import gc
import importlib
import sys
from collections import defaultdict

import joblib
import numpy as np
import pytest
from threadpoolctl import threadpool_info

from gpuml.testing import array_libraries
from tests.pairs import cover
from tests.seconds import function_of, recorded, sample

MOST_PROCESSES = 8


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers():
    """Number of processes for ``-n auto``: one more than cores, as tests of clusters wait a lot.

    pytest-xdist itself counts cores that this process may not use.
    """
    return min(joblib.cpu_count() + 1, MOST_PROCESSES)


def pytest_report_header():
    """Which kernels BLAS has taken: OPENBLAS_CORETYPE is only a wish."""
    kernels = {each.get("architecture", each["internal_api"]) for each in threadpool_info()}
    return f"kernels of BLAS: {', '.join(sorted(kernels))}"


# How many of a function's combinations are enough for `make test`: positions of those.
ENOUGH = {
    "pairwise": lambda rows: cover(rows, 2),
    "each": lambda rows: cover(rows, 1),
    "some": lambda rows: range(0, len(rows), EVERY),
}
EVERY = 3


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Mark `exhaustive` what `make test` does without."""
    mark_other_combinations(items)
    if not config.pluginmanager.has_plugin("tests.seconds"):  # which times all of them
        mark_what_takes_long(items, recorded())


def mark_other_combinations(items):
    """Mark combinations `exhaustive` that tests marked `pairwise`, `each` or `some` do without.

    What needs a GPU is looked at by itself: elsewhere it is skipped.
    """
    products = defaultdict(list)
    for item in items:
        for mark in ENOUGH:
            if item.get_closest_marker(mark) is not None:
                on_gpu = item.get_closest_marker("gpu") is not None
                products[function_of(item.nodeid), on_gpu, mark].append(item)
    for (_, _, mark), product in products.items():
        # Values need not be hashable, and each is one object in all combinations.
        rows = [[id(value) for value in item.callspec.params.values()] for item in product]
        for item in set(product) - {product[i] for i in ENOUGH[mark](rows)}:
            item.add_marker(pytest.mark.exhaustive)


def mark_what_takes_long(items, seconds):
    """Mark the cases of slow functions `exhaustive` for which five minutes are too short.

    Tests of a GPU stay as they are: `make test-gpu` has more processes.
    """
    cases = defaultdict(list)
    for item in items:
        if function_of(item.nodeid) in seconds and not any(
            item.get_closest_marker(mark) for mark in ("exhaustive", "gpu")
        ):
            cases[function_of(item.nodeid)].append(item)
    for function, own in cases.items():
        kept = {own[i] for i in sample(function, len(own), seconds[function])}
        for item in set(own) - kept:
            item.add_marker(pytest.mark.exhaustive)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish():
    """Take what is there before the first test out of the sight of the garbage collector.

    These are millions of objects, of which none goes away before the end: to look through them
    takes half a second, in each of the hundreds of tests that collect garbage to see what is left.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(params=array_libraries())
def library(request):
    """Each array library in turn, as a `gpuml.testing.ArrayLibrary`."""
    if request.param.name.startswith("torch"):
        importlib.import_module("torch")
        _limit_torch()
    return request.param


@pytest.fixture
def rng():
    """A random generator with the same numbers in every run."""
    return np.random.default_rng(20_240_229)


@pytest.fixture(autouse=True)
def one_torch_thread():
    """Keep torch from starting a thread per core in each of several test processes."""
    _limit_torch()


def _limit_torch():
    # Never imports torch: most tests do not need it, and it takes seconds.
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
