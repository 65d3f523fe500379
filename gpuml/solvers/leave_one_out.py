r"""Leave-one-out residuals of ridge regression for every penalty, from two passes over the rows.

The residual that row i has when it is left out of the fit follows from the fit of all rows,

    r_i / (1 - h_i) ,    h_i = w_i (x_i - m)' (G + alpha I)^{-1} (x_i - m) + w_i / sum w ,

with weights w, the centred moments G = sum w (x - m)(x - m)' and their mean m; the last term is
there with an intercept only [1]_, [2]_. One eigendecomposition of G serves all alphas. With no more
rows than features that of the inner products of the rows takes its place.

References
----------
.. [1] D. M. Allen, "The relationship between variable selection and data augmentation and a method
   for prediction", Technometrics 16 (1974).
.. [2] G. H. Golub, M. Heath, G. Wahba, "Generalized cross-validation as a method for choosing a
   good ridge parameter", Technometrics 21 (1979).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gpuml._arrays import Array, move, namespace
from gpuml._arrays.ops import constant
from gpuml._arrays.threads import threads_for_order
from gpuml.data import Rows, count_rows, cut
from gpuml.solvers._blocks import Blocks
from gpuml.solvers.described import Described
from gpuml.solvers.kernel import centred_kernel
from gpuml.solvers.moments import normal_equations
from gpuml.solvers.shifted import inverses_applied


@dataclass(frozen=True)
class LeftOut:
    """Leave-one-out residuals (A, n, t) of some rows (n,) for all alphas, at the place of work."""

    rows: Rows
    residual: Array
    y: Array
    weight: Array | None


def leave_one_out(
    described: Described,
    alphas: np.ndarray,
    fit_intercept: bool,
) -> Iterator[LeftOut]:
    """Leave-one-out residuals for each alpha, block after block of rows.

    Parameters
    ----------
    described : Described
        All rows as one atom, such as ``describe(whole(batch))``.
    alphas : ndarray (A,), host
        Positive penalties.
    fit_intercept : bool

    Yields
    ------
    LeftOut
    """
    if described.kernel is None:
        return _from_moments(described, alphas, fit_intercept)
    return iter([_from_kernel(described, alphas, fit_intercept)])


def _from_moments(described, alphas, fit_intercept):
    moments = described.moments[0]
    total = moments.combine(np.ones((1, moments.gram.shape[0])))
    normal = normal_equations(total, fit_intercept)
    xp = namespace(normal.xx)
    with threads_for_order(normal.xx.shape[-1]):
        values, vectors = xp.linalg.eigh(normal.xx[0, ...])
    values = xp.where(values > 0, values, xp.zeros_like(values))
    gain = 1.0 / (values + constant(alphas, like=values, xp=xp)[:, None])  # (A, p)
    rotated = gain[:, :, None] * (vectors.T @ normal.xy[0, ...])  # (A, p, t)
    x_mean, y_mean = normal.x_mean[0, :], normal.y_mean[0, :]
    batch = described.folds.batch
    share = move(1.0 / total.gram[0, -1:, -1], batch.work) if fit_intercept else 0.0
    xp = batch.work.xp
    vectors, gain, rotated, x_mean, y_mean = (
        move(a, batch.work) for a in (vectors, gain, rotated, x_mean, y_mean)
    )
    A, p, t = rotated.shape
    blocks = Blocks(batch, p + A * (t + 1), described.block_bytes)
    for rows in cut(slice(0, batch.n_rows), blocks.rows_per_block):
        X, y, weight = (None if a is None else xp.astype(a, xp.float64) for a in blocks.read(rows))
        Z = (X - x_mean) @ vectors  # (n, p)
        residual = (y - y_mean)[None, ...] - Z[None, ...] @ rotated  # (A, n, t)
        leverage = gain @ (Z**2).T + share  # (A, n)
        if weight is not None:
            leverage = leverage * weight
        yield LeftOut(rows, residual / (1.0 - leverage)[..., None], y, weight)
        blocks.done(count_rows(rows))


def _from_kernel(described, alphas, fit_intercept):
    """With ``c = (K + alpha I)^{-1} b`` and d its diagonal, the residuals are ``c / d``."""
    kernel = described.kernel
    dual = centred_kernel(kernel, np.ones((1, kernel.K.shape[0])), fit_intercept)
    xp = namespace(dual.K)
    K, b, root = dual.K[0, ...], dual.b[0, ...], dual.root[0, :]
    alpha = constant(alphas, like=K, xp=xp)[:, None]
    unit = root / xp.sqrt(xp.sum(root**2))
    lift = xp.sum(xp.linalg.diagonal(K)) if fit_intercept else 0.0
    # Centring leaves the direction of the root weights with the eigenvalue zero. Lifted, what it
    # adds to the diagonal can be taken off without loss of digits.
    lifted = K + lift * unit[:, None] * unit[None, :]
    solution, diagonal = inverses_applied(lifted, alphas, b, xp)  # (A, n, t), (A, n)
    if fit_intercept:
        diagonal = diagonal - unit**2 / (lift + alpha)
    scaled = solution / diagonal[..., None]
    weighted = kernel.weight is not None
    y = kernel.y + kernel.shift[kernel.X.shape[1] :]
    if weighted:
        positive = root > 0
        safe = xp.where(positive, root, xp.ones_like(root))
        scaled = scaled / safe[:, None]
    return LeftOut(slice(0, K.shape[0]), scaled, y, kernel.weight)
