"""Affine last steps fitted at once behind a common prefix: scikit-learn's results, counts of fits."""

import time
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import sklearn.decomposition
import sklearn.impute
import sklearn.linear_model
import sklearn.preprocessing
from sklearn import model_selection as sk
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import FitFailedWarning
from sklearn.pipeline import Pipeline, make_pipeline

import gpuml
import gpuml.decomposition
import gpuml.impute
import gpuml.linear_model
import gpuml.preprocessing
from gpuml.model_selection import GridSearchCV, cross_validate
from gpuml.model_selection.prefixes import prefix_order
from gpuml.pipeline._affine import affine_tail
from gpuml.resampling.keys import pipeline_key


def classes_of(package):
    """Every class of a package that the pipelines below are made of."""
    found = {}
    steps = (package.impute, package.preprocessing, package.decomposition)
    for part in (*steps, package.linear_model):
        found |= {name: getattr(part, name) for name in part.__all__}
    return SimpleNamespace(**found)


OURS, THEIRS = classes_of(gpuml), classes_of(sklearn)


class Polynomial(sklearn.preprocessing.PolynomialFeatures):
    """A step of a user, of which nobody knows that it makes of each row another one."""


TIGHT = {"tol": 1e-10, "max_iter": 10_000}


def numbers(n=120, p=6, holes=True):
    rng = np.random.default_rng(8)
    X = rng.normal(size=(n, p)) * 2.0 ** np.arange(p) + np.arange(p)
    y = X @ rng.normal(size=p) + (X[:, 0] * X[:, 1]) + rng.normal(size=n)
    if holes:
        X[rng.random(size=X.shape) < 0.1] = np.nan
    return X, y


def classes():
    X, y = numbers()
    return X, np.array(["few", "some", "many"])[np.digitize(y, np.quantile(y, [0.4, 0.7]))]


def frame(n=120):
    rng = np.random.default_rng(3)
    town, size, age = rng.choice(["Ayr", "Bonn", "Cork"], n), rng.normal(size=n), rng.random(n)
    X = pd.DataFrame({"town": town, "size": size, "age": 60 * age})
    return X, size + (town == "Bonn") + 0.5 * rng.normal(size=n)


def columns(**options):
    encoder = sklearn.preprocessing.OneHotEncoder(sparse_output=False)
    return ColumnTransformer([("town", encoder, ["town"])], remainder="passthrough", **options)


# name: (steps of a module's classes, grid, data, arguments of the search)
SEARCHES = {
    "impute, scale, pca, ridge": (
        lambda m: (m.SimpleImputer(), m.StandardScaler(), m.PCA(), m.Ridge()),
        {
            "simpleimputer__strategy": ["mean", "median"],
            "pca__n_components": [1, 3, 5],
            "ridge__alpha": [0.1, 1.0, 10.0],
        },
        numbers,
        {"scoring": ["r2", "neg_max_error"], "refit": "r2"},
    ),
    "powers, scale, logistic": (
        lambda m: (
            sklearn.impute.SimpleImputer(),
            Polynomial(),
            m.StandardScaler(),
            m.LogisticRegression(**TIGHT),
        ),
        {"polynomial__degree": [1, 2], "logisticregression__C": [0.01, 0.1]},
        classes,
        {"scoring": ["accuracy", "neg_log_loss"], "refit": "accuracy"},
    ),
    "columns of a frame, scale, ridge": (
        lambda m: (columns(), m.StandardScaler(), m.Ridge()),
        {
            "columntransformer__town__drop": [None, "first"],
            "standardscaler__with_std": [True, False],
            "ridge__alpha": [0.1, 1.0],
        },
        frame,
        {},
    ),
    "a function of the user": (
        lambda m: (m.SimpleImputer(), m.StandardScaler(), m.PCA(), m.Ridge()),
        {"pca__n_components": [1, 3], "ridge__alpha": [0.1, 1.0]},
        numbers,
        {"scoring": lambda model, X, y: model[:-1].transform(X).std() + model.score(X, y)},
    ),
    "a pipeline at the end": (
        lambda m: (m.SimpleImputer(), make_pipeline(m.StandardScaler(), m.PCA(), m.Ridge())),
        {"pipeline__pca__n_components": [2, 4], "pipeline__ridge__alpha": [0.1, 1.0]},
        numbers,
        {},
    ),
    "steps that differ": (
        lambda m: (m.SimpleImputer(), m.StandardScaler(), m.PCA(3), m.Ridge()),
        [
            {"standardscaler": ["passthrough", None], "ridge__alpha": [0.1, 1.0]},
            {"pca": [None], "ridge__solver": ["svd", "cholesky"], "ridge__alpha": [0.1, 1.0]},
            {"pca": [Polynomial(2)], "ridge__alpha": [0.1, 1.0]},
            {"ridge": [sklearn.linear_model.Ridge(a) for a in (1.0, 2.0)]},
        ],
        numbers,
        {},
    ),
}


def pipeline_of(module, name):
    return make_pipeline(*SEARCHES[name][0](module))


def search(kind, module, name, **options):
    _, grid, _, own = SEARCHES[name]
    return kind(pipeline_of(module, name), grid, **{**own, **options})


def same(ours, theirs, atol=1e-7):
    assert list(ours.cv_results_) == list(theirs.cv_results_)
    for name, expected in theirs.cv_results_.items():
        # Ranks of scores that are equal but for rounding are not the same.
        if "score" in name and "time" not in name and "rank" not in name:
            found = ours.cv_results_[name]
            np.testing.assert_allclose(found, expected, rtol=0, atol=atol, err_msg=name)


WATCHED = {
    "SimpleImputer": ("fit", "fit_transform"),
    "Polynomial": ("fit", "fit_transform"),
    "StandardScaler": ("fit", "fit_transform", "multi_affine"),
    "PCA": ("fit", "fit_transform", "multi_affine"),
    "Ridge": ("fit", "multifit"),
    "LogisticRegression": ("fit", "multifit"),
}


@pytest.fixture
def calls(monkeypatch):
    """How often fits of these classes are asked for, but by methods of the same class."""
    found, depth = Counter(), Counter()

    def noting(key, function):
        name = key[0]

        def call(*args, **kwargs):
            if not depth[name]:
                found[key] += 1
            depth[name] += 1
            try:
                return function(*args, **kwargs)
            finally:
                depth[name] -= 1

        return call

    for name, methods in WATCHED.items():
        kind = Polynomial if name == "Polynomial" else getattr(OURS, name)
        for method in methods:
            key = name, method if method.startswith("multi") else "fit"
            monkeypatch.setattr(kind, method, noting(key, getattr(kind, method)))
    return found


@pytest.mark.each
@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("name", SEARCHES)
def test_same_scores_as_sklearn(name, train):
    X, y = SEARCHES[name][2]()
    ours, theirs = (
        search(kind, module, name, return_train_score=train).fit(X, y)
        for kind, module in ((GridSearchCV, OURS), (sk.GridSearchCV, THEIRS))
    )
    same(ours, theirs)
    for column in ("mean_fit_time", "mean_score_time"):
        assert (ours.cv_results_[column] > 0).all()


@pytest.mark.each
@pytest.mark.parametrize("n_jobs", [1, 3])
@pytest.mark.parametrize("cache_bytes", [1, None])
def test_same_scores_in_pieces(n_jobs, cache_bytes):
    name = "impute, scale, pca, ridge"
    X, y = numbers()
    with gpuml.config_context(cache_bytes=cache_bytes):
        ours = search(GridSearchCV, OURS, name, cv=2, n_jobs=n_jobs).fit(X, y)
    same(ours, search(sk.GridSearchCV, THEIRS, name, cv=2).fit(X, y))


# ---------------------------------------------------------------- counts


@pytest.mark.parametrize("train", [False, True])
def test_a_tail_is_fitted_once_per_fold_and_prefix(calls, train):
    X, y = numbers()
    name = "impute, scale, pca, ridge"
    search(GridSearchCV, OURS, name, cv=4, refit=False, return_train_score=train).fit(X, y)
    once = 2 * 4  # strategies of the prefix, folds
    assert calls == {
        ("SimpleImputer", "fit"): once,
        ("StandardScaler", "multi_affine"): once,
        ("PCA", "multi_affine"): once,
        ("Ridge", "multifit"): 3 * once,  # for all alphas behind each of three widths
    }


def test_a_pipeline_at_the_end_is_fitted_at_once(calls):
    search(GridSearchCV, OURS, "a pipeline at the end", refit=False).fit(*numbers())
    assert calls["PCA", "multi_affine"] == calls["StandardScaler", "multi_affine"] == 5
    assert calls["PCA", "fit"] == 0


class OwnRidge(OURS.Ridge):
    """Adds a constant to what it is fitted to, which `multifit` knows nothing of."""

    def fit(self, X, y, sample_weight=None):
        return super().fit(X, y + 1e3, sample_weight)


@pytest.mark.parametrize("steps", [[], [OURS.StandardScaler()]])
def test_a_subclass_that_fits_in_its_own_way_is_fitted_by_itself(steps):
    X, y = numbers()
    pipeline = make_pipeline(OURS.SimpleImputer(), *steps, OwnRidge())
    grid = {"ownridge__alpha": [0.1, 1.0]}
    options = {"scoring": "neg_mean_absolute_error", "refit": False}
    found = GridSearchCV(pipeline, grid, **options).fit(X, y)
    same(found, sk.GridSearchCV(pipeline, grid, **options).fit(X, y))
    assert (found.cv_results_["mean_test_score"] < -900).all()


def wide_search(**options):
    """18 training rows, and 27 features."""
    steps = Polynomial(2), OURS.StandardScaler(), OURS.PCA(3), OURS.Ridge()
    grid = {"pca__n_components": [2, 4], "ridge__alpha": [0.1, 1.0]}
    return GridSearchCV(make_pipeline(*steps), grid, cv=2, refit=False, **options)


def test_rows_that_are_wide_are_no_reason_to_fit_a_prefix_again(calls):
    X, y = numbers(36, holes=False)
    wide_search(return_train_score=True).fit(X, y)
    assert calls == {
        ("Polynomial", "fit"): 2,
        ("StandardScaler", "fit"): 2,
        ("PCA", "fit"): 2 * 2,
        ("Ridge", "multifit"): 2 * 2,
    }


def test_a_tail_that_fails_is_no_reason_to_fit_a_prefix_again(calls, monkeypatch):
    def failing(self, parts, candidates):
        raise ValueError("not from moments")

    X, y = numbers(holes=False)
    expected = wide_search().fit(X, y)
    calls.clear()
    monkeypatch.setattr(OURS.PCA, "multi_affine", failing)
    with pytest.warns(RuntimeWarning, match="ValueError: not from moments. None of them raises it"):
        search = wide_search().fit(X, y)
    same(search, expected, atol=1e-9)
    assert calls["Polynomial", "fit"] == calls["StandardScaler", "fit"] == 2
    assert calls["PCA", "fit"] == 2 * 2


def test_wide_rows_have_sklearns_scores():
    X, y = numbers(36, holes=False)
    steps = Polynomial(2), THEIRS.StandardScaler(), THEIRS.PCA(3), THEIRS.Ridge()
    ours = wide_search()
    theirs = sk.GridSearchCV(make_pipeline(*steps), ours.param_grid, cv=2, refit=False)
    same(ours.fit(X, y), theirs.fit(X, y), atol=1e-6)


def test_one_candidate_behind_each_prefix():
    X, y = numbers()
    grid = {"simpleimputer__strategy": ["mean", "median"]}
    ours, theirs = (
        kind(pipeline_of(module, "impute, scale, pca, ridge"), grid).fit(X, y)
        for kind, module in ((GridSearchCV, OURS), (sk.GridSearchCV, THEIRS))
    )
    same(ours, theirs)


SLOW_SECONDS = 0.3


class Slow(TransformerMixin, BaseEstimator):
    def fit(self, X, y=None):
        self.fitted_ = True
        return self

    def transform(self, X):
        time.sleep(SLOW_SECONDS)
        return X


@pytest.mark.parametrize("p", [6, 90])
def test_seconds_of_a_prefix_are_shared_out(p):
    X, y = numbers(p=6, holes=False)
    X = np.tile(X, p // 6)
    pipeline = make_pipeline(Slow(), OURS.StandardScaler(), OURS.PCA(), OURS.Ridge())
    grid = {"pca__n_components": [1, 2], "ridge__alpha": [0.1, 1.0]}
    results = GridSearchCV(pipeline, grid, refit=False, cv=2).fit(X, y).cv_results_
    for name in ("mean_fit_time", "mean_score_time"):
        assert (results[name] > SLOW_SECONDS / 4).all()
        # What every candidate bore in full would be four times as much.
        assert SLOW_SECONDS < results[name].sum() < 4 * SLOW_SECONDS


# ---------------------------------------------------------------- models


@pytest.mark.parametrize("train", [False, True])
def test_models_are_whole_pipelines(train, calls):
    X, y = numbers()
    pipeline = pipeline_of(OURS, "impute, scale, pca, ridge")
    found = models_of(pipeline, X, y, train)
    assert calls["PCA", "multi_affine"] == 1
    assert calls["PCA", "fit"] == 0
    assert found[0][0] is not found[1][0]
    for params, model in found:
        alone = clone(pipeline).set_params(**params).fit(X[:80], y[:80])
        assert model.get_params().keys() == alone.get_params().keys()
        assert {**model.get_params(), **params} == model.get_params()
        for mine, other in zip(model, alone, strict=True):
            assert vars(mine).keys() - {"status_"} == vars(other).keys() - {"status_"}
            assert mine.n_features_in_ == other.n_features_in_
        np.testing.assert_allclose(model.predict(X), alone.predict(X), rtol=1e-8)


def test_names_of_features_go_along(calls):
    X, y = frame()
    pipeline = make_pipeline(columns(), OURS.StandardScaler(), OURS.PCA(), OURS.Ridge())
    pipeline[:2].set_output(transform="pandas")
    found = models_of(pipeline, X, y)
    assert calls["PCA", "multi_affine"] == 1
    for params, model in found:
        alone = clone(pipeline).set_params(**params).fit(X[:80], y[:80])
        for step in (0, 1, 2):
            assert list(model[step].feature_names_in_) == list(alone[step].feature_names_in_)
        assert not hasattr(model[-1], "feature_names_in_")
        np.testing.assert_allclose(model.predict(X), alone.predict(X), rtol=1e-8)


def models_of(pipeline, X, y, train=False):
    """Candidates and their models, fitted to the first 80 rows."""
    from sklearn.metrics import check_scoring

    from gpuml.data import Split
    from gpuml.model_selection import fold_fits, one_by_one

    grid = sk.ParameterGrid({"pca__n_components": [1, 3], "ridge__alpha": [0.1, 1.0]})
    task = one_by_one.Task(check_scoring(pipeline), {}, {}, train, "raise", 0, True)
    placed = [(params, one_by_one.Progress(0, 1, i, 4)) for i, params in enumerate(grid)]
    split = Split(slice(0, 80), slice(80, len(X)))
    results = fold_fits.fit_fold(pipeline, X, y, split, placed, task, gpuml.get_config())
    return [(params, result["estimator"]) for params, result in zip(grid, results, strict=True)]


@pytest.mark.some
def test_arrays_of_any_library(library, calls):
    X, y = numbers()
    name = "impute, scale, pca, ridge"
    expected = search(sk.GridSearchCV, THEIRS, name).fit(X, y)
    for options in ({}, {"return_train_score": True}):
        found = search(GridSearchCV, OURS, name, refit=False, **options)
        found.fit(library.asarray(X), library.asarray(y))
        assert calls.pop(("PCA", "multi_affine")) == 2 * 5
        assert calls["PCA", "fit"] == 0
        for metric in ("r2", "neg_max_error"):
            key = f"mean_test_{metric}"
            np.testing.assert_allclose(
                found.cv_results_[key], expected.cv_results_[key], rtol=0, atol=1e-7
            )


# ---------------------------------------------------------------- errors, weights, lines


def test_a_failing_candidate_does_not_sink_the_others():
    X, y = numbers()
    pipeline = pipeline_of(OURS, "impute, scale, pca, ridge")
    grid = {"pca__n_components": [2, 7, 3], "ridge__alpha": [1.0, -1.0, 2.0]}
    with pytest.warns(FitFailedWarning, match="25 fits failed out of a total of 45"):
        found = GridSearchCV(pipeline, grid, refit=False, error_score=-7.0).fit(X, y)
    theirs = sk.GridSearchCV(
        pipeline_of(THEIRS, "impute, scale, pca, ridge"), grid, refit=False, error_score=-7.0
    )
    with pytest.warns(FitFailedWarning, match="25 fits failed out of a total of 45"):
        same(found, theirs.fit(X, y))
    with pytest.raises(ValueError, match=r"n_components=7|alpha"):
        GridSearchCV(pipeline, grid, error_score="raise").fit(X, y)


def test_values_that_a_step_rejects():
    X, y = numbers()
    grid = {"pca__whiten": [True, "yes"], "ridge__fit_intercept": [True, "no"]}
    found = []
    for kind, module in ((GridSearchCV, OURS), (sk.GridSearchCV, THEIRS)):
        pipeline = pipeline_of(module, "impute, scale, pca, ridge")
        with pytest.warns(FitFailedWarning, match="15 fits failed out of a total of 20"):
            found.append(kind(pipeline, grid, refit=False, error_score=-7.0).fit(X, y))
    same(*found)


def test_a_pipeline_without_steps_fails_alone():
    X, y = numbers()
    rest = [make_pipeline(OURS.Ridge(alpha)) for alpha in (1.0, 2.0)]
    pipeline = Pipeline([("fill", OURS.SimpleImputer()), ("rest", rest[0])])
    grid = {"rest": [*rest, Pipeline([])], "fill__strategy": ["mean", "median"]}
    found = GridSearchCV(pipeline, grid, refit=False, error_score=-7.0)
    with pytest.warns(FitFailedWarning, match="10 fits failed out of a total of 30"):
        found.fit(X, y)
    assert (found.cv_results_["mean_test_score"] == -7).sum() == 2


def test_a_failing_prefix_fails_what_hangs_on_it():
    X, y = numbers()
    grid = {"simpleimputer__strategy": ["mean", "none"], "ridge__alpha": [0.1, 1.0]}
    found = []
    for kind, module in ((GridSearchCV, OURS), (sk.GridSearchCV, THEIRS)):
        pipeline = pipeline_of(module, "impute, scale, pca, ridge")
        with pytest.warns(FitFailedWarning, match="10 fits failed out of a total of 20"):
            found.append(kind(pipeline, grid, refit=False, error_score=-7.0).fit(X, y))
    same(*found)


@pytest.mark.parametrize("weighted", [["standardscaler", "ridge"], ["standardscaler"]])
def test_weights_of_steps(calls, weighted):
    X, y = numbers()
    weight = np.linspace(0.1, 3, len(X))
    fit_args = {f"{step}__sample_weight": weight for step in weighted}
    grid = {"standardscaler__with_mean": [True, False], "ridge__alpha": [0.1, 100.0]}
    ours, theirs = (
        kind(make_pipeline(m.SimpleImputer(), m.StandardScaler(), m.Ridge()), grid, refit=False)
        for kind, m in ((GridSearchCV, OURS), (sk.GridSearchCV, THEIRS))
    )
    same(ours.fit(X, y, **fit_args), theirs.fit(X, y, **fit_args))
    assert calls["StandardScaler", "multi_affine"] == 0
    assert calls["StandardScaler", "fit"] == 2 * 5


def test_weights_of_scores():
    X, y = numbers()
    weight = np.linspace(0.1, 3, len(X))
    with sklearn.config_context(enable_metadata_routing=True):
        found = []
        for kind, m in ((GridSearchCV, OURS), (sk.GridSearchCV, THEIRS)):
            model = m.Ridge().set_score_request(sample_weight=True)
            model.set_fit_request(sample_weight=False)
            pipeline = make_pipeline(m.SimpleImputer(), m.StandardScaler(), model)
            pipeline[1].set_fit_request(sample_weight=False)
            grid = {"ridge__alpha": [0.1, 100.0]}
            found.append(kind(pipeline, grid, refit=False).fit(X, y, sample_weight=weight))
    same(*found)


def test_what_verbose_prints(capsys):
    X, y = numbers()
    pipeline = pipeline_of(OURS, "impute, scale, pca, ridge").set_params(verbose=True)
    grid = {"pca__n_components": [1, 2], "ridge__alpha": [0.1, 1.0]}
    GridSearchCV(pipeline, grid, cv=3, verbose=10, refit=False).fit(X, y)
    lines = capsys.readouterr().out.splitlines()
    assert sum("] START" in line for line in lines) == sum("] END" in line for line in lines) == 12
    assert sum("(step 1 of 4) Processing simpleimputer" in line for line in lines) == 3
    # What is fitted at once has one line.
    assert sum("(step 4 of 4) Processing ridge" in line for line in lines) == 3
    assert sum("[Pipeline]" in line for line in lines) == 6


# ---------------------------------------------------------------- tails, keys, order


@pytest.mark.parametrize(
    ("steps", "n_last"),
    [
        ([OURS.SimpleImputer(), OURS.StandardScaler(), OURS.PCA(), OURS.Ridge()], 3),
        ([OURS.StandardScaler(), Polynomial(), OURS.PCA(), OURS.Lasso()], 2),
        ([Polynomial(), OURS.StandardScaler(), "passthrough", OURS.Ridge()], 3),
        ([Polynomial(), None, OURS.StandardScaler(), OURS.Ridge()], 2),
        ([Polynomial(), "passthrough", OURS.Ridge()], 1),
        ([Polynomial(), OURS.StandardScaler(), THEIRS.Ridge()], 1),
        ([Polynomial(), THEIRS.StandardScaler(), OURS.Ridge()], 1),
        ([OURS.StandardScaler(), "passthrough"], 1),
        ([OURS.Ridge()], 1),
        # Extrema of components do not follow from those of the features.
        ([OURS.PCA(), OURS.MinMaxScaler(), OURS.Ridge()], 2),
        ([Polynomial(), OURS.MinMaxScaler(), OURS.PCA(), OURS.Ridge()], 3),
    ],
)
def test_how_long_a_tail_is(steps, n_last):
    pipeline = Pipeline([(f"step{i}", step) for i, step in enumerate(steps)])
    assert affine_tail(pipeline) == n_last


def test_keys_of_pipelines():
    def key(k=2, alpha=1.0, **options):
        steps = [("pca", OURS.PCA(k, **options)), ("none", None), ("ridge", OURS.Ridge(alpha))]
        return pipeline_key(Pipeline(steps), ("pca__n_components", "ridge__alpha"))

    assert key() == key(3) == key(alpha=2.0)
    assert hash(key()) == hash(key(3))
    assert key() != key(whiten=True)
    assert pipeline_key(Pipeline([("pca", OURS.PCA(2))])) != pipeline_key(
        Pipeline([("pca", OURS.PCA(3))])
    )


def test_neighbours_share_as_many_steps_as_they_can():
    """Where rows turn out to be wide, a worker is to have all candidates of a PCA."""
    grid = [{"ridge__alpha": a, "pca__n_components": k} for a in (1.0, 2.0) for k in (1, 2)]
    order = prefix_order(pipeline_of(OURS, "impute, scale, pca, ridge"), grid)
    assert [grid[i]["pca__n_components"] for i in order] == [1, 1, 2, 2]


def test_cross_validation_of_one_pipeline():
    X, y = numbers()
    ours, theirs = (
        function(pipeline_of(m, "impute, scale, pca, ridge"), X, y)["test_score"]
        for function, m in ((cross_validate, OURS), (sk.cross_validate, THEIRS))
    )
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-9)
