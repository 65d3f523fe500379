"""Least-squares models of all candidates on all splits, as a search sees them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from gpuml._arrays import Array, device_of, move, namespace
from gpuml._arrays.ops import EPS
from gpuml.data import Batch, Folds, count_rows
from gpuml.linear_model._responses import Predicting, Predictions
from gpuml.metrics.residuals import ResidualMoments
from gpuml.solvers._result import LinearModels, Status
from gpuml.solvers.affine import pulled_back
from gpuml.solvers.described import Described, frame_maps
from gpuml.solvers.moments import LEAST_SQUARE, Moments
from gpuml.solvers.ridge import solve_all_rows, solve_splits

# The share of a sum of squared residuals that rounding may take before rows are predicted instead.
SCORE_PRECISION = 1e-10

Models = TypeVar("Models", bound=LinearModels)


@dataclass(frozen=True)
class LeastSquaresStack(Predicting):
    """What `multifit` of a least-squares estimator returns.

    Attributes
    ----------
    described : Described
        The rows, as the solver knows them.
    models : LinearModels
        Coefficients (C, S, t, p) of candidate and split, on the compute device.
    alphas : ndarray (C, t) or (C, 1)
        Penalties of the candidates.
    fit_intercept : sequence of C bools
    attributes : callable
        ``(stack, status, fit_intercept, counts) -> dict``: attributes of a model that its
        estimator has beside `coef_` and `intercept_`; counts (1, A) names its training atoms.
    rcond : float or None
        As for `solvers.ridge.solve_splits`.
    flat_coef : bool
        Whether `coef_` has one axis for y of shape (n, 1) too, as scikit-learn's Ridge has it.
    """

    described: Described
    models: LinearModels
    alphas: np.ndarray
    fit_intercept: Sequence[bool]
    attributes: Callable[..., dict[str, Any]]
    rcond: float | None = None
    flat_coef: bool = False

    @property
    def folds(self) -> Folds:
        return self.described.folds

    @property
    def n_candidates(self) -> int:
        return len(self.alphas)

    @property
    def n_passes(self) -> int:
        return self.described.n_passes

    @cached_property
    def models_of_rows(self) -> LinearModels:
        """The models as functions of the rows, where they are of the rows' images in a frame."""
        return of_rows(self.described.folds, self.models)

    @property
    def responses(self) -> Predictions:
        """What the models say of rows, without any rows."""
        models = self.models_of_rows
        return Predictions(models.coef, models.intercept, self.described.folds.batch.y_is_flat)

    def pick(self, candidate: int, split: int | None) -> dict[str, Any]:
        """Fitted attributes of one model; split None means the model of all rows."""
        fit_intercept = self.fit_intercept[candidate]
        if split is None:
            counts = None
            alpha = self.alphas[candidate : candidate + 1]
            models = solve_all_rows(self.described, alpha, fit_intercept, self.rcond)
            candidate = split = 0
        else:
            models, counts = self.models, split
        status = Status(int(models.status[candidate, split]))
        batch = self.described.folds.batch
        flat = batch.y_is_flat or (self.flat_coef and batch.y.shape[1] == 1)
        return {
            **fitted_attributes(batch, models, candidate, split, fit_intercept, flat),
            "status_": status,
            **self.attributes(self, status, fit_intercept, counts),
        }

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
        if self.described.moments is None:
            return None
        return residual_moments(self.described, self.models_of_rows, part)


def of_rows(folds: Folds, models: Models) -> Models:
    """Models of what the frame of folds makes of the rows, as models of the rows themselves."""
    maps = frame_maps(folds)
    if maps is None:
        return models
    coef, intercept = pulled_back(models.coef, models.intercept, maps)
    return replace(models, coef=coef, intercept=intercept)


def residual_moments(
    described: Described, models: LinearModels, part: str
) -> tuple[ResidualMoments, Array]:
    """Sums of the residuals of models (C, S) of the rows over those that moments describe."""
    found = []
    for partition, moments in zip(described.folds.partitions, described.moments or (), strict=True):
        stop = partition.first_split + partition.n_splits
        coef = models.coef[:, partition.first_split : stop, ...]
        intercept = models.intercept[:, partition.first_split : stop, ...]
        sums = moments.combine(getattr(partition, part))
        found.append(_residual_sums(sums, coef, intercept))
    xp = namespace(models.coef)
    weight, residual, squared, target, reliable = (
        items[0] if len(items) == 1 else xp.concat(items, axis=axis)
        for items, axis in zip(zip(*found, strict=True), (0, 1, 1, 0, 1), strict=True)
    )
    n_rows = np.asarray([count_rows(getattr(s, part)) for s in described.folds.splits])
    return ResidualMoments(weight, residual, squared, target, n_rows), reliable


def _residual_sums(moments: Moments, coef: Array, intercept: Array):
    """Sums for residuals ``r = v'z``, z = [x - c, y - d, 1], v = [-coef, e_t, -b]."""
    xp = namespace(coef)
    gram, p = moments.gram, moments.n_features  # (S, q, q)
    n_candidates, n_splits, t, _ = coef.shape
    shift_x, shift_y = moments.shift[..., :p], moments.shift[..., p:]
    offset = intercept - shift_y + xp.sum(coef * shift_x[..., None, :], axis=-1)
    unit = xp.broadcast_to(
        xp.eye(t, dtype=xp.float64, device=gram.device), (n_candidates, n_splits, t, t)
    )
    v = xp.concat([-coef, unit, -offset[..., None]], axis=-1)  # (C, S, t, q)
    image = v @ gram[None, ...]  # (C, S, t, q)
    squared = xp.sum(image * v, axis=-1)
    residual = image[..., -1]
    diagonal = xp.linalg.diagonal(gram)
    size = xp.sum(xp.abs(v) * xp.sqrt(diagonal)[None, :, None, :], axis=-1) ** 2
    rounding = 4 * EPS * size
    weight = gram[:, -1, -1]
    y_sum, y_squares = gram[:, p:-1, -1], diagonal[:, p:-1]
    safe = xp.where(weight > 0, weight, xp.ones_like(weight))
    target = y_squares - y_sum**2 / safe[:, None]
    # A constant y leaves rounding only, and scores of a constant y are a case of their own.
    known = xp.all(4 * EPS * y_squares <= SCORE_PRECISION * target, axis=-1)
    # Squares of small values vanish from moments, whatever they are multiplied with then.
    lost = LEAST_SQUARE**0.5 * xp.sum(xp.abs(v), axis=-1)
    left = (SCORE_PRECISION * xp.where(squared > 0, squared, xp.zeros_like(squared))) ** 0.5
    reliable = xp.all((rounding <= SCORE_PRECISION * squared) & (lost <= left), axis=-1) & known
    return weight, residual, squared, target, reliable


def stack_candidates(
    described: Described,
    alphas: np.ndarray,
    fit_intercept: Sequence[bool],
    attributes: Callable[..., dict[str, Any]],
    rcond: float | None = None,
    flat_coef: bool = False,
) -> LeastSquaresStack:
    """Solve all candidates, those with and those without an intercept in one call each."""
    flags = np.asarray(fit_intercept, dtype=bool)
    kinds = [flag for flag in (True, False) if (flags == flag).any()]
    solved = [solve_splits(described, alphas[flags == flag], flag, rcond) for flag in kinds]
    if len(solved) == 1:
        models = solved[0]
    else:
        order = np.argsort(np.concatenate([np.flatnonzero(flags == flag) for flag in kinds]))
        models = _reorder(solved, order)
    return LeastSquaresStack(
        described, models, alphas, list(fit_intercept), attributes, rcond, flat_coef
    )


def _reorder(solved: list[LinearModels], order: np.ndarray) -> LinearModels:
    coef = [models.coef for models in solved]
    intercept = [models.intercept for models in solved]
    xp = namespace(*coef)
    index = xp.asarray(order, device=device_of(coef[0]))
    return LinearModels(
        coef=xp.take(xp.concat(coef), index, axis=0),
        intercept=xp.take(xp.concat(intercept), index, axis=0),
        status=np.concatenate([models.status for models in solved])[order],
    )


def at_home(values: Array, batch: Batch) -> Array:
    """Results in the library, on the device and of the dtype of the user's X."""
    xp = batch.home.xp
    dtype = getattr(xp, str(batch.X.dtype).rpartition(".")[2])
    return xp.astype(move(values, batch.home), dtype)


def fitted_attributes(
    batch: Batch, models: LinearModels, candidate: int, split: int, fit_intercept: bool, flat: bool
) -> dict[str, Any]:
    """`coef_` and `intercept_` of one model, in the library and dtype of the user's X."""
    coef, intercept = (
        at_home(values[candidate, split, ...], batch) for values in (models.coef, models.intercept)
    )
    if flat:
        coef = coef[0, ...]
    if batch.y_is_flat:
        intercept = intercept[0, ...]
    if batch.home.kind == "numpy" and batch.y_is_flat:
        intercept = intercept[()]
    return {"coef_": coef, "intercept_": intercept if fit_intercept else 0.0}
