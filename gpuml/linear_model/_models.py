"""The one record of linear models: of all candidates on all splits, whatever they minimise."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from gpuml._arrays import Array, Place, device_of, is_numpy, is_sparse, move, namespace
from gpuml._arrays.ops import CACHE_BYTES, EPS
from gpuml._arrays.threads import threads_for_rows
from gpuml.data import Batch, Folds, cut
from gpuml.designs import Design
from gpuml.designs._sparse_ops import spread_columns, times
from gpuml.designs.sparse import float64_matrix
from gpuml.extending import ClassStack, RegressionStack, Stack
from gpuml.linear_model._classifier import softmax, two_class_probability
from gpuml.losses import Loss
from gpuml.metrics.residuals import ResidualMoments
from gpuml.solvers._result import Status
from gpuml.solvers.affine import pulled_back
from gpuml.solvers.described import Described, frame_maps, training_parts
from gpuml.solvers.moments import LEAST_SQUARE, Moments
from gpuml.solvers.numbered_rows import NumberedBatch
from gpuml.solvers.sparse_rows import SparseBatch

# The share of a sum of squared residuals that rounding may take before rows are predicted instead.
SCORE_PRECISION = 1e-10


@dataclass(frozen=True)
class Responses:
    """Predictions of linear models, without the rows of the fits.

    Attributes
    ----------
    coef : array (C, S, k, p)
    intercept : array (C, S, k)
    flat : bool
        Whether predictions have no axis of targets.
    loss : Loss or None
        Whose inverse link makes means or probabilities of margins; None for least squares.
    """

    coef: Array
    intercept: Array
    flat: bool
    loss: Loss | None

    @property
    def n_candidates(self) -> int:
        return self.coef.shape[0]

    def to(self, place: Place) -> "Responses":
        """The same models at a place."""
        return replace(self, coef=move(self.coef, place), intercept=move(self.intercept, place))

    def joined(self, others: Sequence["Responses"], order: Array) -> "Responses":
        """These candidates and those of others, in an order."""
        parts = [self, *others]
        xp = namespace(self.coef)
        coef = xp.take(xp.concat([part.coef for part in parts]), order, axis=0)
        intercept = xp.take(xp.concat([part.intercept for part in parts]), order, axis=0)
        return replace(self, coef=coef, intercept=intercept)

    def predict(self, X: Array, split: int, candidates: slice) -> Array:
        """Predictions (C, m), or (C, m, t), of some candidates for rows X (m, p), float64."""
        xp = namespace(self.coef)
        if is_sparse(X):
            X = float64_matrix(X)
        elif not isinstance(X, Design):
            X = xp.astype(X, xp.float64, copy=False)
        out = self._margins(X, split, candidates)
        out = out if self.loss is None else self.loss.mean(out, xp)
        return out[:, 0, :] if self.flat else xp.matrix_transpose(out)

    def decision(self, X: Array, split: int, candidates: slice) -> Array:
        """Decision values (C, m), or (C, m, k), of some candidates for rows X, of its dtype."""
        margins = self._margins(X, split, candidates)
        one = margins.shape[1] == 1
        return margins[:, 0, :] if one else namespace(margins).matrix_transpose(margins)

    def probability(self, decision: Array) -> Array | None:
        """Probabilities (C, m, k) of decision values; None where models know none."""
        if self.loss is None:
            return None
        xp = namespace(decision)
        return two_class_probability(decision, xp) if decision.ndim == 2 else softmax(decision, xp)

    def _margins(self, X, split, candidates):
        """Margins (C, k, m) of some candidates of one split for rows (m, p) of any kind."""
        xp = namespace(self.coef)
        coef, intercept = (
            xp.astype(a[candidates, split, ...], X.dtype, copy=False)
            for a in (self.coef, self.intercept)
        )
        n_candidates, k, p = coef.shape
        A = xp.reshape(coef, (n_candidates * k, p))
        if isinstance(X, Design):
            values = xp.matrix_transpose(X.matvec(A))
        else:
            values = times(X, A.T).T if is_sparse(X) else A @ X.T
        return xp.reshape(values + xp.reshape(intercept, (-1, 1)), (n_candidates, k, X.shape[0]))


@dataclass(frozen=True)
class Models(Stack):
    """What `multifit` of a linear estimator returns: `RegressionModels` or `ClassModels`.

    Attributes
    ----------
    folds : Folds
    coef : array (C, S, k, p)
        Float64, on the compute device, or in CPU memory if they were found there. Of the images of
        the rows where folds have a frame, and of the columns in use where rows are sparse.
    intercept : array (C, S, k)
    fit_intercept : sequence of C bools
    n_passes : int
        How often the rows were read.
    refit : callable
        ``refit(models, candidate)``: the model of one candidate on all rows, (1, 1, k, p).
    attributes : callable
        ``attributes(models, candidate, split)``: fitted attributes of a model that its estimator
        has beside, or in place of, `coef_` and `intercept_`.
    status : int ndarray (C, S), or None
        Values of `Status`, of least squares.
    n_iter : int ndarray (C, S) or (C, S, k), or None
        Iterations of iterative solvers.
    loss : Loss or None
        Whose inverse link makes means or probabilities of margins; None for least squares.
    flat_coef : bool
        Whether `coef_` has one axis.
    described : Described or None
        What sums of residuals come from, if it has moments.
    columns : int ndarray or None
        The columns that these are of; None for all.
    of_all_rows : bool
        Whether these are models of all rows, with no splits.
    words : str
        What a plan says of the way in which they were found.
    """

    folds: Folds
    coef: Array
    intercept: Array
    fit_intercept: Sequence[bool]
    n_passes: int
    refit: Callable[["Models", int], "Models"]
    attributes: Callable[["Models", int, int], dict[str, Any]]
    status: np.ndarray | None = None
    n_iter: np.ndarray | None = None
    loss: Loss | None = None
    flat_coef: bool = False
    described: Described | None = None
    columns: np.ndarray | None = None
    of_all_rows: bool = False
    words: str = ""

    @property
    def n_candidates(self) -> int:
        return self.coef.shape[0]

    @property
    def flat(self) -> bool:
        """Whether predictions and `intercept_` have no axis of targets."""
        return self.folds.batch.y_is_flat

    @cached_property
    def responses(self) -> Responses:
        """The models as functions of the rows, whatever frame they are in, without any rows."""
        coef, intercept = self._of_rows
        return Responses(coef, intercept, self.flat, self.loss).to(self.folds.batch.work)

    @cached_property
    def _of_rows(self):
        """Coefficients and intercepts for the rows themselves, where the models are."""
        maps = frame_maps(self.folds)
        if maps is None:
            return self.coef, self.intercept
        return pulled_back(self.coef, self.intercept, maps)

    def pick(self, candidate: int, split: int | None) -> dict[str, Any]:
        """Fitted attributes of one model; split None means the model of all rows."""
        if split is None:
            with threads_for_rows(*self.folds.sizes):
                return self.refit(self, candidate).pick(0, 0)
        batch = self.folds.batch
        coef, intercept = (a[candidate, split, ...] for a in (self.coef, self.intercept))
        if isinstance(batch, SparseBatch):
            coef = spread_columns(coef, batch.columns, batch.n_columns)
        coef, intercept = at_home(coef, batch), at_home(intercept, batch)
        if self.flat:
            intercept = intercept[0, ...]
            intercept = intercept[()] if batch.home.kind == "numpy" else intercept
        return {
            "coef_": coef[0, ...] if self.flat_coef else coef,
            "intercept_": intercept if self.fit_intercept[candidate] else 0.0,
            **self.attributes(self, candidate, split),
        }

    def status_of(self, candidate: int, split: int) -> Status:
        """How the solve of a model went."""
        assert self.status is not None
        return Status(int(self.status[candidate, split]))

    def iterations_of(self, candidate: int, split: int) -> Any:
        """Iterations of a model: a number, or one for each of its vectors."""
        assert self.n_iter is not None
        return self.n_iter[candidate, split]


class RegressionModels(Models, RegressionStack):
    """Models of numbers."""

    def predict(self, X: Array, split: int, candidates: slice) -> Array:
        """Predictions (C, m, t), or (C, m), of some candidates of one split for rows (m, p)."""
        return self.responses.predict(self.folds.batch.answering(X), split, candidates)

    def residual_moments(self, part: str) -> tuple[ResidualMoments, Array] | None:
        """Weighted sums of the residuals of every model over its "train" or "test" rows.

        Returns
        -------
        moments : ResidualMoments
            With leading axes (C, S).
        reliable : bool array (C, S)
            Whether rounding leaves the sum of squares its digits.

        None where the rows were not described by moments.
        """
        if self.described is None or self.described.moments is None:
            return None
        if isinstance(self.folds.batch, NumberedBatch) and self.folds.batch.apart is not None:
            return None
        coef, intercept = self._of_rows
        if self.columns is not None:
            xp = namespace(coef)
            coef = xp.take(coef, xp.asarray(self.columns, device=device_of(coef)), axis=-1)
        with threads_for_rows(*self.folds.sizes):
            return sums_of_residuals(self.described, coef, intercept, part)


class ClassModels(Models, ClassStack):
    """Models of the classes of their batch."""

    flat = False

    def pick(self, candidate: int, split: int | None) -> dict[str, Any]:
        """Fitted attributes of one model; split None means the model of all rows."""
        return {**super().pick(candidate, split), "classes_": self.folds.batch.classes}

    def decision(self, X: Array, split: int, candidates: slice) -> Array:
        """Decision values (C, m), or (C, m, k), of some candidates of one split for rows (m, p)."""
        return self.responses.decision(self.folds.batch.answering(X), split, candidates)

    def probability(self, decision: Array) -> Array | None:
        """Probabilities (C, m, k) of decision values; None where models know none."""
        return self.responses.probability(decision)


def at_home(values: Array, batch: Batch) -> Array:
    """Results in the library, on the device and of the dtype of the user's X."""
    xp = batch.home.xp
    dtype = getattr(xp, str(batch.dtype).rpartition(".")[2])
    return xp.astype(move(values, batch.home), dtype)


# ---------------------------------------------------------------- sums of residuals


def sums_of_residuals(
    described: Described, coef: Array, intercept: Array, part: str
) -> tuple[ResidualMoments, Array]:
    """Sums of residuals of models (C, S, t, p) and (C, S, t) over rows that moments describe."""
    found, folds = [], described.folds
    for i, training in enumerate(training_parts(folds)):
        sums = described.sums(i, getattr(folds.partitions[i], part))
        own = coef[:, training.splits, ...], intercept[:, training.splits, ...]
        for some in _splits_at_once(sums, own[0]):
            shift = sums.shift if sums.shift.ndim == 1 else sums.shift[some, :]
            these = replace(sums, gram=sums.gram[some, ...], shift=shift)
            found.append(_residual_sums(these, *(each[:, some, ...] for each in own)))
    xp = namespace(coef)
    weight, residual, squared, target, reliable = (
        items[0] if len(items) == 1 else xp.concat(items, axis=axis)
        for items, axis in zip(zip(*found, strict=True), (0, 1, 1, 0, 1), strict=True)
    )
    n_rows = np.asarray([getattr(s, f"n_{part}") for s in folds.splits])
    return ResidualMoments(weight, residual, squared, target, n_rows), reliable


def _splits_at_once(sums: Moments, coef: Array) -> Iterator[slice]:
    """Splits whose models and moments stay in the cache of a CPU; elsewhere all of them."""
    n_splits = coef.shape[1]
    row = 8 * sums.gram.shape[-1]
    size = row * (coef.shape[0] * coef.shape[2] + sums.gram.shape[-1])
    return cut(slice(0, n_splits), max(1, CACHE_BYTES // size) if is_numpy(coef) else n_splits)


def _residual_sums(moments: Moments, coef: Array, intercept: Array):
    """Sums for residuals ``r = v'z``, z = [x - c, y - d, 1], v = [-coef, e_t, -b]."""
    xp = namespace(coef)
    gram, p = moments.gram, moments.n_features  # (S, q, q)
    n_candidates, n_splits, t, _ = coef.shape
    shift_x, shift_y = moments.shift[..., :p], moments.shift[..., p:]
    offset = intercept - shift_y + xp.vecdot(coef, shift_x[..., None, :], axis=-1)
    # A split at a time, so that its moments are read once for all candidates: (S, C t, q).
    lead = n_splits, n_candidates
    unit = xp.broadcast_to(xp.eye(t, dtype=xp.float64, device=gram.device), (*lead, t, t))
    parts = [-_exchanged(coef, xp), unit, -_exchanged(offset, xp)[..., None]]
    v = xp.reshape(xp.concat(parts, axis=-1), (n_splits, n_candidates * t, -1))

    def by_candidate(values):
        """Of (S, C t): (C, S, t)."""
        return _exchanged(xp.reshape(values, (*lead, t)), xp)

    image = v @ gram
    squared = by_candidate(xp.vecdot(image, v, axis=-1))
    residual = by_candidate(image[..., -1])
    diagonal = xp.linalg.diagonal(gram)
    # Two sums of magnitudes, weighted and not, as one matrix product.
    sizes = xp.abs(v) @ xp.stack([xp.sqrt(diagonal), xp.ones_like(diagonal)], axis=-1)
    rounding = 4 * EPS * by_candidate(sizes[..., 0]) ** 2
    weight = gram[:, -1, -1]
    y_sum, y_squares = gram[:, p:-1, -1], diagonal[:, p:-1]
    safe = xp.where(weight > 0, weight, xp.ones_like(weight))
    target = y_squares - y_sum**2 / safe[:, None]
    # A constant y leaves only rounding, and scores of a constant y need separate treatment.
    known = xp.all(4 * EPS * y_squares <= SCORE_PRECISION * target, axis=-1)
    # Squares of small values vanish from moments, whatever they are multiplied with then.
    lost = LEAST_SQUARE**0.5 * by_candidate(sizes[..., 1])
    left = (SCORE_PRECISION * xp.where(squared > 0, squared, xp.zeros_like(squared))) ** 0.5
    reliable = xp.all((rounding <= SCORE_PRECISION * squared) & (lost <= left), axis=-1) & known
    return weight, residual, squared, target, reliable


def _exchanged(values: Array, xp: Any) -> Array:
    """Values with their first two axes exchanged."""
    return xp.permute_dims(values, (1, 0, *range(2, values.ndim)))
