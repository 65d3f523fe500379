"""Lloyd's iterations of one run in CPU memory, which only read rows whose label may change.

Of each row it is known by how much its nearest centre is nearer than the next one. As long as its
own centre and the one that moved most of the others have moved by less, its label stays: it needs
no product. Products of the others are float32 first, and exact for rows whose two nearest centres
these cannot tell apart. Sums of rows by label follow the rows that do change.

G. Hamerly, "Making k-means even faster", SIAM International Conference on Data Mining (2010).
"""

from dataclasses import dataclass

import numpy as np

from gpuml.solvers._far_rows import moved_to_far_rows

# Rows whose products with centres are looked at together.
TILE_ROWS = 8192
# What squared distances are off by, in roundings of the longest squared length times features.
ROUNDINGS = 4.0
# Costs that differ from sums of squares by no less than this have their digits.
CLEAR_SHARE = 1e-3
# Sums follow rows unless these are, in the mean of their squares, shorter than the longest by this.
LEAST_MEAN = 1e-6


@dataclass(frozen=True)
class Rows:
    """The data that all runs on the same rows share.

    Attributes
    ----------
    X : ndarray (n, p)
    weight : ndarray (n,) or None
    single : ndarray (n, p + 2)
        float32 rows ``[x, |x|^2, 1]``, x in units in which the longest has length 1.
    lengths : ndarray (n,)
        Squared, of X.
    unit : float
        What X was multiplied by.
    total : float
        Weighted sum of squared lengths.
    follows : bool
        Whether sums keep their digits when rows are added and taken away.
    """

    X: np.ndarray
    weight: np.ndarray | None
    single: np.ndarray
    lengths: np.ndarray
    unit: float
    total: float
    follows: bool

    @classmethod
    def of(cls, X: np.ndarray, weight: np.ndarray | None) -> "Rows":
        lengths = np.einsum("ij,ij->i", X, X)
        longest = float(lengths.max())
        unit = longest**-0.5 if longest > 0 else 1.0
        single = np.ones((len(X), X.shape[1] + 2), dtype=np.float32)
        np.multiply(X, unit, out=single[:, :-2], casting="same_kind")
        np.einsum("ij,ij->i", single[:, :-2], single[:, :-2], out=single[:, -2])
        weighted = lengths if weight is None else lengths * weight
        total = float(np.sum(weighted, dtype=np.float64))
        follows = float(lengths.mean(dtype=np.float64)) >= LEAST_MEAN * longest
        return cls(X, weight, single, lengths, unit, total, follows)

    def weight_of(self, which: slice | np.ndarray) -> np.ndarray | float:
        return 1.0 if self.weight is None else self.weight[which]


def run_alone(
    rows: Rows, start: np.ndarray, max_iter: int, tol: float
) -> tuple[np.ndarray, int, float, np.ndarray]:
    """Centres (k, p) after the last iteration, their number, the cost, and sorted sizes (k,).

    Parameters
    ----------
    rows : Rows
    start : ndarray (k, p)
    max_iter : int
    tol : float
        Of squared moves of all centres together.
    """
    labelled = _Labelled(rows, start)
    for n_iter in range(1, max_iter + 1):
        if not labelled.label():
            break
        if labelled.move() <= tol or n_iter == max_iter:
            labelled.label()
            break
    sizes = np.sort(np.bincount(labelled.labels, minlength=len(start)))
    return labelled.centres, n_iter, labelled.cost(), sizes


class _Labelled:
    """Rows with labels, and for how long these are certain.

    `until` (n,) is compared with `travelled` (k,): how far each centre and the fastest other one
    have gone. Both are in the units of `rows.single`.
    """

    def __init__(self, rows, start):
        n_rows, k = rows.X.shape[0], start.shape[0]
        self.rows, self.centres = rows, start
        self.labels = np.full(n_rows, -1, dtype=np.intp)
        self.until = np.full(n_rows, -1.0, dtype=np.float32)
        self.travelled = np.zeros(k)
        self.sums, self.weights = np.zeros((k, rows.X.shape[1])), np.zeros(k)

    def label(self):
        """Label rows that are not certain; whether one has another label than before."""
        rows, before = self.rows, self.labels
        n_rows = len(before)
        tiles: list[slice | np.ndarray]
        # Rounded up, so that no row passes for certain by the rounding.
        gone = np.nextafter(self.travelled.astype(np.float32), np.float32(np.inf))
        left = np.flatnonzero(self.until <= gone[before])
        if not rows.follows:
            self.labels = np.full(n_rows, -1, dtype=np.intp)
            self.sums[:], self.weights[:] = 0.0, 0.0
        if not rows.follows or 2 * len(left) > n_rows:
            tiles = [slice(at, min(at + TILE_ROWS, n_rows)) for at in range(0, n_rows, TILE_ROWS)]
        else:
            tiles = [left[at : at + TILE_ROWS] for at in range(0, len(left), TILE_ROWS)]
        centres = _Centres.of(self.centres, rows)
        # A list, so that all of them are labelled.
        changed = any([self._label(which, centres) for which in tiles])  # noqa: C419
        return changed if rows.follows else not np.array_equal(before, self.labels)

    def _label(self, which, centres):
        new, gap = centres.nearest(which)
        self.until[which] = gap + self.travelled[new]
        old = self.labels[which]
        changed = np.flatnonzero(new != old)
        if len(changed) == 0:
            return False
        numbers = changed + which.start if isinstance(which, slice) else which[changed]
        of_rows = self.rows.X[numbers], self.rows.weight_of(numbers)
        self._count(*of_rows, new[changed], 1.0)
        if old[0] >= 0:
            self._count(*of_rows, old[changed], -1.0)
        self.labels[numbers] = new[changed]
        return True

    def _count(self, X, weight, labels, sign):
        ones = np.zeros((len(self.centres), len(X)))
        ones[labels, np.arange(len(X))] = sign * weight
        self.sums += ones @ X
        self.weights += ones.sum(axis=1)

    def move(self):
        """Move centres to the means of their rows; how far, squared and summed."""
        rows, k = self.rows, len(self.centres)
        if rows.weight is not None:
            # Differences of weights do not add up to 0 where no rows are left.
            self.weights = np.bincount(self.labels, rows.weight, k)
        full = self.weights.min() > 0
        new = self.sums / self.weights[:, None] if full else self._with_all()
        new = new.astype(rows.X.dtype, copy=False)
        away = (new - self.centres).astype(np.float64, copy=False)
        squares = np.einsum("ij,ij->i", away, away)
        steps = np.sqrt(squares) * rows.unit
        order = np.argsort(steps)
        others = np.full(k, steps[order[-1]])
        others[order[-1]] = steps[order[-2]] if k > 1 else 0.0
        self.travelled += steps + others
        self.centres = new
        return squares.sum()

    def _with_all(self):
        rows = self.rows
        away = ((rows.X - self.centres[self.labels]) ** 2).sum(axis=1)
        n_empty = int((self.weights <= 0).sum())
        far = np.argpartition(away, -n_empty)[: -n_empty - 1 : -1]
        weight = np.ones(n_empty) * rows.weight_of(far)
        of_far = rows.X[far], self.labels[far], weight, away[far]
        return moved_to_far_rows(self.sums, self.weights, *of_far)

    def cost(self):
        """Weighted squared distances of rows from their centres."""
        rows, centres = self.rows, self.centres.astype(np.float64, copy=False)
        cost = np.sum(centres * (self.weights[:, None] * centres - 2.0 * self.sums))
        cost = rows.total + float(cost)
        if rows.X.dtype == np.float64 and rows.follows and cost > CLEAR_SHARE * rows.total:
            return cost
        away = rows.X - self.centres[self.labels]
        squares = np.einsum("ij,ij->i", away, away) * rows.weight_of(slice(None))
        return float(np.sum(squares, dtype=np.float64))


@dataclass(frozen=True)
class _Centres:
    """Centres (k, p) that rows are compared with.

    `coefs` (k, p + 2) give squared distances of single rows; `longest` is the squared length of the
    longest row or centre, in their units. The last bits of a distance make room for the number of
    its centre, `mask`.
    """

    centres: np.ndarray
    rows: Rows
    coefs: np.ndarray
    longest: float
    mask: int

    @classmethod
    def of(cls, centres, rows):
        k, p = centres.shape
        coefs = np.ones((k, p + 2), dtype=np.float32)
        scaled = centres.astype(np.float64) * rows.unit
        lengths = np.einsum("ij,ij->i", scaled, scaled)
        coefs[:, :p], coefs[:, -1] = -2.0 * scaled, lengths
        longest = max(1.0, float(lengths.max()))
        return cls(centres, rows, coefs, longest, (1 << (k - 1).bit_length()) - 1)

    def nearest(self, which):
        """The nearest centres (m,) of some rows, and by how much the next ones are farther."""
        mask, k = self.mask, len(self.coefs)
        single = self.rows.single
        rows = single[which] if isinstance(which, slice) else single.take(which, axis=0)
        squares = self.coefs @ rows.T
        np.maximum(squares, 0.0, out=squares)
        # Numbers that are not negative are in the order of their bits.
        bits = squares.view(np.int32)
        bits &= ~mask
        bits |= np.arange(k, dtype=np.int32)[:, None]
        least, next_least = _two_least(bits)
        new = (least & mask).astype(np.intp)
        slack = self._slack(np.float32) + 2.0 * mask * np.finfo(np.float32).eps * self.longest
        gap = _gap(least.view(np.float32), next_least.view(np.float32), np.float32(slack))
        unsure = np.flatnonzero(gap <= 0.0)
        if len(unsure):
            numbers = unsure + which.start if isinstance(which, slice) else which[unsure]
            new[unsure], gap[unsure] = self._nearest_by_all_digits(numbers)
        return new, gap

    def _nearest_by_all_digits(self, numbers):
        X, centres = self.rows.X[numbers], self.centres
        squares = (-2.0 * centres) @ X.T
        squares += np.einsum("ij,ij->i", centres, centres)[:, None]
        new = squares.argmin(axis=0)
        squares += self.rows.lengths[numbers]
        squares *= self.rows.unit**2
        least, next_least = _two_least(squares)
        return new, _gap(least, next_least, self._slack(X.dtype))

    def _slack(self, dtype):
        return ROUNDINGS * (self.centres.shape[1] + 4) * float(np.finfo(dtype).eps) * self.longest


def _gap(least, next_least, slack):
    """How much longer the root of one square is than that of the other, at least."""
    near = np.sqrt(np.maximum(least, 0.0) + slack)
    return np.sqrt(np.maximum(next_least - slack, 0.0)) - near


def _two_least(values):
    """The least of each column (k, m), and the next one: the largest number where k is 1."""
    most = np.finfo(np.float32).max
    most = np.float32(most).view(np.int32) if values.dtype == np.int32 else most
    least, next_least = values[0].copy(), np.full(values.shape[1], most, dtype=values.dtype)
    for each in values[1:]:
        np.minimum(next_least, np.maximum(least, each), out=next_least)
        np.minimum(least, each, out=least)
    return least, next_least
