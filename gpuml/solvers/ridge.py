"""Ridge regression of every alpha on every split from one pass over the rows.

For each split s and each alpha the models minimise

    sum_{i in train(s)} w_i |y_i - W x_i - b|^2 + alpha |W|^2 .

What depends on the data only is done once (`describe`): second moments of the atoms of rows, or,
with more features than rows, their inner products. What depends on alpha is small and batched over
(alpha, split): a Cholesky factorisation of the scaled system each or, for many alphas, one
tridiagonal form (on a GPU, one eigendecomposition) per split. Where the condition number leaves
fewer digits than asked, the rows themselves are factored (`factors`), or read by conjugate
gradients if sparse (`sparse_ridge`). The status of each model says which.

References
----------
A. E. Hoerl, R. W. Kennard, "Ridge regression: biased estimation for nonorthogonal problems",
Technometrics 12 (1970). N. J. Higham, "Accuracy and stability of numerical algorithms", 2nd ed.
(2002), chapters 10 and 20.
"""

from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from gpuml._arrays import Array, device_of, is_numpy, namespace, to_host
from gpuml._arrays.ops import EPS, all_true, constant, solve_shifted, zeros
from gpuml._arrays.threads import threads_for_order
from gpuml.data import Folds, Partition, row_indices, whole
from gpuml.solvers._blocks import quiet
from gpuml.solvers._result import LinearModels, Status, in_order, joined, taken
from gpuml.solvers.described import (
    ASKED_PRECISION,
    Described,
    Training,
    all_rows,
    rows_of_parts,
    training_parts,
)
from gpuml.solvers.factors import centred_rows, solve_rows
from gpuml.solvers.kernel import (
    centred_kernel,
    coefficients,
    far_splits,
    known_nulls,
    row_kernel,
)
from gpuml.solvers.levels_apart import solve_apart
from gpuml.solvers.moments import LEAST_SQUARE, Normal, cancelled, normal_equations
from gpuml.solvers.numbered_rows import NumberedBatch
from gpuml.solvers.shifted import TRIDIAGONAL_FROM, TRIDIAGONAL_FROM_ORDER, solve_by_tridiagonal
from gpuml.solvers.sparse_ridge import solve_by_iterations

# One eigendecomposition costs as much as about so many Cholesky solves with condition estimates.
EIGEN_FROM_ALPHAS = 32
# Models from one form of the matrix that is not scaled have this relative error at most.
FORM_PRECISION = 1e-10
# Eigenvalues from this share of the largest on have singular values with the digits asked for.
LEAST_SHARE = EPS / ASKED_PRECISION[8]
# Matrices of moments, of some splits, that are solved before those of the next ones.
MOST_BYTES = 2**28


def solve_splits(
    described: Described,
    alphas: np.ndarray,
    fit_intercept: bool,
    rcond: float | None = None,
    max_iter: int | None = None,
    *,
    of_all_rows: bool = False,
) -> LinearModels:
    """Models of every alpha on the training part of every split.

    Parameters
    ----------
    described : Described
    alphas : ndarray (C, t) or (C, 1), host
        Non-negative penalties, per target where there are t columns.
    fit_intercept : bool
    rcond : float, optional
        Singular values of the training rows up to rcond x the largest count as zero (what
        scikit-learn's LinearRegression calls tol). None leaves out only what rounding has made.
    max_iter : int, optional
        Bound on the iterations for sparse rows; None for many.
    of_all_rows : bool, default=False
        Whether to fit all rows, as one split, instead: of dense rows without a further pass.

    Returns
    -------
    LinearModels
        With leading axes (C, S).
    """
    folds = described.folds
    parts = [all_rows(folds)] if of_all_rows else training_parts(folds)
    folds = whole(folds.batch) if of_all_rows else folds
    return _solve(described, folds, parts, alphas, fit_intercept, rcond, max_iter)


def _solve(described, folds, jobs, alphas, fit_intercept, rcond, max_iter):
    """Models of some parts, which are the training parts of `folds` where rows are sparse."""
    if isinstance(folds.batch, NumberedBatch) and folds.batch.apart is not None:
        return solve_apart(described, jobs, alphas, fit_intercept)
    if described.moments is None and described.kernel is None:
        return solve_by_iterations(folds, alphas, fit_intercept, max_iter)
    if described.moments is not None:
        step = max(1, MOST_BYTES // (8 * described.n_features**2 + 1))
        jobs = [job.parts(i, i + step) for job in jobs for i in range(0, len(job), step)]
    parts = [_solve_parts(described, part, alphas, fit_intercept, rcond) for part in jobs]
    models = joined(parts, axis=1)
    if not described.is_sparse:
        return models
    hard = (models.status != Status.MOMENTS).any(axis=1)
    no_steps = np.zeros((*models.status.shape, models.coef.shape[2]), dtype=np.int32)
    models = replace(models, n_iter=no_steps)
    if not hard.any():
        return models
    better = solve_by_iterations(folds, alphas[hard], fit_intercept, max_iter)
    easy, places = (
        taken(models, np.flatnonzero(~hard)),
        (np.flatnonzero(~hard), np.flatnonzero(hard)),
    )
    return in_order([easy, better], places)


def spectrum(described: Described, fit_intercept: bool, split: int | None) -> Array:
    """Singular values of the centred, weighted training rows of a split (None: of all rows).

    Descending; as many as the smaller of the number of rows and of features.
    """
    part = _part_of(described.folds, split)
    xp = described.place.xp
    n_rows, p = rows_of_parts(described.folds, part)[0], described.n_features
    if described.moments is not None and n_rows >= p:
        normal = normal_equations(described.combined(part), fit_intercept)
        squares = xp.flip(xp.linalg.eigvalsh(normal.xx[0, ...]))
        if float(squares[-1]) > LEAST_SHARE * float(squares[0]) + LEAST_SQUARE:
            return xp.sqrt(squares)
    if described.kernel is not None:
        dual = _dual_of(described, part, fit_intercept)
        rank = dual.K.shape[-1] - int(known_nulls(dual, fit_intercept)[0])
        squares = xp.flip(xp.linalg.eigvalsh(dual.K[0, ...]))[:rank]
        if rank and float(squares[-1]) > LEAST_SHARE * float(squares[0]) + LEAST_SQUARE:
            return xp.concat([xp.sqrt(squares), zeros((n_rows - rank,), like=squares, xp=xp)])
    problem = centred_rows(described.stacked(part), fit_intercept)
    return xp.linalg.svdvals(problem.A)[: min(n_rows, p)]


def _part_of(folds: Folds, split: int | None) -> Training:
    if split is None:
        return all_rows(folds)
    for parts in training_parts(folds):
        assert parts.splits is not None  # they are not those of all rows
        local = split - parts.splits.start
        if 0 <= local < len(parts):
            return parts.part(local)
    raise IndexError(f"There is no split {split}.")


def _solve_parts(described, parts, alphas, fit_intercept, rcond):
    distinct, position = alphas.ravel(), np.zeros(1, dtype=int)
    if alphas.size > 1:
        distinct, position = np.unique(alphas, return_inverse=True)
    coef, x_mean, y_mean, error = _solve_cheaply(described, parts, distinct, fit_intercept, rcond)
    # Of all solutions for more features than rows, the kernel gives the one of minimum norm.
    is_one_of_many = described.kernel is not None and rcond is not None
    status = np.full(error.shape, Status.MINIMUM_NORM if is_one_of_many else Status.MOMENTS)
    poor = ~(error <= described.precision)
    if poor.any() and described.is_sparse:
        status[poor] = Status.ROWS  # which `_solve` reads
    elif poor.any():
        redo = _Redo(described, parts, distinct, fit_intercept, rcond)
        coef, unique = _redo_carefully(redo, coef, poor)
        status[poor] = np.where(unique[poor], Status.ROWS, Status.MINIMUM_NORM)
    return _spread(coef, x_mean, y_mean, status, position.reshape(alphas.shape))


def _solve_cheaply(described, parts, alphas, fit_intercept, rcond):
    """Coefficients (U, S, t, p), means (S, p) and (S, t), estimated errors (U, S) on the host."""
    most = largest_number(described)
    if described.kernel is not None:
        return _solve_kernel(described, parts, alphas, fit_intercept, rcond, most)
    moments = described.combined(parts)
    normal = normal_equations(moments, fit_intercept)
    by_eigen = rcond is not None or _one_form_will_do(normal, alphas)
    tridiagonal = is_numpy(normal.xx) and normal.xx.shape[-1] >= TRIDIAGONAL_FROM_ORDER
    if rcond is None and by_eigen and tridiagonal:
        enough = min(described.precision, FORM_PRECISION) / EPS
        coef, error = _solve_tridiagonal(normal, alphas, enough)
    elif by_eigen:
        coef, error = _solve_eigen(normal.xx, normal.xy, alphas, rcond)
        coef = namespace(coef).matrix_transpose(coef)
    else:
        # Of sparse rows, what conditions come to is not all of the error.
        enough = 0.0 if described.is_sparse else described.precision / EPS
        coef, error = _solve_cholesky(normal, alphas, enough)
    if described.is_sparse:
        error = error * cancelled(moments, normal, alphas)
        return coef, normal.x_mean, normal.y_mean, held_errors(coef, error, most)
    error = held_errors(coef, error, most)
    # Scaling to a unit diagonal helps Cholesky where features differ in scale.
    poor = (error > min(described.precision, FORM_PRECISION)).any(axis=1)
    if by_eigen and rcond is None and poor.any():
        better, own = _solve_cholesky(normal, alphas[poor], described.precision / EPS)
        error[poor] = held_errors(better, own, most)
        if poor.all():
            return better, normal.x_mean, normal.y_mean, error
        places = np.flatnonzero(~poor), np.flatnonzero(poor)
        xp = namespace(coef)
        coef = xp.concat([_take_first(coef, places[0], xp), better])
        coef = _take_first(coef, np.argsort(np.concatenate(places)), xp)
    return coef, normal.x_mean, normal.y_mean, error


def _one_form_will_do(normal, alphas):
    """Whether one eigendecomposition, or tridiagonal form, of each matrix is worth its time.

    It is not where features differ so much in scale that only scaled matrices can be solved.
    """
    if not is_numpy(normal.xx):
        return len(alphas) >= EIGEN_FROM_ALPHAS
    if len(alphas) < TRIDIAGONAL_FROM:
        return False
    diagonal = np.diagonal(normal.xx, axis1=-2, axis2=-1)
    largest, smallest = diagonal.max(), diagonal.min()
    fine = EPS * (largest + alphas) <= FORM_PRECISION * (smallest + alphas)
    return int(fine.sum()) >= TRIDIAGONAL_FROM


def largest_number(described):
    """The largest coefficient that a model can have, in the dtype of the rows."""
    return _largest_of(str(described.folds.batch.dtype).rpartition(".")[2])


@cache
def _largest_of(dtype):
    return float(np.finfo(dtype).max)


def held_errors(coef, error, most):
    """Estimated errors (U, S) on the host; inf where a coefficient (U, S, t, p) is too large."""
    xp = namespace(coef)
    if is_numpy(coef) and -most <= coef.min(initial=0.0) and coef.max(initial=0.0) <= most:
        return error
    held = xp.all(xp.abs(coef) <= most, axis=(-2, -1))
    return to_host(xp.where(held, error, xp.full_like(error, float("inf"))))


def _solve_cholesky(normal: Normal, alphas: np.ndarray, enough: float):
    xp = namespace(normal.xx)
    alpha = constant(alphas, like=normal.xx, xp=xp)[:, None]
    damped = xp.linalg.diagonal(normal.xx)[None, ...] + alpha[:, :, None]
    with quiet():  # solutions from squares that vanish overflow, and are not used
        # (U, S, p, t)
        coef, condition = solve_shifted(normal.xx, alphas, normal.xy, xp, enough)
        # Of what is rounding, and of values whose squares vanish, moments know nothing.
        share = xp.max(normal.noise / (damped + LEAST_SQUARE), axis=-1)
        error = xp.maximum(EPS * condition, share)
    known = xp.min(damped, axis=-1) > LEAST_SQUARE
    return xp.matrix_transpose(coef), xp.where(known, error, xp.full_like(error, float("inf")))


def _solve_tridiagonal(normal: Normal, alphas: np.ndarray, enough: float):
    with quiet():
        coef, smallest, largest = solve_by_tridiagonal(normal.xx, alphas, normal.xy, enough)
        error = np.where(smallest > LEAST_SQUARE, EPS * largest / smallest, np.inf)
    return np.swapaxes(coef, -1, -2), np.where(np.isnan(error), np.inf, error)


def _solve_eigen(M, B, alphas, rcond, n_null=None):
    """Solutions (U, S, p, t) of ``(M + alpha I) X = B``, M (S, p, p), B (S, p, t); errors (U, S).

    The smallest `n_null` (S,) eigenvalues of M, as many as are known to be 0, are left out.
    """
    xp = namespace(M)
    values, vectors = xp.linalg.eigh(M)  # (S, p), (S, p, p)
    alpha = constant(alphas, like=M, xp=xp)[:, None, None]
    inf = xp.full_like(values, float("inf"))
    values = xp.where(values > 0, values, xp.zeros_like(values))
    damped = values + alpha  # (U, S, p)
    if n_null is not None:
        left_out = np.arange(M.shape[-1]) < n_null[:, None]
        damped = xp.where(xp.asarray(left_out, device=device_of(M)), inf, damped)
    rotated = xp.matrix_transpose(vectors) @ B  # (S, p, t)
    divisor = xp.where(damped > 0, damped, xp.ones_like(damped))[..., None]
    with quiet():  # solutions from squares that vanish overflow, and are not used
        solution = vectors @ (rotated / divisor)
    smallest, largest = xp.min(damped, axis=-1), values[:, -1] + alpha[..., 0]
    inf = xp.full_like(largest, float("inf"))
    safe = xp.where(smallest > 0, smallest, xp.ones_like(smallest))
    # Directions near the cut must be judged by singular values, not by their squares.
    floor = 4 * (rcond or 0.0) ** 2 * largest
    known = (smallest > floor) & (smallest > LEAST_SQUARE)
    return solution, xp.where(known, EPS * largest / safe, inf)


def _solve_kernel(described, parts, alphas, fit_intercept, rcond, most):
    batch, partition = described.folds.batch, described.folds.partitions[parts.index]
    kernel = described.kernel
    row_counts = counts_of_rows(partition, parts.counts, batch.n_rows)
    far = far_splits(kernel, row_counts, fit_intercept)
    enough = described.precision / EPS
    if not far.any():
        return solve_dual(kernel, row_counts, alphas, fit_intercept, most, enough, rcond)
    solved = [
        solve_dual(
            row_kernel(batch, counts, at_mean=fit_intercept) if own else kernel,
            counts[None, :],
            alphas,
            fit_intercept,
            most,
            enough,
            rcond,
        )
        for own, counts in zip(far, row_counts, strict=True)
    ]
    coef, x_mean, y_mean, error = zip(*solved, strict=True)
    xp = described.place.xp
    means = (xp.concat(x_mean), xp.concat(y_mean))
    return xp.concat(coef, axis=1), *means, np.concatenate(error, axis=1)


def solve_dual(kernel, row_counts, alphas, fit_intercept, most, enough, rcond=None):
    dual = centred_kernel(kernel, row_counts, fit_intercept)
    xp = namespace(dual.K)
    if rcond is not None:
        n_null = known_nulls(dual, fit_intercept)
        solution, error = _solve_eigen(dual.K, dual.b, alphas, rcond, n_null)
        with quiet():
            coef = coefficients(kernel, dual, solution)
        return coef, dual.x_mean, dual.y_mean, held_errors(coef, error, most)
    alpha = constant(alphas, like=dual.K, xp=xp)[:, None, None, None]
    with quiet():
        # (U, S, n, t)
        solution, condition = solve_shifted(dual.K, alphas, dual.b, xp, enough)
    finite = xp.all(xp.isfinite(solution), axis=(-1, -2))[..., None, None]
    solution = xp.where(finite, solution, xp.zeros_like(solution))
    coef = coefficients(kernel, dual, solution)
    # Inner products of small values vanish.
    damped = xp.max(xp.abs(dual.K), axis=(-1, -2)) + alpha[:, :, 0, 0]
    inf = xp.full_like(condition, float("inf"))
    error = xp.where(damped > LEAST_SQUARE, EPS * condition, inf)
    return coef, dual.x_mean, dual.y_mean, held_errors(coef, error, most)


def _dual_of(described, part, fit_intercept):
    """The dual system of one training part."""
    batch, partition = described.folds.batch, described.folds.partitions[part.index]
    counts = counts_of_rows(partition, part.counts, batch.n_rows)
    kernel = described.kernel
    if far_splits(kernel, counts, fit_intercept).any():
        kernel = row_kernel(batch, counts[0], at_mean=fit_intercept)
    return centred_kernel(kernel, counts, fit_intercept)


def counts_of_rows(part: Partition, counts: np.ndarray, n_rows: int) -> np.ndarray:
    out = np.zeros((len(counts), n_rows))
    for atom, column in zip(part.atoms, counts.T, strict=True):
        out[:, row_indices(atom)] = column[:, None]
    return out


@dataclass(frozen=True)
class _Redo:
    """Training parts whose hard models are to be solved from the rows."""

    described: Described
    parts: Training
    alphas: np.ndarray
    fit_intercept: bool
    rcond: float | None

    def solve(self, split, hard):
        stacked = self.described.stacked(self.parts.part(split))
        problem = centred_rows(stacked, self.fit_intercept)
        most = largest_number(self.described)
        with threads_for_order(stacked.n_features):
            return solve_held(problem, self.alphas[hard], self.rcond, most)


def solve_held(problem, alphas, rcond, most):
    """As `solve_rows`; features whose coefficients would be larger than `most` have 0.

    Their values are so small that they cannot tell anything. As where rounding has made a
    direction, the others explain what they can.
    """
    with quiet():
        coef, unique = solve_rows(problem, alphas, rcond)
    xp = namespace(coef)
    held = xp.abs(coef) <= most  # (U, t, p)
    if all_true(held, xp):
        return coef, unique
    found = []
    for i, own in enumerate(to_host(xp.all(held, axis=(-2, -1)))):
        if own:
            found.append(coef[i : i + 1, ...])
            continue
        left = xp.astype(xp.all(held[i, ...], axis=0), problem.A.dtype)
        rest = replace(problem, A=problem.A * left)
        found.append(solve_held(rest, alphas[i : i + 1], rcond, most)[0])
        unique[i] = False
    return xp.concat(found), unique


def _redo_carefully(redo, coef, poor):
    """Replace the models marked `poor` (U, S) by ones solved from the rows."""
    xp = namespace(coef)
    unique = np.ones(poor.shape, dtype=bool)
    columns = [coef[:, split, ...] for split in range(coef.shape[1])]
    for split in np.flatnonzero(poor.any(axis=0)):
        hard = np.flatnonzero(poor[:, split])
        better, unique[hard, split] = redo.solve(split, hard)
        # Every alpha of the column looks up some solution; the mask keeps only the hard ones.
        position = np.searchsorted(hard, np.arange(len(poor))) % len(hard)
        mask = xp.asarray(poor[:, split], device=device_of(coef))[:, None, None]
        columns[split] = xp.where(mask, _take_first(better, position, xp), columns[split])
    return xp.stack(columns, axis=1), unique


def _spread(coef, x_mean, y_mean, status, position):
    """From distinct alphas (U, S, t, p) to candidates: `position` (C, t) or (C, 1) says which."""
    xp = namespace(coef)
    width = position.shape[1]
    if width == 1:
        chosen = _take_first(coef, position[:, 0], xp)
        chosen_status = status[position[:, 0]]
    else:
        columns = [_take_first(coef[:, :, k : k + 1, :], position[:, k], xp) for k in range(width)]
        chosen = xp.concat(columns, axis=2)
        chosen_status = status[position].max(axis=1)
    intercept = y_mean - xp.vecdot(chosen, x_mean[:, None, :], axis=-1)
    return LinearModels(chosen, intercept, chosen_status)


def _take_first(array, index, xp):
    if array.shape[0] == len(index) and (index == np.arange(len(index))).all():
        return array
    index = xp.asarray(np.ascontiguousarray(index), device=array.device)
    return xp.take(array, index, axis=0)
