"""Pipelines whose first steps are fitted once: agreement with scikit-learn, counts of fits."""

import time
import warnings
from copy import deepcopy
from threading import Lock

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn import model_selection as sk
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    RandomForestClassifier,
)
from sklearn.exceptions import FitFailedWarning
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer
from sklearn.feature_selection import SelectKBest, f_regression
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import make_scorer, mean_absolute_error
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    Normalizer,
    OneHotEncoder,
    PolynomialFeatures,
    StandardScaler,
    TargetEncoder,
)
from sklearn.random_projection import GaussianRandomProjection
from sklearn.tree import DecisionTreeRegressor

import gpuml
from gpuml.linear_model import LogisticRegression as OurLogisticRegression
from gpuml.linear_model import Ridge as OurRidge
from gpuml.model_selection import GridSearchCV, fold_fits, one_by_one
from gpuml.model_selection.fold_fits import fit_sharing
from gpuml.model_selection.prefixes import fit_pipelines, prefix_order, shares_prefixes
from gpuml.resampling.keys import estimator_key, value_key


@pytest.fixture(autouse=True)
def calls(monkeypatch):
    """Names of what searches go through: `fit_pipelines` and `fit_sharing`."""
    names = []

    def noting(name, function):
        def call(*args):
            names.append(name)
            return function(*args)

        return call

    monkeypatch.setattr(fold_fits, "fit_pipelines", noting("pipelines", fit_pipelines))
    monkeypatch.setattr(fold_fits, "fit_sharing", noting("sharing", fit_sharing))
    return names


class Counting(TransformerMixin, BaseEstimator):
    """Multiplies, and counts what is done with it by a name."""

    done: list = []  # noqa: RUF012

    def __init__(self, name="a", factor=1.0):
        self.name = name
        self.factor = factor

    def fit(self, X, y=None):
        self.done.append(("fit", self.name, self.factor))
        self.n_features_in_ = X.shape[1]
        return self

    def transform(self, X):
        self.done.append(("transform", self.name, self.factor))
        return X * self.factor


@pytest.fixture
def done():
    Counting.done.clear()
    return Counting.done


def numbers(n=90, p=5, holes=False, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    y = X @ rng.normal(size=p) + X[:, 0] ** 2 + 0.3 * rng.normal(size=n)
    if holes:
        X[rng.random(size=X.shape) < 0.1] = np.nan
    return X, y


def labels(n=90, p=5):
    X, y = numbers(n, p)
    return X, np.digitize(y, np.quantile(y, [0.4, 0.7]))


def frame(n=120):
    rng = np.random.default_rng(3)
    X = pd.DataFrame(
        {
            "town": rng.choice(["Ayr", "Bonn", "Cork"], n),
            "size": rng.normal(size=n),
            "age": rng.integers(1, 60, n).astype(float),
        }
    )
    return X, ((X["size"] + (X["town"] == "Bonn") + 0.5 * rng.normal(size=n)) > 0.4).to_numpy()


def texts(n=80):
    rng = np.random.default_rng(5)
    words = np.array(["red", "green", "blue", "dog", "cat", "bird", "runs", "sleeps", "sings"])
    lines = [" ".join(rng.choice(words, 6)) for _ in range(n)]
    return lines, np.array(["dog" in line for line in lines])


def columns():
    return ColumnTransformer(
        [("town", OneHotEncoder(), ["town"]), ("rest", StandardScaler(), ["size", "age"])]
    )


# name -> (pipeline, grid, data, further arguments of the search)
SEARCHES = {
    "impute, powers, ridge": (
        make_pipeline(SimpleImputer(), PolynomialFeatures(), Ridge()),
        {
            "simpleimputer__strategy": ["mean", "median"],
            "polynomialfeatures__degree": [1, 2],
            "ridge__alpha": [0.1, 1.0, 10.0],
        },
        numbers(holes=True),
        {"return_train_score": True},
    ),
    "columns of a frame": (
        make_pipeline(columns(), LogisticRegression()),
        {
            "columntransformer__town__drop": [None, "first"],
            "columntransformer__rest": [StandardScaler(), "passthrough", PCA(1)],
            "logisticregression__C": [0.1, 1.0],
        },
        frame(),
        {"scoring": ["accuracy", "roc_auc", "neg_log_loss"], "refit": "roc_auc"},
    ),
    "selection": (
        make_pipeline(StandardScaler(), SelectKBest(f_regression), Ridge()),
        {"selectkbest__k": [1, 2, 5], "ridge__alpha": [0.1, 1.0], "ridge__solver": ["svd", "lsqr"]},
        numbers(),
        {"scoring": "neg_mean_absolute_error"},
    ),
    "steps that come and go": (
        Pipeline([("fill", SimpleImputer()), ("reduce", None), ("model", Ridge())]),
        [
            {"reduce": ["passthrough", PCA(2), PolynomialFeatures(2)], "model__alpha": [1.0, 5.0]},
            {"reduce": [None], "model": [DecisionTreeRegressor(random_state=0), Ridge()]},
        ],
        numbers(holes=True),
        {},
    ),
    "union": (
        make_pipeline(FeatureUnion([("pca", PCA(2)), ("best", SelectKBest(f_regression, k=1))]), Ridge()),
        {"featureunion__pca__n_components": [1, 3], "ridge__alpha": [0.1, 1.0, 2.0]},
        numbers(),
        {"return_train_score": True},
    ),
    "words": (
        make_pipeline(CountVectorizer(), TfidfTransformer(), LogisticRegression()),
        {
            "countvectorizer__ngram_range": [(1, 1), (1, 2)],
            "tfidftransformer__use_idf": [True, False],
            "logisticregression__C": [0.1, 1.0],
        },
        texts(),
        {"scoring": {"hits": "accuracy", "brier": "neg_brier_score"}, "refit": "hits"},
    ),
    "bins": (
        make_pipeline(KBinsDiscretizer(encode="ordinal", quantile_method="averaged_inverted_cdf"), DecisionTreeRegressor(random_state=0)),
        {"kbinsdiscretizer__n_bins": [3, 5], "decisiontreeregressor__min_samples_leaf": [1, 3, 9]},
        numbers(),
        {"return_train_score": True},
    ),
    "targets encoded with cross fitting": (
        make_pipeline(ColumnTransformer([("town", TargetEncoder(cv=sk.StratifiedKFold(3, shuffle=True, random_state=0)), ["town"])], remainder="passthrough"), LogisticRegression()),
        {"columntransformer__town__smooth": [1.0, 10.0], "logisticregression__C": [0.1, 1.0]},
        frame(),
        {"return_train_score": True},
    ),
    "a pipeline inside": (
        make_pipeline(make_pipeline(SimpleImputer(), StandardScaler()), PolynomialFeatures(), Ridge()),
        {
            "pipeline__standardscaler__with_std": [True, False],
            "polynomialfeatures__degree": [1, 2],
            "ridge__alpha": [0.1, 1.0],
        },
        numbers(holes=True),
        {},
    ),
    "a pipeline at the end": (
        Pipeline([("fill", SimpleImputer()), ("rest", make_pipeline(PolynomialFeatures(), Ridge()))]),
        {"rest__polynomialfeatures__degree": [1, 2], "rest__ridge__alpha": [0.1, 1.0]},
        numbers(holes=True),
        {"return_train_score": True},
    ),
    "a step in place": (
        make_pipeline(SimpleImputer(), StandardScaler(copy=False), Ridge(copy_X=False)),
        {"standardscaler__with_std": [True, False], "ridge__alpha": [0.1, 1.0]},
        numbers(holes=True),
        {},
    ),
    "steps in place on sparse rows": (
        make_pipeline(CountVectorizer(dtype=np.float64), MaxAbsScaler(), LogisticRegression()),
        {
            "maxabsscaler": [MaxAbsScaler(copy=False), Normalizer("l1", copy=False)],
            "logisticregression__C": [0.1, 1.0],
        },
        texts(),
        {"scoring": "neg_log_loss", "return_train_score": True},
    ),
    "only one step": (Pipeline([("model", Ridge())]), {"model__alpha": [0.1, 1.0]}, numbers(), {}),
    "forests behind steps": (
        make_pipeline(SimpleImputer(), RandomForestClassifier(random_state=1)),
        {
            "simpleimputer__strategy": ["mean", "median"],
            "randomforestclassifier__n_estimators": [9, 3, 5, 5],
            "randomforestclassifier__max_depth": [2, None],
        },
        labels(),
        {"scoring": ["accuracy", "neg_log_loss"], "refit": False, "return_train_score": True},
    ),
    "a function of the user": (
        make_pipeline(StandardScaler(), PCA(2), Ridge()),
        {"pca__n_components": [1, 2], "ridge__alpha": [0.1, 1.0]},
        numbers(),
        {"scoring": lambda model, X, y: model[:-1].transform(X).std() + model.score(X, y)},
    ),
    "a function among metrics": (
        make_pipeline(StandardScaler(), Ridge()),
        {"standardscaler__with_std": [True, False], "ridge__alpha": [0.1, 1.0]},
        numbers(),
        {"scoring": {"own": lambda model, X, y: float(len(model.steps)), "r2": "r2", "mae": make_scorer(mean_absolute_error, greater_is_better=False)}, "refit": "r2"},
    ),
    "without a target": (
        make_pipeline(StandardScaler(), PCA()),
        {"standardscaler__with_std": [True, False], "pca__n_components": [1, 2]},
        (numbers()[0], None),
        {},
    ),
}  # fmt: skip


def both(estimator, grid, X, y, options, fit_args=None):
    theirs = sk.GridSearchCV(clone(estimator), grid, **options).fit(X, y, **(fit_args or {}))
    ours = GridSearchCV(estimator, grid, **options).fit(X, y, **(fit_args or {}))
    return ours, theirs


def same(ours, theirs, rtol=0.0):
    assert list(ours.cv_results_) == list(theirs.cv_results_)
    for name, expected in theirs.cv_results_.items():
        if "score" in name and "time" not in name:
            np.testing.assert_allclose(ours.cv_results_[name], expected, rtol=rtol, err_msg=name)


@pytest.mark.some
@pytest.mark.parametrize("name", SEARCHES)
def test_same_scores_as_sklearn(name, calls):
    estimator, grid, (X, y), options = SEARCHES[name]
    ours, theirs = both(estimator, grid, X, y, options)
    same(ours, theirs)
    assert set(calls) == {"pipelines"}
    assert (ours.cv_results_["mean_fit_time"] > 0).all()
    assert (ours.cv_results_["mean_score_time"] > 0).all()


@pytest.mark.each
@pytest.mark.parametrize("name", ["impute, powers, ridge", "words", "a pipeline inside"])
@pytest.mark.parametrize("cache_bytes", [1, 5000])
def test_same_scores_where_little_is_kept(name, cache_bytes):
    estimator, grid, (X, y), options = SEARCHES[name]
    with gpuml.config_context(cache_bytes=cache_bytes):
        same(*both(estimator, grid, X, y, options))


def counting_search(**options):
    steps = [("a", Counting("a")), ("b", Counting("b")), ("model", Ridge())]
    grid = {"model__alpha": [0.1, 1.0], "b__factor": [1.0, 2.0, 3.0], "a__factor": [1.0, 2.0]}
    return GridSearchCV(Pipeline(steps), grid, cv=4, refit=False, **options)


@pytest.mark.parametrize("train", [False, True])
def test_a_prefix_is_fitted_once_per_fold(done, train):
    counting_search(return_train_score=train).fit(*numbers())
    fits = [what for what in done if what[0] == "fit"]
    assert sum(name == "a" for _, name, _ in fits) == 2 * 4
    assert sum(name == "b" for _, name, _ in fits) == 2 * 3 * 4
    # Once after the fit, and once for the held-out (and the training) rows.
    assert len(done) == len(fits) * (3 + train)


def test_rows_that_are_not_kept_are_made_again(done):
    search = counting_search()
    with gpuml.config_context(cache_bytes=1):
        search.fit(*numbers())
    fits = [name for what, name, _ in done if what == "fit"]
    assert fits.count("a") == fits.count("b") == 2 * 3 * 4


def test_a_step_that_draws_is_of_one_piece_where_rows_are_made_again():
    """Training and held-out rows come from the same fit, or scores would be those of noise."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 6))
    y = X @ np.arange(6.0)
    # About one search in a hundred draws a projection that even this penalty shrinks.
    np.random.seed(0)  # noqa: NPY002 - where the step draws from
    pipeline = make_pipeline(GaussianRandomProjection(6), StandardScaler(), Ridge(1e-6))
    grid = {"standardscaler__with_std": [True, False], "ridge__fit_intercept": [True, False]}
    # Nothing is kept, or held-out rows only, or everything.
    for cache_bytes in (1, 4000, None):
        with gpuml.config_context(cache_bytes=cache_bytes):
            search = GridSearchCV(pipeline, grid, refit=False).fit(X, y)
        assert (search.cv_results_["mean_test_score"] > 0.99).all()


def test_random_states_are_copied_for_each_candidate():
    X, y = numbers()
    pipeline = make_pipeline(
        GaussianRandomProjection(3, random_state=np.random.RandomState(3)),
        SelectKBest(f_regression, k=2),
        Ridge(),
    )
    grid = {"selectkbest__k": [1, 2], "ridge__alpha": [0.1, 1.0]}
    for cache_bytes in (1, None):
        with gpuml.config_context(cache_bytes=cache_bytes):
            same(*both(pipeline, grid, X, y, {}))


class Slow(TransformerMixin, BaseEstimator):
    def fit(self, X, y=None):
        self.fitted_ = True
        return self

    def transform(self, X):
        time.sleep(0.3)
        return X


def test_seconds_are_shared_out():
    X, y = numbers()
    search = GridSearchCV(
        make_pipeline(Slow(), Ridge()), {"ridge__alpha": [0.1, 1.0, 2.0, 3.0]}, refit=False, cv=2
    )
    results = search.fit(X, y).cv_results_
    for name in ("mean_fit_time", "mean_score_time"):
        assert (results[name] > 0.3 / 4).all()
        assert 0.3 < results[name].sum() < 1.2


# ---------------------------------------------------------------- models of ours


@pytest.mark.each
@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_last_steps_are_fitted_at_once(monkeypatch, train, weighted):
    X, y = numbers(holes=True)
    grid = {"polynomialfeatures__degree": [1, 2], "ridge__alpha": [0.1, 1.0, 10.0]}
    theirs = make_pipeline(SimpleImputer(), PolynomialFeatures(), Ridge())
    ours = make_pipeline(SimpleImputer(), PolynomialFeatures(), OurRidge())
    options = {"scoring": ["r2", "neg_max_error"], "refit": "r2", "return_train_score": train}
    fit_args = {"ridge__sample_weight": np.linspace(0.5, 2, len(X))} if weighted else {}
    expected = sk.GridSearchCV(theirs, grid, **options).fit(X, y, **fit_args)
    fits, multifit = [], OurRidge.multifit

    def noted(self, folds, candidates, advance=None):
        fits.append(len(candidates))
        return multifit(self, folds, candidates, advance)

    monkeypatch.setattr(OurRidge, "multifit", noted)
    found = GridSearchCV(ours, grid, **options).fit(X, y, **fit_args)
    assert fits == [3] * 2 * 5 + [1]
    same(found, expected, rtol=1e-6)


@pytest.mark.some
@pytest.mark.parametrize("scoring", ["accuracy", "neg_log_loss", "roc_auc_ovr", None])
def test_last_steps_that_classify(scoring):
    X, y = labels()
    y = np.array(["few", "some", "many"])[y]
    grid = {
        "selectkbest__k": [2, 5],
        "logisticregression__C": [0.1, 1.0],
        "logisticregression__fit_intercept": [True, False],
    }
    options = {"scoring": scoring, "refit": False}
    ours, theirs = (
        search(make_pipeline(SelectKBest(), model), grid, **options).fit(X, y)
        for search, model in (
            (GridSearchCV, OurLogisticRegression(tol=1e-8)),
            (sk.GridSearchCV, LogisticRegression(tol=1e-8)),
        )
    )
    same(ours, theirs, rtol=1e-5)


@pytest.mark.filterwarnings("ignore:y_pred contains classes:UserWarning")
def test_a_class_that_is_held_out_only():
    X, _ = numbers(p=3)
    y = np.r_[np.arange(60) % 2, np.full(30, 2)]
    y[60:80] = np.arange(20) % 2
    cv = [(np.arange(60), np.arange(60, 90)), (np.arange(30, 90), np.arange(30))]
    grid = {"logisticregression__C": [0.1, 1.0, 5.0]}
    ours, theirs = (
        search(make_pipeline(PolynomialFeatures(), model), grid, cv=cv, refit=False).fit(X, y)
        for search, model in (
            (GridSearchCV, OurLogisticRegression(tol=1e-8)),
            (sk.GridSearchCV, LogisticRegression(tol=1e-8)),
        )
    )
    same(ours, theirs)


def test_a_failing_member_does_not_sink_its_stack():
    X, y = numbers()
    pipeline = make_pipeline(PolynomialFeatures(), OurRidge())
    grid = {"ridge__alpha": [1.0, -1.0, 2.0], "polynomialfeatures__degree": [1, 2]}
    with pytest.warns(FitFailedWarning, match="10 fits failed out of a total of 30"):
        search = GridSearchCV(pipeline, grid, refit=False, error_score=-7.0).fit(X, y)
    failed = search.cv_results_["mean_test_score"] == -7
    bad = [params["ridge__alpha"] < 0 for params in search.cv_results_["params"]]
    np.testing.assert_array_equal(failed, bad)


def test_arrays_of_any_library(library):
    X, y = numbers()
    pipeline = Pipeline([("a", Counting("a")), ("b", Counting("b")), ("model", OurRidge())])
    grid = {"a__factor": [1.0, 3.0], "b__factor": [1.0, 2.0], "model__alpha": [0.1, 1.0]}
    options = {"scoring": "r2", "refit": False}
    expected = GridSearchCV(pipeline, grid, **options).fit(X, y)
    for cache_bytes in (None, 3000):
        with gpuml.config_context(cache_bytes=cache_bytes):
            found = GridSearchCV(pipeline, grid, **options)
            found.fit(library.asarray(X), library.asarray(y))
        same(found, expected, rtol=1e-9)


# ---------------------------------------------------------------- what goes along


def test_a_plan_says_where_models_were_fitted():
    """A step may bring rows to another place, as texts that become numbers on a GPU."""
    torch = pytest.importorskip("torch")
    X, y = numbers()
    pipeline = make_pipeline(FunctionTransformer(torch.tensor), OurRidge())
    search = GridSearchCV(pipeline, {"ridge__alpha": [0.1, 1.0]}, cv=3).fit(X, y)
    assert search.plan_.place == "numpy:cpu, torch:cpu"
    assert "place" not in search.cv_results_
    stayed = make_pipeline(FunctionTransformer(), OurRidge())
    assert GridSearchCV(stayed, search.param_grid, cv=3).fit(X, y).plan_.place == "numpy:cpu"


def test_frames_between_steps():
    X, y = frame()
    seen = []

    def note(X):
        seen.append(type(X))
        return X

    steps = (SimpleImputer(strategy="most_frequent"), FunctionTransformer(note), columns())
    for model in (LogisticRegression(), OurLogisticRegression(tol=1e-8)):
        pipeline = make_pipeline(*steps, model)
        pipeline.set_params(columntransformer__town__sparse_output=False)
        pipeline[:-1].set_output(transform="pandas")
        grid = {
            "logisticregression__C": [0.1, 1.0],
            "columntransformer__rest__with_std": [True, False],
        }
        ours, theirs = both(pipeline, grid, X, y, {})
        same(ours, theirs, rtol=1e-9)
        assert set(seen) == {pd.DataFrame}
        np.testing.assert_array_equal(ours.best_estimator_.feature_names_in_, X.columns)


@pytest.mark.parametrize("scoring", ["the model's", "one", "several"])
def test_routed_weights(scoring):
    X, y = numbers()
    weight = np.linspace(0.1, 3, len(X))
    with sklearn.config_context(enable_metadata_routing=True):
        model = Ridge().set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        pipeline = Pipeline([("scale", StandardScaler()), ("model", model)])
        grid = {
            "scale": [
                StandardScaler().set_fit_request(sample_weight=True),
                StandardScaler().set_fit_request(sample_weight=False),
                PolynomialFeatures(2),
            ],
            "model__alpha": [0.1, 100.0],
        }
        scorer = make_scorer(mean_absolute_error).set_score_request(sample_weight=True)
        plain = make_scorer(mean_absolute_error).set_score_request(sample_weight=False)
        scorers = {"the model's": None, "one": scorer, "several": {"a": plain, "b": scorer}}
        options = {"scoring": scorers[scoring], "refit": False}
        ours, theirs = both(pipeline, grid, X, y, options, {"sample_weight": weight})
    same(ours, theirs)
    scores = ours.cv_results_[next(n for n in ours.cv_results_ if n.startswith("mean_test_"))]
    assert len(set(scores)) == len(scores)


def test_parameters_of_steps():
    X, y = numbers()
    weight = np.linspace(0.1, 3, len(X))
    pipeline = make_pipeline(StandardScaler(), Ridge())
    grid = {"standardscaler__with_mean": [True, False], "ridge__alpha": [0.1, 100.0]}
    fit_args = {"standardscaler__sample_weight": weight, "ridge__sample_weight": weight**2}
    same(*both(pipeline, grid, X, y, {}, fit_args))
    with pytest.raises(ValueError, match="does not accept the sample_weight parameter"):
        GridSearchCV(pipeline, grid).fit(X, y, sample_weight=weight)


def test_pipelines_that_watch_or_keep_are_left_alone(tmp_path):
    pipeline = make_pipeline(StandardScaler(), Ridge())
    candidates = [({}, None), ({}, None)]
    assert shares_prefixes(pipeline, candidates)
    assert not shares_prefixes(pipeline, candidates[:1])
    assert not shares_prefixes(Ridge(), candidates)
    assert not shares_prefixes(clone(pipeline).set_params(memory=str(tmp_path)), candidates)


def test_estimators_given_away_share_nothing():
    X, y = numbers()
    pipeline = make_pipeline(StandardScaler(), Ridge())
    candidates = [{"ridge__alpha": alpha} for alpha in (0.1, 1.0)]
    task = one_by_one.Task(None, {}, {}, False, "raise", 0, return_estimator=True)
    results = run(pipeline, X, y, candidates, task)
    first, second = (result["estimator"] for result in results)
    assert first[0] is not second[0]
    for params, result in zip(candidates, results, strict=True):
        alone = clone(pipeline).set_params(**params).fit(X[:60], y[:60])
        np.testing.assert_array_equal(result["estimator"].predict(X), alone.predict(X))
        assert result["estimator"].get_params()["ridge__alpha"] == params["ridge__alpha"]


def run(estimator, X, y, candidates, task):
    """Results on one fold; a task without a scorer gets R^2 or accuracy."""
    from dataclasses import replace

    from sklearn.metrics import check_scoring

    from gpuml.data import Split

    task = replace(task, scorer=task.scorer or check_scoring(estimator))
    split = Split(slice(0, 60), slice(60, len(X)))
    placed = [
        (params, one_by_one.Progress(0, 1, i, len(candidates)))
        for i, params in enumerate(candidates)
    ]
    return fold_fits.fit_fold(estimator, X, y, split, placed, task, gpuml.get_config())


# ---------------------------------------------------------------- failures


class Failing(TransformerMixin, BaseEstimator):
    def __init__(self, at=None):
        self.at = at

    def fit(self, X, y=None):
        if self.at == "fit":
            raise ZeroDivisionError("no fit")
        self.seen_ = len(X)
        return self

    def transform(self, X):
        if self.at == "transform" and len(X) != self.seen_:
            raise ZeroDivisionError("no rows")
        return X


FAILING = {"failing__at": ["fit", None, "transform"], "ridge__alpha": [0.1, 1.0]}


@pytest.mark.parametrize("scoring", [None, ["r2", "neg_max_error"]])
@pytest.mark.parametrize("train", [False, True])
def test_failures_are_scikit_learns(scoring, train):
    X, y = numbers(100)
    pipeline = make_pipeline(StandardScaler(), Failing(), Ridge())
    options = {"scoring": scoring, "refit": False, "return_train_score": train, "error_score": -7.0}
    found = []
    for search in (GridSearchCV, sk.GridSearchCV):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found.append((search(pipeline, FAILING, **options).fit(X, y), caught))
    (ours, our_warnings), (theirs, their_warnings) = found
    same(ours, theirs)
    assert len(our_warnings) == len(their_warnings)
    for ours, theirs in zip(our_warnings, their_warnings, strict=True):
        assert ours.category is theirs.category
        assert str(ours.message).split("\n")[:3] == str(theirs.message).split("\n")[:3]


@pytest.mark.parametrize("at", ["fit", "transform"])
def test_failures_are_raised_on_request(at):
    X, y = numbers(101)
    pipeline = make_pipeline(Failing(), Ridge())
    grid = {"failing__at": [at], "ridge__alpha": [0.1, 1.0]}
    with pytest.raises(ZeroDivisionError):
        GridSearchCV(pipeline, grid, error_score="raise").fit(X, y)


def test_a_failing_prefix_is_tried_once(done):
    steps = [
        ("a", Counting("a")),
        ("bad", Failing("fit")),
        ("b", Counting("b")),
        ("model", Ridge()),
    ]
    grid = {"b__factor": [1.0, 2.0], "model__alpha": [0.1, 1.0], "bad__at": ["fit", None]}
    with pytest.warns(FitFailedWarning, match="4 fits failed out of a total of 8"):
        GridSearchCV(
            Pipeline(steps),
            grid,
            cv=[(np.arange(60), np.arange(60, 90))],
            refit=False,
            error_score=0.0,
        ).fit(*numbers())
    assert [what[:2] for what in done].count(("fit", "a")) == 1
    assert [what[:2] for what in done].count(("fit", "b")) == 2


def test_bad_steps_fail_as_in_sklearn():
    X, y = numbers()
    pipeline = make_pipeline(StandardScaler(), Ridge())
    grid = {"standardscaler": [StandardScaler(), Ridge()], "ridge__alpha": [0.1, 1.0]}
    with pytest.warns(FitFailedWarning, match="All intermediate steps should be"):
        ours = GridSearchCV(pipeline, grid, refit=False, error_score=-7.0).fit(X, y)
    failed = ours.cv_results_["mean_test_score"] == -7
    assert failed.tolist() == [False, True, False, True]
    with pytest.raises(ValueError, match="Invalid parameter"):
        GridSearchCV(pipeline, {"ridge__beta": [0.1, 1.0]}).fit(X, y)


def test_what_verbose_prints(capsys):
    X, y = numbers()
    pipeline = make_pipeline(StandardScaler(), Ridge(), verbose=True)
    grid = {"standardscaler__with_std": [True, False], "ridge__alpha": [0.1, 1.0]}
    GridSearchCV(pipeline, grid, cv=3, verbose=10, refit=False).fit(X, y)
    lines = capsys.readouterr().out.splitlines()
    assert sum("] START" in line for line in lines) == sum("] END" in line for line in lines) == 12
    assert sum("(step 1 of 2) Processing standardscaler" in line for line in lines) == 2 * 3
    assert sum("(step 2 of 2) Processing ridge" in line for line in lines) == 4 * 3


# ---------------------------------------------------------------- order and keys


def test_candidates_of_a_prefix_are_neighbours():
    pipeline = make_pipeline(SimpleImputer(), PolynomialFeatures(), Ridge())
    grid = sk.ParameterGrid(
        {
            "ridge__alpha": [1.0, 2.0],
            "polynomialfeatures__degree": [1, 2],
            "simpleimputer__strategy": ["mean", "median"],
        }
    )
    order = prefix_order(pipeline, list(grid))
    assert sorted(order) == list(range(8))
    params = [list(grid)[i] for i in order]
    assert [p["simpleimputer__strategy"] for p in params] == ["mean"] * 4 + ["median"] * 4
    assert [p["polynomialfeatures__degree"] for p in params] == [1, 1, 2, 2] * 2


def double(X):
    return 2 * X


@pytest.mark.parametrize(
    "make",
    [
        lambda: None,
        lambda: float("nan"),
        lambda: {"a": [1, (2.0, "b")], "c": {1, 2}},
        lambda: np.arange(6.0).reshape(2, 3),
        lambda: np.array(["a", None, 3.0], dtype=object),
        lambda: np.ma.masked_array([1, 2], [True, False]),
        lambda: np.random.RandomState(3),
        lambda: sk.KFold(3, shuffle=True, random_state=0),
        lambda: FunctionTransformer(double, kw_args={"a": np.ones(3)}),
        lambda: make_pipeline(PCA(2), Ridge()).set_output(transform="pandas"),
        lambda: pd.DataFrame({"a": [1, 2]}),
    ],
)
def test_copies_have_the_same_key(make):
    key = value_key(make())
    assert key == value_key(make()) == value_key(clone(make(), safe=False))
    assert hash(key) == hash(value_key(make()))


def test_requests_of_metadata_are_told_apart_by_what_they_ask_for():
    with sklearn.config_context(enable_metadata_routing=True):
        asked, again, not_asked = (
            Ridge().set_fit_request(sample_weight=flag) for flag in (True, True, False)
        )
    assert estimator_key(asked) == estimator_key(again) != estimator_key(not_asked)


def test_what_cannot_be_pickled_is_equal_to_itself_only():
    models = [FunctionTransformer(double, kw_args={"lock": Lock()}) for _ in range(9)]
    assert len({estimator_key(model) for model in models}) == 9
    assert estimator_key(models[0]) == estimator_key(models[0])


def test_what_occurs_twice_is_equal_to_two_copies():
    values = [[1.5, "a"], np.ones(2), PCA(2)]
    assert value_key([values, values]) == value_key([values, deepcopy(values)])


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (1, True),
        (1, 1.0),
        ([1, 2], (1, 2)),
        (np.zeros(2), np.zeros(2, dtype=int)),
        (np.zeros((2, 1)), np.zeros(2)),
        (np.ma.masked_array([1, 2], [True, False]), np.ma.masked_array([1, 2], [False, False])),
        (np.random.RandomState(3), np.random.RandomState(4)),
        (PCA(2), PCA(3)),
        (PCA(2), PCA(2).set_output(transform="pandas")),
        (FunctionTransformer(double), FunctionTransformer(lambda X: 2 * X)),
        (FrozenEstimator(PCA(1).fit(np.eye(3))), FrozenEstimator(PCA(1).fit(2 * np.eye(3)))),
        (lambda: 1, lambda: 1),
    ],
)
def test_different_values_have_different_keys(a, b):
    assert value_key(a) != value_key(b)
