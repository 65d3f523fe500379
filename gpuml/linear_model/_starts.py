"""Where models that minimise a loss begin."""

from gpuml._arrays import Array, device_of, namespace
from gpuml._arrays.ops import EPS
from gpuml.linear_model._models import Models
from gpuml.penalties import Penalty
from gpuml.solvers.loss_rows import LossRows
from gpuml.solvers.newton import mean_targets

# What keeps the matrix of a start solvable, and a map to nothing.
NEAR, LEAST = 1e-12, 1e-300


def without_features(data: LossRows, penalty: Penalty) -> Array:
    """Where to begin (C, S, k, q): at models without features, where their minimum is known."""
    xp = data.place.xp
    n_candidates, n_splits, _, q = penalty.l2.shape
    shape = (n_candidates, n_splits, data.n_vectors, q)
    start = xp.zeros(shape, dtype=xp.float64, device=device_of(penalty.l2))
    if data.loss.link is None:
        return start
    level = data.loss.link(mean_targets(data), xp)[:, None, None] * penalty.used[..., -1:]
    return xp.concat([start[..., :-1], start[..., -1:] + level], axis=-1)


def mean_model(models: Models, candidate: int, *, fit_intercept: bool) -> Array:
    """Where the fit on all rows begins, (1, 1, k, q): at the mean of the models of the splits.

    It is a mean of models of the rows: in frames that differ, the same numbers are other models.
    In the frame of all rows it is the model that is nearest to it.
    """
    coef, intercept = models.responses.coef, models.responses.intercept
    xp = namespace(coef)
    coef = xp.mean(coef[candidate, ...], axis=0)
    intercept = xp.mean(intercept[candidate, ...], axis=0)[:, None]
    if models.folds.frame is not None:
        maps = models.folds.frame.of(None).beside(coef)
        p = maps.matrix.shape[1]
        own = _nearest(coef[:, :p], maps, xp)
        left = coef[:, :p] - own @ maps.matrix[0, ...].T
        share = float(xp.sum(left**2)) / max(float(xp.sum(coef[:, :p] ** 2)), LEAST)
        if share > 0.5 and models.coef.shape[-1] == own.shape[1]:
            # Splits may have columns of their own, such as means of targets; match them by
            # position.
            own, intercept = (a[candidate, ...] for a in (models.coef, models.intercept))
            means = xp.mean(own, axis=0), xp.mean(intercept, axis=0)[:, None]
            return xp.concat(means, axis=-1)[None, None, ...]
        coef = xp.concat([own, coef[:, p:]], axis=1)
        if share > EPS:
            # The rest, times the means of the rows, would go to the intercept: use that of the
            # images.
            intercept = xp.mean(models.intercept[candidate, ...], axis=0)[:, None]
        else:
            intercept = intercept - xp.sum(own * maps.offset[0, :], axis=-1, keepdims=True)
        if not fit_intercept:
            intercept = xp.zeros_like(intercept)  # frames differ by the rest
    return xp.concat([coef, intercept], axis=-1)[None, None, ...]


def _nearest(coef, maps, xp):
    """Coefficients (k, p') of images that make those (k, p) of the rows, or come close."""
    A = maps.matrix[0, ...]
    if maps.diagonal:
        return coef / xp.linalg.diagonal(A)
    squares = A.T @ A
    eye = xp.eye(A.shape[1], dtype=A.dtype, device=device_of(A))
    squares = squares + (NEAR * xp.max(xp.linalg.diagonal(squares)) + LEAST) * eye
    return xp.linalg.solve(squares, A.T @ coef.T).T
