"""Dask DataFrames with categories go into searches over tables, whatever is known of these."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from gpuml.compose import ColumnTransformer
from gpuml.impute import SimpleImputer
from gpuml.linear_model import Ridge
from gpuml.model_selection import GridSearchCV as SearchHere
from gpuml.pipeline import make_pipeline
from gpuml.preprocessing import OneHotEncoder, StandardScaler
from gpuml_dask.model_selection import GridSearchCV
from gpuml_dask.predict import predict, transform

dd = pytest.importorskip("dask.dataframe")
N = 120


def frame():
    """Numbers with holes, categories of which none is in all partitions, and text."""
    random = np.random.default_rng(0)
    X = pd.DataFrame({"x": random.normal(size=N), "z": random.normal(size=N)})
    X.loc[::7, "z"] = np.nan
    X["kind"] = pd.Categorical(np.sort(np.asarray(list("abcd"))[random.integers(0, 4, N)]))
    X["name"] = np.asarray(["u", "v", np.nan], dtype=object)[random.integers(0, 3, N)]
    return X, X["x"] + (X["kind"] == "a").astype(float) + random.normal(size=N)


def search_of(kind, **options):
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    levels = OneHotEncoder(handle_unknown="ignore")
    columns = ColumnTransformer([("n", numbers, ["x", "z"]), ("l", levels, ["kind", "name"])])
    pipe = make_pipeline(columns, Ridge())
    grid = {
        "ridge__alpha": [0.1, 1.0],
        "columntransformer__n__simpleimputer__strategy": ["mean", "median"],
    }
    return kind(pipe, grid, cv=3, **options)


def own_categories(part):
    return part.assign(kind=part["kind"].astype(object).astype("category"))


FRAMES = {
    "known": lambda X: X,
    "unknown": lambda X: X.assign(kind=X["kind"].cat.as_unknown()),
    "others in each partition": lambda X: X.map_partitions(own_categories),
    "categories of strings": lambda X: X.assign(name=X["name"].astype("category")),
    "empty partitions": lambda X: dd.concat([X[X["x"] > 1e9], X]),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_searches_over_frames_with_categories(kind, client):
    X, y = frame()
    lazy = FRAMES[kind](dd.from_pandas(X, npartitions=3))
    here = search_of(SearchHere).fit(X, y)
    there = search_of(GridSearchCV, client=client).fit(lazy, dd.from_pandas(y, npartitions=3))
    assert "all candidates together" in str(there.plan_)
    found, expected = (each.cv_results_["mean_test_score"] for each in (there, here))
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    best = clone(here.best_estimator_).fit(X, y)
    np.testing.assert_allclose(predict(there.best_estimator_, lazy).compute(), best.predict(X))
    images = transform(there.best_estimator_[0], lazy).compute()
    np.testing.assert_allclose(images, best[0].transform(X), atol=1e-12)
