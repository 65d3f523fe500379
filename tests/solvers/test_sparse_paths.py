"""Paths of sparse models on a CPU: optimal to rounding, from H or from rows, at small cost."""

import numpy as np
import pytest
import sklearn.linear_model as sk
from sklearn.exceptions import ConvergenceWarning

from gpuml.data import whole
from gpuml.linear_model import ElasticNet, ElasticNetCV, LassoCV
from gpuml.penalties import Penalty
from gpuml.solvers import _path_sources
from gpuml.solvers._bordered import Bordered
from gpuml.solvers._path_sources import OfMatrix, OfRows
from gpuml.solvers.lasso import Penalties
from gpuml.solvers.row_paths import may_follow, solve_rows
from gpuml.solvers.sparse_paths import follow


def centred(rng, n, p, mix=0.0):
    X = rng.normal(size=(n, p)) * (1 - mix) + mix * rng.normal(size=(n, 1))
    y = X[:, :5] @ rng.normal(size=5) + rng.normal(size=n)
    return X - X.mean(axis=0), y - y.mean()


def sources(X, y):
    n = len(y)
    return OfRows(X, y, n, np.sqrt((X**2).mean(axis=0))), OfMatrix(X.T @ X / n, X.T @ y / n)


def penalties(X, y, ratio, count=12, smallest=1e-3):
    top = np.abs(X.T @ y).max() / len(y)
    alpha = np.geomspace(top, top * smallest, count)
    return alpha * ratio, alpha * (1 - ratio)


def violations(X, y, path, l1, l2):
    """Of the conditions, where features have a mean square of 1, relative to the largest of g."""
    scale = np.sqrt((X**2).mean(axis=0))
    slopes = (path.v @ X.T - y) @ X / len(y) + l2[:, None] * path.v
    found = Penalty(l1[:, None], 0.0).violation(path.v, slopes, np)[:, scale > 0]
    size = np.abs(X.T @ y / len(y))[scale > 0] / scale[scale > 0]
    return (found / scale[scale > 0]).max(axis=1) / size.max()


def spoilt(X, kind):
    """Columns that make trouble."""
    X = X.copy()
    if kind == "tied":
        X[:, 1::2] = X[:, ::2]
    if kind == "constant":
        X[:, ::3] = 0.0
    if kind == "units":
        X *= np.geomspace(1e-6, 1e6, X.shape[1])
    return X


@pytest.mark.pairwise
@pytest.mark.parametrize("shape", [(60, 30), (300, 270), (40, 200), (30, 300)])
@pytest.mark.parametrize("ratio", [0.5, 1.0])
@pytest.mark.parametrize("mix", [0.0, 0.9])
@pytest.mark.parametrize("kind", ["plain", "tied", "constant", "units"])
def test_every_model_of_a_path_is_optimal_to_rounding(rng, shape, ratio, mix, kind):
    X, y = centred(rng, *shape, mix)
    X = spoilt(X, kind)
    l1, l2 = penalties(X, y, ratio, count=6)
    for source in sources(X, y):
        path = follow(source, l1, l2, tol=1e-12, max_iter=10_000)
        assert violations(X, y, path, l1, l2).max() < 1e-11
        assert path.violation.max() < 1e-11
        np.testing.assert_allclose(path.slopes, (y - path.v @ X.T) @ X / len(y), atol=1e-9 * l1[0])
        assert (path.n_iter[1:] > 0).all()


@pytest.mark.parametrize("shape", [(60, 30), (50, 400)])
def test_a_path_is_its_models(rng, shape):
    X, y = centred(rng, *shape)
    l1, l2 = penalties(X, y, 0.7, smallest=0.01)
    path = follow(sources(X, y)[0], l1, l2, tol=1e-12, max_iter=1000)
    for c in (3, 11):
        alone = follow(sources(X, y)[1], l1[c : c + 1], l2[c : c + 1], tol=1e-12, max_iter=1000)
        np.testing.assert_allclose(path.v[c], alone.v[0], atol=1e-9)
    # From where they are, none takes an iteration; from elsewhere, all get there.
    again = follow(sources(X, y)[0], l1, l2, path.v, tol=1e-11, max_iter=1000)
    assert not again.n_iter.any()
    np.testing.assert_array_equal(again.v, path.v)
    away = rng.normal(size=path.v.shape)
    found = follow(sources(X, y)[0], l1, l2, away, tol=1e-12, max_iter=1000)
    np.testing.assert_allclose(found.v, path.v, atol=1e-9)


@pytest.mark.parametrize("shape", [(60, 30), (50, 400)])
@pytest.mark.parametrize("most", [1, 2, 7])
def test_no_model_takes_more_iterations_than_it_may(rng, shape, most):
    X, y = centred(rng, *shape)
    l1, l2 = penalties(X, y, 1.0)
    path = follow(sources(X, y)[0], l1, l2, tol=1e-12, max_iter=most)
    assert path.n_iter.max() == most
    np.testing.assert_allclose(path.violation, violations(X, y, path, l1, l2), atol=1e-12)


def test_moments_of_few_features_are_made(rng, monkeypatch):
    """And systems are factored anew for a small part of the models only."""
    X, y = centred(rng, 100, 3000)
    joined, factored = [], []
    join, factor = OfRows.join, Bordered._factor
    monkeypatch.setattr(OfRows, "join", lambda s, new: joined.append(len(new)) or join(s, new))
    monkeypatch.setattr(Bordered, "_factor", lambda *args: factored.append(1) or factor(*args))
    l1, l2 = penalties(X, y, 1.0, count=100, smallest=0.05)
    path = follow(sources(X, y)[0], l1, l2, tol=1e-12, max_iter=1000)
    assert sum(joined) < 4 * np.count_nonzero((path.v != 0).any(axis=0)) < 1000
    assert len(factored) < 40


def test_features_that_move_as_one_take_a_few_systems_a_model(rng):
    """Of signs that follow from those of the model before; sweeps would take hundreds."""
    X, y = centred(rng, 60, 300, mix=0.95)
    l1, l2 = penalties(X, y, 1.0, count=30)
    for source in sources(X, y):
        path = follow(source, l1, l2, tol=1e-12, max_iter=10_000)
        assert violations(X, y, path, l1, l2).max() < 1e-11
        assert path.n_iter.mean() < 10


@pytest.mark.parametrize("seed", [0, 1])
def test_as_many_features_as_rows_take_a_few_systems_a_model(monkeypatch, seed):
    """Who comes then takes another's place: sets of more than there can be are not tried."""
    factored, factor = [], Bordered._factor
    monkeypatch.setattr(Bordered, "_factor", lambda *args: factored.append(1) or factor(*args))
    X, y = centred(np.random.default_rng(seed), 100, 1000)
    l1, l2 = penalties(X, y, 1.0, count=100, smallest=1e-4)
    source = OfRows(X, y, len(y), np.sqrt((X**2).mean(axis=0)), rank=len(y) - 1)
    path = follow(source, l1, l2, tol=1e-12, max_iter=10_000)
    assert violations(X, y, path, l1, l2).max() < 1e-11
    full = np.count_nonzero(path.v, axis=1) >= len(y) - 3
    assert full.sum() > 30
    assert path.n_iter[full].mean() < 4
    assert len(factored) < 25


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("ratio", [0.5, 1.0])
def test_one_weak_penalty_is_as_near_as_the_last_of_a_path(seed, ratio):
    X, y = centred(np.random.default_rng(seed), 60, 800, mix=0.3)
    l1, l2 = penalties(X, y, ratio, count=1, smallest=1.0)
    source, _ = sources(X, y)
    path = follow(source, 1e-3 * l1, 1e-3 * l2, tol=1e-9, max_iter=1000)
    assert path.violation[0] <= 1e-9
    assert path.n_iter[0] < 500


def test_more_features_than_a_working_set_may_have(rng, monkeypatch):
    monkeypatch.setattr(_path_sources, "MOST_COLUMNS", 50)
    X, y = centred(rng, 100, 400)
    with pytest.raises(MemoryError, match="More than 50 of 400 features"):
        follow(sources(X, y)[0], *penalties(X, y, 0.5), tol=1e-12, max_iter=1000)


@pytest.mark.parametrize("l2", [0.0, 0.3])
def test_systems_of_sets_that_change_are_those_of_each_set(rng, l2):
    X = rng.normal(size=(200, 60))
    Q, systems = X.T @ X / 200, Bordered()
    mask = np.arange(40) < 25
    for step in range(40):
        k = 40 if step < 20 else 60  # coordinates that there were not
        mask = np.pad(mask, (0, k - len(mask)))
        mask[rng.integers(k, size=3)] ^= True
        rhs = rng.normal(size=k)
        found, dependent = systems.solve(Q[:k, :k], l2, mask, rhs)
        assert dependent is None
        A = np.flatnonzero(mask)
        expected = np.linalg.solve(Q[np.ix_(A, A)] + l2 * np.eye(len(A)), rhs[A])
        np.testing.assert_allclose(found[A], expected, rtol=1e-9, atol=1e-12)
        assert not found[~mask].any()


@pytest.mark.parametrize("l2", [1e-9, 1e-4, 0.3, 1e3])
@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_systems_of_many_more_coordinates_than_rows_are_those_of_rows(rng, l2, scale, monkeypatch):
    factored, factor = [], Bordered._factor
    monkeypatch.setattr(Bordered, "_factor", lambda *args: factored.append(1) or factor(*args))
    X = scale * rng.normal(size=(12, 60))
    Q, systems = X.T @ X / 12, Bordered(lambda: (X.T, 12.0))
    mask = rng.random(60) < 0.7
    rhs = rng.normal(size=60)
    found, dependent = systems.solve(Q, l2, mask, rhs)
    # Where little is added to the diagonal, rows would lose digits.
    assert bool(factored) == (np.trace(Q[np.ix_(mask, mask)]) > 1e7 * l2)
    if dependent is None:
        own = Q[np.ix_(mask, mask)] + l2 * np.eye(mask.sum())
        size = np.linalg.norm(own, 2) * np.linalg.norm(found[mask])
        np.testing.assert_allclose(own @ found[mask], rhs[mask], atol=1e-13 * size + 1e-9)
        assert not found[~mask].any()
    systems.solve(Q, l2, np.arange(60) < 20, rhs)
    assert factored  # a set of fewer coordinates is a matrix again


def test_a_set_whose_columns_depend_on_each_other_is_told(rng):
    X = rng.normal(size=(50, 10)) * np.geomspace(1e-3, 1e3, 10)
    X[:, 8], X[:, 6] = X[:, 0] - 2 * X[:, 3], 3 * X[:, 5]
    Q, mask = X.T @ X, np.arange(10) < 9
    unseen, dependent = Bordered().solve(Q, 0.0, mask, np.ones(10))
    assert unseen.shape == (2, 10)
    assert sorted(np.isin(dependent, [0, 3, 8])) == [False, True]
    np.testing.assert_array_equal(unseen[[0, 1], dependent], 1.0)
    np.testing.assert_allclose(
        X @ unseen.T, 0, atol=1e-9 * np.abs(X[:, dependent]).max(axis=0).min()
    )
    assert not unseen[:, ~mask].any()


def test_twins_are_let_go_together(rng, monkeypatch):
    """Not by a factorisation for each of them."""
    X, y = centred(rng, 150, 120)
    X = np.repeat(X, 3, axis=1)
    factored, factor = [], Bordered._factor
    monkeypatch.setattr(Bordered, "_factor", lambda *args: factored.append(1) or factor(*args))
    l1, l2 = penalties(X, y, 1.0, count=10)
    path = follow(sources(X, y)[1], l1, l2, tol=1e-12, max_iter=1000)
    assert violations(X, y, path, l1, l2).max() < 1e-11
    assert len(factored) < 100


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_rows_of_a_split_are_as_their_moments(rng, fit_intercept, weighted):
    X, y = centred(rng, 40, 300)
    X, y = X + 3, np.c_[y, -y + X[:, 7]] + 1
    w = rng.uniform(0.1, 2, size=40) if weighted else None
    batch = ElasticNet().multifit_batch(X, y, w)
    alpha, ratio = np.asarray([0.5, 2.0, 1.0]), np.asarray([1.0, 1.0, 0.7])
    assert may_follow(batch)
    found = solve_rows(whole(batch), Penalties(alpha, ratio, np.full(3, fit_intercept)), 1000)
    for c in range(3):
        exact = sk.ElasticNet(
            alpha[c], l1_ratio=ratio[c], fit_intercept=fit_intercept, tol=1e-13, max_iter=100_000
        )
        for t in range(2):
            exact.fit(X, y[:, t], w)
            np.testing.assert_allclose(found.coef[c, 0, t], exact.coef_, atol=1e-6)
            np.testing.assert_allclose(found.intercept[c, 0, t], exact.intercept_, atol=1e-5)
    assert found.converged(1e-12).all()


def test_rows_are_not_followed_without_an_l1_part_or_where_squares_overflow(rng):
    X, y = centred(rng, 40, 300)
    one = np.ones(2, dtype=bool)
    batch = whole(ElasticNet().multifit_batch(X, y))
    assert solve_rows(batch, Penalties(np.ones(2), np.asarray([1.0, 0.0]), one), 1000) is None
    huge = whole(ElasticNet().multifit_batch(X * 1e200, y))
    assert solve_rows(huge, Penalties(np.ones(2), np.ones(2), one), 1000) is None


def test_only_rows_of_numpy_are_followed(library, rng):
    X, y = centred(rng, 40, 60)
    batch = ElasticNet().multifit_batch(library.asarray(X), library.asarray(y))
    assert may_follow(batch) == library.name.startswith("numpy")


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [(LassoCV, sk.LassoCV), (ElasticNetCV, sk.ElasticNetCV)],
    ids=["LassoCV", "ElasticNetCV"],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_objectives_are_at_least_as_good_as_those_of_sklearn(rng, ours, theirs):
    """At the same tol, of the chosen model; and held-out errors are those of a tight optimum."""
    X, y = centred(rng, 60, 300)
    found = ours(alphas=8, eps=0.02, cv=3).fit(X, y)
    tight = theirs(alphas=8, eps=0.02, cv=3, tol=1e-10, max_iter=10_000).fit(X, y)
    np.testing.assert_allclose(found.alphas_, tight.alphas_, rtol=1e-10)
    np.testing.assert_allclose(found.mse_path_, tight.mse_path_, rtol=1e-5)
    assert found.alpha_ == pytest.approx(tight.alpha_)
    usual = theirs(alphas=[found.alpha_], cv=3).fit(X, y)

    def objective(model):
        ratio, v = getattr(model, "l1_ratio", 1.0), model.coef_
        loss = np.mean((y - model.predict(X)) ** 2) / 2
        return loss + model.alpha_ * (ratio * np.abs(v).sum() + (1 - ratio) / 2 * (v @ v))

    assert objective(found) <= objective(usual) * (1 + 1e-12)


def test_a_wide_fit_that_is_cut_short_says_so(rng):
    X, y = centred(rng, 100, 600)
    with pytest.warns(ConvergenceWarning, match="max_iter=3"):
        assert ElasticNet(1e-3, max_iter=3).fit(X, y).n_iter_ == 3
