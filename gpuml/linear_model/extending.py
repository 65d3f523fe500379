"""What linear models are solved with, for estimators of your own: docs/extending.md shows it."""

from gpuml.linear_model._base import describe_rows
from gpuml.linear_model._input import multifit_batch
from gpuml.linear_model._least_squares import solve_candidates
from gpuml.linear_model._models import ClassModels, RegressionModels

__all__ = [
    "ClassModels",
    "RegressionModels",
    "describe_rows",
    "multifit_batch",
    "solve_candidates",
]
