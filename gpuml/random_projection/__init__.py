"""Random projections with scikit-learn's names, computed on the device of X."""

from sklearn.random_projection import johnson_lindenstrauss_min_dim

from gpuml._settings.first_use import at_first_use
from gpuml.random_projection._projection import GaussianRandomProjection, SparseRandomProjection

__all__ = [
    "GaussianRandomProjection",
    "SparseRandomProjection",
    "johnson_lindenstrauss_min_dim",
]

__getattr__, __dir__ = at_first_use(__name__, mirrors="sklearn.random_projection")
