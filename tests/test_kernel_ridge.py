"""Kernel ridge regression is scikit-learn's, in single fits and in searches, wherever rows are."""

import warnings
from functools import partial

import numpy as np
import pytest
import sklearn.kernel_ridge as sk
from scipy import sparse
from scipy.linalg import LinAlgWarning
from sklearn.metrics.pairwise import manhattan_distances, pairwise_kernels
from sklearn.model_selection import GridSearchCV as TheirSearch
from sklearn.model_selection import KFold, LeaveOneOut, ShuffleSplit

from gpuml import as_sklearn
from gpuml._arrays import device_of, place_of
from gpuml.kernel_ridge import KernelRidge
from gpuml.kernel_ridge import _models as models
from gpuml.model_selection import GridSearchCV, cross_val_predict, cross_validate
from gpuml.pipeline import make_pipeline
from gpuml.preprocessing import StandardScaler
from gpuml.solvers import kernel_systems
from gpuml.solvers.kernel_systems import Systems, solve_penalties
from gpuml.solvers.pair_kernels import PARAMETERS, PairKernel, pair_base
from gpuml.testing import array_libraries
from tests.linear_model.test_one_model import calls

# Penalties by which matrices are positive definite and well conditioned.
KERNELS = [
    {"kernel": "linear"},
    {"kernel": "rbf"},
    {"kernel": "rbf", "gamma": 2.0},
    {"kernel": "laplacian"},
    {"kernel": "poly", "degree": 2, "coef0": 0.5},
    {"kernel": "polynomial", "gamma": 0.2},
    {"kernel": "sigmoid", "gamma": 0.01, "alpha": 5.0},
    {"kernel": "cosine"},
    {"kernel": "chi2", "gamma": 0.3},
    {"kernel": "additive_chi2", "alpha": 1e4},
]
NAMES = [str(each) for each in KERNELS]
CLOSE = partial(np.testing.assert_allclose, rtol=1e-9, atol=1e-11)


def data(rng, kernel="rbf", n=60):
    X = rng.normal(size=(n, 4)) + 1.0
    X = np.abs(X) if "chi2" in kernel else X
    y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=n)
    return X, y


def theirs(model):
    return sk.KernelRidge(**model.get_params())


def at_once(search):
    return all(step.why.startswith("all candidates together") for step in search.plan_.steps)


def scores_of(search):
    return {n: v for n, v in search.cv_results_.items() if "_test_" in n or "_train_" in n}


@pytest.mark.pairwise
@pytest.mark.parametrize("params", KERNELS, ids=NAMES)
@pytest.mark.parametrize("library", array_libraries())
@pytest.mark.parametrize("targets", ["flat", "column", "two", "penalties"])
@pytest.mark.parametrize("weighted", [False, True])
def test_models_are_those_of_scikit_learn(params, library, targets, weighted, rng):
    X, y = data(rng, params["kernel"])
    model = KernelRidge(**params)
    if targets != "flat":
        y = y[:, None] if targets == "column" else np.stack([y, X[:, 0] ** 2], axis=1)
    if targets == "penalties":
        model.set_params(alpha=np.array([1.0, 2.0]) * model.alpha)
    weight = rng.uniform(0.5, 2.0, size=len(X)) if weighted else None
    oracle = theirs(model).fit(X, y, sample_weight=weight)
    here = library.asarray(X)
    given = None if weight is None else library.asarray(weight)
    assert model.fit(here, library.asarray(y), sample_weight=given) is model
    for found in (model.dual_coef_, model.X_fit_, model.predict(here)):
        assert device_of(found) == device_of(here)
    CLOSE(library.to_numpy(model.dual_coef_), oracle.dual_coef_)
    CLOSE(library.to_numpy(model.predict(here)), oracle.predict(X))
    CLOSE(float(model.score(here, library.asarray(y))), oracle.score(X, y))
    if library.name != "numpy-readonly":  # which scikit-learn's chi2 does not read
        CLOSE(as_sklearn(model).predict(X), oracle.predict(X))


@pytest.mark.each
@pytest.mark.parametrize("params", KERNELS, ids=NAMES)
@pytest.mark.parametrize("library", array_libraries())
def test_searches_are_those_of_scikit_learn(params, library, rng):
    X, y = data(rng, params["kernel"])
    weight = rng.uniform(0.5, 2.0, size=len(X))
    weight[:5] = 0.0
    alpha = params.get("alpha", 1.0)
    grid = {"alpha": [alpha, 3 * alpha, 30 * alpha], "gamma": [0.01, 0.1]}
    options = {
        "param_grid": grid,
        "cv": KFold(4, shuffle=True, random_state=0),
        "scoring": ["r2", "neg_mean_absolute_error"],
        "refit": "r2",
        "return_train_score": True,
    }
    model = KernelRidge(**params)
    oracle = TheirSearch(theirs(model), **options).fit(X, y, sample_weight=weight)
    search = GridSearchCV(model, **options)
    here = library.asarray(X)
    search.fit(here, library.asarray(y), sample_weight=library.asarray(weight))
    assert at_once(search)
    assert search.plan_.n_passes == (2 if "gamma" in PARAMETERS.get(params["kernel"], ()) else 1)
    for name, expected in scores_of(oracle).items():
        # Within 1e-10 of the predictions.
        np.testing.assert_allclose(scores_of(search)[name], expected, rtol=1e-7, atol=1e-9)
    CLOSE(library.to_numpy(search.predict(here)), oracle.predict(X))


@pytest.mark.parametrize("steps", [False, True])
def test_steps_and_factors_agree(steps, rng, monkeypatch):
    """Also: models are at the optimum, of rows that weigh nothing too."""
    monkeypatch.setattr(kernel_systems, "WORTH", 1e6 if steps else 0.0)
    X, y = data(rng)
    K = pairwise_kernels(X, metric="rbf")
    weight = rng.integers(0, 3, size=(3, len(X))).astype(float)
    Y, alphas = np.stack([y, X[:, 0]], axis=1), np.array([[1e-3, 1.0], [0.5, 0.5]])
    found = solve_penalties(Systems(K, np.sqrt(weight), Y), alphas)
    assert (found.n_steps > 0, len(found.conditions) == 0) == (steps, steps)
    for c, s in np.ndindex(2, 3):
        dual = found.dual[c, s]
        slope = weight[s][:, None] * (K @ dual - Y) + alphas[c] * dual
        # Steps end at 1e-10 of the predictions, which divided by the penalty are coefficients.
        np.testing.assert_allclose(slope, 0.0, atol=1e-8)


@pytest.mark.parametrize("kernel", ["linear", "cosine"])
@pytest.mark.parametrize("alpha", [0.1, 10.0])
def test_kernels_of_few_features_take_a_step_for_each(kernel, alpha, rng):
    X, y = rng.normal(1.0, 2.0, size=(700, 8)), rng.normal(size=(700, 2))
    K = pairwise_kernels(X, metric=kernel)
    rank = PairKernel(kernel).rank(X.shape[1])
    found = solve_penalties(Systems(K, np.ones((1, 700)), y, rank), np.array([[alpha]]))
    assert rank < found.n_steps < rank + 5
    assert len(found.conditions) == 0
    expected = np.linalg.solve(K + alpha * np.eye(700), y)
    CLOSE(found.dual[0, 0], expected, atol=1e-10 * np.abs(expected).max())
    theirs = sk.KernelRidge(alpha=alpha, kernel=kernel).fit(X, y)
    CLOSE(KernelRidge(alpha=alpha, kernel=kernel).fit(X, y).predict(X), theirs.predict(X))


def test_sums_of_absolute_differences_take_no_longer_to_start_for_more_features(rng):
    X, Y = rng.normal(size=(30, 50)), rng.normal(size=(20, 50))
    np.testing.assert_allclose(pair_base("absolute", X, Y), manhattan_distances(X, Y), rtol=1e-14)
    assert calls(pair_base, "absolute", X, Y) == calls(pair_base, "absolute", X[:, :5], Y[:, :5])


def test_steps_keep_their_digits_where_eigenvalues_fall_fast(rng, monkeypatch):
    monkeypatch.setattr(kernel_systems, "WORTH", 1e6)
    X, y = data(rng, n=300)
    K = pairwise_kernels(X, metric="rbf", gamma=0.01)
    roots = np.ones((2, 300))
    roots[0, :100] = roots[1, 200:] = 0.0
    found = solve_penalties(Systems(K, roots, y[:, None]), np.array([[1e-3], [1e-1]]))
    assert found.n_steps > 20
    for c, s in np.ndindex(2, 2):
        dual, alpha = found.dual[c, s, :, 0], (1e-3, 1e-1)[c]
        left = roots[s] * (y - K @ dual) - alpha * dual
        # The bound is 1e-10 of the targets; without orthogonal vectors this is 1e-9.
        assert np.linalg.norm(left) < 2e-11 * np.linalg.norm(y)


@pytest.mark.each
@pytest.mark.parametrize("library", array_libraries())
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("alpha", [1.0, np.array([0.1, 2.0])], ids=["one", "each"])
def test_leaving_one_out_takes_an_inverse_for_each_penalty(library, weighted, alpha, rng):
    X, y = data(rng, n=45)
    y = np.stack([y, X[:, 0] ** 2], axis=1)
    weight = rng.uniform(0.5, 2.0, size=45) if weighted else np.ones(45)
    options = {
        "param_grid": {"alpha": [alpha, 10 * alpha], "gamma": [0.05, 0.5]},
        "cv": LeaveOneOut(),
        "scoring": "neg_mean_absolute_error",
        "return_train_score": True,
    }
    weights = {} if not weighted else {"sample_weight": weight}
    oracle = TheirSearch(sk.KernelRidge(kernel="rbf"), **options).fit(X, y, **weights)
    there = {name: library.asarray(value) for name, value in weights.items()}
    search = GridSearchCV(KernelRidge(kernel="rbf"), **options)
    search.fit(library.asarray(X), library.asarray(y), **there)
    assert at_once(search)
    assert f"{4 * np.size(alpha)} factored matrices" in str(search.plan_)
    for name, expected in scores_of(oracle).items():
        np.testing.assert_allclose(scores_of(search)[name], expected, rtol=1e-8, atol=1e-10)


def test_what_an_inverse_leaves_too_few_digits_is_factored(rng):
    X, y = data(rng, n=40)
    K = pairwise_kernels(X, metric="rbf", gamma=1e-3)
    roots, alphas = 1.0 - np.eye(40), np.array([[1e-15], [1.0]])
    found = solve_penalties(Systems(K, roots, y[:, None]), alphas)
    assert len(found.conditions) > 2
    assert found.n_steps == 0
    for s in range(40):
        train = np.delete(np.arange(40), s)
        dual = found.dual[1, s, :, 0]
        alone = np.linalg.solve(K[np.ix_(train, train)] + np.eye(39), y[train])
        CLOSE(dual[train], alone)
        assert dual[s] == 0.0
        # Predictions of what is nearly singular are known, coefficients are not.
        error = K[train] @ found.dual[0, s, :, 0] - y[train] + 1e-15 * found.dual[0, s, train, 0]
        assert np.abs(error).max() < 1e-2


def test_models_that_memory_does_not_hold_say_what_to_set(rng, monkeypatch):
    X, y = data(rng)
    monkeypatch.setattr(models, "fits", lambda size, place: size < 10**6)
    grid = {"alpha": np.geomspace(1.0, 10.0, 50)}
    with pytest.raises(MemoryError, match="fewer rows, candidates or splits"):
        GridSearchCV(KernelRidge(), grid, cv=LeaveOneOut(), scoring="neg_max_error").fit(X, y)


def test_singular_matrices_have_least_squares_solutions(rng):
    X, y = data(rng)
    options = {"param_grid": {"alpha": [0.0, 1.0]}, "cv": 3}
    with pytest.warns(UserWarning, match="Singular matrix in solving dual problem"):
        search = GridSearchCV(KernelRidge(), **options, refit=False).fit(X, y)
    with pytest.warns(UserWarning, match="Singular matrix in solving dual problem"):
        model = KernelRidge(alpha=0.0).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        oracle = TheirSearch(sk.KernelRidge(), **options, refit=False).fit(X, y)
        expected = sk.KernelRidge(alpha=0.0).fit(X, y).predict(X)
    # What rounding leaves of a matrix of rank 4.
    CLOSE(model.predict(X), expected, rtol=1e-6)
    for name, value in scores_of(oracle).items():
        np.testing.assert_allclose(scores_of(search)[name], value, rtol=1e-6)


def test_matrices_that_are_nearly_singular_are_told_of():
    least = 1.0 - np.finfo(float).epsneg
    with pytest.warns(LinAlgWarning, match="Ill-conditioned matrix"):
        KernelRidge(alpha=0.0, kernel="precomputed").fit([[1.0, least], [least, 1.0]], [1.0, 2.0])


def test_a_matrix_that_is_not_positive_definite_is_told_of(rng):
    X, y = data(rng)
    K = -np.eye(len(X)) + np.ones((len(X), len(X)))
    systems = Systems(K, np.ones((1, len(X))), y[:, None])
    found = solve_penalties(systems, np.full((40, 1), 0.5))
    assert found.conditions.tolist() == [np.inf]
    CLOSE(found.dual[0, 0, :, 0], np.linalg.solve(K + 0.5 * np.eye(len(X)), y), atol=1e-9)


def test_a_weight_is_a_repetition(rng):
    X, y = data(rng)
    counts = rng.integers(0, 3, size=len(X))
    again = np.repeat(np.arange(len(X)), counts)
    one = KernelRidge(kernel="rbf").fit(X, y, sample_weight=counts.astype(float))
    other = KernelRidge(kernel="rbf").fit(X[again], y[again])
    CLOSE(one.predict(X), other.predict(X))


def test_splits_that_name_rows_twice(rng):
    X, y = data(rng)
    splits = [(rng.integers(0, 40, size=50), np.arange(40, 60)) for _ in range(3)]
    grid = {"alpha": [0.5, 1.0, 2.0, 3.0], "gamma": [0.1, 1.0]}
    search = GridSearchCV(KernelRidge(kernel="rbf"), grid, cv=splits).fit(X, y)
    assert at_once(search)
    oracle = TheirSearch(sk.KernelRidge(kernel="rbf"), grid, cv=splits).fit(X, y)
    for name, value in scores_of(oracle).items():
        CLOSE(scores_of(search)[name], value, rtol=1e-8)


def test_models_of_splits_are_those_of_their_rows(rng):
    X, y = data(rng)
    cv = ShuffleSplit(2, test_size=0.4, random_state=0)
    found = cross_validate(KernelRidge(kernel="rbf"), X, y, cv=cv, return_estimator=True)
    for model, (train, _) in zip(found["estimator"], cv.split(X), strict=True):
        alone = KernelRidge(kernel="rbf").fit(X[train], y[train])
        CLOSE(model.dual_coef_, alone.dual_coef_)
        np.testing.assert_array_equal(model.X_fit_, alone.X_fit_)


@pytest.mark.parametrize("kernel", ["linear", "rbf", "laplacian", "poly", "cosine"])
def test_held_out_rows_change_no_model(kernel, rng):
    X, y = data(rng)
    wild, wild_y = X.copy(), y.copy()
    wild[:20], wild_y[:20] = 1e20, 1e20
    grid = {"alpha": [1.0, 2.0, 3.0, 10.0]}
    splits = [(np.arange(20, 60), np.arange(20, 60))]
    options = {"cv": splits, "refit": False}
    found = [
        scores_of(GridSearchCV(KernelRidge(kernel=kernel), grid, **options).fit(*rows))
        for rows in ((X, y), (wild, wild_y))
    ]
    for name, value in found[0].items():
        CLOSE(found[1][name], value)


def test_one_matrix_of_distances_serves_all_kernels_of_it(rng, monkeypatch):
    X, y = data(rng)
    asked = []

    def counted(kind, *rows):
        asked.append((kind, len(rows[0])))
        return pair_base(kind, *rows)

    pair_base = models.pair_base
    monkeypatch.setattr(models, "pair_base", counted)
    grid = {"alpha": [1.0, 2.0], "gamma": [0.1, 0.2, 0.3]}
    search = GridSearchCV(KernelRidge(kernel="rbf"), grid, cv=3, refit=False).fit(X, y)
    assert asked == [("squares", 60), *[("squares", 20)] * 3]
    assert search.plan_.n_passes == 3


def test_words_of_the_plan(rng):
    X, y = data(rng, n=200)
    grid = {"alpha": np.geomspace(1.0, 10.0, 10)}
    search = GridSearchCV(KernelRidge(kernel="rbf"), grid).fit(X, y)
    assert "conjugate-gradient steps" in str(search.plan_)
    K = pairwise_kernels(X)
    search = GridSearchCV(KernelRidge(kernel="precomputed"), grid).fit(K, y)
    assert "a precomputed kernel, whose columns are rows as well" in str(search.plan_)
    oracle = TheirSearch(sk.KernelRidge(kernel="precomputed"), grid).fit(K, y)
    CLOSE(search.best_score_, oracle.best_score_)
    search = GridSearchCV(KernelRidge(), grid).fit(sparse.csr_matrix(X), y)
    assert "sparse X" in str(search.plan_)
    steps = make_pipeline(StandardScaler(), KernelRidge(kernel="rbf"))
    search = GridSearchCV(steps, {"kernelridge__alpha": [1.0, 2.0]}).fit(X, y)
    assert "together on each fold" in str(search.plan_)


def test_kernels_that_are_given(rng):
    X, y = data(rng)
    K = pairwise_kernels(X, metric="rbf")
    before = K.copy()
    model = KernelRidge(kernel="precomputed").fit(K, y)
    CLOSE(model.predict(K[:7]), KernelRidge(kernel="rbf").fit(X, y).predict(X[:7]))
    np.testing.assert_array_equal(K, before)
    with pytest.raises(ValueError, match="Precomputed metric requires shape"):
        KernelRidge(kernel="precomputed").fit(X, y)


def test_callable_kernels(rng):
    X, y = data(rng, n=30)

    def kernel(a, b, *, scale):
        return np.exp(-scale * np.sum((a - b) ** 2))

    model = KernelRidge(kernel=kernel, kernel_params={"scale": 0.3})
    expected = KernelRidge(kernel="rbf", gamma=0.3)
    search, other = (GridSearchCV(m, {"alpha": [0.5, 1.0]}).fit(X, y) for m in (model, expected))
    assert at_once(search)
    for name, value in scores_of(other).items():
        CLOSE(scores_of(search)[name], value, rtol=1e-8)
    CLOSE(search.predict(X[:3]), other.predict(X[:3]))


@pytest.mark.parametrize("library", array_libraries())
def test_callable_kernels_need_rows_in_cpu_memory(library, rng):
    X, y = data(rng)
    here = library.asarray(X)
    if place_of(here).kind == "numpy":
        pytest.skip("which these are")
    with pytest.raises(ValueError, match="a callable kernel runs scikit-learn's solver"):
        KernelRidge(kernel=np.dot).fit(here, library.asarray(y))


def test_sparse_rows_are_the_work_of_scikit_learn(rng):
    X, y = data(rng)
    model = KernelRidge(kernel="rbf").fit(sparse.csr_matrix(X), y)
    CLOSE(model.predict(X), KernelRidge(kernel="rbf").fit(X, y).predict(X))


def test_float32_rows(rng):
    X, y = (a.astype(np.float32) for a in data(rng))
    model = KernelRidge(kernel="rbf").fit(X, y)
    assert model.predict(X).dtype == np.float32
    expected = sk.KernelRidge(kernel="rbf").fit(X.astype(float), y).predict(X.astype(float))
    np.testing.assert_allclose(model.predict(X), expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"alpha": [1.0, 2.0, 3.0]}, "penalties do not correspond"),
        ({"kernel": "chi2"}, "negative values"),
        ({"gamma": -1.0}, "gamma"),
    ],
)
def test_errors(params, message, rng):
    X, y = data(rng)
    model = KernelRidge(**params)
    with pytest.raises(ValueError, match=message):
        model.fit(X - 10, np.stack([y, y], axis=1))
    assert not hasattr(model, "dual_coef_")


def test_predictions_of_held_out_rows(rng):
    X, y = data(rng)
    found = cross_val_predict(KernelRidge(kernel="rbf"), X, y, cv=3)
    for rows in np.split(np.arange(60), 3):
        train = np.setdiff1d(np.arange(60), rows)
        CLOSE(found[rows], KernelRidge(kernel="rbf").fit(X[train], y[train]).predict(X[rows]))
