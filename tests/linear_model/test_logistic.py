"""LogisticRegression: laws, optimality, and agreement with scikit-learn."""

import warnings

import numpy as np
import pytest
from sklearn import linear_model as sk
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

import gpuml
from gpuml.linear_model import LogisticRegression
from gpuml.linear_model._glm import warn_if_stopped
from gpuml.solvers.lbfgs import Solved

TIGHT = {"tol": 1e-10, "max_iter": 2000}


def problem(rng, n=240, p=6, k=3, shift=0.0):
    """Overlapping classes of features with a common mean."""
    X = rng.normal(size=(n, p))
    scores = 1.5 * X @ rng.normal(size=(p, k)) + rng.gumbel(size=(n, k))
    return X + shift, scores.argmax(axis=1)


def objective(X, y, model, weight=None):
    """scikit-learn's objective, from its formula."""
    W, b = np.asarray(model.coef_, dtype=float), np.asarray(model.intercept_, dtype=float)
    z = X @ W.T + b
    z = np.hstack([np.zeros_like(z), z]) if z.shape[1] == 1 else z
    codes = np.searchsorted(np.asarray(model.classes_), y)
    loss = np.logaddexp.reduce(z, axis=1) - z[np.arange(len(y)), codes]
    weight = np.ones(len(y)) if weight is None else weight
    ratio = model.l1_ratio or 0.0
    penalty = (1 - ratio) / 2 * (W**2).sum() + ratio * np.abs(W).sum()
    strength = 0.0 if np.isinf(model.C) else 1 / model.C
    return (weight @ loss + strength * penalty) / weight.sum()


def subgradient(X, y, model, weight=None):
    """Least subgradient of that objective, for coefficients and intercepts."""
    W = np.asarray(model.coef_, dtype=float)
    z = X @ W.T + np.asarray(model.intercept_, dtype=float)
    classes = np.asarray(model.classes_)
    if z.shape[1] == 1:
        residual = 1 / (1 + np.exp(-z)) - (y == classes[1])[:, None]
    else:
        p = np.exp(z - z.max(axis=1, keepdims=True))
        residual = p / p.sum(axis=1, keepdims=True) - (y[:, None] == classes)
    weight = np.ones(len(y)) if weight is None else weight
    residual = residual * weight[:, None] / weight.sum()
    strength = 0.0 if np.isinf(model.C) else 1 / (model.C * weight.sum())
    ratio = model.l1_ratio or 0.0
    G = residual.T @ X + strength * (1 - ratio) * W
    l1 = strength * ratio
    at_zero = np.maximum(np.abs(G) - l1, 0)
    G = np.where(W == 0, at_zero, G + l1 * np.sign(W))
    return np.abs(G).max(), np.abs(residual.sum(axis=0)).max()


CASES = {
    "plain": {},
    "weak": {"C": 1e4},
    "strong": {"C": 1e-3},
    "no penalty": {"C": np.inf},
    "no intercept": {"fit_intercept": False},
    "balanced": {"class_weight": "balanced"},
    "weights by class": {"class_weight": {0: 2.0, 1: 0.5}},
    "newton": {"solver": "newton-cholesky"},
    "lasso": {"solver": "saga", "l1_ratio": 1.0, "C": 0.1},
    "elastic net": {"solver": "saga", "l1_ratio": 0.5, "C": 0.3},
}


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("case", CASES)
def test_the_optimality_conditions_hold(rng, case, k):
    X, y = problem(rng, k=k)
    model = LogisticRegression(**TIGHT, **CASES[case]).fit(X, y)
    weight = None
    if model.class_weight == "balanced":
        weight = (len(y) / (k * np.bincount(y)))[y]
    elif model.class_weight:
        weight = np.array([2.0, 0.5, 1.0])[y]
    slope, of_intercept = subgradient(X, y, model, weight)
    assert slope < 1e-9
    assert of_intercept < 1e-9 or not model.fit_intercept


@pytest.mark.pairwise
@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize(
    "case", ["plain", "weak", "strong", "no intercept", "balanced", "weights by class"]
)
def test_coefficients_are_those_of_scikit_learn(rng, library, case, k):
    X, y = problem(rng, k=k)
    ours = LogisticRegression(**TIGHT, **CASES[case]).fit(library.asarray(X), library.asarray(y))
    theirs = sk.LogisticRegression(
        **{**CASES[case], "solver": "newton-cholesky", "tol": 1e-12, "max_iter": 1000}
    ).fit(X, y)
    np.testing.assert_allclose(library.to_numpy(ours.coef_), theirs.coef_, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(
        library.to_numpy(ours.intercept_), theirs.intercept_, rtol=1e-6, atol=1e-7
    )
    probability = library.to_numpy(ours.predict_proba(library.asarray(X)))
    np.testing.assert_allclose(probability, theirs.predict_proba(X), atol=1e-7)
    np.testing.assert_allclose(probability.sum(axis=1), 1.0, rtol=1e-12)
    labels = library.to_numpy(ours.predict(library.asarray(X)))
    np.testing.assert_array_equal(labels, theirs.predict(X))


@pytest.mark.pairwise
@pytest.mark.parametrize("l1_ratio", [1.0, 0.4])
@pytest.mark.parametrize("k", [2, 3])
def test_sparse_coefficients_are_those_of_scikit_learn(rng, library, l1_ratio, k):
    X, y = problem(rng, k=k)
    params = {"solver": "saga", "l1_ratio": l1_ratio, "C": 0.05}
    ours = LogisticRegression(**TIGHT, **params).fit(library.asarray(X), library.asarray(y))
    theirs = sk.LogisticRegression(**params, tol=1e-12, max_iter=100_000, random_state=0).fit(X, y)
    coef = library.to_numpy(ours.coef_)
    np.testing.assert_allclose(coef, theirs.coef_, atol=1e-6)
    np.testing.assert_array_equal(coef == 0, np.abs(theirs.coef_) < 1e-9)
    assert (coef == 0).any()


@pytest.mark.parametrize("labels", [["b", "a", "c"], [True, False], [7, -3, 5], [2.0, 0.0]])
def test_labels_of_any_kind(rng, labels):
    X, codes = problem(rng, k=len(labels))
    y = np.asarray(labels)[codes]
    ours = LogisticRegression(**TIGHT).fit(X, y)
    theirs = sk.LogisticRegression(solver="newton-cholesky", tol=1e-12).fit(X, y)
    np.testing.assert_array_equal(ours.classes_, theirs.classes_)
    assert ours.predict(X).dtype == theirs.predict(X).dtype
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))
    assert ours.score(X, y) == pytest.approx(theirs.score(X, y))


# ---------------------------------------------------------------- laws


@pytest.mark.parametrize("case", ["plain", "lasso", "newton", "balanced"])
def test_a_weight_is_a_number_of_copies(rng, library, case):
    X, y = problem(rng)
    times = rng.integers(0, 4, size=len(y))
    model = LogisticRegression(**TIGHT, **CASES[case])
    weighted = clone(model).fit(
        library.asarray(X), library.asarray(y), sample_weight=library.asarray(times.astype(float))
    )
    repeated = clone(model).fit(
        library.asarray(np.repeat(X, times, axis=0)), library.asarray(np.repeat(y, times))
    )
    np.testing.assert_allclose(
        library.to_numpy(weighted.coef_), library.to_numpy(repeated.coef_), atol=1e-7
    )


def test_class_weights_are_sample_weights(rng):
    X, y = problem(rng)
    by_class = {0: 0.5, 1: 3.0, 2: 1.0}
    weight = np.array([0.5, 3.0, 1.0])[y]
    one = LogisticRegression(**TIGHT, class_weight=by_class).fit(X, y)
    other = LogisticRegression(**TIGHT).fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(one.coef_, other.coef_, atol=1e-8)


@pytest.mark.parametrize("n", [300, 5000])
def test_the_order_of_rows_does_not_matter(rng, n):
    X, y = problem(rng, n=n)
    order = rng.permutation(n)
    one = LogisticRegression(**TIGHT).fit(X, y)
    other = LogisticRegression(**TIGHT).fit(X[order], y[order])
    np.testing.assert_allclose(one.coef_, other.coef_, atol=1e-8)


def test_a_common_mean_goes_into_the_intercept(rng):
    X, y = problem(rng, n=4000)
    near = LogisticRegression(**TIGHT).fit(X, y)
    far = LogisticRegression(tol=1e-8, max_iter=2000).fit(X + 500.0, y)
    np.testing.assert_allclose(far.coef_, near.coef_, atol=1e-6)


def test_twice_the_rows_bear_twice_the_penalty(rng):
    X, y = problem(rng)
    once = LogisticRegression(**TIGHT, C=1.0).fit(X, y)
    twice = LogisticRegression(**TIGHT, C=0.5).fit(np.vstack([X, X]), np.concatenate([y, y]))
    np.testing.assert_allclose(once.coef_, twice.coef_, atol=1e-8)


def test_float32_reaches_the_optimum_of_float64(rng, library):
    X, y = problem(rng, n=3000, p=20)
    X = X.astype(np.float32)
    model = LogisticRegression(tol=1e-6, max_iter=500)
    single = clone(model).fit(library.asarray(X), library.asarray(y))
    double = clone(model).set_params(**TIGHT).fit(X.astype(float), y)
    assert str(single.coef_.dtype).endswith("float32")
    host = clone(model).fit(X, y)
    host.coef_ = library.to_numpy(single.coef_)
    host.intercept_ = library.to_numpy(single.intercept_)
    best = objective(X.astype(float), y, double)
    assert objective(X.astype(float), y, host) - best < 1e-6 * best


# ---------------------------------------------------------------- hard problems


def hard_problems(rng):
    """Name, X, y of problems that solvers stumble over."""
    X, y = problem(rng, n=400, p=8)
    X2, y2 = problem(rng, n=60, p=100, k=2)
    X3, y3 = problem(rng, n=300, p=5)
    separable = np.linspace(-1, 1, 100)[:, None]
    yield "collinear", np.hstack([X, X[:, :3] @ rng.normal(size=(3, 2))]), y
    yield "more features than rows", X2, y2
    yield "scales", X3 * np.array([1e-4, 1.0, 1e4, 1e2, 1e-2]), y3
    yield "mean 500", X3 + 500.0, y3
    yield "separable", separable, (separable[:, 0] > 0).astype(int)
    yield "constant column", np.hstack([X3, np.ones((300, 1)), np.zeros((300, 1))]), y3
    X5, y5 = problem(rng, n=1000, p=10, k=50)
    yield "fifty classes", X5, y5
    rare = y3.copy()
    rare[:] = y3 % 2
    rare[:3] = 2
    yield "a class of three rows", X3, rare
    yield "iris", *load_iris(return_X_y=True)
    yield "wine", *load_wine(return_X_y=True)
    yield "breast cancer", *load_breast_cancer(return_X_y=True)
    digits = load_digits(return_X_y=True)
    yield "digits", digits[0][:600], digits[1][:600]


NAMES = [name for name, *_ in hard_problems(np.random.default_rng(0))]


@pytest.mark.parametrize("name", NAMES)
def test_hard_problems_are_solved(rng, name):
    X, y = next((X, y) for found, X, y in hard_problems(rng) if found == name)
    model = LogisticRegression(tol=1e-7, max_iter=5000).fit(X, y)
    slope, of_intercept = subgradient(X, y, model)
    assert max(slope, of_intercept) < 2e-7


@pytest.mark.parametrize("name", ["breast cancer", "digits", "fifty classes"])
def test_the_objective_is_at_least_as_good_as_scikit_learns(rng, name):
    X, y = next((X, y) for found, X, y in hard_problems(rng) if found == name)
    X = StandardScaler().fit_transform(X)
    ours = LogisticRegression().fit(X, y)
    theirs = sk.LogisticRegression().fit(X, y)
    assert objective(X, y, ours) <= objective(X, y, theirs) * (1 + 1e-6)


# ---------------------------------------------------------------- many models at once


@pytest.mark.each
@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("solver", ["lbfgs", "newton-cholesky", "saga"])
def test_together_is_as_one_by_one(rng, library, solver, k):
    from sklearn.model_selection import StratifiedKFold

    from gpuml.resampling.atoms import make_folds
    from gpuml.resampling.split import split_rows

    X, y = problem(rng, n=300, k=k)
    X_lib, y_lib = library.asarray(X), library.asarray(y)
    estimator = LogisticRegression(**TIGHT, solver=solver)
    ratios = [0.0, 0.5] if solver == "saga" else [0.0]
    candidates = [
        {"C": C, "fit_intercept": intercept, "l1_ratio": ratio}
        for C in (0.01, 1.0, 100.0)
        for intercept in (True, False)
        for ratio in ratios
    ]
    batch = estimator.multifit_batch(X_lib, y_lib)
    splits = split_rows(StratifiedKFold(3), X_lib, y_lib, len(y))
    stack = estimator.multifit(make_folds(batch, splits), candidates)
    from gpuml.data import row_indices

    for c, params in enumerate(candidates):
        for s, split in enumerate(splits):
            rows = row_indices(split.train)
            together = estimator.multifit_model(params, stack.pick(c, s))
            alone = clone(estimator).set_params(**params).fit(X[rows], y[rows])
            np.testing.assert_allclose(
                library.to_numpy(together.coef_), alone.coef_, rtol=1e-5, atol=1e-6
            )


@pytest.mark.parametrize("solver", ["lbfgs", "newton-cholesky", "saga"])
def test_memory_for_one_candidate_at_a_time_gives_the_same(rng, solver):
    from gpuml.model_selection import GridSearchCV

    X, y = problem(rng, n=400)
    grid = {"C": [0.01, 1.0, 100.0]}
    model = LogisticRegression(**TIGHT, solver=solver)
    search = GridSearchCV(model, grid, scoring="neg_log_loss").fit(X, y)
    with gpuml.config_context(solver_bytes=1, block_bytes=4096):
        small = GridSearchCV(model, grid, scoring="neg_log_loss").fit(X, y)
    np.testing.assert_allclose(
        search.cv_results_["mean_test_score"], small.cv_results_["mean_test_score"], atol=1e-9
    )


def test_second_derivatives_of_newton_count_as_memory(rng, monkeypatch):
    from gpuml.model_selection import GridSearchCV
    from gpuml.solvers import loss_models

    sizes = []
    smooth = loss_models.solve_smooth

    def watched(data, penalties, start, options, rarest):
        sizes.append(start.shape[0])
        return smooth(data, penalties, start, options, rarest)

    monkeypatch.setattr(loss_models, "solve_smooth", watched)
    X, y = problem(rng, n=400, p=50, k=2)
    model = LogisticRegression(solver="newton-cholesky")
    # Matrices of order 51 for five splits, four at once: 416 kB for each candidate.
    with gpuml.config_context(solver_bytes=1_100_000):
        GridSearchCV(model, {"C": [0.01, 0.1, 1.0, 10.0]}, refit=False).fit(X, y)
    assert sizes == [2, 2]


# ---------------------------------------------------------------- contract


def test_stopping_early_warns_and_says_what_to_do(rng):
    X, y = problem(rng)
    with pytest.warns(ConvergenceWarning, match=r"failed to converge.*[\s\S]*Increase max_iter"):
        model = LogisticRegression(max_iter=1, tol=1e-12).fit(X, y)
    assert model.n_iter_ == [1]


@pytest.mark.parametrize("solver", ["lbfgs", "newton-cholesky"])
def test_the_warning_tells_the_iterations_that_were_taken(solver):
    n_iter = np.array([[4, 7, 9]])
    solved = Solved(None, np.array([[1.0, 1.0, 0.0]]), n_iter, np.zeros((1, 3), dtype=bool))
    with pytest.warns(ConvergenceWarning, match=r"after 7 iteration.* for 2 of 3 models"):
        warn_if_stopped(LogisticRegression(solver=solver, max_iter=100), solved)


def test_a_warm_start_goes_on_where_the_last_fit_ended(rng):
    X, y = problem(rng)
    model = LogisticRegression(tol=1e-8, warm_start=True).fit(X, y)
    first = model.n_iter_[0]
    assert model.fit(X, y).n_iter_[0] <= 1 < first
    with pytest.raises(ValueError, match="Initialization coef"):
        model.fit(X[:, :3], y)


@pytest.mark.parametrize(
    "params", [{}, {"solver": "newton-cholesky"}, {"l1_ratio": 1, "solver": "saga"}]
)
@pytest.mark.parametrize("level", [-164.0, 800.0])
def test_a_start_without_curvature_is_left(rng, params, level):
    X, y = problem(rng)
    params = {**params, "tol": 1e-8, "max_iter": 5000}
    alone = LogisticRegression(**params).fit(X, y)
    model = LogisticRegression(**params, warm_start=True).fit(X, y)
    model.intercept_ = np.full_like(model.intercept_, level)
    np.testing.assert_allclose(model.fit(X, y).predict_proba(X), alone.predict_proba(X), atol=1e-6)


@pytest.mark.parametrize(
    ("params", "match"),
    [
        ({"l1_ratio": 0.5}, "supports only 'l2'"),
        ({"dual": True}, "dual=False"),
        ({"C": -1.0}, "C"),
        ({"solver": "nothing"}, "solver"),
    ],
)
def test_parameters_are_refused_as_scikit_learn_refuses_them(rng, params, match):
    X, y = problem(rng)
    with pytest.raises(ValueError, match=match):
        LogisticRegression(**params).fit(X, y)


def test_one_class_is_refused(rng, library):
    X, y = problem(rng)
    with pytest.raises(ValueError, match="at least 2 classes"):
        LogisticRegression().fit(library.asarray(X), library.asarray(np.zeros_like(y)))


def test_continuous_targets_are_refused(rng, library):
    X, _ = problem(rng)
    with pytest.raises(ValueError, match="Unknown label type"):
        LogisticRegression().fit(library.asarray(X), library.asarray(rng.normal(size=len(X))))


def test_a_failed_fit_leaves_the_model_as_it_was(rng):
    X, y = problem(rng)
    model = LogisticRegression().fit(X, y)
    before = model.coef_.copy()
    with pytest.raises(ValueError, match="NaN"):
        model.fit(np.where(X > 2, np.nan, X), y)
    np.testing.assert_array_equal(model.coef_, before)


def test_solvers_of_scikit_learn_take_host_data_only(rng, library):
    X, y = problem(rng, k=2)
    model = LogisticRegression(solver="liblinear")
    if library.name.startswith("numpy"):
        theirs = sk.LogisticRegression(solver="liblinear").fit(X, y)
        np.testing.assert_allclose(model.fit(library.asarray(X), y).coef_, theirs.coef_)
        return
    with pytest.raises(ValueError, match="needs data in CPU memory"):
        model.fit(library.asarray(X), library.asarray(y))


def test_penalty_by_name_still_works(rng):
    X, y = problem(rng, k=2)
    with pytest.warns(FutureWarning, match="deprecated"):
        old = LogisticRegression(penalty=None, **TIGHT).fit(X, y)
    new = LogisticRegression(C=np.inf, **TIGHT).fit(X, y)
    np.testing.assert_allclose(old.coef_, new.coef_)


def test_many_features_with_an_l1_penalty_go_by_gradients(rng, monkeypatch):
    from gpuml.solvers import loss_models

    X, y = problem(rng, n=120, p=30)
    params = {"solver": "saga", "l1_ratio": 0.8, "C": 0.5, "tol": 1e-8, "max_iter": 20_000}
    newton = LogisticRegression(**params).fit(X, y)
    monkeypatch.setattr(loss_models, "MOST_COEFFICIENTS", 1)
    gradient = LogisticRegression(**params).fit(X, y)
    np.testing.assert_allclose(gradient.coef_, newton.coef_, atol=1e-5)


def test_extreme_margins_do_not_overflow(rng, library):
    X = np.array([[1e4], [-1e4], [1.0], [-1.0]])
    y = np.array([1, 0, 1, 0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = LogisticRegression(C=1e6).fit(library.asarray(X), library.asarray(y))
        probability = library.to_numpy(model.predict_proba(library.asarray(100 * X)))
    assert np.isfinite(probability).all()
    np.testing.assert_allclose(probability.sum(axis=1), 1.0)


# ---------------------------------------------------------------- on a GPU


@pytest.mark.gpu
@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("on_device", [True, False])
def test_the_solver_of_cuml_agrees(rng, k, on_device):
    cupy = pytest.importorskip("cupy")
    pytest.importorskip("cuml")
    X, y = problem(rng, n=2000, k=k)
    data = (cupy.asarray(X), cupy.asarray(y)) if on_device else (X, y)
    theirs = LogisticRegression(solver="qn", tol=1e-8, max_iter=1000, C=0.1).fit(*data)
    ours = LogisticRegression(**TIGHT, C=0.1).fit(X, y)
    assert type(theirs.coef_) is type(data[0])
    assert tuple(theirs.coef_.shape) == ours.coef_.shape
    probability = theirs.predict_proba(data[0])
    probability = cupy.asnumpy(probability) if on_device else probability
    np.testing.assert_allclose(probability, ours.predict_proba(X), atol=1e-3)


def test_the_solver_of_cuml_needs_a_gpu(rng):
    from gpuml._arrays import has_gpu

    if has_gpu():
        pytest.skip("there is a GPU")
    X, y = problem(rng)
    with pytest.raises(RuntimeError, match="needs an NVIDIA GPU"):
        LogisticRegression(solver="qn").fit(X, y)


@pytest.mark.gpu
@pytest.mark.parametrize("k", [2, 10])
def test_a_million_float32_rows_reach_the_tolerance(k):
    cupy = pytest.importorskip("cupy")
    random = cupy.random.default_rng(0)
    X = random.standard_normal((1_000_000, 100), dtype=cupy.float32)
    scores = X[:, :k] + cupy.asarray(np.random.default_rng(1).gumbel(size=(1_000_000, k)))
    y = scores.argmax(axis=1)
    model = LogisticRegression(C=0.5).fit(X, y)
    # Gradients in float64 from float32 coefficients: the tolerance, and the rounding of those.
    coef, intercept = (a.astype(cupy.float64) for a in (model.coef_, model.intercept_))
    z = X.astype(cupy.float64) @ coef.T + intercept
    if k == 2:
        residual = 1 / (1 + cupy.exp(-z)) - y[:, None]
    else:
        residual = cupy.exp(z - z.max(axis=1, keepdims=True))
        residual = residual / residual.sum(axis=1, keepdims=True) - (y[:, None] == cupy.arange(k))
    gradient = (residual.T @ X + coef / model.C) / len(y)
    assert float(cupy.abs(gradient).max()) < 1.1e-4
    assert float(cupy.abs(residual.mean(axis=0)).max()) < 1.1e-4


@pytest.mark.gpu
def test_rows_that_do_not_fit_on_the_gpu_are_read_block_by_block(rng, monkeypatch):
    pytest.importorskip("cupy")
    X, y = problem(rng, n=20_000, p=10)
    model = LogisticRegression(**TIGHT)
    at_once = clone(model).fit(X, y)
    monkeypatch.setattr("gpuml.data.resident_batches.fits", lambda size, place: False)
    with gpuml.config_context(device="cuda", block_bytes=2**20):
        streamed = clone(model).fit(X, y)
    assert isinstance(streamed.coef_, np.ndarray)
    np.testing.assert_allclose(streamed.coef_, at_once.coef_, atol=1e-7)
