"""Features of data that are not numbers, with scikit-learn's names."""

from gpuml.feature_extraction import text

__all__ = ["text"]
