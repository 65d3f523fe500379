"""What happens where scikit-learn does the work that a GPU was meant to do."""

import warnings
from typing import Any

from gpuml._settings.config import current_settings
from gpuml.adapters._method import FITTING
from gpuml.exceptions import FallbackError, FallbackWarning, PrecisionWarning, level_of_user

# Warnings of this process that need no repetition: (class, method, reason) or class.
_said: set = set()


def fall_back(estimator: Any, method: str, clause: str, home: Any, *, once: bool = False) -> None:
    """Obey the setting ``fallback``.

    Parameters
    ----------
    estimator : Adapter
    method : str
        What is called.
    clause : str
        Why, as a clause: "cuML has no ccp_alpha=0.1".
    home : Place
        Where the data came from, and where results go.
    once : bool, default=False
        Whether a warning is given only the first time, for a class, method and reason.

    Raises
    ------
    FallbackError
        Under ``fallback="error"``.
    """
    setting = current_settings().fallback
    if setting == "silent":
        return
    name = type(estimator).__name__
    text = f"{name}.{method} runs scikit-learn on the CPU: {clause}."
    if not home.is_host:
        text += f" Data came from {home} and results go back there"
        text += "; this holds for all methods of this model." if method in FITTING else "."
    if setting == "error":
        raise FallbackError(f"{text} gpuml's setting fallback='error' does not allow it.")
    if once and not _first_time((type(estimator), method, clause)):
        return
    text += " gpuml.config_context(fallback='silent') hides this."
    warnings.warn(text, FallbackWarning, stacklevel=level_of_user())


def warn_of_precision(estimator: Any) -> None:
    """Say once for a class that cuML computes float64 rows in float32."""
    if current_settings().fallback != "silent" and _first_time(type(estimator)):
        warnings.warn(
            f"{type(estimator).__name__} works on float64 rows in float32 on a GPU, because "
            "cuML has only float32 for it; device='cpu' computes in float64.",
            PrecisionWarning,
            stacklevel=level_of_user(),
        )


def _first_time(what):
    first = what not in _said
    _said.add(what)
    return first
