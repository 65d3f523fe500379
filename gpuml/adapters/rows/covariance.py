"""Rows of `gpuml.covariance`: cuML has two of them, scikit-learn does the others.

cuML's inverse drops what is below 1e-15 of the largest singular value, whatever the dtype and the
size: of a singular matrix it gives rounding errors, inverted. SciPy's `pinvh` drops what is below
the rounding errors of eigenvalues.
"""

from functools import cache
from typing import Any

from sklearn import covariance

from gpuml._arrays import Array, namespace
from gpuml.adapters._conversion import Conversion
from gpuml.adapters._row import Row, one_pass


def pinvh(matrix: Array) -> Array:
    """Pseudo-inverse of a symmetric matrix (p, p), as `scipy.linalg.pinvh` defines it."""
    xp = namespace(matrix)
    values, vectors = xp.linalg.eigh(matrix)
    sizes = xp.abs(values)
    cutoff = matrix.shape[0] * xp.finfo(matrix.dtype).eps * xp.max(sizes)
    kept = sizes > cutoff
    inverse = xp.where(kept, 1.0 / xp.where(kept, values, xp.ones_like(values)), 0.0 * values)
    return (vectors * inverse) @ vectors.T


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


CONVERSION = Conversion(derived=lambda cuml_class, twin: _with_pinvh(cuml_class))
METHODS = ("score", "mahalanobis", "get_precision", "error_norm")
LIGHT = ("covariance_", "location_", "precision_")
NOTES = ("Sums over float32 rows are of float32 (scikit-learn's of float64).",)

EMPIRICAL_COVARIANCE = Row(
    sk=covariance.EmpiricalCovariance,
    cuml="cuml.covariance.EmpiricalCovariance",
    work=one_pass,
    methods=METHODS,
    light=LIGHT,
    convert=CONVERSION,
    notes=NOTES,
)

LEDOIT_WOLF = Row(
    sk=covariance.LedoitWolf,
    cuml="cuml.covariance.LedoitWolf",
    work=one_pass,
    methods=METHODS,
    light=(*LIGHT, "shrinkage_"),
    convert=CONVERSION,
    notes=NOTES,
)

ELLIPTIC_ENVELOPE = Row(sk=covariance.EllipticEnvelope, cuml=None, work=one_pass)
GRAPHICAL_LASSO = Row(sk=covariance.GraphicalLasso, cuml=None, work=one_pass)
GRAPHICAL_LASSO_CV = Row(sk=covariance.GraphicalLassoCV, cuml=None, work=one_pass)
MIN_COV_DET = Row(sk=covariance.MinCovDet, cuml=None, work=one_pass)
OAS = Row(sk=covariance.OAS, cuml=None, work=one_pass)
SHRUNK_COVARIANCE = Row(sk=covariance.ShrunkCovariance, cuml=None, work=one_pass)
