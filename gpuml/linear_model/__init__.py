"""Linear models with scikit-learn's names, on the device of their data."""

from gpuml.linear_model.least_squares import LinearRegression
from gpuml.linear_model.ridge import Ridge

__all__ = ["LinearRegression", "Ridge"]
