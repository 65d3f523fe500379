"""What becomes of estimators that `as_sklearn` converts; and ONNX models made of the results."""

import importlib
import pickle

import numpy as np
import pytest
import sklearn.linear_model as sk
import sklearn.metrics
from sklearn.base import clone
from sklearn.ensemble import BaggingRegressor, StackingRegressor
from sklearn.model_selection import GridSearchCV as TheirSearch
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer

import gpuml
from gpuml.compose import ColumnTransformer
from gpuml.decomposition import PCA
from gpuml.linear_model import LogisticRegression, Ridge, RidgeClassifier
from gpuml.metrics import get_scorer, r2_score
from gpuml.model_selection import GridSearchCV, HyperbandSearchCV
from gpuml.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler

needs_onnx = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("skl2onnx", "onnxruntime")),
    reason="needs skl2onnx and onnxruntime",
)


@pytest.fixture
def rows(rng):
    X = rng.normal(size=(80, 4))
    return X, X @ [1.0, 2.0, -1.0, 0.5] + 0.1 * rng.normal(size=80)


@pytest.mark.parametrize(
    ("ours", "name", "theirs"),
    [
        (Ridge(solver="eig"), "solver", "auto"),
        (Ridge(solver="cholesky"), "solver", "cholesky"),
        (RidgeClassifier(solver="cuml-svd"), "solver", "auto"),
        (LogisticRegression(solver="qn"), "solver", "lbfgs"),
        (LogisticRegression(solver="newton-cholesky"), "solver", "newton-cholesky"),
        (PCA(svd_solver="jacobi"), "svd_solver", "auto"),
        (Ridge(alpha=-1.0), "alpha", -1.0),  # wrong for both: scikit-learn is to say so
    ],
    ids=str,
)
def test_values_that_only_gpuml_knows_become_defaults(ours, name, theirs):
    assert gpuml.as_sklearn(ours).get_params()[name] == theirs


def test_parameters_on_a_device_come_to_the_host(library):
    twin = gpuml.as_sklearn(Ridge(alpha=library.asarray(np.array([1.0, 2.0]))))
    assert isinstance(twin.alpha, np.ndarray)


def test_what_holds_nothing_of_gpuml_is_the_same_object(rows):
    for theirs in (sk.Ridge().fit(*rows), make_pipeline(sk.Ridge()), None, 3, {"a": [1]}):
        assert gpuml.as_sklearn(theirs) is theirs


def test_what_is_not_gpumls_within_stays_the_same_object(rows):
    first = FunctionTransformer(np.abs)
    twin = gpuml.as_sklearn(make_pipeline(first, Ridge()).fit(*rows))
    assert type(twin) is Pipeline
    assert twin[0] is first
    assert type(twin[1]) is sk.Ridge


def test_estimators_within_those_of_scikit_learn_are_converted(rows):
    X, y = rows
    for model in (
        BaggingRegressor(Ridge(), n_estimators=3, random_state=0),
        StackingRegressor([("a", Ridge()), ("b", make_pipeline(StandardScaler(), Ridge()))]),
        TheirSearch(Ridge(), {"alpha": [0.1, 1.0]}),
    ):
        model = model.fit(X, y)
        twin = gpuml.as_sklearn(model)
        assert type(twin) is type(model)
        assert b"gpuml" not in pickle.dumps(twin)
        assert b"gpuml" in pickle.dumps(model)
        np.testing.assert_allclose(twin.predict(X), model.predict(X), rtol=1e-12)


def test_grids_scorers_and_results_of_searches_are_converted(rows):
    X, y = rows
    search = GridSearchCV(
        Pipeline([("scale", StandardScaler()), ("model", Ridge())]),
        {"scale": [StandardScaler(), MinMaxScaler()], "model__alpha": [0.1, 1.0]},
        scoring={"ours": get_scorer("r2"), "name": "neg_mean_squared_error"},
        refit="ours",
    ).fit(X, y)
    twin = gpuml.as_sklearn(search)
    assert type(twin) is TheirSearch
    assert b"gpuml" not in pickle.dumps(twin)
    assert not hasattr(twin, "plan_")
    assert twin.scoring["ours"]._score_func is sklearn.metrics.r2_score
    assert search.scoring["ours"]._score_func is r2_score
    assert type(twin.param_grid["scale"][1]) is type(gpuml.as_sklearn(MinMaxScaler()))
    assert twin.score(X, y) == pytest.approx(search.score(X, y))
    again = clone(twin).fit(X, y)
    assert again.best_params_["model__alpha"] == search.best_params_["model__alpha"]


def test_settings_of_outputs_and_of_routing_are_kept(rows):
    pytest.importorskip("pandas")
    twin = gpuml.as_sklearn(StandardScaler().set_output(transform="pandas").fit(rows[0]))
    assert list(twin.transform(rows[0]).columns) == ["x0", "x1", "x2", "x3"]
    with sklearn.config_context(enable_metadata_routing=True):
        asked = gpuml.as_sklearn(Ridge().set_fit_request(sample_weight=True))
        assert asked.get_metadata_routing().fit.requests == {"sample_weight": True}


def test_models_of_classes_know_them_by_name(rows):
    X, y = rows
    for labels in (np.where(y > 0, "yes", "no"), np.digitize(y, [-1, 1])):
        for model in (LogisticRegression(), RidgeClassifier()):
            twin = gpuml.as_sklearn(model.fit(X, labels))
            np.testing.assert_array_equal(twin.predict(X), model.predict(X))
            np.testing.assert_array_equal(twin.classes_, model.classes_)


def test_what_has_no_counterpart_is_an_error():
    class Mine(Ridge):
        pass

    with pytest.raises(TypeError, match="class of your own"):
        gpuml.as_sklearn(Mine())
    search = HyperbandSearchCV(Ridge(), {"alpha": [1.0]})
    with pytest.raises(TypeError, match=r"no counterpart of HyperbandSearchCV. Convert its best"):
        search.as_sklearn()


def test_models_of_clusters_become_those_of_scikit_learn(rows):
    linear_model = pytest.importorskip("gpuml_dask.linear_model", reason="needs gpuml[dask]")
    model = linear_model.Ridge().fit(*rows)
    twin = gpuml.as_sklearn(pickle.loads(pickle.dumps(model)))
    assert type(twin) is sk.Ridge
    np.testing.assert_allclose(twin.predict(rows[0]), model.predict(rows[0]), rtol=1e-12)


# ---------------------------------------------------------------- ONNX


def onnx_answers(model, X):
    """Outputs of the ONNX model of an estimator, by name."""
    import onnxruntime
    from skl2onnx import to_onnx

    options = {"zipmap": False} if hasattr(model, "predict_proba") else None
    twin = gpuml.as_sklearn(model)
    onnx = to_onnx(twin, X[:1], options={id(twin): options} if options else None)
    session = onnxruntime.InferenceSession(onnx.SerializeToString())
    (name,) = (given.name for given in session.get_inputs())
    outputs = [output.name for output in session.get_outputs()]
    return dict(zip(outputs, session.run(None, {name: X}), strict=True))


@needs_onnx
@pytest.mark.parametrize(
    "model",
    [
        Ridge(),
        StandardScaler(),
        MinMaxScaler(),
        MaxAbsScaler(),
        PCA(2),
        make_pipeline(StandardScaler(), PCA(3), Ridge()),
        ColumnTransformer([("a", StandardScaler(), [0, 1]), ("b", MinMaxScaler(), [2, 3])]),
        GridSearchCV(make_pipeline(StandardScaler(), Ridge()), {"ridge__alpha": [0.1, 1.0]}),
    ],
    ids=lambda model: type(model).__name__,
)
def test_onnx_models_say_the_same(model, library, rows):
    X, y = (x.astype(np.float32) for x in rows)
    model = clone(model).fit(library.asarray(X), library.asarray(y))
    said = model.predict if hasattr(model, "predict") else model.transform
    (answer,) = onnx_answers(model, X).values()
    expected = library.to_numpy(said(library.asarray(X)))
    np.testing.assert_allclose(answer.reshape(expected.shape), expected, atol=1e-4)


@needs_onnx
@pytest.mark.parametrize("n_classes", [2, 3])
def test_onnx_models_of_classes_say_the_same(n_classes, library, rows):
    X, y = rows[0].astype(np.float32), np.digitize(rows[1], [0.0, 2.0][: n_classes - 1])
    for model in (LogisticRegression(), make_pipeline(StandardScaler(), LogisticRegression())):
        model = model.fit(library.asarray(X), library.asarray(y))
        answers = onnx_answers(model, X)
        expected = library.to_numpy(model.predict_proba(library.asarray(X)))
        np.testing.assert_array_equal(answers["label"], library.to_numpy(model.predict(X)))
        np.testing.assert_allclose(answers["probabilities"], expected, atol=1e-4)
