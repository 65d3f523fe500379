"""Columns of many levels: those that are rare everywhere stand in the table as a few groups."""

import tracemalloc
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn import compose as sk_compose
from sklearn import linear_model as sk_linear
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV as SkGridSearchCV
from sklearn.model_selection import KFold, RepeatedKFold, ShuffleSplit
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder

from gpuml.compose import ColumnTransformer
from gpuml.linear_model import LogisticRegression, Ridge
from gpuml.model_selection import GridSearchCV
from gpuml.preprocessing import StandardScaler


def table(n, n_levels, *, seed=0, text=True):
    """Few levels that many rows have, and many that one or two have."""
    random = np.random.default_rng(seed)
    common = np.minimum(random.geometric(0.1, n), 40)
    name = np.where(random.random(n) < 0.6, common, random.integers(100, 100 + n_levels, n))
    X = pd.DataFrame({"x": random.normal(size=n), "few": random.integers(0, 4, n)})
    X["name"] = np.asarray([f"n{i}" for i in name], dtype=object) if text else name
    if text:
        X.loc[random.random(n) < 0.002, "name"] = np.nan
    return X, X["x"] + np.sin(common) + random.normal(size=n)


def searches(encoder, grid, model, theirs, **options):
    """Our search and scikit-learn's over the same columns."""
    for kind, last, search in (
        (ColumnTransformer, model, GridSearchCV),
        (sk_compose.ColumnTransformer, theirs, SkGridSearchCV),
    ):
        entries = [("x", StandardScaler(), ["x"]), ("levels", encoder, ["name", "few"])]
        columns = kind(entries, sparse_threshold=0)
        yield search(Pipeline([("columns", columns), ("model", last)]), grid, **options)


def assert_same(ours, theirs, tol=1e-8):
    assert "all candidates together" in str(ours.plan_)
    for name, column in theirs.cv_results_.items():
        if name.endswith("_score") and not name.startswith("rank"):
            np.testing.assert_allclose(ours.cv_results_[name], column, rtol=tol, atol=tol)


INFREQUENT, IGNORE = {"handle_unknown": "infrequent_if_exist"}, {"handle_unknown": "ignore"}
FREQUENCIES = {"columns__levels__min_frequency": [3, 0.02, 200]}
CASES = {
    "rare ones together": ({"min_frequency": 5, **INFREQUENT}, FREQUENCIES),
    "unseen ones are none": ({"min_frequency": 5, **IGNORE}, FREQUENCIES),
    "most": ({"max_categories": 12, **INFREQUENT}, {"columns__levels__max_categories": [1, 3, 12]}),
    "both": (
        {"max_categories": 9, "min_frequency": 8, **IGNORE},
        {"columns__levels__max_categories": [None, 2, 9, 60], "columns__levels__min_frequency": [8, 40]},
    ),
    "policies": (
        {"min_frequency": 20},
        {"columns__levels__handle_unknown": ["ignore", "infrequent_if_exist"]},
    ),
}  # fmt: skip
SPLITTERS = [
    KFold(3, shuffle=True, random_state=0),
    ShuffleSplit(3, test_size=0.3, random_state=1),
    RepeatedKFold(n_splits=2, n_repeats=2, random_state=2),
]


@pytest.mark.pairwise
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("cv", SPLITTERS, ids=lambda cv: type(cv).__name__)
@pytest.mark.parametrize("text", [True, False])
def test_scores_are_those_of_scikit_learn(name, cv, text):
    params, grid = CASES[name]
    X, y = table(1200, 1500, text=text)
    options = {"cv": cv, "return_train_score": True}
    both = searches(OneHotEncoder(**params), grid, Ridge(), sk_linear.Ridge(), **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours, theirs = (search.fit(X, y) for search in both)
    assert_same(ours, theirs)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-7)
    assert list(ours.best_estimator_[0].get_feature_names_out()) == list(
        theirs.best_estimator_[0].get_feature_names_out()
    )


@pytest.mark.parametrize("constant", ["gone", "n3", None])
def test_holes_that_a_constant_fills(constant):
    """Before levels are counted: a level of its own, or one that others have."""
    X, y = table(3500, 6000)
    assert X["name"].nunique() > 1024
    fill = SimpleImputer(strategy="constant", fill_value=constant)
    encoder = Pipeline([("f", fill), ("o", OneHotEncoder(**INFREQUENT, min_frequency=4))])
    grid = {"columns__levels__o__min_frequency": [2, 4, 30]}
    X["few"] = X["few"].astype(str).astype(object)
    ours, theirs = (
        search.fit(X, y) for search in searches(encoder, grid, Ridge(), sk_linear.Ridge(), cv=2)
    )
    assert_same(ours, theirs)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-7)


def test_models_with_a_loss():
    X, y = table(1500, 2000)
    encoder = OneHotEncoder(min_frequency=10, handle_unknown="infrequent_if_exist")
    exact = sk_linear.LogisticRegression(tol=1e-10, max_iter=5000)
    grid = {"model__C": [0.1, 1.0], "columns__levels__min_frequency": [10, 50]}
    both = searches(
        encoder, grid, LogisticRegression(tol=1e-10), exact, cv=3, scoring="neg_log_loss"
    )
    ours, theirs = (search.fit(X, (y > 0).astype(int)) for search in both)
    assert_same(ours, theirs, 1e-6)


def test_a_hundred_thousand_levels_take_no_more_memory_than_the_rows():
    X, y = table(150_000, 100_000, text=False)
    assert X["name"].nunique() > 40_000
    encoder = OneHotEncoder(max_categories=30, handle_unknown="infrequent_if_exist")
    ours, _ = searches(encoder, {"model__alpha": [1.0, 10.0]}, Ridge(), None, cv=3, refit=False)
    tracemalloc.start()
    ours.fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "all candidates together" in str(ours.plan_)
    # Numbers, codes, and a column while its levels are found.
    assert peak < 4 * X.memory_usage().sum()


def test_what_takes_too_many_levels_is_told():
    X, y = table(3000, 3000, text=False)
    encoder = OneHotEncoder(min_frequency=1, handle_unknown="ignore")
    ours, _ = searches(encoder, {"model__alpha": [1.0]}, Ridge(), None, cv=2, refit=False)
    with pytest.warns(RuntimeWarning, match="larger min_frequency, or a smaller max_categories"):
        ours.fit(X, y)
    encoder = OneHotEncoder(handle_unknown="ignore", drop="first")
    ours, _ = searches(encoder, {"model__alpha": [1.0]}, Ridge(), None, cv=2, refit=False)
    assert "give their encoder min_frequency or max_categories" in str(ours.explain(X, y))
