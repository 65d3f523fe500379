"""The fitted model, if scikit-learn's class does not hold it itself."""

import copy
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from gpuml._arrays import is_array, is_numpy, to_host
from gpuml.adapters._engine import Engine
from gpuml.adapters._outputs import Kind, in_kind
from gpuml.adapters._row import NotConvertible, Row, UnsupportedHere

# Parameters that fitted models do not read.
OF_FIT = ("copy_X", "n_jobs", "random_state", "verbose", "warm_start")
# Attributes that the object itself has in every state.
OF_INPUT = ("n_features_in_", "feature_names_in_")
# Private attributes that no fit sets.
OF_OBJECT = ("_sklearn_output_config", "_metadata_request", "_skl_callbacks")


def is_of_fit(name: str) -> bool:
    """Whether a name is that of a private attribute that scikit-learn's `fit` may set."""
    return name.startswith("_") and name not in OF_OBJECT


class Fitted:
    """A model fitted by cuML (an engine), or by scikit-learn from a copy of device rows (a guest).

    Parameters
    ----------
    row : Row
    kind : Kind
        Of the rows of `fit`: attributes are like them.
    params : mapping
        Of the estimator at `fit`.
    engine : Engine or None
    twin : estimator or None
        A plain scikit-learn object: fitted by itself, or converted from the engine once asked for.
    classes : array or None
        Of a classifier fitted by cuML, which knows codes only.
    inputs : mapping
        `n_features_in_` and `feature_names_in_`, as far as there are.
    """

    def __init__(
        self,
        row: Row,
        kind: Kind,
        params: Mapping[str, Any],
        *,
        engine: Engine | None = None,
        twin: BaseEstimator | None = None,
        classes: Any = None,
        inputs: Mapping[str, Any] | None = None,
    ):
        self.row, self.kind, self.params = row, kind, dict(params)
        self.engine, self.classes, self.inputs = engine, classes, dict(inputs or {})
        self._twin = twin
        self._known: dict[str, Any] = {}

    def __deepcopy__(self, memo):
        # Models are never written to after their fit: a refit makes a new record.
        return Fitted(
            self.row,
            self.kind,
            self.params,
            engine=self.engine,
            twin=copy.deepcopy(self._twin, memo),
            classes=self.classes,
            inputs=self.inputs,
        )

    def host(self) -> BaseEstimator:
        """The model as scikit-learn's, converted at the first call.

        Raises
        ------
        NotConvertible
            If cuML's model cannot be converted.
        """
        if self._twin is None:
            twin = new_twin(self.row, self.params)
            assert self.engine is not None  # a model has a twin or an engine
            attributes = {**self._lowered(self.engine, twin), **self.inputs}
            if self.classes is not None:
                attributes["classes_"] = _host(self.classes)
            vars(twin).update(attributes)
            self._twin = twin
        return self._twin

    def _lowered(self, engine, twin):
        try:
            return engine.lowered(twin)
        except UnsupportedHere as error:
            raise NotConvertible(
                f"This {self.row.name} was fitted by {self.row.library} and cannot be converted to "
                f"scikit-learn's: {error.clause}."
            ) from error

    def kept(self) -> dict[str, Any]:
        """Attributes that only the engine has, as NumPy."""
        if self.engine is None:
            return {}
        found = {}
        for name in self.row.kept:
            with suppress(AttributeError):  # not every fit has all of them
                found[name] = self.engine.attribute(name)
        return {name: _host(value) for name, value in found.items()}

    def attribute(self, name: str) -> Any:
        """A fitted attribute, in the kind of the rows of `fit`.

        Raises
        ------
        AttributeError
            If there is none, or none after a fit on a GPU.
        """
        if name not in self._known:
            kind = self.kind._replace(floats=None) if name == "classes_" else self.kind
            self._known[name] = in_kind(self._value(name), kind, self.row.dtypes.get(name))
        return self._known[name]

    def _value(self, name):
        if self.engine is None:
            return getattr(self.host(), name)
        if name in self.row.absent:
            where = "on a GPU" if self.row.cuml else f"by {self.row.library}"
            raise AttributeError(
                f"There is no {name} after a fit {where}: {self.row.absent[name]}."
            )
        if name == "classes_" and self.classes is not None:
            return self.classes
        if name in self.row.light or name in self.row.kept:
            return _plain_scalar(self.engine.attribute(name))
        if name.startswith("_"):
            raise AttributeError(f"{self.row.name!r} object has no attribute {name!r}")
        try:
            return getattr(self.host(), name)
        except NotConvertible as error:
            raise AttributeError(f"There is no {name}. {error}") from error

    def changed(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Parameters, among those that fitted models read, that were set to others since `fit`."""
        return {
            name: value
            for name, value in params.items()
            if name not in OF_FIT and not same(value, self.params.get(name))
        }


def new_twin(row: Row, params: Mapping[str, Any]) -> BaseEstimator:
    """An unfitted plain scikit-learn object."""
    return row.sk(**params)


def for_engine(twin: BaseEstimator, classes: Any) -> BaseEstimator:
    """A fitted twin as the engine is to see it: with plain parameters, and codes as classes."""
    seen = copy.copy(twin)
    vars(seen).update(plain(twin.get_params(deep=False), classes))
    if classes is not None:
        seen.classes_ = np.arange(len(classes))
    return seen


def plain(params: Mapping[str, Any], classes: Any = None) -> dict[str, Any]:
    """Parameters as Python numbers, which cuML requires, and class weights by code.

    cuML takes NumPy's numbers for something else: an ``np.int64(5)`` for a share of the rows.
    """
    out = {name: _plain_scalar(value) for name, value in params.items()}
    weights = out.get("class_weight")
    if isinstance(weights, Mapping) and classes is not None:
        out["class_weight"] = _by_code(weights, _host(classes))
    return out


def _by_code(weights, classes):
    from sklearn.utils.class_weight import compute_class_weight

    # scikit-learn's own parser of the dict, with its errors.
    values = compute_class_weight(weights, classes=classes, y=classes)
    return dict(enumerate(values.tolist()))


def _plain_scalar(value):
    if isinstance(value, np.generic):
        return value.item()
    return value.item() if is_array(value) and not is_numpy(value) and value.ndim == 0 else value


def _host(value):
    return to_host(value) if is_array(value) else value


def same(a: Any, b: Any) -> bool:
    """Whether two values of a parameter are equal; arrays are only if they are one object."""
    if a is b:
        return True
    if hasattr(a, "__array__") or hasattr(b, "__array__"):
        return isinstance(a, np.generic) and isinstance(b, np.generic) and bool(a == b)
    return bool(a == b)
