"""What all pictures share: matplotlib at its first use, and axes to draw on."""

from importlib import import_module
from typing import Any

# Of the default font: height of a line and mean width of a character, as shares of its size.
LINE, CHARACTER = 1.2, 0.6


def axes_for(ax: Any, caller: str, width: float | None = None) -> Any:
    """The axes that were passed, or those of a new figure, which is `width` inches wide or more.

    Raises
    ------
    ImportError
        If a figure is needed and matplotlib is not installed.
    """
    if ax is not None:
        return ax
    made = _matplotlib("pyplot", caller).subplots(layout="constrained")[1]
    if width is not None and width > made.figure.get_figwidth():
        made.figure.set_figwidth(width)
    return made


def size_in_points(ax: Any) -> tuple[float, float]:
    """Width and height of axes, 72 points to the inch; beside a colour bar they get less wide."""
    box = ax.get_window_extent()
    return tuple(72.0 / ax.figure.dpi * side for side in (box.width, box.height))


def axes_aside(caller: str) -> Any:
    """Axes of a hidden figure, for functions that compute while they draw.

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
