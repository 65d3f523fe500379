"""Laws of Ridge and LinearRegression, and agreement with scikit-learn, over array libraries."""

import numpy as np
import pytest
import sklearn.linear_model as sk
from scipy import sparse
from sklearn.base import clone

import gpuml
from gpuml.linear_model import LinearRegression, Ridge
from gpuml.model_selection import GridSearchCV
from gpuml.solvers import Status, ridge
from gpuml.testing import LAW_RTOL, RTOL

ALPHAS = [1e-3, 1.0, 1e3]


def problem(rng, n=80, p=6, t=None, mean=0.0):
    X = rng.normal(mean, 1, size=(n, p))
    W = rng.normal(size=(p,) if t is None else (p, t))
    y = X @ W + 3 + rng.normal(size=(n,) if t is None else (n, t))
    return X, y, rng.uniform(0.1, 2, size=n)


def fitted(library, model, X, y, w=None):
    arrays = [None if a is None else library.asarray(a) for a in (X, y, w)]
    model.fit(arrays[0], arrays[1], sample_weight=arrays[2])
    return library.to_numpy(model.coef_), np.asarray(library.to_numpy(model.intercept_))


def close(library, a, b, rtol=LAW_RTOL["float64"]):
    np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * max(1.0, np.abs(b).max()))


@pytest.mark.pairwise
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("targets", [None, 1, 3])
def test_agrees_with_sklearn(library, rng, dtype, fit_intercept, weighted, targets):
    X, y, w = problem(rng, t=targets)
    X, w = X.astype(dtype), w.astype(dtype)
    weight = w if weighted else None
    for ours, theirs in [
        (Ridge(0.7, fit_intercept=fit_intercept), sk.Ridge(0.7, fit_intercept=fit_intercept)),
        (
            LinearRegression(fit_intercept=fit_intercept),
            sk.LinearRegression(fit_intercept=fit_intercept),
        ),
    ]:
        coef, intercept = fitted(library, ours, X, y, weight)
        theirs.fit(X.astype("float64"), y, None if weight is None else w.astype("float64"))
        np.testing.assert_allclose(coef, theirs.coef_, rtol=RTOL[dtype], atol=RTOL[dtype])
        np.testing.assert_allclose(intercept, theirs.intercept_, rtol=RTOL[dtype], atol=RTOL[dtype])
        assert coef.dtype == dtype
        X_lib = library.asarray(X)
        prediction = ours.predict(X_lib)
        assert type(prediction) is type(X_lib)
        rtol = RTOL[dtype]
        np.testing.assert_allclose(
            library.to_numpy(prediction), theirs.predict(X), rtol=rtol, atol=10 * rtol
        )
        score = ours.score(X_lib, library.asarray(y))
        assert isinstance(score, float)
        assert score == pytest.approx(theirs.score(X, y), abs=RTOL[dtype])


@pytest.mark.filterwarnings("ignore:An ill-conditioned matrix:scipy.linalg.LinAlgWarning")
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("alpha", ALPHAS)
def test_large_means_and_scales_from_1e_minus_6_to_1e6(library, rng, dtype, alpha):
    scales = 10.0 ** np.linspace(-6, 6, 8)
    X = (rng.normal(size=(300, 8)) + 500) * scales
    X = X.astype(dtype)
    y = (X / scales - 500) @ rng.normal(size=8) + rng.normal(size=300)
    coef, intercept = fitted(library, Ridge(alpha), X, y)
    expected = sk.Ridge(alpha, solver="cholesky").fit(X.astype("float64"), y)
    np.testing.assert_allclose(coef, expected.coef_, rtol=RTOL[dtype])
    np.testing.assert_allclose(intercept, expected.intercept_, rtol=RTOL[dtype])


def test_doubled_row_is_doubled_weight(library, rng):
    X, y, w = problem(rng)
    twice = np.r_[np.arange(80), 7]
    doubled = w.copy()
    doubled[7] *= 2
    for model in (Ridge(), LinearRegression()):
        one = fitted(library, model, X, y, doubled)
        two = fitted(library, model, X[twice], y[twice], w[twice])
        for a, b in zip(one, two, strict=True):
            close(library, a, b)


def test_zero_weight_is_a_removed_row(library, rng):
    X, y, w = problem(rng)
    w[10:20] = 0
    X[10:20] = 1e6
    kept = w > 0
    for model in (Ridge(), LinearRegression()):
        for a, b in zip(
            fitted(library, model, X, y, w), fitted(library, model, X[kept], y[kept], w[kept]),
            strict=True,
        ):  # fmt: skip
            close(library, a, b, 1e-6)


def test_order_of_rows_does_not_matter(library, rng):
    X, y, w = problem(rng)
    order = rng.permutation(80)
    for a, b in zip(
        fitted(library, Ridge(), X, y, w),
        fitted(library, Ridge(), X[order], y[order], w[order]),
        strict=True,
    ):
        close(library, a, b)


def test_infinite_penalty_leaves_the_mean(library, rng):
    X, y, w = problem(rng)
    coef, intercept = fitted(library, Ridge(1e300), X, y, w)
    close(library, coef, np.zeros(6))
    close(library, intercept, np.average(y, weights=w))


def test_exact_solution_is_found(library, rng):
    X = rng.normal(size=(50, 4))
    W, b = np.array([1.0, -2.0, 0.0, 5.0]), 7.0
    for model in (Ridge(0), LinearRegression()):
        coef, intercept = fitted(library, model, X, X @ W + b)
        close(library, coef, W)
        close(library, intercept, b)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_gradient_vanishes_at_the_optimum(library, rng, fit_intercept):
    X, y, w = problem(rng, t=2)
    alpha = np.array([0.3, 4.0])
    coef, b = fitted(library, Ridge(alpha, fit_intercept=fit_intercept), X, y, w)
    residual = y - X @ coef.T - b
    gradient = -X.T @ (w[:, None] * residual) + alpha * coef.T
    close(library, gradient, np.zeros_like(gradient), 1e-8)
    if fit_intercept:
        close(library, w @ residual, np.zeros(2), 1e-8)


def test_constant_column_gets_no_coefficient(library, rng):
    X, y, w = problem(rng)
    wide = np.c_[X, np.full(80, 7.3)]
    for model in (Ridge(0.5), Ridge(0), LinearRegression()):
        coef, intercept = fitted(library, model, wide, y, w)
        without, b = fitted(library, model, X, y, w)
        close(library, coef, np.r_[without, 0.0])
        close(library, intercept, b)


def test_duplicated_columns_share_the_coefficient(library, rng):
    X, y, w = problem(rng)
    for model in (Ridge(0.5), Ridge(0), LinearRegression()):
        coef, _ = fitted(library, model, np.c_[X, X], y, w)
        close(library, coef[:6], coef[6:], 1e-7)
        half = Ridge(0.25 if getattr(model, "alpha", 0) else 0)
        close(library, 2 * coef[:6], fitted(library, half, X, y, w)[0], 1e-7)
    assert model.status_ is Status.MINIMUM_NORM


@pytest.mark.parametrize("alpha", [0.0, *ALPHAS])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_more_features_than_rows(library, rng, alpha, fit_intercept):
    X, y, w = problem(rng, n=20, p=50, t=2, mean=5)
    # scikit-learn's Ridge keeps directions that rounding has made when alpha is 0.
    if alpha:
        theirs = sk.Ridge(alpha, fit_intercept=fit_intercept, solver="svd")
    else:
        theirs = sk.LinearRegression(fit_intercept=fit_intercept)
    theirs.fit(X, y, w)
    coef, intercept = fitted(library, Ridge(alpha, fit_intercept=fit_intercept), X, y, w)
    close(library, coef, theirs.coef_, 1e-7)
    close(library, intercept, np.asarray(theirs.intercept_), 1e-7)


def test_nearly_dependent_columns_are_solved_from_the_rows(library, rng):
    X, y, _ = problem(rng, n=200)
    X = np.c_[X, X[:, 0] + 1e-7 * rng.normal(size=200)]
    model = Ridge(1e-12)
    coef, _ = fitted(library, model, X, y)
    assert model.status_ is Status.ROWS
    assert model.solver_ == "svd"
    assert "rows" in model.status_.advice
    A = np.r_[X - X.mean(0), 1e-6 * np.eye(7)]
    exact = np.linalg.lstsq(A, np.r_[y - y.mean(), np.zeros(7)], rcond=None)[0]
    np.testing.assert_allclose(coef, exact, rtol=1e-6)


def test_svd_solver_agrees_and_says_so(library, rng):
    X, y, w = problem(rng)
    model = Ridge(solver="svd")
    for a, b in zip(
        fitted(library, model, X, y, w), fitted(library, Ridge(), X, y, w), strict=True
    ):
        close(library, a, b)
    assert model.solver_ == "svd"


def test_rank_and_singular_values(library, rng):
    X, y, w = problem(rng)
    for data in (X, np.c_[X, X[:, :1]], X[:4]):
        n = len(data)
        model = LinearRegression()
        fitted(library, model, data, y[:n], w[:n])
        theirs = sk.LinearRegression().fit(data, y[:n], w[:n])
        assert model.rank_ == theirs.rank_
        close(library, library.to_numpy(model.singular_), theirs.singular_, 1e-7)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_directions_up_to_tol_are_left_out_of_wide_rows(library, rng, fit_intercept):
    X, y, w = problem(rng, n=20, p=50, t=2, mean=5)
    centred = X - fit_intercept * np.average(X, axis=0, weights=w)
    U, s, Vt = np.linalg.svd(np.sqrt(w)[:, None] * centred, full_matrices=False)
    for tol in float((s[7] + s[8]) / 2 / s[0]), 1e-6:
        model = LinearRegression(fit_intercept=fit_intercept, tol=tol)
        coef, _ = fitted(library, model, X, y, w)
        kept = s > tol * s[0]
        target = np.sqrt(w)[:, None] * (y - fit_intercept * np.average(y, axis=0, weights=w))
        close(library, coef, (Vt[kept].T @ ((U.T @ target)[kept] / s[kept, None])).T)
        assert model.rank_ == kept.sum()
        assert model.status_ is Status.MINIMUM_NORM


def test_singular_values_of_wide_rows_some_of_which_have_no_weight_or_repeat(library, rng):
    X, y, w = problem(rng, n=20, p=50)
    w[[3, 8]] = 0.0
    for rows in range(20), [*range(18), 0, 1]:
        model = LinearRegression()
        fitted(library, model, X[rows], y[rows], w[rows])
        theirs = sk.LinearRegression().fit(X[rows], y[rows], w[rows])
        assert model.rank_ == theirs.rank_
        # To the digits of the largest: zeros have none of their own.
        found = library.to_numpy(model.singular_) / theirs.singular_[0]
        np.testing.assert_allclose(found, theirs.singular_ / theirs.singular_[0], atol=1e-12)


def test_wide_rows_are_solved_from_their_inner_products(rng, monkeypatch):
    """One small eigenproblem instead of two decompositions of the rows."""
    X, y, w = problem(rng, n=20, p=50, t=2, mean=5)
    expected = sk.LinearRegression().fit(X, y, w)
    monkeypatch.setattr(ridge, "centred_rows", None)
    model = LinearRegression().fit(X, y, w)
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(model.singular_[:19], expected.singular_[:19], rtol=1e-12)


def test_inputs_are_left_as_they_were(library, rng):
    X, y, w = problem(rng)
    arrays = [library.asarray(a) for a in (X, y, w)]
    Ridge(copy_X=False).fit(*arrays)
    for array, original in zip(arrays, (X, y, w), strict=True):
        np.testing.assert_array_equal(library.to_numpy(array), original)


@pytest.mark.parametrize("solver", ["lsqr", "sparse_cg", "sag", "saga"])
def test_solvers_of_sklearn_run_on_host_data(rng, solver):
    X, y, _ = problem(rng)
    ours = Ridge(solver=solver, random_state=0, tol=1e-8).fit(X, y)
    theirs = sk.Ridge(solver=solver, random_state=0, tol=1e-8).fit(X, y)
    np.testing.assert_array_equal(ours.coef_, theirs.coef_)
    assert ours.solver_ == solver


def test_positive_and_sparse_rows(rng):
    X, y, _ = problem(rng)
    np.testing.assert_array_equal(
        Ridge(positive=True).fit(X, y).coef_, sk.Ridge(positive=True).fit(X, y).coef_
    )
    rows = sparse.csr_matrix(X)
    # Ours solves, scikit-learn's solver of sparse rows stops at its tol: so that of dense rows.
    ours, theirs = Ridge().fit(rows, y), sk.Ridge().fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_)
    np.testing.assert_allclose(ours.predict(rows), theirs.predict(X))
    ours, theirs = LinearRegression().fit(rows, y), sk.LinearRegression().fit(rows, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_)
    np.testing.assert_allclose(ours.predict(rows), theirs.predict(rows))


def test_solvers_of_sklearn_refuse_device_data(library, rng):
    if library.name.startswith("numpy"):
        pytest.skip("data in CPU memory")
    X, y, _ = problem(rng)
    with pytest.raises(ValueError, match="solver='sag'.*data in CPU memory.*Use solver='auto'"):
        Ridge(solver="sag").fit(library.asarray(X), library.asarray(y))


def test_solvers_of_cuml_say_what_they_need_without_a_gpu(rng):
    from gpuml._arrays import has_gpu

    if has_gpu():
        pytest.skip("there is a GPU")
    X, y, _ = problem(rng)
    with pytest.raises(RuntimeError, match="cuML"):
        Ridge(solver="eig").fit(X, y)
    with gpuml.config_context(device="cuda"), pytest.raises(RuntimeError, match="sees no GPU"):
        Ridge().fit(X, y)


@pytest.mark.gpu
@pytest.mark.parametrize("solver", ["eig", "lsmr", "cuml-svd"])
def test_solvers_of_cuml_agree(rng, solver):
    cupy = pytest.importorskip("cupy")
    if not cupy.is_available():
        pytest.skip("no GPU")
    pytest.importorskip("cuml")
    X, y, _ = problem(rng)
    ours = Ridge(solver=solver, tol=1e-10).fit(X, y)
    np.testing.assert_allclose(ours.coef_, Ridge().fit(X, y).coef_, rtol=1e-5)
    assert isinstance(ours.coef_, np.ndarray)
    on_device = Ridge(solver=solver, tol=1e-10).fit(cupy.asarray(X), cupy.asarray(y))
    assert isinstance(on_device.coef_, cupy.ndarray)
    assert isinstance(on_device.predict(cupy.asarray(X)), cupy.ndarray)


BAD = {
    "nan in X": (lambda X, y: (np.where(X > 2, np.nan, X), y), {}, ValueError, "X contains NaN"),
    "inf in X": (lambda X, y: (np.where(X > 2, np.inf, X), y), {}, ValueError, "X contains inf"),
    "nan in y": (lambda X, y: (X, np.where(y > 3, np.nan, y)), {}, ValueError, "y contains NaN"),
    "no rows": (lambda X, y: (X[:0], y[:0]), {}, ValueError, "0 sample"),
    "no columns": (lambda X, y: (X[:, :0], y), {}, ValueError, "0 feature"),
    "1-D X": (lambda X, y: (X[:, 0], y), {}, ValueError, "Expected 2D array"),
    "3-D X": (lambda X, y: (X[None], y), {}, ValueError, "3"),
    "lengths": (lambda X, y: (X, y[:-1]), {}, ValueError, "inconsistent numbers of samples"),
    "complex": (lambda X, y: (X + 1j, y), {}, ValueError, "Complex data not supported"),
    "negative alpha": (lambda X, y: (X, y), {"alpha": -1.0}, ValueError, "alpha"),
    "nan alpha": (lambda X, y: (X, y), {"alpha": [np.nan]}, ValueError, "alpha"),
    "many alphas": (lambda X, y: (X, y), {"alpha": [1.0, 2.0]}, ValueError, "alpha"),
    "solver": (lambda X, y: (X, y), {"solver": "magic"}, ValueError, "solver"),
    "fit_intercept": (lambda X, y: (X, y), {"fit_intercept": "maybe"}, ValueError, "fit_intercept"),
    "huge": (lambda X, y: (X * 1e200, y), {}, ValueError, "overflow float64"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_names_the_argument_and_changes_nothing(library, rng, case):
    change, params, error, text = BAD[case]
    X, y, _ = problem(rng)
    model = Ridge().fit(X, y)
    before = dict(vars(model))
    bad_X, bad_y = change(X, y)
    model.set_params(**params)
    with pytest.raises(error, match=text):
        model.fit(library.asarray(bad_X), library.asarray(bad_y))
    assert {n: v for n, v in vars(model).items() if n.endswith("_")} == {
        n: v for n, v in before.items() if n.endswith("_")
    }


@pytest.mark.parametrize(
    ("weight", "text"),
    [
        (np.ones(3), "sample_weight.shape"),
        (np.ones((80, 2)), "1D array"),
        (-np.ones(80), "Negative values in data passed to `sample_weight`"),
        (np.zeros(80), "at least one non-zero"),
        (np.full(80, np.nan), "NaN"),
    ],
)
def test_bad_weights(library, rng, weight, text):
    X, y, _ = problem(rng)
    with pytest.raises(ValueError, match=text):
        Ridge().fit(*(library.asarray(a) for a in (X, y)), sample_weight=library.asarray(weight))


def test_strings_are_refused(rng):
    with pytest.raises(ValueError, match="convert"):
        Ridge().fit([["a"], ["b"]], [1.0, 2.0])
    with pytest.raises(ValueError, match="convert|numeric"):
        Ridge().fit([[1.0], [2.0]], ["a", "b"])


def test_numeric_strings_are_numbers_where_sklearn_takes_them(rng):
    X, y, _ = problem(rng)
    for a, b in ((X.astype(str), y), (X, y.astype(str))):
        np.testing.assert_allclose(Ridge().fit(a, b).coef_, sk.Ridge().fit(a, b).coef_)
    with pytest.raises(ValueError, match="strings"):
        LinearRegression().fit(X.astype(str), y)
    with pytest.raises(TypeError, match="Sparse data was passed for y"):
        Ridge().fit(X, sparse.csr_matrix(y[:, None]))
    with pytest.raises(ValueError, match="must hold numbers"):
        LinearRegression().fit(X.astype("datetime64[D]"), y)


def test_predict_checks_features(library, rng):
    X, y, _ = problem(rng)
    model = Ridge().fit(library.asarray(X), library.asarray(y))
    with pytest.raises(ValueError, match="features"):
        model.predict(library.asarray(X[:, :3]))
    with pytest.raises(ValueError, match="NaN"):
        model.predict(library.asarray(np.where(X > 1, np.nan, X)))


def test_small_blocks_give_the_same(library, rng):
    X, y, w = problem(rng, n=500)
    whole = fitted(library, Ridge(), X, y, w)
    with gpuml.config_context(block_bytes=1000):
        for a, b in zip(fitted(library, Ridge(), X, y, w), whole, strict=True):
            close(library, a, b)
        model = Ridge(solver="svd")
        for a, b in zip(fitted(library, model, X, y, w), whole, strict=True):
            close(library, a, b)


# ---------------------------------------------------------------- values whose squares vanish

SMALL = (1e-155, 1e-165, 1e-200, 1e-300)


def of_unit_size(rng, n_rows=60):
    X = rng.normal(size=(n_rows, 5)) + 0.3
    return X, X @ np.arange(5.0) + rng.normal(size=n_rows)


@pytest.mark.pairwise
@pytest.mark.parametrize("n_rows", [60, 4])
@pytest.mark.parametrize("scale", SMALL)
@pytest.mark.parametrize("model", [LinearRegression(), Ridge(alpha=0.0)], ids=["ols", "ridge"])
def test_values_whose_squares_vanish(library, rng, model, scale, n_rows):
    X, y = of_unit_size(rng, n_rows)
    expected = clone(model).fit(X, y)
    found = clone(model).fit(library.asarray(X * scale), library.asarray(y))
    np.testing.assert_allclose(library.to_numpy(found.coef_) * scale, expected.coef_, rtol=1e-9)
    predicted = library.to_numpy(found.predict(library.asarray(X * scale)))
    np.testing.assert_allclose(predicted, expected.predict(X), rtol=1e-9)


@pytest.mark.parametrize("n_rows", [60, 4])
@pytest.mark.parametrize("alpha", [1e-320, 1e-280, 1.0])
@pytest.mark.parametrize("scale", [1e-165, 1e-200])
def test_penalties_that_rule_over_squares_that_vanish(rng, scale, alpha, n_rows):
    X, y = of_unit_size(rng, n_rows)
    found = Ridge(alpha=alpha).fit(X * scale, y)
    X, y = X - X.mean(axis=0), y - y.mean()
    share = alpha / scale / scale if alpha < 1 else np.inf
    if share < 1e15:
        expected = np.linalg.solve(X.T @ X + share * np.eye(5), X.T @ y) / scale
    else:
        expected = scale * (X.T @ y) / alpha
    np.testing.assert_allclose(found.coef_, expected, rtol=1e-8)


@pytest.mark.parametrize("scale", SMALL)
def test_scores_of_searches_where_squares_vanish(rng, scale):
    X, y = of_unit_size(rng)
    grid = {"fit_intercept": [True, False]}
    expected, found = (GridSearchCV(LinearRegression(), grid).fit(Z, y) for Z in (X, X * scale))
    np.testing.assert_allclose(
        found.cv_results_["mean_test_score"], expected.cv_results_["mean_test_score"], rtol=1e-9
    )


# Of values smaller than these, coefficients would be larger than any number of the dtype.
TOO_SMALL = {"float64": 1e-310, "float32": 1e-42}


@pytest.mark.parametrize("n_rows", [60, 4])
@pytest.mark.parametrize("dtype", TOO_SMALL)
@pytest.mark.parametrize("model", [LinearRegression(), Ridge(alpha=0.0)], ids=["ols", "ridge"])
def test_values_that_no_coefficient_is_large_enough_for(library, rng, model, dtype, n_rows):
    """They explain nothing, as in scikit-learn's Ridge; the others explain what they can."""
    X, y = of_unit_size(rng, n_rows)
    scale = TOO_SMALL[dtype] * np.array([1.0, 1e8, 1.0, 1e5, 1.0])
    for chosen in ([], [1], [1, 3]):
        small = (X * np.where(np.isin(np.arange(5), chosen), scale, TOO_SMALL[dtype])).astype(dtype)
        found = clone(model).fit(library.asarray(small), library.asarray(y.astype(dtype)))
        coef = library.to_numpy(found.coef_)
        predicted = library.to_numpy(found.predict(library.asarray(small)))
        assert found.status_ is Status.MINIMUM_NORM
        assert np.isfinite(coef).all()
        expected = np.full(n_rows, y.mean())
        if chosen:
            expected = clone(model).fit(X[:, chosen], y).predict(X[:, chosen])
        # Next to the spread of y: a prediction near 0 has no digits of its own to lose.
        within = (1e-2 if dtype == "float32" else 1e-4) * np.std(y)
        np.testing.assert_allclose(predicted, expected, rtol=0, atol=within)


def test_searches_over_values_that_no_coefficient_is_large_enough_for(rng):
    X, y = of_unit_size(rng)
    pair = np.stack([X[:, 0], 1e-310 * X[:, 1]], axis=1)
    for grid in ({"alpha": [0.0, 1.0]}, {"alpha": [0.0, 1e-300, 1.0], "fit_intercept": [False]}):
        whole, one = (GridSearchCV(Ridge(), grid).fit(Z, y) for Z in (pair, pair[:, :1]))
        for name in ("mean_test_score", "split0_test_score"):
            np.testing.assert_allclose(whole.cv_results_[name], one.cv_results_[name], rtol=1e-9)
    alone = GridSearchCV(Ridge(), {"alpha": [0.0, 1e-300, 1.0]}).fit(1e-310 * X, y)
    assert np.isfinite(alone.cv_results_["mean_test_score"]).all()


# ---------------------------------------------------------------- targets that are no numbers


@pytest.mark.parametrize("model", [LinearRegression(), Ridge()], ids=["ols", "ridge"])
@pytest.mark.parametrize("kind", ["M8[D]", "m8[s]"])
def test_dates_are_no_targets(library, rng, model, kind):
    X, _ = of_unit_size(rng)
    with pytest.raises(TypeError, match="y holds dates or times"):
        model.fit(library.asarray(X), np.arange(60).astype(kind))


@pytest.mark.parametrize("model", [LinearRegression(), Ridge()], ids=["ols", "ridge"])
@pytest.mark.parametrize(
    ("y", "error", "words"),
    [
        ([1.0, None], ValueError, "Input y contains NaN"),
        ([1.0, "a"], ValueError, "could not convert string to float"),
        ([1.0, 1j], TypeError, "must be a string or a real number"),
    ],
)
def test_objects_that_are_no_numbers_are_no_targets(library, rng, model, y, error, words):
    X, _ = of_unit_size(rng)
    with pytest.raises(error, match=words):
        model.fit(library.asarray(X), np.asarray(y * 30, dtype=object))
