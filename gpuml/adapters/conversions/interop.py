"""cuML's own ways from and to scikit-learn: `from_sklearn` and `as_sklearn`."""

from collections.abc import Mapping
from typing import Any

from gpuml.adapters._row import Conversion


def make(cuml_class: Any, twin: Any, changes: Mapping[str, Any]) -> Any:
    """Let cuML translate the parameters of an unfitted twin, and put ours on top."""
    return cuml_class.from_sklearn(twin).set_params(**changes)


def lower(model: Any, twin: Any) -> Mapping[str, Any]:
    """What cuML's fitted scikit-learn object has besides parameters."""
    converted = vars(model.as_sklearn())
    params = twin.get_params(deep=False)
    return {name: value for name, value in converted.items() if name not in params}


def lift(cuml_class: Any, twin: Any, changes: Mapping[str, Any]) -> Any:
    """Let cuML read the fitted attributes of a twin."""
    return make(cuml_class, twin, changes)


INTEROP = Conversion(make, lower, lift)
