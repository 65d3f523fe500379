"""The library that did the work of each call, for `engine_`."""

from typing import Any
from weakref import WeakKeyDictionary

from gpuml.adapters._lifting import is_fitted
from gpuml.adapters._method import FITTING

# Not in the objects, whose attributes are scikit-learn's; copies and pickles start empty.
_calls: WeakKeyDictionary[Any, dict[str, str]] = WeakKeyDictionary()


def note_call(estimator: Any, method: str, library: str) -> None:
    """Record who does the work of a call; a fit deletes earlier records."""
    if method in FITTING:
        _calls[estimator] = {method: library}
    else:
        _calls.setdefault(estimator, {})[method] = library


def engines_of(estimator: Any) -> dict[str, str]:
    """The library of the last call of each method since the fit.

    Raises
    ------
    AttributeError
        If the estimator is not fitted.
    """
    if not is_fitted(estimator):
        raise AttributeError(
            f"{type(estimator).__name__!r} object has no attribute 'engine_' before it is fitted"
        )
    calls = _calls.get(estimator, {})
    if any(method in FITTING for method in calls):
        return dict(calls)
    # A copy, or a loaded model: its engine tells the library.
    engine = getattr(vars(estimator).get("_fitted"), "engine", None)
    row = estimator._row if engine is None else engine.row
    return {"fit": row.host_library if engine is None else row.library, **calls}
