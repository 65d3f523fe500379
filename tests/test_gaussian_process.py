"""Gaussian processes are scikit-learn's, in single fits and in searches, wherever rows are."""

import warnings
from functools import partial

import numpy as np
import pytest
from sklearn import gaussian_process as sk
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, FitFailedWarning
from sklearn.gaussian_process import kernels as k
from sklearn.model_selection import GridSearchCV as TheirSearch
from sklearn.model_selection import KFold, ShuffleSplit

from gpuml import as_sklearn, config_context
from gpuml._arrays import device_of
from gpuml.exceptions import FallbackError, FallbackWarning
from gpuml.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from gpuml.gaussian_process import _models as models
from gpuml.gaussian_process._kernels import own_functions
from gpuml.model_selection import GridSearchCV, cross_validate
from gpuml.solvers.pair_kernels import pair_base
from gpuml.testing import array_libraries

CLOSE = partial(np.testing.assert_allclose, rtol=1e-8, atol=1e-10)
# What optimisers end at follows the last digits of what they are told.
OPTIMISED = partial(np.testing.assert_allclose, rtol=1e-6, atol=1e-6)
NOISE = k.WhiteKernel(0.1)
KERNELS = {
    "default": None,
    "rbf": 2.0 * k.RBF(1.5) + NOISE,
    "rbf of each": 2.0 * k.RBF([1.0, 2.0, 3.0]) + NOISE,
    "rbf fixed": k.ConstantKernel(2.0) * k.RBF(1.5, "fixed") + NOISE,
    "matern 0.5": k.Matern(2.0, nu=0.5) + NOISE,
    "matern 0.5 of each": k.Matern([1.0, 2.0, 3.0], nu=0.5) + NOISE,
    "matern 1.5 of each": k.Matern([1.0, 2.0, 3.0]) * k.ConstantKernel(0.5) + NOISE,
    "matern 2.5": k.Matern(2.0, nu=2.5) + NOISE,
    "matern inf": k.Matern(2.0, nu=np.inf) + NOISE,
    "rational": k.RationalQuadratic(1.5, 0.7) + NOISE,
    "rational fixed": k.RationalQuadratic(1.5, 0.7, "fixed") + NOISE,
    "periodic": k.ExpSineSquared(1.5, 4.0) * k.RBF(3.0) + NOISE,
    "polynomial": k.DotProduct(1.3) ** 2 + NOISE,
    "noise in a product": k.RBF(2.0) * (k.ConstantKernel(0.5) + NOISE) + k.WhiteKernel(0.2),
}
# scikit-learn's derivatives of these are differences.
ROUGH = {
    "matern 1.1": k.Matern(2.0, nu=1.1) + NOISE,
    "pairwise rbf": k.PairwiseKernel(0.3, metric="rbf") + NOISE,
    "pairwise laplacian": k.PairwiseKernel(0.3, metric="laplacian") + NOISE,
    "pairwise sigmoid": k.PairwiseKernel(0.05, metric="sigmoid") + k.WhiteKernel(30.0),
    "pairwise poly": (
        k.PairwiseKernel(0.3, metric="poly", pairwise_kernels_kwargs={"degree": 2}) + NOISE
    ),
    "pairwise cosine": k.PairwiseKernel(metric="cosine") + NOISE,
}
ALL = {**KERNELS, **ROUGH}


def data(rng, n=40):
    X = rng.normal(size=(n, 3)) + 0.5
    return X, np.sin(X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.normal(size=n)


def labels(y, n_classes):
    return np.array(["a", "b", "c"])[np.digitize(y, np.quantile(y, [0.6, 0.8][: n_classes - 1]))]


def scores_of(search):
    return {n: v for n, v in search.cv_results_.items() if "_test_" in n or "_train_" in n}


def on_host(library, values):
    return tuple(library.to_numpy(each) for each in values)


@pytest.mark.each
@pytest.mark.parametrize("library", array_libraries())
@pytest.mark.parametrize("name", ALL)
def test_values_and_gradients_are_those_of_scikit_learn(name, library, rng):
    X, y = data(rng)
    there, other = library.asarray(X), X[:7] + 0.1
    settings = {"kernel": ALL[name], "optimizer": None, "alpha": 1e-3, "normalize_y": True}
    oracle = sk.GaussianProcessRegressor(**settings).fit(X, y)
    # Of Bessel functions no library has all.
    with config_context(fallback="silent"):
        model = GaussianProcessRegressor(**settings).fit(there, library.asarray(y))
        found = model.predict(library.asarray(other), return_std=True)
        covariance = model.predict(library.asarray(other), return_cov=True)[1]
        likelihood, slope = model.log_marginal_likelihood(oracle.kernel_.theta, True)
    for each in (*found, covariance, model.alpha_, model.L_, model.X_train_):
        assert device_of(each) == device_of(there)
    for one, expected in zip(
        on_host(library, found), oracle.predict(other, return_std=True), strict=True
    ):
        CLOSE(one, expected)
    CLOSE(library.to_numpy(covariance), oracle.predict(other, return_cov=True)[1])
    CLOSE(library.to_numpy(model.alpha_), oracle.alpha_, rtol=1e-7)
    expected, gradient = oracle.log_marginal_likelihood(oracle.kernel_.theta, True)
    CLOSE(likelihood, expected)
    rtol = 1e-4 if name in ROUGH else 1e-8
    np.testing.assert_allclose(slope, gradient, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("name", ROUGH)
def test_gradients_are_differences_of_likelihoods(name, rng):
    X, y = data(rng)
    model = GaussianProcessRegressor(ROUGH[name], optimizer=None).fit(X, y)
    theta, step = model.kernel_.theta, 1e-5
    slope = model.log_marginal_likelihood(theta, True)[1]
    for j, unit in enumerate(np.eye(len(theta))):
        ends = [model.log_marginal_likelihood(theta + sign * step * unit) for sign in (1, -1)]
        np.testing.assert_allclose(slope[j], (ends[0] - ends[1]) / (2 * step), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["default", "rbf of each", "periodic"])
@pytest.mark.parametrize("targets", [1, 2])
def test_optimisers_end_where_those_of_scikit_learn_end(name, targets, rng):
    X, y = data(rng)
    y = y if targets == 1 else np.stack([y, X[:, 0]], axis=1)
    settings = {"kernel": ALL[name], "alpha": 1e-2, "n_restarts_optimizer": 1, "random_state": 3}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        oracle = sk.GaussianProcessRegressor(**settings).fit(X, y)
        model = GaussianProcessRegressor(**settings).fit(X, y)
    OPTIMISED(model.log_marginal_likelihood_value_, oracle.log_marginal_likelihood_value_)
    OPTIMISED(model.predict(X + 0.1), oracle.predict(X + 0.1))
    OPTIMISED(as_sklearn(model).predict(X + 0.1), oracle.predict(X + 0.1))
    assert model._rng.uniform() == oracle._rng.uniform()
    CLOSE(model.score(X, y), np.float64(model.score(X, y)))


@pytest.mark.parametrize("alpha", [0.3, np.array([0.3]), "each"])
def test_noise_is_a_number_or_one_of_each_row(alpha, rng):
    X, y = data(rng)
    alpha = rng.uniform(0.1, 1.0, size=len(X)) if isinstance(alpha, str) else alpha
    settings = {"alpha": alpha, "optimizer": None}
    oracle = sk.GaussianProcessRegressor(**settings).fit(X, y)
    model = GaussianProcessRegressor(**settings).fit(X, y)
    CLOSE(model.predict(X[:5]), oracle.predict(X[:5]))
    with pytest.raises(ValueError, match="alpha must be a scalar or an array"):
        GaussianProcessRegressor(alpha=np.ones(3)).fit(X, y)


def test_a_row_twice_has_half_the_noise(rng):
    X, y = data(rng)
    half = np.where(np.arange(len(X)) < 9, 0.1, 0.2)
    settings = {"kernel": k.RBF(2.0), "optimizer": None}
    one = GaussianProcessRegressor(**settings, alpha=half).fit(X, y)
    other = GaussianProcessRegressor(**settings, alpha=0.2)
    other.fit(np.concatenate([X, X[:9]]), np.concatenate([y, y[:9]]))
    for found, expected in zip(*(m.predict(X, return_std=True) for m in (one, other)), strict=True):
        CLOSE(found, expected)


def test_functions_are_drawn_as_scikit_learn_draws_them(rng):
    X, y = data(rng)
    Y = np.stack([y, -y], axis=1)
    for target in (y, Y):
        oracle = sk.GaussianProcessRegressor(ALL["rbf"], optimizer=None).fit(X, target)
        model = GaussianProcessRegressor(ALL["rbf"], optimizer=None).fit(X, target)
        found = model.sample_y(X[:5], n_samples=4, random_state=1)
        np.testing.assert_allclose(found, oracle.sample_y(X[:5], 4, random_state=1), atol=1e-6)


@pytest.mark.parametrize("library", array_libraries())
def test_results_of_float32_rows_are_float32(library, rng):
    X, y = data(rng)
    single = X.astype(np.float32)
    settings = {"kernel": ALL["rbf"], "optimizer": None}
    oracle = sk.GaussianProcessRegressor(**settings).fit(single.astype(float), y)
    model = GaussianProcessRegressor(**settings).fit(library.asarray(single), library.asarray(y))
    found = model.predict(library.asarray(single))
    assert "float32" in str(found.dtype)
    np.testing.assert_allclose(library.to_numpy(found), oracle.predict(single), rtol=1e-5)


# ---------------------------------------------------------------- classifiers


@pytest.mark.pairwise
@pytest.mark.parametrize("library", array_libraries())
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("multi_class", ["one_vs_rest", "one_vs_one"])
@pytest.mark.parametrize("name", ["default", "rbf", "matern 1.5 of each"])
@pytest.mark.parametrize("optimizer", [None, "fmin_l_bfgs_b"])
@pytest.mark.parametrize("warm_start", [False, True])
def test_classifiers_are_those_of_scikit_learn(
    library, n_classes, multi_class, name, optimizer, warm_start, rng
):
    X, y = data(rng)
    y = labels(y, n_classes)
    settings = {
        "kernel": ALL[name],
        "optimizer": optimizer,
        "warm_start": warm_start,
        "multi_class": multi_class,
        "n_restarts_optimizer": 1,
        "random_state": 0,
    }
    there, other = library.asarray(X), X[:9] + 0.1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        oracle = sk.GaussianProcessClassifier(**settings).fit(X, y)
        model = GaussianProcessClassifier(**settings).fit(there, y)
    close = OPTIMISED if optimizer else CLOSE
    expected, twin = oracle.predict(other), as_sklearn(model)
    assert (library.to_numpy(model.predict(library.asarray(other))) == expected).all()
    assert (twin.predict(other) == expected).all()
    assert (twin.base_estimator_.classes_ == oracle.base_estimator_.classes_).all()
    close(model.log_marginal_likelihood_value_, oracle.log_marginal_likelihood_value_)
    assert vars(oracle.base_estimator_).keys() <= vars(model.base_estimator_).keys()
    if not warm_start:  # where steps end follows where they begin
        close(model.log_marginal_likelihood(model.kernel_.theta), model.log_marginal_likelihood())
    if multi_class == "one_vs_rest" or n_classes == 2:
        found = model.predict_proba(library.asarray(other))
        assert device_of(found) == device_of(there)
        close(library.to_numpy(found), oracle.predict_proba(other))
        close(twin.predict_proba(other), oracle.predict_proba(other))
    else:
        with pytest.raises(ValueError, match="one_vs_one"):
            model.predict_proba(there)
    if n_classes == 2:
        theta = oracle.kernel_.theta + 0.1
        expected = oracle.log_marginal_likelihood(theta, eval_gradient=True)
        for found, value in zip(
            model.log_marginal_likelihood(theta, eval_gradient=True), expected, strict=True
        ):
            np.testing.assert_allclose(found, value, rtol=1e-7, atol=1e-7)
        found = on_host(library, model.latent_mean_and_variance(library.asarray(other)))
        for one, value in zip(found, oracle.latent_mean_and_variance(other), strict=True):
            close(one, value)


# ---------------------------------------------------------------- searches


@pytest.mark.each
@pytest.mark.parametrize("library", array_libraries())
@pytest.mark.parametrize(
    "cv", [KFold(4), ShuffleSplit(3, random_state=0)], ids=["folds", "shuffle"]
)
@pytest.mark.parametrize("targets", [1, 2])
def test_a_search_without_an_optimiser_takes_one_matrix_for_each_kernel(library, cv, targets, rng):
    X, y = data(rng)
    y = y if targets == 1 else np.stack([y, X[:, 0]], axis=1)
    names = ("rbf", "matern 1.5 of each", "polynomial", "noise in a product")
    kernels = [ALL[name] for name in names]
    grid = {"kernel": kernels, "alpha": [1e-10, 0.1], "normalize_y": [False, True]}
    options = {
        "param_grid": grid,
        "cv": cv,
        "return_train_score": True,
        "scoring": ["r2", "neg_mean_absolute_error"],
        "refit": "r2",
    }
    oracle = TheirSearch(sk.GaussianProcessRegressor(optimizer=None), **options).fit(X, y)
    search = GridSearchCV(GaussianProcessRegressor(optimizer=None), **options)
    search.fit(library.asarray(X), library.asarray(y))
    assert "all candidates together, 4 kernel matrices of all rows" in str(search.plan_)
    assert search.plan_.n_passes == 1
    for name, expected in scores_of(oracle).items():
        np.testing.assert_allclose(scores_of(search)[name], expected, rtol=1e-7, atol=1e-9)
    CLOSE(library.to_numpy(search.predict(library.asarray(X))), oracle.predict(X))


def test_a_search_with_an_optimiser_takes_one_matrix_of_distances(rng, monkeypatch):
    X, y = data(rng)
    grid = {"kernel": [1.0 * k.RBF(1.0) + NOISE, k.Matern(1.0) + NOISE], "alpha": [0.01, 0.1]}
    made = []
    monkeypatch.setattr(
        "gpuml.gaussian_process._pairs.pair_base",
        lambda kind, X, Y=None: made.append(X.shape[0]) or pair_base(kind, X, Y),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        oracle = TheirSearch(sk.GaussianProcessRegressor(), grid, cv=3, refit=False).fit(X, y)
        search = GridSearchCV(GaussianProcessRegressor(), grid, cv=3, refit=False).fit(X, y)
    assert "12 fits from the distances of all rows" in str(search.plan_)
    # Of all rows once, and of the held-out rows of each split for its scores.
    assert made.count(len(X)) == 1
    assert len(made) == 4
    for name, expected in scores_of(oracle).items():
        OPTIMISED(scores_of(search)[name], expected)


@pytest.mark.each
@pytest.mark.parametrize("library", array_libraries())
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("multi_class", ["one_vs_rest", "one_vs_one"])
def test_searches_of_classifiers_are_those_of_scikit_learn(library, n_classes, multi_class, rng):
    X, y = data(rng)
    y = labels(y, n_classes)
    voted = multi_class == "one_vs_one" and n_classes == 3
    options = {
        "param_grid": {"kernel": [1.0 * k.RBF(1.0), k.Matern(2.0) + NOISE], "warm_start": [False]},
        "scoring": ["accuracy"] if voted else ["accuracy", "neg_log_loss", "roc_auc_ovr"],
        "refit": "accuracy",
        "return_train_score": True,
        "cv": 3,
    }
    settings = {"optimizer": None, "multi_class": multi_class}
    oracle = TheirSearch(sk.GaussianProcessClassifier(**settings), **options).fit(X, y)
    search = GridSearchCV(GaussianProcessClassifier(**settings), **options)
    search.fit(library.asarray(X), y)
    n_fits = 2 * 3 * (1 if n_classes == 2 else 3)
    assert f"{n_fits} fits from the distances of all rows" in str(search.plan_)
    for name, expected in scores_of(oracle).items():
        CLOSE(scores_of(search)[name], expected)
    assert (library.to_numpy(search.predict(library.asarray(X))) == oracle.predict(X)).all()


@pytest.mark.parametrize("classify", [False, True])
@pytest.mark.parametrize("optimizer", [None, "fmin_l_bfgs_b"])
def test_models_of_splits_are_those_of_their_rows(classify, optimizer, rng):
    X, y = data(rng)
    y = labels(y, 3) if classify else y
    kind = GaussianProcessClassifier if classify else GaussianProcessRegressor
    model = kind(1.0 * k.RBF(1.0) + NOISE, optimizer=optimizer)
    again = np.concatenate([np.arange(25), np.arange(5)])  # rows that are there twice
    cv = [(again, np.arange(25, 40)), (np.arange(10, 40), np.arange(10))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = cross_validate(model, X, y, cv=cv, return_estimator=True)
        for (train, test), score, own in zip(
            cv, found["test_score"], found["estimator"], strict=True
        ):
            alone = clone(model).fit(X[train], y[train])
            OPTIMISED(score, alone.score(X[test], y[test]))
            if classify:
                OPTIMISED(own.predict_proba(X[test]), alone.predict_proba(X[test]))
            else:
                OPTIMISED(own.predict(X[test]), alone.predict(X[test]))
                assert own.X_train_.shape == (len(train), 3)


@pytest.mark.parametrize("classify", [False, True])
def test_fits_side_by_side_are_those_one_after_the_other(classify, rng, monkeypatch):
    X, y = data(rng)
    y = labels(y, 3) if classify else y
    kind = GaussianProcessClassifier if classify else GaussianProcessRegressor
    model = kind(optimizer=None, **({} if classify else {"alpha": np.full(30, 0.1)}))
    found = []
    for threads in (1, 2):
        monkeypatch.setattr(models, "THREADED_ORDER", 0)
        monkeypatch.setattr(models, "own_threads", lambda place, threads=threads: threads)
        grid = {"kernel": [k.RBF(1.0), k.RBF(2.0), k.RBF(3.0)]}
        search = GridSearchCV(model, grid, cv=4, refit=False).fit(X, y)
        assert "fits from the distances of all rows" in str(search.plan_)
        found.append(scores_of(search))
    assert len({str(each) for each in found}) == 1


@pytest.mark.filterwarnings("ignore:One or more of the test scores are non-finite")
def test_a_candidate_that_is_not_positive_definite_fails_alone(rng):
    X, y = data(rng)
    X[1] = X[0]
    grid = {"alpha": [0.0, 0.1]}
    model = GaussianProcessRegressor(k.RBF(1.0), optimizer=None)
    with pytest.warns(FitFailedWarning, match="not returning a positive definite matrix"):
        search = GridSearchCV(model, grid, cv=3, refit=False).fit(X, y)
    scores = search.cv_results_["mean_test_score"]
    assert np.isnan(scores[0])
    oracle = TheirSearch(sk.GaussianProcessRegressor(k.RBF(1.0), optimizer=None), {"alpha": [0.1]})
    CLOSE(scores[1], oracle.set_params(cv=3).fit(X, y).cv_results_["mean_test_score"][0])


# ---------------------------------------------------------------- kernels of others


class Own(k.RBF):
    """A kernel that only its own function knows."""

    def __call__(self, X, Y=None, eval_gradient=False):
        found = super().__call__(X, Y, eval_gradient)
        return found if eval_gradient else 1.0 * found


def test_kernels_of_users_are_called_by_themselves(rng):
    X, y = data(rng)
    kernel = 1.0 * Own(1.5) + NOISE
    assert own_functions(kernel) == ["Own"]
    settings = {"optimizer": None, "alpha": 1e-3}
    model = GaussianProcessRegressor(kernel, **settings).fit(X, y)
    oracle = sk.GaussianProcessRegressor(1.0 * k.RBF(1.5) + NOISE, **settings).fit(X, y)
    CLOSE(model.predict(X + 0.1, return_std=True), oracle.predict(X + 0.1, return_std=True))
    theta = oracle.kernel_.theta
    for found, expected in zip(
        *(each.log_marginal_likelihood(theta, True) for each in (model, oracle)), strict=True
    ):
        CLOSE(found, expected)
    search = GridSearchCV(GaussianProcessRegressor(kernel, optimizer=None), {"alpha": [0.1]})
    plan = str(search.fit(X, y).plan_)
    assert "one by one" in plan
    assert "the kernel Own, of which gpuml has no function" in plan


def test_rows_of_a_device_leave_it_for_such_kernels_with_a_warning(rng):
    strict = pytest.importorskip("array_api_strict")
    X, y = (strict.asarray(a) for a in data(rng))
    model = GaussianProcessRegressor(1.0 * Own(1.5) + NOISE, optimizer=None)
    with pytest.warns(FallbackWarning, match="Own is evaluated in CPU memory"):
        model.fit(X, y)
    assert device_of(model.alpha_) == device_of(X)
    with config_context(fallback="error"), pytest.raises(FallbackError, match="Own"):
        model.fit(X, y)


def test_a_users_optimiser_gets_what_scikit_learn_gives_it(rng):
    X, y = data(rng)
    seen = []

    def optimizer(objective, theta, bounds):
        seen.append((objective(theta), objective(theta, eval_gradient=False), bounds))
        return theta + 0.1, objective(theta + 0.1, eval_gradient=False)

    for kind in (sk.GaussianProcessRegressor, GaussianProcessRegressor):
        kind(ALL["rbf"], optimizer=optimizer).fit(X, y)
    (theirs, their_value, their_bounds), (ours, our_value, our_bounds) = seen
    for one, other in zip((*ours, our_value), (*theirs, their_value), strict=True):
        CLOSE(one, other)
    np.testing.assert_array_equal(our_bounds, their_bounds)


def test_classifiers_refuse_what_scikit_learn_refuses(rng):
    X, y = rng.normal(size=(12, 2)), np.arange(12) % 3
    for kind in (sk.GaussianProcessClassifier, GaussianProcessClassifier):
        with pytest.raises(ValueError, match="arrays of bytes/strings"):
            kind().fit(X.astype(str), y)
        with pytest.raises(ValueError, match="n_jobs == 0"):
            kind(n_jobs=0).fit(X, y)
