"""Preprocessing of rows that are divided over the workers of a cluster."""

from typing import Self

from gpuml import preprocessing as one_device
from gpuml_dask.fitting import (
    TRANSFORMED,
    FitsOnWorkers,
    Transforms,
    documented,
    lives_on_workers,
)


@documented("one pass sums moments of all chunks", TRANSFORMED.format("StandardScaler()", 3))
class StandardScaler(Transforms, FitsOnWorkers, one_device.StandardScaler):
    """Features less their mean, divided by their standard deviation; rows here or on workers."""

    def fit(self, X, y=None, sample_weight=None) -> Self:
        """Fit to rows, here or on workers, as `LinearRegression.fit`; y is without effect."""
        if lives_on_workers(X) or lives_on_workers(sample_weight):
            return self._fit_on_workers(X, None, sample_weight)
        return super().fit(X, y, sample_weight)
