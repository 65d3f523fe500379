"""Least squares on every subset of the features, scored on held-out rows.

Gaussian elimination decides on one feature after another. A feature that is taken into the model
is eliminated from the training moments of those that come after it and of the targets, and the
same combinations of rows and columns turn the held-out moments into those of what is left of these
features and targets: of the targets, residuals. A feature that is left out is dropped. So a
subset needs no coefficients, and, of q features that are still to be decided on, a step takes some
q^2 operations for two subsets: twice as many subsets for each feature less, of which the last ones
take next to nothing. All subsets of p features cost a few dozen operations each [1]_.

References
----------
.. [1] G. M. Furnival, R. W. Wilson, "Regressions by leaps and bounds", Technometrics 16 (1974),
   for the tree of subsets.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import comb
from typing import Any

from gpuml._arrays import Array, namespace
from gpuml.solvers.swept import LEAST_PIVOT

WORD = 62  # features of which a number says whether they are in


@dataclass(frozen=True)
class Subsets:
    """B subsets of equally many of the features that are decided on; q are not, t targets.

    Attributes
    ----------
    train : array (q + t, q, S, B)
        Moments of training parts of what is left of features and targets.
    test : array (q + t, q + t, S, B)
        Those of held-out parts.
    sums : array (q + t, S, B)
        Sums over held-out rows.
    words : int64 array (W, B)
        Bits of the features that are in.
    """

    train: Array
    test: Array
    sums: Array
    words: Array

    @property
    def n_undecided(self) -> int:
        return int(self.train.shape[1])

    def __len__(self) -> int:
        return int(self.words.shape[-1])

    @property
    def size(self) -> int:
        """Numbers in the arrays."""
        n_rows, q = self.train.shape[:2]
        return int(n_rows * (n_rows + q) * self.train.shape[2] * len(self))

    def without_next(self) -> "Subsets":
        """The next feature is left out."""
        train, test = self.train[1:, 1:, ...], self.test[1:, 1:, ...]
        return Subsets(train, test, self.sums[1:, ...], self.words)

    def with_next(self, feature: int) -> "Subsets":
        """The next feature, which has this number, is taken in."""
        xp = namespace(self.train)
        A, T = self.train, self.test
        share = _shares(A[1:, 0, ...], A[0, 0, ...], xp)  # (q + t - 1, S, B)
        half = T[0, 1:, ...] - 0.5 * share * T[0, 0, ...]
        product = share[:, None, ...] * half[None, :, ...]
        return Subsets(
            A[1:, 1:, ...] - share[:, None, ...] * A[None, 0, 1:, ...],
            T[1:, 1:, ...] - product - xp.permute_dims(product, (1, 0, 2, 3)),
            self.sums[1:, ...] - share * self.sums[0, ...],
            _with_bit(self.words, feature),
        )

    def with_one(self, first: int) -> tuple[Array, Array, Array]:
        """As `residuals`, with each of the undecided features added; `first` numbers the first."""
        xp, q, T = namespace(self.train), self.n_undecided, self.test
        pivot, own = (_diagonal(a[:q, :q, ...], xp) for a in (self.train, T))  # (q, S, B)
        share = _shares(self.train[q:, ...], pivot, xp)  # (t, q, S, B)
        left = share * own
        left -= 2.0 * xp.permute_dims(T[:q, q:, ...], (1, 0, 2, 3))
        squares = _diagonal(T[q:, q:, ...], xp)[:, None, ...] + share * left
        sums = self.sums[q:, None, ...] - share * self.sums[:q, ...]
        words = xp.stack([_with_bit(self.words, first + j) for j in range(q)], axis=1)
        return _flat(squares, xp), _flat(sums, xp), xp.reshape(words, (words.shape[0], -1))

    def residuals(self) -> tuple[Array, Array, Array]:
        """Squares and sums of residuals (t, S, B) over held-out rows, and words."""
        q = self.n_undecided
        squares = _diagonal(self.test[q:, q:, ...], namespace(self.test))
        return squares, self.sums[q:, ...], self.words

    def joined(self, other: "Subsets | None") -> "Subsets":
        """Both."""
        if other is None:
            return self
        xp = namespace(self.train)
        pairs = zip(self._arrays(), other._arrays(), strict=True)
        return Subsets(*(xp.concat(pair, axis=-1) for pair in pairs))

    def halves(self) -> "tuple[Subsets, Subsets]":
        """The first and the last of them."""
        middle = (len(self) + 1) // 2
        first, last = (
            Subsets(*(a[..., part] for a in self._arrays()))
            for part in (slice(0, middle), slice(middle, None))
        )
        return first, last

    def _arrays(self):
        return self.train, self.test, self.sums, self.words


def _shares(column, pivot, xp):
    """Coefficients of one feature in others; nan where too little of it is left to have any."""
    return column / xp.where(pivot < LEAST_PIVOT, xp.nan, pivot)


def _diagonal(matrix, xp):
    """Diagonals (q, S, B) of matrices (q, q, S, B)."""
    return xp.permute_dims(xp.linalg.diagonal(xp.permute_dims(matrix, (2, 3, 0, 1))), (2, 0, 1))


def _flat(values, xp):
    """Values (t, q, S, B) as (t, S, q B)."""
    n_targets, q, n_splits, size = values.shape
    return xp.reshape(xp.permute_dims(values, (0, 2, 1, 3)), (n_targets, n_splits, q * size))


def _with_bit(words, feature):
    xp = namespace(words)
    bit = [[1 << feature % WORD if w == feature // WORD else 0] for w in range(words.shape[0])]
    return words + xp.asarray(bit, dtype=xp.int64, device=words.device)


def number_of_subsets(n_features: int, most: int) -> int:
    """Subsets of 0 to `most` of the features."""
    return sum(comb(n_features, k) for k in range(most + 1))


def visit_subsets(
    begin: Subsets,
    most: int,
    visit: Callable[[int, tuple[Array, Array, Array]], None],
    n_numbers: int,
) -> None:
    """Call `visit` with sizes and residuals of all subsets of 1 to `most` features.

    Parameters
    ----------
    begin : Subsets
        The empty one, with p features to decide on.
    most : int
    visit : callable
        Of a number of features, and squares and sums of residuals (t, S, B) and words (W, B).
    n_numbers : int
        Subsets are worked on together while they take no more numbers than this.
    """
    p = begin.n_undecided
    stack = [{0: begin}]
    while stack:
        front = stack.pop()
        if sum(some.size for some in front.values()) > n_numbers and _can_be_split(front):
            stack.extend(_halves(front))
            continue
        q = next(iter(front.values())).n_undecided
        if q == 0:
            for size, some in front.items():
                if size:
                    visit(size, some.residuals())
            continue
        _visit_last(front, p - q, most, visit)
        if front:
            stack.append(_decided(front, p - q))


def _decided(front, feature):
    """A front with one feature in or out; keys are sizes."""
    found: dict[int, Subsets] = {}
    for size, some in front.items():
        found[size] = some.without_next().joined(found.get(size))
        found[size + 1] = some.with_next(feature)
    return found


def _visit_last(front, first, most, visit):
    """Take out of a front those that only one feature more may be added to, and visit all these."""
    for size in [size for size in front if size >= most - 1]:
        some = front.pop(size)
        if size:
            visit(size, some.residuals())
        if size < most:
            visit(size + 1, some.with_one(first))


def _can_be_split(front):
    return any(len(some) > 1 for some in front.values())


def _halves(front) -> list[dict[int, Subsets]]:
    halves: list[dict[int, Any]] = [{}, {}]
    for size, some in front.items():
        for half, part in zip(halves, some.halves(), strict=True):
            if len(part):
                half[size] = part
    return halves
