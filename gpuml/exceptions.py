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
    """scikit-learn did on the CPU what a GPU was meant to do.

    The text names the estimator, the method and the reason. The setting ``fallback`` decides
    whether this is a warning, an error or nothing.
    """


class FallbackError(ValueError):
    """The error that replaces `FallbackWarning` under ``fallback="error"``."""


class GatheredWarning(UserWarning):
    """Divided rows were brought together in one process: those of a dask collection by gpuml.

    The text says how many bytes that is, and what of `gpuml_dask` leaves the rows divided. Of
    `gpuml_dask`: sums over the rows are not enough for a fit, or for some candidates of a search.
    The text says why.
    """


class PrecisionWarning(UserWarning):
    """float64 data was computed in float32, because the library that did it has nothing else."""


class VersionWarning(UserWarning):
    """The model was saved by another version of gpuml or scikit-learn."""


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
