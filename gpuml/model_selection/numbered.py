"""Estimators whose X holds row numbers: known models predict the rows with these numbers.

See `gpuml.model_selection.parts`.
"""

from collections.abc import Callable, Mapping
from copy import copy
from functools import cached_property
from numbers import Integral
from threading import Lock
from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.utils.metadata_routing import MetadataRequest

from gpuml._arrays import is_array, is_foreign, move, place_of, to_host
from gpuml._sklearn import _num_samples
from gpuml.data import Split, row_indices
from gpuml.model_selection.candidates import Plan
from gpuml.model_selection.kept import RESPONSES
from gpuml.model_selection.one_by_one import rows_of
from gpuml.model_selection.parts import Features, Parts, StandIn, parts_of
from gpuml.resampling.split import as_rows, check_splitter, split_rows


class Rehearsed:
    """The models of all training parts, fitted together when the first one is needed.

    It is also a splitter, which makes the splits of the rows once.

    Parameters
    ----------
    estimator : estimator
        A `FrozenEstimator` is the model of all training parts.
    X, y : array-like
    cv : int, splitter, iterable or None
    params : dict, or function that returns it
        Parameters of the fits. A function is called when the models are fitted.
    n_jobs : int or None
    classifier : bool
        Whether to stratify folds by labels.

    Attributes
    ----------
    plan : Plan
        How the models were fitted.
    """

    def __init__(
        self,
        estimator: Any,
        X: Any,
        y: Any,
        cv: Any,
        params: Mapping[str, Any] | Callable[[], Mapping[str, Any]],
        n_jobs: int | None = None,
        *,
        classifier: bool = True,
    ):
        self.estimator, self.X, self.y = estimator, X, y
        self.cv, self.params, self.n_jobs = cv, params, n_jobs
        self.classifier = classifier
        self.plan = Plan(())
        self._splits: list[tuple[np.ndarray, np.ndarray]] | None = None
        self._parts: Parts | None = None
        self._models: dict[bytes, Any] = {}
        self._lock = Lock()  # scikit-learn's chains ask in several threads
        # scikit-learn checks that classes have enough rows for this number of folds.
        n_splits = cv if isinstance(cv, Integral) else getattr(cv, "n_splits", None)
        if n_splits is not None:
            self.n_splits = int(n_splits)

    @cached_property
    def _splitter(self):
        return check_splitter(self.cv, self.y, classifier=self.classifier)

    def split(self, X: Any = None, y: Any = None, **params: Any) -> Any:
        """The numbers of the training and held-out rows of each split."""
        if self._splits is None:
            known = {name: value for name, value in params.items() if value is not None}
            made = split_rows(self._splitter, self.X, self.y, _num_samples(self.X), **known)
            if not made:
                raise ValueError(
                    f"cv={self.cv!r} makes no splits. Pass a number of folds, a splitter, or pairs "
                    "of indices."
                )
            self._splits = [(row_indices(each.train), row_indices(each.test)) for each in made]
        return iter(self._splits)

    def get_n_splits(self, X: Any = None, y: Any = None, **params: Any) -> int:
        """The number of splits."""
        return int(self._splitter.get_n_splits(self.X, self.y, **params))

    def __deepcopy__(self, memo: Any) -> "Rehearsed":
        return self

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=Lock())

    def get_metadata_routing(self) -> Any:
        """The metadata request of the splitter; an empty one if it has none."""
        if hasattr(self.cv, "get_metadata_routing"):
            return self.cv.get_metadata_routing()
        return MetadataRequest(owner=type(self).__name__)

    def model(self, numbers: np.ndarray) -> Any:
        """The model that was fitted to the rows with these numbers."""
        if isinstance(self.estimator, FrozenEstimator):
            return self.estimator
        with self._lock:
            return self._model(numbers)

    def _model(self, numbers):
        key, n_rows = _key(numbers), _num_samples(self.X)
        if self._parts is None:
            pairs = list(self.split())
            rows = [Split(*(as_rows(part, n_rows) for part in pair)) for pair in pairs]
            params = self.params() if callable(self.params) else self.params
            self._parts = parts_of(self.estimator, self.X, self.y, rows, params, self.n_jobs)
            for (train, _), model in zip(pairs, self._parts.models(), strict=True):
                self._models[_key(train)] = model
            self.plan = self._parts.plan
        if key not in self._models:
            if len(numbers) != n_rows:
                raise ValueError("The rows to fit are not the training set of any split.")
            self._models[key] = self._parts.model_of_all()
        return self._models[key]


class Numbered(StandIn):
    """An estimator whose X holds row numbers (n, 1).

    Its `fit` looks up the model of these training rows. Its responses are in CPU memory.
    """

    def __init__(self, estimator: Any, X: Any, rehearsed: Rehearsed | None = None):
        super().__init__(estimator)
        self.X, self.rehearsed = X, rehearsed
        self.known = estimator
        self.fitted_to: Any = None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("estimator", "known", "fitted_to"):
            raise AttributeError(name)
        found = getattr(self.known, name)
        if name == "classes_" and self.fitted_to is not None:
            return np.unique(self.fitted_to)  # scikit-learn may number the labels first
        if name not in RESPONSES:
            return in_cpu_memory(found) if name == "classes_" else found

        def respond(numbers, *args, **params):
            return in_cpu_memory(found(self.rows(numbers), *args, **params))

        respond.__name__ = name  # scikit-learn reads the name of the method
        return respond

    def rows(self, numbers: Any) -> Any:
        """The rows with these numbers (m, 1)."""
        return numbered_rows(self.X, np.asarray(numbers)[:, 0])

    @property
    def model(self) -> Any:
        """The model that predicts."""
        return self.known

    def __sklearn_clone__(self) -> "Numbered":
        return type(self)(self.estimator, self.X, self.rehearsed)

    def noted(self, X: Any, y: Any = None, **params: Any) -> "Numbered":
        """Look up the model of these training rows."""
        if self.rehearsed is not None:
            self.known = self.rehearsed.model(X)
            frozen = isinstance(self.known, FrozenEstimator)
            self.fitted_to = None if frozen or np.ndim(y) != 1 else y
        return self


class InCpuMemory(StandIn):
    """A stand-in for a fitted estimator, with responses in CPU memory."""

    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)
        if name not in RESPONSES:
            return found

        def respond(X, *args, **params):
            X = X.taken() if isinstance(X, Features) else X
            return in_cpu_memory(found(X, *args, **params))

        return respond


def named(kind: type[Numbered], estimator: Any) -> Any:
    """The class of a stand-in, by the name of the estimator: scikit-learn's errors tell it."""
    return type(type(estimator).__name__, (kind,), {})


def in_cpu_memory(said: Any) -> Any:
    """Predictions in CPU memory; those of several outputs may be a list."""
    if isinstance(said, list):
        return [in_cpu_memory(each) for each in said]
    return to_host(said) if is_foreign(said) else said


def numbered_rows(X: Any, numbers: np.ndarray) -> Any:
    """The rows of X with these numbers; X itself if these are all rows in order."""
    n_rows = _num_samples(X)
    rows = as_rows(numbers, n_rows)
    everything = isinstance(rows, slice) and rows == slice(0, n_rows)
    return X if everything else rows_of(X, rows)


def numbers_of(X: Any) -> np.ndarray:
    """The numbers of all rows of X, (n, 1)."""
    return np.arange(_num_samples(X))[:, None]


def _key(numbers):
    return np.ascontiguousarray(numbers).tobytes()


def ask_parts(around: Any, method: str, X: Any, parts: Mapping[str, Any], **params: Any) -> Any:
    """The result of a scikit-learn method for rows X on a device, which stay there.

    scikit-learn's method combines the responses of the parts, one or a few numbers per row, in CPU
    memory.

    Parameters
    ----------
    around : estimator
    method : str
    X : array
    parts : dict
        Attributes of `around` that hold models, with a `Numbered` in place of each model.
    """
    other = copy(around)
    vars(other).update(parts)
    theirs = next(c for c in type(around).__mro__ if c.__module__.startswith("sklearn."))
    said = getattr(theirs, method).__get__(other)(numbers_of(X), **params)
    return at_rows(said, X)


def at_rows(said: Any, X: Any) -> Any:
    """Move numbers from CPU memory to the place of X; strings stay."""
    if isinstance(said, list):
        return [at_rows(each, X) for each in said]
    if is_foreign(said):
        return said
    return move(said, place_of(X)) if is_array(said) and said.dtype.kind in "fiub" else said
