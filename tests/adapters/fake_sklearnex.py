"""scikit-learn-intelex for machines without it: scikit-learn in disguise.

What it has of scikit-learn-intelex is what the adapters use: subclasses of scikit-learn's classes
whose methods ask `_onedal_cpu_supported` first, and else call scikit-learn's without a word.
"""

import importlib.machinery
import sys
import types

from sklearn import cluster, ensemble, manifold, neighbors, svm

from gpuml.adapters import _intelex


class Status:
    """What `_onedal_cpu_supported` gives."""

    def __init__(self, *messages):
        self.messages = list(messages)

    def get_status(self):
        return not self.messages


class Asks:
    """Its calls, and who did them."""

    calls: list = []  # noqa: RUF012  (of all classes)

    def _onedal_cpu_supported(self, method_name, *data):
        return Status()

    def _ask(self, name, *data):
        yes = self._onedal_cpu_supported(name, *data).get_status()
        Asks.calls.append((type(self).__name__, name, "onedal" if yes else "scikit-learn"))


def asking(name):
    """A method that asks before it calls scikit-learn's."""

    def method(self, *args, **kwargs):
        self._ask(name, *args)
        return getattr(super(self._own, self), name)(*args, **kwargs)

    method.__name__ = name
    return method


def disguised(sk, *methods, **members):
    """A subclass with scikit-learn's constructor."""
    names = {name: asking(name) for name in ("fit", *methods)}
    kind = type(sk.__name__, (Asks, sk), {"__init__": sk.__init__, **names, **members})
    kind._own = kind
    return kind


def no_kd_tree(self, method_name, *data):
    refused = method_name == "fit" and self.algorithm == "kd_tree"
    return Status("'kd_tree' algorithm is not supported.") if refused else Status()


def no_three_rows(self, method_name, *data):
    refused = method_name == "predict" and len(data[0]) == 3
    return Status("Three rows are not supported.") if refused else Status()


MODELS = {
    "sklearnex.cluster": (disguised(cluster.DBSCAN, _onedal_cpu_supported=no_kd_tree),),
    "sklearnex.ensemble": (
        disguised(ensemble.RandomForestClassifier, "predict", "predict_proba"),
        disguised(ensemble.RandomForestRegressor, "predict"),
    ),
    # The adapter puts a class between it and scikit-learn's, which it may not call.
    "sklearnex.manifold": (disguised(manifold.TSNE, _fit=manifold.TSNE._fit),),
    "sklearnex.neighbors": (
        disguised(neighbors.NearestNeighbors, "kneighbors"),
        disguised(neighbors.KNeighborsClassifier, "predict", "predict_proba", "kneighbors"),
        disguised(
            neighbors.KNeighborsRegressor,
            *("predict", "kneighbors"),
            _onedal_cpu_supported=no_three_rows,
        ),
    ),
    "sklearnex.svm": (
        disguised(svm.SVC, "predict", "decision_function"),
        disguised(svm.SVR, "predict"),
    ),
}


def install(monkeypatch):
    """Until the test ends scikit-learn-intelex is this."""
    modules = {"sklearnex": types.ModuleType("sklearnex")}
    modules["sklearnex"].__spec__ = importlib.machinery.ModuleSpec("sklearnex", None)
    for path, models in MODELS.items():
        modules[path] = types.ModuleType(path)
        for model in models:
            setattr(modules[path], model.__name__, model)
    for path, module in modules.items():
        monkeypatch.setitem(sys.modules, path, module)
    monkeypatch.setattr(_intelex, "has_intelex", lambda: True)
    Asks.calls.clear()


def uninstall(monkeypatch):
    """Until the test ends there is no scikit-learn-intelex."""
    monkeypatch.setattr(_intelex, "has_intelex", lambda: False)
