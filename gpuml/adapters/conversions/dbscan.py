"""DBSCAN: cuML's, on a copy of X; cosines as distances of rows of unit length.

cuML 26.10 does not compute cosines: it divides the columns of X by the lengths of its first rows.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any

from gpuml._arrays import namespace, place_of, synchronize
from gpuml.adapters._row import Conversion
from gpuml.adapters.conversions import interop
from gpuml.adapters.conversions.copied import on_a_copy


def make(cuml_class: Any, twin: Any, changes: Mapping[str, Any]) -> Any:
    """A model as cuML translates the twin; its `fit` leaves X as it is."""
    given = on_a_copy(cuml_class) if twin.metric != "cosine" else of_unit_rows(cuml_class)
    return interop.make(given, twin, changes)


@cache
def of_unit_rows(cuml_class: Any) -> Any:
    """The class with a `fit` that gives cuML the directions of the rows."""

    class OfUnitRows(cuml_class):
        def fit(self, X, **rest):
            xp = namespace(X)
            rows = X / xp.sqrt(xp.sum(X * X, axis=1, keepdims=True))
            synchronize(place_of(X))
            super().fit(rows, **rest)
            self.components_ = xp.take(X, self.core_sample_indices_, axis=0)
            return self

    return OfUnitRows


DBSCAN = Conversion(make, interop.lower, interop.lift)
