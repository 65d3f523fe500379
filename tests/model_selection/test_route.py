"""One function says which way candidates go and why, and what it says is what is done and printed."""

import logging
import pickle
import time
from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse
from sklearn import linear_model as theirs
from sklearn.base import clone, is_classifier
from sklearn.ensemble import RandomForestRegressor
from sklearn.impute import SimpleImputer
from sklearn.metrics import check_scoring
from sklearn.neighbors import KNeighborsRegressor
from sklearn.preprocessing import SplineTransformer
from sklearn.preprocessing import StandardScaler as TheirScaler
from sklearn.tree import DecisionTreeRegressor

import gpuml
from gpuml._arrays import has_gpu
from gpuml.covariance import LedoitWolf
from gpuml.cross_decomposition import CCA
from gpuml.decomposition import PCA
from gpuml.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from gpuml.extending import RegressionStack
from gpuml.linear_model import LogisticRegression, Ridge, RidgeClassifier
from gpuml.model_selection import (
    GridSearchCV,
    HalvingGridSearchCV,
    HyperbandSearchCV,
    RandomizedSearchCV,
)
from gpuml.model_selection.candidates import raised_words
from gpuml.model_selection.one_by_one import Task
from gpuml.model_selection.route import AtOnce, OneByOne, SharedSteps, route
from gpuml.pipeline import make_pipeline
from gpuml.preprocessing import MinMaxScaler, StandardScaler
from gpuml.resampling.multifit import MODELS

N_ROWS, N_FEATURES = 40, 3
ALPHAS = [{"alpha": 0.1}, {"alpha": 1.0}]
BEHIND = [{"ridge__alpha": 0.1}, {"ridge__alpha": 1.0}]
WEIGHT = np.ones(N_ROWS)


class OwnFit(Ridge):
    def fit(self, X, y):
        return super().fit(X, y)


def task(estimator, scoring=None, fit_params=None, score_params=None):
    scorer = check_scoring(estimator, scoring)
    return Task(scorer, fit_params or {}, score_params or {}, False, np.nan, 0)


def dense(p=N_FEATURES):
    return np.broadcast_to(0.0, (N_ROWS, p))


SPARSE = sparse.csr_array((N_ROWS, N_FEATURES))
FOREST = RandomForestRegressor(random_state=0)
# Estimator, candidates, X, more of the task -> the route of the first candidates, words of why.
TABLE = {
    "ridge": (Ridge(), ALPHAS, dense(), {}, AtOnce, "they differ in alpha only"),
    "sparse ridge": (Ridge(), ALPHAS, SPARSE, {}, AtOnce, "alpha"),
    "rows nobody knows": (Ridge(), ALPHAS, None, {}, AtOnce, "alpha"),
    "no candidates' parameters": (Ridge(), [{}], dense(), {}, AtOnce, "one candidate"),
    "solver": (Ridge(solver="sag"), ALPHAS, dense(), {}, OneByOne, "leave solver at the default"),
    "positive": (Ridge(positive=True), ALPHAS, dense(), {}, OneByOne, "positive=True"),
    "warm start": (LogisticRegression(warm_start=True), [{"C": 1}], dense(), {}, OneByOne, "warm_"),
    "bad value": (Ridge(), [{"alpha": -1.0}], dense(), {}, OneByOne, "InvalidParameterError: The"),
    "own fit": (
        OwnFit(),
        ALPHAS,
        dense(),
        {},
        OneByOne,
        "OwnFit has its own fit, which the inherited",
    ),
    "scikit-learn's": (
        theirs.Ridge(),
        ALPHAS,
        dense(),
        {},
        OneByOne,
        "from gpuml.linear_model imp",
    ),
    "neighbours": (
        *(KNeighborsRegressor(), [{"n_neighbors": 1}, {"n_neighbors": 2}], dense(), {}),
        *(SharedSteps, "KNeighborsRegressor searches for neighbours in each training set"),
    ),
    "tree": (
        *(DecisionTreeRegressor(), [{"max_features": n} for n in (1, 2)], dense(), {}),
        *(OneByOne, "models of DecisionTreeRegressor() do not share passes over the rows"),
    ),
    "forest": (
        FOREST,
        [{"n_estimators": n} for n in (1, 2)],
        dense(),
        {},
        SharedSteps,
        "do not share",
    ),
    "weights of fits alone": (
        *(Ridge(), ALPHAS, dense(), {"score_params": {"sample_weight": WEIGHT}}),
        *(OneByOne, "scores use other weights"),
    ),
    "weights": (
        *(Ridge(), ALPHAS, dense()),
        {"fit_params": {"sample_weight": WEIGHT}, "score_params": {"sample_weight": WEIGHT}},
        *(AtOnce, "alpha"),
    ),
    "metadata": (Ridge(), ALPHAS, dense(), {"fit_params": {"z": 1}}, OneByOne, "fit is given z"),
    "scorer": (Ridge(), ALPHAS, dense(), {"scoring": "neg_max_error"}, AtOnce, "alpha"),
    "scaler": (
        make_pipeline(StandardScaler(), Ridge()),
        BEHIND,
        dense(),
        {},
        AtOnce,
        "ridge__alpha",
    ),
    "their scaler": (
        *(make_pipeline(TheirScaler(), Ridge()), BEHIND, dense(), {}),
        *(SharedSteps, "write from gpuml.preprocessing import StandardScaler"),
    ),
    "their imputer": (
        *(make_pipeline(SimpleImputer(strategy="median"), Ridge()), BEHIND, dense(), {}),
        *(SharedSteps, "SimpleImputer(strategy='median') is not one of gpuml's linear steps"),
    ),
    "different first steps": (
        make_pipeline(SplineTransformer(), Ridge()),
        [{"splinetransformer__degree": d} for d in (1, 2)],
        *(dense(), {}, OneByOne, "SplineTransformer() is not one of gpuml's linear steps"),
    ),
    "clip": (
        *(make_pipeline(MinMaxScaler(clip=True), Ridge()), BEHIND, dense(), {}),
        *(SharedSteps, "MinMaxScaler with clip=True cannot be computed from moments; leave clip"),
    ),
    "order": (
        *(make_pipeline(PCA(2), MinMaxScaler(), Ridge()), BEHIND, dense(), {}),
        *(SharedSteps, "MinMaxScaler needs extrema of features behind PCA"),
    ),
    "wide": (
        *(make_pipeline(StandardScaler(), Ridge()), BEHIND, dense(N_ROWS + 1), {}),
        *(SharedSteps, "X has more features (41) than samples (40)"),
    ),
    "memory": (
        *(make_pipeline(StandardScaler(), Ridge(), memory="x"), BEHIND, dense(), {}),
        *(OneByOne, "memory=; leave it out"),
    ),
    "their model": (
        *(make_pipeline(StandardScaler(), theirs.Ridge()), BEHIND, dense(), {}),
        *(SharedSteps, "write from gpuml.linear_model import Ridge"),
    ),
}


@pytest.mark.parametrize("name", TABLE)
def test_the_route_and_its_reason(name):
    estimator, candidates, X, more, kind, words = TABLE[name]
    before = pickle.dumps(estimator)
    found = route(estimator, candidates, X, task(estimator, **more))
    assert type(found[0]) is kind
    assert words in found[0].reason
    assert sorted(p for each in found for p in each.positions) == list(range(len(candidates)))
    # It is a function: the same again, and nothing is changed.
    again = route(estimator, candidates, X, task(estimator, **more))
    assert [(type(e), e.positions, e.reason) for e in found] == [
        (type(e), e.positions, e.reason) for e in again
    ]
    assert pickle.dumps(estimator) == before


class Unprinted(Ridge):
    """A model that takes long to print, as one does whose parameters are many."""

    def __repr__(self, N_CHAR_MAX=700):
        raise AssertionError("nobody reads this")


def test_no_reason_is_worded_that_nobody_reads():
    """Finding words takes as long as fitting some hundred rows."""
    X, y = rows()
    search = GridSearchCV(Unprinted(), {"alpha": [0.1, 1.0]}).fit(X, y)
    assert search.plan_.reasons == ()


def test_candidates_of_one_search_may_go_different_ways():
    candidates = [*ALPHAS, {"alpha": 1.0, "solver": "sag"}, {"alpha": 0.1, "fit_intercept": False}]
    at_once, alone = route(Ridge(), candidates, dense(), task(Ridge()))
    assert isinstance(at_once, AtOnce)
    assert (at_once.positions, alone.positions) == ([0, 1, 3], [2])


def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_ROWS, N_FEATURES))
    return X, X @ [1.0, 2.0, 3.0] + rng.normal(size=N_ROWS)


SEARCHED = [
    *("ridge", "solver", "scikit-learn's", "neighbours", "tree", "forest", "their scaler", "order")
]


@pytest.mark.parametrize("name", SEARCHED)
def test_the_reason_is_told_wherever_the_user_looks(name, capsys, caplog):
    estimator, candidates, _, _, kind, words = TABLE[name]
    grid = [{key: [value] for key, value in each.items()} for each in candidates]
    search = GridSearchCV(estimator, grid, cv=3, verbose=2)
    foretold = search.explain(*rows())
    with caplog.at_level(logging.INFO, "gpuml"):
        search.fit(*rows())
    plan = search.plan_
    places = {
        "printed ahead": capsys.readouterr().out.split("[CV]")[0],
        "plan": str(plan),
        "plan in a notebook": plan._repr_html_().replace("&#x27;", "'"),
        "search in a notebook": search._repr_html_().replace("&#x27;", "'"),
        "log": caplog.text,
        "explain": str(foretold),
        "explain in a notebook": foretold._repr_html_().replace("&#x27;", "'"),
    }
    for place, text in places.items():
        assert (words in text) == (kind is not AtOnce), place
        if place not in ("printed ahead", "log", "search in a notebook"):
            assert ("batched" in text.lower()) == (kind is not AtOnce), place


@pytest.mark.parametrize("name", SEARCHED)
def test_what_is_foretold_is_what_happens(name):
    estimator, candidates, *_ = TABLE[name]
    grid = [{key: [value] for key, value in each.items()} for each in candidates]
    search = GridSearchCV(estimator, grid, cv=3)
    foretold = search.explain(*rows())
    assert not hasattr(search, "plan_")
    plan = search.fit(*rows()).plan_
    assert foretold.n_fits == plan.n_fits
    assert foretold.n_passes in (None, plan.n_passes)
    assert {reason for step in foretold.steps for reason in step.reasons} == {
        reason for step in plan.steps for reason in step.reasons
    }


@pytest.mark.parametrize("behind", [False, True])
def test_several_labels_per_row_are_foretold(behind):
    X, y = rows()
    labels = np.stack([y > 0, X[:, 0] > 0], axis=1).astype(int)
    model = make_pipeline(StandardScaler(), RidgeClassifier()) if behind else RidgeClassifier()
    name = "ridgeclassifier__alpha" if behind else "alpha"
    search = GridSearchCV(model, {name: [0.1, 1.0]}, cv=3)
    foretold, plan = search.explain(X, labels), search.fit(X, labels).plan_
    assert [step.reasons for step in foretold.steps] == [step.reasons for step in plan.steps]


def test_bytes_and_seconds_are_told_where_they_are_known():
    X, y = rows()
    known = GridSearchCV(Ridge(), {"alpha": [0.1, 1.0]}).explain(X, y)
    assert (known.n_passes, known.n_bytes) == (1, X.nbytes)
    assert 0 < known.seconds < 1
    assert "Nothing was fitted yet" in str(known)
    assert "Times are estimates, from" in str(known)
    assert "Gflop/s on numpy:cpu as measured" in str(known)
    twice = RandomizedSearchCV(Ridge(), {"alpha": [0.1, 1.0]}, n_iter=2).explain(
        np.r_[X, X], np.r_[y, y]
    )
    assert twice.rates == known.rates  # measured once
    assert known.seconds < twice.seconds
    unknown = GridSearchCV(DecisionTreeRegressor(), {"max_features": [1, 2]}).explain(X, y)
    assert unknown.seconds is None
    assert unknown.n_bytes == 10 * X.nbytes
    # Their solver does it, and nobody knows what it costs.
    assert GridSearchCV(Ridge(solver="sag"), {"alpha": [1.0]}).explain(X, y).seconds is None


SMALL = {
    "ridge": (Ridge(), {"alpha": np.logspace(-2, 2, 10)}),
    "pipeline": (make_pipeline(StandardScaler(), Ridge()), {"ridge__alpha": [0.1, 1.0, 10.0]}),
    "one by one": (OwnFit(), {"alpha": [0.1, 1.0, 10.0]}),
}


@pytest.mark.parametrize("name", SMALL)
def test_a_small_search_takes_what_is_foretold(name, rng, monkeypatch):
    """Which is what Python takes; operations on so few numbers are a hundredth of it."""
    estimator, grid = SMALL[name]
    X = rng.standard_normal((1000, 10))
    y = X[:, 0] + rng.standard_normal(1000)
    search = GridSearchCV(estimator, grid, cv=5)
    # Others may have the processor meanwhile.
    clock = SimpleNamespace(perf_counter=time.process_time)
    monkeypatch.setattr("gpuml.model_selection.explain.time", clock)
    ratios = []
    for _ in range(10):
        monkeypatch.setattr("gpuml.model_selection.explain._speeds", {})
        foretold = search.explain(X, y).seconds
        took = []
        for _ in range(5):
            started = time.process_time()
            search.fit(X, y)
            took.append(time.process_time() - started)
        ratios.append(foretold / np.median(took))
        if 0.5 < ratios[-1] < 2:
            return
    raise AssertionError(f"Seconds foretold, of those taken: {ratios}")


class LeastStack(RegressionStack):
    """Predicts, and has nothing else that a stack may have."""

    def __init__(self, stack):
        self.stack, self.n_candidates, self.n_passes = stack, stack.n_candidates, stack.n_passes

    def pick(self, candidate, split):
        return self.stack.pick(candidate, split)

    def predict(self, X, split, candidates):
        return self.stack.predict(X, split, candidates)


class Unrelated:
    """The same members, of no base class."""

    __init__, pick, predict = LeastStack.__init__, LeastStack.pick, LeastStack.predict


class WithStack(Ridge):
    kind = LeastStack

    def multifit(self, folds, candidates, advance=None):
        return self.kind(super().multifit(folds, candidates, advance))


class WithUnrelatedStack(WithStack):
    kind = Unrelated


def test_a_stack_of_ones_own_derives_from_a_base_class_and_needs_no_more_than_it_asks_for():
    X, y = rows()
    grid = {"alpha": [0.1, 1.0]}
    wanted = GridSearchCV(Ridge(), grid).fit(X, y).cv_results_["mean_test_score"]
    found = GridSearchCV(WithStack(), grid).fit(X, y)
    assert found.plan_.n_passes == 1
    np.testing.assert_allclose(found.cv_results_["mean_test_score"], wanted, rtol=1e-9)
    with pytest.warns(RuntimeWarning, match="returned Unrelated: derive that from RegressionStack"):
        alone = GridSearchCV(WithUnrelatedStack(), grid).fit(X, y)
    np.testing.assert_allclose(alone.cv_results_["mean_test_score"], wanted, rtol=1e-9)


@pytest.mark.parametrize("name", MODELS)
def test_seconds_are_known_of_all_models_that_are_fitted_at_once(name):
    X, y = rows()
    is_class = any(word in name for word in ("Class", "Discriminant", "Logistic"))
    target = (y > 0).astype(int) if is_class else abs(y)
    estimator = getattr(import_module(MODELS[name]), name)()
    flags = ("fit_intercept", "store_covariance", "store_precision", "scale")
    of_model = next((flag for flag in flags if flag in estimator.get_params()), "max_iter")
    values = [10, 20] if of_model == "max_iter" else [True, False]
    foretold = GridSearchCV(estimator, {of_model: values}).explain(X, target)
    assert 0 < foretold.seconds < 1
    if estimator.multifit_in_frames:
        behind = make_pipeline(StandardScaler(), estimator)
        grid = {f"{name.lower()}__{of_model}": values}
        assert foretold.seconds <= GridSearchCV(behind, grid).explain(X, target).seconds < 1


def test_adaptive_searches_tell_their_first_round():
    X, y = rows()
    halving = HalvingGridSearchCV(Ridge(), {"alpha": [0.1, 1.0, 10.0]}, cv=2)
    assert halving.explain(X, y).n_fits == 6
    assert vars(halving).keys() == vars(clone(halving)).keys()
    hyperband = HyperbandSearchCV(theirs.SGDRegressor(), {"alpha": [0.1, 1.0]}, max_iter=9)
    assert "models are trained call by call" in str(hyperband.explain(X, y))


def test_what_fit_refuses_at_the_door_explain_refuses_too():
    with pytest.raises(ValueError, match="requires y to be passed"):
        GridSearchCV(Ridge(), {"alpha": [1.0]}).explain(rows()[0])


# ------------------------------------------------------------- errors that nobody repeats


class FailsTogether(Ridge):
    """It fails where several are fitted at once, and not by itself."""

    kind = ValueError

    def multifit(self, folds, candidates, advance=None):
        if len(candidates) > 1:
            raise self.kind("not together")
        return super().multifit(folds, candidates, advance)


class FailsForBad(Ridge):
    """One candidate fails wherever it is."""

    def multifit(self, folds, candidates, advance=None):
        if any(each.get("alpha", self.alpha) == 7.0 for each in candidates):
            raise ValueError("not seven")
        return super().multifit(folds, candidates, advance)


def of_kind(error):
    return type("Fails", (FailsTogether,), {"kind": error})()


ROUTES = {
    "at once": lambda model: model,
    "behind a step": lambda model: make_pipeline(StandardScaler(), model),
    "on each fold": lambda model: make_pipeline(SplineTransformer(degree=1), model),
    "last steps on each fold": lambda model: make_pipeline(
        SplineTransformer(degree=1, include_bias=False), StandardScaler(), model
    ),
}


@pytest.mark.parametrize("way", ROUTES)
@pytest.mark.parametrize("error", [ValueError, TypeError, RuntimeError, KeyError])
def test_an_error_of_several_that_none_of_them_repeats_is_told(way, error):
    X, y = rows()
    estimator = ROUTES[way](of_kind(error))
    names = [name for name in estimator.get_params() if name.split("__")[-1] == "alpha"]
    search = GridSearchCV(estimator, {names[0]: [0.1, 1.0]}, cv=3, error_score=-7.0)
    with pytest.warns(RuntimeWarning, match=raised_words(error("not together"))) as warned:
        search.fit(X, y)
    # Once for all splits, and at most once more for each of them.
    assert len({str(each.message) for each in warned}) == len(warned) <= 2
    usual = GridSearchCV(
        ROUTES[way](Ridge()), {n.replace("fails", "ridge"): [0.1, 1.0] for n in names}
    )
    usual.set_params(cv=3).fit(X, y)
    for column in ("split0_test_score", "mean_test_score"):
        np.testing.assert_allclose(search.cv_results_[column], usual.cv_results_[column], rtol=1e-9)


@pytest.mark.parametrize("way", ROUTES)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.FitFailedWarning", "ignore:One or more")
def test_an_error_that_a_candidate_repeats_is_its_own(way, recwarn):
    estimator = ROUTES[way](FailsForBad())
    name = next(name for name in estimator.get_params() if name.split("__")[-1] == "alpha")
    search = GridSearchCV(estimator, {name: [1.0, 7.0]}, cv=3, error_score=-7.0).fit(*rows())
    assert (search.cv_results_["mean_test_score"] == [-7.0, -7.0]).tolist() == [False, True]
    assert [w for w in recwarn if "together" in str(w.message)] == []


@pytest.mark.filterwarnings("ignore:The scoring:UserWarning")
@pytest.mark.parametrize(
    "model",
    [LinearDiscriminantAnalysis(), QuadraticDiscriminantAnalysis(), CCA(1), LedoitWolf()],
    ids=lambda model: type(model).__name__,
)
@pytest.mark.parametrize("behind", [False, True])
def test_weights_that_fit_does_not_take_are_refused(model, behind):
    X, y = rows()
    name = type(model).__name__.lower()
    target = (y > 0).astype(int) if is_classifier(model) else y
    model, prefix = (make_pipeline(StandardScaler(), model), f"{name}__") if behind else (model, "")
    search = GridSearchCV(model, {}, error_score="raise")
    with pytest.raises(TypeError, match="sample_weight"):
        search.fit(X, target, **{f"{prefix}sample_weight": np.ones(len(X))})


@pytest.mark.skipif(has_gpu(), reason="there is a GPU")
def test_a_device_that_is_not_there_is_an_error_of_the_search():
    X, y = np.eye(6), np.arange(6.0)
    with gpuml.config_context(device="cuda"), pytest.raises(RuntimeError, match="sees no GPU"):
        GridSearchCV(Ridge(), {"alpha": [1.0, 2.0]}, cv=2).fit(X, y)
