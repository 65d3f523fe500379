"""Keys of values: equal exactly where the values are known to lead to the same fit.

Each candidate is a clone with copies of all values, so that `==` or `is` tell little: most objects
have no comparison of their own.
"""

import pickle
import types
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from gpuml._arrays import is_array, to_host

_BY_REPRESENTATION = (type(None), bool, int, float, complex, str, bytes, slice, range, np.generic)
_BY_IDENTITY = (*(type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType, np.ufunc),)


def value_key(value: Any) -> Hashable:
    """A key of a value of a hyper-parameter.

    Two keys are equal only if the values have the same types and contents: arrays element by
    element, estimators parameter by parameter, functions by identity, objects of other kinds
    (random states, splitters) by their pickles. Where that fails, nothing is equal but the object
    itself. Objects named by identity have to live as long as the key.
    """
    kind = type(value)
    if isinstance(value, _BY_REPRESENTATION):
        return kind, repr(value)
    if isinstance(value, _BY_IDENTITY):
        return _identity(value)
    if hasattr(value, "get_params"):
        return estimator_key(value)
    for kinds, key_of in _CONTAINERS:
        if isinstance(value, kinds):
            return kind, key_of(value)
    if is_array(value):
        return _array_key(value)
    return _pickle_key(value)


def estimator_key(estimator: Any, without: Sequence[str] = ()) -> Hashable:
    """A key of an unfitted estimator: its class, parameters, and what else a clone takes along.

    Parameters `without` are left out.
    """
    clone_of = getattr(type(estimator), "__sklearn_clone__", BaseEstimator.__sklearn_clone__)
    if clone_of is not BaseEstimator.__sklearn_clone__:
        return _identity(estimator)  # such as a frozen one, which is its own clone
    params = estimator.get_params(deep=False)
    named = [(name, value_key(params[name])) for name in sorted(params) if name not in without]
    return type(estimator), *named, *_of_clones(estimator)


def pipeline_key(pipeline: Any, without: Sequence[str] = ()) -> Hashable:
    """A key of an unfitted pipeline, step by step.

    Parameters of steps that are in `without`, as ``step__parameter``, are left out.
    """
    steps = []
    for name, step in pipeline.steps:
        mine = [param.removeprefix(f"{name}__") for param in without if _is_of(param, name)]
        steps.append((name, estimator_key(step, mine) if mine else value_key(step)))
    return estimator_key(pipeline, without=["steps"]), *steps


def _is_of(param, name):
    return param.startswith(f"{name}__")


def _of_clones(estimator):
    names = ("_sklearn_output_config", "_metadata_request")
    given = [getattr(estimator, name, None) for name in names]
    return tuple(None if value is None else _pickle_key(value) for value in given)


def _identity(value):
    return "is", type(value), id(value)


def _pickle_key(value):
    try:
        return "pickle", type(value), pickle.dumps(value)
    except Exception:  # whatever an object's own code raises
        return _identity(value)


def _array_key(x):
    host = to_host(x)
    if type(host) is not np.ndarray or host.dtype.kind not in "biufcSUmMO":
        return _pickle_key(x)  # such as masked arrays and records
    content = _sequence_key(host.ravel()) if host.dtype == object else host.tobytes()
    return type(x), host.dtype.str, host.shape, content


def _sequence_key(values):
    return tuple(value_key(value) for value in values)


def _dict_key(values):
    return tuple((value_key(name), value_key(value)) for name, value in values.items())


def _partial_key(value):
    return value_key(value.func), _sequence_key(value.args), _dict_key(value.keywords)


_CONTAINERS: tuple[tuple[Any, Callable[[Any], Hashable]], ...] = (
    ((list, tuple), _sequence_key),
    (dict, _dict_key),
    ((set, frozenset), lambda values: frozenset(value_key(value) for value in values)),
    (partial, _partial_key),
)
