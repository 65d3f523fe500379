"""Searches over columns of an array go at once where the array is, categories as codes there."""

import warnings

import numpy as np
import pytest
from sklearn import preprocessing as sk_preprocessing
from sklearn.model_selection import KFold

from gpuml._arrays import place_of
from gpuml.compose import ColumnTransformer
from gpuml.decomposition import PCA
from gpuml.impute import SimpleImputer
from gpuml.linear_model import LogisticRegression, PoissonRegressor, Ridge
from gpuml.model_selection import GridSearchCV
from gpuml.pipeline import make_pipeline
from gpuml.preprocessing import (
    KBinsDiscretizer,
    OneHotEncoder,
    OrdinalEncoder,
    StandardScaler,
    TargetEncoder,
)
from gpuml.testing import count_transfers

N = 240
DENSE = {"handle_unknown": "ignore", "sparse_output": False}
KNOWN = {"handle_unknown": "use_encoded_value", "unknown_value": -1, "encoded_missing_value": -3}
FILLS = {"columntransformer__n__simpleimputer__strategy": ["mean", "median", "most_frequent"]}
COUNTS = {"columntransformer__l__min_frequency": [None, 30]}
LEVELS = {
    "one-hot": (OneHotEncoder(**DENSE), FILLS),
    "rare together": (OneHotEncoder(**DENSE), COUNTS),
    "dropped": (OneHotEncoder(**DENSE | {"drop": "first"}), {}),
    "numbered": (OrdinalEncoder(**KNOWN), {}),
    "means": (TargetEncoder(cv=KFold(3)), {"columntransformer__l__smooth": ["auto", 3.0]}),
    "filled": (make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(**DENSE)), {}),
}
MODELS = {
    "ridge": (Ridge(), {"ridge__alpha": [0.1, 1.0]}),
    "logistic": (LogisticRegression(tol=1e-9, max_iter=500), {"logisticregression__C": [0.1, 1.0]}),
    "counts": (PoissonRegressor(tol=1e-9, max_iter=500), {"poissonregressor__alpha": [0.1, 1.0]}),
}


def table(n=N, n_levels=5, seed=0):
    """Numbers and codes, both with holes; numbers, classes and counts that depend on them."""
    random = np.random.default_rng(seed)
    X = np.stack(
        [
            random.normal(size=n),
            5 + random.normal(size=n).round(1),
            random.integers(0, n_levels, n),
            random.integers(10, 13, n),
        ],
        axis=1,
    )
    y = X[:, 0] + (X[:, 2] == 2) + random.normal(size=n)
    X[::7, 1] = X[::11, 3] = np.nan
    return X, {"ridge": y, "logistic": (y > 0).astype(int), "counts": np.floor(np.exp(y / 2))}


def search_of(levels, name, grid, *behind, **options):
    numbers = make_pipeline(SimpleImputer(add_indicator=True), StandardScaler())
    entries = [("n", numbers, [0, 1]), ("l", levels, [2, 3])]
    model, penalties = MODELS[name]
    columns = ColumnTransformer(entries, sparse_threshold=0)
    return GridSearchCV(make_pipeline(columns, *behind, model), grid | penalties, cv=3, **options)


@pytest.mark.pairwise
@pytest.mark.parametrize("levels", LEVELS)
@pytest.mark.parametrize("name", MODELS)
def test_scores_and_models_are_those_of_rows_in_cpu_memory(levels, name, library):
    encoder, grid = LEVELS[levels]
    X, targets = table()
    y = targets[name]
    # Accuracies of candidates tie, and rounding decides which of them is the best.
    scoring = "neg_log_loss" if name == "logistic" else None
    here = search_of(encoder, name, grid, scoring=scoring).fit(X, y)
    rows = library.asarray(X)
    there = search_of(encoder, name, grid, scoring=scoring).fit(rows, library.asarray(y))
    assert "all candidates together" in str(there.plan_)
    scores = there.cv_results_["mean_test_score"]
    np.testing.assert_allclose(scores, here.cv_results_["mean_test_score"], rtol=1e-6)
    best, found = here.best_estimator_[-1].coef_, there.best_estimator_[-1].coef_
    assert place_of(found) == place_of(rows)
    np.testing.assert_allclose(library.to_numpy(found), best, rtol=1e-5, atol=1e-6)
    predicted = there.predict(rows)
    assert place_of(predicted) == place_of(rows)
    np.testing.assert_allclose(library.to_numpy(predicted), here.predict(X), rtol=1e-5)


def test_steps_behind_columns_of_an_array(library):
    X, targets = table()
    scores = []
    for convert in (np.asarray, library.asarray):
        search = search_of(LEVELS["one-hot"][0], "ridge", {}, StandardScaler(), PCA(3))
        search.fit(convert(X), convert(targets["ridge"]))
        assert "all candidates together" in str(search.plan_)
        scores.append(search.cv_results_["mean_test_score"])
    np.testing.assert_allclose(*scores, rtol=1e-8)


@pytest.mark.parametrize("name", ["ridge", "logistic"])
def test_many_levels(name, library, monkeypatch):
    monkeypatch.setattr("gpuml.compose._apart.MOST_LEVELS", 12)
    X, targets = table(n_levels=40)
    scores = []
    for convert in (np.asarray, library.asarray):
        search = search_of(LEVELS["one-hot"][0], name, {})
        search.fit(convert(X), convert(targets[name]))
        assert "all candidates together" in str(search.plan_)
        scores.append(search.cv_results_["mean_test_score"])
    np.testing.assert_allclose(*scores, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["bool", "int64", "float32"])
def test_columns_of_any_numbers(dtype, library):
    random = np.random.default_rng(0)
    X = random.integers(0, 2 if dtype == "bool" else 5, (N, 4)).astype(dtype)
    y = X[:, 2] + random.normal(size=N)
    scores = []
    for convert in (np.asarray, library.asarray):
        search = search_of(LEVELS["one-hot"][0], "ridge", {})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # imputers of some dtypes
            search.set_params(estimator__columntransformer__n="passthrough")
            search.fit(convert(X), convert(y))
        scores.append(search.cv_results_["mean_test_score"])
    np.testing.assert_allclose(*scores, rtol=1e-6)


@pytest.mark.gpu
def test_rows_stay_on_the_gpu():
    cupy = pytest.importorskip("cupy")
    X, targets = table(200_000)  # sums of some hundred kilobytes come down whatever the rows
    search = search_of(OneHotEncoder(handle_unknown="ignore"), "logistic", {})
    there = cupy.asarray(X), cupy.asarray(targets["logistic"])
    search.fit(*there)
    with count_transfers() as moved:
        search.fit(*there)
    assert "all candidates together" in str(search.plan_)
    assert moved.to_host < X.nbytes / 10


REFUSED = {
    "OneHotEncoder is scikit-learn's; use gpuml's": sk_preprocessing.OneHotEncoder(**DENSE),
    "KBinsDiscretizer is fitted to rows in CPU memory": make_pipeline(
        SimpleImputer(), KBinsDiscretizer(3, encode="onehot-dense", strategy="quantile")
    ),
}


@pytest.mark.parametrize("words", REFUSED)
def test_the_plan_says_what_is_fitted_in_cpu_memory(words):
    torch = pytest.importorskip("torch")
    X, targets = table()
    search = search_of(REFUSED[words], "ridge", {})
    assert words in str(search.explain(torch.asarray(X), torch.asarray(targets["ridge"])))
