"""What all pictures share: matplotlib at its first use, and axes to draw on."""

from importlib import import_module
from typing import Any


def axes_for(ax: Any, caller: str) -> Any:
    """The axes that were passed, or those of a new figure.

    Raises
    ------
    ImportError
        If a figure is needed and matplotlib is not installed.
    """
    if ax is not None:
        return ax
    return _matplotlib("pyplot", caller).subplots(layout="constrained")[1]


def axes_aside(caller: str) -> Any:
    """Axes of a figure that nobody sees, for what computes where it draws.

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    """
    return _matplotlib("figure", caller).Figure().subplots()


def _matplotlib(module, caller):
    try:
        return import_module(f"matplotlib.{module}")
    except ImportError as error:
        raise ImportError(
            f"{caller} draws with matplotlib, which is not installed. Type: pip install matplotlib"
        ) from error
