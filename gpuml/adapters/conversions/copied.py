"""cuML's own ways from and to scikit-learn, for classes of cuML whose `fit` writes into X."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from gpuml._arrays import namespace
from gpuml.adapters._row import Conversion
from gpuml.adapters.conversions import interop


def make(cuml_class: Any, twin: Any, changes: Mapping[str, Any]) -> Any:
    """A model as cuML translates the twin; its `fit` leaves X as it is."""
    return interop.make(on_a_copy(cuml_class), twin, changes)


@cache
def on_a_copy(cuml_class: Any) -> Any:
    """The class with a `fit` that gives cuML a copy of X to write into, and to keep."""

    class OnACopy(cuml_class):
        def fit(self, X, **rest):
            super().fit(namespace(X).asarray(X, copy=True), **rest)
            return self

    return OnACopy


COPIED = Conversion(make, interop.lower, interop.lift)
