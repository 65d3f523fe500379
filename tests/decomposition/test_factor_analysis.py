"""Factor analysis is scikit-learn's, in single fits and in searches, wherever the rows are."""

import tracemalloc

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.decomposition import FactorAnalysis as Theirs
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV as TheirSearch
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from gpuml import as_sklearn
from gpuml._arrays import device_of
from gpuml.decomposition import FactorAnalysis
from gpuml.model_selection import GridSearchCV
from gpuml.testing import array_libraries

PARAMS = [
    {},
    {"n_components": 3},
    {"n_components": 3, "svd_method": "lapack"},
    {"n_components": 2, "rotation": "varimax"},
    {"n_components": 3, "rotation": "quartimax", "tol": 1e-6},
    {"n_components": 0},
    {"n_components": 2, "iterated_power": 0, "random_state": 5},
    {"n_components": 2, "noise_variance_init": np.linspace(0.5, 2.0, 16)},
]


def rows(rng, n=120, p=16):
    X = rng.normal(size=(n, 3)) @ rng.normal(size=(3, p))
    return X + rng.normal(size=(n, p)) * rng.uniform(0.5, 2.0, size=p) + 4.0


def alike(found, expected):
    """The same directions, whose signs are nobody's choice."""
    sign = np.where(np.sum(found * expected, axis=1) < 0, -1.0, 1.0)[:, None]
    # Features that no factor is needed for have the rounding of roots of zero.
    np.testing.assert_allclose(sign * found, expected, atol=1e-6)


@pytest.mark.pairwise
@pytest.mark.parametrize("params", PARAMS, ids=str)
@pytest.mark.parametrize("library", array_libraries())
def test_models_are_those_of_scikit_learn(params, library, rng):
    X = rows(rng)
    expected = Theirs(**params).fit(X)
    given = library.asarray(X)
    model = FactorAnalysis(**params).fit(given)
    assert device_of(model.components_) == device_of(given)
    assert model.n_iter_ == expected.n_iter_
    alike(library.to_numpy(model.components_), expected.components_)
    for name in ("noise_variance_", "mean_", "loglike_"):
        np.testing.assert_allclose(
            library.to_numpy(getattr(model, name)), getattr(expected, name), rtol=1e-7
        )
    for found, other in [
        (model.get_covariance(), expected.get_covariance()),
        (model.get_precision(), expected.get_precision()),
        (model.score_samples(given), expected.score_samples(X)),
    ]:
        np.testing.assert_allclose(library.to_numpy(found), other, rtol=1e-7, atol=1e-7)
    alike(library.to_numpy(model.transform(given)).T, expected.transform(X).T)
    assert model.score(given) == pytest.approx(expected.score(X), rel=1e-9)


@pytest.mark.parametrize("method", ["lapack", "randomized"])
@pytest.mark.parametrize("constants", [[3.0], [0.1, 0.0, 1e6]], ids=str)
def test_constant_features_have_no_factor(constants, method, rng):
    """scikit-learn takes logarithms of their variances, and goes on as long as it may, or stops."""
    X = np.c_[rows(rng, p=6), np.tile(constants, (120, 1))]
    model = FactorAnalysis(svd_method=method).fit(X)
    expected = Theirs(n_components=6, svd_method=method).fit(X)
    assert model.components_.shape == (X.shape[1], X.shape[1])
    assert (model.components_[6:] == 0).all()
    assert model.n_iter_ == expected.n_iter_
    for name in ("noise_variance_", "loglike_"):
        np.testing.assert_allclose(getattr(model, name), getattr(expected, name), rtol=1e-7)
    np.testing.assert_allclose(model.score(X), expected.score(X), rtol=1e-7)


@pytest.mark.each
@pytest.mark.parametrize("library", array_libraries())
@pytest.mark.parametrize("rotation", [None, "varimax"])
def test_searches_give_the_scores_of_scikit_learn(library, rotation, rng):
    X = rows(rng)
    grid = {"n_components": [0, 1, 4], "svd_method": ["lapack", "randomized"]}
    found = GridSearchCV(FactorAnalysis(rotation=rotation), grid).fit(library.asarray(X))
    expected = TheirSearch(Theirs(rotation=rotation), grid).fit(X)
    assert "together" in found.plan_.steps[0].why
    assert found.plan_.n_passes == 1
    np.testing.assert_allclose(
        found.cv_results_["mean_test_score"], expected.cv_results_["mean_test_score"], rtol=1e-9
    )
    assert found.score(library.asarray(X)) == pytest.approx(expected.score(X), rel=1e-9)


def test_the_likelihood_grows_and_its_last_is_that_of_the_model(rng):
    X = rows(rng)
    model = FactorAnalysis(3, svd_method="lapack", tol=1e-10, max_iter=20_000).fit(X)
    assert (np.diff(model.loglike_) > -1e-8).all()
    assert model.score(X) * len(X) == pytest.approx(model.loglike_[-1], rel=1e-9)
    # Where it is largest, variances of features are those of the rows.
    np.testing.assert_allclose(np.diag(model.get_covariance()), X.var(axis=0), rtol=1e-5)


@pytest.mark.pairwise
@pytest.mark.parametrize("library", array_libraries())
@pytest.mark.parametrize("method", ["lapack", "randomized"])
@pytest.mark.parametrize("rotation", [None, "varimax"])
def test_of_fewer_rows_than_features_models_are_those_of_scikit_learn(
    method, rotation, library, rng
):
    X = rows(rng, 40, 90)
    given = library.asarray(X)
    params = {"n_components": 3, "svd_method": method, "rotation": rotation, "random_state": 5}
    model, expected = FactorAnalysis(**params).fit(given), Theirs(**params).fit(X)
    assert model.n_iter_ == expected.n_iter_
    alike(library.to_numpy(model.components_), expected.components_)
    for name in ("noise_variance_", "mean_", "loglike_"):
        np.testing.assert_allclose(
            library.to_numpy(getattr(model, name)), getattr(expected, name), rtol=1e-7
        )
    found = library.to_numpy(model.score_samples(given))
    np.testing.assert_allclose(found, expected.score_samples(X), rtol=1e-7)
    assert model.score(given) == pytest.approx(expected.score(X), rel=1e-9)


@pytest.mark.filterwarnings("ignore:FactorAnalysis did not converge")
@pytest.mark.parametrize("scaled", [False, True])
def test_searches_of_fewer_rows_than_features_are_those_of_scikit_learn(scaled, rng):
    X = rows(rng, 40, 90)
    grid = {"factoranalysis__n_components": [0, 1, 4]}
    first = [StandardScaler()] if scaled else []
    found, expected = (
        search(make_pipeline(*first, model), grid, return_train_score=True).fit(X)
        for search, model in [
            (GridSearchCV, FactorAnalysis(max_iter=4)),
            (TheirSearch, Theirs(max_iter=4)),
        ]
    )
    assert "together" in found.plan_.steps[0].why
    for name in ("mean_test_score", "mean_train_score"):
        np.testing.assert_allclose(found.cv_results_[name], expected.cv_results_[name], rtol=1e-6)


@pytest.mark.parametrize("method", ["lapack", "randomized"])
def test_no_square_of_many_features_is_made(method, rng):
    X = rng.normal(size=(12, 3_000))
    tracemalloc.start()
    try:
        FactorAnalysis(2, svd_method=method).fit(X).score(X)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 8 * X.shape[1] ** 2 / 4


def test_few_rows_that_are_not_finite_are_an_error(rng):
    X = rows(rng, 10, 20)
    for value, message in [(np.nan, "NaN"), (np.inf, "infinity"), (1e200, "overflow")]:
        X[3, 4] = value
        with pytest.raises(ValueError, match=message):
            FactorAnalysis(2).fit(X)


@pytest.mark.parametrize("shape", [(30, 2), (4, 6), (30, 1)], ids=str)
def test_there_are_no_more_factors_than_rows_or_features(shape, rng):
    X = rng.normal(size=shape)
    model, expected = (kind(n_components=9).fit(X) for kind in (FactorAnalysis, Theirs))
    assert model.components_.shape == expected.components_.shape
    assert model.transform(X).shape == expected.transform(X).shape


def test_repeated_rows_change_nothing(rng):
    X = rows(rng)
    once, twice = (FactorAnalysis(2, tol=k * 1e-2).fit(np.tile(X, (k, 1))) for k in (1, 2))
    np.testing.assert_allclose(twice.noise_variance_, once.noise_variance_, rtol=1e-9)


@pytest.mark.filterwarnings("ignore:FactorAnalysis did not converge")
def test_a_split_depends_on_its_own_training_rows(rng):
    X = rows(rng)
    wild = X.copy()
    wild[:24] *= 1e9
    one, other = (
        GridSearchCV(FactorAnalysis(max_iter=5), {"n_components": [1, 2]}, return_train_score=True)
        for _ in range(2)
    )
    one.fit(X)
    other.fit(wild)
    np.testing.assert_allclose(
        other.cv_results_["split0_train_score"], one.cv_results_["split0_train_score"], rtol=1e-9
    )


def test_what_is_random_otherwise_goes_one_by_one(rng):
    search = GridSearchCV(
        FactorAnalysis(random_state=np.random.RandomState(0)), {"n_components": [1, 2]}
    ).fit(rows(rng))
    assert "random_state=" in str(search.plan_)


def test_few_steps_are_warned_of(rng):
    with pytest.warns(ConvergenceWarning, match="did not converge"):
        FactorAnalysis(2, max_iter=2).fit(rows(rng))


def test_wrong_input_is_an_error_and_nothing_is_left_behind(rng):
    model = FactorAnalysis(noise_variance_init=np.ones(3))
    with pytest.raises(ValueError, match="noise_variance_init dimension"):
        model.fit(rows(rng))
    with pytest.raises(ValueError, match="NaN"):
        FactorAnalysis().fit(np.full((4, 3), np.nan))
    assert not [name for name in vars(model) if name.endswith("_")]


def test_models_become_scikit_learns(rng):
    X = rows(rng)
    fitted = clone(FactorAnalysis(2)).fit(X.astype(np.float32))
    twin = as_sklearn(fitted)
    assert type(twin) is Theirs
    assert fitted.components_.dtype == np.float32
    np.testing.assert_allclose(twin.transform(X), fitted.transform(X), atol=1e-4)
