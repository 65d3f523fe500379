"""Decompositions of rows that are divided over the workers of a cluster."""

from gpuml import decomposition as one_device
from gpuml_dask.fitting import TRANSFORMED, OnWorkers, documented

FROM_MOMENTS = (
    "one pass sums second moments of all chunks, and the components are their eigenvectors (where "
    "solvers ask for the rows themselves, these are gathered on one worker)"
)


@documented(FROM_MOMENTS, TRANSFORMED.format("PCA(2)", 2))
class PCA(OnWorkers, one_device.PCA):
    """Principal component analysis, of rows here or on workers."""


@documented(FROM_MOMENTS, TRANSFORMED.format("TruncatedSVD(2)", 2))
class TruncatedSVD(OnWorkers, one_device.TruncatedSVD):
    """Truncated singular value decomposition, without centring, of rows here or on workers."""
