"""Forests, trees and boosted ensembles that are read off one fit: they are scikit-learn's."""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from scipy.stats import ks_2samp
from sklearn import config_context, ensemble, tree
from sklearn import model_selection as sk
from sklearn.base import clone
from sklearn.exceptions import FitFailedWarning
from sklearn.linear_model import Ridge
from sklearn.metrics import check_scoring
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import gpuml
from gpuml.data import Split
from gpuml.ensemble import RandomForestClassifier, RandomForestRegressor
from gpuml.model_selection import GridSearchCV, RandomizedSearchCV, fold_fits, one_by_one
from gpuml.model_selection.boosters import OneBooster
from gpuml.model_selection.candidates import CUT, GROWN, PRUNED
from gpuml.model_selection.cut_trees import OneForest
from gpuml.model_selection.one_fits import one_fit_key, one_fit_kind

RNG = np.random.default_rng(5)
X = RNG.normal(size=(90, 5))
X[:, 0] = np.abs(np.round(X[:, 0]))  # a few categories, too
NUMBERS = X @ RNG.normal(size=(5, 2)) + 0.3 * RNG.normal(size=(90, 2))
LABELS = np.array(["b", "a", "cc"])[np.digitize(NUMBERS[:, 0], [-1.0, 1.0])]
SEVERAL = np.stack([LABELS, LABELS[::-1]], axis=1)
WEIGHTS = RNG.uniform(0.2, 2.0, size=90)
ALPHAS = [0.0, 0.01, 0.05]
TREES = {"n_estimators": [7, 1, 12], "ccp_alpha": ALPHAS}
SIZES = {"n_estimators": [7, 1, 12]}
ROUNDS = {"max_iter": [7, 1, 12]}

# name -> (model, grid, y): all that is exact
EXACT = {
    "forest": (ensemble.RandomForestClassifier(random_state=0, max_samples=0.8), TREES, LABELS),
    "forest of weighted classes": (
        ensemble.RandomForestClassifier(random_state=0, class_weight={"a": 2.0}),
        SIZES,
        LABELS,
    ),
    "forest of balanced resamples": (
        ensemble.RandomForestClassifier(random_state=0, class_weight="balanced_subsample"),
        SIZES,
        LABELS,
    ),
    "forest of leaves": (
        ensemble.RandomForestRegressor(random_state=3, max_leaf_nodes=6, max_features=2),
        TREES,
        NUMBERS[:, 0],
    ),
    "forest of several targets": (
        ensemble.RandomForestRegressor(random_state=3, min_samples_leaf=2),
        TREES,
        NUMBERS,
    ),
    "forest of several labels": (
        ensemble.ExtraTreesClassifier(random_state=0, bootstrap=True),
        TREES,
        SEVERAL,
    ),
    "extra trees": (ensemble.ExtraTreesRegressor(random_state=np.int64(1)), TREES, NUMBERS[:, 0]),
    "our forest": (RandomForestClassifier(random_state=0), TREES, LABELS),
    "our regressor": (RandomForestRegressor(random_state=0, bootstrap=False), TREES, NUMBERS[:, 1]),
    "tree": (tree.DecisionTreeClassifier(random_state=0), {"ccp_alpha": ALPHAS}, LABELS),
    "regression tree": (
        tree.ExtraTreeRegressor(random_state=0),
        {"ccp_alpha": ALPHAS},
        NUMBERS[:, 0],
    ),
    "boosting": (
        ensemble.GradientBoostingClassifier(random_state=0, subsample=0.7, max_features=2),
        SIZES,
        LABELS,
    ),
    "boosting that stops early": (
        ensemble.GradientBoostingRegressor(random_state=1, n_iter_no_change=1, tol=0.1),
        {"n_estimators": [2, 9, 40]},
        NUMBERS[:, 0],
    ),
    "boosting of huber": (
        ensemble.GradientBoostingRegressor(random_state=1, loss="huber", init="zero"),
        SIZES,
        NUMBERS[:, 0],
    ),
    "histograms": (
        ensemble.HistGradientBoostingClassifier(
            random_state=0, max_features=0.5, class_weight="balanced"
        ),
        ROUNDS,
        LABELS,
    ),
    "histograms of categories": (
        ensemble.HistGradientBoostingRegressor(
            random_state=1, max_bins=9, categorical_features=[0]
        ),
        ROUNDS,
        NUMBERS[:, 0],
    ),
    "histograms that stop early": (
        ensemble.HistGradientBoostingRegressor(
            random_state=1, early_stopping=True, n_iter_no_change=1, tol=0.05
        ),
        {"max_iter": [2, 9, 40]},
        NUMBERS[:, 0],
    ),
}


@pytest.fixture(params=EXACT)
def exact(request):
    return EXACT[request.param]


def share_of_labels(model, X, y, sample_weight=None):
    return np.average(np.mean(model.predict(X) == y, axis=1), weights=sample_weight)


def assert_same_scores(ours, theirs):
    names = [name for name in theirs.cv_results_ if "_test_" in name or "_train_" in name]
    for name in names:  # means of squares may be added up in another order
        np.testing.assert_allclose(ours.cv_results_[name], theirs.cv_results_[name], rtol=1e-13)


@pytest.mark.parametrize("weighted", [False, True])
def test_searches_have_the_scores_of_sklearn(exact, weighted):
    model, grid, y = exact
    if y.ndim == 2 and "Classifier" in type(model).__name__:
        scoring = share_of_labels
    else:
        scoring = ["r2", "neg_mean_absolute_error"] if y.ndim == 1 and y.dtype.kind == "f" else None
    weight = {"sample_weight": WEIGHTS} if weighted else {}
    found = [
        search(model, grid, cv=3, scoring=scoring, refit=False, return_train_score=True).fit(
            X, y, **weight
        )
        for search in (GridSearchCV, sk.GridSearchCV)
    ]
    assert_same_scores(*found)
    assert found[0].plan_.n_passes == 3


@pytest.mark.parametrize(
    "model",
    [
        ensemble.RandomForestClassifier(n_estimators=3, random_state=0),
        tree.DecisionTreeClassifier(random_state=0),
        make_pipeline(StandardScaler(), tree.DecisionTreeClassifier(random_state=0)),
    ],
    ids=lambda model: type(model).__name__,
)
def test_requested_weights_make_no_candidates_equal(model):
    last = model[-1] if hasattr(model, "steps") else model
    name = "class_weight" if last is model else "decisiontreeclassifier__class_weight"
    grid = {name: [None, "balanced", {"a": 9.0}]}
    with config_context(enable_metadata_routing=True):
        own = clone(model)
        (own[-1] if hasattr(own, "steps") else own).set_fit_request(sample_weight=True)
        ours, theirs = (
            kind(own, grid, cv=3, scoring="neg_log_loss")
            for kind in (GridSearchCV, sk.GridSearchCV)
        )
        for search in (ours, theirs):
            search.fit(X, LABELS)
    expected = theirs.cv_results_["mean_test_score"]
    assert len(set(expected)) == 3
    np.testing.assert_allclose(ours.cv_results_["mean_test_score"], expected)


def test_models_have_the_attributes_of_single_fits(exact):
    model, grid, y = exact
    candidates = list(sk.ParameterGrid(grid))
    results = run(model, X, y, candidates)
    for params, result in zip(candidates, results, strict=True):
        alone = clone(model).set_params(**params).fit(X[:60], y[:60])
        read = result["estimator"]
        assert type(read) is type(alone)
        assert read.get_params() == alone.get_params()
        for method in ("predict", "predict_proba"):
            if hasattr(alone, method):
                np.testing.assert_array_equal(getattr(read, method)(X), getattr(alone, method)(X))
        own = {n for n in vars(alone) if n.endswith("_") and not n.startswith("_")}
        assert own == {n for n in vars(read) if n.endswith("_") and not n.startswith("_")}
        names = ("feature_importances_", "n_iter_", "n_estimators_", "train_score_", "oob_scores_")
        for name in ("validation_score_", "oob_improvement_", *names):
            if hasattr(alone, name):
                np.testing.assert_array_equal(getattr(read, name), getattr(alone, name))
        trees = getattr(alone, "estimators_", ())
        assert len(getattr(read, "estimators_", ())) == len(trees)


def run(model, X, y, candidates, **options):
    """Results on one fold, with models."""
    score = check_scoring(model) if y.ndim == 1 or y.dtype.kind == "f" else lambda *_: 0.0
    task = one_by_one.Task(score, {}, {}, True, "raise", 0, return_estimator=True)
    placed = [
        (params, one_by_one.Progress(0, 1, i, len(candidates)))
        for i, params in enumerate(candidates)
    ]
    split = Split(slice(0, 60), slice(60, len(y)))
    task = replace(task, **options)
    return fold_fits.fit_fold(model, X, y, split, placed, task, gpuml.get_config())


def test_trees_are_grown_once(monkeypatch):
    sizes, fit = [], ensemble.RandomForestClassifier.fit

    def noted(self, *args, **kwargs):
        fitted = fit(self, *args, **kwargs)
        sizes.append(len(self.estimators_))
        return fitted

    monkeypatch.setattr(ensemble.RandomForestClassifier, "fit", noted)
    grid = {"n_estimators": [2, 9, 5], "max_depth": [1, 3], "ccp_alpha": [0.0, 0.1]}
    model = ensemble.RandomForestClassifier(random_state=0)
    GridSearchCV(model, grid, cv=3, refit=False).fit(X, LABELS)
    assert sizes == [9] * 3
    sizes.clear()
    with gpuml.config_context(cut_trees=False):
        GridSearchCV(model, grid, cv=3, refit=False).fit(X, LABELS)
    assert sizes == [9] * 2 * 3


@pytest.mark.parametrize("X", [scipy.sparse.csr_array(X), pd.DataFrame(X, columns=list("abcde"))])
def test_rows_of_other_kinds(X):
    model = ensemble.RandomForestClassifier(random_state=0)
    found = [
        search(model, TREES, cv=3, refit=False).fit(X, LABELS)
        for search in (GridSearchCV, sk.GridSearchCV)
    ]
    assert_same_scores(*found)
    assert found[0].plan_.n_passes == 3


@pytest.mark.parametrize("name", ["forest", "boosting", "histograms"])
def test_last_steps_of_pipelines(name):
    model, grid, y = EXACT[name]
    pipeline = make_pipeline(StandardScaler(), model)
    grid = {f"{pipeline.steps[-1][0]}__{name}": values for name, values in grid.items()}
    grid["standardscaler__with_mean"] = [True, False]
    found = [
        search(pipeline, grid, cv=3, refit=False, scoring="neg_log_loss").fit(X, y)
        for search in (GridSearchCV, sk.GridSearchCV)
    ]
    assert_same_scores(*found)
    assert found[0].plan_.n_passes == 2 * 3


def test_scorers_that_ask_models_themselves():
    """They get what a fit by itself gives, whatever rows and methods they ask of it."""

    def score(model, X, y):
        other = model.predict_proba(X[::2])[:, 0].sum()
        return {"a": other, "b": len(model.estimators_), "c": model.apply(X).sum()}

    model = ensemble.RandomForestClassifier(random_state=0)
    found = [
        search(model, TREES, cv=3, refit=False, scoring=score).fit(X, LABELS)
        for search in (GridSearchCV, sk.GridSearchCV)
    ]
    assert_same_scores(*found)


def test_a_size_that_fails_fails_alone():
    grid = {"n_estimators": [3, -1, 5], "max_depth": [2, "x"]}
    model = ensemble.RandomForestClassifier(random_state=0)
    with pytest.warns(FitFailedWarning, match="12 fits failed out of a total of 18"):
        search = GridSearchCV(model, grid, cv=3, refit=False, error_score=-7.0).fit(X, LABELS)
    failed = search.cv_results_["mean_test_score"] == -7
    assert failed.tolist() == [False, True, False, True, True, True]


def test_a_fit_that_fails_fails_as_in_sklearn():
    model = ensemble.RandomForestRegressor(random_state=0, criterion="poisson")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [
            search(model, SIZES, cv=3, refit=False, error_score=-7.0)
            for search in (GridSearchCV, sk.GridSearchCV)
        ]
        for search in found:
            with pytest.raises(ValueError, match="All the 9 fits failed"):
                search.fit(X, NUMBERS[:, 0])


# ---------------------------------------------------------------- trees that are cut


CUTS = {"max_depth": [1, 2, 4, None], "min_samples_split": [2, 0.2]}


@pytest.mark.parametrize(
    "model",
    [
        pytest.param(ensemble.RandomForestClassifier(max_samples=40), marks=pytest.mark.exhaustive),
        pytest.param(ensemble.ExtraTreesClassifier(), marks=pytest.mark.exhaustive),
        tree.ExtraTreeClassifier(max_features=2, min_samples_leaf=3),
    ],
    ids=lambda model: type(model).__name__,
)
def test_cut_trees_are_distributed_as_grown_ones(model):
    """Numbers of leaves and scores over seeds; by the test of Kolmogorov and Smirnov."""
    if hasattr(model, "n_estimators"):
        model.set_params(n_estimators=3)
    y = np.digitize(NUMBERS[:, 0], [0.0])
    candidates = list(sk.ParameterGrid(CUTS))[:-1]
    grown, cut = ([[] for _ in candidates] for _ in range(2))
    for seed in range(30):
        # Seeds of the two are apart, so that samples are independent.
        model.set_params(random_state=seed)
        read = run(model, X, y, candidates)
        for c, (params, result) in enumerate(zip(candidates, read, strict=True)):
            cut[c].append([result["test_scores"], n_leaves(result["estimator"])])
            alone = clone(model).set_params(**params, random_state=1000 + seed)
            alone.fit(X[:60], y[:60])
            grown[c].append([alone.score(X[60:], y[60:]), n_leaves(alone)])
    for ours, theirs in zip(cut, grown, strict=True):
        for a, b in zip(np.transpose(ours), np.transpose(theirs), strict=True):
            assert ks_2samp(a, b, method="asymp").pvalue > 1e-4


def n_leaves(model):
    trees = getattr(model, "estimators_", None) or [model]
    return sum(each.get_n_leaves() for each in trees)


@pytest.mark.parametrize("alpha", [0.0, 0.02])
def test_what_is_left_of_a_cut_tree_is_the_tree_itself(alpha):
    model = tree.DecisionTreeClassifier(random_state=0)
    params = {"max_depth": 3, "ccp_alpha": alpha}
    deep, cut = (r["estimator"] for r in run(model, X, LABELS, [{"max_depth": None}, params]))
    # Without random features trees agree but for splits that are equally good.
    alone = tree.DecisionTreeClassifier(random_state=0, **params).fit(X[:60], LABELS[:60])
    assert cut.get_depth() == alone.get_depth() <= 3 < deep.get_depth()
    np.testing.assert_array_equal(cut.tree_.impurity, alone.tree_.impurity)
    np.testing.assert_array_equal(cut.tree_.value, alone.tree_.value)
    np.testing.assert_array_equal(cut.tree_.children_left, alone.tree_.children_left)


def test_cuts_can_be_turned_off():
    model = ensemble.RandomForestClassifier(n_estimators=5, random_state=0)
    grid = {"n_estimators": [2, 5], **CUTS}
    theirs = sk.GridSearchCV(model, grid, cv=3, refit=False).fit(X, LABELS)
    with gpuml.config_context(cut_trees=False):
        ours = GridSearchCV(model, grid, cv=3, refit=False).fit(X, LABELS)
    assert_same_scores(ours, theirs)
    assert ours.plan_.n_passes == 3 * 8
    assert CUT not in str(ours.plan_)
    with pytest.raises(ValueError, match="cut_trees must be True or False, got 1"):
        gpuml.set_config(cut_trees=1)


# ---------------------------------------------------------------- plans


@pytest.mark.parametrize(
    ("grid", "words"),
    [
        ({"n_estimators": [2, 4]}, [GROWN]),
        ({"max_depth": [2, 4]}, [CUT]),
        ({"ccp_alpha": [0.0, 0.1]}, [PRUNED]),
        ({"n_estimators": [2, 4], "min_samples_split": [2, 5]}, [GROWN, CUT]),
    ],
)
def test_plans_say_what_is_shared(grid, words, capsys):
    model = ensemble.RandomForestClassifier(random_state=0)
    search = GridSearchCV(model, grid, cv=3, refit=False, verbose=2).fit(X, LABELS)
    assert all(each in search.plan_.steps[0].why for each in words)
    assert f"({', '.join(words)})" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (ensemble.RandomForestClassifier(random_state=np.random.RandomState(0)), "an integer"),
        (ensemble.RandomForestClassifier(random_state=0, oob_score=True), "cv='oob'"),
        (ensemble.RandomForestClassifier(random_state=0, warm_start=True), "warm_start=True"),
        (ensemble.GradientBoostingRegressor(random_state=0, init=Ridge()), "init is an estimator"),
        (ensemble.GradientBoostingRegressor(), "an integer random_state"),
        (ensemble.HistGradientBoostingRegressor(early_stopping=False), "an integer random_state"),
    ],
)
@pytest.mark.filterwarnings("ignore:Some inputs do not have OOB scores")
def test_plans_say_why_nothing_is_shared(model, why):
    size = "max_iter" if hasattr(model, "max_iter") else "n_estimators"
    y = LABELS if "Classifier" in type(model).__name__ else NUMBERS[:, 0]
    search = GridSearchCV(model, {size: [1, 2]}, cv=3, refit=False).fit(X, y)
    assert why in search.plan_.reasons[0]
    assert search.plan_.n_passes == 6


@pytest.mark.parametrize(
    "model",
    [
        ensemble.RandomForestClassifier(random_state=0, n_estimators=0),
        ensemble.RandomForestClassifier(random_state=0, ccp_alpha="x"),
        ensemble.HistGradientBoostingClassifier(random_state=0, max_iter=0),
        tree.DecisionTreeRegressor(random_state=0, min_samples_split=1),
        type("Mine", (ensemble.RandomForestClassifier,), {})(random_state=0),
        type("Mine", (ensemble.GradientBoostingClassifier,), {})(random_state=0),
        ensemble.BaggingClassifier(random_state=0),
    ],
)
def test_what_has_no_key(model):
    assert one_fit_key(model) is None


def test_each_model_has_one_kind():
    kinds = {type(model).__name__: one_fit_kind(model) for model, *_ in EXACT.values()}
    assert set(kinds.values()) == {OneForest, OneBooster}


def test_forests_without_a_seed_are_shared():
    """Two fits are two draws anyway."""
    model = ensemble.RandomForestClassifier()
    search = RandomizedSearchCV(model, {"max_depth": [2, 4, 8]}, n_iter=3, cv=3, random_state=0)
    assert search.fit(X, LABELS).plan_.n_passes == 3
