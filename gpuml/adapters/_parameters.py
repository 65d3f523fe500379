"""Parameters of adapters, read and validated as scikit-learn does.

Next to the work of a GPU the validation takes its time: values that were found valid once are not
looked at again.
"""

from functools import lru_cache
from typing import Any

from sklearn import get_config
from sklearn.base import BaseEstimator

from gpuml._sklearn import validate_parameter_constraints

# The validation of values of these types is cached.
PLAIN = (bool, float, int, str, type(None))


def valid_params(estimator: BaseEstimator) -> dict[str, Any]:
    """The parameters of an estimator.

    Raises
    ------
    InvalidParameterError
        scikit-learn's, unless its validation is switched off.
    """
    kind: Any = type(estimator)
    params = params_of(estimator)
    if get_config()["skip_parameter_validation"]:
        return params
    plain, others = [], {}
    for name, value in params.items():
        if type(value) in PLAIN:
            plain.append((name, type(value), value))  # 1, 1.0 and True are the same key
        else:
            others[name] = value
    _validate_plain(kind, tuple(plain))
    _validate(kind, others)
    return params


def params_of(estimator: BaseEstimator) -> dict[str, Any]:
    """``estimator.get_params(deep=False)``, which inspects a signature each time."""
    kind: type = type(estimator)
    return {name: getattr(estimator, name) for name in _names(kind)}


@lru_cache(maxsize=1024)
def _names(kind):
    return kind._get_param_names()  # of the signature of its constructor


@lru_cache(maxsize=1024)
def _validate_plain(kind, params):
    # Nothing is remembered of a call that raises.
    _validate(kind, {name: value for name, _, value in params})


def _validate(kind, params):
    validate_parameter_constraints(kind._parameter_constraints, params, caller_name=kind.__name__)
