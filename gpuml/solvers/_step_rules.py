"""When a quasi-Newton step is kept, how a refused one is shortened, and when steps end."""

import numpy as np

# A step that overshoots is kept while the slope at its end is at most this share of the first one.
OVERSHOOT = 0.5
SURE_OVERSHOOT = 0.05
# A gradient has become smaller if its largest component is below this share of the smallest so far.
GAIN = 0.8
PATIENCE = 6
# The decrease that the next step promises is at most so many squares of `tol`: then gaps to the
# optimum are those that scikit-learn leaves at its defaults, or smaller.
ENOUGH = 1.0
# A last step that is not looked at follows one whose slope at the end is no more of the first one.
FORESEEN = 0.5


def shortened(first, slope):
    """Where the secant of the slopes has its zero, kept away from both ends."""
    with np.errstate(invalid="ignore", divide="ignore"):
        total = slope - first
        share = np.where(total > 0, -first / np.where(total > 0, total, 1.0), 0.8)
        return np.clip(np.where(np.isfinite(slope), share, 0.1), 0.1, 0.8)
