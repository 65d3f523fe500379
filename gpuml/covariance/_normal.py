"""Normal densities whose covariance is that of the rows, shrunk to a multiple of the identity."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from gpuml._arrays import Array, namespace
from gpuml.exceptions import level_of_user
from gpuml.solvers.covariances import (
    Sample,
    inverted,
    log_determinant,
    log_likelihood,
    shrunk,
    spectrum,
)


@dataclass(frozen=True)
class Shrunk:
    """The model of training rows.

    Attributes
    ----------
    sample : Sample
    location : array (p,)
    share : float
        Of shrinkage.
    more : dict
        Fitted attributes beside location, covariance and precision.
    store_precision : bool
    """

    sample: Sample
    centred: bool
    share: float
    more: Mapping[str, Any]
    store_precision: bool

    @property
    def location(self) -> Array:
        return location_of(self.sample, self.centred)

    def log_likelihood(self, sample: Sample) -> Array:
        """Mean logarithm () of the density over some rows.

        Along the eigenvectors of the covariance, which all shares of shrinkage have in common.
        """
        vectors = self._spectrum[1]
        key = "along", self.centred, id(self.sample)
        if key not in sample.known:
            xp, moments = namespace(vectors), sample.about(self.location)
            sample.known[key] = xp.sum((moments @ vectors) * vectors, axis=0)
        xp = namespace(vectors)
        distance = xp.sum(sample.known[key] * self._inverse)
        return log_likelihood(distance, log_determinant(self._inverse), vectors.shape[0])

    def attributes(self) -> dict[str, Any]:
        """Fitted attributes."""
        precision = None
        if self.store_precision:
            vectors = self._spectrum[1]
            precision = (vectors * self._inverse) @ vectors.T
        return {
            "location_": self.location,
            "covariance_": shrunk(moments_of(self.sample, self.centred), self.share),
            "precision_": precision,
            **self.more,
        }

    @property
    def _spectrum(self) -> tuple[Array, Array]:
        """Eigenvalues and eigenvectors of the covariance before it is shrunk."""
        key = "spectrum", self.centred
        if key not in self.sample.known:
            self.sample.known[key] = spectrum(moments_of(self.sample, self.centred))
        return self.sample.known[key]

    @cached_property
    def _inverse(self) -> Array:
        """Eigenvalues (p,) of the precision."""
        values = self._spectrum[0]
        level = namespace(values).mean(values)
        return inverted((1.0 - self.share) * values + self.share * level)


def location_of(sample: Sample, centred: bool) -> Array:
    """The mean (p,), or 0 if the rows are assumed to be centred."""
    return namespace(sample.mean).zeros_like(sample.mean) if centred else sample.mean


def moments_of(sample: Sample, centred: bool) -> Array:
    """Second moments (p, p) about the location."""
    key = "moments", centred
    if key not in sample.known:
        sample.known[key] = sample.about(location_of(sample, centred))
    return sample.known[key]


def warn_of_one_row(sample: Sample) -> None:
    """Warn as scikit-learn does of a covariance of one row."""
    if sample.n_rows == 1:
        warnings.warn(
            "Only one sample available. You may want to reshape your data array",
            UserWarning,
            stacklevel=level_of_user(),
        )
