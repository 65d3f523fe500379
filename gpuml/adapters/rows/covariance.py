"""Rows of `gpuml.covariance`: cuML has two of them, scikit-learn does the others."""

from sklearn import covariance

from gpuml.adapters._row import Row, one_pass
from gpuml.adapters.conversions.covariance import COVARIANCE

METHODS = ("score", "mahalanobis", "get_precision", "error_norm")
LIGHT = ("covariance_", "location_", "precision_")
NOTES = ("Sums over float32 rows are of float32 (scikit-learn's of float64).",)

EMPIRICAL_COVARIANCE = Row(
    sk=covariance.EmpiricalCovariance,
    cuml="cuml.covariance.EmpiricalCovariance",
    work=one_pass,
    methods=METHODS,
    light=LIGHT,
    convert=COVARIANCE,
    notes=NOTES,
)

LEDOIT_WOLF = Row(
    sk=covariance.LedoitWolf,
    cuml="cuml.covariance.LedoitWolf",
    work=one_pass,
    methods=METHODS,
    light=(*LIGHT, "shrinkage_"),
    convert=COVARIANCE,
    notes=NOTES,
)

ELLIPTIC_ENVELOPE = Row(sk=covariance.EllipticEnvelope, cuml=None, work=one_pass)
GRAPHICAL_LASSO = Row(sk=covariance.GraphicalLasso, cuml=None, work=one_pass)
GRAPHICAL_LASSO_CV = Row(sk=covariance.GraphicalLassoCV, cuml=None, work=one_pass)
MIN_COV_DET = Row(sk=covariance.MinCovDet, cuml=None, work=one_pass)
OAS = Row(sk=covariance.OAS, cuml=None, work=one_pass)
SHRUNK_COVARIANCE = Row(sk=covariance.ShrunkCovariance, cuml=None, work=one_pass)
