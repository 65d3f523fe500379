"""Discriminant analysis of rows that are divided over the workers of a cluster."""

from gpuml import discriminant_analysis as one_device
from gpuml_dask.fitting import SCORED, OnWorkers, documented

FROM_MOMENTS = (
    "one pass sums second moments of {} over all chunks (with a `covariance_estimator`, "
    '`shrinkage="auto"`{}, the rows are gathered on one worker)'
)
CLASSES = "(X[:, 0] > 0.5).astype(int)"


@documented(
    FROM_MOMENTS.format("all rows", ", or priors with another solver than svd"),
    SCORED.format(CLASSES, "LinearDiscriminantAnalysis()", 1, "1.0"),
)
class LinearDiscriminantAnalysis(OnWorkers, one_device.LinearDiscriminantAnalysis):
    """Linear discriminants, which share one covariance, of rows here or on workers."""


@documented(
    FROM_MOMENTS.format("the rows of each class", ""),
    SCORED.format(CLASSES, "QuadraticDiscriminantAnalysis()", 1, "1.0"),
)
class QuadraticDiscriminantAnalysis(OnWorkers, one_device.QuadraticDiscriminantAnalysis):
    """A normal density with its own covariance for each class, of rows here or on workers."""
