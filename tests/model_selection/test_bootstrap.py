"""Resamples of the rows: what they are, and scores of their models, however they are found."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.metrics import get_scorer
from sklearn.tree import DecisionTreeRegressor

import gpuml.model_selection.bootstrap as bootstrap
from gpuml._arrays import HOST, place_of, to_host
from gpuml.decomposition import PCA
from gpuml.linear_model import Lasso, LogisticRegression, Ridge
from gpuml.model_selection import bootstrap_score
from gpuml.pipeline import make_pipeline
from gpuml.preprocessing import StandardScaler
from gpuml.solvers.resampled import counts_of
from gpuml.testing import array_libraries


@pytest.mark.parametrize("library", array_libraries())
def test_counts_are_poisson_and_the_same_for_all_libraries_and_blocks(library):
    expected = counts_of(slice(0, 4000), slice(0, 50), 7, HOST)
    place = place_of(library.asarray(np.zeros(1)))
    parts = [
        to_host(counts_of(rows, slice(0, 50), 7, place))
        for rows in (slice(0, 1001), slice(1001, 4000))
    ]
    np.testing.assert_array_equal(np.concatenate(parts, axis=1), expected)
    # Six standard errors of 200,000 draws, of resamples and of rows.
    assert expected.mean() == pytest.approx(1.0, abs=6 / 200_000**0.5)
    assert expected.var() == pytest.approx(1.0, abs=6 * (3 / 200_000) ** 0.5)
    assert (expected == 0).mean() == pytest.approx(np.exp(-1), abs=6 * (0.24 / 200_000) ** 0.5)
    pairs = np.corrcoef(expected)[np.triu_indices(50, 1)]
    assert np.abs(pairs).max() < 6 / 4000**0.5
    assert np.abs(np.corrcoef(expected[:, :-1].ravel(), expected[:, 1:].ravel())[0, 1]) < 0.014
    assert (counts_of(slice(0, 4000), slice(0, 50), 8, HOST) != expected).any()


@pytest.mark.pairwise
@pytest.mark.parametrize("library", array_libraries())
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("scoring", ["r2", "neg_mean_squared_error"])
@pytest.mark.parametrize(
    "model",
    [Ridge(0.1), Lasso(0.1), make_pipeline(StandardScaler(), PCA(4), Ridge())],
    ids=["Ridge", "Lasso", "pipeline"],
)
def test_scores_are_those_of_models_of_the_drawn_rows(model, scoring, weighted, library):
    X, y = load_diabetes(return_X_y=True)
    weight = np.random.default_rng(0).uniform(0.5, 2.0, len(y))
    weighted = weighted and not hasattr(model, "steps")
    params = {"sample_weight": library.asarray(weight)} if weighted else None
    rows = library.asarray(X), library.asarray(y)
    options = {"n_resamples": 6, "random_state": 3, "params": params}
    found = bootstrap_score(model, *rows, scoring=scoring, **options)
    seed = np.random.RandomState(3).randint(2**31 - 1)
    counts = counts_of(slice(0, len(y)), slice(0, 6), seed, HOST)
    for own, score in zip(counts, found.scores, strict=True):
        train, test = np.repeat(np.arange(len(y)), own), np.flatnonzero(own == 0)
        assert set(train) | set(test) == set(range(len(y)))
        fitted = {"sample_weight": weight[train]} if weighted else {}
        fitted = clone(model).fit(X[train], y[train], **fitted)
        assert score == pytest.approx(get_scorer(scoring)(fitted, X[test], y[test]), rel=1e-7)
    assert found.mean == pytest.approx(found.scores.mean())
    assert found.confidence_interval[0] <= found.mean <= found.confidence_interval[1]


def test_one_product_is_for_models_from_sums(monkeypatch):
    X, y = load_diabetes(return_X_y=True)
    asked = []
    real = bootstrap._some_at_a_time
    monkeypatch.setattr(bootstrap, "_some_at_a_time", lambda *a: asked.append(1) or real(*a))
    bootstrap_score(Ridge(), X, y, n_resamples=20)
    assert asked == []
    bootstrap_score(Ridge(), X, y, n_resamples=3, scoring="neg_max_error")
    bootstrap_score(DecisionTreeRegressor(max_depth=2), X, y, n_resamples=3)
    bootstrap_score(Ridge(), X[:9], y[:9], n_resamples=3, random_state=0)
    X, y = load_breast_cancer(return_X_y=True)
    found = bootstrap_score(LogisticRegression(), X / X.max(axis=0), y, n_resamples=20)
    assert len(asked) == 4
    assert found.mean > 0.9


def test_resamples_that_moments_do_not_solve():
    X, y = load_diabetes(return_X_y=True)
    X = np.hstack([X, X[:, :1] + 1e-9 * X[:, 1:2]])  # of which moments know too few digits
    found = bootstrap_score(Ridge(1e-12), X, y, n_resamples=4, random_state=0)
    seed = np.random.RandomState(0).randint(2**31 - 1)
    for own, score in zip(
        counts_of(slice(0, len(y)), slice(0, 4), seed, HOST), found.scores, strict=True
    ):
        fitted = Ridge(1e-12).fit(X[np.repeat(np.arange(len(y)), own)], np.repeat(y, own))
        assert score == pytest.approx(fitted.score(X[own == 0], y[own == 0]), rel=1e-6)


def test_the_standard_error_is_that_of_new_data():
    """Of scores of models of new rows, to the accuracy of 40 such."""
    random = np.random.default_rng(0)

    def rows():
        X = random.normal(size=(400, 3))
        return X, X.sum(axis=1) + 2 * random.normal(size=400)

    X, y = rows()
    found = bootstrap_score(Ridge(), X, y, n_resamples=300, random_state=0)
    new = []
    for _ in range(40):
        X, y = rows()
        new.append(Ridge().fit(X[:253], y[:253]).score(X[253:], y[253:]))
    assert 0.5 < found.standard_error / np.std(new) < 2.0


def test_what_is_refused():
    X, y = load_diabetes(return_X_y=True)
    for wrong in ({"n_resamples": 1}, {"confidence_level": 1.0}, {"scoring": "no such"}):
        with pytest.raises(ValueError, match="n_resamples|confidence_level|no such"):
            bootstrap_score(Ridge(), X, y, **wrong)
