"""Matrix decompositions with scikit-learn's names, on the device of their data."""

from gpuml.decomposition.incremental_pca import IncrementalPCA
from gpuml.decomposition.pca import PCA
from gpuml.decomposition.truncated_svd import TruncatedSVD

__all__ = ["PCA", "IncrementalPCA", "TruncatedSVD"]
