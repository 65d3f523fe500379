"""Models come back as they were: from pickle, joblib and skops, with and without their libraries."""

import copy
import importlib
import pickle
import re
import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.pipeline import make_pipeline

import gpuml
from gpuml._arrays import is_foreign
from gpuml._persistence import stored as _stored
from gpuml._persistence.travel import Travels
from gpuml.compose import ColumnTransformer, TransformedTargetRegressor
from gpuml.cross_decomposition import CCA, PLSSVD, PLSCanonical
from gpuml.decomposition import PCA
from gpuml.gaussian_process import GaussianProcessRegressor
from gpuml.linear_model import LogisticRegression, LogisticRegressionCV, Ridge
from gpuml.model_selection import (
    ConformalRegressor,
    FixedThresholdClassifier,
    GridSearchCV,
    HalvingGridSearchCV,
    HalvingRandomSearchCV,
    HyperbandSearchCV,
    RandomizedSearchCV,
    TunedThresholdClassifierCV,
)
from gpuml.pipeline import FeatureUnion
from gpuml.preprocessing import (
    KBinsDiscretizer,
    MinMaxScaler,
    OneHotEncoder,
    QuantileTransformer,
    StandardScaler,
)
from gpuml.solvers import Status
from gpuml.testing import count_transfers, estimators
from tests.inputs_table import method_that_says, says
from tests.targets import suited

ALPHAS = {"alpha": [0.1, 1.0]}
COMPOSED = {
    "ColumnTransformer": ColumnTransformer(
        [("a", StandardScaler(), [0, 1]), ("b", MinMaxScaler(), [2])]
    ),
    "FeatureUnion": FeatureUnion([("a", StandardScaler()), ("b", PCA(2))]),
    "TransformedTargetRegressor": TransformedTargetRegressor(Ridge(), transformer=StandardScaler()),
    "Pipeline": make_pipeline(StandardScaler(), PCA(2), Ridge()),
}
SEARCHES = {
    "GridSearchCV": GridSearchCV(Ridge(), ALPHAS),
    "RandomizedSearchCV": RandomizedSearchCV(Ridge(), ALPHAS, n_iter=2, scoring="r2"),
    "HalvingGridSearchCV": HalvingGridSearchCV(Ridge(), ALPHAS),
    "HalvingRandomSearchCV": HalvingRandomSearchCV(Ridge(), ALPHAS, n_candidates=2, random_state=0),
    "HyperbandSearchCV": HyperbandSearchCV(
        Ridge(), {"alpha": [0.1, 0.2, 0.5, 1.0, 2.0]}, max_iter=3, random_state=0
    ),
    "search of a pipeline": GridSearchCV(
        make_pipeline(StandardScaler(), LogisticRegression()),
        {"logisticregression__C": [0.1, 1.0]},
        scoring=["accuracy", "roc_auc", "adjusted_rand_score"],
        refit="roc_auc",
    ),
}
# What adapters have of their own is tested with them.
MODELS = {name: model for name, model in estimators() if not hasattr(model, "_row")}
MODELS |= COMPOSED | SEARCHES
# Of rows that are there twice, the likelihood of little noise is decided by rounding.
MODELS["GaussianProcessRegressor"] = GaussianProcessRegressor(alpha=1.0)
MODELS["QuantileTransformer"] = QuantileTransformer(n_quantiles=20)
MODELS["KBinsDiscretizer"] = KBinsDiscretizer(3, encode="onehot-dense", strategy="uniform")
MODELS["LogisticRegressionCV"] = LogisticRegressionCV(
    Cs=3, l1_ratios=(0,), scoring="accuracy", use_legacy_attributes=False
)
# Of one target.
MODELS |= {"CCA": CCA(1), "PLSCanonical": PLSCanonical(1), "PLSSVD": PLSSVD(1)}
MODELS["ConformalRegressor"] = ConformalRegressor(Ridge())
for around in (FixedThresholdClassifier, TunedThresholdClassifierCV):
    MODELS[around.__name__] = around(LogisticRegression())
NO_TWIN = ("BandedRidge", "BandedRidgeCV", "ConformalRegressor", "HyperbandSearchCV")
WITH_A_TWIN = [name for name in MODELS if name not in NO_TWIN]
# Sparse results are for NumPy and CuPy only.
ON_DEVICES = MODELS | {"OneHotEncoder": OneHotEncoder(sparse_output=False)}
PACKAGES = (
    *("compose", "decomposition", "impute", "linear_model", "model_selection", "pipeline"),
    "preprocessing",
)
SKOPS = importlib.util.find_spec("skops") is not None
needs_skops = pytest.mark.skipif(not SKOPS, reason="needs skops")
named = pytest.mark.parametrize("name", MODELS)


@pytest.fixture(scope="module")
def rows():
    X = np.random.default_rng(3).integers(0, 4, size=(60, 4)).astype(float)
    return X, X @ [1.0, 2.0, -1.0, 0.5] + np.sin(7 * X[:, 0]) + 5  # nowhere negative


def fitted(name, rows, asarray=np.asarray, table=MODELS):
    X, y = rows
    model = clone(table[name])
    of_classes = is_classifier(model)
    y = (y > y.mean()).astype(int) if of_classes else suited(model, y)
    return model.fit(asarray(X), asarray(y))


def answer(model, X):
    """What a model says of rows, as a NumPy array."""
    out = says(model, X)
    return out.toarray() if sparse.issparse(out) else np.asarray(_stored.to_host(out))


def of_pickle(model, folder):
    return pickle.loads(pickle.dumps(model))


def of_joblib(model, folder):
    gpuml.save(model, folder / "model.joblib")
    return gpuml.load(folder / "model.joblib")


def of_skops(model, folder):
    gpuml.save(model, folder / "model.skops")
    return gpuml.load(folder / "model.skops")


WAYS = [
    of_pickle,
    of_joblib,
    pytest.param(of_skops, marks=needs_skops),
    pytest.param(lambda model, folder: copy.deepcopy(model), id="deepcopy"),
    pytest.param(lambda model, folder: copy.copy(model), id="copy"),
]
ways = pytest.mark.parametrize("way", WAYS)


def assert_same(a, b, path="model"):
    """Equal kinds and contents, down to arrays and dtypes; nan equals nan."""
    assert type(a) is type(b), path
    if isinstance(a, dict):
        assert list(a) == list(b), path
        for key in a:
            assert_same(a[key], b[key], f"{path}[{key!r}]")
    elif isinstance(a, list | tuple):
        assert len(a) == len(b), path
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            assert_same(x, y, f"{path}[{i}]")
    elif isinstance(a, BaseEstimator):
        assert_same(vars(a), vars(b), path)
    elif isinstance(a, np.ndarray) and a.dtype == object and a.ndim == 1:
        assert a.dtype == b.dtype, path
        assert_same(list(a), list(b), path)
    elif isinstance(a, np.ndarray | np.generic):
        assert a.dtype == b.dtype, path
        np.testing.assert_array_equal(a, b, err_msg=path)
    elif is_foreign(a):
        assert (a.dtype, a.device) == (b.dtype, b.device), path
        np.testing.assert_array_equal(_stored.to_host(a), _stored.to_host(b), err_msg=path)
    elif isinstance(a, float):
        assert a == b or (np.isnan(a) and np.isnan(b)), path
    elif isinstance(a, int | str | None | Status):
        assert a == b, path


# ---------------------------------------------------------------- there and back


def public_estimators():
    for package in PACKAGES:
        module = importlib.import_module(f"gpuml.{package}")
        for name in module.__all__:
            obj = getattr(module, name)
            if isinstance(obj, type) and issubclass(obj, BaseEstimator):
                yield name, obj


def test_every_estimator_travels_and_is_in_the_tables():
    for name, kind in public_estimators():
        assert name in MODELS or name.startswith("Label")  # those are fitted to labels alone
        assert issubclass(kind, Travels) or kind.__module__.startswith("sklearn."), name


@pytest.mark.each
@ways
@named
def test_a_model_comes_back_as_it_was(name, way, rows, tmp_path):
    model = fitted(name, rows)
    again = way(model, tmp_path)
    assert_same(model, again)
    np.testing.assert_array_equal(answer(again, rows[0]), answer(model, rows[0]))


@named
def test_an_unfitted_model_comes_back_as_it_was(name, tmp_path):
    assert_same(MODELS[name], of_pickle(MODELS[name], tmp_path))


@ways
def test_the_arrays_of_a_model_come_back_to_their_library(library, way, rows, tmp_path):
    model = fitted("Ridge", rows, library.asarray)
    model.extra_ = {"nested": [library.asarray(np.array([np.nan, 1.0]))]}
    assert_same(model, way(model, tmp_path))


@pytest.mark.each
@pytest.mark.parametrize("name", ON_DEVICES)
def test_a_model_of_device_data_says_the_same_when_loaded_anywhere(name, library, rows):
    model = fitted(name, rows, library.asarray, ON_DEVICES)
    X = library.asarray(rows[0])
    expected = answer(model, X)
    data = pickle.dumps(model)
    np.testing.assert_allclose(answer(pickle.loads(data), X), expected, rtol=1e-12, atol=1e-12)
    with gpuml.config_context(device="cpu"):
        on_host = pickle.loads(data)
    for rows_again in (rows[0], X):
        np.testing.assert_allclose(answer(on_host, rows_again), expected, rtol=1e-9, atol=1e-9)


def test_on_the_cpu_no_array_is_left_on_a_device(library, rows):
    model = fitted("Pipeline", rows, library.asarray)
    with gpuml.config_context(device="cpu"):
        again = of_pickle(model, None)
    for step in (again[0].mean_, again[1].components_, again[2].coef_):
        assert _stored.place_of(step).is_host
        assert isinstance(step, np.ndarray) or library.name.startswith("torch")


BARE_PROCESS = """
import pickle, sys
from pathlib import Path

HIDDEN = ("array_api_strict", "cudf", "cuml", "cupy", "cupyx", "torch")

class Without:
    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, path=None, target=None):
        hidden = name.split(".")[0] in HIDDEN
        return None if hidden else self.finder.find_spec(name, path, target)

sys.meta_path[:] = [Without(finder) for finder in sys.meta_path]
import numpy as np
for path in sorted(Path(sys.argv[1]).glob("*.pickle")):
    model, X, method, expected = pickle.loads(path.read_bytes())
    out = getattr(model, method)(X)
    out = out.toarray() if hasattr(out, "toarray") else out
    assert type(out) is np.ndarray, path
    np.testing.assert_allclose(out, expected, rtol=1e-9, atol=1e-9, err_msg=str(path))
    print(path.stem)
"""


def run(*arguments):
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


@pytest.mark.exhaustive
def test_models_load_and_work_where_their_library_is_not(library, rows, tmp_path):
    for name in ON_DEVICES:
        model = fitted(name, rows, library.asarray, ON_DEVICES)
        expected = answer(model, library.asarray(rows[0]))
        content = (model, rows[0], method_that_says(model), expected)
        (tmp_path / f"{name}.pickle").write_bytes(pickle.dumps(content))
    done = run("-W", "error", "-c", BARE_PROCESS, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:-1] == sorted(ON_DEVICES)


def test_copies_leave_arrays_where_they_are(library, rows):
    model = fitted("Pipeline", rows, library.asarray)
    with count_transfers(max_to_device=0, max_to_host=0):
        for again in (copy.copy(model), copy.deepcopy(model), clone(model).set_params()):
            assert type(again) is type(model)
    assert_same(model, copy.deepcopy(model))


# ---------------------------------------------------------------- as scikit-learn's


def assert_a_twin(twin, model, name):
    assert type(twin).__name__ == type(model).__name__
    assert type(twin).__module__.startswith("sklearn.")
    assert b"gpuml" not in pickle.dumps(twin), name
    for name, value in twin.get_params(deep=False).items():
        if isinstance(value, int | float | str | bool | None):
            assert_same(value, getattr(model, name))


@pytest.mark.parametrize("name", WITH_A_TWIN)
def test_a_model_becomes_one_of_scikit_learn_that_says_the_same(name, rows):
    model = fitted(name, rows)
    before = pickle.dumps(model)
    twin = gpuml.as_sklearn(model)
    assert_a_twin(twin, model, name)
    np.testing.assert_allclose(answer(twin, rows[0]), answer(model, rows[0]), rtol=1e-12)
    assert_same(model, pickle.loads(before))
    if hasattr(model, "scorer_"):
        assert twin.score(*scored(name, rows)) == pytest.approx(model.score(*scored(name, rows)))
    if isinstance(model, Travels):
        assert type(model.as_sklearn()) is type(twin)


def scored(name, rows):
    X, y = rows
    model = MODELS[name]
    return X, (y > y.mean()).astype(int) if is_classifier(model) else suited(model, y)


@pytest.mark.parametrize("name", WITH_A_TWIN)
def test_a_twin_that_is_not_fitted_is_fitted_to_the_same_model(name, rows):
    twin = gpuml.as_sklearn(MODELS[name])
    assert_a_twin(twin, MODELS[name], name)
    assert not [attribute for attribute in vars(twin) if attribute.endswith("_")]
    if not isinstance(MODELS[name], HalvingGridSearchCV | HalvingRandomSearchCV):  # they draw rows
        theirs = clone(twin).fit(*scored(name, rows))
        found, expected = (answer(model, rows[0]) for model in (fitted(name, rows), theirs))
        if name == "FactorAnalysis":  # signs of its factors are nobody's choice
            found, expected = abs(found), abs(expected)
        np.testing.assert_allclose(expected, found, rtol=0, atol=0.02)


@pytest.mark.each
@pytest.mark.parametrize("name", sorted(set(ON_DEVICES) & set(WITH_A_TWIN)))
def test_a_twin_of_a_device_model_works_on_the_host(name, library, rows):
    model = fitted(name, rows, library.asarray, ON_DEVICES)
    twin = gpuml.as_sklearn(model)
    assert_a_twin(twin, model, name)
    expected = answer(model, library.asarray(rows[0]))
    np.testing.assert_allclose(answer(twin, rows[0]), expected, rtol=1e-9, atol=1e-9)


def test_notebooks_show_what_docstrings_say():
    X = np.eye(4)
    for model in (Ridge(), make_pipeline(StandardScaler(), Ridge())):
        shown = model.fit(X, X[:, 0])._repr_html_()
        assert re.search(r"alpha<span class=.param-doc-description.[^>]*>alpha: float", shown)
        assert re.search(r"coef_<span class=.param-doc-description.[^>]*>coef_: array", shown)
        assert "sklearn.linear_model" not in shown  # no link to another docstring
