"""Sums over the rows of clusters, against NumPy's."""

import numpy as np
import pytest

import gpuml
from gpuml.adapters._clusters import MOST_THREADS, by_rows, closeness, moments
from gpuml.cluster import KMeans
from tests.adapters import fake_cuml

# Few rows and many, around the numbers at which a thread has several of them.
SHAPES = [
    *((n, 3) for n in (1, 2, 16, 17, 5000)),
    *((100, p) for p in (1, 31, 32, 33, 100)),
    *((MOST_THREADS // 2 + n, 2) for n in (-1, 0, 1)),
    (2, MOST_THREADS + 1),
]


@pytest.mark.pairwise
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", SHAPES)
def test_squared_distances(library, rng, shape, dtype):
    X = rng.normal(size=shape).astype(dtype)
    centres = rng.normal(size=(4, shape[1])).astype(dtype)
    labels = rng.integers(4, size=shape[0], dtype=np.int32)
    weight = rng.random(shape[0]).astype(dtype)
    squared = ((X.astype(float) - centres[labels]) ** 2).sum(axis=1)
    to_first = ((X.astype(float) - centres[0]) ** 2).sum()
    rows, near, codes, weights = map(library.asarray, (X, centres, labels, weight))
    rtol = 1e-6 if dtype == "float32" else 1e-12
    for found, expected in [
        (closeness(rows, near, codes), squared.sum()),
        (closeness(rows, near, codes, weights), squared @ weight),
        (closeness(rows, near, library.asarray(0 * labels)), to_first),
    ]:
        assert isinstance(found.cost, float)
        assert found.cost == pytest.approx(expected, rel=rtol)


def test_columns_in_one_piece(library, rng):
    """Rows of which each column is in one piece give the same."""
    X = rng.normal(size=(5, 3000))
    rows = by_rows(library.asarray(X).T)
    centre, labels = library.asarray(np.zeros((1, 5))), library.asarray(np.zeros(3000, dtype=int))
    assert closeness(rows, centre, labels).cost == pytest.approx((X**2).sum(), rel=1e-12)
    np.testing.assert_allclose(moments(rows).means, X.mean(axis=1), rtol=1e-12)


@pytest.mark.parametrize("labels", [[0], [2, 2, 2], [0, 1, 2, 1], [3] * 5000 + [1]])
def test_clusters_that_have_rows(library, labels):
    codes = library.asarray(np.asarray(labels, dtype=np.int32))
    rows, centres = library.asarray(np.ones((len(labels), 3))), library.asarray(np.ones((4, 3)))
    assert closeness(rows, centres, codes).n_found == len(set(labels))


@pytest.mark.pairwise
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("mean", "scale"), [(0.0, 1.0), (1e4, 1.0), (-1e-20, 1e-22)])
def test_moments(library, rng, shape, dtype, mean, scale):
    X = (mean + scale * rng.normal(size=shape)).astype(dtype)
    found, rows = moments(library.asarray(X)), X.astype(float)
    np.testing.assert_allclose(found.means, rows.mean(axis=0), rtol=1e-10, atol=1e-12 * scale)
    assert found.variance == pytest.approx(rows.var(axis=0).mean(), rel=1e-10)


def test_moments_of_what_is_the_same_and_of_what_is_too_large(library):
    assert moments(library.asarray(np.full((50, 2), 0.1))).variance == 0.0
    assert not np.isfinite(moments(library.asarray(np.diag([1e200, -1e200]))).variance)


# ---------------------------------------------------------------- what k-means says of its cost


@pytest.fixture
def fitted(fake, rng):
    """A fit whose engine tells a wrong cost; rows and weights."""
    X = rng.normal(size=(90, 3)) + 10
    with gpuml.config_context(device="cuda", fallback="error"):
        yield KMeans(3, n_init=1, random_state=0), X, rng.random(90)


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
