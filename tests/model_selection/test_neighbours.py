"""Nearest neighbours of which one query of a fold answers all candidates: they are scikit-learn's."""

import zlib
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn import model_selection as sk
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.exceptions import FitFailedWarning
from sklearn.metrics import check_scoring
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.neighbors import (
    KNeighborsClassifier,
    KNeighborsRegressor,
    NearestNeighbors,
)
from sklearn.pipeline import make_pipeline

import gpuml
from gpuml import neighbors
from gpuml.data import Split
from gpuml.model_selection import GridSearchCV, RandomizedSearchCV, fold_fits, one_by_one
from gpuml.model_selection.neighbours import query_key
from gpuml.solvers.neighbours import Votes, winners
from gpuml.testing import array_libraries

RNG = np.random.default_rng(7)
X = RNG.normal(size=(90, 4))
WIDE = RNG.normal(size=(90, 20))
WHOLE = RNG.integers(0, 3, size=(90, 4)).astype(float)  # of which many are equally far
NAMES = np.array(["b", "a", "cc"])[RNG.integers(0, 3, 90)]
NUMBERS = X @ RNG.normal(size=(4, 2))
GRID = {"n_neighbors": [1, 4, 9], "weights": ["uniform", "distance"]}


def halves(distances):
    return 0.5**distances


def share_of_part(distances):
    return distances.max() + 1 - distances  # of one row, and of all that are asked with it


def classify(**params):
    return KNeighborsClassifier(**params)


def regress(**params):
    return KNeighborsRegressor(**params)


# name -> (model, X, y)
CASES = {
    "tree": (classify(), X, NAMES),
    "ball tree": (classify(algorithm="ball_tree", metric="manhattan", leaf_size=3), X, NAMES),
    "products": (classify(), WIDE, NAMES),
    "products that round": (classify(), WIDE + 3e7, NAMES),
    "ties": (classify(), WHOLE, NAMES),
    "ties of products": (classify(algorithm="brute"), WHOLE, NAMES),
    "ties of votes by name": (classify(algorithm="brute", metric="manhattan"), WHOLE, NAMES),
    "float32": (classify(algorithm="brute"), WIDE.astype(np.float32), NAMES),
    "a frame": (classify(), pd.DataFrame(X, columns=list("pqrs")), pd.Series(NAMES)),
    "sparse": (classify(), scipy.sparse.csr_array(np.where(X > 0.5, X, 0)), NAMES),
    "cosine": (classify(metric="cosine"), X, NAMES),
    "a metric of one's own": (classify(metric=lambda a, b: abs(a - b).max()), X[:50], NAMES[:50]),
    "parameters of a metric": (
        classify(metric="seuclidean", metric_params={"V": np.arange(1.0, 5)}),
        X,
        NAMES,
    ),
    "precomputed": (classify(metric="precomputed"), euclidean_distances(WHOLE), NAMES),
    "targets of names": (
        classify(algorithm="brute"),
        X,
        np.column_stack([NAMES, (NUMBERS[:, 0] > 0).astype(str)]),
    ),
    "numbers": (regress(), X, NUMBERS[:, 0]),
    "numbers from products": (regress(p=2), WIDE, NUMBERS[:, 0].astype(np.float32)),
    "targets": (regress(algorithm="brute", p=3), X, NUMBERS),
    "gpuml's classes": (neighbors.KNeighborsClassifier(), X, NAMES),
    "gpuml's numbers": (neighbors.KNeighborsRegressor(), X, NUMBERS[:, 0]),
}


def digest(values):
    return float(zlib.crc32(repr([np.asarray(each).tolist() for each in values]).encode()))


def predictions(model, X, y):
    """A number that tells apart predictions which differ in one bit."""
    return digest([model.predict(X)])


def probabilities(model, X, y):
    return digest(model.predict_proba(X))


def scoring_of(model):
    if not hasattr(model, "predict_proba"):
        return {"predictions": predictions}
    return {"predictions": predictions, "probabilities": probabilities}


def same_tables(search, other):
    for name, values in other.cv_results_.items():
        if "_test_" in name or "_train_" in name:
            np.testing.assert_array_equal(search.cv_results_[name], values, name)


@pytest.fixture
def queries(monkeypatch):
    """Numbers of neighbours that scikit-learn was asked for."""
    asked, kneighbors = [], KNeighborsClassifier.kneighbors

    def noted(self, X=None, n_neighbors=None, return_distance=True):
        asked.append(n_neighbors or self.n_neighbors)
        return kneighbors(self, X, n_neighbors, return_distance)

    monkeypatch.setattr(KNeighborsClassifier, "kneighbors", noted)
    return asked


@pytest.mark.parametrize("name", CASES)
def test_predictions_are_scikit_learns_bit_for_bit(name):
    model, rows, y = CASES[name]
    options = {"scoring": scoring_of(model), "cv": 2, "refit": False, "return_train_score": True}
    search = GridSearchCV(model, GRID, **options).fit(rows, y)
    same_tables(search, sk.GridSearchCV(model, GRID, **options).fit(rows, y))
    assert search.plan_.n_passes == 2
    assert "one neighbour search per fold" in str(search.plan_)


def test_means_over_ties_are_scikit_learns_but_for_the_order_of_sums():
    options = {"cv": 3, "refit": False, "scoring": ["r2", "neg_mean_absolute_error"]}
    ours, theirs = (
        each(regress(), GRID, **options).fit(WHOLE, NUMBERS[:, 0])
        for each in (GridSearchCV, sk.GridSearchCV)
    )
    for name in options["scoring"]:
        scores = (each.cv_results_[f"mean_test_{name}"] for each in (ours, theirs))
        np.testing.assert_allclose(*scores, rtol=1e-12)


def test_a_part_of_a_fold_is_asked_for_once(queries):
    search = GridSearchCV(classify(), GRID, cv=4, refit=False).fit(X, NAMES)
    assert queries == [10] * 4  # one more, which tells of ties
    assert search.plan_.n_passes == 4
    (reason,) = search.plan_.reasons
    assert "searches for neighbours in each training set; 24 fits together on each fold" in reason
    queries.clear()
    GridSearchCV(classify(), GRID, cv=4, refit=False, return_train_score=True).fit(X, NAMES)
    assert queries == [10] * 8


def test_behind_first_steps_that_are_shared(queries):
    pipe = make_pipeline(PCA(random_state=0), classify())
    names = {f"kneighborsclassifier__{name}": values for name, values in GRID.items()}
    grid = {"pca__n_components": [2, 3], **names}
    options = {"cv": 3, "scoring": ["accuracy", "f1_macro", "neg_log_loss"], "refit": "accuracy"}
    search = GridSearchCV(pipe, grid, **options).fit(WIDE, NAMES)
    assert queries == [10] * 6
    other = sk.GridSearchCV(pipe, grid, **options).fit(WIDE, NAMES)
    same_tables(search, other)
    np.testing.assert_array_equal(search.predict(WIDE), other.predict(WIDE))
    assert "one neighbour search per fold" in str(search.plan_)


def test_random_candidates_and_weights_of_ones_own(queries):
    drawn = {"n_neighbors": range(1, 20), "weights": ["uniform", halves, share_of_part, None]}
    options = {"n_iter": 8, "random_state": 0, "cv": 3, "refit": False}
    options["scoring"] = scoring_of(classify())
    for rows in (X, WHOLE):
        queries.clear()
        search = RandomizedSearchCV(classify(), drawn, **options).fit(rows, NAMES)
        n_queries = len(queries)
        same_tables(search, sk.RandomizedSearchCV(classify(), drawn, **options).fit(rows, NAMES))
        if rows is X:
            assert n_queries == 3


def test_numbers_that_a_larger_query_does_not_answer():
    grid = {"n_neighbors": [2, 5, 40, 61], "weights": ["uniform", "distance"]}
    options = {"cv": 3, "refit": False, "error_score": -1.0}
    with pytest.warns(UserWarning, match="Scoring failed"):
        search = GridSearchCV(classify(), grid, **options).fit(X, NAMES)
    with pytest.warns(UserWarning, match="Scoring failed"):
        same_tables(search, sk.GridSearchCV(classify(), grid, **options).fit(X, NAMES))
    text = str(search.plan_)
    assert "algorithm='auto' uses brute force if n_neighbors is half" in text
    assert "n_neighbors is more than the 60 rows of a training set" in text
    assert "12 fits in 3 passes" in text
    assert "12 fits in 12 passes" in text


def test_models_that_are_handed_out_are_those_of_single_fits():
    task = one_by_one.Task(check_scoring(classify()), {}, {}, False, "raise", 0)
    task = replace(task, return_estimator=True)
    candidates = [
        ({"n_neighbors": k, "weights": w}, one_by_one.Progress(0, 1, i, 4))
        for i, (k, w) in enumerate([(3, "uniform"), (7, "distance"), (7, halves), (2, None)])
    ]
    split = Split(slice(0, 60), slice(60, 90))
    results = fold_fits.fit_fold(classify(), X, NAMES, split, candidates, task, gpuml.get_config())
    for (params, _), result in zip(candidates, results, strict=True):
        alone = classify(**params).fit(X[:60], NAMES[:60])
        assert result["estimator"].get_params() == alone.get_params()
        assert vars(result["estimator"]).keys() == vars(alone).keys()
        np.testing.assert_array_equal(result["estimator"].predict(X), alone.predict(X))
        assert result["test_scores"] == alone.score(X[60:], NAMES[60:])


@pytest.mark.parametrize(
    "model",
    [
        type("Mine", (KNeighborsClassifier,), {})(),
        NearestNeighbors(),
        classify(n_neighbors=0),
        classify(n_neighbors=2.0),
        classify(n_neighbors=True),
    ],
)
def test_what_is_not_answered_together(model):
    assert query_key(model) is None


def test_what_differs_in_more_is_asked_for_apart():
    keys = {query_key(classify(**each)) for each in ({}, {"p": 1}, {"metric": "l2"}, {"n_jobs": 2})}
    assert len(keys) == 4
    assert query_key(classify()) == query_key(clone(classify(n_neighbors=9, weights="distance")))


def test_candidates_that_one_query_answers_go_to_one_worker():
    params = [{"n_neighbors": k, "p": p} for k in (1, 2, 3) for p in (1, 2)]
    assert fold_fits.families(classify(), params) == [[0, 2, 4], [1, 3, 5]]


def test_a_wrong_parameter_fails_alone():
    grid = {"n_neighbors": [3, 5], "weights": ["uniform", "other"]}
    with pytest.warns(FitFailedWarning, match="6 fits failed out of a total of 12"):
        search = GridSearchCV(classify(), grid, cv=3, refit=False, error_score=-1.0).fit(X, NAMES)
    assert (search.cv_results_["mean_test_score"] == -1).tolist() == [False, True] * 2


# name -> (model, target, scorers)
ELSEWHERE = {
    "names": (neighbors.KNeighborsClassifier(), NAMES, ["accuracy", "neg_log_loss"]),
    "numbers": (neighbors.KNeighborsRegressor(), NUMBERS[:, 0], ["r2"]),
    "targets": (neighbors.KNeighborsRegressor(), NUMBERS, ["neg_mean_squared_error"]),
}


@pytest.mark.parametrize("name", ELSEWHERE)
def test_votes_and_means_are_taken_in_the_library_of_the_rows(name):
    torch = pytest.importorskip("torch")
    model, y, scoring = ELSEWHERE[name]
    rows, there = torch.asarray(X), y if y.dtype.kind == "U" else torch.asarray(y)
    options = {"cv": 3, "refit": False, "scoring": scoring, "return_train_score": True}
    search = GridSearchCV(model, GRID, **options).fit(rows, there)
    assert search.plan_.n_passes == 3
    assert "on torch:cpu (candidates together on each fold" in str(search.plan_)
    other = sk.GridSearchCV(model, GRID, **options).fit(X, y)
    for key, values in other.cv_results_.items():
        if key.startswith("split"):
            np.testing.assert_allclose(search.cv_results_[key], values, rtol=1e-10)


def test_what_is_computed_in_cpu_memory_says_so():
    torch = pytest.importorskip("torch")
    grid = {"n_neighbors": [2, 3], "weights": ["uniform", halves]}
    model, rows = neighbors.KNeighborsClassifier(), torch.asarray(X)
    for y, words in (
        (NAMES, "your own function of weights runs in CPU memory"),
        (
            torch.asarray((WHOLE[:, :2] > 1).astype(int)),
            "votes for several targets are counted in CPU memory",
        ),
    ):
        search = GridSearchCV(model, grid, cv=2, refit=False).fit(rows, y)
        assert words in str(search.plan_)
        assert np.isfinite(search.cv_results_["mean_test_score"]).all()


@pytest.mark.parametrize("library", array_libraries())
@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
def test_votes_for_fewer_neighbours_are_counted_anew(library, weighted, rng):
    codes, weights = rng.integers(0, 3, (7, 6)), rng.random((7, 6))
    weights = weights if weighted else np.ones((7, 6))
    given = library.asarray(weights) if weighted else None
    votes = Votes(library.asarray(codes), given, 3, library.asarray(weights).dtype)
    for k in (2, 6, 1):
        by_hand = [
            np.bincount(*each, minlength=3)
            for each in zip(codes[:, :k], weights[:, :k], strict=True)
        ]
        found = votes.of(k)
        np.testing.assert_allclose(library.to_numpy(found), by_hand)
        first_of_most = np.argmax(by_hand, axis=1)
        np.testing.assert_array_equal(library.to_numpy(winners(found)), first_of_most)
