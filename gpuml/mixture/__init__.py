"""Mixture models with scikit-learn's interface."""

from gpuml._settings.first_use import at_first_use
from gpuml.mixture._estimator import GaussianMixture

__all__ = ["GaussianMixture"]

__getattr__, __dir__ = at_first_use(__name__, mirrors="sklearn.mixture")
