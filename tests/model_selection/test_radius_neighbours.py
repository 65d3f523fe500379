"""Searches over radius and over local outlier factors: one query of a fold answers all candidates."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn import model_selection as sk
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.neighbors import (
    LocalOutlierFactor,
    NearestNeighbors,
    RadiusNeighborsClassifier,
    RadiusNeighborsRegressor,
)
from sklearn.pipeline import make_pipeline

from gpuml import neighbors
from gpuml.model_selection import GridSearchCV, fold_fits
from gpuml.model_selection.neighbours import query_key
from tests.model_selection.test_neighbours import (
    NAMES,
    NUMBERS,
    WHOLE,
    WIDE,
    X,
    digest,
    halves,
    same_tables,
    scoring_of,
)

RADII = {"radius": [0.8, 1.5, 40.0], "weights": ["uniform", "distance"]}
OF_WHOLE = {**RADII, "radius": [1.0, 1.5, 2.0]}  # which some rows are away exactly
OF_WIDE = {**RADII, "radius": [4.0, 6.0]}


def classify(**params):
    return RadiusNeighborsClassifier(**{"outlier_label": "most_frequent", **params})


def regress(**params):
    return RadiusNeighborsRegressor(**params)


# name -> (model, X, y, grid)
CASES = {
    "tree": (classify(), X, NAMES, RADII),
    "ball tree": (classify(algorithm="ball_tree", metric="manhattan"), X, NAMES, RADII),
    "products": (classify(), WIDE, NAMES, OF_WIDE),
    "products that round": (classify(), WIDE + 3e7, NAMES, OF_WIDE),
    "float32": (classify(algorithm="brute"), WIDE.astype(np.float32), NAMES, OF_WIDE),
    "rows on the boundary": (classify(), WHOLE, NAMES, OF_WHOLE),
    "products on the boundary": (classify(algorithm="brute"), WHOLE, NAMES, OF_WHOLE),
    "another power": (classify(p=3), WHOLE, NAMES, OF_WHOLE),
    "a frame": (classify(), pd.DataFrame(X, columns=list("pqrs")), pd.Series(NAMES), RADII),
    "sparse": (classify(), scipy.sparse.csr_array(np.where(X > 0.5, X, 0)), NAMES, RADII),
    "a metric of one's own": (
        classify(metric=lambda a, b: abs(a - b).max()),
        X[:50],
        NAMES[:50],
        RADII,
    ),
    "precomputed": (classify(metric="precomputed"), euclidean_distances(X), NAMES, RADII),
    "targets of names": (
        classify(algorithm="brute"),
        X,
        np.column_stack([NAMES, (NUMBERS[:, 0] > 0).astype(str)]),
        RADII,
    ),
    "numbers": (regress(), X, NUMBERS[:, 0], {**RADII, "radius": [3.0, 5.0, 40.0]}),
    "targets": (
        regress(algorithm="brute", p=3),
        X,
        NUMBERS,
        {"radius": [3.0, 8.0], "weights": ["distance", halves, None]},
    ),
    "gpuml's names": (neighbors.RadiusNeighborsClassifier(outlier_label="a"), X, NAMES, RADII),
}


@pytest.fixture
def queries(monkeypatch):
    """Radii that scikit-learn was asked for."""
    asked, radius_neighbors = [], RadiusNeighborsClassifier.radius_neighbors

    def noted(self, X=None, radius=None, **options):
        asked.append(radius or self.radius)
        return radius_neighbors(self, X, radius, **options)

    monkeypatch.setattr(RadiusNeighborsClassifier, "radius_neighbors", noted)
    return asked


@pytest.mark.filterwarnings("ignore:Outlier label:UserWarning")
@pytest.mark.filterwarnings("ignore:One or more samples have no neighbors:UserWarning")
@pytest.mark.parametrize("name", CASES)
def test_predictions_within_a_radius_are_scikit_learns_bit_for_bit(name):
    model, rows, y, grid = CASES[name]
    options = {"scoring": scoring_of(model), "cv": 2, "refit": False, "return_train_score": True}
    search = GridSearchCV(model, grid, **options).fit(rows, y)
    same_tables(search, sk.GridSearchCV(model, grid, **options).fit(rows, y))
    assert search.plan_.n_passes == 2
    assert "one neighbour search per fold" in str(search.plan_)


def test_a_part_of_a_fold_is_asked_for_the_largest_radius_once(queries):
    GridSearchCV(classify(), RADII, cv=4, refit=False).fit(X, NAMES)
    assert queries == [40.0] * 4
    queries.clear()
    GridSearchCV(classify(), RADII, cv=4, refit=False, return_train_score=True).fit(X, NAMES)
    assert queries == [40.0] * 8


def test_radii_behind_first_steps_that_are_shared(queries):
    pipe = make_pipeline(PCA(random_state=0), classify())
    names = {f"radiusneighborsclassifier__{name}": each for name, each in OF_WIDE.items()}
    grid = {"pca__n_components": [2, 3], **names}
    options = {"cv": 3, "scoring": ["accuracy", "neg_log_loss"], "refit": "accuracy"}
    search = GridSearchCV(pipe, grid, **options).fit(WIDE, NAMES)
    assert queries == [6.0] * 6
    same_tables(search, sk.GridSearchCV(pipe, grid, **options).fit(WIDE, NAMES))


def test_no_neighbours_at_all_is_the_error_of_that_candidate():
    grid = {"radius": [1e-6, 50.0]}
    options = {"cv": 3, "refit": False, "error_score": -1.0}
    model = RadiusNeighborsClassifier()
    with pytest.warns(UserWarning, match="No neighbors found"):
        search = GridSearchCV(model, grid, **options).fit(X, NAMES)
    with pytest.warns(UserWarning, match="No neighbors found"):
        other = sk.GridSearchCV(model, grid, **options).fit(X, NAMES)
    same_tables(search, other)
    assert search.cv_results_["mean_test_score"][0] == -1.0


# ---------------------------------------------------------------- local outlier factors


def lof(**params):
    return LocalOutlierFactor(novelty=True, **params)


def factors(model, X, y=None):
    return digest([model.score_samples(X), model.decision_function(X), model.predict(X)])


FACTORS = {"n_neighbors": [2, 5, 11], "contamination": ["auto", 0.1]}

# name -> (model, X, whether candidates share a query)
OUTLIERS = {
    "tree": (lof(), X, True),
    "products": (lof(), WIDE, True),
    "float32": (lof(), X.astype(np.float32), True),
    "a frame": (lof(), pd.DataFrame(X, columns=list("pqrs")), True),
    "ball tree": (lof(algorithm="ball_tree", metric="manhattan"), X, True),
    "ties": (lof(), WHOLE + 0.0, False),
    "products that round": (lof(), WIDE + 3e7, False),
}


@pytest.mark.filterwarnings("ignore:X does not have valid feature names:UserWarning")
@pytest.mark.parametrize("name", OUTLIERS)
def test_outlier_factors_are_scikit_learns_bit_for_bit(name):
    model, rows, shares = OUTLIERS[name]
    options = {"scoring": factors, "cv": 2, "refit": False, "return_train_score": True}
    search = GridSearchCV(model, FACTORS, **options).fit(rows)
    same_tables(search, sk.GridSearchCV(model, FACTORS, **options).fit(rows))
    if shares:
        assert search.plan_.n_passes == 2
        assert "one neighbour search per fold" in str(search.plan_)
    else:
        assert "training rows are equally far" in str(search.plan_)


def test_outliers_are_scored_by_labels():
    rng = np.random.default_rng(0)
    rows = np.concatenate([X, rng.uniform(-6, 6, size=(20, 4))])
    y = np.concatenate([np.ones(len(X)), -np.ones(20)])
    cv = sk.StratifiedKFold(3, shuffle=True, random_state=0)
    grid = {"n_neighbors": [3, 8, 15]}
    search = GridSearchCV(lof(), grid, scoring="roc_auc", cv=cv).fit(rows, y)
    other = sk.GridSearchCV(lof(), grid, scoring="roc_auc", cv=cv).fit(rows, y)
    same_tables(search, other)
    np.testing.assert_array_equal(search.score_samples(rows), other.score_samples(rows))


def test_more_neighbours_than_rows_are_fitted_alone():
    grid = {"n_neighbors": [2, 5, 44, 45, 60]}
    options = {"scoring": factors, "cv": 2, "refit": False}
    with pytest.warns(UserWarning, match="is greater than the total number"):
        search = GridSearchCV(lof(), grid, **options).fit(X)
    with pytest.warns(UserWarning, match="is greater than the total number"):
        same_tables(search, sk.GridSearchCV(lof(), grid, **options).fit(X))
    assert "n_neighbors is not less than the number of rows" in str(search.plan_)


# ---------------------------------------------------------------- what shares


@pytest.mark.parametrize(
    "model",
    [
        type("Mine", (RadiusNeighborsRegressor,), {})(),
        NearestNeighbors(),
        LocalOutlierFactor(),  # which says nothing of other rows
        lof(n_neighbors=0),
        classify(radius=None),
        classify(radius=-1.0),
        classify(radius=float("nan")),
        classify(radius=True),
    ],
)
def test_what_is_not_answered_together(model):
    assert query_key(model) is None


def test_radii_of_one_metric_go_to_one_worker():
    params = [{"radius": r, "p": p} for r in (1, 2.0, 3) for p in (1, 2)]
    assert fold_fits.families(classify(), params) == [[0, 2, 4], [1, 3, 5]]
    assert query_key(classify()) == query_key(clone(classify(radius=9, weights="distance")))
    assert query_key(lof()) == query_key(lof(n_neighbors=3, contamination=0.2))
