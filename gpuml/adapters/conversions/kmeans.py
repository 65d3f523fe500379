"""k-means: cuML's, which does not stop before scikit-learn would.

cuML stops once the centres moved, squared, by less than ``tol``, or once the cost fell by less than
the share ``tol`` of it. scikit-learn knows the first of these only, with its ``tol`` in units of
the variance. A step that moves k centres of clusters of n/k rows lowers the cost by n/k times their
squared moves, and more; the cost itself is at most n p variances. With ``tol / (k p)`` as its
share, cuML stops where they moved by less than ``tol``. It may go on a little longer.

Rows are centred, as in scikit-learn. Where their variance is far from 1 they are multiplied by a
power of two, which changes no digit: where norms agree cuML takes distances for 0 that are small as
such, and squares of float32 have their ends.

The cost is computed here, of labels and centres. cuML's is a sum of distances that it computes by
products of rounded rows, and is wrong by up to 1 in 100.
"""

import math
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from gpuml._arrays import as_array, move, namespace, place_of, synchronize
from gpuml._ops import column_sums
from gpuml._validation import check_weight
from gpuml.adapters._clusters import by_rows, squared_distances
from gpuml.adapters._row import Conversion
from gpuml.adapters.conversions import interop

# cuML asks for a positive number even where rows are all the same, and at `predict`.
LEAST_TOL = float(np.finfo(np.float32).tiny)
# Variances of rows that are left as they are. The tolerance holds for any unit.
LEAST_VARIANCE, MOST_VARIANCE = 2.0**-7, 2.0**20
# Numbers whose squares are added by one call: BLAS counts up to 2^31.
SQUARED_AT_ONCE = 2**28


def unit(variance: float) -> float:
    """The power of two by which rows are multiplied."""
    if LEAST_VARIANCE <= variance <= MOST_VARIANCE:
        return 1.0
    if not LEAST_TOL <= variance < math.inf:
        return 1.0
    return 2.0 ** -round(math.log2(variance) / 2)


def make(cuml_class: Any, twin: Any, changes: Mapping[str, Any]) -> Any:
    """An unfitted model; its `tol` is in units of the variance."""
    return interop.make(_in_units(cuml_class), twin, changes)


def lift(cuml_class: Any, twin: Any, changes: Mapping[str, Any]) -> Any:
    """A model with the attributes of the twin."""
    return make(cuml_class, twin, {**changes, "tol": max(twin.tol, LEAST_TOL)})


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

        def fit(self, X, **rest):
            given, X = (self.tol, self.init), by_rows(X)
            mean = _means(X)
            rows = X - mean
            variance = _mean_square(rows)
            scale = unit(variance)
            if scale != 1.0:
                rows *= scale
            share = 1.0 / (self.n_clusters * X.shape[1])
            self.tol = max(self.tol * min(share, variance * scale**2), LEAST_TOL)
            if not isinstance(self.init, str):
                start = _moved(self.init, X) - mean
                self.init = start if scale == 1.0 else start * scale
            synchronize(place_of(X))
            try:
                super().fit(rows, **rest)
            finally:
                self.tol, self.init = max(given[0], LEAST_TOL), given[1]
            centres = self.cluster_centers_
            cost = squared_distances(rows, centres, self.labels_, rest.get("sample_weight"))
            self.inertia_ = cost / scale**2
            self.cluster_centers_ = (centres if scale == 1.0 else centres / scale) + mean
            # After the last iteration that may be, cuML's counter is one further.
            self.n_iter_ = min(self.n_iter_, self.max_iter)
            return self

        def score(self, X, y=None, sample_weight=None):
            weight = check_weight(sample_weight, X, signed=True)
            return -squared_distances(X, self.cluster_centers_, self.predict(X), weight)

    return InUnits


def _means(X):
    """Of columns, in the dtype of the rows."""
    xp = namespace(X)
    return xp.astype(column_sums(X, xp) / X.shape[0], X.dtype)


def _mean_square(rows):
    """Of all numbers; as right as their dtype, which is enough for a tolerance and a unit."""
    xp = namespace(rows)
    flat = xp.reshape(rows, (-1,))
    n = flat.shape[0]
    starts = range(0, n, SQUARED_AT_ONCE)
    parts = (flat[start : min(start + SQUARED_AT_ONCE, n)] for start in starts)
    found = float(sum(part @ part for part in parts))
    if not LEAST_TOL <= found < math.inf:
        # Squares that float32 does not hold.
        found = squared_distances(rows, xp.zeros_like(rows[:1, :]))
    return found / n


def _moved(x, X):
    xp = namespace(X)
    return xp.astype(move(as_array(x), place_of(X)), X.dtype, copy=False)


KMEANS = Conversion(make, interop.lower, lift)
