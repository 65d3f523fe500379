"""No detour that nobody is told of: on a GPU's rows, cuML does the work or a warning says who does.

For each class of the table and each of its public methods two things are watched that a detour
cannot do without: scikit-learn's own code, whoever calls it, and bytes that come to the host. One
table is gone through with cuML on a GPU, and with `fake_cuml` elsewhere.
"""

import contextlib
import importlib
import inspect
import sys
import warnings

import numpy as np
import pytest
from sklearn.base import is_classifier, is_regressor
from sklearn.datasets import make_classification

from gpuml._arrays import nbytes
from gpuml.adapters import _fallback, all_rows
from gpuml.adapters._build import _methods
from gpuml.adapters._method import FITTING
from gpuml.exceptions import FallbackWarning
from gpuml.model_selection import GridSearchCV
from gpuml.testing import count_transfers
from tests.adapters import fake_cuml, fake_models_b
from tests.adapters.fake_models_b import fake_b  # noqa: F401  (a fixture)

pytestmark = pytest.mark.filterwarnings("ignore")

ROWS = all_rows()
# Parameters that cuML has, and that make fits short.
PARAMS = {
    "AgglomerativeClustering": {"linkage": "single"},
    "DBSCAN": {"eps": 3.0},
    "EllipticEnvelope": {"random_state": 0},
    "GraphicalLasso": {"alpha": 0.5, "max_iter": 5},
    "GraphicalLassoCV": {"cv": 2, "alphas": 2, "n_refinements": 1, "max_iter": 5},
    "HDBSCAN": {"copy": True},
    "IsolationForest": {"n_estimators": 5},
    "KMeans": {"n_clusters": 3, "n_init": 1},
    "RandomForestClassifier": {"n_estimators": 5, "max_depth": 3},
    "RandomForestRegressor": {"n_estimators": 5, "max_depth": 3},
    "SpectralClustering": {"n_clusters": 2, "affinity": "nearest_neighbors", "n_init": 1},
    "TSNE": {"perplexity": 5, "max_iter": 250},
    "UMAP": {"n_neighbors": 5, "n_epochs": 20, "init": "random"},
}
# Read no rows: they change the model's own coefficients.
OF_THE_MODEL = ("densify", "sparsify")
# What cuML has not, of classes that it has; all else it does. A warning says so.
TOLD = {
    "HDBSCAN": {"dbscan_clustering"},
    "NearestNeighbors": {"radius_neighbors"},
    "RandomForestClassifier": {"apply", "decision_path"},
    "RandomForestRegressor": {"apply", "decision_path"},
    "UMAP": {"update"},
}
# What cuML itself does on the CPU, as the page of adapters says: it triangulates the embedding there.
CUML_READS = {"UMAP": {"inverse_transform"}}


class World:
    """Where a table is gone through: cuML and its arrays, or what stands for them."""

    def __init__(self, asarray, n_rows, n_columns, engine):
        self.asarray, self.engine = asarray, engine
        X, y = make_classification(n_rows, n_columns, n_informative=8, random_state=0)
        self.X, self.y = X.astype(np.float32), y.astype(np.int64)

    def rows_for(self, row):
        """X and y on the device; of what cuML has not, narrow ones, as it is on the CPU anyway."""
        X = self.X if row.cuml else self.X[:, :4]
        y = self.y.astype(np.float32) if is_regressor(row.sk()) else self.y
        return self.asarray(X), self.asarray(y)


@pytest.fixture
def said(monkeypatch):
    """Nothing was said in this process yet."""
    monkeypatch.setattr(_fallback, "_said", set())


@pytest.fixture
def of_fakes(fake_b):  # noqa: F811
    return World(fake_b.on_device, 90, 12, ("tests.adapters.fake_cuml", "tests.adapters.fake_mod"))


@pytest.fixture
def of_gpu(said):
    cupy = pytest.importorskip("cupy")
    pytest.importorskip("cuml")
    # Wide rows: trees, graphs and labels that cuML itself reads are little beside them.
    return World(cupy.asarray, 2_000, 512, ())


class Watch:
    """What was done while a method ran: scikit-learn's methods, bytes to the host, warnings."""

    def __init__(self, row, engine, *, looks=True):
        # Of what a warning is to tell, nobody asks which code ran: numba compiles slowly if watched.
        self._looks = looks
        self.ran, self.told, self._engine = set(), [], engine
        methods = {name: inspect.getattr_static(row.sk, name) for name in _methods(row.sk)}
        plain = {name: inspect.unwrap(getattr(m, "fn", m)) for name, m in methods.items()}
        self._names = {function.__code__: name for name, function in plain.items()}

    def __enter__(self):
        self._caught = warnings.catch_warnings(record=True)
        self._warned = self._caught.__enter__()
        warnings.simplefilter("always")
        self._counter = count_transfers()
        self._moved = self._counter.__enter__()
        if self._looks:
            sys.setprofile(self._saw)
        return self

    def __exit__(self, *error):
        sys.setprofile(None)
        self._counter.__exit__(*error)
        self._caught.__exit__(*error)
        self.to_host = self._moved.to_host
        self.told = [str(w.message) for w in self._warned if w.category is FallbackWarning]

    def _saw(self, frame, event, argument):
        if event == "call" and frame.f_code in self._names and not self._is_engines(frame):
            self.ran.add(self._names[frame.f_code])

    def _is_engines(self, frame):
        # scikit-learn in disguise.
        while frame is not None:
            if frame.f_globals.get("__name__", "").startswith(self._engine or ("-",)):
                return True
            frame = frame.f_back
        return False


def arguments(name, model, X, y):
    """What a public method is called with."""
    if name in FITTING:
        return (X, y) if is_supervised(model._row) else (X,)
    if name == "score":
        return (X, y)
    if name == "error_norm":
        return (model.covariance_,)
    if name == "inverse_transform":
        return (model.transform(X),)
    return {
        "dbscan_clustering": (0.5,),
        "get_precision": (),
        "sample": (),
    }.get(name, (X,))


def detours(world, path):
    """Methods that were done on the CPU, or said to be, though they should not; and what was seen."""
    row, found, fitted = ROWS[path], [], None
    X, y = world.rows_for(row)
    names = set(_methods(row.sk)) - set(OF_THE_MODEL)
    for name in sorted(names, key=lambda name: name != "fit"):
        model = new(path) if name in FITTING else fitted
        if not hasattr(model, name):
            continue
        given = arguments(name, model, X, y)
        told = name in TOLD.get(row.name, ())
        watch = Watch(row, world.engine, looks=not told)
        with watch, contextlib.suppress(ImportError):  # no umap-learn
            getattr(model, name)(*given)
        fitted = model if name == "fit" else fitted
        if row.cuml is None:
            # The warning of the fit is for all methods of the model.
            as_asked = bool(watch.told) == (name in FITTING) and watch.ran
        elif told:
            as_asked = len(watch.told) == 1 and f"{row.name}.{name} runs" in watch.told[0]
        else:
            few = watch.to_host <= nbytes(X) // 4 or name in CUML_READS.get(row.name, ())
            as_asked = not watch.told and not watch.ran and few
        if not as_asked:
            found.append((name, watch.told, sorted(watch.ran), watch.to_host))
    return found


def new(path, **params):
    """An unfitted estimator of the table."""
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)(**{**PARAMS.get(name, {}), **params})


@pytest.mark.parametrize("path", ROWS)
def test_methods_around_a_fake(of_fakes, path):
    assert detours(of_fakes, path) == []


@pytest.mark.gpu
@pytest.mark.parametrize("path", ROWS)
def test_methods_on_a_gpu(of_gpu, path):
    assert detours(of_gpu, path) == []


def fakes():
    """The fake of each class of cuML."""
    models = {**fake_cuml.MODELS, **fake_models_b.MODELS}
    return {f"{module}.{one.__name__}": one for module, of in models.items() for one in of}


@pytest.mark.parametrize("path", [path for path, row in ROWS.items() if row.cuml])
def test_rows_name_what_cuml_has(path):
    """What it has with a name of scikit-learn's is used, or is among what a warning tells."""
    row = ROWS[path]
    inherited = {"score"} if row.mixin_score or is_supervised(row) else set()
    shared = {*fakes()[row.cuml].public} & {*_methods(row.sk)} - {*FITTING} - inherited
    assert shared == {*row.methods}
    assert TOLD.get(row.name, set()).isdisjoint(row.methods)


@pytest.mark.gpu
@pytest.mark.parametrize("path", [path for path, row in ROWS.items() if row.cuml])
def test_fakes_have_what_cuml_has(path):
    row = ROWS[path]
    pytest.importorskip("cuml")
    module, _, name = row.cuml.rpartition(".")
    theirs = {n for n in dir(getattr(importlib.import_module(module), name)) if n[0] != "_"}
    assert {*fakes()[row.cuml].public} == theirs & {*_methods(row.sk)} - {"fit"}


def is_supervised(row):
    return is_classifier(row.sk()) or is_regressor(row.sk())


# ---------------------------------------------------------------- searches

# A parameter that both values of are cuML's, and how the search scores.
SEARCHES = [
    ("gpuml.cluster.KMeans", {"max_iter": [2, 20]}, None),
    ("gpuml.ensemble.RandomForestClassifier", {"max_depth": [2, 3]}, None),
    ("gpuml.ensemble.RandomForestClassifier", {"max_depth": [2, 3]}, "roc_auc"),
    ("gpuml.ensemble.RandomForestRegressor", {"max_depth": [2, 3]}, None),
    ("gpuml.neighbors.KernelDensity", {"bandwidth": [1.0, 2.0]}, None),
    ("gpuml.neighbors.KNeighborsClassifier", {"n_neighbors": [3, 5]}, None),
    ("gpuml.neighbors.KNeighborsClassifier", {"weights": ["uniform", "distance"]}, None),
    ("gpuml.neighbors.KNeighborsClassifier", {"n_neighbors": [3, 5]}, "accuracy"),
    ("gpuml.neighbors.KNeighborsClassifier", {"n_neighbors": [3, 5]}, "neg_log_loss"),
    ("gpuml.neighbors.KNeighborsClassifier", {"n_neighbors": [3, 5]}, ["roc_auc", "f1"]),
    ("gpuml.neighbors.KNeighborsRegressor", {"n_neighbors": [3, 5]}, None),
    ("gpuml.svm.SVC", {"C": [0.5, 1.0]}, None),
    ("gpuml.svm.SVC", {"C": [0.5, 1.0]}, "roc_auc"),
    ("gpuml.svm.SVR", {"C": [0.5, 1.0]}, None),
]
each_search = pytest.mark.parametrize(("path", "grid", "scoring"), SEARCHES, ids=str)


def assert_searches_without_detour(world, path, grid, scoring):
    X, y = world.rows_for(ROWS[path])
    search = GridSearchCV(new(path), grid, scoring=scoring, cv=3, refit=False, error_score="raise")
    with Watch(ROWS[path], world.engine) as watch:
        search.fit(X, y)
    assert (watch.told, watch.ran) == ([], set())
    # The index arrays of folds, and what six fits read of numbers.
    assert watch.to_host <= nbytes(X)


@each_search
def test_searches_around_a_fake(of_fakes, path, grid, scoring):
    assert_searches_without_detour(of_fakes, path, grid, scoring)


@pytest.mark.gpu
@each_search
def test_searches_on_a_gpu(of_gpu, path, grid, scoring):
    assert_searches_without_detour(of_gpu, path, grid, scoring)


def test_every_class_that_scores_is_searched_over():
    scored = {path for path, row in ROWS.items() if row.cuml and hasattr(row.sk, "score")}
    assert {path for path, *_ in SEARCHES} == scored
