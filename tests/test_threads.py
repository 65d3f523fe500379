"""Laws of maps over threads: order, what is waited for, and threads that serve map after map."""

import multiprocessing
import sys
import threading
import time
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.calibration import _sigmoid_calibration
from threadpoolctl import threadpool_info

from gpuml import (
    covariance,
    cross_decomposition,
    decomposition,
    discriminant_analysis,
    linear_model,
)
from gpuml._arrays import threads as pools
from gpuml._arrays.threads import (
    ALONE_TO_PRODUCTS,
    blas_threads,
    one_blas_thread,
    one_thread_for_few,
    ordered_map,
    threads_for_rows,
)
from gpuml.calibration import CalibratedClassifierCV
from gpuml.ensemble import StackingRegressor
from gpuml.gaussian_process import GaussianProcessRegressor
from gpuml.kernel_ridge import KernelRidge
from gpuml.model_selection import GridSearchCV
from gpuml.multiclass import OneVsRestClassifier
from gpuml.multioutput import MultiOutputRegressor
from gpuml.solvers.kernel import row_kernel
from gpuml.solvers.row_space import _turned
from gpuml.solvers.sides import _weights
from gpuml.svm import LinearSVR


@pytest.fixture(autouse=True)
def no_pools(monkeypatch):
    monkeypatch.setattr(pools, "_idle", {})


def thread_after(seconds):
    time.sleep(seconds)
    return threading.get_ident()


@pytest.mark.parametrize("n_items", [0, 1, 2, 9])
@pytest.mark.parametrize("threads", [1, 3])
def test_results_come_in_order(threads, n_items):
    def slower_first(i):
        time.sleep(0.001 * (n_items - i))
        return i

    assert list(ordered_map(slower_first, range(n_items), threads)) == list(range(n_items))


def test_the_caller_does_a_single_item():
    (thread,) = ordered_map(thread_after, [0.0], 2)
    assert thread == threading.get_ident()


def test_maps_one_after_the_other_use_the_same_threads():
    first, second = (set(ordered_map(thread_after, [0.01] * 8, 2)) for _ in range(2))
    assert first == second
    assert len(first) == 2


def test_maps_within_maps_and_beside_them_have_threads_of_their_own():
    def within(i):
        return sum(ordered_map(lambda j: 10 * i + j, range(3), 2))

    assert list(ordered_map(within, range(4), 2)) == [3 + 30 * i for i in range(4)]
    beside = ordered_map(thread_after, [0.0] * 9, 2)
    found = {next(beside), *ordered_map(thread_after, [0.01] * 4, 2)}
    assert len(found) == 3


def test_no_more_pools_are_kept_than_needed():
    maps = [ordered_map(abs, range(9), 2) for _ in range(pools.POOLS_KEPT + 3)]
    for each in maps:
        next(each)
    for each in maps:
        each.close()
    assert len(pools._idle[2]) == pools.POOLS_KEPT


@pytest.mark.parametrize("ending", ["closed", "raising"])
def test_a_map_that_ends_early_waits_for_what_has_begun_alone(ending):
    begun, done = [], []

    def work(i):
        begun.append(i)
        if ending == "raising" and i == 0:
            raise KeyError(i)
        time.sleep(0.05 if i else 0.0)
        done.append(i)

    results = ordered_map(work, range(40), 2)
    if ending == "raising":
        with pytest.raises(KeyError):
            next(results)
    else:
        next(results)
        results.close()
    assert set(begun) - {0} == set(done) - {0}
    assert len(begun) < 10
    n_begun = len(begun)
    time.sleep(0.1)
    assert len(begun) == n_begun
    assert list(ordered_map(abs, [-1, -2], 2)) == [1, 2]


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_starts_threads_of_its_own():
    if "fork" not in multiprocessing.get_all_start_methods():
        pytest.skip("no fork on this system")
    list(ordered_map(abs, range(4), 2))
    queue = multiprocessing.get_context("fork").SimpleQueue()

    def work():
        queue.put(list(ordered_map(abs, [-1, -2, -3], 2)))

    child = multiprocessing.get_context("fork").Process(target=work, daemon=True)
    child.start()
    child.join(20)
    assert child.exitcode == 0
    assert queue.get() == [1, 2, 3]


def _of_blas():
    return {each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"}


def test_few_rows_leave_blas_one_thread_and_us_all():
    before, own = _of_blas(), blas_threads()
    with threads_for_rows(1000, 10):
        assert _of_blas() == {1}
        assert blas_threads() == own
        with threads_for_rows(1000, 10):
            assert blas_threads() == own
        with one_blas_thread():
            assert blas_threads() == 1
        assert blas_threads() == own
    assert _of_blas() == before
    with threads_for_rows(int(ALONE_TO_PRODUCTS), 10):
        assert _of_blas() == before


FITS = [
    *(linear_model.Ridge(), linear_model.Ridge(positive=True), linear_model.RidgeCV()),
    *(linear_model.LassoCV(), linear_model.LassoLarsCV(), linear_model.BayesianRidge()),
    *(linear_model.ARDRegression(), linear_model.OrthogonalMatchingPursuitCV()),
    *(linear_model.Lars(), linear_model.LassoLarsIC(), linear_model.RidgeClassifierCV()),
    *(
        linear_model.LogisticRegression(solver="newton-cg"),
        linear_model.LogisticRegressionCV(
            l1_ratios=(0,), scoring="accuracy", use_legacy_attributes=False
        ),
    ),
    *(decomposition.PCA(), decomposition.IncrementalPCA(2), decomposition.TruncatedSVD(2)),
    *(decomposition.FactorAnalysis(2), cross_decomposition.PLSRegression(2)),
    *(discriminant_analysis.LinearDiscriminantAnalysis(), covariance.LedoitWolf()),
]


@pytest.mark.parametrize("estimator", FITS, ids=lambda each: type(each).__name__)
def test_fits_of_few_rows_give_blas_one_thread_and_its_own_again(estimator, rng, monkeypatch):
    given = []
    library = SimpleNamespace(num_threads=2, set_num_threads=given.append)
    monkeypatch.setattr(pools, "_libraries", lambda: [library])
    X = rng.normal(size=(60, 5))
    clone(estimator).fit(X, (X[:, 0] + 0.1 * rng.normal(size=60) > 0).astype(float))
    assert given[0] == 1
    assert given[-1] == 2


AROUND = [
    (GridSearchCV(LinearSVR(), {"C": [0.1]}, cv=2), _weights),
    (GridSearchCV(linear_model.LogisticRegression(), {"C": [0.1]}, cv=2), _turned),
    (OneVsRestClassifier(linear_model.LogisticRegression()), _turned),
    (MultiOutputRegressor(linear_model.Ridge()), row_kernel),
    (StackingRegressor([("ridge", linear_model.Ridge())]), row_kernel),
    (CalibratedClassifierCV(linear_model.LogisticRegression(), cv=2), _sigmoid_calibration),
]


@pytest.mark.parametrize(("estimator", "solver"), AROUND, ids=lambda each: type(each).__name__)
def test_what_is_fitted_around_few_rows_gives_blas_one_thread(estimator, solver, rng, monkeypatch):
    known = []

    def noting(*args, **kwargs):
        known.append(pools._ours)
        return solver(*args, **kwargs)

    for module in list(sys.modules.values()):
        if vars(module).get(solver.__name__) is solver:
            monkeypatch.setattr(module, solver.__name__, noting)
    X = rng.normal(size=(30, 50))
    y = rng.integers(0, 3, 30) if is_classifier(estimator) else rng.normal(size=30)
    estimator.fit(X, X[:, :2] if isinstance(estimator, MultiOutputRegressor) else y)
    assert known
    assert None not in known


def test_many_targets_and_unknown_rows_leave_blas_its_threads(monkeypatch):
    given = []
    library = SimpleNamespace(num_threads=2, set_num_threads=given.append)
    monkeypatch.setattr(pools, "_libraries", lambda: [library])
    fit = one_thread_for_few(lambda self, X, y=None: y)
    X, many = np.ones((1000, 2)), np.ones((1000, 1000))
    assert fit(None, X, many) is many
    assert fit(None, X=X, y=many) is many
    fit(None, SimpleNamespace(shape=(object(), 2)))
    fit(KernelRidge(), X)
    with pools.threads_of(KernelRidge(), SimpleNamespace(sizes=(1000, 4))):
        pass
    assert not given
    fit(None, X, many[:, :1])
    assert given == [1, 2]


@pytest.mark.parametrize(
    "estimator", [KernelRidge(), GaussianProcessRegressor()], ids=["ridge", "process"]
)
def test_searches_over_kernels_of_many_rows_leave_blas_its_threads(estimator, rng, monkeypatch):
    asked = []

    def threads_for_rows(n_rows, n_columns):
        asked.append((n_rows, n_columns))
        return nullcontext()

    monkeypatch.setattr(pools, "threads_for_rows", threads_for_rows)
    X = rng.normal(size=(40, 2))
    GridSearchCV(estimator, {"alpha": [0.1, 1.0]}, cv=2).fit(X, X[:, 0])
    assert asked
    assert all(n_columns == 40 for _, n_columns in asked)


def test_errors_leave_blas_its_threads():
    before = _of_blas()
    with pytest.raises(KeyError), threads_for_rows(1000, 10):
        raise KeyError
    assert _of_blas() == before
    assert blas_threads() == min(before)


def test_other_threads_than_the_main_one_leave_blas_alone():
    before = _of_blas()

    def within(_):
        with threads_for_rows(1000, 10):
            return _of_blas()

    assert list(ordered_map(within, range(4), 2)) == [before] * 4
