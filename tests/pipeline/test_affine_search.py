"""Searches over pipelines of affine steps before a linear model: equal to one fit at a time."""

import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import sklearn
import sklearn.decomposition
import sklearn.linear_model
import sklearn.preprocessing
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import GridSearchCV as SklearnGridSearchCV
from sklearn.model_selection import (
    KFold,
    RepeatedKFold,
    ShuffleSplit,
    StratifiedKFold,
    TimeSeriesSplit,
    cross_validate,
)
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline

import gpuml.decomposition
import gpuml.linear_model
import gpuml.preprocessing
from gpuml.model_selection import GridSearchCV, RandomizedSearchCV

TOGETHER = "all candidates together"


def classes_of(package):
    """Every class of a package that the pipelines below are made of."""
    found = {}
    for module in (package.preprocessing, package.decomposition, package.linear_model):
        found |= {name: getattr(module, name) for name in module.__all__}
    return SimpleNamespace(**found)


OURS, THEIRS = classes_of(gpuml), classes_of(sklearn)


def regression_data():
    """Diabetes in units of many sizes, far from the origin."""
    X, y = load_diabetes(return_X_y=True)
    return 100 * X * 2.0 ** np.arange(X.shape[1]) + np.arange(X.shape[1]), y


def few_digits():
    X, y = load_digits(n_class=4, return_X_y=True)
    return X[:400], y[:400]


def cancer():
    return load_breast_cancer(return_X_y=True)


def wine():
    return load_wine(return_X_y=True)


def two_targets():
    X, y = regression_data()
    return X, np.column_stack([y, np.sqrt(y) + X[:, 0]])


def named_wine():
    X, y = wine()
    return X, np.asarray(["red", "white", "rose"])[y]


SCALING = ("with_mean", "with_std")
TIGHT = {"tol": 1e-10, "max_iter": 10_000}
# name: (steps of a module's classes, grid, data, scoring)
PIPELINES = {
    "scale-ridge": (
        lambda m: (m.StandardScaler(), m.Ridge()),
        {"ridge__alpha": [0.01, 1, 100]},
        regression_data,
        "r2",
    ),
    "scale-pca-ridge": (
        lambda m: (m.StandardScaler(), m.PCA(), m.Ridge()),
        {"pca__n_components": [2, 5, 9], "ridge__alpha": [0.1, 10]},
        regression_data,
        ["r2", "neg_mean_absolute_error"],
    ),
    "scale-options": (
        lambda m: (m.StandardScaler(), m.Ridge(solver="svd")),
        {
            "standardscaler__with_mean": [True, False],
            "standardscaler__with_std": [True, False],
            "ridge__fit_intercept": [True, False],
        },
        regression_data,
        "neg_root_mean_squared_error",
    ),
    "pca-full-whitened": (
        lambda m: (m.StandardScaler(), m.PCA(svd_solver="full", whiten=True), m.Ridge()),
        {"pca__n_components": [0.5, 0.9, 3, "mle", None], "ridge__alpha": [1.0]},
        regression_data,
        "r2",
    ),
    "pca-least-squares": (
        lambda m: (m.PCA(), m.LinearRegression()),
        {"pca__n_components": [1, 4], "pca__whiten": [True, False]},
        regression_data,
        "explained_variance",
    ),
    "scale-lasso": (
        lambda m: (m.StandardScaler(), m.Lasso(**TIGHT)),
        {"lasso__alpha": [0.1, 1, 5]},
        regression_data,
        "r2",
    ),
    "minmax-pca-elasticnet": (
        lambda m: (m.MinMaxScaler((-1, 2)), m.PCA(), m.ElasticNet(**TIGHT)),
        {"pca__n_components": [3, 6], "elasticnet__alpha": [0.01, 0.1]},
        regression_data,
        "r2",
    ),
    "maxabs-svd-ridge": (
        lambda m: (m.MaxAbsScaler(), m.TruncatedSVD(algorithm="arpack"), m.Ridge()),
        {"truncatedsvd__n_components": [2, 5], "ridge__alpha": [0.1, 1]},
        regression_data,
        "r2",
    ),
    "several-targets": (
        lambda m: (m.StandardScaler(), m.PCA(), m.Ridge()),
        {"pca__n_components": [2, 0.9], "ridge__alpha": [0.1, 1]},
        two_targets,
        "r2",
    ),
    "names-of-classes": (
        lambda m: (m.MaxAbsScaler(), m.PCA(4), m.LogisticRegression(**TIGHT)),
        {"logisticregression__C": [0.1, 10]},
        named_wine,
        "f1_macro",
    ),
    "scale-scale-ridge": (
        lambda m: (m.StandardScaler(), m.MinMaxScaler(), m.Ridge()),
        {"ridge__alpha": [0.1, 1]},
        regression_data,
        "r2",
    ),
    "scale-logistic": (
        lambda m: (m.StandardScaler(), m.LogisticRegression(**TIGHT)),
        {"logisticregression__C": [0.01, 1], "logisticregression__fit_intercept": [True, False]},
        cancer,
        ["neg_log_loss", "roc_auc", "accuracy"],
    ),
    "scale-pca-logistic": (
        lambda m: (m.StandardScaler(), m.PCA(), m.LogisticRegression(**TIGHT)),
        {"pca__n_components": [2, 0.8, 10], "logisticregression__C": [0.1, 1]},
        cancer,
        "neg_log_loss",
    ),
    "pca-softmax": (
        lambda m: (m.PCA(whiten=True), m.LogisticRegression(**TIGHT)),
        {"pca__n_components": [3, 8], "logisticregression__C": [0.1, 10]},
        few_digits,
        "neg_log_loss",
    ),
    "scale-softmax-balanced": (
        lambda m: (m.StandardScaler(), m.LogisticRegression(class_weight="balanced", **TIGHT)),
        {"logisticregression__C": [0.1, 10]},
        wine,
        "neg_log_loss",
    ),
    "scale-newton": (
        lambda m: (
            m.MinMaxScaler(),
            m.LogisticRegression(solver="newton-cholesky", tol=1e-10),
        ),
        {"logisticregression__C": [0.1, 10]},
        cancer,
        "neg_brier_score",
    ),
    "scale-l1": (
        lambda m: (
            m.StandardScaler(),
            m.LogisticRegression(solver="saga", tol=1e-9, max_iter=50_000, random_state=0),
        ),
        {"logisticregression__C": [0.05, 0.2], "logisticregression__l1_ratio": [0.5, 1]},
        wine,
        "neg_log_loss",
    ),
    "scale-pca-ridge-classifier": (
        lambda m: (m.StandardScaler(), m.PCA(), m.RidgeClassifier(class_weight="balanced")),
        {"pca__n_components": [2, 6], "ridgeclassifier__alpha": [0.1, 10]},
        wine,
        "accuracy",
    ),
}


def search(kind, module, name, **options):
    steps, grid, _, scoring = PIPELINES[name]
    several = isinstance(scoring, list)
    options = {"scoring": scoring, "refit": scoring[0] if several else True, **options}
    return kind(make_pipeline(*steps(module)), grid, **options)


def scores(fitted):
    """All split scores, by name and part."""
    return {
        name: np.asarray(values, dtype=float)
        for name, values in fitted.cv_results_.items()
        if name.startswith("split")
    }


def assert_same_scores(ours, theirs, atol=1e-7):
    ours, theirs = scores(ours), scores(theirs)
    assert ours.keys() == theirs.keys()
    for name in theirs:
        np.testing.assert_allclose(ours[name], theirs[name], rtol=0, atol=atol, err_msg=name)


@pytest.mark.some
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", PIPELINES)
def test_split_scores_are_those_of_sklearn(name):
    X, y = PIPELINES[name][2]()
    ours = search(GridSearchCV, OURS, name, return_train_score=True).fit(X, y)
    theirs = search(SklearnGridSearchCV, THEIRS, name, return_train_score=True).fit(X, y)
    assert TOGETHER in str(ours.plan_)
    scale = max(1.0, *(np.abs(values).max() for values in scores(theirs).values()))
    assert_same_scores(ours, theirs, atol=1e-7 * scale)
    # Of candidates that are the same model, as whitened components before least squares, rounding
    # decides which is the best.
    metric = ours.refit if ours.multimetric_ else "score"
    best = theirs.cv_results_[f"mean_test_{metric}"][ours.best_index_]
    np.testing.assert_allclose(best, theirs.best_score_, rtol=1e-10)


@pytest.mark.parametrize(
    "cv",
    [
        KFold(4, shuffle=True, random_state=0),
        RepeatedKFold(n_splits=3, n_repeats=2, random_state=0),
        ShuffleSplit(3, random_state=0),
        TimeSeriesSplit(3),
    ],
    ids=lambda cv: type(cv).__name__,
)
@pytest.mark.parametrize("name", ["scale-pca-ridge", "minmax-pca-elasticnet"])
def test_any_splitter(name, cv):
    X, y = regression_data()
    ours = search(GridSearchCV, OURS, name, cv=cv).fit(X, y)
    theirs = search(SklearnGridSearchCV, THEIRS, name, cv=cv).fit(X, y)
    assert TOGETHER in str(ours.plan_)
    assert_same_scores(ours, theirs, atol=1e-5 if "neg_mean" in str(PIPELINES[name]) else 1e-7)


@pytest.mark.parametrize(
    "cv", [StratifiedKFold(3, shuffle=True, random_state=1), ShuffleSplit(3, random_state=0)]
)
def test_any_splitter_of_classes(cv):
    X, y = wine()
    splits = list(cv.split(X, y))
    ours = search(GridSearchCV, OURS, "scale-softmax-balanced", cv=splits).fit(X, y)
    theirs = search(SklearnGridSearchCV, THEIRS, "scale-softmax-balanced", cv=splits).fit(X, y)
    # scikit-learn's L-BFGS ends where values of the loss no longer change.
    assert_same_scores(ours, theirs, atol=1e-6)


# ------------------------------------------------------------------ array libraries


@pytest.mark.each
@pytest.mark.parametrize("name", ["scale-pca-ridge", "minmax-pca-elasticnet", "scale-pca-logistic"])
def test_every_array_library(library, name):
    X, y = PIPELINES[name][2]()
    expected = search(GridSearchCV, OURS, name).fit(X, y)
    mine, labels = library.asarray(X), library.asarray(y)
    found = search(GridSearchCV, OURS, name).fit(mine, labels)
    assert TOGETHER in str(found.plan_)
    assert_same_scores(found, expected, atol=1e-6)
    # Attributes of every step are beside the rows, and the whole model works there.
    predicted = found.predict(mine)
    assert type(predicted) is type(labels)
    np.testing.assert_allclose(library.to_numpy(predicted), expected.predict(X), atol=1e-6)


def test_float32_rows_stay_what_they_are(library):
    X, y = regression_data()
    X32 = library.asarray(X.astype(np.float32))
    found = search(GridSearchCV, OURS, "scale-pca-ridge").fit(X32, library.asarray(y))
    expected = search(GridSearchCV, OURS, "scale-pca-ridge").fit(X, y)
    assert "float32" in str(found.best_estimator_[-1].coef_.dtype)
    for key in ("mean_test_r2",):
        np.testing.assert_allclose(
            found.cv_results_[key], expected.cv_results_[key], rtol=0, atol=1e-5
        )


# ------------------------------------------------------------------ the refit, and models


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", PIPELINES)
def test_the_best_model_is_that_of_a_fit(name):
    X, y = PIPELINES[name][2]()
    frame = pd.DataFrame(X, columns=[f"f{i}" for i in range(X.shape[1])])
    best = search(GridSearchCV, OURS, name).fit(frame, y).best_estimator_
    alone = sklearn.base.clone(best).fit(frame, y)
    for ours, fitted in zip(best, alone, strict=True):
        assert vars(ours).keys() - {"status_"} == vars(fitted).keys() - {"status_"}
        for key in ("n_features_in_", "n_components_", "n_samples_", "_n_features_out"):
            if hasattr(fitted, key):
                assert getattr(ours, key) == getattr(fitted, key)
        for key in ("mean_", "scale_", "components_", "explained_variance_", "coef_"):
            if getattr(fitted, key, None) is not None:
                np.testing.assert_allclose(
                    getattr(ours, key), getattr(fitted, key), rtol=1e-5, atol=1e-6, err_msg=key
                )
    assert list(best[0].feature_names_in_) == list(frame.columns)
    assert not hasattr(best[-1], "feature_names_in_")


@pytest.mark.parametrize("solver", ["lbfgs", "newton-cholesky"])
@pytest.mark.parametrize("steps", [(), ("TruncatedSVD",)])
def test_a_refit_far_from_the_origin(rng, solver, steps):
    """Scales differ between splits, and intercepts make up for large means of what is scaled."""
    n = 96
    X = np.column_stack([4000 * rng.standard_normal(n), 1000 + 0.05 * rng.standard_normal((n, 2))])
    y = rng.integers(0, 3, n)
    last = OURS.LogisticRegression(C=0.1, solver=solver, tol=1e-8, max_iter=1000)
    more = [OURS.TruncatedSVD(2, algorithm="arpack") for _ in steps]
    pipe = make_pipeline(OURS.StandardScaler(with_mean=False), *more, last)
    best = GridSearchCV(pipe, {"logisticregression__C": [0.1]}).fit(X, y).best_estimator_
    alone = sklearn.base.clone(pipe).fit(X, y)
    np.testing.assert_allclose(best.predict_proba(X), alone.predict_proba(X), rtol=0, atol=1e-5)


@pytest.mark.parametrize("n_components", [1, 2])
@pytest.mark.parametrize("seed", [0, 1, 4])
def test_a_refit_of_few_components_far_from_the_origin(seed, n_components):
    """What components leave of the models of the splits, times large means, is nobody's intercept."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(150, 3)) * [0.1, 0.01, 1000.0] + [1000.0, 5.0, 0.0]
    y = (X[:, 0] - 1000 + 0.1 * rng.normal(size=150) > 0).astype(int)
    last = OURS.LogisticRegression(tol=1e-10)
    pipe = make_pipeline(OURS.StandardScaler(), OURS.PCA(n_components), last)
    best = GridSearchCV(pipe, {"logisticregression__C": [0.1, 2.0]}, cv=3).fit(X, y).best_estimator_
    alone = sklearn.base.clone(best).fit(X, y)
    np.testing.assert_allclose(best.predict_proba(X), alone.predict_proba(X), atol=1e-8)


def test_every_model_can_be_had():
    X, y = regression_data()
    steps, *_ = PIPELINES["scale-pca-ridge"]
    from gpuml.model_selection import cross_validate as ours_cross_validate

    ours = ours_cross_validate(make_pipeline(*steps(OURS)), X, y, return_estimator=True)
    theirs = cross_validate(make_pipeline(*steps(THEIRS)), X, y, return_estimator=True)
    np.testing.assert_allclose(ours["test_score"], theirs["test_score"], atol=1e-9)
    for mine, other in zip(ours["estimator"], theirs["estimator"], strict=True):
        np.testing.assert_allclose(mine.predict(X), other.predict(X), rtol=1e-8)
        assert mine[0].n_samples_seen_ == other[0].n_samples_seen_


def test_one_pass_serves_every_group():
    X, y = regression_data()
    pipe = Pipeline([("scale", OURS.StandardScaler()), ("pca", OURS.PCA()), ("m", OURS.Ridge())])
    grid = [
        {"m__alpha": [1, 2], "pca__n_components": [2, 3]},
        {"m__solver": ["svd", "cholesky"]},
        {"scale": ["passthrough", OURS.StandardScaler(with_std=False)]},
    ]
    found = GridSearchCV(pipe, grid).fit(X, y)
    assert all(step.why == TOGETHER for step in found.plan_.steps)
    assert found.plan_.n_passes == 1


def test_extrema_take_a_pass_of_their_own():
    X, y = regression_data()
    pipe = make_pipeline(OURS.MinMaxScaler(), OURS.Ridge())
    grid = [{"ridge__alpha": [1, 2]}, {"ridge__solver": ["svd"]}]
    found = GridSearchCV(pipe, grid).fit(X, y)
    assert [step.n_passes for step in found.plan_.steps] == [2, 0]


def test_steps_may_be_candidates():
    X, y = regression_data()

    def pipe(m):
        return Pipeline([("scale", "passthrough"), ("reduce", None), ("model", m.Ridge())])

    def grid(m):
        return [
            {"scale": [m.StandardScaler(), m.MinMaxScaler()], "model__alpha": [0.1, 1]},
            {"reduce": [m.PCA(3), "passthrough"], "model": [m.Lasso(alpha=0.5, **TIGHT)]},
            {"reduce": [m.PCA()], "reduce__n_components": [2, 4], "model__alpha": [0.1, 1]},
        ]

    ours = GridSearchCV(pipe(OURS), grid(OURS)).fit(X, y)
    theirs = SklearnGridSearchCV(pipe(THEIRS), grid(THEIRS)).fit(X, y)
    assert_same_scores(ours, theirs)
    assert all(step.why == TOGETHER for step in ours.plan_.steps)


def test_steps_of_one_kind_are_told_apart():
    X, y = regression_data()
    grid = [{"one__with_std": [False]}, {"two__with_std": [False]}, {"one__with_mean": [False]}]

    def fitted(kind, m):
        steps = [("one", m.StandardScaler()), ("two", m.StandardScaler()), ("m", m.Ridge(50))]
        return kind(Pipeline(steps), grid).fit(X, y)

    ours, theirs = fitted(GridSearchCV, OURS), fitted(SklearnGridSearchCV, THEIRS)
    assert_same_scores(ours, theirs)
    many = {f"{step}__{name}": [True, False] for step in ("one", "two") for name in SCALING}
    steps = [("one", OURS.StandardScaler()), ("two", OURS.StandardScaler()), ("m", OURS.Ridge(50))]
    ours = GridSearchCV(Pipeline(steps), many).fit(X, y)
    steps = [
        ("one", THEIRS.StandardScaler()),
        ("two", THEIRS.StandardScaler()),
        ("m", THEIRS.Ridge(50)),
    ]
    assert_same_scores(ours, SklearnGridSearchCV(Pipeline(steps), many).fit(X, y))
    assert TOGETHER in str(ours.plan_)


def test_random_candidates():
    X, y = regression_data()
    steps, *_ = PIPELINES["scale-pca-ridge"]
    grid = {"ridge__alpha": np.logspace(-3, 3, 50), "pca__n_components": range(1, 10)}
    options = {"n_iter": 12, "random_state": 3}
    ours = RandomizedSearchCV(make_pipeline(*steps(OURS)), grid, **options).fit(X, y)
    theirs = sklearn.model_selection.RandomizedSearchCV(
        make_pipeline(*steps(THEIRS)), grid, **options
    ).fit(X, y)
    assert_same_scores(ours, theirs)
    assert ours.plan_.n_passes == 1


# ------------------------------------------------------------------ weights, names, frames


def weights(n):
    return np.random.default_rng(0).uniform(0.2, 3, n)


@pytest.mark.parametrize("step", ["standardscaler", "ridge", "both"])
def test_weights_by_the_name_of_a_step(step):
    X, y = regression_data()
    w = weights(len(y))
    names = ["standardscaler", "ridge"] if step == "both" else [step]
    given = {f"{name}__sample_weight": w for name in names}
    ours = search(GridSearchCV, OURS, "scale-pca-ridge").fit(X, y, **given)
    theirs = search(SklearnGridSearchCV, THEIRS, "scale-pca-ridge").fit(X, y, **given)
    assert TOGETHER in str(ours.plan_)
    assert_same_scores(ours, theirs, atol=1e-6)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-8)
    seen = [fitted.best_estimator_[0].n_samples_seen_ for fitted in (ours, theirs)]
    assert seen[0] == pytest.approx(seen[1])


@pytest.mark.parametrize("kind", [np.asarray, list, pd.Series], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("below", [0.5, 2.0])
def test_scalers_get_negative_weights_without_a_warning(below, kind):
    X, y = regression_data()
    w = weights(len(y))
    w[::7] = -below
    given = {"standardscaler__sample_weight": kind(w)}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ours = search(GridSearchCV, OURS, "scale-ridge").fit(X, y, **given)
    theirs = search(SklearnGridSearchCV, THEIRS, "scale-ridge").fit(X, y, **given)
    assert "some sample weights are negative" in str(ours.plan_)
    assert_same_scores(ours, theirs, atol=1e-6)


@pytest.mark.parametrize("scored", [True, False])
@pytest.mark.parametrize("model", ["Ridge", "LogisticRegression"])
def test_routed_weights(model, scored):
    X, y = cancer() if model == "LogisticRegression" else regression_data()
    w = weights(len(y))

    def fitted(kind, m):
        options = TIGHT if model == "LogisticRegression" else {}
        last = getattr(m, model)(**options).set_fit_request(sample_weight=True)
        metric = sklearn.metrics.accuracy_score if options else sklearn.metrics.r2_score
        scorer = sklearn.metrics.make_scorer(metric).set_score_request(sample_weight=scored)
        scaler = m.StandardScaler().set_fit_request(sample_weight=True)
        grid = {f"{model.lower()}__{'alpha' if model == 'Ridge' else 'C'}": [0.1, 1]}
        pipe = make_pipeline(scaler, m.PCA(5), last)
        return kind(pipe, grid, scoring=scorer).fit(X, y, sample_weight=w)

    with sklearn.config_context(enable_metadata_routing=True):
        ours, theirs = fitted(GridSearchCV, OURS), fitted(SklearnGridSearchCV, THEIRS)
    assert TOGETHER in str(ours.plan_)
    assert_same_scores(ours, theirs)


def test_unknown_fit_parameters_are_scikit_learns_error():
    X, y = regression_data()
    with pytest.raises((ValueError, TypeError), match="sample_weight"):
        search(GridSearchCV, OURS, "scale-ridge").fit(X, y, sample_weight=weights(len(y)))


def test_data_frames_between_steps():
    X, y = regression_data()
    frame = pd.DataFrame(X, columns=list("abcdefghij"))

    def fitted(kind, m):
        pipe = make_pipeline(m.StandardScaler(), m.PCA(3), m.Ridge()).set_output(transform="pandas")
        return kind(pipe, {"ridge__alpha": [0.1, 1]}).fit(frame, y)

    ours, theirs = fitted(GridSearchCV, OURS), fitted(SklearnGridSearchCV, THEIRS)
    assert TOGETHER in str(ours.plan_)
    assert_same_scores(ours, theirs)
    for mine, other in zip(ours.best_estimator_, theirs.best_estimator_, strict=True):
        assert list(mine.feature_names_in_) == list(other.feature_names_in_)
    pd.testing.assert_frame_equal(
        ours.best_estimator_[:-1].transform(frame), theirs.best_estimator_[:-1].transform(frame)
    )


# ------------------------------------------------------------------ hard and bad problems


def test_ill_conditioned_rows():
    rng = np.random.default_rng(0)
    U, _ = np.linalg.qr(rng.standard_normal((300, 8)))
    V, _ = np.linalg.qr(rng.standard_normal((8, 8)))
    X = (U * np.logspace(0, -6, 8)) @ V.T + 1.0
    y = U @ rng.standard_normal(8)

    def fitted(kind, m):
        pipe = make_pipeline(m.PCA(svd_solver="full", whiten=True), m.LinearRegression())
        return kind(pipe, {"pca__n_components": [4, 7]}).fit(X, y)

    ours, theirs = fitted(GridSearchCV, OURS), fitted(SklearnGridSearchCV, THEIRS)
    assert TOGETHER in str(ours.plan_)
    assert_same_scores(ours, theirs)


def test_more_features_than_rows():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 60)), rng.standard_normal(40)
    ours = search(GridSearchCV, OURS, "scale-ridge").fit(X, y)
    theirs = search(SklearnGridSearchCV, THEIRS, "scale-ridge").fit(X, y)
    assert_same_scores(ours, theirs)


def test_constant_features(library):
    X, y = regression_data()
    X = np.column_stack([X, np.full(len(y), 1e6), np.full(len(y), 0.1)])
    theirs = search(SklearnGridSearchCV, THEIRS, "scale-ridge").fit(X, y)
    ours = search(GridSearchCV, OURS, "scale-ridge").fit(library.asarray(X), library.asarray(y))
    assert_same_scores(ours, theirs)


def test_a_candidate_that_cannot_be_fitted_fails_alone():
    X, y = regression_data()
    grid = {"pca__n_components": [2, 11], "ridge__alpha": [1]}

    def fitted(kind, m):
        pipe = make_pipeline(m.StandardScaler(), m.PCA(), m.Ridge())
        with pytest.warns(FitFailedWarning):
            return kind(pipe, grid).fit(X, y)

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "One or more of the test scores", UserWarning)
        ours, theirs = fitted(GridSearchCV, OURS), fitted(SklearnGridSearchCV, THEIRS)
    np.testing.assert_allclose(
        ours.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"], atol=1e-9
    )
    assert np.isnan(ours.cv_results_["mean_test_score"][1])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_rows_that_are_not_finite(bad):
    X, y = regression_data()
    X[3, 2] = bad
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        search(GridSearchCV, OURS, "scale-pca-ridge", error_score="raise").fit(X, y)


@pytest.mark.parametrize(
    ("name", "value"), [("pca__n_components", -1), ("pca__n_components", 1.5), ("ridge__alpha", -1)]
)
def test_invalid_parameters(name, value):
    X, y = regression_data()
    pipe = make_pipeline(OURS.StandardScaler(), OURS.PCA(), OURS.Ridge())
    with pytest.raises(ValueError, match="must be"):
        GridSearchCV(pipe, {name: [value]}, error_score="raise").fit(X, y)


class Doubling(gpuml.preprocessing.StandardScaler):
    """A user's step that is not what its parent is."""

    def transform(self, X, copy=None):
        return 2 * super().transform(X, copy)


class Shifted(gpuml.linear_model.Ridge):
    """A user's model that is not what its parent is."""

    def predict(self, X):
        return super().predict(X) + 1


class Renamed(gpuml.linear_model.Ridge):
    """A user's model that is."""


@pytest.mark.parametrize(
    ("make", "together"),
    [
        (lambda: make_pipeline(Doubling(), OURS.Ridge()), False),
        (lambda: make_pipeline(OURS.StandardScaler(), Shifted()), False),
        (lambda: Shifted(), False),
        (lambda: make_pipeline(OURS.StandardScaler(), Renamed()), True),
    ],
)
def test_a_subclass_that_does_things_in_its_own_way_is_left_to_do_so(make, together):
    X, y = regression_data()
    ours = GridSearchCV(make(), {}, cv=3).fit(X, y)
    theirs = SklearnGridSearchCV(make(), {}, cv=3).fit(X, y)
    assert_same_scores(ours, theirs)
    assert (TOGETHER in str(ours.plan_)) is together


@pytest.mark.parametrize(
    "make",
    [
        lambda m: make_pipeline(
            FeatureUnion([("a", m.PCA(2)), ("b", m.StandardScaler())]), m.Ridge()
        ),
        lambda m: make_pipeline(m.PCA(2), m.MinMaxScaler(), m.Ridge()),
        lambda m: make_pipeline(m.MinMaxScaler(clip=True), m.Ridge()),
        lambda m: make_pipeline(m.StandardScaler(), m.Ridge(solver="lsqr", tol=1e-12)),
        lambda m: make_pipeline(m.StandardScaler(), m.RidgeCV()),
        lambda m: make_pipeline(m.StandardScaler(), make_pipeline(m.PCA(2), m.Ridge())),
    ],
)
def test_what_is_not_affine_is_fitted_otherwise(make):
    X, y = regression_data()
    ours = GridSearchCV(make(OURS), {}, cv=3).fit(X, y)
    theirs = SklearnGridSearchCV(make(THEIRS), {}, cv=3).fit(X, y)
    assert_same_scores(ours, theirs)
    assert TOGETHER not in str(ours.plan_)
