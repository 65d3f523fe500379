"""Metrics of clusters, with scikit-learn's names: these are its functions."""

from gpuml._settings.first_use import at_first_use

__all__: list[str] = []

__getattr__, __dir__ = at_first_use(__name__, mirrors="sklearn.metrics.cluster")
