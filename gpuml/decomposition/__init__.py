"""Matrix decompositions with scikit-learn's names, on the device of their data."""

from gpuml._settings.first_use import at_first_use
from gpuml.decomposition.factor_analysis import FactorAnalysis
from gpuml.decomposition.incremental_pca import IncrementalPCA
from gpuml.decomposition.pca import PCA
from gpuml.decomposition.truncated_svd import TruncatedSVD

__all__ = ["PCA", "FactorAnalysis", "IncrementalPCA", "TruncatedSVD"]

__getattr__, __dir__ = at_first_use(__name__, mirrors="sklearn.decomposition")
