"""Laws of conjugate gradients for sparse rows: what alphas share, and that it changes no model."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.model_selection import KFold

from gpuml.linear_model import Ridge
from gpuml.model_selection import GridSearchCV
from gpuml.solvers import sparse_ridge

ALPHAS = [0.3, 100.0, 3.0, 30.0]


def rows(n, p, seed=0):
    """Features of about the same spread, as many that moments are not taken."""
    rng = np.random.default_rng(seed)
    X = sparse.random(
        n, p, density=0.03, random_state=seed, format="csr", data_rvs=rng.standard_normal
    )
    return X, X @ rng.normal(size=p) + rng.normal(size=n), rng.integers(1, 3, n).astype(float)


@pytest.fixture
def products(monkeypatch):
    """How many products of the rows there are."""
    counted = []
    times = sparse_ridge.times
    monkeypatch.setattr(
        sparse_ridge, "times", lambda X, B: (counted.append(B.shape[1]), times(X, B))[1]
    )
    return counted


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shape", [(600, 1200), (2400, 1200)])
def test_all_alphas_take_as_many_products_as_the_smallest_and_give_the_same_models(
    shape, weighted, products
):
    X, y, weight = rows(*shape)
    weight = weight if weighted else None

    def search(alphas):
        products.clear()
        grid = {"alpha": alphas, "fit_intercept": [True]}
        found = GridSearchCV(Ridge(), grid, cv=3, refit=False)
        found.fit(X, y, **({} if weight is None else {"sample_weight": weight}))
        return found.cv_results_["mean_test_score"], list(products)

    one_by_one = [search([alpha]) for alpha in ALPHAS]
    together, count = search(ALPHAS)
    np.testing.assert_allclose(together, [score[0] for score, _ in one_by_one], rtol=1e-8)
    # A few more for a look at the models, and a step of one of them.
    assert len(count) <= 1.25 * max(len(each) for _, each in one_by_one) + 12
    assert sum(count) <= 0.7 * sum(sum(each) for _, each in one_by_one)


def test_targets_with_alphas_of_their_own_have_the_models_of_dense_rows():
    X, y, _ = rows(600, 1200)
    Y = np.stack([y, y[::-1]], axis=1)
    model = Ridge(alpha=[0.5, 20.0]).fit(X, Y)
    dense = Ridge(alpha=[0.5, 20.0]).fit(X.toarray(), Y)
    np.testing.assert_allclose(model.coef_, dense.coef_, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("alphas", [[1.0], [1.0, 10.0]])
def test_models_that_are_only_scored_stop_where_no_score_shows_more(alphas):
    X, y, _ = rows(600, 1200)
    splits = list(KFold(3).split(X))
    search = GridSearchCV(Ridge(), {"alpha": alphas}, cv=splits, refit=False).fit(X, y)
    dense = GridSearchCV(Ridge(), {"alpha": alphas}, cv=splits, refit=False).fit(X.toarray(), y)
    fitted = [Ridge(alpha=1.0).fit(X[train], y[train]).n_iter_ for train, _ in splits]
    (step,) = search.plan_.steps
    assert step.n_passes < 2 * max(fitted)
    for s in range(3):
        name = f"split{s}_test_score"
        np.testing.assert_allclose(search.cv_results_[name], dense.cv_results_[name], atol=1e-9)
