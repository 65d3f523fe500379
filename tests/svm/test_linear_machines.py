"""Laws of linear machines: liblinear's optimum, weights, one against the rest, searches."""

import warnings
from functools import wraps

import numpy as np
import pytest
from scipy import sparse
from sklearn import svm as sk
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV as TheirSearch
from sklearn.model_selection import KFold

from gpuml._arrays import device_of
from gpuml.compose import ColumnTransformer
from gpuml.linear_model import _class_models
from gpuml.linear_model._losses import fit_loss
from gpuml.losses import SQUARED_HINGE, squared_beyond
from gpuml.model_selection import GridSearchCV
from gpuml.pipeline import make_pipeline
from gpuml.preprocessing import OneHotEncoder, StandardScaler
from gpuml.solvers import one_model
from gpuml.svm import LinearSVC, LinearSVR, _machines
from gpuml.testing import array_libraries, tolerance
from tests.model_selection.test_divided_search import check_search

SQUARED = "squared_epsilon_insensitive"
# Differences of objectives that are no worse a model: some squares of `tol`.
SAME = 1e-7
TIGHT = {"tol": 1e-10, "max_iter": 1_000_000}
CLASSES = [
    {},
    {"C": 30.0, "fit_intercept": False},
    {"C": 0.05, "intercept_scaling": 10.0, "class_weight": "balanced"},
    {"class_weight": {0: 3.0, 1: 0.5}},
    {"penalty": "l1", "C": 0.3},
    {"penalty": "l1", "C": 0.3, "intercept_scaling": 5.0},
    {"loss": "hinge", "C": 0.05},
    {"loss": "hinge", "C": 0.02, "class_weight": "balanced", "intercept_scaling": 3.0},
    {"loss": "hinge", "C": 0.05, "fit_intercept": False},
]
NUMBERS = [
    {},
    {"C": 0.1, "epsilon": 0.7, "fit_intercept": False},
    {"epsilon": 0.3, "intercept_scaling": 10.0},
    {"loss": SQUARED},
    {"loss": SQUARED, "C": 30.0, "epsilon": 0.7, "intercept_scaling": 10.0},
    {"loss": SQUARED, "C": 0.01, "epsilon": 0.2, "fit_intercept": False},
]
MODELS = [*(LinearSVC(**p) for p in CLASSES), *(LinearSVR(**p) for p in NUMBERS)]
each_model = pytest.mark.parametrize("model", MODELS, ids=str)


def rows(rng, model, n=120, p=4, n_classes=3):
    """Rows, targets that a model takes, and weights some of which are 0."""
    X = rng.normal(size=(n, p)) + 0.5
    margin = X @ rng.normal(size=p) + rng.normal(size=n)
    y = margin
    if isinstance(model, LinearSVC):
        y = np.digitize(margin, np.quantile(margin, np.linspace(0, 1, n_classes + 1)[1:-1]))
    return X, y, rng.integers(0, 4, n).astype(float)


def theirs(model, **more):
    """scikit-learn's, with as many steps as it takes."""
    params = model.get_params() | TIGHT | {"random_state": 0} | more
    return getattr(sk, type(model).__name__)(**params)


def exactly(estimator, *rows):
    """Fitted; of kinks liblinear rarely says that it has converged, and has."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return estimator.fit(*rows)


@pytest.mark.pairwise
@each_model
@pytest.mark.parametrize("library", array_libraries())
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_models_are_liblinears(model, library, dtype, n_classes, rng):
    X, y, weight = rows(rng, model, n_classes=n_classes)
    X = X.astype(dtype)
    expected = exactly(theirs(model), X, y, weight)
    there = library.asarray(X)
    found = clone(model).set_params(tol=1e-10 if dtype == "float64" else 1e-6)
    found.fit(there, library.asarray(y), library.asarray(weight.astype(dtype)))
    assert device_of(found.coef_) == device_of(there)
    assert type(found.n_iter_) is int
    # Of float32 rows products are of that precision, and so is where they end.
    rtol = 20 * tolerance(dtype) if dtype == "float32" else tolerance(dtype)
    for name in ("coef_", "intercept_"):
        ours, other = getattr(found, name), getattr(expected, name)
        assert np.shape(ours) == np.shape(other)
        ours = library.to_numpy(ours) if np.ndim(other) else ours
        np.testing.assert_allclose(ours, other, rtol=rtol, atol=rtol * np.abs(other).max())
    if dtype == "float64":
        ours = library.to_numpy(found.predict(there))
        np.testing.assert_allclose(ours, expected.predict(X), rtol=1e-5, atol=1e-5)


@each_model
def test_weights_are_repetitions(model, rng):
    X, y, weight = rows(rng, model)
    model = clone(model).set_params(tol=1e-10)
    times = weight.astype(int)
    weighted = clone(model).fit(X, y, weight)
    repeated = clone(model).fit(X.repeat(times, axis=0), y.repeat(times))
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(weighted.intercept_, repeated.intercept_, rtol=1e-6, atol=1e-8)


@each_model
@pytest.mark.parametrize("is_scaled", [False, True])
def test_searches_are_fits_one_by_one(model, is_scaled, rng):
    X, y, _ = rows(rng, model)
    grid = {"C": [1e-3, 0.1, 2.0], "fit_intercept": [True, False]}
    if isinstance(model, LinearSVR):
        grid = {"C": [1e-3, 2.0], "epsilon": [0.0, 0.4], "intercept_scaling": [1.0, 4.0]}
    ours, other = clone(model).set_params(tol=1e-10), theirs(model)
    if is_scaled:
        name = type(model).__name__.lower()
        grid = {f"{name}__{key}": values for key, values in grid.items()}
        ours, other = (make_pipeline(StandardScaler(), each) for each in (ours, other))
    cv = KFold(3, shuffle=True, random_state=0)
    found = GridSearchCV(ours, grid, cv=cv).fit(X, y)
    assert "together" in found.plan_.steps[0].why
    expected = exactly(TheirSearch(other, grid, cv=cv), X, y)
    for split in range(3):
        name = f"split{split}_test_score"
        np.testing.assert_allclose(
            found.cv_results_[name], expected.cv_results_[name], rtol=1e-5, atol=1e-6
        )
    alone = clone(found.best_estimator_).fit(X, y)
    np.testing.assert_allclose(found.predict(X), alone.predict(X), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("model", [m for m in MODELS if m.loss.startswith("squared")], ids=str)
def test_sparse_rows_and_divided_rows(model, rng):
    X, y, weight = rows(rng, model)
    X = np.where(rng.random(X.shape) < 0.5, X, 0.0)
    model = clone(model).set_params(tol=1e-10)
    dense = clone(model).fit(X, y, weight)
    found = clone(model).fit(sparse.csr_array(X), y, weight)
    np.testing.assert_allclose(found.coef_, dense.coef_, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(found.intercept_, dense.intercept_, rtol=1e-6, atol=1e-8)
    scoring = "accuracy" if isinstance(model, LinearSVC) else "r2"
    case = model, [{"C": C} for C in (0.01, 1.0)]
    check_search(case, X, y, None, scoring=scoring, splitter=KFold(3), sizes=(50, 20, 50))


@pytest.mark.parametrize(
    "model",
    [
        *(LinearSVC(tol=1e-10), LinearSVC(loss="hinge"), LinearSVC(penalty="l1", tol=1e-10)),
        LinearSVR(),
    ],
    ids=str,
)
def test_columns_of_several_kinds(model, rng):
    """What a ColumnTransformer makes is never made, for machines as for other linear models."""
    X, y, _ = rows(rng, model)
    X[:, 2] = rng.integers(0, 4, len(X))
    encoder = OneHotEncoder(handle_unknown="ignore")
    steps = ColumnTransformer([("scaled", StandardScaler(), [0, 1]), ("coded", encoder, [2])])
    search = GridSearchCV(
        make_pipeline(steps, model), {f"{type(model).__name__.lower()}__C": [0.1, 1.0]}
    )
    found = exactly(search, X, y)
    assert "together" in found.plan_.steps[0].why
    alone = clone(found.best_estimator_).fit(X, y)
    best = found.best_estimator_[-1].coef_
    np.testing.assert_allclose(best, alone[-1].coef_, rtol=1e-6, atol=1e-7)


# ---------------------------------------------------------------- optima that are hard to reach


def objective(model, X, y):
    """liblinear's, of an intercept that is fitted, with epsilon 0."""
    z = X @ np.atleast_2d(model.coef_).T + model.intercept_
    if isinstance(model, sk.LinearSVC):
        sign = np.where(y[:, None] == np.arange(max(2, z.shape[1]))[-z.shape[1] :], 1.0, -1.0)
        errors = np.maximum(0.0, 1.0 - sign * z)
    else:
        errors = np.abs(y[:, None] - z)
    power = 2 if model.loss.startswith("squared") else 1
    size = np.sum(model.coef_**2) + np.sum(np.square(model.intercept_))
    return size / 2 + model.C * np.sum(errors**power)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("C", [1e-2, 1.0, 1e2, 1e3])
@pytest.mark.parametrize(("n", "p", "n_classes"), [(400, 10, 2), (90, 90, 3), (60, 200, 2)])
@pytest.mark.parametrize("params", [{}, {"loss": "hinge"}], ids=str)
def test_no_model_is_further_from_the_minimum_than_theirs(C, n, p, n_classes, params, rng):
    """At the defaults; of rows that can be told apart, objectives are next to 0."""
    model = LinearSVC(C=C, **params)
    X, y, _ = rows(rng, model, n, p, n_classes)
    values = [
        objective(estimator.fit(X, y), X, y)
        for estimator in (model, sk.LinearSVC(C=C, random_state=0, **params))
    ]
    assert values[0] <= values[1] * (1 + SAME)


@pytest.mark.each
@pytest.mark.parametrize("scale", [1.0, 100.0])
@pytest.mark.parametrize(("n", "p"), [(250, 100), (1500, 60)])
def test_blobs_that_are_far_apart_take_few_steps(n, p, scale):
    """Few rows count at the minimum, and a penalty holds the model in most directions."""
    X, y = make_blobs(n, p, centers=3, random_state=0)
    model = LinearSVC().fit(scale * X, y)
    assert model.n_iter_ < 200  # they were a thousand, and not enough
    best = theirs(model, tol=1e-8, dual=True).fit(scale * X, y)
    assert objective(model, scale * X, y) <= objective(best, scale * X, y) * (1 + 1e-6)
    search = GridSearchCV(LinearSVC(), {"C": [0.01, 1.0]}, cv=3).fit(scale * X, y)
    assert not search.plan_.reasons
    assert search.cv_results_["mean_test_score"].min() == 1.0


@pytest.mark.parametrize("loss", ["epsilon_insensitive", SQUARED])
def test_regression_is_as_near_to_the_minimum(loss, rng):
    model = LinearSVR(loss=loss, C=100.0)
    X, y, _ = rows(rng, model, 60, 200)
    other = theirs(model, tol=1e-4, dual=True, max_iter=20_000)
    values = [objective(exactly(each, X, y), X, y) for each in (model, other)]
    assert values[0] <= values[1] * (1 + SAME)


@pytest.mark.parametrize("loss", [SQUARED_HINGE, squared_beyond(0.3)], ids=["hinge", "epsilon"])
def test_slopes_are_those_of_the_losses(loss, rng):
    z = rng.normal(size=(1, 2, 3, 50)) * 2
    target = rng.integers(0, 2, 50).astype(float)
    ahead, behind = (loss.value(z + h, target, np) for h in (1e-6, -1e-6))
    slope = loss.slope(z.copy(), target, np)[0]
    np.testing.assert_allclose(slope, (ahead - behind) / 2e-6, atol=1e-5)
    curvature = loss.curvature(z.copy(), target, np)[0]
    assert set(np.unique(curvature)) == {0.0, 2.0}
    np.testing.assert_array_equal(curvature > 0, slope != 0)


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    "model",
    [
        LinearSVC(penalty="l1", loss="hinge"),
        LinearSVC(penalty="l1", dual=True),
        LinearSVC(loss="hinge", dual=False),
        LinearSVC(intercept_scaling=0.0),
        LinearSVC(C=-1.0),
        LinearSVR(dual=False),
        LinearSVR(loss="hinge"),
    ],
    ids=str,
)
def test_errors_are_scikit_learns(model, rng):
    X, y, _ = rows(rng, model)
    with pytest.raises(ValueError, match=r"\w") as expected:
        theirs(model).fit(X, y)
    with pytest.raises(ValueError, match=r"\w") as found:
        model.fit(X, y)
    assert str(found.value) == str(expected.value)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_one_class_and_no_weight(loss, rng):
    X, y, _ = rows(rng, LinearSVC())
    with pytest.raises(ValueError, match="at least 2 classes"):
        LinearSVC(loss=loss).fit(X, np.zeros(len(X)))
    with pytest.raises(ValueError, match="at least one non-zero number"):
        LinearSVC(loss=loss).fit(X, y, np.zeros(len(X)))
    with pytest.raises(ValueError, match="epsilon must not be negative"):
        LinearSVR(epsilon=-1.0).fit(X, y)


def test_what_scikit_learn_solves(rng):
    strict = pytest.importorskip("array_api_strict")
    X, y, _ = rows(rng, LinearSVC())
    model = LinearSVC(multi_class="crammer_singer", random_state=0)
    expected = exactly(theirs(model, tol=1e-4, max_iter=1000), X, y)
    np.testing.assert_array_equal(exactly(model, X, y).coef_, expected.coef_)
    with pytest.raises(
        ValueError,
        match="multi_class='crammer_singer' runs scikit-learn's .* Use multi_class='ovr'",
    ):
        model.fit(strict.asarray(X), strict.asarray(y))
    search = exactly(GridSearchCV(model, {"C": [0.1, 1.0]}, cv=2), X, y)
    assert "multi_class='crammer_singer'" in search.plan_.steps[0].reasons[0]
    search = exactly(GridSearchCV(LinearSVR(), {"C": [0.1]}, cv=2), sparse.csr_array(X), y)
    assert "loss='epsilon_insensitive'" in search.plan_.steps[0].reasons[0]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("params", [{}, {"fit_intercept": False}, {"penalty": "l1"}], ids=str)
def test_machines_of_few_rows_are_those_of_one_class_after_the_other(
    rng, library, monkeypatch, params, weighted
):
    X, y, w = rows(rng, LinearSVC())
    model = LinearSVC(tol=1e-9, max_iter=10_000, **params)
    weights = {"sample_weight": library.asarray(w)} if weighted else {}
    found = {}
    for together in (True, False):
        fits = []

        def fit(folds, *args, fits=fits):
            fits.append(folds)
            return fit_loss(folds, *args)

        with monkeypatch.context() as patch:
            patch.setattr(_machines, "fit_loss", fit)
            if not together:
                patch.setattr(_machines, "_cost_little", lambda folds, n_machines: False)
            search = GridSearchCV(model, {"C": [0.01, 0.3, 10.0]}, cv=3)
            found[together] = search.fit(library.asarray(X), library.asarray(y), **weights)
        # All folds and the refit.
        assert len(fits) == 2 * (1 if together else 3)
    one, other = found[True].best_estimator_, found[False].best_estimator_
    np.testing.assert_allclose(
        library.to_numpy(one.coef_), library.to_numpy(other.coef_), rtol=1e-5, atol=1e-7
    )
    for name in ("mean_test_score", "std_test_score"):
        np.testing.assert_allclose(found[True].cv_results_[name], found[False].cv_results_[name])


def test_machines_of_many_sparse_features_take_passes_rather_than_hessians(rng, monkeypatch):
    """A Hessian of all features is dense, and takes as long as thousands of passes."""
    taken = []
    monkeypatch.setattr(one_model._Steps, "take_hessian", lambda *_: taken.append(1))
    X = sparse.random(1500, 1000, 0.02, format="csr", random_state=0)
    y = X @ rng.normal(size=1000) + 0.2 * rng.normal(size=1500) > 0
    ours, theirs = LinearSVC(C=10.0).fit(X, y), sk.LinearSVC(C=10.0, dual=False).fit(X, y)
    assert not taken

    def objective(model):
        margins = np.where(y, 1.0, -1.0) * model.decision_function(X)
        penalty = np.sum(model.coef_**2) + float(model.intercept_[0]) ** 2
        return penalty / 2 + 10.0 * np.sum(np.maximum(0.0, 1.0 - margins) ** 2)

    np.testing.assert_allclose(objective(ours), objective(theirs), rtol=1e-5)


def test_machines_of_all_classes_count_their_rows_once(rng, monkeypatch):
    counted, count = [], _class_models._counts_of_classes

    @wraps(count)
    def seen(folds):
        counted.append(folds)
        return count(folds)

    monkeypatch.setattr(_class_models, "_counts_of_classes", seen)
    X, y = rng.normal(size=(120, 4)), np.arange(120) % 6
    model = LinearSVC().fit(X, y)
    assert len(counted) == 1
    for c in range(6):
        alone = LinearSVC().fit(X, y == c)
        np.testing.assert_allclose(model.coef_[c], alone.coef_[0], atol=1e-4)
