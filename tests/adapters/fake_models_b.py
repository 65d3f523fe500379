"""Neighbours, support vectors and embeddings of `fake_cuml`, in the modules where cuML has them."""

import sys
import types

import numpy as np
import pytest
from scipy import sparse
from sklearn import manifold, neighbors, svm

from gpuml._arrays import is_array
from gpuml.adapters import _inputs
from tests.adapters.fake_cuml import (
    Model,
    UnsupportedOnGPU,
    _check_output_type,
    on_device,
    to_host,
)


def _on_device(value):
    if isinstance(value, tuple):
        return tuple(map(_on_device, value))
    return on_device(value) if isinstance(value, np.ndarray) else value


class Sparse(Model):
    """Takes sparse rows too, which stay SciPy's."""

    def fit(self, X, y=None, sample_weight=None):
        if not sparse.issparse(X):
            return super().fit(X, y, sample_weight)
        type(self).calls.append("fit")
        given = {"y": y, "sample_weight": sample_weight}
        self.model.fit(X, **{k: to_host(v) for k, v in given.items() if v is not None})
        return self

    def _method(self, name, found):
        dense = super()._method(name, found)

        def method(X, **arguments):
            if not sparse.issparse(X):
                return dense(X, **arguments)
            type(self).calls.append(name)
            return _on_device(found(X, **arguments))

        return method


class Neighbors(Sparse):
    def kneighbors(self, X=None, **arguments):
        return self._asked("kneighbors", X, arguments)

    def kneighbors_graph(self, X=None, **arguments):
        return self._asked("kneighbors_graph", X, arguments)

    def _asked(self, name, X, arguments):
        _check_output_type()
        type(self).calls.append(name)
        rows = X if X is None or sparse.issparse(X) else to_host(X)
        return _on_device(getattr(self.model, name)(rows, **arguments))


class NearestNeighbors(Neighbors):
    sk = neighbors.NearestNeighbors
    public = ("kneighbors", "kneighbors_graph", "radius_neighbors_graph")

    def radius_neighbors_graph(self, X=None, radius=None):
        return self._asked("radius_neighbors_graph", X, {"radius": radius})


class KNeighborsClassifier(Neighbors):
    sk = neighbors.KNeighborsClassifier
    public = ("kneighbors", "kneighbors_graph", "predict", "predict_proba", "score")
    codes_only = True


class KNeighborsRegressor(Neighbors):
    sk = neighbors.KNeighborsRegressor
    public = ("kneighbors", "kneighbors_graph", "predict", "score")


class KernelDensity(Model):
    sk = neighbors.KernelDensity
    public = ("sample", "score", "score_samples")

    def sample(self, n_samples=1, random_state=None):
        type(self).calls.append("sample")
        return on_device(self.model.sample(n_samples, random_state))


class SVC(Sparse):
    sk = svm.SVC
    public = ("decision_function", "predict", "score")
    codes_only = True

    @classmethod
    def refuse(cls, model):
        if len(getattr(model, "classes_", ())) > 2:
            raise UnsupportedOnGPU("multiclass models are not supported")


class SVR(Sparse):
    sk = svm.SVR
    public = ("predict", "score")


class TSNE(Sparse):
    sk = manifold.TSNE
    public = ("fit_transform",)
    own_params = ("learning_rate_method", "n_neighbors")


class SpectralEmbedding(Sparse):
    sk = manifold.SpectralEmbedding
    public = ("fit_transform",)


class UMAP:
    """Two columns of the rows, with the attributes that conversions read."""

    public = ("fit_transform", "inverse_transform", "transform")
    calls: list = []  # noqa: RUF012

    def __init__(self, **params):
        self.params = params
        vars(self).update(params)

    def fit(self, X, y=None):
        _check_output_type()
        self.calls.append("fit")
        rows = to_host(X).astype("float32")
        n = rows.shape[0]
        self._raw_data, self.embedding_ = on_device(rows), on_device(rows[:, :2].copy())
        self.graph_ = sparse.coo_matrix(np.ones((n, n), dtype="float32"))
        self._sparse_data, self._supervised, self._n_neighbors = False, y is not None, 15
        self._a, self._b = 1.5, 0.9
        self._sigmas = self._rhos = on_device(np.ones(n, dtype="float32"))
        self._n_features_out = 2
        return self

    def transform(self, X):
        self.calls.append("transform")
        assert is_array(X)
        return on_device(to_host(X)[:, :2].astype("float32") + 1)

    def inverse_transform(self, X):
        self.calls.append("inverse_transform")
        assert is_array(X)
        rows = to_host(X)
        return on_device(np.hstack([rows, rows]).astype("float32"))

    def _sync_attrs_from_cpu(self, twin):
        self.fit(on_device(twin._raw_data))
        self.embedding_ = on_device(twin.embedding_)


MODELS = {
    "cuml.neighbors": (NearestNeighbors, KNeighborsClassifier, KNeighborsRegressor, KernelDensity),
    "cuml.svm": (SVC, SVR),
    "cuml.manifold": (TSNE, SpectralEmbedding, UMAP),
}


@pytest.fixture
def fake_b(fake, monkeypatch):
    """`fake`, with these models."""
    for path, models in MODELS.items():
        module = types.ModuleType(path)
        for model in models:
            model.calls.clear()
            setattr(module, model.__name__, model)
        monkeypatch.setitem(sys.modules, path, module)
    monkeypatch.setattr(_inputs, "_sparse_on_gpu", lambda X: X)
    return fake
