"""Covariance estimators with scikit-learn's interface; on a GPU cuML does the work of some."""

from gpuml._settings.first_use import at_first_use
from gpuml.adapters import build
from gpuml.adapters.rows import covariance as _rows

EllipticEnvelope = build(_rows.ELLIPTIC_ENVELOPE, __name__)
EmpiricalCovariance = build(_rows.EMPIRICAL_COVARIANCE, __name__)
GraphicalLasso = build(_rows.GRAPHICAL_LASSO, __name__)
GraphicalLassoCV = build(_rows.GRAPHICAL_LASSO_CV, __name__)
LedoitWolf = build(_rows.LEDOIT_WOLF, __name__)
MinCovDet = build(_rows.MIN_COV_DET, __name__)
OAS = build(_rows.OAS, __name__)
ShrunkCovariance = build(_rows.SHRUNK_COVARIANCE, __name__)

__all__ = [
    "OAS",
    "EllipticEnvelope",
    "EmpiricalCovariance",
    "GraphicalLasso",
    "GraphicalLassoCV",
    "LedoitWolf",
    "MinCovDet",
    "ShrunkCovariance",
]

__getattr__, __dir__ = at_first_use(__name__, mirrors="sklearn.covariance")
