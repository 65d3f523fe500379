"""Parameters that cuML's clusters and forests read otherwise than scikit-learn's, around a fake."""

import warnings

import numpy as np
import pytest
from sklearn import cluster
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.tree import DecisionTreeRegressor

import gpuml
from gpuml._arrays import to_host
from gpuml.adapters import Data
from gpuml.adapters._kmeans import LEAST_TOL, unit
from gpuml.cluster import KMeans
from gpuml.ensemble import RandomForestClassifier, RandomForestRegressor
from gpuml.exceptions import FallbackError

X, Y = load_iris(return_X_y=True)


@pytest.fixture
def device(fake):
    """Host rows go to the device, however few they are."""
    with gpuml.config_context(device="cuda", fallback="error"):
        yield fake


def kmeans(**params):
    return KMeans(3, n_init=2, random_state=0, **params)


# ---------------------------------------------------------------- k-means


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("tol", [0.0, 1e-4, 0.05, 1e6])
def test_units_change_no_result(device, tol, dtype):
    for rows in (X, 1e3 * X, 1e-6 * X):
        rows = rows.astype(dtype)
        start = rows[[0, 60, 120]]
        model = KMeans(3, tol=tol, init=start).fit(rows)
        oracle = cluster.KMeans(3, tol=tol, init=start).fit(rows)
        assert model.n_iter_ >= oracle.n_iter_
        # The same way, perhaps a few steps further.
        oracle = cluster.KMeans(3, tol=0.0, init=start, max_iter=model.n_iter_).fit(rows)
        rtol = 1e-10 if dtype == "float64" else 1e-5
        np.testing.assert_allclose(model.cluster_centers_, oracle.cluster_centers_, rtol=rtol)
        np.testing.assert_array_equal(model.labels_, oracle.labels_)
        assert model.inertia_ == pytest.approx(oracle.inertia_, rel=rtol)
        assert model.n_iter_ == oracle.n_iter_
        np.testing.assert_allclose(model.transform(rows), oracle.transform(rows), rtol=1e-4)


@pytest.mark.parametrize("scale", [1e-12, 1e-3, 0.7, 1.0, 3e9])
def test_units_are_powers_of_two(scale):
    assert np.frexp(unit(scale**2))[0] == 0.5
    assert 0.5 <= scale * unit(scale**2) <= 2.0
    assert unit(0.0) == unit(np.inf) == 1.0


def test_rows_of_everyday_units_are_not_multiplied():
    assert [unit(variance) for variance in (0.01, 0.1, 1.0, 17.0, 1e6)] == [1.0] * 5
    assert unit(1e-3) > 1.0 > unit(1e7)


@pytest.mark.parametrize("as_given", [np.asarray, lambda start: start.tolist(), "on_device"])
def test_given_centres_of_any_kind(device, as_given):
    start = X[[0, 60, 120]]
    given = device.on_device(start) if as_given == "on_device" else as_given(start)
    model = KMeans(3, init=given).fit(X)
    oracle = cluster.KMeans(3, init=start).fit(X)
    np.testing.assert_allclose(model.cluster_centers_, oracle.cluster_centers_, rtol=1e-10)
    assert model.init is given


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_neither_the_moves_nor_the_cost_end_a_fit_early(device, scale, monkeypatch):
    seen = []
    fit = device.KMeans.fit
    monkeypatch.setattr(
        device.KMeans, "fit", lambda self, X: seen.append((self.tol, to_host(X))) or fit(self, X)
    )
    kmeans(tol=0.5).fit(scale * X + 3 * scale)
    ((tol, rows),) = seen
    assert 0.25 < rows.var(axis=0).mean() < 4
    assert np.abs(rows.mean(axis=0)).max() < 1e-9
    assert tol == pytest.approx(0.5 * min(rows.var(axis=0).mean(), 1 / (3 * 4)))


def test_rows_that_are_all_the_same_have_a_tolerance(device):
    with pytest.warns(ConvergenceWarning, match=r"distinct clusters \(1\)"):
        model = kmeans().fit(np.ones((9, 2)))  # the fake asks for a positive tol
    assert model.inertia_ == 0.0
    with gpuml.config_context(device="cpu"):
        of_host = kmeans(tol=0.0).fit(X)
    of_host.predict(device.on_device(X))
    assert vars(of_host)["_lifted"][1].model.model.tol == LEAST_TOL


def test_iterations_are_not_more_than_were_allowed(device):
    assert kmeans(max_iter=1, tol=0.0).fit(X).n_iter_ == 1


@pytest.mark.parametrize("start", [X[:2], X[:3, :2], X[:2].tolist()])
def test_centres_of_another_shape(device, start):
    with pytest.raises(ValueError, match="initial centers") as theirs:
        cluster.KMeans(3, init=start, n_init=1).fit(X)
    with pytest.raises(ValueError, match="initial centers") as ours:
        KMeans(3, init=start, n_init=1).fit(X)
    assert str(ours.value) == str(theirs.value)


# ---------------------------------------------------------------- forests


@pytest.mark.parametrize("n_features", [1, 2, 9, 10, 30, 49, 64, 1000])
@pytest.mark.parametrize("given", ["sqrt", "log2", None, 1, 0.3, 1.0, 1e-6])
def test_features_per_split_are_scikit_learns(n_features, given):
    params = {"random_state": 0, "max_features": given}
    share = RandomForestRegressor._row.changes(params, Data(np.zeros((4, n_features))))
    asked = max(1, int(np.float32(share["max_features"]) * np.float32(n_features)))  # cuML's rule
    rows = np.random.default_rng(0).normal(size=(4, n_features))
    tree = DecisionTreeRegressor(max_features=given).fit(rows, rows[:, 0])
    assert asked == tree.max_features_


def test_every_number_of_features_is_asked_for_as_it_is():
    for n_features in range(1, 200):
        data = Data(np.zeros((1, n_features)))
        for n in range(1, n_features + 1):
            params = {"random_state": 0, "max_features": n}
            share = np.float32(RandomForestRegressor._row.changes(params, data)["max_features"])
            assert 0 < share <= 1
            assert int(share * np.float32(n_features)) == n


def test_a_number_is_cumls_seed(device):
    def seed(random_state):
        model = RandomForestClassifier(2, random_state=random_state).fit(X, Y)
        return vars(model)["_fitted"].engine.model.model.random_state

    assert seed(0) == 0
    assert seed(np.int64(7)) == 7
    assert seed(None) != seed(None)
    random = np.random.RandomState(0)
    assert seed(random) != seed(random)


def test_nan_and_inf_in_rows_of_a_device(device):
    """Of rows that may hold nan: inf is an error, nan is scikit-learn's work."""
    model = RandomForestClassifier(2, random_state=0).fit(X, Y)
    with_nan, with_inf = (np.where(X > 6, value, X) for value in (np.nan, np.inf))
    for call in (model.predict, lambda rows: RandomForestClassifier(2).fit(rows, Y)):
        with pytest.raises(ValueError, match="infinity"):
            call(device.on_device(with_inf))
        with pytest.raises(FallbackError, match="nan in X"):
            call(device.on_device(with_nan))


def test_nobody_hears_that_treelite_is_newer(device):
    """Under filters that make errors of warnings, as in these tests; others are still heard."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            RandomForestClassifier(n_estimators=2).fit(X, Y)
        with pytest.raises(UserWarning, match="something else"):
            warnings.warn("something else", UserWarning, stacklevel=1)
        before = list(warnings.filters)
        RandomForestClassifier(n_estimators=2).fit(X, Y)
        assert warnings.filters == before


@pytest.mark.parametrize(
    ("params", "reason"),
    [
        ({"max_leaf_nodes": 9}, "max_leaf_nodes=9"),
        ({"min_impurity_decrease": 0.1}, "min_impurity_decrease=0.1"),
        ({"class_weight": "balanced"}, "class_weight='balanced' with sample_weight"),
    ],
)
def test_what_cuml_means_otherwise_is_scikit_learns(device, params, reason):
    model, weight = RandomForestClassifier(2, random_state=0, **params), np.ones(150)
    with pytest.raises(FallbackError, match=f"cuML has no {reason}"):
        model.fit(X, Y, sample_weight=weight)
    with gpuml.config_context(fallback="silent"):
        proba = model.fit(X, Y, sample_weight=weight).predict_proba(X)
    oracle = model._row.sk(**model.get_params()).fit(X, Y, sample_weight=weight)
    np.testing.assert_array_equal(proba, oracle.predict_proba(X))


def test_balanced_classes_of_rows_without_weights_are_cumls(device):
    model = RandomForestClassifier(2, class_weight="balanced").fit(X, Y)
    assert vars(model)["_fitted"].engine is not None
