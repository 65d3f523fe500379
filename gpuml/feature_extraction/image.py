"""Patches and graphs of images, with scikit-learn's names: these are its functions and classes."""

from gpuml._settings.first_use import at_first_use

__all__: list[str] = []

__getattr__, __dir__ = at_first_use(__name__, mirrors="sklearn.feature_extraction.image")
