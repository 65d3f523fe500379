"""Models of all candidates on all splits that minimise a loss step by step.

What the targets ask of models (classes, counts, ...) is for a `Family` to say. Dense, sparse and
divided rows are fitted alike.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from gpuml._arrays import Array, Place, move, namespace, place_of, to_host
from gpuml._arrays.ops import EPS
from gpuml.data import Absent, Folds, Frame, split_weights, whole
from gpuml.designs import Beside, Dense, Design, Divided, Mapped
from gpuml.linear_model._models import Models
from gpuml.linear_model._starts import mean_model, without_features
from gpuml.losses import Loss
from gpuml.penalties import Penalty
from gpuml.resampling.stand_ins import refuse
from gpuml.solvers import row_space
from gpuml.solvers._blocks import quiet
from gpuml.solvers.affine import dual
from gpuml.solvers.described import frame_maps
from gpuml.solvers.inside import solve_inside
from gpuml.solvers.lbfgs import Solved
from gpuml.solvers.loss_models import Options, passes_by_rows, solve
from gpuml.solvers.loss_rows import LossRows, mean_losses
from gpuml.solvers.newton import Objective, check_squares
from gpuml.solvers.numbered_rows import NumberedBatch, folds_without_rows

# Rows that tell the size of an objective, whose root has to be this share of what it was for more
# steps to be taken, and how often they are.
ROWS_OF_UNIT, ALIKE, MOST_UNITS = 4096, 0.3, 6
# Squares of larger values, summed over many rows, may overflow.
LARGEST_VALUE = 1e150
# Gradients of models that came to rest are at most this share of those of models without features.
LOST = 1e-3


@dataclass(frozen=True)
class Strength:
    """Penalties ``l2 |W|^2 / 2 + l1 |W|_1`` of one candidate, in units of its `Family`.

    Those of an intercept b are of ``of_intercept b``: 0 leaves it unpenalised.
    """

    l2: float
    l1: float
    fit_intercept: bool
    of_intercept: float = 0.0


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
    weightless : str
        What to say of a training part that weighs nothing.
    factors : array (S, k) or None
        What rows of each class count times.
    of_mean : bool
        Whether penalties are added to the mean loss; else to the sum of losses.
    vanishes : bool
        Whether the loss of a row may be 0, so that a tolerance has to be one of the objective.
    member : int or None
        The class whose membership, 1 or 0, is the target; None for codes of all classes.
    """

    loss: Loss
    n_vectors: int
    rarest: int
    weightless: str
    factors: Array | None = None
    of_mean: bool = False
    vanishes: bool = False
    member: int | None = None


def fit_loss(
    folds: Folds,
    family_of: Callable[[Folds], Family],
    strengths: Sequence[Strength],
    options: Options,
    start: Array | None = None,
    advance: Callable[[int], None] | None = None,
) -> tuple[Loss, Solved]:
    """The loss of some rows, and models of every candidate on the training part of every split.

    Raises
    ------
    UnfittableSplits
        If the training part of a split weighs nothing, or its targets allow no model.
    """
    bare = _bare(folds)
    family = family_of(bare)
    data = _loss_rows(folds, bare, family, _maps(folds), options.block_bytes, advance)
    if isinstance(data.design, Beside) and any(s.l1 > 0 or not s.l2 > 0 for s in strengths):
        raise ValueError(
            "Models with a column for each of many levels need an l2 penalty alone: leave out "
            "l1_ratio, and C=inf or alpha=0."
        )
    total = data.total_weights
    units = namespace(total).ones_like(total) if family.of_mean else total
    n_features = data.design.shape[1]
    penalty = penalty_of(strengths, total, units, n_features, family.weightless)
    given, rarest = start, 0
    if start is None:
        start, rarest = without_features(data, penalty), family.rarest
    owners = None if folds.outside is None or given is not None else folds.outside.owners
    found = _solve(data, penalty, start, options, strengths, rarest, owners)
    lost = _are_lost(found, data, penalty, options.tol)
    if (given is not None or owners is not None) and lost.any():
        # Where curvatures vanish, as beyond where rates are 0 or 1, no step leads away from there.
        start, wasted = without_features(data, penalty), found.n_iter
        found = _solve(data, penalty, start, options, strengths, family.rarest)
        found = replace(found, n_iter=found.n_iter + wasted)
        lost = _are_lost(found, data, penalty, options.tol)
    found = replace(found, stalled=found.stalled & ~lost)
    if family.vanishes:
        found = _solved_in_units(found, data, penalty, options, strengths)
    return family.loss, found


@dataclass(frozen=True)
class Problem:
    """What an estimator minimises, and how.

    Attributes
    ----------
    family : callable
        ``family(folds) -> Family``
    options : Options
        Of the solver.
    kind : type
        `RegressionModels` or `ClassModels`.
    attributes : callable
        As of `Models`.
    flat_coef : bool
        Whether `coef_` has one axis.
    fit : callable
        As `fit_loss`, which it is for models of one loss.
    """

    family: Callable[[Folds], Any]
    options: Options
    kind: type[Models]
    attributes: Callable[[Models, int, int], dict[str, Any]]
    flat_coef: bool = False
    fit: Callable[..., tuple[Loss | None, Solved]] = fit_loss

    def models(
        self,
        folds: Folds,
        strengths: Sequence[Strength],
        start: Array | None = None,
        advance: Callable[[int], None] | None = None,
        warn: Callable[[Solved], None] | None = None,
    ) -> Models:
        """Models of every candidate on the training part of every split; see `fit_loss`.

        `warn` is shown what the solver found.
        """

        def refit(models, candidate):
            # Their mean is close to the model of all rows.
            everything = whole(folds.batch)
            if folds.frame is not None:
                everything = replace(everything, frame=_OfAll(folds.frame))
            strength = strengths[candidate]
            begin = mean_model(models, candidate, fit_intercept=strength.fit_intercept)
            return self.models(everything, [strength], begin)

        loss, solved = self.fit(folds, self.family, strengths, self.options, start, advance)
        if warn is not None:
            warn(solved)
        # A model that needed no step has been looked at once; scikit-learn counts that as one too.
        n_iter = np.minimum(np.maximum(1, solved.n_iter), self.options.max_iter)
        n_read = solved.n_iter if solved.n_read is None else solved.n_read
        return self.kind(
            folds=folds,
            coef=solved.W[..., :-1],
            intercept=solved.W[..., -1],
            fit_intercept=[strength.fit_intercept for strength in strengths],
            n_passes=int(n_read.max()) + 1,
            refit=refit,
            attributes=self.attributes,
            n_iter=n_iter,
            loss=loss,
            flat_coef=self.flat_coef,
            # Twice in the space of the rows, and before.
            words="" if solved.n_read is None else row_space.words(int(solved.n_read.max()) - 1),
        )


def _solve(data, penalty, start, options, strengths, rarest, owners=None):
    has_l1 = any(s.l1 > 0 for s in strengths)
    method = solve if owners is None else partial(solve_inside, owners=owners)
    try:
        found = method(data, penalty, start, options, has_l1=has_l1, rarest=rarest)
        with quiet():
            check_squares(found.violation**2, np)  # of models that took no step, too
        return found
    except OverflowError as error:
        largest = to_host(data.largest_values())
        unfit = np.flatnonzero(largest > LARGEST_VALUE).tolist()
        refuse(dict.fromkeys(unfit, str(error)), len(largest))
        raise ValueError(str(error)) from error


def _are_lost(found, data, penalty, tol):
    """Which models (C, S) came to rest where gradients are not what rounding leaves of them."""
    lost = found.stalled & ~(found.violation <= tol)
    if not lost.any():
        return lost
    objective = Objective(data, data.total_weights, penalty)
    with quiet():
        gradient = objective.gradient(without_features(data, penalty))
    xp = namespace(gradient)
    size = LOST * to_host(xp.max(xp.abs(gradient), axis=(-2, -1)))
    rounding = float(data.place.xp.finfo(data.design.dtype).eps) ** 0.5
    return lost & ~(found.violation <= np.maximum(size, rounding))


def _solved_in_units(found, data, penalty, options, strengths):
    """Models as near to the minimum as `tol` says where the objective is 1, whatever it is there.

    The decrease that is left is about the square of a gradient.
    """
    sample, unit = data.every(max(1, data.n_rows // ROWS_OF_UNIT)), 1.0
    for _ in range(MOST_UNITS):
        xp = namespace(found.W)
        penalties = xp.sum(penalty.value(found.W, xp), axis=-1)
        values = to_host(penalties) + to_host(mean_losses(sample, found.W))
        smaller = max(float(values[~found.stalled].min(initial=1.0)), EPS) ** 0.5
        left = options.max_iter - int(found.n_iter.max())
        if smaller > ALIKE * unit or left < 1:
            break
        unit, before = smaller, found.n_iter
        tighter = replace(options, tol=options.tol * unit, max_iter=left)
        found = _solve(data, penalty, found.W, tighter, strengths, 0)
        n_read = None if found.n_read is None else found.n_read + before
        found = replace(found, n_iter=found.n_iter + before, n_read=n_read)
    return replace(found, violation=found.violation / unit)


def _loss_rows(folds, bare, family, maps, block_bytes, advance) -> LossRows:
    """The rows of folds as the solver reads them; `maps` are those of the splits, or None."""
    batch = bare.batch
    xp = batch.work.xp
    target: Any = Absent((batch.n_rows,), np.dtype(float))
    weights: Any = Absent((folds.n_splits, batch.n_rows), np.dtype(float))
    design: Design
    if batch.holders is not None:
        shards = batch.holders.map(_loss_rows_of_shard, family, maps, block_bytes)
        absent = Absent((batch.n_rows, batch.n_features), batch.X.dtype)
        design = Divided(shards, absent, batch.work)
    else:
        design = _design(folds, block_bytes)
        target = batch.codes if batch.codes is not None else move(batch.y[:, 0], batch.work)
        target = target if family.member is None else target == family.member
        target = xp.astype(target, xp.int64 if family.loss.coupled else _dtype(batch))
        if target.ndim > 1:  # candidates have their own
            target = target[:, None, :] if target.shape[0] > 1 else target[0, :]
        weights = row_weights(bare, family.factors)
    design = design if maps is None else Mapped(design, maps)
    apart: Any = folds.batch.apart if isinstance(folds.batch, NumberedBatch) else None
    return LossRows(
        design=design if apart is None else Beside(design, apart),
        target=target,
        weights=weights,
        loss=family.loss,
        n_vectors=family.n_vectors,
        advance=advance,
        first=batch.first,
    )


def _loss_rows_of_shard(folds, family, maps, block_bytes):
    family = replace(family, factors=move(family.factors, folds.batch.work))
    return _loss_rows(folds, _bare(folds), family, move(maps, folds.batch.work), block_bytes, None)


def _bare(folds: Folds) -> Folds:
    """Folds without the rows where those are looked up by number, unless they are divided."""
    looked_up = isinstance(folds.batch, NumberedBatch) and not folds.batch.is_divided
    return folds_without_rows(folds) if looked_up else folds


def _design(folds: Folds, block_bytes: int | None) -> Design:
    """What X is to the solver."""
    batch = folds.batch
    if isinstance(batch, NumberedBatch):
        return batch.design(block_bytes)
    known = folds.known.setdefault("dense", {})
    return Dense(batch.X, batch.work, known=known, block_bytes=block_bytes)


def _dtype(batch):
    """Float dtype of the rows in the library of the work."""
    return getattr(batch.work.xp, str(batch.X.dtype).rpartition(".")[2])


def words_before(
    X: Array,
    place: Place,
    loss: Loss,
    n_vectors: int,
    strengths: Sequence[Strength],
    n_splits: int,
    options: Options,
) -> str:
    """How `explain` describes a fit of models in the space of rows X at a place."""
    xp, device = place.xp, place.device
    dtype = getattr(xp, str(X.dtype).rpartition(".")[2])
    there = xp.broadcast_to(xp.zeros((), dtype=dtype, device=device), X.shape)
    weights = xp.broadcast_to(xp.ones((), dtype=dtype, device=device), (n_splits, X.shape[0]))
    data = LossRows(Dense(there, place), there[:, 0], weights, loss, n_vectors)
    total = xp.full(n_splits, float(X.shape[0]), device=device)
    penalty = penalty_of(strengths, total, total, X.shape[1], "")
    shape = (len(strengths), n_splits, n_vectors, X.shape[1] + 1)
    has_l1 = any(s.l1 > 0 for s in strengths)
    n_first = passes_by_rows(data, penalty, shape, options, has_l1=has_l1)
    if n_first >= options.max_iter:
        return ""
    return row_space.words(n_first) + (", if they take more" if n_first else "")


def _maps(folds: Folds) -> Array | None:
    """Matrices (S, p' + 1, p + 1) that make vectors of models in a frame vectors for the rows."""
    maps = frame_maps(folds)
    return None if maps is None else move(dual(maps), folds.batch.work)


@dataclass(frozen=True)
class _OfAll:
    """The frame of all rows, for folds that have them as their only part."""

    frame: Frame

    @property
    def n_features(self) -> int:
        return self.frame.of(None).matrix.shape[-1]

    def width(self, split: int | None) -> int:
        return self.frame.width(None)

    def of(self, splits: slice | None) -> Any:
        return self.frame.of(None)


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


def penalty_of(
    strengths: Sequence[Strength], total: Array, units: Array, n_features: int, weightless: str
) -> Penalty:
    """The penalty of coefficients (C, S, k, q) in units of the mean loss.

    Parameters
    ----------
    strengths : sequence of C Strengths
    total : array (S,)
        Sums of the weights of training parts.
    units : array (S,)
        What strengths are divided by.
    n_features : int
    weightless : str
        As of `Family`.

    Raises
    ------
    UnfittableSplits
        If rows weigh nothing, or so little that penalties overflow.
    """
    like, total, units = total, to_host(total), to_host(units)
    used = np.asarray([float(s.fit_intercept) for s in strengths])[:, None, None, None]
    weighs = (total > 0) & np.isfinite(total)
    with quiet():
        per_unit = 1.0 / np.where(weighs, units, 1.0)[None, :]
        l2, l1 = (
            np.asarray([[getattr(s, name)] for s in strengths], dtype=float) * per_unit
            for name in ("l2", "l1")
        )
    fine = weighs & np.isfinite(l2 + l1).all(axis=0)
    unfit = np.flatnonzero(~fine).tolist()
    refuse({s: _why_unfit(float(total[s]), weightless) for s in unfit}, len(total))
    ends = np.append(np.zeros(n_features), 1.0)  # 1 for the intercept
    share = np.asarray([s.of_intercept for s in strengths])[:, None, None, None] * ends
    l1, l2 = (a[..., None, None] * (1.0 - ends + share**power) for a, power in ((l1, 1), (l2, 2)))
    return Penalty(*(move(a, place_of(like)) for a in (l1, l2, 1.0 - (1.0 - used) * ends)))


def _why_unfit(total, weightless):
    if total == 0:
        return weightless
    return (
        f"Sample weights sum to {total:.3g}, and the penalty 1/C over that sum is not finite. "
        "Multiply them by a power of ten, or choose another C."
    )
