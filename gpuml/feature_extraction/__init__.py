"""Features of data that are not numbers, with scikit-learn's names."""

from gpuml._settings.first_use import at_first_use
from gpuml.feature_extraction import image, text

__all__ = ["image", "text"]

__getattr__, __dir__ = at_first_use(__name__, mirrors="sklearn.feature_extraction")
