"""What sweeps of second moments have to give: the least squares of the features that are in."""

import numpy as np
import pytest

from gpuml.data import whole
from gpuml.linear_model import Ridge
from gpuml.linear_model._base import describe_rows
from gpuml.solvers.described import all_rows
from gpuml.solvers.swept import Swept


@pytest.fixture
def rows(rng):
    X = rng.normal(size=(80, 7)) @ rng.normal(size=(7, 7)) + 100.0
    return X, X[:, :3] @ rng.normal(size=(3, 2)) + rng.normal(size=(80, 2))


def swept(X, y, alpha, fit_intercept):
    model = Ridge(alpha, fit_intercept=fit_intercept)
    folds = whole(model.multifit_batch(X, y))
    found = describe_rows(model, folds, by_features=True)
    return Swept.of(found.combined(all_rows(folds)), alpha, fit_intercept=fit_intercept)


def assert_fitted(coef, intercept, used, X, y, alpha, fit_intercept):
    expected = Ridge(alpha, fit_intercept=fit_intercept, solver="cholesky").fit(X[:, used], y)
    np.testing.assert_allclose(coef[:, used], expected.coef_, rtol=1e-8)
    assert not coef[:, ~used].any()
    np.testing.assert_allclose(intercept, expected.intercept_, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("alpha", [0.0, 3.0])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_every_order_of_sweeps_gives_the_models_of_what_is_in(rows, alpha, fit_intercept, rng):
    X, y = rows
    models = swept(X, y, alpha, fit_intercept)
    for j in rng.integers(0, 7, 8):
        models.flip(np.array([j]))
        used = models.used[0]
        if used.any():
            coef, intercept = (found[0] for found in models.models())
            assert_fitted(coef, intercept, used, X, y, alpha, fit_intercept)
        # One feature more or less, of each, without the sweep.
        more, level = models.flipped(np.arange(7))
        for k in range(7):
            flipped = used ^ (np.arange(7) == k)
            if flipped.any():
                assert_fitted(more[k, 0], level[k, 0], flipped, X, y, alpha, fit_intercept)


def test_all_features_at_once_are_as_one_by_one(rows):
    at_once, one_by_one = (swept(*rows, 0.5, fit_intercept=True) for _ in range(2))
    assert at_once.use_all()
    for j in range(7):
        one_by_one.flip(np.array([j]))
    np.testing.assert_allclose(
        at_once.matrix[:, :7], one_by_one.matrix[:, :7], rtol=1e-8, atol=1e-10
    )


def test_pivots_are_shares_that_other_features_leave(rows):
    X, y = rows
    X[:, 6] = X[:, 0] + 1e-3 * X[:, 6]
    models = swept(X, y, 0.0, fit_intercept=True)
    np.testing.assert_allclose(models.pivots, 1.0)
    models.flip(np.array([6]))
    centred = X - X.mean(axis=0)
    b, a = centred[:, 6], centred[:, 0]
    share = 1.0 - (a @ b) ** 2 / (a @ a) / (b @ b)
    np.testing.assert_allclose(models.pivots[0, 0], share, rtol=1e-4)
    X[:, 6] = X[:, 0]
    assert not swept(X, y, 0.0, fit_intercept=True).use_all()


@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_an_inverse_whose_diagonal_is_zero_leaves_no_pivot(rows, zero):
    models = swept(*rows, 0.5, fit_intercept=True)
    models.use_all()
    models.matrix[0, 2, 2] = zero
    assert models.pivots[0, 2] == 0.0


def test_models_do_not_need_what_is_never_taken_in_again(rows):
    X, y = rows
    wide = Swept.joined([swept(X, y, 1.0, True), swept(X[::2], y[::2], 1.0, True)])
    for j in ([2, 4], [5, 0], [1, 1], [3, 6]):
        wide.flip(np.asarray(j))
    kept = np.asarray([[1, 2, 3, 5], [0, 1, 4, 6]])
    narrow, out = wide.narrowed(kept), np.asarray([1, 2])  # the second and the third of them
    wide.flip(kept[[0, 1], out])
    narrow.flip(out)
    coef, intercept = narrow.models()
    expected, level = wide.models()
    every = np.take_along_axis(expected, kept[:, None, :], axis=-1)
    np.testing.assert_allclose(coef, every, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(intercept, level, rtol=1e-10, atol=1e-12)
    assert np.count_nonzero(coef) == np.count_nonzero(expected)
