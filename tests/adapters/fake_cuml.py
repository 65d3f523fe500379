"""cuML for machines without a GPU: scikit-learn in disguise, on arrays of another library.

What it has of cuML is what the adapters use: classes with `from_sklearn`, `as_sklearn`,
`set_params`, methods that take and give arrays of the device, refusals, a setting for the output.
Arrays of the "device" are those of array-api-strict on a device that NumPy cannot read, so that
whatever is not moved there and back raises.
"""

import contextlib
import ctypes
import importlib.machinery
import sys
import types
import warnings

import array_api_strict
import numpy as np
from array_api_compat import array_namespace
from sklearn import cluster, ensemble

from gpuml._arrays import Place, is_array, is_numpy, place_of, places
from gpuml.adapters import _base, _place

DEVICE = array_api_strict.Device("device1")
HOST = array_api_strict.Device("CPU_DEVICE")


def device_place() -> Place:
    """What stands for CuPy on a GPU."""
    return Place(array_namespace(array_api_strict.zeros(1)), DEVICE)


def on_device(x):
    """A NumPy array as an array of the device."""
    return array_api_strict.asarray(x, device=DEVICE, copy=True)


def to_host(x) -> np.ndarray:
    """What cuML, who works on the device, sees of an array there: no copy that anybody counts."""
    return x if is_numpy(x) else np.asarray(x.to_device(HOST))


def is_on_device(x) -> bool:
    return is_array(x) and not is_numpy(x) and place_of(x) == device_place()


class UnsupportedOnGPU(ValueError):
    pass


class UnsupportedOnCPU(ValueError):
    pass


class Model:
    """A cuML model: holds a scikit-learn one, and what it was called with."""

    sk: type
    public: tuple = ()  # methods that cuML's class has, besides `fit`
    own_params: tuple = ()  # that scikit-learn's class does not have
    codes_only = False
    calls: list  # of the class: (method, X)

    def __init__(self, model):
        self.model, self.own = model, {}

    def __init_subclass__(cls):
        if "sk" in vars(cls):  # what adapters derive of a class notes its calls there
            cls.calls = []

    @classmethod
    def from_sklearn(cls, model):
        if type(model) is not cls.sk:
            raise TypeError(f"Expected {cls.sk}, got {type(model)}")
        cls.refuse(model)
        for name, value in model.get_params(deep=False).items():
            assert not isinstance(value, np.generic), f"{name} is not plain"
        out = cls(cls.sk.__new__(cls.sk))
        vars(out.model).update(vars(model))
        return out

    @classmethod
    def refuse(cls, model):
        """Raise `UnsupportedOnGPU` for what cuML does not do."""

    def as_sklearn(self):
        _check_output_type()
        out = self.sk.__new__(self.sk)
        vars(out).update(vars(self.model))
        return out

    def set_params(self, **params):
        for name, value in params.items():
            if name in self.own_params:
                self.own[name] = value
            else:
                self.model.set_params(**{name: value})
        return self

    def fit(self, X, y=None, sample_weight=None):
        self._note("fit", X)
        _check_output_type()
        given = {"y": y, "sample_weight": sample_weight}
        given = {name: value for name, value in given.items() if value is not None}
        assert all(map(is_on_device, given.values())), "not moved to the device"
        if self.codes_only:
            codes = np.unique(to_host(y))
            assert codes.tolist() == list(range(len(codes))), "labels are not codes"
        self.model.fit(to_host(X), **{name: to_host(value) for name, value in given.items()})
        return self

    def __setattr__(self, name, value):
        if not name.endswith("_"):
            return super().__setattr__(name, value)
        # A fitted attribute that was set to another.
        return setattr(self.model, name, to_host(value) if is_array(value) else value)

    def _note(self, method, X):
        assert is_on_device(X), "X was not moved to the device"
        type(self).calls.append(method)

    def __getattr__(self, name):
        if name == "model":
            raise AttributeError(name)
        found = getattr(self.model, name)
        if callable(found):
            if name not in self.public:
                raise AttributeError(f"cuML's class has no {name}")
            return self._method(name, found)
        _check_output_type()
        return on_device(found) if isinstance(found, np.ndarray) else found

    def _method(self, name, found):
        def method(X, **arguments):
            self._note(name, X)
            _check_output_type()
            for value in arguments.values():
                assert is_on_device(value) or not is_array(value), "not moved to the device"
            arguments = {k: to_host(v) if is_array(v) else v for k, v in arguments.items()}
            result = found(to_host(X), **arguments)
            return on_device(result) if isinstance(result, np.ndarray) else result

        return method


class KMeans(Model):
    sk = cluster.KMeans
    public = ("fit_predict", "fit_transform", "predict", "score", "transform")

    def set_params(self, **params):
        # Of scikit-learn's meaning, before `fit` translates it.
        super().set_params(**params)
        self.asked = self.tol
        return self

    @classmethod
    def refuse(cls, model):
        # Not in the row, so that refusals by cuML alone are tested too.
        if model.algorithm == "elkan":
            raise UnsupportedOnGPU("`algorithm='elkan'` is not supported")

    def fit(self, X, y=None, sample_weight=None):
        assert self.tol > 0, "cuML raises"
        share = 1 / (self.n_clusters * X.shape[1])
        assert self.tol <= 1.01 * share * self.asked, "cuML would stop by the share of the cost"
        # scikit-learn's is in units of the variance, cuML's in those of the rows.
        variance = to_host(X).var(axis=0).mean()
        init = to_host(self.init) if is_array(self.init) else self.init
        self.model.set_params(tol=self.tol / variance if variance else 0.0, init=init)
        super().fit(X, y, sample_weight)
        if self.n_iter_ == self.max_iter:
            self.n_iter_ = self.max_iter + 1
        return self


@ctypes.CFUNCTYPE(None)
def say_that_treelite_is_newer():
    """What the library of nvForest calls whenever it reads a forest; an error in it is lost."""
    warnings.warn(
        "[23:21:23] /src/serializer.cc:202: The model you are loading originated from a newer "
        "Treelite version; some functionalities may be unavailable.\nCurrently running 4.7.0",
        stacklevel=1,
    )


class Forest(Model):
    def fit(self, X, y=None, sample_weight=None):
        super().fit(X, y, sample_weight)
        say_that_treelite_is_newer()
        return self


class RandomForest(Forest):
    own_params = ("n_bins",)

    @classmethod
    def refuse(cls, model):
        if model.ccp_alpha != 0:
            raise UnsupportedOnGPU("ccp_alpha: the row should have said so")


class RandomForestClassifier(RandomForest):
    sk = ensemble.RandomForestClassifier
    public = ("predict", "predict_log_proba", "predict_proba", "score")
    codes_only = True


class RandomForestRegressor(RandomForest):
    sk = ensemble.RandomForestRegressor
    public = ("predict", "score")


class IsolationForest(Forest):
    sk = ensemble.IsolationForest
    public = ("decision_function", "fit_predict", "predict", "score_samples")

    def fit_predict(self, X):
        return self.fit(X).predict(X)


class DBSCAN(Model):
    sk = cluster.DBSCAN
    public = ("fit_predict",)

    def fit(self, X, y=None, sample_weight=None):
        assert self.model.metric != "cosine", "cuML does not compute cosines"
        super().fit(X, y, sample_weight)
        X[...] = 0.0 * X  # cuML may keep X, and write into it
        return self


class HDBSCAN(Model):
    sk = cluster.HDBSCAN
    public = ("fit_predict",)

    def __init__(self, *, min_samples, max_cluster_size, **params):
        params |= {"min_samples": min_samples + 1, "max_cluster_size": max_cluster_size or None}
        super().__init__(self.sk(copy=True, **params))

    @property
    def _single_linkage_tree(self):
        tree = self.model._single_linkage_tree_
        return np.column_stack([tree[name].astype(float) for name in tree.dtype.names])


class AgglomerativeClustering(Model):
    sk = cluster.AgglomerativeClustering
    public = ("fit_predict",)

    def __init__(self, *, connectivity, **params):
        assert connectivity == "pairwise"
        super().__init__(self.sk(**params))


class SpectralClustering(Model):
    sk = cluster.SpectralClustering
    public = ("fit_predict",)


# ---------------------------------------------------------------- the module

_output_type = ["numpy"]


@contextlib.contextmanager
def using_output_type(kind):
    before, _output_type[0] = _output_type[0], kind
    try:
        yield
    finally:
        _output_type[0] = before


def _check_output_type():
    assert _output_type[0] == "cupy", "cuML would give arrays of another library"


MODELS = {
    "cuml.cluster": (AgglomerativeClustering, DBSCAN, HDBSCAN, KMeans, SpectralClustering),
    "cuml.ensemble": (IsolationForest, RandomForestClassifier, RandomForestRegressor),
}


def install(monkeypatch) -> None:
    """Until the test ends there is a GPU, and cuML."""
    root = types.ModuleType("cuml")
    root.__spec__ = importlib.machinery.ModuleSpec("cuml", None)
    root.using_output_type = using_output_type
    interop = types.ModuleType("cuml.internals.interop")
    interop.UnsupportedOnGPU, interop.UnsupportedOnCPU = UnsupportedOnGPU, UnsupportedOnCPU
    modules = {"cuml": root, "cuml.internals": types.ModuleType("cuml.internals")}
    modules["cuml.internals.interop"] = interop
    for path, models in MODELS.items():
        modules[path] = types.ModuleType(path)
        for model in models:
            model.calls.clear()
            setattr(modules[path], model.__name__, model)
    for path, module in modules.items():
        monkeypatch.setitem(sys.modules, path, module)
    monkeypatch.setattr(places, "has_gpu", lambda: True)
    monkeypatch.setattr(places, "gpu_place", device_place)
    for module in (_place, _base):
        monkeypatch.setattr(module, "is_gpu", lambda place: place == device_place())
    monkeypatch.setattr(_place, "current_gpu", lambda home: home)
