"""Partial least squares and canonical correlations with scikit-learn's names, where the data is."""

from gpuml._settings.first_use import at_first_use
from gpuml.cross_decomposition._classes import CCA, PLSSVD, PLSCanonical, PLSRegression

__all__ = ["CCA", "PLSSVD", "PLSCanonical", "PLSRegression"]

__getattr__, __dir__ = at_first_use(__name__, mirrors="sklearn.cross_decomposition")
