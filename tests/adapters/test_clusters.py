"""Sums over the rows of clusters, against NumPy's."""

import numpy as np
import pytest

import gpuml
from gpuml.adapters._clusters import (
    LEAST_ROWS,
    MOST_GROUPS,
    by_rows,
    n_distinct,
    squared_distances,
)
from gpuml.cluster import KMeans
from tests.adapters import fake_cuml

RANDOM = np.random.default_rng(0)
# Around the lengths at which rows are cut into groups, and rows of more than 32 columns.
SHAPES = [
    *((n, 3) for n in (1, LEAST_ROWS, LEAST_ROWS + 1, 5000)),
    *((100, p) for p in (1, 31, 32, 33, 100)),
    (LEAST_ROWS * MOST_GROUPS + 1, 2),
]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", SHAPES)
def test_squared_distances(library, shape, dtype):
    X = RANDOM.normal(size=shape).astype(dtype)
    centres = RANDOM.normal(size=(4, shape[1])).astype(dtype)
    labels = RANDOM.integers(4, size=shape[0], dtype=np.int32)
    weight = RANDOM.random(shape[0]).astype(dtype)
    squared = ((X.astype(float) - centres[labels]) ** 2).sum(axis=1)
    rows, near, codes, weights = map(library.asarray, (X, centres, labels, weight))
    rtol = 1e-6 if dtype == "float32" else 1e-12
    for found, expected in [
        (squared_distances(rows, near, codes), squared.sum()),
        (squared_distances(rows, near, codes, weights), squared @ weight),
        (squared_distances(rows, near), ((X.astype(float) - centres[0]) ** 2).sum()),
    ]:
        assert isinstance(found, float)
        assert found == pytest.approx(expected, rel=rtol)


def test_columns_in_one_piece(library):
    """Rows of which each column is in one piece give the same."""
    X = RANDOM.normal(size=(5, 3000))
    rows = library.asarray(X).T
    centre = library.asarray(np.zeros((1, 5)))
    assert squared_distances(by_rows(rows), centre) == pytest.approx((X**2).sum(), rel=1e-12)


@pytest.mark.parametrize("labels", [[0], [2, 2, 2], [0, 1, 2, 1], [3] * 5000 + [1]])
def test_labels_that_there_are(library, labels):
    codes = library.asarray(np.asarray(labels, dtype=np.int32))
    assert n_distinct(codes, 4) == len(set(labels))


# ---------------------------------------------------------------- what k-means says of its cost


@pytest.fixture
def fitted(fake):
    """A fit whose engine tells a wrong cost; rows and weights."""
    X = RANDOM.normal(size=(90, 3)) + 10
    with gpuml.config_context(device="cuda", fallback="error"):
        yield KMeans(3, n_init=1, random_state=0), X, RANDOM.random(90)


def test_the_cost_is_not_cumls(fitted, monkeypatch):
    model, X, weight = fitted
    fit = fake_cuml.KMeans.fit

    def wrong(self, X, **rest):
        fit(self, X, **rest)
        self.inertia_ = 0.99 * self.inertia_
        return self

    monkeypatch.setattr(fake_cuml.KMeans, "fit", wrong)
    for given in (None, weight):
        model.fit(X, sample_weight=given)
        squared = ((X - model.cluster_centers_[model.labels_]) ** 2).sum(axis=1)
        expected = squared.sum() if given is None else squared @ given
        assert model.inertia_ == pytest.approx(expected, rel=1e-12)
        assert model.score(X, sample_weight=given) == pytest.approx(-expected, rel=1e-12)


def test_weights_of_a_score_are_checked(fitted):
    model, X, weight = fitted
    model.fit(X)
    assert model.score(X, sample_weight=list(weight)) == pytest.approx(
        model.score(X, sample_weight=weight), rel=1e-12
    )
    with pytest.raises(ValueError, match="sample_weight.shape"):
        model.score(X, sample_weight=weight[:-1])
