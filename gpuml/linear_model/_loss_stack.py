"""Models of all candidates on all splits that minimise a loss step by step, as a search sees them.

What kind of models they are (classes, counts, ...) is for a `Kind` to say: its loss, what it makes
of margins, and how its fitted attributes look. Dense, sparse and divided rows are fitted alike.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from gpuml._arrays import Array, device_of, itemsize, move, namespace, to_host
from gpuml._arrays.ops import constant
from gpuml.data import Batch, Folds, Frame, split_weights, whole
from gpuml.designs import Dense, Design, Sparse
from gpuml.designs._sparse_ops import spread_columns
from gpuml.linear_model._responses import Responses
from gpuml.linear_model._stack import at_home
from gpuml.losses import Loss
from gpuml.resampling.stand_ins import refuse
from gpuml.solvers._blocks import quiet
from gpuml.solvers.affine import dual
from gpuml.solvers.described import frame_maps
from gpuml.solvers.lbfgs import Solved
from gpuml.solvers.loss_models import Options, Penalties, solve
from gpuml.solvers.loss_rows import AnyLossRows, DividedLossRows, LossRows
from gpuml.solvers.newton import check_squares, mean_targets
from gpuml.solvers.sparse_rows import SparseBatch, folds_without_rows

# Squares of larger values, summed over many rows, may overflow.
LARGEST_VALUE = 1e150


@dataclass(frozen=True)
class Strength:
    """Penalties ``l2 |W|^2 / 2 + l1 |W|_1`` of one candidate, in units of its `Family`."""

    l2: float
    l1: float
    fit_intercept: bool


@dataclass(frozen=True)
class Family:
    """What the targets of some rows ask of models.

    Attributes
    ----------
    loss : Loss
    n_vectors : int
        k: coefficient vectors of one model.
    rarest : int
        Rows of the rarest kind of targets in any training part, which a sample must not miss.
    factors : array (S, k) or None
        What rows of each class count times.
    of_mean : bool
        Whether penalties are added to the mean loss; else to the sum of losses.
    """

    loss: Loss
    n_vectors: int
    rarest: int
    factors: Array | None = None
    of_mean: bool = False


class Kind(Protocol):
    """A kind of models under a loss."""

    def family(self, folds: Folds) -> Family:
        """What the targets of some rows ask of models."""

    def why_weightless(self) -> str:
        """What to say of a training part that weighs nothing."""

    def responses(self, coef: Array, intercept: Array) -> Responses:
        """What models (C, S, k, p) and (C, S, k) say of rows."""

    def attributes(
        self, batch: Batch, coef: Array, intercept: Array, n_iter: int, *, fit_intercept: bool
    ) -> dict:
        """Fitted attributes from coefficients (k, p) and intercepts (k,) in the user's library."""

    @property
    def stack(self) -> "type[LossStack]":
        """What a search asks for answers."""


@dataclass(frozen=True)
class LossStack:
    """What `multifit` of an estimator that minimises a loss returns, whatever its kind.

    Attributes
    ----------
    folds : Folds
    solved : Solved
        Models (C, S, k, q) on the compute device; of sparse rows, of the columns in use.
    strengths : sequence of C Strengths
    options : Options
        Of the solver, for the fit on all rows.
    kind : Kind
    """

    folds: Folds
    solved: Solved
    strengths: Sequence[Strength]
    options: Options
    kind: Kind

    @property
    def n_candidates(self) -> int:
        return len(self.strengths)

    @property
    def n_passes(self) -> int:
        """Passes over the rows that the slowest model took."""
        return int(self.solved.n_iter.max()) + 1

    @cached_property
    def models_of_rows(self) -> Array:
        """The models (C, S, k, q) as functions of the rows, whatever frame they are in."""
        frame = _frame(self.folds)
        return self.solved.W if frame is None else self.solved.W @ frame

    @property
    def responses(self) -> Any:
        """What the models say of rows, without any rows."""
        W = self.models_of_rows
        return self.kind.responses(W[..., :-1], W[..., -1])

    def pick(self, candidate: int, split: int | None) -> dict[str, Any]:
        """Fitted attributes of one model; split None means the model of all rows."""
        batch, solved, strength = self.folds.batch, self.solved, self.strengths[candidate]
        if split is None:
            everything = whole(batch)
            if self.folds.frame is not None:
                everything = replace(everything, frame=_OfAll(self.folds.frame))
            start = self._start(candidate)
            solved = fit_loss(everything, self.kind, [strength], self.options, start)
            candidate = split = 0
        W = solved.W[candidate, split, ...]
        coef = W[:, :-1]
        if isinstance(batch, SparseBatch):
            coef = spread_columns(coef, batch.columns, batch.n_columns)
            batch = batch.without_rows()
        # A model that needed no step has been looked at once; scikit-learn counts that as one too.
        n_iter = min(max(1, int(solved.n_iter[candidate, split])), self.options.max_iter)
        coef, intercept = at_home(coef, batch), at_home(W[:, -1], batch)
        flag = strength.fit_intercept
        return self.kind.attributes(batch, coef, intercept, n_iter, fit_intercept=flag)

    def _start(self, candidate: int) -> Array | None:
        """Where the fit on all rows begins, (1, 1, k, q): at the mean of the models of the splits.

        It is a mean of models of the rows: in frames that differ, the same numbers are other
        models. None where it has no coordinates in the frame of all rows.
        """
        xp = namespace(self.solved.W)
        mean = xp.mean(self.models_of_rows[candidate, ...], axis=0)
        if self.folds.frame is None:
            return mean[None, None, ...]
        maps = self.folds.frame.of(None)
        if not maps.diagonal:
            return None
        coef = mean[:, :-1] / xp.linalg.diagonal(maps.matrix)[0, :]
        intercept = mean[:, -1:] - xp.sum(coef * maps.offset[0, :], axis=-1, keepdims=True)
        if not self.strengths[candidate].fit_intercept:
            intercept = xp.zeros_like(intercept)  # what is left is what frames differ by
        return xp.concat([coef, intercept], axis=-1)[None, None, ...]


def fit_loss(
    folds: Folds,
    kind: Kind,
    strengths: Sequence[Strength],
    options: Options,
    start: Array | None = None,
    advance: Callable[[int], None] | None = None,
) -> Solved:
    """Models of every candidate on the training part of every split.

    Raises
    ------
    UnfittableSplits
        If the training part of a split weighs nothing, or its targets allow no model.
    """
    bare = folds_without_rows(folds) if isinstance(folds.batch, SparseBatch) else folds
    family = kind.family(bare)
    data = _loss_rows(folds, bare, family, _frame(folds), options.block_bytes, advance)
    total = data.total_weights()
    units = namespace(total).ones_like(total) if family.of_mean else total
    n_features = data.n_features if folds.frame is None else folds.n_features
    penalties = penalties_of(strengths, total, units, n_features, kind)
    rarest = 0
    if start is None:
        start, rarest = _without_features(data, penalties), family.rarest
    return _solve(data, penalties, start, options, strengths, rarest)


def _without_features(data, penalties):
    """Where to begin (C, S, k, q): at models without features, where their minimum is known."""
    xp = data.place.xp
    shape = (*penalties.l2.shape, data.n_vectors, penalties.n_features + 1)
    start = xp.zeros(shape, dtype=xp.float64, device=device_of(penalties.l2))
    if data.loss.link is None:
        return start
    level = data.loss.link(mean_targets(data), xp)[None, :] * penalties.intercept[:, None]
    return start + level[..., None, None] * penalties.ends


def _solve(data, penalties, start, options, strengths, rarest):
    has_l1 = any(s.l1 > 0 for s in strengths)
    try:
        found = solve(data, penalties, start, options, has_l1=has_l1, rarest=rarest)
        with quiet():
            check_squares(found.violation**2, np)  # of models that took no step, too
        return found
    except OverflowError as error:
        largest = to_host(data.largest_values())
        unfit = np.flatnonzero(largest > LARGEST_VALUE).tolist()
        refuse(dict.fromkeys(unfit, str(error)), len(largest))
        raise ValueError(str(error)) from error


def _loss_rows(folds, bare, family, frame, block_bytes, advance) -> AnyLossRows:
    """The rows of folds as the solver reads them; `frame` is that of the models."""
    batch = bare.batch
    xp = batch.work.xp
    dtype = _dtype(batch)
    if batch.holders is not None:
        return DividedLossRows(
            holders=batch.holders.map(_loss_rows_of_piece, family, frame, block_bytes),
            n_rows=batch.n_rows,
            n_features=batch.n_features,
            n_splits=folds.n_splits,
            itemsize=itemsize(batch.X.dtype),
            dtype=dtype,
            loss=family.loss,
            n_vectors=family.n_vectors,
            place=batch.work,
            frame=frame,
        )
    target = batch.codes if batch.codes is not None else move(batch.y[:, 0], batch.work)
    return LossRows(
        design=_design(folds.batch, block_bytes),
        target=xp.astype(target, xp.int64 if family.loss.coupled else dtype),
        weights=row_weights(bare, family.factors),
        loss=family.loss,
        n_vectors=family.n_vectors,
        frame=frame,
        advance=advance,
        first=batch.first,
    )


def _loss_rows_of_piece(folds, family, frame, block_bytes):
    family = replace(family, factors=move(family.factors, folds.batch.work))
    return _loss_rows(folds, folds, family, move(frame, folds.batch.work), block_bytes, None)


def _design(batch: Batch, block_bytes: int | None) -> Design:
    """What X is to the solver."""
    if isinstance(batch, SparseBatch):
        return Sparse(batch.all_rows(), block_bytes=block_bytes)
    return Dense(batch.X, batch.work, block_bytes=block_bytes)


def _dtype(batch):
    """Float dtype of the rows in the library of the work."""
    return getattr(batch.work.xp, str(batch.X.dtype).rpartition(".")[2])


def _frame(folds: Folds) -> Array | None:
    """Matrices (S, p' + 1, p + 1) that make vectors of models in a frame vectors for the rows."""
    maps = frame_maps(folds)
    return None if maps is None else dual(maps)


@dataclass(frozen=True)
class _OfAll:
    """The frame of all rows, for folds that have them as their only part."""

    frame: Frame

    @property
    def n_features(self) -> int:
        return self.frame.of(None).matrix.shape[-1]

    def of(self, splits: slice | None) -> Any:
        return self.frame.of(None)


def sum_over_pieces(folds: Folds, function: Callable[[Folds], Array]) -> Array:
    """A sum over all rows, divided or not."""
    holders = folds.batch.holders
    return function(folds) if holders is None else holders.total(function)


def row_weights(folds: Folds, factors: Array | None) -> Array | None:
    """Weights (S, n) of the rows in the training part of each split; None where all are 1.

    `factors` (S, k) are what rows of each class count times.
    """
    batch = folds.batch
    xp = batch.work.xp
    times = split_weights(folds)
    if batch.weight is None and factors is None:
        return times
    dtype = _dtype(batch)
    weights = xp.ones((1, batch.n_rows), dtype=dtype, device=batch.work.device)
    if times is not None:
        weights = xp.astype(times, dtype)
    if batch.weight is not None:
        weights = weights * move(batch.weight, batch.work)
    if factors is not None:
        for c in range(batch.n_classes):
            chosen = xp.where(batch.codes == c, xp.astype(factors[:, c : c + 1], dtype), 1)
            weights = weights * xp.astype(chosen, dtype, copy=False)
    return weights


def penalties_of(
    strengths: Sequence[Strength], total: Array, units: Array, n_features: int, kind: Kind
) -> Penalties:
    """Penalties in units of the mean loss.

    Parameters
    ----------
    strengths : sequence of C Strengths
    total : array (S,)
        Sums of the weights of training parts.
    units : array (S,)
        What strengths are divided by.
    n_features : int
    kind : Kind

    Raises
    ------
    UnfittableSplits
        If rows weigh nothing, or so little that penalties overflow.
    """
    xp = namespace(total)
    intercept = constant([float(s.fit_intercept) for s in strengths], like=total, xp=xp)
    weighs = (total > 0) & xp.isfinite(total)
    with quiet():
        per_unit = 1.0 / xp.where(weighs, units, xp.ones_like(units))[None, :]
        l2, l1 = (
            constant([[getattr(s, name)] for s in strengths], like=total, xp=xp) * per_unit
            for name in ("l2", "l1")
        )
    fine = weighs & xp.all(xp.isfinite(l2 + l1), axis=0)
    unfit = np.flatnonzero(~to_host(fine)).tolist()
    refuse({s: _why_unfit(float(total[s]), kind) for s in unfit}, total.shape[0])
    return Penalties(l2, l1, intercept, n_features)


def _why_unfit(total, kind):
    if total == 0:
        return kind.why_weightless()
    return (
        f"Sample weights sum to {total:.3g}, and the penalty 1/C over that sum is no number. "
        "Multiply them by a power of ten, or choose another C."
    )
