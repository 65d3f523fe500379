"""Rows of `gpuml.covariance`: scikit-learn does the work."""

from sklearn import covariance

from gpuml.adapters._row import Row, one_pass

ELLIPTIC_ENVELOPE = Row(sk=covariance.EllipticEnvelope, cuml=None, work=one_pass)
GRAPHICAL_LASSO = Row(sk=covariance.GraphicalLasso, cuml=None, work=one_pass)
GRAPHICAL_LASSO_CV = Row(sk=covariance.GraphicalLassoCV, cuml=None, work=one_pass)
MIN_COV_DET = Row(sk=covariance.MinCovDet, cuml=None, work=one_pass)
