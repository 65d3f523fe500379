"""k-means: cuML's, which does not stop before scikit-learn would.

cuML stops once the centres moved, squared, by less than ``tol``, or once the cost fell by less than
the share ``tol`` of it. scikit-learn knows the first of these only, with its ``tol`` in units of
the variance. A step that moves k centres of clusters of n/k rows lowers the cost by n/k times their
squared moves, and more; the cost itself is at most n p variances. With ``tol / (k p)`` as its
share, cuML stops where they moved by less than ``tol``. It may go on a little longer.

Rows are centred, as in scikit-learn, unless their means are small next to their spread: products
of rows and centres lose digits to both, and the copy takes time and memory. Where the variance is
far from 1 rows are multiplied by a power of two, which changes no digit: where norms agree cuML
takes distances for 0 that are small as such, and squares of float32 have their ends.

The cost is computed here, of labels and centres. cuML's is a sum of distances that it computes by
products of rounded rows, and is wrong by up to 1 in 100.
"""

import math
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from sklearn import config_context

from gpuml._arrays import Array, as_array, move, namespace, place_of, synchronize
from gpuml._arrays.ops import all_finite
from gpuml._inputs.validation import check_weight
from gpuml.adapters import _conversion
from gpuml.adapters._clusters import by_rows, closeness, moments
from gpuml.adapters._conversion import Conversion
from gpuml.adapters._row import NotFinite

# cuML requires a positive number even if all rows are equal, and in `predict`.
LEAST_TOL = float(np.finfo(np.float32).tiny)
# Rows with a variance in this range are not scaled. The tolerance holds for any unit.
LEAST_VARIANCE, MOST_VARIANCE = 2.0**-7, 2.0**20
# Rows with smaller squared means, in variances, are not centred.
NEAR_ZERO = 0.25


def unit(variance: float) -> float:
    """The power of two by which rows are multiplied."""
    if LEAST_VARIANCE <= variance <= MOST_VARIANCE:
        return 1.0
    if not LEAST_TOL <= variance < math.inf:
        return 1.0
    return 2.0 ** -round(math.log2(variance) / 2)


def _lift(cuml_class, twin, changes):
    return _conversion.make(cuml_class, twin, {**changes, "tol": max(twin.tol, LEAST_TOL)})


@cache
def _in_units(cuml_class: Any) -> Any:
    class InUnits(cuml_class):
        tol: float
        init: Any
        max_iter: int
        n_clusters: int
        cluster_centers_: Any
        inertia_: float
        n_iter_: int
        n_found_clusters: int  # that have rows

        def fit(self, X, **rest):
            given, X = (self.tol, self.init), by_rows(X)
            found = moments(X)
            if not math.isfinite(found.variance) and not all_finite(X, namespace(X)):
                raise NotFinite
            frame = _frame(found, X)
            rows = frame.of(X)
            share = 1.0 / (self.n_clusters * X.shape[1])
            self.tol = max(self.tol * min(share, found.variance * frame.scale**2), LEAST_TOL)
            if not isinstance(self.init, str):
                self.init = frame.of(_moved(self.init, X))
            synchronize(place_of(X))
            try:
                # It would look for nan and inf once more.
                with config_context(assume_finite=True):
                    super().fit(rows, **rest)
            finally:
                self.tol, self.init = max(given[0], LEAST_TOL), given[1]
            self._look_at(rows, frame, rest.get("sample_weight"))
            return self

        def _look_at(self, rows, frame, weight):
            centres = self.cluster_centers_
            seen = closeness(rows, centres, self.labels_, weight)
            self.inertia_, self.n_found_clusters = seen.cost / frame.scale**2, seen.n_found
            self.cluster_centers_ = frame.back(centres)
            # After the last iteration that may be, cuML's counter is one further.
            self.n_iter_ = min(self.n_iter_, self.max_iter)

        def score(self, X, y=None, sample_weight=None):
            weight = check_weight(sample_weight, X, signed=True)
            return -closeness(X, self.cluster_centers_, self.predict(X), weight).cost

    return InUnits


class _Frame(NamedTuple):
    """What cuML is given of rows: ``(rows - origin) * scale``; rows themselves without origin."""

    origin: Array | None
    scale: float

    def of(self, rows):
        if self.origin is None:
            return rows
        rows = rows - self.origin
        if self.scale != 1.0:
            rows *= self.scale
        return rows

    def back(self, centres):
        if self.origin is None:
            return centres
        return (centres if self.scale == 1.0 else centres / self.scale) + self.origin


def _frame(found, X):
    """Rows that are near enough to zero, next to their spread, are not copied."""
    scale = unit(found.variance)
    if scale == 1.0 and found.mean_square <= NEAR_ZERO * found.variance:
        return _Frame(None, scale)
    return _Frame(_moved(found.means, X), scale)


def _moved(x, X):
    xp = namespace(X)
    return xp.astype(move(as_array(x), place_of(X)), X.dtype, copy=False)


CONVERSION = Conversion(derived=lambda cuml_class, twin: _in_units(cuml_class), lift=_lift)
