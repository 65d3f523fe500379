"""Features that approximate kernels, with scikit-learn's names, on the device of the data."""

from gpuml._settings.first_use import at_first_use
from gpuml.kernel_approximation._nystroem import Nystroem
from gpuml.kernel_approximation._samplers import (
    AdditiveChi2Sampler,
    RBFSampler,
    SkewedChi2Sampler,
)
from gpuml.kernel_approximation._sketch import PolynomialCountSketch

__all__ = [
    "AdditiveChi2Sampler",
    "Nystroem",
    "PolynomialCountSketch",
    "RBFSampler",
    "SkewedChi2Sampler",
]

__getattr__, __dir__ = at_first_use(__name__, mirrors="sklearn.kernel_approximation")
