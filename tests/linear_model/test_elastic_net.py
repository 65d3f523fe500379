"""Laws of Lasso and ElasticNet, and agreement with scikit-learn, over array libraries."""

import warnings

import numpy as np
import pytest
import sklearn.linear_model as sk
from scipy import sparse
from sklearn.datasets import make_regression
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV as TheirSearch

import gpuml
from gpuml.linear_model import ElasticNet, Lasso, MultiTaskElasticNet, MultiTaskLasso
from gpuml.linear_model._lasso import IN_CPU_MEMORY
from gpuml.model_selection import GridSearchCV
from gpuml.solvers import row_paths
from gpuml.solvers.row_paths import MOST_FROM_GPU
from gpuml.testing import LAW_RTOL, RTOL

EXACT = {"tol": 1e-12, "max_iter": 1_000_000}


def problem(rng, n=80, p=8, t=None, mean=0.0):
    X = rng.normal(mean, 1, size=(n, p))
    W = rng.normal(size=(p,) if t is None else (p, t))
    W[p // 2 :] = 0
    y = X @ W + 3 + rng.normal(size=(n,) if t is None else (n, t))
    return X, y, rng.uniform(0.1, 2, size=n)


def fitted(library, model, X, y, w=None):
    arrays = [None if a is None else library.asarray(a) for a in (X, y, w)]
    model.fit(arrays[0], arrays[1], sample_weight=arrays[2])
    return library.to_numpy(model.coef_), np.asarray(library.to_numpy(model.intercept_))


def close(a, b, rtol=LAW_RTOL["float64"]):
    np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * max(1.0, np.abs(b).max()))


PAIRS = [
    (Lasso(0.1), sk.Lasso(0.1, **EXACT)),
    (Lasso(0.2, fit_intercept=False), sk.Lasso(0.2, fit_intercept=False, **EXACT)),
    (ElasticNet(0.1), sk.ElasticNet(0.1, **EXACT)),
    (ElasticNet(0.1, l1_ratio=0.0), sk.ElasticNet(0.1, l1_ratio=0.0, **EXACT)),
]


@pytest.mark.pairwise
@pytest.mark.filterwarnings("ignore:.*l1_ratio:UserWarning")
@pytest.mark.filterwarnings("ignore:.*l1_reg:UserWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("targets", [None, 1, 3])
@pytest.mark.parametrize("shape", [(80, 8), (20, 40)])
def test_agrees_with_sklearn(library, rng, dtype, weighted, targets, shape):
    X, y, w = problem(rng, *shape, t=targets)
    X, w = X.astype(dtype), w.astype(dtype)
    weight = w if weighted else None
    rtol = RTOL[dtype]
    for ours, theirs in PAIRS:
        coef, intercept = fitted(library, ours, X, y, weight)
        theirs.fit(X.astype("float64"), y, None if weight is None else w.astype("float64"))
        np.testing.assert_allclose(coef, theirs.coef_, rtol=rtol, atol=rtol)
        np.testing.assert_allclose(intercept, theirs.intercept_, rtol=rtol, atol=rtol)
        assert coef.shape == theirs.coef_.shape
        assert intercept.shape == np.shape(theirs.intercept_)
        assert coef.dtype == dtype
        assert np.shape(library.to_numpy(ours.dual_gap_)) == np.shape(theirs.dual_gap_)
        assert np.shape(ours.n_iter_) == np.shape(theirs.n_iter_)
        assert ours.sparse_coef_.shape == theirs.sparse_coef_.shape
        X_lib = library.asarray(X)
        prediction = ours.predict(X_lib)
        assert type(prediction) is type(X_lib)
        np.testing.assert_allclose(
            library.to_numpy(prediction), theirs.predict(X), rtol=rtol, atol=10 * rtol
        )


@pytest.mark.pairwise
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("alpha", [1e-3, 0.1, 1.0])
@pytest.mark.parametrize("l1_ratio", [0.3, 1.0])
def test_optimality_conditions(library, rng, fit_intercept, alpha, l1_ratio):
    X, y, w = problem(rng, t=2)
    model = ElasticNet(alpha, l1_ratio=l1_ratio, fit_intercept=fit_intercept)
    coef, b = fitted(library, model, X, y, w)
    residual = y - X @ coef.T - b
    slope = (-X.T @ (w[:, None] * residual) / w.sum()).T + alpha * (1 - l1_ratio) * coef
    active = coef != 0
    wanted = -alpha * l1_ratio * np.sign(coef[active])
    np.testing.assert_allclose(slope[active], wanted, rtol=1e-11, atol=1e-11)
    assert (np.abs(slope[~active]) <= alpha * l1_ratio * (1 + 1e-11)).all()
    if fit_intercept:
        close(w @ residual, np.zeros(2), 1e-10)


def test_smallest_alpha_without_coefficients(library, rng):
    X, y, w = problem(rng)
    mean = np.average(y, weights=w)
    centred = X - np.average(X, axis=0, weights=w)
    largest = np.abs(centred.T @ (w * (y - mean))).max() / w.sum()
    coef, intercept = fitted(library, Lasso(largest * 1.000001), X, y, w)
    assert not coef.any()
    close(intercept, mean)
    coef, _ = fitted(library, Lasso(largest * 0.99), X, y, w)
    assert (coef != 0).sum() == 1
    coef, _ = fitted(library, ElasticNet(2 * largest * 1.000001, l1_ratio=0.5), X, y, w)
    assert not coef.any()


def test_doubled_row_is_doubled_weight(library, rng):
    X, y, w = problem(rng)
    twice = np.r_[np.arange(80), 7]
    doubled = w.copy()
    doubled[7] *= 2
    for model in (Lasso(0.1), ElasticNet(0.1)):
        one = fitted(library, model, X, y, doubled)
        two = fitted(library, model, X[twice], y[twice], w[twice])
        for a, b in zip(one, two, strict=True):
            close(a, b)


def test_only_proportions_of_weights_matter(library, rng):
    X, y, w = problem(rng)
    for a, b in zip(
        fitted(library, Lasso(0.1), X, y, w),
        fitted(library, Lasso(0.1), X, y, 1000 * w),
        strict=True,
    ):
        close(a, b)


def test_scaling_y_and_alpha_scales_coefficients(library, rng):
    X, y, w = problem(rng)
    coef, _ = fitted(library, Lasso(0.1), X, y, w)
    scaled, _ = fitted(library, Lasso(10.0), X, 100 * y, w)
    close(scaled, 100 * coef)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_large_means(library, rng, dtype):
    X, y, _ = problem(rng, n=300, mean=500)
    X = X.astype(dtype)
    coef, intercept = fitted(library, Lasso(0.1), X, y)
    expected = sk.Lasso(0.1, **EXACT).fit(X.astype("float64"), y)
    np.testing.assert_allclose(coef, expected.coef_, rtol=RTOL[dtype], atol=RTOL[dtype])
    np.testing.assert_allclose(intercept, expected.intercept_, rtol=RTOL[dtype])


def test_collinear_columns_reach_the_same_objective(library, rng):
    X, y, _ = problem(rng)
    X = np.c_[X, X[:, :3], np.ones(80)]

    def objective(coef, b):
        return np.mean((y - X @ coef - b) ** 2) / 2 + 0.1 * np.abs(coef).sum()

    coef, b = fitted(library, Lasso(0.1), X, y)
    theirs = sk.Lasso(0.1, **EXACT).fit(X, y)
    assert objective(coef, b) <= objective(theirs.coef_, theirs.intercept_) + 1e-12
    assert coef[-1] == 0


def test_alpha_zero_is_least_squares(library, rng):
    X, y, w = problem(rng)
    coef, _ = fitted(library, Lasso(0.0), X, y, w)
    close(coef, sk.LinearRegression().fit(X, y, w).coef_, 1e-8)


@pytest.mark.each
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("most", [0, MOST_FROM_GPU], ids=["there", "in CPU memory"])
def test_many_features_need_a_working_set(library, rng, fit_intercept, most, monkeypatch):
    monkeypatch.setattr(row_paths, "MOST_FROM_GPU", most)
    X, y, w = problem(rng, n=200, p=6000, mean=1.0)
    y = X[:, :5] @ rng.normal(size=5) + rng.normal(size=200)
    for ours, theirs in (
        (Lasso(0.2), sk.Lasso(0.2, **EXACT)),
        (ElasticNet(0.5), sk.ElasticNet(0.5, **EXACT)),
    ):
        for model in (ours, theirs):
            model.set_params(fit_intercept=fit_intercept)
        coef, intercept = fitted(library, ours, X, y, w)
        theirs.fit(X, y, w)
        np.testing.assert_allclose(coef, theirs.coef_, atol=1e-6)
        np.testing.assert_allclose(intercept, theirs.intercept_, atol=1e-6)


def test_plans_say_that_few_rows_of_a_device_are_followed_in_cpu_memory(rng):
    strict = pytest.importorskip("array_api_strict")
    device = strict.Device("device1")
    X, y, _ = problem(rng, n=30, p=1100)
    found = GridSearchCV(Lasso(), {"alpha": [0.1, 0.5]}, cv=2)
    found.fit(strict.asarray(X, device=device), strict.asarray(y, device=device))
    assert IN_CPU_MEMORY in str(found.plan_)
    assert found.best_estimator_.coef_.device == device
    expected = GridSearchCV(Lasso(), {"alpha": [0.1, 0.5]}, cv=2).fit(X, y)
    assert IN_CPU_MEMORY not in str(expected.plan_)
    scores = (each.cv_results_["mean_test_score"] for each in (found, expected))
    np.testing.assert_allclose(*scores, rtol=1e-12)


GRID = {"alpha": [0.5, 0.01, 0.1], "l1_ratio": [0.5, 1.0, 0.2], "fit_intercept": [True, False]}


@pytest.mark.each
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("shape", [(80, 8), (40, 60), (60, 300), (60, 1100)])
def test_a_search_agrees_with_sklearn(library, rng, weighted, shape):
    X, y, w = problem(rng, *shape)
    params = {"sample_weight": w} if weighted else {}
    ours = {"sample_weight": library.asarray(w)} if weighted else {}
    grid = GRID if shape[1] < 100 else {"alpha": [0.3, 0.5, 0.1]}
    found = GridSearchCV(ElasticNet(), grid, cv=3, return_train_score=True)
    found.fit(library.asarray(X), library.asarray(y), **ours)
    theirs = TheirSearch(sk.ElasticNet(**EXACT), grid, cv=3, return_train_score=True)
    theirs.fit(X, y, **params)
    for part in ("test", "train"):
        for split in range(3):
            name = f"split{split}_{part}_score"
            np.testing.assert_allclose(
                found.cv_results_[name], theirs.cv_results_[name], rtol=1e-8, atol=1e-8
            )
    assert found.best_params_ == theirs.best_params_
    close(library.to_numpy(found.best_estimator_.coef_), theirs.best_estimator_.coef_, 1e-7)


def test_all_at_once_is_one_by_one(library, rng):
    X, y, _ = problem(rng)
    arrays = library.asarray(X), library.asarray(y)
    alphas = {"alpha": [0.01, 0.1, 1.0]}
    at_once = GridSearchCV(Lasso(), alphas, cv=4).fit(*arrays)
    one_by_one = TheirSearch(Lasso(), alphas, cv=4)
    if library.name.startswith("numpy"):
        one_by_one.fit(X, y)
        for split in range(4):
            name = f"split{split}_test_score"
            close(at_once.cv_results_[name], one_by_one.cv_results_[name])
    alone = Lasso(at_once.best_params_["alpha"]).fit(*arrays)
    close(*(library.to_numpy(m.coef_) for m in (at_once.best_estimator_, alone)))


def test_small_blocks_give_the_same(library, rng):
    X, y, w = problem(rng, n=500)
    whole = fitted(library, Lasso(0.1), X, y, w)
    with gpuml.config_context(block_bytes=1000):
        for a, b in zip(fitted(library, Lasso(0.1), X, y, w), whole, strict=True):
            close(a, b)


def test_warm_start_gives_the_same(library, rng):
    X, y, _ = problem(rng, p=20)
    model = Lasso(0.5, warm_start=True)
    fitted(library, model, X, y)
    model.set_params(alpha=0.1)
    coef, _ = fitted(library, model, X, y)
    close(coef, fitted(library, Lasso(0.1), X, y)[0])
    assert fitted(library, model, X, y)[0] is not None
    assert model.n_iter_ == 0  # as scikit-learn counts
    with pytest.raises(ValueError, match="warm_start"):
        fitted(library, model, X[:, :3], y)


def test_too_few_iterations_warn(library, rng):
    X, y, _ = problem(rng, n=30, p=40)
    with pytest.warns(ConvergenceWarning, match="Objective did not converge. You might want to"):
        fitted(library, Lasso(1e-4, max_iter=1), X, y)


def duality_gap(model, X, y):
    """Relative to the square of the centred y, as scikit-learn has it."""
    n, w = len(y), model.coef_
    X, y = X - X.mean(axis=0), y - y.mean()
    share = getattr(model, "l1_ratio", 1.0)
    l1, l2 = n * model.alpha * share, n * model.alpha * (1 - share)
    left = y - X @ w
    largest = np.abs(X.T @ left - l2 * w).max()
    c = min(1.0, l1 / largest)
    gap = (1 + c**2) * (left @ left + l2 * (w @ w)) / 2 + l1 * np.abs(w).sum() - c * (left @ y)
    return gap / (y @ y)


@pytest.mark.parametrize("model", [Lasso(0.01), Lasso(3.0), ElasticNet(0.1, l1_ratio=0.3)], ids=str)
@pytest.mark.parametrize("shape", [(80, 8), (200, 30), (30, 60)])
def test_a_fit_warns_if_and_only_if_it_has_not_converged(rng, model, shape):
    """However few iterations were allowed: one may be all that it takes."""
    X, y, _ = problem(rng, *shape)
    n_warned = 0
    for max_iter in (1, 2, 4, 1000):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always", ConvergenceWarning)
            model.set_params(max_iter=max_iter).fit(X, y)
        assert bool(seen) == (duality_gap(model, X, y) > model.tol), max_iter
        n_warned += bool(seen)
    assert n_warned < 4


def test_what_max_iter_cut_short_is_better_than_nothing(library, rng):
    X, y, _ = problem(rng, n=50, p=200)
    model = ElasticNet(0.1, max_iter=2)
    with pytest.warns(ConvergenceWarning, match="max_iter=2"):
        fitted(library, model, X, y)
    assert model.n_iter_ == 2
    assert float(model.score(library.asarray(X), library.asarray(y))) > 0.5
    coef, intercept = fitted(library, ElasticNet(0.1, max_iter=100), X, y)
    best = np.mean((y - X @ coef - intercept) ** 2)
    assert best < np.var(y)  # the solver converges where it is let


def test_more_features_than_rows_converge_where_sklearn_does():
    X, y = make_regression(400, 1000, noise=10, random_state=0)
    alpha = 0.001 * np.abs((X - X.mean(axis=0)).T @ (y - y.mean())).max() / len(y)

    def objective(model):
        model.fit(X, y)
        return np.mean((y - model.predict(X)) ** 2) / 2 + alpha * np.abs(model.coef_).sum()

    # Neither warns, within the default bounds.
    ours, theirs = objective(Lasso(alpha)), objective(sk.Lasso(alpha))
    assert ours <= theirs


def test_warm_start_from_what_a_user_sets(rng):
    X, y, _ = problem(rng)
    model = Lasso(0.1, warm_start=True)
    model.coef_ = np.arange(8).tolist()
    np.testing.assert_allclose(model.fit(X, y).coef_, Lasso(0.1).fit(X, y).coef_)


def test_strings_of_numbers_are_numbers(rng):
    X, y, _ = problem(rng)
    for kind, theirs in ((Lasso, sk.Lasso), (ElasticNet, sk.ElasticNet)):
        coef = theirs(0.1, **EXACT).fit(X.astype(str), y).coef_
        np.testing.assert_allclose(kind(0.1).fit(X.astype(str), y).coef_, coef, rtol=1e-6)
    with pytest.raises(ValueError, match="could not convert string"):
        Lasso().fit(np.full(X.shape, "ash"), y)


@pytest.mark.parametrize("p", [8, 1100])
def test_weights_that_are_no_numbers(rng, p):
    X, y, _ = problem(rng, p=p)
    with pytest.raises(ValueError, match="sample_weight contains NaN"):
        Lasso().fit(X, y, sample_weight=np.nan)


def test_what_sklearn_does_on_host_data(rng):
    X, y, _ = problem(rng)
    gram = (X - X.mean(0)).T @ (X - X.mean(0))
    for params in (
        {"positive": True},
        {"selection": "random", "random_state": 0},
        {"precompute": gram},
        {},
    ):
        data = X if params else sparse.csr_matrix(X)
        ours, theirs = (kind(0.1, **params) for kind in (Lasso, sk.Lasso))
        centred = data - X.mean(0) if "precompute" in params else data
        ours.fit(centred, y)
        theirs.fit(centred, y)
        np.testing.assert_allclose(ours.coef_, theirs.coef_)
        np.testing.assert_allclose(ours.predict(centred), theirs.predict(centred))


def test_what_sklearn_does_needs_host_data(library, rng):
    if library.name.startswith("numpy"):
        pytest.skip("host data")
    X, y, _ = problem(rng)
    for params in ({"positive": True}, {"selection": "random"}):
        with pytest.raises(ValueError, match="needs data in CPU memory"):
            Lasso(**params).fit(library.asarray(X), library.asarray(y))


def test_coefficients_set_by_hand_have_a_sparse_form():
    model = ElasticNet()
    model.coef_ = [1, 0, 3]
    np.testing.assert_array_equal(model.sparse_coef_.toarray(), [[1, 0, 3]])


@pytest.mark.parametrize("model", [Lasso(), ElasticNet(), MultiTaskLasso(), MultiTaskElasticNet()])
def test_no_number_of_iterations_is_no_number(rng, model):
    X, Y, _ = problem(rng, t=2)
    with pytest.raises(TypeError, match="'max_iter' parameter of .* must be an int"):
        model.set_params(max_iter=None).fit(X, Y)


BAD = {
    "nan in X": (lambda X, y: (np.where(X > 2, np.nan, X), y), {}, "X contains NaN"),
    "inf in X": (lambda X, y: (np.where(X > 2, np.inf, X), y), {}, "X contains inf"),
    "nan in y": (lambda X, y: (X, np.where(y > 3, np.nan, y)), {}, "y contains NaN"),
    "negative alpha": (lambda X, y: (X, y), {"alpha": -1.0}, "alpha"),
    "tol": (lambda X, y: (X, y), {"tol": -1.0}, "tol"),
    "huge": (lambda X, y: (X * 1e200, y), {}, "overflow float64"),
}


@pytest.mark.pairwise
@pytest.mark.parametrize("p", [8, 1100])
@pytest.mark.parametrize("case", BAD)
def test_bad_input_names_the_argument_and_changes_nothing(library, rng, case, p):
    change, params, text = BAD[case]
    X, y, _ = problem(rng, p=p)
    model = Lasso().fit(X, y)
    before = dict(vars(model))
    bad_X, bad_y = change(X, y)
    model.set_params(**params)
    with pytest.raises(ValueError, match=text):
        model.fit(library.asarray(bad_X), library.asarray(bad_y))
    assert {n: v for n, v in vars(model).items() if n.endswith("_")} == {
        n: v for n, v in before.items() if n.endswith("_")
    }
