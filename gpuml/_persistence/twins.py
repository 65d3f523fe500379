"""Estimators of gpuml as estimators of scikit-learn, which need no gpuml."""

import importlib
import inspect
import types
from typing import Any

from sklearn.base import BaseEstimator

from gpuml._arrays import is_cupyx_sparse, is_foreign, to_host
from gpuml._persistence.stored import Walk, as_on_host
from gpuml._sklearn import InvalidParameterError, validate_parameter_constraints

OURS = ("gpuml", "gpuml_dask")
THEIRS = ("sklearn", "umap")
# Modules whose functions may be parameters of estimators.
WITH_FUNCTIONS = ("feature_selection", "metrics")


def as_sklearn(estimator: Any) -> Any:
    """Convert this estimator to scikit-learn's class, which needs neither gpuml nor a GPU.

    Estimators of gpuml become those of the same name in scikit-learn, wherever they are: as steps
    of a pipeline, in a search, in an ensemble, among the values of a grid. From there other tools
    take them, such as skl2onnx.

    Parameters
    ----------
    estimator : estimator
        Fitted or not. What holds nothing of gpuml is returned as it is.

    Returns
    -------
    estimator : estimator
        A new one, where anything had to change. Parameters are the same, but values that only gpuml
        knows (``Ridge(solver="eig")``) become scikit-learn's defaults. Fitted attributes are NumPy
        arrays, shared with `estimator` where they were so before; those that scikit-learn's class
        does not have (`status_`, `plan_`) are left out. Scorers become scikit-learn's.

    Raises
    ------
    TypeError
        For estimators without a counterpart: `gpuml.linear_model.BandedRidge` and `BandedRidgeCV`,
        `gpuml.model_selection.ConformalRegressor` and `HyperbandSearchCV` (convert its
        `best_estimator_`), and classes that users derived from those of gpuml.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> import gpuml
    >>> from gpuml.linear_model import Ridge
    >>> from gpuml.preprocessing import StandardScaler
    >>> X = np.arange(6.0)[:, None]
    >>> model = make_pipeline(StandardScaler(), Ridge()).fit(X, X[:, 0])
    >>> type(gpuml.as_sklearn(model)[-1])
    <class 'sklearn.linear_model._ridge.Ridge'>
    """
    walk = Walk(lambda value: _twin(value, walk))
    return walk.of(estimator)


def _twin(value: Any, walk: Walk) -> Any:
    if is_foreign(value):
        return as_on_host(to_host(value))
    if is_cupyx_sparse(value):
        return value.get()
    if isinstance(value, types.FunctionType):
        return _their_function(value)
    if _has_parts(value):
        return _their_object(value, walk)
    return value


def _root(kind):
    return kind.__module__.partition(".")[0]


def _their_function(function):
    """scikit-learn's metric, or score of features, for ours of the same name."""
    root, _, rest = function.__module__.partition(".")
    module = rest.partition(".")[0]
    if root != "gpuml" or module not in WITH_FUNCTIONS:
        return function
    theirs = importlib.import_module(f"sklearn.{module}")
    return getattr(theirs, function.__name__, function)


def _has_parts(value):
    """Whether it is an estimator or a scorer."""
    if isinstance(value, type) or not hasattr(value, "__dict__"):
        return False
    return hasattr(value, "get_params") or hasattr(value, "_accept_sample_weight")


def _their_object(ours: Any, walk: Walk) -> Any:
    kind = type(ours)
    if hasattr(ours, "_their_equivalent"):  # of another library than scikit-learn
        return ours._their_equivalent()
    their_kind = _their_class(kind)
    state = ours._sklearn_state() if hasattr(ours, "_sklearn_state") else dict(vars(ours))
    converted = {name: walk.of(value) for name, value in state.items()}
    if their_kind is kind:
        if all(converted[name] is value for name, value in state.items()):
            return ours
    else:
        converted = _known_to(their_kind, ours, converted)
    theirs = their_kind.__new__(their_kind)
    vars(theirs).update(converted)
    return theirs


def _their_class(kind: type) -> Any:
    """The class that replaces a class outside gpuml: itself, unless it is gpuml's."""
    roots = [_root(base) for base in kind.__mro__]
    if not any(root in OURS for root in roots):
        return kind
    if roots[0] not in OURS:
        raise TypeError(
            f"{kind.__qualname__} is a class of your own, derived from one of gpuml: scikit-learn "
            "has no counterpart of it."
        )
    theirs = next((b for b, root in zip(kind.__mro__, roots, strict=True) if root in THEIRS), None)
    if theirs is None or inspect.isabstract(theirs) or theirs.__module__ == "sklearn.base":
        hint = " Convert its best_estimator_." if hasattr(theirs, "_run_search") else ""
        raise TypeError(f"scikit-learn has no counterpart of {kind.__qualname__}.{hint}")
    return theirs


def _known_to(their_kind: type, ours: Any, state: dict[str, Any]) -> dict[str, Any]:
    """Of attributes those that an object of scikit-learn's class may have."""
    our_params = ours.get_params(deep=False) if hasattr(ours, "get_params") else {}
    out = {
        name: value
        for name, value in state.items()
        if name not in our_params and _root(type(value)) not in OURS
    }
    if not issubclass(their_kind, BaseEstimator):
        return out
    for name, parameter in inspect.signature(their_kind).parameters.items():
        given = name in state and not _only_ours(their_kind, ours, name, state[name])
        out[name] = state[name] if given else parameter.default
    return out


def _only_ours(their_kind: Any, ours: Any, name: str, value: Any) -> bool:
    """Whether a value of a parameter is right for our class, and wrong for scikit-learn's."""
    if _is_valid(their_kind, name, value):
        return False
    return _is_valid(type(ours), name, getattr(ours, name))


def _is_valid(kind, name, value):
    constraints = getattr(kind, "_parameter_constraints", {})
    if name not in constraints:
        return True
    try:
        validate_parameter_constraints({name: constraints[name]}, {name: value}, kind.__name__)
    except InvalidParameterError:
        return False
    return True
