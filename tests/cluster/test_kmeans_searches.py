"""Searches over k-means give scikit-learn's results, from the same starts, all at once."""

import numpy as np
import pytest
import sklearn.cluster as sk
from sklearn.cluster import kmeans_plusplus
from sklearn.datasets import make_blobs
from sklearn.exceptions import ConvergenceWarning, FitFailedWarning
from sklearn.model_selection import GridSearchCV as TheirSearch
from sklearn.pipeline import make_pipeline as their_pipeline
from sklearn.preprocessing import StandardScaler as TheirScaler

from gpuml import as_sklearn
from gpuml._arrays import device_of
from gpuml.cluster import AgglomerativeClustering, KMeans
from gpuml.inspection import ClusterCurveDisplay
from gpuml.model_selection import GridSearchCV
from gpuml.pipeline import make_pipeline
from gpuml.preprocessing import StandardScaler
from gpuml.solvers import clusters
from gpuml.solvers._near_centres import Rows, run_alone
from gpuml.solvers.clusters import Points, Run, lloyd
from gpuml.solvers.seeds import Draw, plus_plus
from gpuml.testing import array_libraries

X, Y = make_blobs(240, 5, centers=5, cluster_std=2.5, random_state=0)
WEIGHT = np.where(np.arange(240) % 4 == 0, 0.0, np.random.default_rng(0).random(240))
GRID = {"n_clusters": [1, 2, 3, 5, 8, 9]}
PARAMS = {
    "one start": {"random_state": 0},
    "three starts": {"random_state": 0, "n_init": 3},
    "a state": {"random_state": np.random.RandomState(5), "n_init": 2},
    "random rows": {"random_state": 1, "init": "random", "n_init": 2},
    "few iterations": {"random_state": 0, "max_iter": 3, "tol": 0.0},
    "a tolerance": {"random_state": 0, "tol": 0.1},
}
DTYPES = {"float64": 1e-9, "float32": 1e-4}


def searches(params, grid, X, given, y=None, **options):
    """Our search of what was given, and scikit-learn's of NumPy rows."""
    fit = {name: options.pop(name) for name in ("sample_weight",) if name in options}
    ours = GridSearchCV(KMeans(**params), grid, cv=3, return_train_score=True, **options)
    theirs = TheirSearch(sk.KMeans(**params), grid, cv=3, return_train_score=True, **options)
    return ours.fit(given, y, **fit), theirs.fit(X, y, **fit)


def agree(ours, theirs, rtol):
    for name in theirs.cv_results_:
        if name.endswith("_score") and name.startswith("split"):
            np.testing.assert_allclose(
                ours.cv_results_[name], theirs.cv_results_[name], rtol=rtol, err_msg=name
            )
    assert ours.best_params_ == theirs.best_params_


@pytest.mark.pairwise
@pytest.mark.parametrize("params", PARAMS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["equal", "weighted"])
def test_a_search_is_that_of_scikit_learn(params, dtype, weight):
    rows = X.astype(dtype)
    ours, theirs = searches(PARAMS[params], GRID, rows, rows, sample_weight=weight)
    assert str(ours.plan_).endswith("(all candidates together)")
    agree(ours, theirs, DTYPES[dtype])
    ours, theirs = ours.best_estimator_, theirs.best_estimator_
    np.testing.assert_array_equal(ours.labels_, theirs.labels_)
    np.testing.assert_allclose(
        ours.cluster_centers_, theirs.cluster_centers_, rtol=DTYPES[dtype], atol=DTYPES[dtype]
    )
    assert (ours.n_iter_, ours.labels_.dtype) == (theirs.n_iter_, theirs.labels_.dtype)
    assert ours.inertia_ == pytest.approx(theirs.inertia_, rel=DTYPES[dtype])
    np.testing.assert_allclose(ours.transform(rows), theirs.transform(rows), rtol=1e-3)


# Of a GPU sums come in another order, which moves no label of clusters that are apart.
@pytest.mark.parametrize("library", array_libraries())
def test_rows_of_any_library_are_clustered_where_they_are(library):
    rows = library.asarray(X)
    ours, theirs = searches(PARAMS["three starts"], GRID, X, rows)
    assert str(ours.plan_).endswith("(all candidates together)")
    agree(ours, theirs, 1e-9)
    model = ours.best_estimator_
    assert device_of(model.cluster_centers_) == device_of(rows) == device_of(model.labels_)
    np.testing.assert_array_equal(
        library.to_numpy(model.predict(rows)), theirs.best_estimator_.predict(X)
    )
    assert type(as_sklearn(model)) is sk.KMeans


def test_given_starts_scorers_and_steps_before():
    starts = [X[:3], X[5:8]]
    ours, theirs = searches({"n_clusters": 3}, {"init": starts, "max_iter": [1, 4]}, X, X)
    np.testing.assert_allclose(
        ours.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"]
    )
    ours, theirs = searches(PARAMS["one start"], GRID, X, X, Y, scoring="adjusted_rand_score")
    assert str(ours.plan_).endswith("(all candidates together)")
    agree(ours, theirs, 1e-9)
    grid = {f"kmeans__{name}": values for name, values in GRID.items()}
    ours = GridSearchCV(make_pipeline(StandardScaler(), KMeans(random_state=0)), grid, cv=3).fit(X)
    theirs = TheirSearch(their_pipeline(TheirScaler(), sk.KMeans(random_state=0)), grid, cv=3)
    agree(ours, theirs.fit(X), 1e-9)
    assert "18 fits together on each fold" in str(ours.plan_)


@pytest.mark.parametrize(
    ("params", "why"),
    [
        ({"algorithm": "elkan"}, "algorithm='elkan'"),
        ({"init": lambda X, k, random_state: X[:k]}, "callable init"),
        ({"verbose": 1}, "verbose=1"),
    ],
)
def test_what_is_refused_is_fitted_one_by_one_and_says_why(params, why, capsys):
    search = GridSearchCV(KMeans(**params, n_init=1), {"n_clusters": [2, 3]}, cv=2).fit(X[:20])
    assert why in str(search.plan_)
    assert "one by one" in str(search.plan_)


def test_more_clusters_than_rows_fail_as_alone():
    told = pytest.warns(UserWarning, match="non-finite")
    with told, pytest.warns(FitFailedWarning, match="n_clusters=200"):
        search = GridSearchCV(KMeans(random_state=0), {"n_clusters": [2, 200]}, cv=3).fit(X)
    assert "n_samples=160 should be >= n_clusters=200." in str(search.plan_)
    assert np.isnan(search.cv_results_["mean_test_score"]).tolist() == [False, True]


def test_fewer_distinct_rows_than_clusters_are_told_of():
    rows = np.repeat([[0.0, 1.0], [2.0, 3.0], [5.0, 5.0]], 20, axis=0)
    rows = rows[np.random.default_rng(0).permutation(60)]
    with pytest.warns(ConvergenceWarning, match=r"\(3\) found smaller than n_clusters \(5\)"):
        search = GridSearchCV(KMeans(random_state=0), {"n_clusters": [2, 5]}, cv=2).fit(rows)
    with pytest.warns(ConvergenceWarning):
        theirs = TheirSearch(sk.KMeans(random_state=0), {"n_clusters": [2, 5]}, cv=2).fit(rows)
    found, expected = (s.cv_results_["mean_test_score"] for s in (search, theirs))
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-20)


def test_models_of_a_split_know_nothing_of_its_held_out_rows():
    split = np.arange(160), np.arange(160, 240)
    wild = X.copy()
    wild[160:] = 1e20
    found = [
        GridSearchCV(
            KMeans(random_state=0, n_init=2), GRID, cv=[split], return_train_score=True, refit=False
        ).fit(rows)
        for rows in (X, wild)
    ]
    one, other = (search.cv_results_["mean_train_score"] for search in found)
    np.testing.assert_array_equal(one, other)


# ---------------------------------------------------------------- pictures


@pytest.mark.parametrize("metric", ["inertia", "silhouette", "davies_bouldin"])
def test_curves_are_of_fits_one_by_one(metric):
    pytest.importorskip("matplotlib")
    ks = [2, 3, 5]
    options = {"n_clusters": ks, "metric": metric}
    ours = ClusterCurveDisplay.from_estimator(KMeans(random_state=0), X, **options)
    theirs = ClusterCurveDisplay.from_estimator(sk.KMeans(random_state=0), X, **options)
    np.testing.assert_allclose(ours.values, theirs.values)
    np.testing.assert_array_equal(ours.line_.get_xdata(), ks)
    assert ours.ax_.get_legend().get_texts()[0].get_text() == "KMeans"


def test_curves_of_any_clustering_have_indices():
    pytest.importorskip("matplotlib")
    curve = ClusterCurveDisplay.from_estimator(
        AgglomerativeClustering(), X, n_clusters=[2, 4], metric="silhouette", sample_size=50
    )
    assert curve.values.shape == (2,)
    with pytest.raises(ValueError, match="metric='elbow' is none of inertia"):
        ClusterCurveDisplay.from_estimator(KMeans(), X, metric="elbow")


# ---------------------------------------------------------------- solvers


def problem(rng, n_rows, k, spread=2.0):
    rows = rng.normal(size=(k, 4))[rng.integers(k, size=n_rows)] * spread
    rows += rng.normal(size=(n_rows, 4))
    return rows - rows.mean(axis=0)


@pytest.mark.parametrize("k", [1, 2, 7, 40])
@pytest.mark.parametrize("weighted", [False, True])
def test_rows_that_are_certain_keep_the_label_that_they_have(k, weighted, rng, monkeypatch):
    monkeypatch.setattr("gpuml.solvers._near_centres.TILE_ROWS", 64)
    rows = problem(rng, 500, k)
    weight = np.where(rng.random(500) < 0.3, 0.0, rng.random(500)) if weighted else None
    start = rows[rng.choice(500, k, replace=False)]
    start[-1] = 50.0  # which no row is near to
    run, points = Run(start, 100, 0.0), Points(rows, weight)
    expected = sk.KMeans(k, init=start, n_init=1, tol=0.0, max_iter=100).fit(rows, None, weight)
    for found in (*lloyd(points, [run]), *clusters._together(points, [run])):
        assert found.n_iter == expected.n_iter_
        np.testing.assert_allclose(found.centres, expected.cluster_centers_, atol=1e-9)
        assert found.inertia == pytest.approx(expected.inertia_)
        sizes = np.sort(np.bincount(expected.labels_, minlength=k))
        np.testing.assert_array_equal(found.sizes, sizes)


def test_runs_leave_when_they_are_done(rng):
    points = Points(problem(rng, 300, 4), None)
    starts = [points.X[rng.choice(300, k, replace=False)] for k in (2, 5, 3, 5)]
    runs = [Run(start, n, 0.0) for start, n in zip(starts, (50, 1, 50, 4), strict=True)]
    apart, together = lloyd(points, runs), clusters._together(points, runs)
    assert [each.n_iter for each in apart] == [each.n_iter for each in together]
    for one, other in zip(apart, together, strict=True):
        np.testing.assert_allclose(one.centres, other.centres, atol=1e-12)


@pytest.mark.parametrize("scale", [1e-100, 1e100])
def test_units_do_not_matter(scale, rng):
    rows = problem(rng, 200, 3)
    start = rows[:3]
    plain, scaled = (
        run_alone(Rows.of(rows * unit, None), start * unit, 50, 0.0) for unit in (1.0, scale)
    )
    np.testing.assert_allclose(scaled[0] / scale, plain[0], rtol=1e-9)


def test_rows_far_from_all_others_cost_no_digits(rng):
    rows = problem(rng, 300, 3)
    rows[0] = 1e13
    apart = Rows.of(rows[1:], None)
    expected, *_ = run_alone(apart, rows[1:4], 50, 0.0)
    centres, *_ = run_alone(Rows.of(rows, None), rows[:4], 50, 0.0)
    np.testing.assert_allclose(centres[0], rows[0])
    np.testing.assert_allclose(centres[1:], expected, atol=1e-12)


def test_seeds_are_those_of_scikit_learn(rng):
    rows = problem(rng, 200, 4)
    weight = rng.random(200)
    shares = weight / weight.sum()
    draws, expected = [], []
    for seed, k in enumerate((1, 2, 5, 7, 12)):
        random = np.random.RandomState(seed)
        first = int(random.choice(200, p=shares))
        draws.append(Draw(first, random.uniform(size=(k - 1, 2 + int(np.log(k))))))
        expected.append(kmeans_plusplus(rows, k, sample_weight=weight, random_state=seed)[0])
    for found, theirs in zip(plus_plus(Points(rows, weight), draws), expected, strict=True):
        np.testing.assert_array_equal(found, theirs)
