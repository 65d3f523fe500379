"""What all tests share."""

import os

# Read by scipy and scikit-learn when they are imported, so before any import that might do so:
# without it scikit-learn's own array-API checks skip.
os.environ["SCIPY_ARRAY_API"] = "1"

import gc
import importlib
import sys

import joblib
import numpy as np
import pytest

from gpuml.testing import array_libraries

MOST_PROCESSES = 8


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers():
    """Number of processes for ``-n auto``: one more than cores, as tests of clusters wait a lot.

    pytest-xdist itself counts cores that this process may not use.
    """
    return min(joblib.cpu_count() + 1, MOST_PROCESSES)


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
