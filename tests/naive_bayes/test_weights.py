"""A model knows proportions of weights: their unit, however large or small, changes nothing."""

import numpy as np
import pytest

from gpuml import config_context
from gpuml.naive_bayes import GaussianNB

N_ROWS = 90
UNITS = [1e-308, 1e-200, 1e-160, 1e160, 1e200, 1e300]


def rows(rng, size=1.0):
    y = rng.integers(0, 3, size=N_ROWS)
    X = size * (rng.normal(size=(N_ROWS, 4)) + y[:, None])
    return X, y, rng.uniform(0.5, 2, size=N_ROWS)


@pytest.mark.parametrize("size", [1e-100, 1.0, 1e100])
@pytest.mark.parametrize("unit", UNITS)
def test_the_unit_of_weights_does_not_matter(rng, unit, size):
    X, y, w = rows(rng, size)
    expected = GaussianNB().fit(X, y, sample_weight=w)
    for block_bytes in (None, 1000):
        with config_context(block_bytes=block_bytes):
            model = GaussianNB().fit(X, y, sample_weight=unit * w)
        for name in ("theta_", "var_", "class_prior_"):
            np.testing.assert_allclose(getattr(model, name), getattr(expected, name), rtol=1e-10)
        np.testing.assert_allclose(model.class_count_ / unit, expected.class_count_)
        np.testing.assert_allclose(model.predict_proba(X), expected.predict_proba(X), atol=1e-12)


@pytest.mark.parametrize("unit", [1e-200, 1e200])
def test_in_every_library_and_row_by_row(rng, library, unit):
    X, y, w = rows(rng)
    X, y = library.asarray(X), library.asarray(y)
    models = []
    for scale in (1.0, unit):
        weight = library.asarray(scale * w)
        whole = GaussianNB().fit(X, y, sample_weight=weight)
        parts = GaussianNB()
        for some in (slice(0, 40), slice(40, 41), slice(41, N_ROWS)):
            parts.partial_fit(X[some, ...], y[some], [0, 1, 2], sample_weight=weight[some])
        models.append([library.to_numpy(m.predict_proba(X)) for m in (whole, parts)])
    np.testing.assert_allclose(models[1], models[0], atol=1e-12)


def test_a_class_of_small_weights_beside_one_of_large_ones(rng):
    X, y, w = rows(rng)
    expected = GaussianNB().fit(X, y, sample_weight=w)
    units = np.asarray([1e-150, 1.0, 1e150])
    model = GaussianNB().fit(X, y, sample_weight=units[y] * w)
    np.testing.assert_allclose(model.theta_, expected.theta_, rtol=1e-12)
    np.testing.assert_allclose(model.var_, expected.var_, rtol=1e-12)
    np.testing.assert_allclose(model.class_count_, expected.class_count_ * units)


@pytest.mark.parametrize(
    ("dtype", "unit", "words"),
    [
        (np.float64, 1e307, "float64 cannot hold"),
        (np.float32, 1e200, "float32 cannot hold"),
        (np.float32, 1e-200, "float32 cannot hold"),
    ],
)
def test_sums_that_are_no_numbers_are_refused(rng, dtype, unit, words):
    X, y, w = rows(rng)
    model = GaussianNB()
    with pytest.raises(ValueError, match=words):
        model.fit(X.astype(dtype), y, sample_weight=unit * w)
    assert not hasattr(model, "theta_")
