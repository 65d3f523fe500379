"""Small fits and searches make few calls, and on a device few array operations and looks at them."""

import sys
from collections import Counter
from contextlib import contextmanager

import numpy as np
import pytest
from sklearn import linear_model as sk
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from gpuml._arrays import places
from gpuml._arrays.moves import transfer_observers
from gpuml.decomposition import PCA
from gpuml.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from gpuml.linear_model import (
    ElasticNet,
    LinearRegression,
    LogisticRegression,
    PoissonRegressor,
    QuantileRegressor,
    Ridge,
    RidgeCV,
)
from gpuml.model_selection import GridSearchCV
from gpuml.naive_bayes import GaussianNB
from gpuml.preprocessing import MinMaxScaler, StandardScaler
from gpuml.solvers import _few_rows, described, few_rows
from gpuml.svm import LinearSVC, LinearSVR

# Operations of torch that make no array, or no other than a view of one.
VIEWS = (
    *("view", "t", "transpose", "permute", "expand", "slice", "select", "unsqueeze", "squeeze"),
    *("alias", "detach", "diagonal", "split", "empty", "lift_fresh", "_unsafe_view", "unbind"),
)
LOOK = "_local_scalar_dense"


@pytest.fixture
def device(monkeypatch):
    """torch, whose arrays count as those of a device."""
    torch = pytest.importorskip("torch")
    on_host = places._is_host_device
    monkeypatch.setattr(
        places, "_is_host_device", lambda d: not isinstance(d, torch.device) and on_host(d)
    )
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (2**32, 2**32))
    return torch


@contextmanager
def counted(torch):
    """Count array operations ("ops"), and how often their results are looked at ("looks")."""
    from torch.utils._python_dispatch import TorchDispatchMode

    count = Counter()

    class Counting(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            name = func.__name__.partition(".")[0]
            if name not in VIEWS:
                count["looks" if name == LOOK else "ops"] += 1
            return func(*args, **(kwargs or {}))

    def moved(direction, n_bytes):
        count["looks"] += direction == "to_host"

    transfer_observers.append(moved)
    try:
        with Counting():
            yield count
    finally:
        transfer_observers.remove(moved)


def problem(n_rows=60, n_features=6):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, n_features)) * np.arange(1, n_features + 1)
    return X, X @ rng.normal(size=n_features) + rng.normal(size=n_rows)


ALPHAS = np.logspace(-3, 2, 12)
SEARCHES = {
    "ridge": (Ridge(), "alpha", 30, 3),
    "scaler": (make_pipeline(StandardScaler(), Ridge()), "ridge__alpha", 30, 3),
    "pca": (make_pipeline(PCA(3), Ridge()), "ridge__alpha", 40, 3),
    "extrema": (make_pipeline(MinMaxScaler(), Ridge()), "ridge__alpha", 90, 5),
    "elastic net": (ElasticNet(), "alpha", 30, 3),
}


@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_from_moments_makes_few_operations_however_many_candidates(device, name):
    estimator, parameter, most, most_looks = SEARCHES[name]
    X, y = (device.asarray(a) for a in problem(200))

    def count(n_candidates, cv):
        search = GridSearchCV(estimator, {parameter: ALPHAS[-n_candidates:]}, cv=cv)
        with counted(device) as found:
            search.fit(X, y)
        return found

    few, many = count(2, 5), count(12, 5)
    assert few == many
    assert few["ops"] <= most
    assert few["looks"] <= most_looks


SHARES = np.linspace(0.05, 0.95, 12)
CLASSES = {
    "normal": (GaussianNB(), "var_smoothing", np.geomspace(1e-9, 0.1, 12), 420, 20),
    "discriminants": (LinearDiscriminantAnalysis("lsqr"), "shrinkage", SHARES, 210, 15),
    "directions": (LinearDiscriminantAnalysis("eigen"), "shrinkage", SHARES, 210, 15),
    "quadratic": (QuadraticDiscriminantAnalysis(), "reg_param", SHARES, 480, 25),
}


@pytest.mark.parametrize("name", CLASSES)
def test_densities_take_few_operations_and_looks_however_many_candidates(device, name):
    estimator, parameter, values, most, most_looks = CLASSES[name]
    X, y = problem(300)
    X, y = device.asarray(X), device.asarray(np.digitize(y, np.quantile(y, [0.3, 0.6])))
    found = []
    for n_candidates in (2, 12):
        with counted(device) as count:
            GridSearchCV(estimator, {parameter: values[:n_candidates]}).fit(X, y)
        found.append(count)
    few, many = found
    assert few == many
    assert many["ops"] <= most
    assert many["looks"] <= most_looks


def test_quantile_models_of_all_splits_take_their_steps_together(device):
    X, y = problem(2000, 4)
    grid = {"quantile": [0.2, 0.9], "alpha": [0.01]}
    options = {"scoring": "neg_mean_absolute_error"}
    found = []
    for cv in (4, 10):
        with counted(device) as count:
            ours = GridSearchCV(QuantileRegressor(), grid, cv=cv, **options)
            ours.fit(device.asarray(X), device.asarray(y))
        found.append(count)
    expected = GridSearchCV(QuantileRegressor(), grid, cv=cv, **options).fit(X, y)
    key, (ours_best, best) = "mean_test_score", (s.best_estimator_ for s in (ours, expected))
    np.testing.assert_allclose(ours.cv_results_[key], expected.cv_results_[key], rtol=1e-9)
    np.testing.assert_allclose(ours_best.coef_.numpy(), best.coef_, rtol=1e-7, atol=1e-9)
    # More splits may take some steps more, as rows turn out to be on the other side.
    few, many = found
    assert many["ops"] <= 1.5 * few["ops"]
    assert many["looks"] <= 1.5 * few["looks"]


def test_looks_do_not_grow_with_classes(device):
    X, y = problem(400)
    X, looks = device.asarray(X), []
    for k in (2, 8):
        z = device.asarray(np.digitize(y, np.quantile(y, np.arange(1, k) / k)))
        with counted(device) as count:
            GridSearchCV(QuadraticDiscriminantAnalysis(), {"reg_param": SHARES}).fit(X, z)
        looks.append(count["looks"])
    assert looks[1] <= looks[0]


def test_rows_of_more_splits_take_no_more_operations(device):
    X, y = (device.asarray(a) for a in problem())
    found = []
    for cv in (3, 12):
        with counted(device) as count:
            GridSearchCV(Ridge(), {"alpha": ALPHAS}, cv=cv).fit(X, y)
        found.append(count)
    assert found[0] == found[1]


def test_a_search_of_logistic_models_makes_few_operations_however_many_candidates(device):
    X, y = problem(200)
    X, y = device.asarray(X), device.asarray((y > 0).astype(int))
    found = []
    for n_candidates in (2, 12):
        grid = {"C": np.logspace(-2, 1, n_candidates)}  # as many steps for both
        with counted(device) as count:
            GridSearchCV(LogisticRegression(), grid).fit(X, y)
        found.append(count)
    few, many = found
    assert many["ops"] <= few["ops"] + 10
    assert many["ops"] <= 550
    assert many["looks"] <= 40


STEPS = {
    "two classes": (LogisticRegression(), "C", 680, 56),
    "counts": (PoissonRegressor(), "alpha", 620, 60),
}


@pytest.mark.parametrize("name", STEPS)
def test_steps_over_many_rows_take_few_operations_and_looks(device, monkeypatch, name):
    # As of rows of which exact steps would take too long.
    monkeypatch.setattr(few_rows, "MOST_PRODUCTS", {"cpu": 0, "gpu": 0})
    estimator, parameter, most, most_looks = STEPS[name]
    X, y = problem(4000)
    X, y = X / X.std(), (y - y.mean()) / y.std()
    y = np.floor(np.exp(y)) if name == "counts" else (y > 0).astype(int)
    with counted(device) as count:
        grid = {parameter: np.logspace(-3, 1, 10)}
        GridSearchCV(estimator, grid).fit(device.asarray(X), device.asarray(y))
    assert count["ops"] <= most
    assert count["looks"] <= most_looks


@pytest.mark.gpu
@pytest.mark.parametrize("k", [2, 10])
def test_steps_on_a_gpu_look_once_a_pass(monkeypatch, k):
    cupy = pytest.importorskip("cupy")
    if not cupy.is_available():
        pytest.skip("no GPU")
    monkeypatch.setattr(few_rows, "MOST_PRODUCTS", {"cpu": 0, "gpu": 0})
    X, y = problem(4000)
    z = np.digitize(y, np.quantile(y, np.arange(1, k) / k))
    looks, data = [], (cupy.asarray(X / X.std()), cupy.asarray(z))

    def moved(direction, n_bytes):
        looks.extend([n_bytes] * (direction == "to_host"))

    grid = {"C": np.logspace(-3, 1, 10)}
    transfer_observers.append(moved)
    try:
        search = GridSearchCV(LogisticRegression(), grid).fit(*data)
    finally:
        transfer_observers.remove(moved)
    assert len(looks) <= search.plan_.n_passes + 45  # among them those of splits and scores


def calls(function):
    """Calls of Python and of C in a call that was made once before."""
    function()
    count = Counter()
    sys.setprofile(lambda frame, event, of: count.update([event in ("call", "c_call")]))
    try:
        function()
    finally:
        sys.setprofile(None)
    return count[True]


@pytest.mark.parametrize("name", ["Ridge", "LinearRegression", "RidgeCV", "LogisticRegression"])
def test_a_fit_of_few_rows_makes_fewer_calls_than_that_of_scikit_learn(name):
    X, y = problem(300)
    y = y > 0 if name == "LogisticRegression" else y
    ours, theirs = globals()[name](), getattr(sk, name)()
    assert calls(lambda: ours.fit(X, y)) < 0.8 * calls(lambda: theirs.fit(X, y))


@pytest.mark.parametrize("model", [LinearSVC(loss="hinge"), LinearSVR()], ids=["hinge", "tube"])
def test_a_step_towards_a_machine_of_few_rows_makes_few_calls(model):
    X, y = problem(300)
    y = y > 0 if isinstance(model, LinearSVC) else y
    assert calls(lambda: model.fit(X, y)) < 430 * model.n_iter_


ESTIMATORS = {
    "ridge": (Ridge(), {"alpha": [0.01, 1.0], "fit_intercept": [True, False]}),
    "scaled": (make_pipeline(StandardScaler(), Ridge()), {"ridge__alpha": [0.01, 1.0]}),
    "extrema": (make_pipeline(MinMaxScaler(), Ridge()), {"ridge__alpha": [0.01, 1.0]}),
    "pca": (make_pipeline(PCA(), Ridge()), {"pca__n_components": [2, 3]}),
    "least squares": (LinearRegression(), {"fit_intercept": [True, False]}),
    "elastic net": (ElasticNet(), {"alpha": [0.1, 1.0]}),
}


@pytest.mark.pairwise
@pytest.mark.parametrize("hard", [False, True], ids=["plain", "dependent"])
@pytest.mark.parametrize("weighted", [False, True], ids=["unweighted", "weighted"])
@pytest.mark.parametrize("shuffled", [False, True], ids=["runs", "shuffled"])
@pytest.mark.parametrize("small", [False, True], ids=["there", "here"])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_models_are_the_same_wherever_moments_are(
    library, monkeypatch, name, small, shuffled, weighted, hard
):
    # On a device that NumPy cannot read, small moments come to CPU memory, and few rows are summed
    # for all atoms at once.
    if not small:
        monkeypatch.setattr(described, "MOST_PRODUCTS_HERE", 0)
        monkeypatch.setattr(_few_rows, "COPY_BYTES", 0)
    estimator, grid = ESTIMATORS[name]
    X, y = problem()
    rng = np.random.default_rng(1)
    if hard:
        X[:, 1] = X[:, 0]  # no moments tell the two apart
    cv = [(np.sort(part[15:]), np.sort(part[:15])) for part in (rng.permutation(60), np.arange(60))]
    cv = cv if shuffled else 3
    weight = rng.uniform(0.5, 2.0, size=60) if weighted else None
    found = []
    for asarray, to_numpy in ((library.asarray, library.to_numpy), (np.asarray, np.asarray)):
        search = GridSearchCV(estimator, grid, cv=cv, scoring=["r2", "neg_mean_absolute_error"])
        search.set_params(refit="r2", return_train_score=True)
        last = "ridge__sample_weight" if hasattr(estimator, "steps") else "sample_weight"
        search.fit(asarray(X), asarray(y), **({} if weight is None else {last: asarray(weight)}))
        best = search.best_estimator_
        found.append((search.cv_results_, to_numpy(best.predict(asarray(X)))))
    (results, predictions), (expected, of_numpy) = found
    for key in expected:
        if "split" in key:
            np.testing.assert_allclose(results[key], expected[key], rtol=1e-8)
    np.testing.assert_allclose(predictions, of_numpy, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("weighted", [False, True])
def test_left_out_rows_are_predicted_the_same_wherever_moments_are(library, weighted):
    X, y = problem()
    weight = np.linspace(0.5, 2.0, len(y)) if weighted else None
    found = []
    for asarray, to_numpy in ((library.asarray, library.to_numpy), (np.asarray, np.asarray)):
        weights = None if weight is None else asarray(weight)
        model = RidgeCV(alphas=ALPHAS, store_cv_results=True)
        model.fit(asarray(X), asarray(y), sample_weight=weights)
        found.append([to_numpy(a) for a in (model.cv_results_, model.coef_)])
    for ours, expected in zip(*found, strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-8)


LOSSES = {
    "two classes": LogisticRegression(tol=1e-9),
    "three classes": LogisticRegression(tol=1e-9),
    "counts": PoissonRegressor(tol=1e-9, alpha=0.01),
}


@pytest.mark.pairwise
@pytest.mark.parametrize("scaled", [False, True], ids=["bare", "scaled"])
@pytest.mark.parametrize("intercept", [False, True], ids=["through 0", "intercept"])
@pytest.mark.parametrize("weighted", [False, True], ids=["unweighted", "weighted"])
@pytest.mark.parametrize("wide", [False, True], ids=["tall", "wide"])
@pytest.mark.parametrize("name", LOSSES)
def test_exact_steps_of_few_rows_lead_where_others_lead(
    library, monkeypatch, name, wide, weighted, intercept, scaled
):
    X, y = problem(60, 45 if wide else 6)
    X /= X.std()
    y = (y - y.mean()) / y.std()
    z = {"two classes": y > 0, "counts": np.floor(np.exp(y))}.get(name, np.digitize(y, [-0.5, 0.5]))
    z = z.astype(float) if name == "counts" else z.astype(int)
    before = StandardScaler() if scaled else "passthrough"
    model = make_pipeline(before, clone(LOSSES[name]).set_params(fit_intercept=intercept))
    step = model.steps[-1][0]
    parameter = "alpha" if name == "counts" else "C"
    weight = np.linspace(0.5, 2.0, len(z)) if weighted else None
    found = []
    for asarray, to_numpy, bounds in (
        (library.asarray, library.to_numpy, dict(few_rows.MOST_PRODUCTS)),
        (np.asarray, np.asarray, {"cpu": 0, "gpu": 0}),
    ):
        monkeypatch.setattr(few_rows, "MOST_PRODUCTS", bounds)
        search = GridSearchCV(model, {f"{step}__{parameter}": [0.1, 1.0]}, cv=3)
        params = {} if weight is None else {f"{step}__sample_weight": asarray(weight)}
        search.fit(asarray(X), asarray(z), **params)
        coef = to_numpy(search.best_estimator_[-1].coef_)
        found.append((search.cv_results_["mean_test_score"], coef))
    (scores, coef), (expected, others) = found
    np.testing.assert_allclose(scores, expected, rtol=1e-7)
    np.testing.assert_allclose(coef, others, rtol=1e-6, atol=1e-7)


def test_where_memory_runs_out_few_rows_are_read_block_by_block(monkeypatch):
    def full(*args, **kwargs):
        raise MemoryError

    X, y = problem()
    model = LogisticRegression(tol=1e-9)
    expected = model.fit(X, y > 0).coef_
    monkeypatch.setattr(few_rows._Models, "of", full)
    np.testing.assert_allclose(model.fit(X, y > 0).coef_, expected, rtol=1e-7)
