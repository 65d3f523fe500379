"""Rules that accept or shorten a quasi-Newton step, and that end iterations."""

from typing import Any

import numpy as np

from gpuml._arrays import Array
from gpuml._arrays.ops import EPS

# A step that overshoots is kept while the slope at its end is at most this share of the first one.
OVERSHOOT = 0.5
SURE_OVERSHOOT = 0.05
# A gradient has become smaller if its largest component is below this share of the smallest so far.
GAIN = 0.8
PATIENCE = 6
# Stop when the predicted decrease is at most this many squares of `tol`: gaps to the optimum are
# then no larger than scikit-learn's at its defaults.
ENOUGH = 1.0
# A final step without a check follows a step that reduced the slope to this share or less.
FORESEEN = 0.5


def shortened(first, slope):
    """Where the secant of the slopes has its zero, kept away from both ends."""
    with np.errstate(invalid="ignore", divide="ignore"):
        total = slope - first
        share = np.where(total > 0, -first / np.where(total > 0, total, 1.0), 0.8)
        return np.clip(np.where(np.isfinite(slope), share, 0.1), 0.1, 0.8)


def is_noise(shorter: Array, first: Array, slope: Array, precision: float, xp: Any = np) -> Array:
    """Whether a refused step has become so short that it was noise which pointed downwards.

    That is the root of the rounding of the rows. A step whose end is steeper by orders of magnitude
    than its start goes too far, as those from rates of 1 to rates of a million do: it may have to
    become as short as rounding itself.
    """
    root = precision**0.5
    near = slope <= xp.abs(first) / root
    return (shorter < root) & (near | (shorter < EPS))


def promised(slope, violation, going, tol):
    """How many times more than enough the next steps promise: the most of those going on."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        times = np.maximum(np.abs(slope) / (2 * ENOUGH * tol**2), (violation / tol) ** 2)
        times = times[going & np.isfinite(times)]
    return float(times.max()) if times.size else 1.0
