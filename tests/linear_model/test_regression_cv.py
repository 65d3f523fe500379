"""RidgeCV, LassoCV and ElasticNetCV against scikit-learn and against brute force."""

import numpy as np
import pytest
import sklearn.linear_model as sk
from scipy import sparse
from sklearn.model_selection import KFold, LeaveOneOut, cross_val_predict

from gpuml.linear_model import ElasticNetCV, LassoCV, RidgeCV

EXACT = {"tol": 1e-13, "max_iter": 1_000_000}


def problem(rng, n=60, p=6, t=None):
    X = rng.normal(2, 1, size=(n, p))
    y = X[:, :3] @ rng.normal(size=(3,) if t is None else (3, t))
    return X, y + rng.normal(size=y.shape), rng.uniform(0.1, 2, size=n)


def fit_both(library, ours, theirs, X, y, w):
    ours.fit(*(None if a is None else library.asarray(a) for a in (X, y)), **_weight(library, w))
    return theirs.fit(X, y, sample_weight=w)


def _weight(library, w):
    return {} if w is None else {"sample_weight": library.asarray(w)}


def same(library, ours, theirs, names, rtol=1e-8):
    for name in names:
        a, b = library.to_numpy(getattr(ours, name)), np.asarray(getattr(theirs, name))
        assert a.shape == b.shape, name
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * np.abs(b).max(), err_msg=name)


RIDGE = [
    {},
    {"fit_intercept": False},
    {"alphas": [1e-2, 1.0, 100.0], "store_cv_results": True},
    {"scoring": "r2", "store_cv_results": True},
    {"scoring": "neg_mean_absolute_error"},
    {"alpha_per_target": True},
    {"cv": 4},
    {"cv": KFold(3, shuffle=True, random_state=0), "scoring": "neg_mean_absolute_error"},
]


@pytest.mark.pairwise
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("shape", [(60, 6, None), (60, 6, 3), (20, 40, None), (20, 40, 2)])
@pytest.mark.parametrize("params", RIDGE, ids=str)
def test_ridge_agrees_with_sklearn(library, rng, weighted, shape, params):
    X, y, w = problem(rng, *shape)
    ours, theirs = RidgeCV(**params), sk.RidgeCV(**params)
    fit_both(library, ours, theirs, X, y, w if weighted else None)
    names = ["coef_", "intercept_", "alpha_", "best_score_"]
    same(library, ours, theirs, names + ["cv_results_"] * ("store_cv_results" in params))


@pytest.mark.parametrize("p", [6, 80])
def test_ridge_residuals_are_those_of_leaving_rows_out(library, rng, p):
    X, y, _ = problem(rng, p=p)
    model = RidgeCV(alphas=[0.5], store_cv_results=True)
    model.fit(library.asarray(X), library.asarray(y))
    left_out = cross_val_predict(sk.Ridge(0.5, solver="svd"), X, y, cv=LeaveOneOut())
    squares = library.to_numpy(model.cv_results_)[:, 0]
    np.testing.assert_allclose(squares, (y - left_out) ** 2, rtol=1e-7, atol=1e-10)


def test_ridge_alpha_per_target_with_scoring(library, rng):
    X, y, w = problem(rng, t=3)
    params = {"alpha_per_target": True, "scoring": "r2"}
    ours, theirs = RidgeCV(**params), sk.RidgeCV(**params)
    fit_both(library, ours, theirs, X, y, w)
    same(library, ours, theirs, ["coef_", "intercept_", "alpha_", "best_score_"])


def test_ridge_what_sklearn_does_on_host_data(rng):
    X, y, _ = problem(rng)

    def scorer(estimator, X, y):
        return -np.abs(y - estimator.predict(X)).max()

    for params, data in (
        ({}, sparse.csr_matrix(X)),
        ({"gcv_mode": "svd"}, X),
        ({"scoring": scorer}, X),
        ({"scoring": scorer, "cv": 3}, X),
    ):
        ours, theirs = RidgeCV(**params).fit(data, y), sk.RidgeCV(**params).fit(data, y)
        np.testing.assert_allclose(ours.coef_, theirs.coef_)
        assert ours.alpha_ == theirs.alpha_


def test_what_sklearn_does_needs_host_data(library, rng):
    if library.name.startswith("numpy"):
        pytest.skip("host data")
    X, y, _ = problem(rng)
    for model in (
        RidgeCV(gcv_mode="svd"),
        LassoCV(positive=True),
        ElasticNetCV(selection="random"),
    ):
        with pytest.raises(ValueError, match="needs data in CPU memory"):
            model.fit(library.asarray(X), library.asarray(y))


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"alphas": [0.0, 1.0]}, "alphas"),
        ({"alphas": [-1.0], "cv": 3}, "alphas"),
        ({"cv": 3, "store_cv_results": True}, "incompatible"),
        ({"cv": 3, "alpha_per_target": True}, "incompatible"),
        ({"scoring": "magic"}, "scoring"),
    ],
)
def test_ridge_refuses(library, rng, params, text):
    X, y, _ = problem(rng)
    with pytest.raises(ValueError, match=text):
        RidgeCV(**params).fit(library.asarray(X), library.asarray(y))


SPARSE = [
    (LassoCV, sk.LassoCV, {"alphas": 20}),
    (LassoCV, sk.LassoCV, {"alphas": [0.1, 1.0, 0.01], "cv": 3}),
    (ElasticNetCV, sk.ElasticNetCV, {"alphas": 10, "eps": 1e-2}),
    (ElasticNetCV, sk.ElasticNetCV, {"l1_ratio": [0.5, 1.0], "alphas": 7, "cv": 3}),
    (
        ElasticNetCV,
        sk.ElasticNetCV,
        {"l1_ratio": [0.5, 0.9], "alphas": [1.0, 0.1], "fit_intercept": False},
    ),
]


@pytest.mark.pairwise
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("case", SPARSE, ids=str)
def test_sparse_agrees_with_sklearn(library, rng, weighted, case):
    kind, their_kind, params = case
    X, y, w = problem(rng)
    ours, theirs = kind(**params), their_kind(**params, **EXACT)
    fit_both(library, ours, theirs, X, y, w if weighted else None)
    names = ["coef_", "intercept_", "alpha_", "alphas_", "mse_path_"]
    same(library, ours, theirs, names + ["l1_ratio_"] * hasattr(theirs, "l1_ratio_"), 1e-6)
    assert np.shape(ours.dual_gap_) == np.shape(theirs.dual_gap_)
    assert isinstance(ours.n_iter_, int)


def test_sparse_with_many_features(library, rng):
    X, _, _ = problem(rng, p=1500)
    y = X[:, :3] @ [3.0, -2.0, 1.0] + rng.normal(size=60)
    ours, theirs = LassoCV(alphas=5, eps=0.2, cv=3), sk.LassoCV(alphas=5, eps=0.2, cv=3, **EXACT)
    fit_both(library, ours, theirs, X, y, None)
    same(library, ours, theirs, ["coef_", "alpha_", "alphas_", "mse_path_"], 1e-6)


def test_sparse_what_sklearn_does_on_host_data(rng):
    X, y, _ = problem(rng)
    for params, data in (({}, sparse.csr_matrix(X)), ({"positive": True}, X)):
        ours = LassoCV(alphas=5, **params).fit(data, y)
        theirs = sk.LassoCV(alphas=5, **params).fit(data, y)
        np.testing.assert_allclose(ours.coef_, theirs.coef_)


def test_sparse_refuses(library, rng):
    X, y, _ = problem(rng, t=2)
    X, y = library.asarray(X), library.asarray(y)
    with pytest.raises(ValueError, match="MultiTaskLassoCV"):
        LassoCV().fit(X, y)
    with pytest.raises(ValueError, match="l1_ratio=0"):
        ElasticNetCV(l1_ratio=0).fit(X, y[:, 0])
    with pytest.raises(ValueError, match="alphas"):
        LassoCV(alphas=[-1.0]).fit(X, y[:, 0])


def test_constant_target_has_a_grid(library, rng):
    X, _, _ = problem(rng)
    model = LassoCV(alphas=3).fit(library.asarray(X), library.asarray(np.full(60, 4.0)))
    assert not library.to_numpy(model.coef_).any()
    assert float(model.intercept_) == 4.0


@pytest.mark.parametrize(
    ("model", "error", "match"),
    [
        (LassoCV(alphas=[]), ValueError, "alphas must hold at least one number"),
        (LassoCV(alphas=[1.0, "2"]), TypeError, r"alphas\[1\] must be an instance of float"),
        (LassoCV(alphas={1.0, 2.0}), TypeError, "not set"),
        (LassoCV(alphas=[1, -1]), ValueError, r"alphas\[1\] == -1, must be >= 0.0"),
        (LassoCV(alphas=[1.0, np.nan]), ValueError, r"alphas\[1\] == nan"),
        (LassoCV(alphas=[[1.0, 2.0]]), TypeError, "not list"),
        (ElasticNetCV(l1_ratio=[]), ValueError, "l1_ratio must hold at least one number"),
        (ElasticNetCV(l1_ratio=[0.5, None]), TypeError, r"l1_ratio\[1\]"),
        (ElasticNetCV(l1_ratio=["a"]), TypeError, "l1_ratio must be an instance of float"),
        (ElasticNetCV(l1_ratio=[0.5, 1.1]), ValueError, r"l1_ratio\[1\] == 1.1"),
        (ElasticNetCV(l1_ratio=0), ValueError, "Automatic alpha grid generation is not supported"),
        (RidgeCV(alphas=[]), ValueError, "alphas must hold at least one number"),
        (RidgeCV(alphas=(1, 1.0, "1")), TypeError, r"alphas\[2\] must be .* float, not str"),
        (RidgeCV(alphas=(1, -1)), ValueError, r"alphas\[1\] == -1, must be > 0.0"),
        (RidgeCV(alphas=[0.0]), ValueError, "alphas == 0.0, must be > 0.0"),
        (RidgeCV(alphas=[1.0, -1.0], cv=3), ValueError, "must be >= 0.0"),
    ],
    ids=str,
)
def test_grids_that_are_none(rng, model, error, match):
    X, y, _ = problem(rng)
    with pytest.raises(error, match=match):
        model.fit(X, y)
    assert not hasattr(model, "coef_")


@pytest.mark.parametrize("kind", [LassoCV, ElasticNetCV, RidgeCV])
@pytest.mark.parametrize(
    ("cv", "match"),
    [
        ([], "No fits were performed"),
        ([([], [1, 2])], "training part of split 0"),
        ([([0, 1, 2], [3]), ([1, 2], [])], "held-out part of split 1"),
    ],
    ids=str,
)
def test_splits_without_rows(rng, kind, cv, match):
    X, y, _ = problem(rng)
    with pytest.raises(ValueError, match=match):
        kind(cv=cv).fit(X, y)


@pytest.mark.each
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("rows", [slice(0, 12), slice(12, 60)])
def test_folds_without_weight(library, rng, rows):
    X, y, w = problem(rng)
    w[rows] = 0
    X, y, w = (library.asarray(a) for a in (X, y, w))
    for model in (LassoCV(), ElasticNetCV(l1_ratio=[0.5, 1.0])):
        with pytest.raises(ValueError, match="split 0 of cv sum to zero"):
            model.fit(X, y, sample_weight=w)
    with pytest.warns(UserWarning, match="test scores are non-finite"):
        RidgeCV(cv=5, scoring="neg_mean_squared_error").fit(X, y, sample_weight=w)
    for scoring in (None, "neg_median_absolute_error"):
        with pytest.warns(UserWarning, match="test scores are non-finite"):
            model = RidgeCV(cv=5, scoring=scoring).fit(X, y, sample_weight=w)
        assert np.isnan(model.best_score_)


def test_types_that_are_no_targets(rng):
    X, y, _ = problem(rng)
    for bad in (sparse.csr_matrix(y[:, None]), {"a": 1}, 1.0):
        for ours, theirs in ((LassoCV(), sk.LassoCV()), (ElasticNetCV(), sk.ElasticNetCV())):
            for model in (ours, theirs):
                with pytest.raises(TypeError):
                    model.fit(X, bad)


def test_strings_of_numbers_are_numbers(rng):
    X, y, _ = problem(rng)
    ours, theirs = (kind(alphas=5).fit(X.astype(str), y) for kind in (LassoCV, sk.LassoCV))
    np.testing.assert_allclose(ours.alphas_, theirs.alphas_)
