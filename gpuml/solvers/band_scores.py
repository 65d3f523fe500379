r"""Held-out scores of ridge regression with groups of features, of every target and penalty.

Shares of groups, which sum to 1, and a penalty alpha stand for the penalties ``alpha / share`` of
`bands`: features of a group are multiplied by the root of its share, and penalised by alpha [1]_.
One eigendecomposition ``V L V'`` of the scaled moments of a training part gives the models
``V c``, ``c = (L + alpha I)^{-1} V' X'y``, of all alphas and targets. From moments H = X'X and
g = X'y of held-out rows about the training means, their squared errors are

    |y|^2 - 2 c' V'g + c' (V' H V) c ,

without a prediction. With more features than rows, eigenvectors are those of inner products of
rows, and held-out rows are predicted. Scores above 1 - 1e-10 differ by rounding.

References
----------
.. [1] T. Dupre la Tour, M. Eickenberg, A. O. Nunez-Elizalde, J. L. Gallant, "Feature-space
   selection with banded ridge regression", NeuroImage 264 (2022).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuml._arrays import Array, is_numpy, move, namespace, to_host
from gpuml._arrays.ops import all_true, constant
from gpuml._arrays.threads import threads_for_order
from gpuml.data import row_indices, take
from gpuml.solvers.bands import GroupKernels
from gpuml.solvers.described import Described, Training, training_parts
from gpuml.solvers.moments import normal_equations
from gpuml.solvers.ridge import counts_of_rows

# Scores of all targets and alphas, for some shares at once, and errors of several alphas at once.
SCORE_BYTES = 2**28
HOST_BYTES = 2**22


def held_out_scores(
    described: Described,
    shares: np.ndarray,
    alphas: np.ndarray,
    fit_intercept: bool,
    *,
    group: np.ndarray,
    scoring: str,
) -> Iterator[np.ndarray]:
    """Means over splits of held-out scores (A, t) of all alphas and targets, shares by shares.

    Parameters
    ----------
    described : Described
        Of dense rows, without a frame.
    shares : ndarray (N, G), host
    alphas : ndarray (A,), host
        Positive.
    fit_intercept : bool
    group : int ndarray (p,)
        The group of each feature.
    scoring : {"r2", "neg_mean_squared_error"}

    Yields
    ------
    ndarray (A, t), host

    Raises
    ------
    ValueError
        If the training or the held-out part of a split has no weight.
    """
    t, n_splits = described.folds.batch.y.shape[1], described.folds.n_splits
    step = max(1, SCORE_BYTES // (8 * len(alphas) * t))
    kind = _Moments if described.kernel is None else _Kernels
    for start in range(0, len(shares), step):
        total: list[Any] = [0.0] * len(shares[start : start + step])
        for parts in training_parts(described.folds):
            for split in kind.all_of(described, parts, fit_intercept, group):
                with threads_for_order(split.order):
                    for i, own in enumerate(shares[start : start + step]):
                        errors = split.errors(own, alphas)
                        total[i] = total[i] + split.held_out.score(errors, scoring)
        yield from (to_host(each) / n_splits for each in total)


def _check_weights(train, held):
    """Refuse parts of splits without weight, where a mean or a score would divide zero by zero."""
    xp = namespace(train)
    if not (all_true(train > 0, xp) and all_true(held > 0, xp)):
        raise ValueError(
            "Sample weights of the training or of the held-out part of a split sum to zero, so "
            "that its models cannot be fitted or scored. Shuffle the rows, or leave out those "
            "without weight."
        )


@dataclass(frozen=True)
class _HeldOut:
    """Of held-out rows: their weight, and sums (t,) of squares of targets about the mean."""

    weight: Array
    squares: Array

    def score(self, errors: Array, scoring: str) -> Array:
        """Scores (A, t) of sums (A, t) of squared errors."""
        xp = namespace(errors)
        if scoring == "neg_mean_squared_error":
            return -errors / self.weight
        varies = self.squares > 0
        share = errors / xp.where(varies, self.squares, xp.ones_like(self.squares))
        return xp.where(varies, 1.0 - share, xp.zeros_like(share))


@dataclass(frozen=True)
class _Moments:
    """Moments of a training part and, about its means, of the rows it holds out."""

    group: np.ndarray
    xx: Array
    xy: Array
    held_xx: Array
    held_xy: Array
    held_yy: Array
    held_out: _HeldOut

    @classmethod
    def all_of(
        cls, described: Described, parts: Training, fit_intercept: bool, group: np.ndarray
    ) -> "Iterator[_Moments]":
        """Those of some splits."""
        moments = described.combined(parts)
        held = described.sums(parts.index, described.folds.partitions[parts.index].test)
        _check_weights(moments.gram[:, -1, -1], held.gram[:, -1, -1])
        normal = normal_equations(moments, fit_intercept)
        xp, p = namespace(normal.xx), held.n_features
        means = xp.concat([normal.x_mean, normal.y_mean], axis=-1)
        for s in range(len(parts)):
            gram = held.gram[s, ...]
            apart = means[s, :] - (held.shift if held.shift.ndim == 1 else held.shift[s, :])
            weight, diagonal = gram[-1, -1], xp.linalg.diagonal(gram)[p:-1]
            squares = _not_rounding(diagonal - gram[p:-1, -1] ** 2 / weight, diagonal)
            held_out = _HeldOut(weight, squares)
            sums = normal.xx[s, ...], normal.xy[s, ...], *_about(gram, apart, p)
            yield cls(group, *sums, held_out)

    @property
    def order(self) -> int:
        return self.xx.shape[0]

    def errors(self, shares: np.ndarray, alphas: np.ndarray) -> Array:
        """Sums (A, t) of squared errors of all alphas, with shares (G,) of the groups."""
        xp = namespace(self.xx)
        scale = constant(np.sqrt(shares)[self.group], like=self.xx, xp=xp)
        values, vectors = xp.linalg.eigh(self.xx * scale[:, None] * scale)
        values = xp.where(values > 0, values, xp.zeros_like(values))
        vectors = vectors * scale[:, None]
        rotated = vectors.T @ self.xy  # (p, t)
        held_xx, held_xy = vectors.T @ self.held_xx @ vectors, vectors.T @ self.held_xy
        found = []
        for some in _runs(alphas, rotated):
            damped = values + constant(some, like=values, xp=xp)[:, None]
            c = rotated / damped[..., None]  # (A, p, t)
            found.append(self.held_yy + xp.sum(c * (held_xx @ c - 2.0 * held_xy), axis=-2))
        errors = xp.concat(found)
        return xp.where(errors > 0, errors, xp.zeros_like(errors))


def _not_rounding(squares, size):
    """Sums of squares about means, with 0 for what is rounding: targets are constant there."""
    xp = namespace(squares)
    return xp.where(squares > 1e-14 * size, squares, xp.zeros_like(squares))


def _about(gram: Array, apart: Array, p: int) -> tuple[Array, Array, Array]:
    """Moments xx (p, p), xy (p, t) and yy (t,) about what is so far (q - 1,) from the shift."""
    xp = namespace(gram)
    sums, weight = gram[:-1, -1], gram[-1, -1]
    # (z - e)(z - e)' of z = [x, y] less the shift: with u = sums - w e / 2, M - u e' - e u'.
    u = sums - 0.5 * weight * apart
    left, right = u[:p, None], apart[:p, None]
    xx = gram[:p, :p] - left * apart[:p] - right * u[:p]
    xy = gram[:p, p:-1] - left * apart[p:] - right * u[p:]
    yy = xp.linalg.diagonal(gram)[p:-1] - 2.0 * u[p:] * apart[p:]
    return xx, xy, yy


def _runs(alphas, rotated):
    """Chunks of alphas, small enough for a cache or for the device."""
    most = HOST_BYTES if is_numpy(rotated) else SCORE_BYTES
    step = max(1, most // max(1, 8 * rotated.shape[0] * rotated.shape[1]))
    return [alphas[i : i + step] for i in range(0, len(alphas), step)]


@dataclass(frozen=True)
class _Kernels:
    """Rows of a training part, and those it holds out, less the means of the former."""

    kernels: GroupKernels
    y: Array
    root: Array
    train: np.ndarray
    test: np.ndarray
    test_weight: Array
    held_out: _HeldOut

    @classmethod
    def all_of(
        cls, described: Described, parts: Training, fit_intercept: bool, group: np.ndarray
    ) -> "Iterator[_Kernels]":
        """Those of some splits."""
        folds = described.folds
        batch, xp = folds.batch, folds.batch.work.xp
        assert parts.splits is not None
        X, y = (xp.astype(move(a, batch.work), xp.float64) for a in (batch.X, batch.y))
        weight = xp.ones_like(y[:, 0])
        if batch.weight is not None:
            weight = xp.astype(move(batch.weight, batch.work), xp.float64)
        counts = counts_of_rows(folds.partitions[parts.index], parts.counts, batch.n_rows)
        for own, split in zip(counts, folds.splits[parts.splits], strict=True):
            train, test = np.flatnonzero(own), row_indices(split.test)
            once = take(weight * constant(own, like=weight, xp=xp), train, xp)
            held = take(weight, test, xp)
            total = xp.sum(held)
            _check_weights(xp.sum(once), total)
            share = once / xp.sum(once) if fit_intercept else 0.0 * once
            Z, u = X - share @ take(X, train, xp), y - share @ take(y, train, xp)
            held_y = take(u, test, xp)
            squares = held @ (held_y - held @ held_y / total) ** 2
            held_out = _HeldOut(total, _not_rounding(squares, held @ held_y**2))
            yield cls(GroupKernels(Z, group), u, xp.sqrt(once), train, test, held, held_out)

    @property
    def order(self) -> int:
        return len(self.train)

    def errors(self, shares: np.ndarray, alphas: np.ndarray) -> Array:
        """Sums (A, t) of squared errors of all alphas, with shares (G,) of the groups."""
        xp = namespace(self.y)
        K = self.kernels.sum(shares)
        rows = take(K, self.test, xp)
        rows, K = (
            take(part.T, self.train, xp).T * self.root for part in (rows, take(K, self.train, xp))
        )
        values, vectors = xp.linalg.eigh(K * self.root[:, None])
        values = xp.where(values > 0, values, xp.zeros_like(values))
        rotated = vectors.T @ (take(self.y, self.train, xp) * self.root[:, None])
        rows, own = rows @ vectors, take(self.y, self.test, xp)
        found = []
        for some in _runs(alphas, rotated):
            damped = values + constant(some, like=values, xp=xp)[:, None]
            apart = own - rows @ (rotated / damped[..., None])
            found.append(xp.sum(self.test_weight[:, None] * apart**2, axis=-2))
        return xp.concat(found)
