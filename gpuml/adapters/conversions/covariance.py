"""Covariances: cuML's, but for the inverses, which are those of scikit-learn.

cuML's inverse drops what is below 1e-15 of the largest singular value, whatever the dtype and the
size: of a singular matrix it gives rounding errors, inverted. SciPy's `pinvh` drops what is below
the rounding errors of eigenvalues.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any

from gpuml._arrays import Array, namespace
from gpuml.adapters._row import Conversion
from gpuml.adapters.conversions import interop


def pinvh(matrix: Array) -> Array:
    """Pseudo-inverse of a symmetric matrix (p, p), as `scipy.linalg.pinvh` defines it."""
    xp = namespace(matrix)
    values, vectors = xp.linalg.eigh(matrix)
    sizes = xp.abs(values)
    cutoff = matrix.shape[0] * xp.finfo(matrix.dtype).eps * xp.max(sizes)
    kept = sizes > cutoff
    inverse = xp.where(kept, 1.0 / xp.where(kept, values, xp.ones_like(values)), 0.0 * values)
    return (vectors * inverse) @ vectors.T


def make(cuml_class: Any, twin: Any, changes: Mapping[str, Any]) -> Any:
    """A model as cuML translates the twin, with scikit-learn's inverses."""
    return interop.make(_with_pinvh(cuml_class), twin, changes)


@cache
def _with_pinvh(cuml_class: Any) -> Any:
    class WithPinvh(cuml_class):
        store_precision: bool

        def fit(self, X, **rest):
            stored = self.store_precision
            self.store_precision = False
            try:
                super().fit(X, **rest)  # without an inverse of its own
            finally:
                self.store_precision = stored
            if stored:
                self.precision_ = pinvh(self.covariance_)
            return self

        def get_precision(self):
            # cuML's `score` and `mahalanobis` ask here.
            return self.precision_ if self.store_precision else pinvh(self.covariance_)

        def error_norm(self, comp_cov, norm="frobenius", **rest):
            if norm not in ("frobenius", "spectral"):
                raise NotImplementedError("Only spectral and frobenius norms are implemented")
            return super().error_norm(comp_cov, norm=norm, **rest)

    return WithPinvh


def lift(cuml_class: Any, twin: Any, changes: Mapping[str, Any]) -> Any:
    """A model with the attributes of the twin."""
    return interop.lift(_with_pinvh(cuml_class), twin, changes)


COVARIANCE = Conversion(make, interop.lower, lift)
