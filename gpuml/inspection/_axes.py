"""What all pictures share: matplotlib at its first use, and axes to draw on."""

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
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError(
            f"{caller} draws with matplotlib, which is not installed. Type: pip install matplotlib"
        ) from error
    return pyplot.subplots(layout="constrained")[1]
