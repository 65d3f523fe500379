"""Imports of scikit-learn's names give gpuml's in user code, until that is undone."""

from gpuml._accelerate.handle import Acceleration, accelerate

__all__ = ["Acceleration", "accelerate"]
