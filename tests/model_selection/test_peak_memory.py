"""What a fit or a search takes beside the rows: docs/numerics.md has the formula of each route."""

import tracemalloc
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder

from gpuml._arrays.threads import blas_threads
from gpuml.compose import ColumnTransformer
from gpuml.decomposition import PCA
from gpuml.linear_model import Lasso, LogisticRegression, Ridge
from gpuml.model_selection import GridSearchCV
from gpuml.pipeline import make_pipeline
from gpuml.preprocessing import StandardScaler

# Of the rows themselves, what is held beside them and the formula.
MOST = 0.3
FOLDS, ALPHAS = 5, [0.1, 1.0, 10.0, 100.0]
MIB = 2**20
# Matrices of the features for each split, by what is the most of its steps; others take 3.
MATRICES = {"scaler": 7, "pca": 12, "lasso": 6}


def pipelines():
    """Name, estimator and what is searched."""
    ridge, logistic = {"ridge__alpha": ALPHAS}, {"logisticregression__C": ALPHAS}
    yield "ridge", Ridge(), {"alpha": ALPHAS}
    yield "lasso", Lasso(), {"alpha": [0.1, 1.0]}
    yield "logistic", LogisticRegression(), {"C": ALPHAS}
    yield "scaler ridge", make_pipeline(StandardScaler(), Ridge()), ridge
    yield "scaler logistic", make_pipeline(StandardScaler(), LogisticRegression()), logistic
    yield "scaler pca ridge", make_pipeline(StandardScaler(), PCA(5), Ridge()), ridge
    yield "pca logistic", make_pipeline(PCA(5), LogisticRegression()), logistic
    for name, model in [("ridge", Ridge()), ("lasso", Lasso()), ("logistic", LogisticRegression())]:
        yield f"one {name}", model, None
    yield "one pca", PCA(5), None


PIPELINES = list(pipelines())


def formula(name, n_rows, n_features, n_candidates, n_splits):
    """Bytes beside the rows, as the docs have them."""
    q, wide = n_features + 1, n_features >= n_rows
    n_models = n_candidates * n_splits
    rows, square = 8 * n_rows * n_features, 8 * min(q, n_rows) ** 2
    threads = blas_threads()
    mapped = "scaler" in name or "pca" in name
    each = max([3, *(number for word, number in MATRICES.items() if word in name)])
    if wide:
        copies = n_splits + 4 if mapped else 2
        return copies * rows + 4 * (n_splits + 1) * square + 2 * threads * MIB
    if "logistic" in name:
        vectors = 8 * 48 * n_models * q
        per_row = (24 + 16 * n_candidates) * n_rows
        return rows + 4 * n_models * square + vectors + per_row + 8 * threads * MIB
    return each * (n_splits + 1) * square + 24 * n_rows + 2 * threads * MIB


def taken(fit):
    """Bytes that NumPy and Python take at most meanwhile."""
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        fit()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


@pytest.mark.exhaustive
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("shape", [(20_000, 100), (60_000, 20), (2_000, 400), (300, 2_000)])
@pytest.mark.parametrize(
    ("name", "estimator", "grid"), PIPELINES, ids=[name for name, *_ in PIPELINES]
)
def test_a_fit_takes_no_more_than_the_formula_and_a_part_of_the_rows(
    name, estimator, grid, shape, dtype
):
    rng = np.random.default_rng(0)
    X = rng.normal(size=shape).astype(dtype)
    y = X[:, :5].sum(axis=1) + rng.normal(size=len(X))
    y = (y > 0).astype(int) if "logistic" in name else y.astype(dtype)
    model = estimator if grid is None else GridSearchCV(estimator, grid, cv=FOLDS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X[:50], y[:50])  # what is loaded at the first fit is not counted
        found = taken(lambda: model.fit(X, y))
    n_candidates = 1 if grid is None else len(next(iter(grid.values())))
    n_splits = 1 if grid is None else FOLDS
    assert found <= MOST * X.nbytes + formula(name, *shape, n_candidates, n_splits)


def table(n_rows):
    """Numbers, some with holes, and categories; one of them of many levels."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(n_rows, 8)), columns=list("abcdefgh"))
    X.loc[rng.random(n_rows) < 0.1, ["b", "c"]] = np.nan
    for name, n_levels in (("few", 5), ("some", 60), ("many", 3000)):
        X[name] = rng.integers(0, n_levels, n_rows)
    return X


@pytest.mark.parametrize("name", ["ridge", "logistic"])
@pytest.mark.parametrize("levels", [["few", "some"], ["few", "many"]])
def test_a_search_over_a_table_holds_it_once(name, levels):
    """As float64 numbers, a byte for each hole and one or two for each category."""
    n_rows, n_candidates = 150_000, 2
    X = table(n_rows)
    numbers = Pipeline([("fill", SimpleImputer()), ("scale", StandardScaler())])
    entries = [
        ("x", numbers, list("abcdefgh")),
        ("l", OneHotEncoder(handle_unknown="ignore"), levels),
    ]
    model, grid = (Ridge(), "alpha") if name == "ridge" else (LogisticRegression(), "C")
    steps = Pipeline([("columns", ColumnTransformer(entries)), ("model", model)])
    values = {f"model__{grid}": [0.1, 1.0]}
    search = GridSearchCV(steps, values, cv=FOLDS, refit=False)
    y = (X["a"] + 0.1 * X["few"] > 0).to_numpy().astype(int)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search.fit(X, y)  # what this many rows import and keep is no part of it
        found = taken(lambda: search.fit(X, y))
    n_columns, n_models = 12 + X[levels].nunique().sum(), n_candidates * FOLDS
    if "many" in levels:  # no squares of these
        apart = 8 * 3000 * (FOLDS * 16 + 3 * n_models)
        apart = apart if name == "ridge" else (384 * n_models + 24 * n_candidates * 18) * 3000
        n_columns = 17
    else:
        apart = 0
    beside = formula(name, n_rows, n_columns, n_candidates, FOLDS) + apart
    # No sample of the rows is copied.
    beside -= 8 * n_rows * n_columns if name == "logistic" else 0
    # Objects of Python are no part of the formula.
    assert found <= 1.2 * X.memory_usage(deep=True).sum() + beside + MIB
