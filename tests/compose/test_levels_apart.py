"""Columns of more levels than sums over pairs pay for join the pass all the same."""

import tracemalloc
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn import compose as sk_compose
from sklearn import linear_model as sk_linear
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV as SkGridSearchCV
from sklearn.model_selection import KFold, RepeatedKFold, ShuffleSplit, TimeSeriesSplit
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from gpuml.compose import ColumnTransformer
from gpuml.linear_model import (
    LinearRegression,
    LogisticRegression,
    PoissonRegressor,
    Ridge,
    RidgeClassifier,
)
from gpuml.model_selection import GridSearchCV

IGNORE = OneHotEncoder(handle_unknown="ignore")
FILL = SimpleImputer(strategy="constant", fill_value="none")
NUMBERS = Pipeline([("fill", SimpleImputer()), ("scale", StandardScaler())])
ALPHAS, PENALTIES = {"model__alpha": [0.01, 1.0, 30.0]}, {"model__C": [0.01, 1.0, 10.0]}
SPLITTERS = [
    KFold(3),
    ShuffleSplit(3, test_size=0.3, random_state=1),
    RepeatedKFold(n_splits=2, n_repeats=2, random_state=2),
    TimeSeriesSplit(3),
]


@pytest.fixture
def few_pay(monkeypatch):
    """Tables of which more than 12 levels are many."""
    monkeypatch.setattr("gpuml.compose._apart.MOST_LEVELS", 12)


def table(n=300, n_levels=60, seed=0):
    """Numbers with holes, five levels, and names of which some have many rows and some one."""
    random = np.random.default_rng(seed)
    effect = random.normal(size=n_levels)
    name = np.minimum((random.pareto(1.0, n) * n_levels / 20).astype(int), n_levels - 1)
    X = pd.DataFrame({"x": random.normal(size=n) + effect[name], "z": 5 + random.normal(size=n)})
    X.loc[random.random(n) < 0.1, "z"] = np.nan
    X["few"] = random.choice(list("abcde"), n)
    X["name"] = np.asarray([f"n{i:03d}" for i in name], dtype=object)
    X.loc[random.random(n) < 0.03, "name"] = np.nan
    return X, (X["x"] + effect[name] + random.normal(size=n)).to_numpy()


def columns(kind, names=IGNORE, few=IGNORE, **options):
    entries = [("name", names, ["name"]), ("numbers", NUMBERS, ["x", "z"]), ("few", few, ["few"])]
    return kind(entries, **options)


def searches(model, theirs, grid, names=IGNORE, few=IGNORE, **options):
    """Our search and scikit-learn's."""
    ours = Pipeline([("columns", columns(ColumnTransformer, names, few)), ("model", model)])
    sk = Pipeline(
        [("columns", columns(sk_compose.ColumnTransformer, names, few)), ("model", theirs)]
    )
    return GridSearchCV(ours, grid, **options), SkGridSearchCV(sk, grid, **options)


def assert_same(ours, theirs, tol):
    assert "all candidates together" in str(ours.plan_)
    for name, column in theirs.cv_results_.items():
        if name.endswith("_score") and not name.startswith("rank"):
            np.testing.assert_allclose(ours.cv_results_[name], column, rtol=tol, atol=tol)


EXACT = sk_linear.LogisticRegression(tol=1e-8, max_iter=10_000)
MODELS = {
    "ridge": (Ridge(), sk_linear.Ridge(solver="sparse_cg", tol=1e-14), ALPHAS, "number", 1e-8),
    "without an intercept": (
        Ridge(fit_intercept=False),
        sk_linear.Ridge(fit_intercept=False, solver="sparse_cg", tol=1e-14),
        ALPHAS,
        "number",
        1e-8,
    ),
    "two targets": (
        Ridge(),
        sk_linear.Ridge(solver="sparse_cg", tol=1e-14),
        {"model__alpha": [0.3, np.asarray([1.0, 10.0])]},
        "numbers",
        1e-8,
    ),
    "ridge of classes": (
        RidgeClassifier(class_weight="balanced"),
        sk_linear.RidgeClassifier(class_weight="balanced", solver="sparse_cg", tol=1e-14),
        ALPHAS,
        "class",
        1e-8,
    ),
    "logistic": (LogisticRegression(tol=1e-8, max_iter=500), EXACT, PENALTIES, "class", 1e-6),
    "of three": (LogisticRegression(tol=1e-8, max_iter=500), EXACT, PENALTIES, "classes", 1e-6),
    "counts": (
        PoissonRegressor(tol=1e-9, max_iter=500),
        sk_linear.PoissonRegressor(tol=1e-9, max_iter=5000),
        ALPHAS,
        "count",
        1e-6,
    ),
}
TARGETS = {
    "number": lambda y: y,
    "numbers": lambda y: np.stack([y, y**2], axis=1),
    "class": lambda y: (y > 0).astype(int),
    "classes": lambda y: np.digitize(y, [-0.5, 1.0]),
    "count": lambda y: np.floor(np.exp(y / 2)),
}


@pytest.mark.each
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("cv", SPLITTERS, ids=lambda cv: type(cv).__name__)
@pytest.mark.parametrize("filled", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_scores_and_models_are_those_of_scikit_learn(few_pay, name, cv, filled, weighted):
    model, theirs, grid, target, tol = MODELS[name]
    X, y = table()
    y = TARGETS[target](y)
    names = Pipeline([("fill", FILL), ("one", IGNORE)]) if filled else IGNORE
    scoring = "neg_log_loss" if isinstance(model, LogisticRegression) else None
    both = searches(model, theirs, grid, names, cv=cv, scoring=scoring, return_train_score=True)
    weight = np.random.default_rng(3).integers(0, 3, len(y)) + 0.5
    given = {"model__sample_weight": weight} if weighted else {}
    ours, theirs = (search.fit(X, y, **given) for search in both)
    assert_same(ours, theirs, tol)
    assert ours.best_params_ == theirs.best_params_
    mine, other = ours.best_estimator_, theirs.best_estimator_
    near = {"rtol": 1e-6, "atol": 1e-6 if tol < 1e-7 else 1e-3}
    np.testing.assert_allclose(mine[-1].coef_, other[-1].coef_, **near)
    np.testing.assert_allclose(mine[-1].intercept_, other[-1].intercept_, **near)
    assert list(mine[0].get_feature_names_out()) == list(other[0].get_feature_names_out())


@pytest.mark.parametrize("model", [Ridge(), LogisticRegression(tol=1e-9, max_iter=1000)])
def test_levels_apart_or_together_make_no_difference(monkeypatch, model):
    X, y = table()
    own = isinstance(model, Ridge)
    y, grid = (y, ALPHAS) if own else (TARGETS["class"](y), PENALTIES)
    found = []
    for most in (12, 1024):
        monkeypatch.setattr("gpuml.compose._apart.MOST_LEVELS", most)
        found.append(searches(model, None, grid, cv=3)[0].fit(X, y).cv_results_)
    for s in range(3):
        scores = [each[f"split{s}_test_score"] for each in found]
        np.testing.assert_allclose(*scores, rtol=1e-10 if own else 1e-6)


def test_two_columns_of_many_levels_of_a_loss(few_pay):
    X, y = table()
    X["few"] = X["name"].fillna("").str[1:] + "x"
    model, theirs, grid, target, tol = MODELS["logistic"]
    both = searches(model, theirs, grid, cv=3, scoring="neg_log_loss")
    ours, theirs = (search.fit(X, TARGETS[target](y)) for search in both)
    assert_same(ours, theirs, tol)


RIDGES = [name for name in MODELS if MODELS[name][2] is not PENALTIES and name != "counts"]


@pytest.mark.each
@pytest.mark.parametrize("name", RIDGES)
@pytest.mark.parametrize("cv", SPLITTERS, ids=lambda cv: type(cv).__name__)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("third", [False, True])
def test_several_columns_of_many_levels_of_ridge(few_pay, name, cv, weighted, third):
    """The largest is eliminated, the others are found step by step."""
    model, theirs, grid, target, tol = MODELS[name]
    X, y = table()
    random = np.random.default_rng(5)
    place = random.integers(0, 25, len(y))
    X["few"] = np.asarray([f"p{i:02d}" for i in place], dtype=object)
    y = TARGETS[target](y + random.normal(size=25)[place])
    both = searches(model, theirs, grid, cv=cv, return_train_score=True)
    if third:
        X["other"] = random.integers(0, 30, len(y))
        for search in both:
            front = search.estimator[0]
            front.set_params(transformers=[*front.transformers, ("other", IGNORE, ["other"])])
    given = {"model__sample_weight": random.integers(0, 3, len(y)) + 0.5} if weighted else {}
    ours, theirs = (search.fit(X, y, **given) for search in both)
    assert_same(ours, theirs, tol)
    mine, other = ours.best_estimator_, theirs.best_estimator_
    np.testing.assert_allclose(mine[-1].coef_, other[-1].coef_, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(mine[-1].intercept_, other[-1].intercept_, rtol=1e-6, atol=1e-6)


def test_levels_that_hang_together_closely_are_named(few_pay, monkeypatch):
    monkeypatch.setattr("gpuml.solvers.crossed_levels.MOST_STEPS", 1)
    X, y = table()
    X["few"] = X["name"].fillna("").str[1:]
    ours, _ = searches(Ridge(), None, ALPHAS, cv=2, refit=False)
    with pytest.warns(RuntimeWarning, match="are so closely related"):
        ours.fit(X, y)


@pytest.mark.parametrize("model", ["ridge", "logistic"])
def test_holes_filled_by_the_most_frequent_of_many_levels(few_pay, model):
    own, theirs, grid, target, tol = MODELS[model]
    X, y = table()
    X.loc[::4, "name"] = "often"
    y = TARGETS[target](y)
    fill = Pipeline([("f", SimpleImputer(strategy="most_frequent")), ("o", IGNORE)])
    ours, theirs = (search.fit(X, y) for search in searches(own, theirs, grid, fill, cv=3))
    assert_same(ours, theirs, tol)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-6)
    learnt = [search.best_estimator_[0].transformers_[0][1][0] for search in (ours, theirs)]
    assert learnt[0].statistics_ == learnt[1].statistics_ == ["often"]


def test_the_most_frequent_of_many_levels_is_one_in_all_parts(few_pay):
    X, y = table()
    X["name"] = [f"n{i % 60:03d}" for i in range(len(y))]
    X.loc[:20, "name"] = "early"
    X.loc[280:, "name"] = "later"
    X.loc[100, "name"] = np.nan
    fill = Pipeline([("f", SimpleImputer(strategy="most_frequent")), ("o", IGNORE)])
    ours, _ = searches(Ridge(), None, ALPHAS, fill, cv=3)
    with pytest.warns(RuntimeWarning, match="most frequent one differs"):
        ours.fit(X, y)


@pytest.mark.parametrize("model", [Ridge(), LogisticRegression(tol=1e-8, max_iter=500)])
def test_nothing_but_levels(few_pay, model):
    X, y = table()
    own = isinstance(model, Ridge)
    theirs = MODELS["ridge" if own else "logistic"][1]
    y, grid = (y, ALPHAS) if own else (TARGETS["class"](y), PENALTIES)
    ours, theirs = (
        search(Pipeline([("levels", IGNORE), ("model", last)]), grid, cv=3)
        for search, last in ((GridSearchCV, model), (SkGridSearchCV, theirs))
    )
    assert_same(ours.fit(X[["name"]], y), theirs.fit(X[["name"]], y), 1e-8)


@pytest.mark.parametrize("alike", [True, False])
def test_levels_by_parts_are_levels_at_once(few_pay, monkeypatch, alike):
    """Of many levels, sums are made of some after the other."""
    X, y = table()
    weight = None if alike else np.random.default_rng(0).random(len(y))
    scores = []
    for size in (2**28, 4000):
        monkeypatch.setattr("gpuml.solvers.sums_by_level.SUM_BYTES", size)
        ours, _ = searches(Ridge(), None, ALPHAS, cv=KFold(3, shuffle=True, random_state=0))
        ours.fit(X, y, model__sample_weight=weight)
        scores.append(ours.cv_results_["mean_test_score"])
    np.testing.assert_allclose(*scores, rtol=1e-10)


def test_held_out_rows_do_not_change_a_model(few_pay):
    X, y = table()
    wild, X["z"] = X.copy(), X["z"].fillna(5.0)
    wild = X.copy()
    wild.loc[:99, ["x", "z"]] = 1e15
    splits = [(np.arange(100, 300), np.arange(100, 200))]
    scores = []
    for rows in (X, wild):
        ours, _ = searches(Ridge(), None, ALPHAS, cv=splits, refit=False)
        scores.append(ours.fit(rows, y).cv_results_["split0_test_score"])
    np.testing.assert_allclose(*scores, rtol=1e-12)


def test_levels_that_a_part_lacks_are_refused_where_the_encoder_refuses_them(few_pay):
    X, y = table()
    both = searches(Ridge(), sk_linear.Ridge(), ALPHAS, OneHotEncoder(), cv=3, refit=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours, theirs = (search.fit(X, y).cv_results_ for search in both)
    for s in range(3):
        name = f"split{s}_test_score"
        np.testing.assert_array_equal(np.isnan(ours[name]), np.isnan(theirs[name]))


BEHIND = Pipeline([("o", IGNORE), ("s", StandardScaler(with_mean=False))])
REFUSED = {
    "leave out drop='first'": (OneHotEncoder(drop="first", handle_unknown="ignore"), Ridge()),
    "leave out StandardScaler after them": (BEHIND, Ridge()),
    "solver='svd' factors all columns": (IGNORE, Ridge(solver="svd")),
    "LinearRegression is fitted from sums over pairs": (IGNORE, LinearRegression()),
    "newton-cholesky takes Hessians": (IGNORE, LogisticRegression(solver="newton-cholesky")),
}


@pytest.mark.parametrize("words", REFUSED)
def test_the_plan_says_what_keeps_many_levels_out(few_pay, words):
    names, model = REFUSED[words]
    X, y = table()
    grid = {"model__fit_intercept": [True, False]}
    outlook = str(searches(model, None, grid, names)[0].explain(X, y > 0))
    assert words in outlook
    assert "levels, and sums over pairs pay off up to" in outlook


@pytest.mark.parametrize(
    ("model", "grid", "words"),
    [
        (Ridge(), {"model__alpha": [0.0, 1.0]}, "alpha=0"),
        (Ridge(), {"model__alpha": [1e-12, 1.0]}, "too small for so many levels"),
        (LogisticRegression(solver="saga"), {"model__l1_ratio": [0.5, 0.0]}, "l1_ratio"),
    ],
)
def test_penalties_that_many_levels_do_not_allow_are_named(few_pay, model, grid, words):
    X, y = table(n=200)
    ours, _ = searches(model, None, grid, cv=2, refit=False)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        ours.fit(X, (y > 0).astype(int))
    assert any(words in str(each.message) for each in said)
    assert np.isfinite(ours.cv_results_["mean_test_score"]).all()


def test_steps_behind_all_columns_keep_many_levels_out(few_pay):
    X, y = table()
    front = columns(ColumnTransformer, OneHotEncoder(handle_unknown="ignore", sparse_output=False))
    front.set_params(sparse_threshold=0)
    steps = [("columns", front), ("pca", PCA(2)), ("model", Ridge())]
    assert "leave out PCA after them" in str(GridSearchCV(Pipeline(steps), ALPHAS).explain(X, y))


def test_many_levels_take_memory_for_their_sums_and_models_alone():
    """Not for products of pairs of them, nor for encoded rows."""
    random = np.random.default_rng(0)
    n, n_levels = 60_000, 20_000
    X = pd.DataFrame({"x": random.normal(size=n), "z": 1.0, "few": 1})
    X["name"] = random.permutation(np.arange(n) % n_levels)
    ours, _ = searches(Ridge(), None, ALPHAS, cv=3, refit=False)
    tracemalloc.start()
    ours.fit(X, X["x"].to_numpy())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "all candidates together" in str(ours.plan_)
    n_sums, n_models = 3 * 6, 3 * 3
    assert peak < 4 * X.memory_usage().sum() + 8 * n_levels * (3 * n_sums + 3 * n_models)
