"""Gaussian mixtures are scikit-learn's, in single fits and in searches, wherever the rows are."""

import warnings
from itertools import pairwise

import numpy as np
import pytest
from sklearn.datasets import make_blobs
from sklearn.exceptions import ConvergenceWarning, FitFailedWarning
from sklearn.mixture import GaussianMixture as Theirs
from sklearn.model_selection import GridSearchCV as TheirSearch
from sklearn.model_selection import KFold

from gpuml import as_sklearn, get_config
from gpuml._arrays import device_of
from gpuml.divided import DividedRows, InProcess, Share
from gpuml.divided.fitting import fit_divided
from gpuml.inspection import ClusterCurveDisplay
from gpuml.mixture import GaussianMixture
from gpuml.mixture import _starts as mixtures_starts
from gpuml.mixture._starts import Shares
from gpuml.model_selection import GridSearchCV
from gpuml.pipeline import make_pipeline
from gpuml.preprocessing import StandardScaler
from gpuml.resampling.atoms import make_folds
from gpuml.resampling.split import split_rows
from gpuml.solvers import mixtures
from gpuml.solvers._mixture_kinds import Full, kind_of
from gpuml.solvers._mixture_space import Space, matrix
from gpuml.testing import array_libraries

X, _ = make_blobs(180, 3, centers=4, cluster_std=2.0, random_state=0)
TYPES = ["full", "tied", "diag", "spherical"]
STARTS = ["kmeans", "k-means++", "random", "random_from_data"]
GRID = {"n_components": [1, 3], "covariance_type": TYPES}
ARRAYS = ("weights_", "means_", "covariances_", "precisions_", "precisions_cholesky_")
EXACT = {"rtol": 1e-7, "atol": 1e-9}


def same(found, expected, library=None, **tolerances):
    """Fitted attributes agree."""
    for name in ARRAYS:
        given = getattr(found, name)
        given = given if library is None else library.to_numpy(given)
        tolerance = tolerances or EXACT
        np.testing.assert_allclose(given, getattr(expected, name), err_msg=name, **tolerance)
    for name in ("converged_", "n_iter_"):
        assert getattr(found, name) == getattr(expected, name), name
    np.testing.assert_allclose(found.lower_bounds_, expected.lower_bounds_, rtol=1e-6)
    assert found.lower_bound_ == pytest.approx(expected.lower_bound_, rel=1e-6)


def agree(ours, theirs, rtol=1e-9):
    """Results of searches agree."""
    for name in theirs.cv_results_:
        if name.startswith("split"):
            np.testing.assert_allclose(
                ours.cv_results_[name], theirs.cv_results_[name], rtol=rtol, err_msg=name
            )
    assert ours.best_params_ == theirs.best_params_


# ---------------------------------------------------------------- single fits


@pytest.mark.pairwise
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("library", array_libraries())
def test_a_mixture_is_that_of_scikit_learn(kind, start, library):
    params = {"covariance_type": kind, "init_params": start, "random_state": 0}
    expected = Theirs(3, **params).fit(X)
    rows = library.asarray(X)
    model = GaussianMixture(3, **params).fit(rows)
    same(model, expected, library)
    assert device_of(model.means_) == device_of(rows)
    for name in ("predict", "predict_proba", "score_samples"):
        found = getattr(model, name)(rows)
        assert device_of(found) == device_of(rows)
        np.testing.assert_allclose(library.to_numpy(found), getattr(expected, name)(X), **EXACT)
    for name in ("score", "aic", "bic"):
        assert getattr(model, name)(rows) == pytest.approx(getattr(expected, name)(X), rel=1e-9)
    found, labels = (library.to_numpy(a) for a in model.sample(20))
    rows, expected_labels = expected.sample(20)
    np.testing.assert_allclose(found, rows, rtol=1e-6)
    np.testing.assert_array_equal(labels, expected_labels)


@pytest.mark.parametrize("kind", TYPES)
def test_float32_rows_have_float32_models_of_float64_sums(kind):
    rows = X.astype(np.float32)
    params = {"covariance_type": kind, "random_state": 0, "n_components": 3}
    model, expected = GaussianMixture(**params).fit(rows), Theirs(**params).fit(rows.astype(float))
    same(model, expected, rtol=1e-4, atol=1e-5)
    for values in (model.means_, model.covariances_, model.predict_proba(rows)):
        assert values.dtype == np.float32
    assert model.score(rows) == pytest.approx(expected.score(rows.astype(float)), rel=1e-6)


@pytest.mark.parametrize("kind", TYPES)
def test_starts_that_are_given_are_used(kind):
    first = Theirs(2, covariance_type=kind, random_state=0, max_iter=2, tol=0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        first.fit(X)
    given = {
        "weights_init": first.weights_,
        "means_init": first.means_,
        "precisions_init": first.precisions_,
    }
    for names in (list(given), ["means_init"], ["precisions_init"]):
        params = {name: given[name] for name in names}
        params |= {"covariance_type": kind, "random_state": 1, "n_components": 2}
        same(GaussianMixture(**params).fit(X), Theirs(**params).fit(X))
    none = GaussianMixture(2, covariance_type=kind, max_iter=0, **given).fit(X)
    np.testing.assert_allclose(none.means_, first.means_)
    np.testing.assert_allclose(none.covariances_, first.covariances_, rtol=1e-9)
    assert (none.n_iter_, none.converged_, none.lower_bound_) == (0, False, -np.inf)


def test_a_warm_start_goes_on_from_the_last_fit():
    params = {"n_components": 3, "random_state": 0, "warm_start": True, "max_iter": 3, "tol": 1e-8}
    ours, theirs = GaussianMixture(**params), Theirs(**params)
    for _ in range(3):
        with pytest.warns(ConvergenceWarning, match="did not converge"):
            ours.fit(X)
        with pytest.warns(ConvergenceWarning):
            theirs.fit(X)
        same(ours, theirs)


@pytest.mark.parametrize("kind", ["full", "tied", "diag", "spherical"])
def test_a_warm_start_needs_a_model_of_the_same_kind_and_features(kind):
    model = GaussianMixture(3, covariance_type=kind, warm_start=True, random_state=0).fit(X)
    before = model.means_
    with pytest.raises(ValueError, match=f"but X has {X.shape[1] - 1} features"):
        model.fit(X[:, 1:])
    other = "diag" if kind == "full" else "full"
    with pytest.raises(ValueError, match=f"covariance_type is '{other}'"):
        model.set_params(covariance_type=other).fit(X)
    assert model.means_ is before
    model.set_params(covariance_type=kind).fit(X)


def test_what_is_printed_is_what_scikit_learn_prints(capsys):
    printed = []
    for kind in (GaussianMixture, Theirs):
        kind(3, verbose=1, verbose_interval=2, n_init=2, random_state=0).fit(X)
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]


# ---------------------------------------------------------------- digits


def spiked(unit):
    """Rows in large units, of which two clusters are a point each, and one is flat."""
    rng = np.random.default_rng(0)
    flat = rng.normal(size=(60, 4)) @ np.diag([1.0, 1.0, 1.0, 1e-6])
    points = np.repeat(rng.normal(size=(2, 4)) * 5, 20, axis=0)
    return np.r_[flat, points, rng.normal(size=(60, 4)) + 8] * unit + 3 * unit


@pytest.mark.parametrize(
    ("unit", "kind"), [(1.0, "full"), (1e4, "full"), (1.0, "diag"), (1.0, "spherical")]
)
@pytest.mark.parametrize("start", ["kmeans", "k-means++"])
def test_components_far_smaller_than_the_rows_keep_their_digits(unit, kind, start):
    rows = spiked(unit)
    params = {"covariance_type": kind, "init_params": start, "random_state": 0}
    ours = GaussianMixture(4, **params).fit(rows)
    theirs = Theirs(4, **params).fit(rows)
    assert ours.n_iter_ == theirs.n_iter_
    np.testing.assert_allclose(ours.means_, theirs.means_, rtol=1e-9)
    for found, expected in zip(ours.covariances_, theirs.covariances_, strict=True):
        scale = np.abs(expected).max()
        np.testing.assert_allclose(found / scale, expected / scale, atol=1e-6)
    assert ours.score(rows) == pytest.approx(theirs.score(rows), rel=1e-7)


@pytest.mark.parametrize("kind", ["diag", "spherical"])
def test_points_in_large_units_have_the_variance_that_is_added(kind):
    """Of squares of rows that are not centred, as scikit-learn takes them, nothing is left."""
    rows = spiked(1e4)
    model = GaussianMixture(4, covariance_type=kind, random_state=0).fit(rows)
    points = sorted(np.min(each) for each in model.covariances_)[:2]
    np.testing.assert_allclose(points, 1e-6, rtol=0.2)
    with pytest.raises(ValueError, match="ill-defined"):
        Theirs(4, covariance_type=kind, random_state=0).fit(rows)


@pytest.mark.parametrize("n_features", [2, 9])
def test_products_of_pairs_and_differences_to_means_say_the_same(n_features):
    rows, _ = make_blobs(150, n_features, centers=3, random_state=1)
    space = Space.of(matrix(rows), turned=True, least_reg=1e-6)
    shares = np.random.default_rng(0).dirichlet(np.ones(3), 150).T
    found = []
    for wide in (False, True):
        kind = Full(n_features, wide=wide)
        kind.of_components = lambda n_components, place, kind=kind: kind
        first = mixtures.begun(kind, space, [Shares(shares)], [1e-6], 2e-16, complete=True)
        run = mixtures.Run(first.weights, first.means, first.covariances, 1e-6, 1e-3, 20)
        [end] = mixtures.expectation_maximisation(kind, space, [run], 2e-16)
        found.append(end)
    np.testing.assert_allclose(found[0].bounds, found[1].bounds, rtol=1e-12)
    np.testing.assert_allclose(found[0].covariances, found[1].covariances, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", TYPES)
def test_many_runs_are_each_what_it_is_alone(kind, monkeypatch, rng):
    monkeypatch.setattr(mixtures, "HOST_TILE_BYTES", 1)  # tiles of the fewest rows
    monkeypatch.setattr(mixtures, "LEAST_TILE", 64)
    turned = kind in ("full", "tied")
    space, kind = Space.of(matrix(X), turned=turned, least_reg=1e-6), kind_of(kind, 3)
    sizes = [1, 2, 2, 4]
    starts = [Shares(rng.dirichlet(np.ones(k), len(X)).T) for k in sizes]
    begun = mixtures.begun(kind, space, starts, [1e-6] * 4, 2e-16, complete=True)
    each = [kind.taken(begun, np.asarray([r])) for r in range(4)]
    runs = [mixtures.Run(c.weights, c.means, c.covariances, 1e-6, 1e-4, 30) for c in each]
    together = mixtures.expectation_maximisation(kind, space, runs, 2e-16)
    for run, end in zip(runs, together, strict=True):
        [alone] = mixtures.expectation_maximisation(kind, space, [run], 2e-16)
        np.testing.assert_allclose(end.bounds, alone.bounds, rtol=1e-10)
        np.testing.assert_allclose(end.means, alone.means, rtol=1e-7, atol=1e-9)
        assert end.converged == alone.converged
        assert all(np.diff(end.bounds) > -1e-10)  # each step raises the likelihood


@pytest.mark.parametrize("kind", TYPES)
def test_variances_of_nothing_are_refused(kind):
    rows = np.repeat([[0.0, 0.0], [1.0, 1.0]], 20, axis=0)
    params = {"covariance_type": kind, "reg_covar": 0.0, "random_state": 0}
    with pytest.raises(ValueError, match="ill-defined empirical covariance"):
        GaussianMixture(2, **params).fit(rows)


# ---------------------------------------------------------------- searches


@pytest.mark.pairwise
@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("seed", [0, np.random.RandomState(3)], ids=["seed", "state"])
@pytest.mark.parametrize("library", array_libraries())
def test_a_search_is_that_of_scikit_learn(start, seed, library):
    params = {"init_params": start, "random_state": seed, "n_init": 2}
    options = {"cv": 3, "return_train_score": True}
    ours = GridSearchCV(GaussianMixture(**params), GRID, **options).fit(library.asarray(X))
    theirs = TheirSearch(Theirs(**params), GRID, **options).fit(X)
    assert str(ours.plan_).endswith("(all candidates together)")
    agree(ours, theirs)
    # Starts that come to the same mixture in another order are as good as each other.
    assert ours.best_estimator_.lower_bound_ == pytest.approx(theirs.best_estimator_.lower_bound_)
    assert type(as_sklearn(ours.best_estimator_)) is Theirs


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("seed", range(6))
def test_more_starts_are_no_worse_than_the_first(seed):
    params = {"n_components": 4, "max_iter": 1, "random_state": seed}
    few, many = (GaussianMixture(n_init=n, **params).fit(X).lower_bound_ for n in (1, 10))
    assert many >= few - 1e-13 * abs(few)


def test_starts_tolerances_and_steps_before_are_candidates_too():
    grid = {"tol": [1e-1, 1e-3], "reg_covar": [1e-6, 0.1], "means_init": [None, X[:2], X[5:7]]}
    params = {"n_components": 2, "random_state": 0}
    ours = GridSearchCV(GaussianMixture(**params), grid, cv=2).fit(X)
    theirs = TheirSearch(Theirs(**params), grid, cv=2).fit(X)
    assert "together" in str(ours.plan_)
    scores = (s.cv_results_["mean_test_score"] for s in (ours, theirs))
    np.testing.assert_allclose(*scores, rtol=1e-9)
    pipe = make_pipeline(StandardScaler(), GaussianMixture(random_state=0))
    grid = {f"gaussianmixture__{name}": values for name, values in GRID.items()}
    search = GridSearchCV(pipe, grid, cv=2).fit(X)
    assert "16 fits together on each fold" in str(search.plan_)


def test_models_of_a_split_know_nothing_of_its_held_out_rows():
    split = np.arange(120), np.arange(120, 180)
    wild = X.copy()
    wild[120:] = 1e20
    options = {"cv": [split], "return_train_score": True, "refit": False}
    scores = [
        GridSearchCV(GaussianMixture(random_state=0), GRID, **options)
        .fit(rows)
        .cv_results_["mean_train_score"]
        for rows in (X, wild)
    ]
    np.testing.assert_array_equal(*scores)


def test_candidates_that_cannot_be_fitted_fail_alone():
    told = pytest.warns(UserWarning, match="non-finite")
    with told, pytest.warns(FitFailedWarning, match="n_components = 200"):
        search = GridSearchCV(
            GaussianMixture(random_state=0), {"n_components": [2, 200]}, cv=3
        ).fit(X)
    assert np.isnan(search.cv_results_["mean_test_score"]).tolist() == [False, True]
    for params, why in [({"verbose": 1}, "verbose=1"), ({"n_components": 0}, "n_components")]:
        search = GridSearchCV(GaussianMixture(**params), {"tol": [0.1]}, cv=2, error_score="raise")
        if "verbose" in params:
            assert why in str(search.fit(X[:30]).plan_)
        else:
            with pytest.raises(ValueError, match=why):
                search.fit(X[:30])


def test_shares_of_starts_are_drawn_once_for_all_types(monkeypatch):
    drawn = []
    of_seeds = mixtures_starts._of_seeds
    monkeypatch.setattr(
        mixtures_starts,
        "_of_seeds",
        lambda points, seeds: drawn.append(len(seeds)) or of_seeds(points, seeds),
    )
    GridSearchCV(GaussianMixture(random_state=0, n_init=2), GRID, cv=2, refit=False).fit(X)
    assert drawn == [4, 4]  # two numbers of components, two starts


# ---------------------------------------------------------------- pictures


@pytest.mark.parametrize("metric", ["bic", "aic", "silhouette"])
def test_curves_are_of_fits_one_by_one(metric):
    pytest.importorskip("matplotlib")
    options = {"n_clusters": [2, 3, 5], "metric": metric}
    ours = ClusterCurveDisplay.from_estimator(GaussianMixture(random_state=0), X, **options)
    theirs = ClusterCurveDisplay.from_estimator(Theirs(random_state=0), X, **options)
    np.testing.assert_allclose(ours.values, theirs.values)
    of_components = metric != "silhouette"
    assert ours.ax_.get_xlabel() == (
        "number of components" if of_components else "number of clusters"
    )


# ---------------------------------------------------------------- divided rows


def in_shares(rows, ends=(60, 61, 150)):
    """Rows, divided over holders in this process."""
    cuts = [0, *ends, len(rows)]
    shares = [Share(rows[i:j]) for i, j in pairwise(cuts)]
    sizes = tuple(int(n) for n in np.diff(cuts))
    return DividedRows(InProcess(shares), sizes, rows.shape[1], get_config())


@pytest.mark.pairwise
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_divided_rows_have_the_same_mixture(kind, start, dtype):
    rows = X.astype(dtype)
    params = {"covariance_type": kind, "init_params": start, "random_state": 0, "n_init": 2}
    model = GaussianMixture(3, **params)
    found = fit_divided(model, in_shares(rows))
    expected = model.fit(rows)
    rtol = 1e-8 if dtype == "float64" else 1e-4
    for name in ARRAYS:
        np.testing.assert_allclose(found[name], getattr(expected, name), rtol=rtol, atol=rtol)
        assert found[name].dtype == getattr(expected, name).dtype
    assert found["n_iter_"] == expected.n_iter_


@pytest.mark.parametrize("kind", ["full", "diag"])
def test_divided_points_in_large_units(kind):
    """Small components far away are read again by differences to their means."""
    rows = spiked(10.0)
    model = GaussianMixture(4, covariance_type=kind, random_state=0)
    found = fit_divided(model, in_shares(rows, (20, 41)))
    expected = model.fit(rows).covariances_
    np.testing.assert_allclose(found["covariances_"], expected, rtol=1e-6, atol=1e-12)


def test_a_search_over_divided_rows():
    candidates = [{"n_components": k} for k in (1, 3)]
    splits = split_rows(KFold(3), X, None, len(X))
    model = GaussianMixture(random_state=0)
    stack = model.multifit(in_shares(X).folds(model, splits, weighted=False), candidates)
    other = model.multifit(make_folds(model.multifit_batch(X), splits), candidates)
    for part in ("train", "test"):
        np.testing.assert_allclose(
            stack.log_likelihood(part), other.log_likelihood(part), rtol=1e-9
        )


def test_divided_rows_that_are_too_few_are_refused():
    with pytest.raises(ValueError, match="n_components = 5"):
        fit_divided(GaussianMixture(5), in_shares(X[:4], (1, 2, 3)))
