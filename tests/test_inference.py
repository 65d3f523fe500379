"""Standard errors are statsmodels', what the formula says, and the same wherever the rows are."""

import json
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from gpuml.inspection import summarize
from gpuml.inspection._likelihoods import log_gamma
from gpuml.linear_model import (
    GammaRegressor,
    Lasso,
    LinearRegression,
    LogisticRegression,
    PoissonRegressor,
    Ridge,
    TweedieRegressor,
)
from gpuml.testing import array_libraries

REFERENCE = Path(__file__).with_name("data") / "statsmodels_reference.json"
KINDS = ("least_squares", "logistic", "poisson", "gamma", "inverse_gaussian")
ROBUST = ("HC0", "HC1", "HC2", "HC3", "clustered")
# What statsmodels has: no HC2 and HC3 of generalised linear models, HC1 of these without its factor,
# and robust errors of other links than the canonical one from the observed information.
REFERENCE_CASES = [
    *product(KINDS, ["classical"], [None, "frequency", "precision"]),
    *product(["least_squares"], ROBUST, [None]),
    *product(["least_squares"], ["HC0", "HC3", "clustered"], ["precision"]),
    *product(["logistic", "poisson"], ["HC0", "clustered"], [None]),
]
# Fits of losses end where the objective is flat to 1e-10 or so.
EXACT = {"tol": 1e-10, "max_iter": 1000, "solver": "newton-cholesky"}


def rows(kind, n=150):
    """Features with large means, targets, groups and weights that are small integers."""
    rng = np.random.default_rng(KINDS.index(kind))
    X = rng.normal(size=(n, 3)) * [1.0, 5.0, 0.2] + [3.0, 1000.0, 0.0]
    eta = 0.3 * (X[:, 0] - 3.0) + 0.05 * (X[:, 1] - 1000.0) - X[:, 2]
    y = {
        "least_squares": lambda: eta + rng.normal(size=n) * (1.0 + np.abs(eta)),
        "logistic": lambda: (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(float),
        "poisson": lambda: rng.poisson(np.exp(eta)).astype(float),
        "gamma": lambda: rng.gamma(2.0, np.exp(eta) / 2) + 1e-3,
        "inverse_gaussian": lambda: rng.wald(np.exp(eta), 2.0) + 1e-3,
    }[kind]()
    return X, y, rng.integers(0, 12, n), rng.integers(1, 4, n).astype(float)


def model_of(kind, **options):
    return {
        "least_squares": lambda: LinearRegression(**options),
        "logistic": lambda: LogisticRegression(C=np.inf, **EXACT, **options),
        "poisson": lambda: PoissonRegressor(alpha=0, **EXACT, **options),
        "gamma": lambda: GammaRegressor(alpha=0, **EXACT, **options),
        "inverse_gaussian": lambda: TweedieRegressor(power=3, alpha=0, **EXACT, **options),
    }[kind]()


def options_of(covariance, groups):
    return {"covariance": covariance, "groups": groups if covariance == "clustered" else None}


@pytest.fixture(scope="module")
def reference():
    results = json.loads(REFERENCE.read_text())["results"]
    return {tuple(each["case"]): each for each in results}


@pytest.mark.parametrize("case", REFERENCE_CASES, ids=lambda case: "-".join(map(str, case)))
def test_numbers_are_those_of_statsmodels(case, reference):
    kind, covariance, weights = case
    X, y, groups, weight = rows(kind)
    weighted = {} if weights is None else {"sample_weight": weight}
    model = model_of(kind).fit(X, y, **weighted)
    meaning = {} if weights is None else {"weights": weights}
    found = summarize(model, X, y, **options_of(covariance, groups), **weighted, **meaning)
    expected = reference[case]
    assert found.scale == pytest.approx(expected["scale"], rel=1e-8)
    for name in ("log_likelihood", "aic"):
        assert getattr(found, name) == pytest.approx(expected[name], rel=1e-9)
    # Means of 1000 cost statsmodels digits, which takes features as they are.
    for name in ("coef", "std_error", "interval"):
        np.testing.assert_allclose(getattr(found, name), expected[name], rtol=1e-6)
    np.testing.assert_allclose(found.p_value, expected["p_value"], rtol=1e-5, atol=1e-12)


def naive(kind, found, X, y, covariance, groups):
    """The covariance by the formula, from rows as they are."""
    X = np.column_stack([X, np.ones(len(X))])
    n, q = X.shape
    z = X @ found.coef
    mean = {"least_squares": z, "logistic": 1 / (1 + np.exp(-z))}.get(kind, np.exp(z))
    curvature = {
        "least_squares": np.ones(n),
        "logistic": mean * (1 - mean),
        "poisson": mean,
        "gamma": np.ones(n),
        "inverse_gaussian": 1 / mean,
    }[kind]
    slope = {"gamma": (y - mean) / mean, "inverse_gaussian": (y - mean) / mean**2}.get(
        kind, y - mean
    )
    inverse = np.linalg.inv(X.T @ (curvature[:, None] * X))
    gradient = slope[:, None] * X
    factor = {"HC1": n / (n - q)}.get(covariance, 1.0)
    if covariance == "clustered":
        gradient = np.stack([gradient[groups == g].sum(axis=0) for g in np.unique(groups)])
        factor = len(gradient) / (len(gradient) - 1) * (n - 1) / (n - q)
    if covariance in ("HC2", "HC3"):
        left = 1 - curvature * np.einsum("ij,jk,ik->i", X, inverse, X)
        gradient = gradient / left[:, None] ** (0.5 if covariance == "HC2" else 1.0)
    return factor * inverse @ gradient.T @ gradient @ inverse


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("covariance", ROBUST)
def test_robust_covariances_are_the_formula(kind, covariance):
    X, y, groups, _ = rows(kind)
    X = X - [3.0, 1000.0, 0.0]  # the formula has no digits to lose here
    found = summarize(model_of(kind).fit(X, y), X, y, **options_of(covariance, groups))
    expected = naive(kind, found, X, y, covariance, groups)
    np.testing.assert_allclose(found.covariance, expected, rtol=1e-9, atol=1e-12)


CASES = [*product(KINDS, ["classical", "HC3", "clustered"])]


@pytest.mark.pairwise
@pytest.mark.parametrize("case", CASES, ids="-".join)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("library", array_libraries())
def test_rows_may_be_in_any_library(library, case, dtype):
    kind, covariance = case
    X, y, groups, weight = rows(kind)
    X = X - [3.0, 1000.0, 0.0]
    options = options_of(covariance, groups)
    model = model_of(kind).fit(X.astype(dtype), y, weight)
    expected = summarize(model, X.astype(dtype), y, sample_weight=weight, **options)
    there, y, weight = (library.asarray(a) for a in (X.astype(dtype), y, weight))
    model = model_of(kind).fit(there, y, weight)
    found = summarize(model, there, y, sample_weight=weight, **options)
    assert isinstance(found.coef, np.ndarray)
    # Coefficients of float32 rows are rounded to 7 digits.
    rtol = 1e-8 if dtype == "float64" else 1e-3
    np.testing.assert_allclose(found.covariance, expected.covariance, rtol=rtol, atol=1e-8)
    assert found.log_likelihood == pytest.approx(expected.log_likelihood, rel=rtol)


@pytest.mark.parametrize("covariance", ["classical", *ROBUST])
@pytest.mark.parametrize("kind", KINDS)
def test_a_row_of_frequency_2_is_two_rows(kind, covariance):
    X, y, groups, weight = rows(kind)
    weight[:3] = 0
    times = weight.astype(int)
    many = [np.repeat(a, times, axis=0) for a in (X, y, groups)]
    expected = summarize(
        model_of(kind).fit(*many[:2]), *many[:2], **options_of(covariance, many[2])
    )
    model = model_of(kind).fit(X, y, weight)
    found = summarize(model, X, y, sample_weight=weight, **options_of(covariance, groups))
    np.testing.assert_allclose(found.covariance, expected.covariance, rtol=1e-6)
    for name in ("n_rows", "df", "scale", "log_likelihood", "bic", "r2"):
        assert getattr(found, name) == pytest.approx(getattr(expected, name), rel=1e-8)


@pytest.mark.parametrize("covariance", ["classical", "HC3", "clustered"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_sparse_rows_have_the_errors_of_dense_ones(kind, covariance, fit_intercept):
    X, y, groups, weight = rows(kind)
    X = np.where(np.abs(X - [3.0, 1000.0, 0.0]) > 0.2, X - [3.0, 1000.0, 0.0], 0.0)
    found = []
    for there in (X, sparse.csr_array(X)):
        if kind == "least_squares":
            model = Ridge(alpha=0, tol=1e-12, fit_intercept=fit_intercept)
        else:
            model = model_of(kind, fit_intercept=fit_intercept)
        model.fit(there, y, weight)
        options = options_of(covariance, groups)
        found.append(summarize(model, there, y, sample_weight=weight, **options))
    np.testing.assert_allclose(found[1].covariance, found[0].covariance, rtol=1e-7, atol=1e-12)
    assert len(found[0].names) == 3 + fit_intercept


def test_large_means_cost_no_digits(rng):
    X = rng.normal(size=(100, 2))
    y = X @ [1.0, 2.0] + rng.normal(size=100)
    near, far = (
        summarize(LinearRegression().fit(Z, y), Z, y, covariance="HC3") for Z in (X, X + 1e6)
    )
    np.testing.assert_allclose(far.std_error[:2], near.std_error[:2], rtol=1e-8)


def test_least_squares_is_a_generalised_linear_model_of_power_0():
    X, y, groups, _ = rows("least_squares")
    for covariance in ("classical", *ROBUST):
        options = options_of(covariance, groups)
        found, expected = (
            summarize(model.fit(X, y), X, y, **options)
            for model in (TweedieRegressor(power=0, alpha=0, **EXACT), LinearRegression())
        )
        np.testing.assert_allclose(found.covariance, expected.covariance, rtol=1e-6)


def test_overdispersed_counts_have_a_scale():
    X, y, _, _ = rows("poisson")
    model = model_of("poisson").fit(X, y)
    one, quasi, twice = (summarize(model, X, y, scale=s) for s in (None, "pearson", 2))
    assert one.scale == 1
    np.testing.assert_allclose(quasi.covariance, quasi.scale * one.covariance)
    np.testing.assert_allclose(twice.covariance, 2 * one.covariance)
    mean = model.predict(X)
    assert quasi.scale == pytest.approx(np.sum((y - mean) ** 2 / mean) / (len(y) - 4))


def test_groups_without_weight_are_no_groups():
    X, y, groups, _ = rows("least_squares")
    weight = (groups != groups[0]).astype(float)
    kept = weight > 0
    model = LinearRegression().fit(X, y, sample_weight=weight)
    found = summarize(
        model,
        X,
        y,
        sample_weight=weight,
        covariance="clustered",
        groups=groups,
        scale=np.float32(1),
    )
    without = summarize(model, X[kept], y[kept], covariance="clustered", groups=groups[kept])
    assert (found.n_groups, found.df_test) == (without.n_groups, without.df_test)
    np.testing.assert_allclose(found.covariance, without.covariance, rtol=1e-9)


def test_it_is_readable_and_named():
    X, y, groups, _ = rows("least_squares")
    X = pd.DataFrame(X, columns=["age", "<size>", "dose"])
    model = LinearRegression().fit(X, y)
    found = summarize(model, X, y, covariance="clustered", groups=groups.astype(str), level=0.9)
    assert found.names == ("age", "<size>", "dose", "intercept")
    frame = found.to_frame()
    assert list(frame.columns) == ["coef", "std_error", "t", "p_value", "5%", "95%"]
    np.testing.assert_array_equal(frame.loc["dose", "coef"], found.coef[2])
    assert "12 groups" in str(found)
    assert "age" in str(found)
    assert "&lt;size&gt;" in found._repr_html_()
    assert found.df_test == 11
    assert found.r2 == pytest.approx(model.score(X, y))


REFUSED = [
    (Ridge(), {}, "alpha=1.0: penalised"),
    (LogisticRegression(), {}, "C=1: penalised"),
    (PoissonRegressor(), {}, "alpha=1.0: penalised"),
    (LinearRegression(positive=True), {}, "positive=True"),
    (LinearRegression(), {"covariance": "HC9"}, "must be one of"),
    (LinearRegression(), {"covariance": "clustered"}, "need each other"),
    (LinearRegression(), {"weights": "none"}, "frequency"),
    (LinearRegression(), {"scale": -1}, "above 0"),
    (LinearRegression(), {"level": 95}, "between 0 and 1"),
    (LinearRegression(), {"covariance": "clustered", "groups": np.zeros(150)}, "one group"),
    (
        LinearRegression(),
        {"covariance": "clustered", "groups": np.where(np.arange(150) < 3, np.nan, 1.0)},
        "missing values",
    ),
    (
        LinearRegression(),
        {"covariance": "clustered", "groups": np.array(["a", "b", None] * 50, dtype=object)},
        "missing values",
    ),
    (LinearRegression(), {"scale": np.inf}, "a number above 0"),
    (LinearRegression(), {"covariance": "clustered", "groups": [1, 2]}, "shape"),
    (LogisticRegression(C=np.inf, class_weight="balanced"), {}, "class_weight"),
]


@pytest.mark.parametrize(("model", "options", "words"), REFUSED)
def test_what_is_refused_is_said(model, options, words):
    X, y, _, _ = rows("logistic")
    with pytest.raises(ValueError, match=words):
        summarize(model.fit(X, y), X, y, **options)


def test_rows_that_determine_nothing_are_refused(rng):
    X, y, _, _ = rows("logistic")
    model = LinearRegression()
    with pytest.raises(TypeError, match="got Lasso"):
        summarize(Lasso().fit(X, y), X, y)
    with pytest.raises(NotFittedError):
        summarize(model, X, y)
    for extra in (X[:, 0] - 2 * X[:, 1], np.full(150, 0.1)):
        Z = np.column_stack([X, extra])
        with pytest.raises(ValueError, match=r"not determined.*x3"):
            summarize(model.fit(Z, y), Z, y)
    with pytest.raises(ValueError, match="no degrees of freedom"):
        summarize(model.fit(X[:4], y[:4]), X[:4], y[:4])
    with pytest.raises(ValueError, match="2 targets"):
        summarize(model.fit(X, np.stack([y, y], axis=1)), X, np.stack([y, y], axis=1))
    with pytest.raises(ValueError, match="2 features"):
        summarize(model.fit(X, y), X[:, :2], y)
    single = np.column_stack([X, np.arange(150.0) == 7])
    with pytest.raises(ValueError, match="leverage of 1"):
        summarize(model.fit(single, y), single, y, covariance="HC3")
    several = LogisticRegression(C=np.inf).fit(X, np.arange(150) % 3)
    with pytest.raises(ValueError, match="3 classes"):
        summarize(several, X, np.arange(150) % 3)
    apart = np.where(y > 0.5, 1.0, -1.0)[:, None] + 0.1 * rng.normal(size=(150, 1))
    with pytest.raises(ValueError, match="separate the classes"):
        summarize(LogisticRegression(C=np.inf).fit(apart, y), apart, y)


def test_a_fit_that_ended_early_and_other_rows_are_told_of():
    X, y, _, _ = rows("poisson")
    X = X - [3.0, 1000.0, 0.0]
    model = PoissonRegressor(alpha=0, tol=0.5).fit(X, y)
    with pytest.warns(ConvergenceWarning, match="standard errors from the optimum"):
        summarize(model, X, y)
    with pytest.warns(ConvergenceWarning, match="pass the X, y"):
        summarize(LinearRegression().fit(X[:75], y[:75]), X[75:], y[75:])


def test_log_gamma_is_that_of_scipy():
    from scipy.special import gammaln

    x = np.concatenate([np.logspace(-8, 8, 200), [1.0, 2.0]])
    np.testing.assert_allclose(log_gamma(x, np), gammaln(x), rtol=1e-13, atol=1e-14)


def test_exact_fits_have_no_errors(rng):
    X = rng.normal(size=(20, 2))
    y = X @ [1.0, 2.0] + 3.0
    found = summarize(LinearRegression().fit(X, y), X, y)
    assert (found.std_error < 1e-12).all()
    assert (found.p_value < 1e-12).all()
