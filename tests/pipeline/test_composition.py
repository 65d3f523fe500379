"""Unions, nested searches, and scikit-learn's estimators around ours: equal to its own inside."""

import pickle
from types import SimpleNamespace

import numpy as np
import pytest
import sklearn
import sklearn.compose
import sklearn.decomposition
import sklearn.linear_model
import sklearn.model_selection
import sklearn.pipeline
import sklearn.preprocessing
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.ensemble import (
    BaggingClassifier,
    BaggingRegressor,
    StackingClassifier,
    StackingRegressor,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.feature_selection import RFE, RFECV, SelectFromModel, SequentialFeatureSelector
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier, MultiOutputRegressor, RegressorChain

import gpuml
import gpuml.compose
import gpuml.decomposition
import gpuml.linear_model
import gpuml.model_selection
import gpuml.pipeline
import gpuml.preprocessing
from gpuml._arrays import is_numpy, place_of
from gpuml.model_selection import GridSearchCV, cross_validate
from gpuml.pipeline import FeatureUnion, make_pipeline, make_union
from gpuml.testing import RTOL, count_transfers

PACKAGES = ("compose", "decomposition", "linear_model", "model_selection", "pipeline")


def classes_of(package):
    """What gpuml and scikit-learn both have, of one of them."""
    found = {}
    for name in (*PACKAGES, "preprocessing"):
        module = getattr(package, name)
        public = getattr(gpuml, name).__all__
        found |= {each: getattr(module, each) for each in public if hasattr(module, each)}
    return SimpleNamespace(**found)


OURS, THEIRS = classes_of(gpuml), classes_of(sklearn)
TIGHT = {"tol": 1e-10, "max_iter": 10_000}
FULL = {"svd_solver": "full"}
ALPHAS = [0.1, 1.0, 10.0]


def diabetes():
    X, y = load_diabetes(return_X_y=True)
    return 100 * X, y


def two_targets():
    X, y = diabetes()
    return X, np.stack([y, np.sqrt(y)], axis=1)


def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return X[:, :8], y


def iris():
    return load_iris(return_X_y=True)


def two_labels():
    X, y = iris()
    return X, np.stack([y, y[::-1]], axis=1)


def regression(m):
    return m.make_pipeline(m.StandardScaler(), m.Ridge())


def classification(m):
    return m.make_pipeline(m.StandardScaler(), m.LogisticRegression(**TIGHT))


def reconstruction(model, X, y=None):
    return -float(np.mean((model.inverse_transform(model.transform(X)) - X) ** 2))


def outcome(model, X):
    """What a fitted model says of rows."""
    methods = ("predict_proba", "decision_function", "predict", "transform")
    result = getattr(model, next(name for name in methods if hasattr(model, name)))(X)
    return np.stack(result) if isinstance(result, list) else np.asarray(result, dtype=float)


def names_of(model):
    """Names of the columns that a model gives, or how it says that it has none."""
    try:
        return list(model.get_feature_names_out())
    except AttributeError as error:
        return type(error)


def compare(build, data, fit_params=None):
    """Fit a composition of our classes, and one of theirs: they agree, and ours can be kept."""
    X, y = data()
    ours = build(OURS).fit(X, y, **(fit_params or {}))
    theirs = build(THEIRS).fit(X, y, **(fit_params or {}))
    found, expected = outcome(ours, X), outcome(theirs, X)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6 * np.abs(expected).max())
    if isinstance(
        ours, gpuml.model_selection.GridSearchCV | gpuml.model_selection.RandomizedSearchCV
    ):
        name = "mean_test_score"
        np.testing.assert_allclose(ours.cv_results_[name], theirs.cv_results_[name], atol=1e-6)
        assert ours.best_params_.keys() == theirs.best_params_.keys()
        np.testing.assert_allclose(ours.best_score_, theirs.best_score_, atol=1e-6)
    assert names_of(ours) == names_of(theirs)
    np.testing.assert_array_equal(outcome(pickle.loads(pickle.dumps(ours)), X), found)
    assert repr(clone(ours)) == repr(build(OURS))
    assert type(ours).__name__ in ours._repr_html_()


# ---------------------------------------------------------------- searches in and around


NESTED = {
    "search of a search": lambda m: m.GridSearchCV(
        m.GridSearchCV(m.Ridge(), {"alpha": ALPHAS}), {"estimator__fit_intercept": [True, False]}
    ),
    "search of a search of a pipeline": lambda m: m.GridSearchCV(
        m.GridSearchCV(regression(m), {"ridge__alpha": ALPHAS}),
        {"estimator__standardscaler__with_mean": [True, False]},
    ),
    "in two processes": lambda m: m.GridSearchCV(
        m.GridSearchCV(regression(m), {"ridge__alpha": ALPHAS}),
        {"estimator__standardscaler__with_mean": [True, False]},
        n_jobs=2,
    ),
    "search as last step": lambda m: m.RandomizedSearchCV(
        m.make_pipeline(m.PCA(**FULL), m.GridSearchCV(m.Ridge(), {"alpha": ALPHAS})),
        {"pca__n_components": [2, 4, 6]},
        n_iter=2,
        random_state=0,
    ),
    "search as first step": lambda m: m.RandomizedSearchCV(
        m.make_pipeline(
            m.GridSearchCV(m.PCA(**FULL), {"n_components": [2, 4]}, scoring=reconstruction),
            m.Ridge(),
        ),
        {"ridge__alpha": ALPHAS},
        n_iter=2,
        random_state=0,
    ),
    "search as middle step": lambda m: m.make_pipeline(
        m.StandardScaler(), m.GridSearchCV(m.PCA(**FULL), {"n_components": [2, 4]}), m.Ridge()
    ),
    "search in a union": lambda m: m.make_pipeline(
        m.make_union(m.GridSearchCV(m.PCA(**FULL), {"n_components": [2, 4]}), m.StandardScaler()),
        m.Ridge(),
    ),
    "search in a column transformer": lambda m: m.make_pipeline(
        m.make_column_transformer(
            (m.GridSearchCV(m.PCA(**FULL), {"n_components": [2, 3]}), [0, 1, 2, 3]),
            remainder=m.StandardScaler(),
        ),
        m.Ridge(),
    ),
    "union": lambda m: m.GridSearchCV(
        m.make_pipeline(m.make_union(m.PCA(**FULL), m.MinMaxScaler()), m.Ridge()),
        {"featureunion__pca__n_components": [1, 4], "ridge__alpha": ALPHAS},
    ),
    "union with other parts": lambda m: m.GridSearchCV(
        m.make_pipeline(
            m.FeatureUnion(
                [("a", m.PCA(**FULL)), ("b", m.StandardScaler())], transformer_weights={"a": 2.0}
            ),
            m.Ridge(),
        ),
        {"featureunion__a": ["drop", "passthrough", m.MinMaxScaler()]},
    ),
}


@pytest.mark.some
@pytest.mark.parametrize("name", NESTED)
def test_searches_in_and_around_compositions_agree_with_scikit_learn(name):
    compare(NESTED[name], diabetes)


def test_cross_validation_of_a_search_agrees_with_scikit_learn():
    X, y = diabetes()
    params = {"ridge__alpha": ALPHAS}
    ours = cross_validate(OURS.GridSearchCV(regression(OURS), params), X, y, return_estimator=True)
    theirs = sklearn.model_selection.cross_validate(
        THEIRS.GridSearchCV(regression(THEIRS), params), X, y
    )
    np.testing.assert_allclose(ours["test_score"], theirs["test_score"], atol=1e-9)
    assert {each.best_params_["ridge__alpha"] for each in ours["estimator"]} <= set(ALPHAS)


def test_a_search_of_a_search_reads_the_rows_of_each_outer_split_once():
    X, y = diabetes()
    inner = GridSearchCV(regression(OURS), {"ridge__alpha": ALPHAS})
    search = GridSearchCV(inner, {"estimator__ridge__fit_intercept": [True]}).fit(X, y)
    assert search.best_estimator_.plan_.n_passes == 1
    assert search.best_estimator_.plan_.n_fits == 15


# ---------------------------------------------------------------- scikit-learn's around ours


AROUND = {
    "stacking": (
        lambda m: StackingClassifier(
            [("a", classification(m)), ("b", m.RidgeClassifier())],
            final_estimator=m.LogisticRegression(**TIGHT),
        ),
        cancer,
    ),
    "stacking regressors": (
        lambda m: StackingRegressor(
            [("a", regression(m)), ("b", m.LinearRegression())], final_estimator=m.Ridge()
        ),
        diabetes,
    ),
    "voting": (
        lambda m: VotingClassifier(
            [("a", classification(m)), ("b", m.make_pipeline(m.MinMaxScaler(), classification(m)))],
            voting="soft",
        ),
        cancer,
    ),
    "voting with a search": (
        lambda m: VotingRegressor(
            [("a", regression(m)), ("b", m.GridSearchCV(m.Ridge(), {"alpha": ALPHAS}))]
        ),
        diabetes,
    ),
    "bagging": (
        lambda m: BaggingClassifier(classification(m), n_estimators=3, random_state=0),
        cancer,
    ),
    "search of bagging": (
        lambda m: m.GridSearchCV(
            BaggingRegressor(regression(m), n_estimators=3, random_state=0),
            {"estimator__ridge__alpha": ALPHAS},
        ),
        diabetes,
    ),
    "calibration": (lambda m: CalibratedClassifierCV(classification(m), cv=3), cancer),
    "one against rest": (lambda m: OneVsRestClassifier(classification(m)), iris),
    "one against one": (lambda m: OneVsOneClassifier(classification(m)), iris),
    "search of one against rest": (
        lambda m: m.GridSearchCV(
            OneVsRestClassifier(classification(m)),
            {"estimator__logisticregression__C": ALPHAS},
        ),
        iris,
    ),
    "several targets": (lambda m: MultiOutputRegressor(regression(m)), two_targets),
    "chain of targets": (lambda m: RegressorChain(regression(m)), two_targets),
    "several labels": (lambda m: MultiOutputClassifier(classification(m)), two_labels),
    "elimination": (lambda m: RFE(m.Ridge(), n_features_to_select=4), diabetes),
    "elimination by scores": (lambda m: RFECV(m.Ridge(), cv=3), diabetes),
    "selection": (lambda m: SelectFromModel(m.Ridge()), diabetes),
    "search of a selection": (
        lambda m: m.GridSearchCV(
            m.make_pipeline(m.StandardScaler(), SelectFromModel(m.Ridge()), m.Ridge()),
            {"selectfrommodel__estimator__alpha": [0.1, 100.0], "ridge__alpha": ALPHAS},
        ),
        diabetes,
    ),
    "sequential selection": (
        lambda m: SequentialFeatureSelector(m.Ridge(), n_features_to_select=3, cv=3),
        diabetes,
    ),
}


@pytest.mark.some
@pytest.mark.parametrize("name", AROUND)
def test_estimators_of_scikit_learn_take_ours(name):
    compare(*AROUND[name])


# ---------------------------------------------------------------- routing


ROUTED = {
    "column transformer": lambda m: m.GridSearchCV(
        m.make_pipeline(
            m.make_column_transformer(
                (m.StandardScaler().set_fit_request(sample_weight=True), [0, 1, 2]),
                remainder=m.MinMaxScaler(),
            ),
            m.Ridge().set_fit_request(sample_weight=True).set_score_request(sample_weight=True),
        ),
        {"ridge__alpha": ALPHAS},
    ),
    "union": lambda m: m.GridSearchCV(
        m.make_pipeline(
            m.make_union(
                m.StandardScaler().set_fit_request(sample_weight=True),
                m.MinMaxScaler(),
            ),
            m.Ridge().set_fit_request(sample_weight=True).set_score_request(sample_weight=True),
        ),
        {"ridge__alpha": ALPHAS},
    ),
    "nested search": lambda m: m.GridSearchCV(
        m.GridSearchCV(
            m.Ridge().set_fit_request(sample_weight=True).set_score_request(sample_weight=True),
            {"alpha": ALPHAS},
        ),
        {"estimator__fit_intercept": [True, False]},
    ),
    "transformed target": lambda m: m.GridSearchCV(
        m.TransformedTargetRegressor(
            m.Ridge().set_fit_request(sample_weight=True), transformer=m.StandardScaler()
        ).set_score_request(sample_weight=True),
        {"regressor__alpha": ALPHAS},
    ),
    "default regressor": lambda m: m.TransformedTargetRegressor(),
}


@pytest.mark.some
@pytest.mark.parametrize("name", ROUTED)
def test_weights_are_routed_through_compositions(name, rng):
    weight = rng.integers(1, 4, size=len(diabetes()[1])).astype(float)
    with sklearn.config_context(enable_metadata_routing=True):
        compare(ROUTED[name], diabetes, {"sample_weight": weight})


@pytest.mark.each
@pytest.mark.parametrize("name", ROUTED)
def test_weights_are_routed_on_every_library(name, library, rng):
    X, y = diabetes()
    weight = rng.integers(1, 4, size=len(y)).astype(float)
    with sklearn.config_context(enable_metadata_routing=True):
        on_host = ROUTED[name](OURS).fit(X, y, sample_weight=weight)
        there = ROUTED[name](OURS).fit(*map(library.asarray, (X, y)), sample_weight=weight)
    found = library.to_numpy(there.predict(library.asarray(X)))
    np.testing.assert_allclose(found, on_host.predict(X), rtol=1e-8)


# ---------------------------------------------------------------- unions, on every library


def union():
    return FeatureUnion(
        [("pca", OURS.PCA(2, **FULL)), ("scaled", OURS.StandardScaler()), ("as", "passthrough")],
        transformer_weights={"scaled": 3.0},
    )


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_union_is_where_its_rows_are(library, dtype, rng):
    X = rng.normal(size=(30, 4)).astype(dtype)
    expected = sklearn.pipeline.FeatureUnion(
        union().transformer_list, transformer_weights={"scaled": 3.0}
    )
    expected = expected.fit_transform(X)
    rows = library.asarray(X)
    with count_transfers() as moved:
        fitted = union().fit(rows)
    for found in (fitted.transform(rows), union().fit_transform(rows)):
        assert place_of(found) == place_of(rows)
        assert found.dtype == rows.dtype
        np.testing.assert_allclose(library.to_numpy(found), expected, atol=RTOL[dtype])
    assert moved.to_host < X.nbytes


def test_a_union_joins_integers_and_floats(library):
    X = np.arange(6).reshape(3, 2)
    found = make_union("passthrough", OURS.MinMaxScaler()).fit_transform(library.asarray(X))
    np.testing.assert_allclose(
        library.to_numpy(found), [[0, 1, 0, 0], [2, 3, 0.5, 0.5], [4, 5, 1, 1]]
    )
    kept = make_union("passthrough", "passthrough").fit_transform(library.asarray(X))
    assert kept.dtype == library.asarray(X).dtype


def test_a_union_of_nothing_is_where_its_rows_are(library):
    rows = library.asarray(np.ones((3, 2)))
    found = FeatureUnion([("a", "drop")]).fit_transform(rows)
    assert found.shape == (3, 0)
    assert place_of(found) == place_of(rows)
    assert place_of(FeatureUnion([("a", "drop")]).fit(rows).transform(rows)) == place_of(rows)


@pytest.mark.parametrize("frame", ["pandas", "polars"])
def test_a_union_gives_frames_with_names(library, frame, rng):
    pytest.importorskip(frame)
    X = rng.normal(size=(30, 4))
    found = union().set_output(transform=frame).fit_transform(library.asarray(X))
    assert type(found).__module__.startswith(frame)
    assert list(found.columns) == list(union().fit(X).get_feature_names_out())
    np.testing.assert_allclose(found.to_numpy(), union().fit_transform(X), atol=1e-12)


TRANSFORMERS = [
    OURS.StandardScaler(),
    OURS.MinMaxScaler(),
    OURS.MaxAbsScaler(),
    OURS.Normalizer(),
    OURS.PolynomialFeatures(),
    OURS.OneHotEncoder(sparse_output=False),
    OURS.PCA(2),
    OURS.TruncatedSVD(2),
    OURS.IncrementalPCA(2),
]


@pytest.mark.parametrize("transformer", TRANSFORMERS, ids=str)
def test_every_transformer_gives_frames_of_rows_of_any_library(transformer, library, rng):
    X = rng.integers(0, 3, size=(20, 3)).astype(float)
    plain = clone(transformer).fit(X)
    framed = clone(transformer).set_output(transform="pandas")
    for found in (framed.fit_transform(library.asarray(X)), framed.transform(library.asarray(X))):
        assert list(found.columns) == list(plain.get_feature_names_out())
        np.testing.assert_allclose(found.to_numpy(), plain.transform(X), atol=1e-9)


def test_a_search_over_a_union_is_where_its_rows_are(library):
    X, y = diabetes()
    search = GridSearchCV(
        make_pipeline(make_union(OURS.PCA(**FULL), OURS.MinMaxScaler()), OURS.Ridge()),
        {"featureunion__pca__n_components": [1, 4], "ridge__alpha": [0.1, 1.0]},
    )
    on_host = clone(search).fit(X, y)
    there = search.fit(library.asarray(X), library.asarray(y))
    scores = "mean_test_score"
    np.testing.assert_allclose(there.cv_results_[scores], on_host.cv_results_[scores], rtol=1e-8)
    assert place_of(there.predict(library.asarray(X))) == place_of(library.asarray(X))


def test_jobs_of_a_union_do_not_take_rows_off_their_device(library, rng):
    rows = library.asarray(rng.normal(size=(30, 4)))
    several = union().set_params(n_jobs=2)
    expected = library.to_numpy(union().fit_transform(rows))
    np.testing.assert_array_equal(library.to_numpy(several.fit_transform(rows)), expected)


class Flat(sklearn.base.TransformerMixin, sklearn.base.BaseEstimator):
    """A transformer that gives one axis too few."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return X[:, 0]


def test_a_part_of_a_union_must_give_a_matrix(library, rng):
    broken = FeatureUnion([("out", "drop"), ("scaled", OURS.StandardScaler()), ("flat", Flat())])
    with pytest.raises(ValueError, match="dimensions, but expected 2"):
        broken.fit_transform(library.asarray(rng.normal(size=(5, 2))))


@pytest.mark.gpu
def test_sparse_columns_of_a_union_stay_sparse_on_a_gpu(library, rng):
    if library.name != "cupy":
        pytest.skip("only CuPy has sparse matrices here")
    X = rng.integers(0, 3, size=(20, 2)).astype(float)
    both = make_union(OURS.OneHotEncoder(), OURS.StandardScaler())
    found = both.fit_transform(library.asarray(X))
    assert type(found).__module__.startswith("cupyx")
    np.testing.assert_allclose(found.get().toarray(), both.fit_transform(X).toarray(), atol=1e-12)


def test_make_union_is_of_our_class():
    assert type(make_union(OURS.PCA(), OURS.MinMaxScaler(), n_jobs=2)) is FeatureUnion
    assert make_union("passthrough", verbose_feature_names_out=False).get_params(deep=False) == {
        "transformer_list": [("passthrough", "passthrough")],
        "n_jobs": None,
        "transformer_weights": None,
        "verbose": False,
        "verbose_feature_names_out": False,
    }
    assert is_numpy(make_union("passthrough").fit_transform(np.ones((2, 2))))
