"""Warnings and errors of gpuml; everything else raises what scikit-learn raises.

Examples
--------
>>> import warnings
>>> from gpuml.exceptions import FallbackWarning
>>> warnings.simplefilter("error", FallbackWarning)  # no fit leaves the GPU unnoticed
>>> warnings.resetwarnings()
"""

__all__ = ["FallbackError", "FallbackWarning", "PrecisionWarning", "VersionWarning"]


class FallbackWarning(UserWarning):
    """scikit-learn did on the host what a GPU was meant to do.

    The text names the estimator, the method and the reason. The setting ``fallback`` decides
    whether this is a warning, an error or nothing.
    """


class FallbackError(ValueError):
    """What `FallbackWarning` says, under ``fallback="error"``."""


class PrecisionWarning(UserWarning):
    """float64 rows were worked on in float32, as the engine knows nothing else."""


class VersionWarning(UserWarning):
    """A model was saved by another version of gpuml or scikit-learn than the one that loads it."""
