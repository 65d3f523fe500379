"""Banded ridge is ridge regression of scaled features, and its choice is that of all scores."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import Ridge as SklearnRidge
from sklearn.linear_model import RidgeCV as SklearnRidgeCV
from sklearn.metrics import mean_squared_error, r2_score
from sklearn.model_selection import KFold, LeaveOneOut

import gpuml
from gpuml.linear_model import BandedRidge, BandedRidgeCV
from gpuml.model_selection import GridSearchCV
from gpuml.pipeline import make_pipeline
from gpuml.preprocessing import StandardScaler
from gpuml.solvers import Status
from gpuml.testing import array_libraries

GROUPS = np.asarray([0, 2, 1])
PENALTIES = np.asarray([0.1, 10.0, 300.0])
ALPHAS = [0.1, 1.0, 10.0, 100.0]
# More rows than features, and fewer: moments and kernels. So few features of so many rows have
# group kernels, the others have not.
SHAPES = [(60, 6), (24, 30), (10, 90)]


def problem(n, p, n_targets=3, seed=0):
    """Features of different scales and means, their groups, targets, and weights, some of them 0."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, p)) * random.uniform(0.1, 10.0, size=p) + 3.0
    y = X[:, :3] @ random.normal(size=(3, n_targets)) + random.normal(size=(n, n_targets)) + 5.0
    return X, np.resize(GROUPS, p), y, random.integers(0, 3, size=n) + np.eye(n)[0]


def of_scaled_features(X, y, scale, alpha=1.0, fit_intercept=True, weight=None):
    """Coefficients, intercept, and predictions, of scikit-learn's ridge of scaled features."""
    model = SklearnRidge(alpha=alpha, fit_intercept=fit_intercept, solver="svd")
    model.fit(X * scale, y, sample_weight=weight)
    return model.coef_ * scale, model.intercept_, lambda Z: model.predict(Z * scale)


@pytest.mark.parametrize("library", array_libraries())
@pytest.mark.parametrize(
    ("shape", "fit_intercept"), list(zip(SHAPES, (True, False, True), strict=True))
)
def test_it_is_ridge_regression_of_features_divided_by_roots(library, shape, fit_intercept):
    X, groups, y, weight = problem(*shape)
    model = BandedRidge(PENALTIES, groups=groups, fit_intercept=fit_intercept)
    model.fit(*map(library.asarray, (X, y, weight)))
    scale = 1.0 / np.sqrt(PENALTIES[groups])
    coef, intercept, _ = of_scaled_features(X, y, scale, 1.0, fit_intercept, weight)
    found = library.to_numpy(model.coef_)
    np.testing.assert_allclose(found, coef, atol=1e-8 * np.abs(coef).max())
    np.testing.assert_allclose(library.to_numpy(model.intercept_), intercept, atol=1e-8)
    assert type(model.coef_) is type(library.asarray(X))
    assert list(model.groups_) == [0, 1, 2]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_each_target_has_penalties_of_its_own(shape, fit_intercept):
    X, groups, y, weight = problem(*shape)
    each = np.stack([PENALTIES, PENALTIES[::-1], PENALTIES])
    model = BandedRidge(each, groups=groups, fit_intercept=fit_intercept).fit(X, y, weight)
    for k, own in enumerate(each):
        alone = BandedRidge(own, groups=groups, fit_intercept=fit_intercept)
        alone.fit(X, y[:, k], weight)
        np.testing.assert_allclose(model.coef_[k], alone.coef_, rtol=1e-9, atol=1e-12)
        intercept = np.broadcast_to(model.intercept_, 3)[k]
        np.testing.assert_allclose(intercept, alone.intercept_, rtol=1e-9)


@pytest.mark.parametrize("shape", SHAPES)
def test_no_penalty_leaves_no_slope_and_an_infinite_one_no_coefficient(shape):
    X, groups, y, _ = problem(*shape)
    free = np.where(groups == 0, np.cumsum(groups == 0) <= 3, False)
    groups = np.where(groups == 1, 2, np.where(free, 0, 1))
    model = BandedRidge([0.0, 1.0, np.inf], groups=groups).fit(X, y)
    assert (model.coef_[:, groups == 2] == 0).all()
    slope = (y - model.predict(X)).T @ (X - X.mean(axis=0))
    size = np.abs(y.T) @ np.abs(X)
    np.testing.assert_allclose(slope[:, groups == 0] / size[:, groups == 0], 0.0, atol=1e-9)
    own = slope[:, groups == 1]
    np.testing.assert_allclose(own, model.coef_[:, groups == 1], atol=1e-9 * size.max())


def test_where_moments_are_too_coarse_the_rows_are_asked():
    X, groups, y, _ = problem(60, 6)
    X[:, 1], groups = X[:, 0] * (1 + 1e-10 * np.arange(60)), np.asarray([0, 0, 1, 1, 1, 2])
    model = BandedRidge([0.0, 1.0, np.inf], groups=groups).fit(X, y)
    assert model.status_ is Status.MINIMUM_NORM  # the last group is left out
    centred = np.vstack([(X - X.mean(axis=0))[:, :5], np.diag([0.0, 0.0, 1.0, 1.0, 1.0])])
    target = np.vstack([y - y.mean(axis=0), np.zeros((5, 3))])
    exact = np.linalg.lstsq(centred, target, rcond=None)[0]
    np.testing.assert_allclose(
        (X - X.mean(axis=0)) @ model.coef_.T, centred[:60] @ exact, atol=1e-6
    )


@pytest.mark.parametrize("shape", SHAPES)
def test_a_weight_is_a_repetition(shape):
    X, groups, y, _ = problem(*shape)
    weight = np.random.default_rng(1).integers(0, 4, size=len(X))
    model = BandedRidge(PENALTIES, groups=groups)
    weighted = model.fit(X, y, sample_weight=weight).coef_
    repeated = model.fit(np.repeat(X, weight, axis=0), np.repeat(y, weight, axis=0)).coef_
    np.testing.assert_allclose(weighted, repeated, rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("scaled", [False, True])
def test_a_search_over_penalties_is_fits_one_by_one(shape, scaled):
    X, groups, y, _ = problem(*shape)
    grid = [PENALTIES, PENALTIES[::-1], np.stack([PENALTIES, PENALTIES, 7 * PENALTIES]), 1.0]
    model, name = BandedRidge(groups=groups), "alpha"
    if scaled:
        model, name = make_pipeline(StandardScaler(), model), "bandedridge__alpha"
    search = GridSearchCV(model, {name: grid}, cv=3).fit(X, y)
    if not scaled or shape[0] > shape[1]:
        assert search.plan_.n_passes == 1
    for i, alpha in enumerate(grid):
        for s, (train, test) in enumerate(KFold(3).split(X)):
            alone = gpuml.linear_model.BandedRidge(alpha, groups=groups)
            if scaled:
                alone = make_pipeline(StandardScaler(), alone)
            score = r2_score(y[test], alone.fit(X[train], y[train]).predict(X[test]))
            np.testing.assert_allclose(
                search.cv_results_[f"split{s}_test_score"][i], score, rtol=1e-8, atol=1e-9
            )


@pytest.mark.parametrize("shape", [(60, 6), (24, 30)])
def test_what_a_split_holds_out_does_not_matter_to_its_models(shape):
    X, groups, y, _ = problem(*shape)
    wild = X.copy()
    wild[: len(X) // 3] *= 1e15
    train = np.arange(len(X) // 3, len(X))
    model = BandedRidge(groups=groups)
    batch = model.multifit_batch(wild, y)
    folds = gpuml.resampling.atoms.folds_of(KFold(3), batch, wild, y)
    found = model.multifit(folds, [{"alpha": PENALTIES}]).pick(0, 0)
    alone = BandedRidge(PENALTIES, groups=groups).fit(X[train], y[train])
    np.testing.assert_allclose(found["coef_"], alone.coef_, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(found["intercept_"], alone.intercept_, rtol=1e-9)


# ---------------------------------------------------------------- chosen penalties


def table(X, y, groups, shares, cv, scoring, fit_intercept, weight):
    """Mean scores (N, A, t) of all shares, alphas and targets, by scikit-learn."""
    metric, sign = {"r2": (r2_score, 1.0), "neg_mean_squared_error": (mean_squared_error, -1.0)}[
        scoring
    ]
    weight = np.ones(len(X)) if weight is None else weight
    scores = np.zeros((len(shares), len(ALPHAS), y.shape[1]))
    for i, share in enumerate(shares):
        for j, alpha in enumerate(ALPHAS):
            for train, test in cv.split(X):
                _, _, predict = of_scaled_features(
                    X[train], y[train], np.sqrt(share)[groups], alpha, fit_intercept, weight[train]
                )
                found = np.reshape(predict(X[test]), (len(test), -1))
                scores[i, j] += sign * metric(
                    y[test], found, sample_weight=weight[test], multioutput="raw_values"
                )
    return scores / cv.get_n_splits()


@pytest.mark.parametrize(
    ("shape", "scoring", "fit_intercept", "weighted"),
    [
        ((60, 6), "r2", True, True),
        ((60, 6), "neg_mean_squared_error", False, False),
        ((24, 30), "r2", False, False),
        ((10, 90), "neg_mean_squared_error", True, True),
    ],
)
def test_each_target_takes_the_best_of_all_scores(shape, scoring, fit_intercept, weighted):
    X, groups, y, weight = problem(*shape)
    weight = weight + 0.1 if weighted else None
    params = {
        "groups": groups,
        "n_iter": 4,
        "cv": KFold(3),
        "scoring": scoring,
        "fit_intercept": fit_intercept,
        "random_state": 0,
    }
    model = BandedRidgeCV(ALPHAS, **params).fit(X, y, weight)
    np.testing.assert_allclose(model.shares_.sum(axis=1), 1.0)
    assert (model.shares_[0] == model.shares_[0, 0]).all()
    scores = table(X, y, groups, model.shares_, KFold(3), scoring, fit_intercept, weight)
    np.testing.assert_allclose(model.cv_scores_, scores.max(axis=1), rtol=1e-8, atol=1e-8)
    flat = scores.reshape(-1, y.shape[1])
    np.testing.assert_allclose(model.best_score_, flat.max(axis=0), rtol=1e-8, atol=1e-8)
    share, alpha = np.divmod(flat.argmax(axis=0), len(ALPHAS))
    chosen = np.asarray(ALPHAS)[alpha][:, None] / model.shares_[share]
    np.testing.assert_allclose(model.alpha_, chosen, rtol=1e-12)
    fitted = BandedRidge(model.alpha_, groups=groups, fit_intercept=fit_intercept)
    np.testing.assert_allclose(model.coef_, fitted.fit(X, y, weight).coef_, rtol=1e-9, atol=1e-12)

    together = BandedRidgeCV(ALPHAS, **params, alpha_per_target=False).fit(X, y, weight)
    np.testing.assert_allclose(together.best_score_, scores.mean(axis=-1).max(), rtol=1e-8)
    assert together.alpha_.shape == (3,)


@pytest.mark.parametrize("shape", [(60, 6), (24, 30)])
def test_of_one_group_and_one_target_it_is_ridge_cv(shape):
    X, _, y, _ = problem(*shape)
    ours = BandedRidgeCV(ALPHAS, cv=3).fit(X, y[:, 0])
    theirs = SklearnRidgeCV(ALPHAS, cv=3).fit(X, y[:, 0])
    assert ours.alpha_.tolist() == [theirs.alpha_]
    assert ours.best_score_ == pytest.approx(theirs.best_score_, rel=1e-9)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("library", array_libraries())
@pytest.mark.parametrize("shape", [(60, 6), (24, 30)])
def test_the_choice_is_the_same_in_every_library(library, shape):
    X, groups, y, _ = problem(*shape)
    model = BandedRidgeCV(ALPHAS, groups=groups, n_iter=3, random_state=0)
    expected = model.fit(X, y).coef_
    found = model.fit(library.asarray(X), library.asarray(y))
    np.testing.assert_allclose(library.to_numpy(found.coef_), expected, rtol=1e-8, atol=1e-10)


def test_a_split_of_one_row_has_no_r2():
    X, _, y, _ = problem(12, 3)
    with pytest.raises(ValueError, match=r"R\^2 is not defined if a split holds out only one row"):
        BandedRidgeCV(cv=LeaveOneOut()).fit(X, y)
    model = BandedRidgeCV(cv=LeaveOneOut(), scoring="neg_mean_squared_error").fit(X, y)
    assert (model.best_score_ < 0).all()


@pytest.mark.parametrize(
    ("model", "error", "words"),
    [
        (BandedRidge([1.0, 2.0]), ValueError, r"of shape \(1,\) or \(3, 1\), for 1 groups"),
        (BandedRidge(groups=[0, 1]), ValueError, "the group of each of 6 features"),
        (BandedRidge([-1.0]), ValueError, "alpha must be >= 0"),
        (BandedRidge([np.nan]), ValueError, "alpha must be >= 0"),
        (BandedRidgeCV([0.0, 1.0]), ValueError, r"alphas\[0\]"),
        (BandedRidgeCV(scoring="accuracy"), ValueError, "scoring"),
        (BandedRidgeCV(concentration=[1.0, 0.0], groups=GROUPS.repeat(2)), ValueError, "concentr"),
    ],
    ids=str,
)
def test_wrong_parameters_are_named(model, error, words):
    X, _, y, _ = problem(20, 6)
    with pytest.raises(error, match=words):
        model.fit(X, y)


@pytest.mark.parametrize("model", [BandedRidge(), BandedRidgeCV()], ids=str)
def test_sparse_rows_are_refused(model):
    X, _, y, _ = problem(20, 6)
    with pytest.raises(TypeError, match="dense data is required"):
        model.fit(sparse.csr_array(X), y)


@pytest.mark.parametrize("n_features", [6, 30])
def test_a_split_without_weight_is_told_of(n_features):
    X, _, y, _ = problem(20, n_features)
    with pytest.raises(ValueError, match="held-out part of a split sum to zero"):
        BandedRidgeCV(cv=4).fit(X, y, np.arange(20) >= 5)
