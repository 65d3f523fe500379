"""Models that scikit-learn fitted, continued on a GPU by cuML's version, made on first use."""

from typing import Any

from sklearn.base import is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from gpuml._arrays import Place
from gpuml.adapters._engine import Engine
from gpuml.adapters._fitted import for_engine, plain, same
from gpuml.adapters._intelex import engine_at
from gpuml.adapters._place import has_cuml
from gpuml.adapters._row import Row, UnsupportedHere


def lifted(estimator: Any, place: Place) -> Engine:
    """The engine of a plain object, kept on it until anything else on the object is another one.

    Raises
    ------
    UnsupportedHere
        If cuML cannot take the model over.
    """
    state = {name: value for name, value in vars(estimator).items() if name != "_lifted"}
    known = vars(estimator).get("_lifted")
    if known is None or not _all_same(known[0], state):
        known = state, lift(estimator._row, estimator._twin(), place)
        vars(estimator)["_lifted"] = known
    return known[1]


def lift(row: Row, twin: Any, place: Place) -> Engine:
    """The engine of a fitted scikit-learn object.

    Raises
    ------
    UnsupportedHere
        If cuML cannot take the model over.
    """
    if row.cuml is not None and not has_cuml():
        raise UnsupportedHere("installation here")
    reason = row.refuses_parameters(plain(twin.get_params(deep=False)))
    if reason is not None:
        raise UnsupportedHere(reason, row.library)
    classes = getattr(twin, "classes_", None) if is_classifier(twin) else None
    if isinstance(classes, list) or getattr(twin, "n_outputs_", 1) > 1:
        raise UnsupportedHere("several targets", row.library)
    return engine_at(place).lifted(row, for_engine(twin, classes), place)


def is_fitted(estimator: Any) -> bool:
    """Whether scikit-learn takes an object for fitted."""
    try:
        check_is_fitted(estimator)
    except NotFittedError:
        return False
    return True


def _all_same(before, now):
    return before.keys() == now.keys() and all(same(before[name], now[name]) for name in now)
