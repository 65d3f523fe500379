"""Encoders by targets in the pass: each training part across its inner folds, to the letter."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn import compose as sk_compose
from sklearn import linear_model as sk_linear
from sklearn.model_selection import GridSearchCV as SkGridSearchCV
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler, TargetEncoder

from gpuml.compose import ColumnTransformer
from gpuml.linear_model import LogisticRegression, Ridge
from gpuml.model_selection import GridSearchCV

N = 260
INNER = KFold(4, shuffle=True, random_state=3)


@pytest.fixture
def frame(rng):
    """Levels of many rows and of one, holes in names, and numbers that are names."""
    rare = np.minimum(rng.geometric(0.15, N), 25)
    X = pd.DataFrame({"x": rng.normal(size=N), "code": rng.integers(0, 30, N)})
    X["name"] = np.asarray([f"n{i}" for i in rare], dtype=object)
    X.loc[rng.random(N) < 0.05, "name"] = np.nan
    X["one"] = "same"
    return X, X["x"] + np.sin(rare) + rng.normal(size=N)


def targets(y, kind):
    if kind == "continuous":
        return y.to_numpy()
    if kind == "binary":
        return np.asarray(["no", "yes"])[(y > 0.3).astype(int)]
    return np.digitize(y, [-0.5, 0.8])


def searches(encoder, grid, model, theirs, **options):
    for kind, last, search in (
        (ColumnTransformer, model, GridSearchCV),
        (sk_compose.ColumnTransformer, theirs, SkGridSearchCV),
    ):
        coded = Pipeline([("means", encoder), ("scale", StandardScaler())])
        entries = [("x", "passthrough", ["x"]), ("coded", coded, ["name", "code", "one"])]
        yield search(Pipeline([("columns", kind(entries)), ("model", last)]), grid, **options)


def assert_same(ours, theirs, tol):
    assert "all candidates together" in str(ours.plan_)
    for name, column in theirs.cv_results_.items():
        if name.endswith("_score") and not name.startswith("rank"):
            np.testing.assert_allclose(ours.cv_results_[name], column, rtol=tol, atol=tol)


SMOOTH = {"columns__coded__means__smooth": ["auto", 0.0, 2.5, 100]}
STRATIFIED = StratifiedKFold(3, shuffle=True, random_state=5)


@pytest.mark.pairwise
@pytest.mark.parametrize("kind", ["continuous", "binary", "multiclass"])
@pytest.mark.parametrize("inner", [INNER, STRATIFIED, KFold(2)], ids=["random", "classes", "runs"])
def test_scores_are_those_of_scikit_learn(kind, inner, frame):
    X, y = frame
    if kind == "continuous":
        if inner is STRATIFIED:
            pytest.skip("there are no classes")
        pair, tol = (Ridge(), sk_linear.Ridge()), 1e-8
    else:
        exact = sk_linear.LogisticRegression(tol=1e-10, max_iter=5000)
        pair, tol = (LogisticRegression(tol=1e-10), exact), 1e-6
    options = {"cv": 3, "scoring": None if kind == "continuous" else "neg_log_loss"}
    both = searches(TargetEncoder(cv=inner), SMOOTH, *pair, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a class that an inner fold lacks
        ours, theirs = (search.fit(X, targets(y, kind)) for search in both)
    assert_same(ours, theirs, tol)
    mine, other = (s.best_estimator_[0].named_transformers_["coded"][0] for s in (ours, theirs))
    for one, two in zip(mine.encodings_, other.encodings_, strict=True):
        np.testing.assert_allclose(one, two, atol=1e-15)
    assert ours.best_params_ == theirs.best_params_
    if kind == "continuous":
        np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-8)


def test_integers_that_are_numbers_and_random_inner_folds(frame, monkeypatch):
    """`target_type` says what integers are; each training part draws its inner folds once."""
    X, y = frame
    count = np.round(10 * y).to_numpy().astype(int)
    inner = KFold(3, shuffle=True, random_state=np.random.RandomState(0))
    encoder = TargetEncoder(target_type="continuous", cv=inner)
    grid = {"model__alpha": [0.1, 10.0], **SMOOTH}
    both = searches(encoder, grid, Ridge(), sk_linear.Ridge(), cv=3, refit=False)
    assert_same(*(search.fit(X, count) for search in both), 1e-8)
    drawn = []
    split = KFold.split
    monkeypatch.setattr(
        KFold, "split", lambda self, X, *a: drawn.append(len(X)) or split(self, X, *a)
    )
    encoder = TargetEncoder(target_type="continuous", cv=KFold(3, shuffle=True))
    ours, _ = searches(encoder, grid, Ridge(), None, cv=KFold(4), refit=False)
    ours.fit(X, count)
    assert drawn == [195] * 4 + [N]


def test_scores_of_training_rows_keep_it_out(frame):
    """Models are fitted to other columns than training rows are scored with."""
    X, y = frame
    ours, theirs = searches(
        TargetEncoder(cv=INNER), SMOOTH, Ridge(), sk_linear.Ridge(), cv=3, return_train_score=True
    )
    assert "TargetEncoder encodes training rows differently" in str(ours.explain(X, y))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours.fit(X, y), theirs.fit(X, y)
    for part in ("train", "test"):
        name = f"mean_{part}_score"
        np.testing.assert_allclose(ours.cv_results_[name], theirs.cv_results_[name], rtol=1e-8)


def test_what_scikit_learn_refuses_is_refused(frame):
    X, y = frame
    rows = np.arange(100)
    overlapping = TargetEncoder(cv=[(rows, rows[:50]), (rows, rows[40:])])
    ours, _ = searches(overlapping, SMOOTH, Ridge(), None, cv=3, error_score="raise")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(ValueError, match="must cover each sample"):
            ours.fit(X, y)


def test_categories_that_are_given_and_a_shuffle_of_old(frame):
    X, y = frame
    names = [*sorted(X["name"].dropna().unique()), np.nan]
    given = [names, list(range(30)), ["same", "other"]]
    for params in ({"categories": given, "cv": INNER}, {"shuffle": False}):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            both = searches(
                TargetEncoder(**params), SMOOTH, Ridge(), sk_linear.Ridge(), cv=3, refit=False
            )
            assert_same(*(search.fit(X, y) for search in both), 1e-8)


def test_the_refit_begins_where_models_of_the_splits_ended(rng):
    """Their columns are others than those of all rows, but in the same places."""
    level = rng.integers(0, 20, 2000)
    y = (np.sin(level) + rng.normal(size=2000) > 0).astype(int)
    X = pd.DataFrame({"name": [f"n{i}" for i in level], "x": rng.normal(size=2000)})
    entries = [("means", TargetEncoder(cv=KFold(3)), ["name"]), ("x", "passthrough", ["x"])]
    pipe = Pipeline([("columns", ColumnTransformer(entries)), ("model", LogisticRegression())])
    search = GridSearchCV(pipe, {"model__C": [1.0, 100.0]}, cv=3).fit(X, y)
    assert search.best_estimator_[-1].n_iter_.max() <= 4
