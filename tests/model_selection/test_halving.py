"""Successive halving: scikit-learn's candidates, tables and winners; rows that stay where they are."""

import copy
import pickle
import warnings

import numpy as np
import pytest
import sklearn.experimental.enable_halving_search_cv  # noqa: F401
import sklearn.linear_model as sk_linear
import sklearn.model_selection as sk
import sklearn.preprocessing as sk_preprocessing
from scipy.stats import loguniform, randint, rankdata
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.ensemble import RandomForestRegressor
from sklearn.exceptions import FitFailedWarning
from sklearn.pipeline import make_pipeline as sk_pipeline
from sklearn.tree import DecisionTreeClassifier

import gpuml
import gpuml.model_selection as ours_selection
from gpuml._arrays import has_gpu, to_host
from gpuml.data import Split, resident
from gpuml.linear_model import ElasticNet, LogisticRegression, Ridge
from gpuml.model_selection import HalvingGridSearchCV, HalvingRandomSearchCV
from gpuml.model_selection.row_subsets import used_rows
from gpuml.pipeline import make_pipeline
from gpuml.preprocessing import StandardScaler
from gpuml.testing import count_transfers

ALPHAS = np.logspace(-3, 3, 9)
EXACT = {"tol": 1e-10, "max_iter": 10_000}
# name -> (ours, scikit-learn's, grid, whether y are classes)
ESTIMATORS = {
    "ridge": (Ridge(), sk_linear.Ridge(), {"alpha": ALPHAS}, False),
    "logistic": (LogisticRegression(**EXACT), sk_linear.LogisticRegression(**EXACT), {"C": ALPHAS[:6]}, True),
    "elastic net": (ElasticNet(tol=1e-10), sk_linear.ElasticNet(tol=1e-10), {"alpha": [1e-3, 1e-2, 0.1], "l1_ratio": [0.2, 0.8]}, False),
    "pipeline": (make_pipeline(StandardScaler(), Ridge()), sk_pipeline(sk_preprocessing.StandardScaler(), sk_linear.Ridge()), {"ridge__alpha": ALPHAS}, False),
    "theirs": (DecisionTreeClassifier(random_state=0), DecisionTreeClassifier(random_state=0), {"max_depth": [1, 2, 3, None], "min_samples_leaf": [1, 5]}, True),
}  # fmt: skip
SETTINGS = {
    "plain": {"random_state": 0},
    "state": {"random_state": np.random.RandomState(3), "factor": 2, "cv": 3},
    "shuffled": {"random_state": 1, "cv": sk.KFold(4, shuffle=True, random_state=5)},
    "few resources": {"random_state": 1, "min_resources": 60, "max_resources": 120},
    "aggressive": {
        "random_state": 2,
        "aggressive_elimination": True,
        "factor": 2,
        "min_resources": 60,
        "max_resources": 120,
        "return_train_score": False,
    },
}


def data(rng, *, classes=False, n=360, p=6):
    X = rng.normal(size=(n, p))
    y = X @ rng.normal(size=p) + rng.normal(size=n)
    return X, (y > 0).astype(np.int64) if classes else y


def ranks(means):
    """Failed candidates behind all others, as scikit-learn has them."""
    return rankdata(-np.nan_to_num(means, nan=np.nanmin(means) - 1), "min")


def assert_same_search(ours, theirs, rtol=1e-6):
    """Equal tables but for times, and the same counts, winner and score."""
    assert ours.cv_results_.keys() == theirs.cv_results_.keys()
    for name, column in ours.cv_results_.items():
        expected = theirs.cv_results_[name]
        if name.endswith("_score") and not name.startswith("rank"):
            np.testing.assert_allclose(column, expected, rtol=rtol, atol=rtol, err_msg=name)
        elif name.startswith("rank"):
            # Rounds that use the same rows score a candidate twice, beside others each time: what
            # is a tie to scikit-learn is one but for rounding.
            own, other = (s.cv_results_[name.replace("rank", "mean")] for s in (ours, theirs))
            np.testing.assert_array_equal(ranks(own.round(9)), ranks(other.round(9)))
            np.testing.assert_array_equal(column, ranks(own))
        elif not name.endswith("_time"):
            assert list(column) == list(expected), name
    names = ("n_resources_", "n_candidates_", "n_remaining_candidates_", "n_iterations_")
    names += ("n_required_iterations_", "n_possible_iterations_", "min_resources_")
    for name in (*names, "max_resources_", "best_params_", "best_index_", "n_splits_"):
        assert getattr(ours, name) == getattr(theirs, name), name
    assert ours.best_score_ == pytest.approx(theirs.best_score_, rel=rtol)


@pytest.mark.each
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_tables_and_winners_are_those_of_scikit_learn(rng, estimator, settings):
    ours, theirs, grid, classes = ESTIMATORS[estimator]
    X, y = data(rng, classes=classes)
    # Cut trees may split ties otherwise than those that are grown.
    with gpuml.config_context(cut_trees=False):
        mine = HalvingGridSearchCV(ours, grid, **copy.deepcopy(settings)).fit(X, y)
    other = sk.HalvingGridSearchCV(theirs, grid, **copy.deepcopy(settings)).fit(X, y)
    assert_same_search(mine, other)
    np.testing.assert_allclose(mine.predict(X), other.predict(X), rtol=1e-5, atol=1e-6)


@pytest.mark.each
@pytest.mark.parametrize("min_resources", ["smallest", 40])
@pytest.mark.parametrize("random_state", [0, 7])
def test_random_candidates_are_those_of_scikit_learn(rng, min_resources, random_state):
    X, y = data(rng)
    draws = {"alpha": loguniform(1e-3, 1e3), "fit_intercept": [True, False]}
    settings = {"random_state": random_state, "min_resources": min_resources, "cv": 3}
    settings["scoring"] = "neg_mean_squared_error"
    mine = HalvingRandomSearchCV(Ridge(), draws, **settings).fit(X, y)
    assert_same_search(
        mine, sk.HalvingRandomSearchCV(sk_linear.Ridge(), draws, **settings).fit(X, y)
    )


def test_a_parameter_as_resource_goes_with_the_candidates(rng):
    X, y = data(rng, n=120)
    draws = {"max_depth": [2, 4, None], "min_samples_leaf": randint(1, 9)}
    settings = {"resource": "n_estimators", "max_resources": 9, "random_state": 0, "cv": 2}
    forest = RandomForestRegressor(random_state=0)
    mine = HalvingRandomSearchCV(forest, draws, **settings).fit(X, y)
    assert_same_search(mine, sk.HalvingRandomSearchCV(forest, draws, **settings).fit(X, y))
    assert [p["n_estimators"] for p in mine.cv_results_["params"]] == list(
        mine.cv_results_["n_resources"]
    )


@pytest.mark.each
@pytest.mark.parametrize("classes", [False, True])
def test_rows_of_any_library_stay_where_they_are(rng, library, classes):
    X, y = data(rng, classes=classes)
    ours, theirs, grid, _ = ESTIMATORS["logistic" if classes else "ridge"]
    search = HalvingGridSearchCV(ours, grid, random_state=0)
    search.fit(library.asarray(X), library.asarray(y))
    assert_same_search(search, sk.HalvingGridSearchCV(theirs, grid, random_state=0).fit(X, y))
    assert type(search.best_estimator_.coef_) is type(library.asarray(X))


@pytest.mark.gpu
def test_host_rows_go_to_the_device_once_for_all_rounds(rng):
    if not has_gpu():
        pytest.skip("no GPU")
    X, y = data(rng, n=40_000, p=20)
    with gpuml.config_context(device="cuda"), count_transfers() as moved:
        search = HalvingGridSearchCV(Ridge(), {"alpha": ALPHAS}, cv=2, random_state=0).fit(X, y)
    assert search.n_iterations_ == 3
    # Rows once; of each round the numbers of the rows that it uses.
    indices = 8 * 2 * sum(search.n_resources_) * 2
    assert moved.to_device < X.nbytes + y.nbytes + indices + 2**16


def test_all_rounds_share_one_look_at_the_rows(rng, monkeypatch):
    looks = []
    theirs = Ridge.multifit_batch

    def counted(self, *args):
        looks.append(args)
        return theirs(self, *args)

    monkeypatch.setattr(Ridge, "multifit_batch", counted)
    X, y = data(rng)
    search = HalvingGridSearchCV(Ridge(), {"alpha": ALPHAS}, random_state=0).fit(X, y)
    assert len(looks) == 1
    assert len(search.plan_.steps) == search.n_iterations_ == 3
    assert search.plan_.n_passes == 3


def test_the_best_model_has_seen_all_rows_whatever_the_last_round_used(rng):
    X, y = data(rng)
    for estimator, grid in (
        (Ridge(), {"alpha": ALPHAS}),
        (LogisticRegression(**EXACT), {"C": ALPHAS[:6]}),
    ):
        target = y if isinstance(estimator, Ridge) else y > 0
        search = HalvingGridSearchCV(
            estimator, grid, min_resources=40, max_resources=60, cv=2, random_state=0
        ).fit(X, target)
        expected = clone(estimator).set_params(**search.best_params_).fit(X, target)
        np.testing.assert_allclose(search.best_estimator_.coef_, expected.coef_, rtol=1e-5)


def test_rows_that_few_splits_use_are_taken_out(rng):
    X, y = data(rng, n=50)
    batch = resident(X, y, np.arange(50.0), "cpu")
    splits = [
        Split(np.asarray([9, 3, 7]), slice(40, 44)),
        Split((slice(3, 5), slice(8, 10)), slice(0, 1)),
    ]
    fewer, renumbered = used_rows(batch, splits)
    assert fewer.n_rows == 10
    for old, new in zip(splits, renumbered, strict=True):
        for part in ("train", "test"):
            rows, numbers = (np.r_[getattr(s, part)] for s in (old, new))
            np.testing.assert_array_equal(to_host(fewer.X)[numbers], X[rows])
            np.testing.assert_array_equal(to_host(fewer.y)[numbers, 0], y[rows])
            np.testing.assert_array_equal(to_host(fewer.weight)[numbers], rows)
    everything = [Split(slice(0, 30), slice(30, 50))]
    assert used_rows(batch, everything) == (batch, everything)


def test_weights_go_with_the_rows_of_each_round(rng):
    X, y = data(rng)
    weight = rng.integers(1, 4, size=len(y)).astype(float)
    mine = HalvingGridSearchCV(Ridge(), {"alpha": ALPHAS}, random_state=0)
    other = sk.HalvingGridSearchCV(sk_linear.Ridge(), {"alpha": ALPHAS}, random_state=0)
    assert_same_search(mine.fit(X, y, sample_weight=weight), other.fit(X, y, sample_weight=weight))


class FailsFor(RegressorMixin, BaseEstimator):
    """The mean of y, unless `a` is 1."""

    def __init__(self, a=0):
        self.a = a

    def fit(self, X, y):
        if self.a == 1:
            raise ValueError("a is 1")
        self.mean_ = y.mean() + self.a
        return self

    def predict(self, X):
        return np.full(len(X), self.mean_)


def test_a_candidate_that_fails_is_left_behind(rng):
    X, y = data(rng, n=90)
    with pytest.warns(FitFailedWarning), pytest.warns(UserWarning, match="non-finite"):
        mine = HalvingGridSearchCV(FailsFor(), {"a": [0, 1, 2]}, random_state=0).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        other = sk.HalvingGridSearchCV(FailsFor(), {"a": [0, 1, 2]}, random_state=0).fit(X, y)
    assert_same_search(mine, other)


BAD = {
    "splits that change": {"cv": sk.KFold(3, shuffle=True)},
    "no such resource": {"resource": "depth", "max_resources": 10},
    "searched resource": {"resource": "alpha", "max_resources": 10},
    "resource without a maximum": {"resource": "max_iter"},
    "too few": {"max_resources": 5},
    "factor": {"factor": 0},
    "resources": {"min_resources": "most"},
    "several metrics": {"scoring": ["r2"]},
    "no jobs": {"n_jobs": 0},
}


@pytest.mark.parametrize("settings", BAD.values(), ids=BAD)
def test_bad_settings_are_refused_as_scikit_learn_does(rng, settings):
    X, y = data(rng)
    with pytest.raises(Exception, match=".") as theirs:
        sk.HalvingGridSearchCV(sk_linear.Ridge(), {"alpha": ALPHAS}, **settings).fit(X, y)
    search = HalvingGridSearchCV(Ridge(), {"alpha": ALPHAS}, **settings)
    before = dict(vars(search))
    with pytest.raises(theirs.type) as ours:
        search.fit(X, y)
    assert str(ours.value) == str(theirs.value)
    assert vars(search) == before


def test_both_may_not_be_exhausted(rng):
    search = HalvingRandomSearchCV(Ridge(), {"alpha": ALPHAS}, min_resources="exhaust")
    with pytest.raises(ValueError, match="cannot be both set to 'exhaust'"):
        search.fit(*data(rng))


def test_a_search_is_cloned_and_pickled(rng):
    X, y = data(rng)
    search = clone(HalvingGridSearchCV(Ridge(), {"alpha": ALPHAS}, random_state=0)).fit(X, y)
    back = pickle.loads(pickle.dumps(search))
    assert back.best_params_ == search.best_params_
    np.testing.assert_array_equal(back.predict(X), search.predict(X))
    assert not any(name.startswith("_base") for name in vars(search))


def test_the_names_are_public():
    assert {"HalvingGridSearchCV", "HalvingRandomSearchCV"} <= set(ours_selection.__all__)
