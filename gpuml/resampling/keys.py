"""Keys of values: equal only if the values are known to lead to the same fit.

Each candidate is a clone with copies of all values, so `==` and `is` say little: most objects
define no comparison. A key is a pickle in which some objects are replaced.
"""

import io
import pickle
import types
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.metadata_routing import MetadataRequest

from gpuml._arrays import is_array, is_numpy, to_host
from gpuml.protocol import supports_multifit

_BY_IDENTITY = (*(type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType, np.ufunc),)

_AS_THEY_ARE = (type(None), bool, int, float, complex, str, bytes, list, tuple, dict, np.generic)


class _KeyPickler(pickle.Pickler):
    """Pickles values, with marked replacements from `persistent_id`."""

    def persistent_id(self, value: Any) -> Any:
        """The replacement of a value: functions by identity, estimators by their parameters."""
        if isinstance(value, _AS_THEY_ARE):
            return None
        if isinstance(value, _BY_IDENTITY):
            return id(value)
        if isinstance(value, set | frozenset):
            return type(value), sorted(map(_pickled, value))
        if isinstance(value, MetadataRequest):
            return type(value), repr(value)  # all that is requested; it also has its estimator
        if hasattr(value, "get_params"):
            return _parts(value)
        if is_array(value) and (not is_numpy(value) or type(value) is np.ndarray):
            return type(value), np.ascontiguousarray(to_host(value)).__reduce__(), value.shape
        return None


def value_key(value: Any) -> Hashable:
    """A key of a hyper-parameter value.

    Two keys are equal only if the values have the same types and contents: arrays element by
    element, estimators parameter by parameter, functions by identity, objects of other kinds
    (random states, splitters) by their pickles. Where that fails, nothing is equal but the object
    itself. Objects named by identity have to live as long as the key.
    """
    return _key(value, value)


def _key(value, named):
    """The key of a value, or of the object that `named` is."""
    try:
        return _pickled(value)
    except Exception:  # arbitrary user code may raise
        return "is", type(named), id(named)


def estimator_key(estimator: Any, without: Sequence[str] = ()) -> Hashable:
    """A key of an unfitted estimator: its class, parameters, and other state that clones keep.

    Parameters `without` are left out.
    """
    return _key(_parts(estimator, without), estimator)


def multifit_key(estimator: Any) -> Hashable | None:
    """A key, equal for estimators that one `__sklearn_multifit__` can fit; None for others."""
    if not supports_multifit(estimator):
        return None
    return estimator_key(estimator, without=estimator.__sklearn_multifit_params__)


def pipeline_key(pipeline: Any, without: Sequence[str] = ()) -> Hashable:
    """A key of an unfitted pipeline, step by step.

    Parameters of steps in `without`, as ``step__parameter``, are left out.
    """
    steps = []
    for name, step in pipeline.steps:
        mine = [param.removeprefix(f"{name}__") for param in without if _is_of(param, name)]
        steps.append((name, estimator_key(step, mine) if mine else value_key(step)))
    return estimator_key(pipeline, without=["steps"]), *steps


def _is_of(param, name):
    return param.startswith(f"{name}__")


def _pickled(value):
    buffer = io.BytesIO()
    pickler = _KeyPickler(buffer, protocol=5)
    pickler.fast = True  # no memo: equal objects and one object twice have the same pickle
    pickler.dump(value)
    return buffer.getvalue()


def _parts(estimator, without=()):
    """The replacement of an estimator."""
    kind = type(estimator)
    clone_of = getattr(kind, "__sklearn_clone__", BaseEstimator.__sklearn_clone__)
    if clone_of is not BaseEstimator.__sklearn_clone__:
        return id(estimator)  # such as a frozen estimator, whose clone is itself
    params = estimator.get_params(deep=False)
    named = [(name, params[name]) for name in sorted(params) if name not in without]
    taken_along = ("_sklearn_output_config", "_metadata_request")
    return kind, named, [getattr(estimator, name, None) for name in taken_along]
