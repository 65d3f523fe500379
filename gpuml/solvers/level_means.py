r"""Means of targets by level, drawn to the mean of all rows: scikit-learn's `TargetEncoder`.

.. math:: z = \lambda \bar y_k + (1 - \lambda) \bar y, \qquad
    \lambda = n_k / (n_k + m) \quad\text{or}\quad s^2 n_k / (s^2 n_k + s_k^2)

for the n rows of level k, with m = `smooth`, or with variances of all targets and of those of the
level (empirical Bayes).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class LevelSums:
    """Counts, sums and squares of targets by inner fold and level, of one training part.

    Attributes
    ----------
    fold : int array (m,)
        The inner fold that each row of the part is encoded in.
    mean : array (c,)
        Of the targets of all rows, or any other numbers that sums and squares are about.
    n_rows : int array (F,)
    of_fold : array (F, 2, c)
        Sums and squares of the targets of each inner fold.
    counts : list of d arrays (F, L)
    sums, squares : lists of d arrays (F, c, L)
    """

    fold: np.ndarray
    mean: np.ndarray
    n_rows: np.ndarray
    of_fold: np.ndarray
    counts: list[np.ndarray]
    sums: list[np.ndarray]
    squares: list[np.ndarray]

    def encodings(self, smooth: Any) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Of each column, encodings (F, c, L) of the inner folds and (c, L) of all rows."""
        return self.inner(smooth), self.whole(smooth)

    def inner(self, smooth: Any) -> list[np.ndarray]:
        """Of each column, encodings (F, c, L) by the rows of the other inner folds."""
        found = []
        for each in zip(self.counts, self.sums, self.squares, strict=True):
            n, s, q = (sums.sum(axis=0) - sums for sums in each)
            found.append(self._encoded(n, s, q, np.arange(len(self.n_rows)), smooth))
        return found

    def whole(self, smooth: Any) -> list[np.ndarray]:
        """Of each column, encodings (c, L) by all rows."""
        found = []
        for each in zip(self.counts, self.sums, self.squares, strict=True):
            n, s, q = (sums.sum(axis=0)[None] for sums in each)
            found.append(self._encoded(n, s, q, None, smooth)[0])
        return found

    def _encoded(self, counts, sums, squares, left_out, smooth):
        """Encodings (F, c, L) where some inner fold each is left out."""
        n_rows, of_rows = self.n_rows.sum(), self.of_fold.sum(axis=0)[None]
        if left_out is not None:
            n_rows, of_rows = n_rows - self.n_rows[left_out, None], of_rows - self.of_fold[left_out]
        mean = (of_rows[:, 0] / n_rows)[..., None]  # (F, c, 1), about the mean of all rows
        counts = counts[:, None, :]
        with np.errstate(divide="ignore", invalid="ignore"):
            if smooth != "auto":
                drawn = (smooth * mean + sums) / (smooth + counts)
                return self.mean[:, None] + np.where(counts + smooth == 0, mean, drawn)
            variance = (of_rows[:, 1] / n_rows)[..., None] - mean**2
            own = sums / counts
            spread = np.maximum(squares / counts - own**2, 0.0)
            share = variance * counts / (variance * counts + spread)
            drawn = share * own + (1.0 - share) * mean
        return self.mean[:, None] + np.where(np.isnan(share), mean, drawn)
