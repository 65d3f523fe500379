"""How cuML's models and scikit-learn's become each other; by default in the ways that cuML has."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


def make(cuml_class: Any, twin: Any, changes: Mapping[str, Any]) -> Any:
    """Let cuML translate the parameters of an unfitted twin, and put ours on top."""
    return cuml_class.from_sklearn(twin).set_params(**changes)


def lower(model: Any, twin: Any) -> Mapping[str, Any]:
    """The fitted attributes, without parameters, of cuML's scikit-learn object."""
    converted = vars(model.as_sklearn())
    params = twin.get_params(deep=False)
    return {name: value for name, value in converted.items() if name not in params}


def lift(cuml_class: Any, twin: Any, changes: Mapping[str, Any]) -> Any:
    """Let cuML read the fitted attributes of a twin."""
    return make(cuml_class, twin, changes)


def as_it_is(cuml_class: Any, twin: Any) -> Any:
    """CuML's class, which does what scikit-learn's does."""
    return cuml_class


@dataclass(frozen=True)
class Conversion:
    """How cuML's models and scikit-learn's become each other.

    Attributes
    ----------
    derived : callable (cuml_class, twin) -> class
        The class that does the work: cuML's, or one derived of it whose methods do what
        scikit-learn's do.
    make : callable (derived_class, twin, changes) -> cuML model
        Unfitted, of an unfitted twin (a plain scikit-learn estimator whose parameters are plain
        Python values) and the parameters that the row changes. Raises `UnsupportedHere`.
    lower : callable (model, twin) -> mapping
        Fitted attributes, as NumPy and with scikit-learn's names, of a fitted cuML model; the twin
        (unfitted, with our parameters) is there to be asked for parameters. `n_features_in_`,
        `feature_names_in_` and `classes_` are set by the adapter.
    lift : callable (derived_class, twin, changes) -> cuML model, or None
        Fitted, of a fitted twin. None: models of a CPU cannot go on on a GPU.
    """

    derived: Callable[[Any, Any], Any] = as_it_is
    make: Callable[[Any, Any, Mapping[str, Any]], Any] = make
    lower: Callable[[Any, Any], Mapping[str, Any]] = lower
    lift: Callable[[Any, Any, Mapping[str, Any]], Any] | None = lift
