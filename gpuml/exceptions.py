"""Warnings and errors of gpuml; everything else raises what scikit-learn raises.

Examples
--------
>>> import warnings
>>> from gpuml.exceptions import FallbackWarning
>>> warnings.simplefilter("error", FallbackWarning)  # no fit leaves the GPU unnoticed
>>> warnings.resetwarnings()
"""

import sys

from gpuml._settings.first_use import at_first_use

__all__ = [
    "FallbackError",
    "FallbackWarning",
    "GatheredWarning",
    "PrecisionWarning",
    "VersionWarning",
]

__getattr__, __dir__ = at_first_use(__name__, mirrors="sklearn.exceptions")


class FallbackWarning(UserWarning):
    """scikit-learn did on the host what a GPU was meant to do.

    The text names the estimator, the method and the reason. The setting ``fallback`` decides
    whether this is a warning, an error or nothing.
    """


class FallbackError(ValueError):
    """The error that replaces `FallbackWarning` under ``fallback="error"``."""


class GatheredWarning(UserWarning):
    """A collection of Dask was gathered into one process, as gpuml works there.

    The text says how many bytes that is, and what of `gpuml_dask` leaves the rows divided.
    """


class PrecisionWarning(UserWarning):
    """float64 rows were worked on in float32, as the engine knows nothing else."""


class VersionWarning(UserWarning):
    """A model was saved by another version of gpuml or scikit-learn than the one that loads it."""


def level_of_user() -> int:
    """The `stacklevel`, for the caller, of the first frame outside gpuml and scikit-learn.

    Returns
    -------
    level : int
    """
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and _root(frame) in ("gpuml", "gpuml_dask", "sklearn"):
        level, frame = level + 1, frame.f_back
    return level


def _root(frame):
    return frame.f_globals.get("__name__", "").partition(".")[0]
