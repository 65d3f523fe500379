"""Values of a parameter on an axis: numbers, even or log-spaced, or names in some order."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal

import numpy as np

LONGEST_LABEL = 24
# Below this ratio of the largest to the smallest, a log axis shows nothing that another does not.
LEAST_LOG_RATIO = 20


class _Missing:
    def __repr__(self):
        return "not set"


# In candidates of other grids, which do not have the parameter.
MISSING = _Missing()


@dataclass(frozen=True)
class Axis:
    """Where values of a parameter are.

    Attributes
    ----------
    kind : {"linear", "log", "symlog", "names"}
        "symlog" is of numbers that are log-spaced but for a zero.
    places : float array (n_candidates,)
        Numbers themselves, nan for those not set; or for names the position of each.
    labels : list of str
        For names: what to write at 0, 1, 2, ...
    least : float
        For "symlog" the smallest number above zero.
    """

    kind: Literal["linear", "log", "symlog", "names"]
    places: np.ndarray
    labels: list[str]
    least: float = 0.0

    @property
    def is_numeric(self) -> bool:
        """Whether values are numbers on a continuous axis."""
        return self.kind != "names"

    def in_unit(self) -> np.ndarray:
        """Places from 0 to 1, evenly where the axis is drawn evenly; nan for those not set."""
        scaled = self.scaled(self.places)
        low, high = _span(scaled)
        return (scaled - low) / (high - low) if high > low else scaled * 0 + 0.5

    def scaled(self, places: np.ndarray) -> np.ndarray:
        """Numbers as the axis shows them."""
        if self.kind == "log":
            return np.log10(places)
        if self.kind == "symlog":
            return np.log10(np.where(places > 0, places, self.least / 10))
        return places


def axis_of(values: Sequence[Any], *, as_names: bool = False) -> Axis:
    """The axis for values of a parameter; `as_names` gives numbers a position each, too."""
    if as_names or not all(is_number(value) or value is MISSING for value in values):
        return _named(values)
    places = np.array([np.nan if value is MISSING else float(value) for value in values])
    kind, least = _spacing(np.unique(places[np.isfinite(places)]))
    return Axis(kind, places, [], least)


def is_number(value: Any) -> bool:
    """Whether a value is a finite number, and no bool."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real | np.number):
        return False
    try:
        return bool(np.isfinite(float(value)))
    except (TypeError, ValueError, OverflowError):
        return False


def key_of(value: Any) -> Hashable:
    """What is the same for values that are drawn at the same place."""
    if isinstance(value, Hashable) and _equals_itself(value):
        return type(value), value
    return repr(value)


def label_of(value: Any) -> str:
    """A value in a few characters, in which matplotlib sees no formulas."""
    if is_number(value):
        text = f"{value:.4g}"
    elif isinstance(value, str):
        text = value
    elif callable(value) and hasattr(value, "__name__"):
        text = value.__name__
    else:
        text = repr(value)
    return plain(shortened(" ".join(text.split()), LONGEST_LABEL))


def shortened(text: str, most: int) -> str:
    """Text with at most so many characters."""
    return text if len(text) <= most else text[: most - 1].rstrip("\\") + "\N{HORIZONTAL ELLIPSIS}"


def plain(text: str) -> str:
    """Text that matplotlib does not interpret."""
    return text.replace("$", r"\$")


def _equals_itself(value):
    try:
        return bool(value == value)  # not so for nan
    except (TypeError, ValueError):
        return False


def _named(values):
    """Rising numbers, then names in order, then None."""
    keys = [key_of(value) for value in values]
    first = dict(zip(reversed(keys), reversed(values), strict=True))
    found = list(dict.fromkeys(keys))
    found.sort(key=lambda key: _rank(first[key]))
    position = {key: i for i, key in enumerate(found)}
    places = np.array([position[key] for key in keys], dtype=float)
    return Axis("names", places, [label_of(first[key]) for key in found])


def _rank(value):
    if is_number(value):
        return 0, float(value)
    return (2, 0.0) if value is MISSING else (1, 0.0)


def _spacing(numbers):
    """Whether distinct rising numbers are drawn evenly or by their logarithms."""
    if not len(numbers) or numbers[0] < 0 or numbers[-1] == 0:
        return "linear", 0.0
    above = numbers[numbers > 0]
    is_log = above[-1] >= LEAST_LOG_RATIO * above[0] and _off_centre(np.log(above)) <= _off_centre(
        above
    )
    if not is_log:
        return "linear", 0.0
    if len(above) == len(numbers):
        return "log", 0.0
    return ("symlog", float(above[0])) if len(above) > 1 else ("linear", 0.0)


def _off_centre(numbers):
    """How far the middle one of rising numbers is from the middle of their range."""
    low, high = numbers[0], numbers[-1]
    return abs(np.median(numbers) - (low + high) / 2) / (high - low)


def _span(places):
    known = places[np.isfinite(places)]
    return (known.min(), known.max()) if len(known) else (0.0, 0.0)
