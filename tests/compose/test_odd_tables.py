"""Odd tables, and steps with odd parameters: searches over them give what single fits give."""

import numpy as np
import pandas as pd
import pytest
from sklearn import linear_model as sk_linear
from sklearn.base import clone
from sklearn.compose import make_column_selector
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV as SkGridSearchCV
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import FunctionTransformer, KBinsDiscretizer, TargetEncoder

from gpuml.compose import ColumnTransformer
from gpuml.linear_model import Ridge
from gpuml.model_selection import GridSearchCV

N = 60
BINS = KBinsDiscretizer(3, encode="onehot-dense", quantile_method="averaged_inverted_cdf")


def numbers(rng, n=N):
    X = pd.DataFrame(rng.normal(size=(n, 3)), columns=["a", "b", "c"])
    return X, X["a"] + rng.normal(size=n)


def piped(columns, model):
    return Pipeline([("columns", columns), ("model", model)])


def check_search(columns, grid, X, y, together=True, **options):
    """The same scores as scikit-learn's search over scikit-learn's model."""
    options = {"cv": 3, "error_score": "raise", **options}
    mine = GridSearchCV(piped(columns, Ridge()), grid, **options).fit(X, y)
    theirs = SkGridSearchCV(piped(columns, sk_linear.Ridge()), grid, **options).fit(X, y)
    assert not together or "all candidates together" in str(mine.plan_)
    found, expected = (each.cv_results_["mean_test_score"] for each in (mine, theirs))
    np.testing.assert_allclose(found, expected, rtol=1e-8)
    if mine.refit:
        np.testing.assert_allclose(mine.predict(X), theirs.predict(X), rtol=1e-8)
    return found


def looked_up(X, table):
    return np.sin(np.asarray(X) * table[1000])


@pytest.mark.parametrize("whole", [False, True])
def test_arrays_that_print_alike_are_other_parameters(rng, whole):
    X, y = numbers(rng)
    tables = np.ones((2, 3000))
    tables[1, 1000] = 3.0  # their repr leaves out the middle
    columns = ColumnTransformer([("f", FunctionTransformer(looked_up), ["a", "b"])])
    given = [{"table": table} for table in tables]
    grid = {"columns__f__kw_args": given}
    if whole:
        grid = {"columns": [clone(columns).set_params(f__kw_args=each) for each in given]}
    first, second = check_search(columns, grid, X, y)
    assert first != second


def test_inner_splits_that_print_alike_are_other_parameters(rng):
    n = 6006
    X = pd.DataFrame({"level": rng.integers(0, 9, n).astype(str)})
    y = X["level"].astype(int) + 3 * rng.normal(size=n)
    splits = []
    for middle in (np.arange(6, 3998), rng.permutation(np.arange(6, 3998))):
        first = np.concatenate([[0, 1, 2], np.sort(middle[:1990]), [4001, 4002, 4003]])
        second = np.setdiff1d(np.arange(4004), first)
        splits.append([(first, second), (second, first)])  # their repr leaves out the middle
    columns = ColumnTransformer([("level", TargetEncoder(), ["level"])])
    grid = {"columns__level__cv": splits}
    first, second = check_search(columns, grid, X, y, refit=False)
    assert first != second


def test_copies_of_a_selector_are_the_same_step(rng):
    X, y = numbers(rng)
    inside = ColumnTransformer(
        [("fill", SimpleImputer(), make_column_selector(dtype_include="number"))]
    )
    union = FeatureUnion([("binned", Pipeline([("inside", inside), ("bins", BINS)]))])
    grid = {"columns__all__binned__bins__n_bins": [2, 4], "model__alpha": [0.1, 10.0]}
    check_search(ColumnTransformer([("all", union, ["a", "b"])]), grid, X, y)
