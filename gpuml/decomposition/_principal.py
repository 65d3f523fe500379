"""From components to what PCA calls them: how many are kept, attributes, maps."""

import warnings
from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from gpuml._arrays import Array, is_singular, move, namespace, place_of, to_host
from gpuml._arrays.ops import EPS, all_finite
from gpuml._settings.config import current_settings
from gpuml._sklearn import _infer_dimension
from gpuml.decomposition._projection import in_kind
from gpuml.decomposition._streamed import Streamed, doubles, float_like, refuse_blocks
from gpuml.exceptions import level_of_user
from gpuml.reading.images import images_and_lengths
from gpuml.solvers._blocks import quiet
from gpuml.solvers.components import Components

# The covariance of more features than this is left alone by "auto".
MANY_FEATURES = 5_000
# An exact decomposition of this many rows or columns is affordable everywhere.
SMALL_SIDE = 1_000
TALL = 10
SCORE_BLOCK_BYTES = 2**25


def choose_solver(n_rows: int, n_features: int, n_components: Any) -> str:
    """The solver that svd_solver="auto" selects for dense rows.

    scikit-learn's rule with room for exact solutions where they are affordable: up to 5,000
    features in place of 1,000 in tall data, and whatever the number of components where the
    smaller side is at most 1,000.
    """
    exact = exact_solver(n_rows, n_features)
    if exact == "covariance_eigh":
        return exact if n_features <= MANY_FEATURES else _of_large(n_rows, n_features, n_components)
    if min(n_rows, n_features) <= SMALL_SIDE:
        return exact
    return _of_large(n_rows, n_features, n_components)


def _of_large(n_rows, n_features, n_components):
    few = not isinstance(n_components, str | None) and (
        1 <= n_components < 0.8 * min(n_rows, n_features)
    )
    return "randomized" if few else "full"


def exact_solver(n_rows: int, n_features: int) -> str:
    """The exact solver for rows of a shape: the fast one if there are many rows."""
    return "covariance_eigh" if n_rows >= TALL * n_features else "full"


def is_exact(n_rows: int, n_features: int) -> bool:
    """Whether "auto" is exact for rows of a shape and for a half of them, at any n_components."""
    if min(n_rows, n_features) <= SMALL_SIDE:
        return True
    return n_features <= MANY_FEATURES and n_rows >= 2 * TALL * n_features


def check_n_components(n_components: Any, n_rows: int, n_features: int, solver: str) -> Any:
    """The checked number of components; None becomes the largest possible one.

    Raises
    ------
    ValueError
        If the solver cannot give so many.
    """
    most = min(n_rows, n_features)
    if n_components is None:
        return most
    if solver in ("randomized", "compressed"):
        if isinstance(n_components, str):
            raise ValueError(
                f"n_components={n_components!r} cannot be a string with svd_solver='{solver}'"
            )
        if not 1 <= n_components <= most:
            raise ValueError(
                f"n_components={n_components!r} must be between 1 and min(n_samples, n_features)="
                f"{most!r} with svd_solver='{solver}'"
            )
    elif n_components == "mle":
        if n_rows < n_features:
            raise ValueError("n_components='mle' is only supported if n_samples >= n_features")
    elif not 0 <= n_components <= most:
        raise ValueError(
            f"n_components={n_components} must be between 0 and min(n_samples, n_features)={most} "
            f"with svd_solver={solver!r}"
        )
    return n_components


def n_leading(wanted: Sequence[Any], most: int) -> int:
    """How many components have to be computed: all where the number depends on the spectrum."""
    return max(int(k) if isinstance(k, Integral) else most for k in wanted)


def kept_counts(
    found: Components, wanted: Sequence[Any], n_rows: tuple[int, ...]
) -> tuple[int, ...]:
    """How many components each part keeps, for a number, a share, or "mle"."""
    if all(isinstance(k, Integral) for k in wanted):
        return tuple(int(k) for k in wanted)
    squares, totals = to_host(found.singular) ** 2, to_host(found.total)
    return tuple(
        _count(k, squares[s, : min(n, found.width(s))], totals[s], n)
        for s, (k, n) in enumerate(zip(wanted, n_rows, strict=True))
    )


def _count(wanted, squares, total, n_rows):
    if wanted == "mle":
        try:
            return int(_infer_dimension(squares / (n_rows - 1), n_rows))
        except ValueError as error:
            raise ValueError(
                "n_components='mle' needs variances that differ from each other: equal ones have "
                "infinite likelihood. Choose n_components as a number or a share."
            ) from error
    if isinstance(wanted, Integral):
        return int(wanted)
    if not total > 0:  # a share of nothing: one, as scikit-learn has it
        return 1
    shares = np.cumsum(squares / total)
    # The share is to be exceeded; rounding may leave that to no number at all.
    return min(int(np.searchsorted(shares, wanted, side="right")) + 1, len(squares))


def type_of_count(n_components: Any) -> Any:
    """The type that scikit-learn's number of components has for a value of the parameter."""
    if n_components is None:
        return int
    return type(n_components) if isinstance(n_components, Integral) else np.int64


# ---------------------------------------------------------------- the generative model


class Generative:
    """Covariance and precision of the probabilistic model that components and noise are."""

    _numeric_strings = "everywhere"

    components_: Array

    def get_covariance(self):
        """Covariance of the generative model.

        With the components V, explained variances l and noise variance s, it is
        ``V' diag(l - s) V + s I``.

        Returns
        -------
        cov : array of shape (n_features, n_features)
            Where the components are.
        """
        check_is_fitted(self)
        return in_kind(covariance(self), self.components_.dtype)

    def get_precision(self):
        """Inverse of `get_covariance`.

        Returns
        -------
        precision : array of shape (n_features, n_features)
            Where the components are.
        """
        check_is_fitted(self)
        return in_kind(precision(self), self.components_.dtype)


def covariance(model: Any) -> Array:
    """``V' diag(d - s) V + s I`` of a fitted model, float64: d variances along V, s noise."""
    V, along, noise = _generative(model)
    return (V.T * (along - noise)) @ V + noise * _eye_of(V)


def precision(model: Any) -> Array:
    """The inverse of `covariance`, float64.

    With orthonormal V it is ``V' diag(1/d - 1/s) V + I / s``: nothing has to be inverted.
    """
    V, along, noise = _generative(model)
    if not noise > 0:
        if V.shape[0] == 0:  # scikit-learn has I / 0 here
            return _eye_over_zero(V)
        return _inverted(covariance(model), _eye_of(V))
    return (V.T * (1.0 / along - 1.0 / noise)) @ V + _eye_of(V) / noise


def _inverted(C: Array, eye: Array) -> Array:
    """The inverse of a covariance; of a singular one, of what rounding might have left of it."""
    xp = namespace(C)
    try:
        inverse = xp.linalg.inv(C)
        if all_finite(inverse, xp):  # CuPy does not raise
            return inverse
    except Exception as error:
        if not is_singular(error):
            raise
    largest = xp.max(xp.abs(C))
    if not bool(largest > 0):
        raise np.linalg.LinAlgError("The covariance of these components is 0: it has no inverse.")
    warnings.warn(
        "The covariance of these components is singular: its inverse and the scores of rows "
        "are those of a matrix that differs from it by rounding. Use a smaller n_components.",
        RuntimeWarning,
        stacklevel=level_of_user(),
    )
    return xp.linalg.inv(C + EPS * largest * eye)


def generative_variances(model: Any) -> tuple[Array, float]:
    """Variances (k,) of the generative model along the components, float64, and along all else."""
    xp = namespace(model.components_)
    variance = xp.astype(model.explained_variance_, xp.float64)
    noise = float(model.noise_variance_)
    excess = xp.where(variance > noise, variance - noise, xp.zeros_like(variance))
    # scikit-learn's covariance of a whitened model is another one; scores are to agree with it.
    return noise + (excess * variance if model.whiten else excess), noise


def _generative(model):
    xp = namespace(model.components_)
    return xp.astype(model.components_, xp.float64), *generative_variances(model)


def _eye_of(V):
    return namespace(V).eye(V.shape[1], dtype=V.dtype, device=V.device)


def _eye_over_zero(V):
    xp, eye = namespace(V), _eye_of(V)
    return xp.where(eye > 0, xp.full_like(eye, float("inf")), xp.full_like(eye, float("nan")))


def log_likelihood(P: Array, mean: Array, X: Array) -> Array:
    """Log-likelihood (n,), where the rows are, under a normal density with a float64 precision."""
    xp = namespace(P)
    with quiet():  # without any variance it is not finite
        sign, log_determinant = xp.linalg.slogdet(P)
    log_determinant = xp.where(
        sign > 0, log_determinant, xp.full_like(log_determinant, -float("inf"))
    )
    return log_density(lambda rows: xp.sum(rows * (rows @ P), axis=1), log_determinant, mean, X)


def log_density(
    distance: Callable[[Array], Array], log_determinant: Array, mean: Array, X: Array
) -> Array:
    """Log-likelihood (n,), where the rows are, under a normal density.

    Of blocks of rows less the mean, in float64, `distance` makes squared Mahalanobis distances.
    """
    block_bytes = current_settings().block_bytes or SCORE_BLOCK_BYTES
    rows_per_block = max(1, block_bytes // (8 * X.shape[1]))
    home, X = place_of(X), move(X, place_of(mean))
    xp = namespace(X)
    constant_part = X.shape[1] * float(np.log(2 * np.pi)) - log_determinant
    mean = xp.astype(mean, xp.float64)
    parts = []
    for start in range(0, X.shape[0], rows_per_block):
        rows = xp.astype(X[start : min(start + rows_per_block, X.shape[0]), :], xp.float64) - mean
        with quiet():
            parts.append(-0.5 * distance(rows))
    return move(in_kind(xp.concat(parts) - 0.5 * constant_part, float_like(X.dtype)), home)


def streamed_log_likelihood(model: Any, rows: Streamed) -> Array:
    """Log-likelihood (n,) of rows that are read block by block, where results are to be.

    Of a row x less the mean, with images t along the components, variances d along them and s
    along all else, it takes ``sum(t^2 / d) + (|x|^2 - |t|^2) / s``: no matrix (p, p).

    Raises
    ------
    ValueError
        If X is not finite.
    numpy.linalg.LinAlgError
        If nothing varies outside the components, and they are not all directions.
    """
    variances, noise = generative_variances(model)
    k, p = model.components_.shape
    if not noise > 0 and k < p:
        raise np.linalg.LinAlgError(
            "The covariance of the model is singular: nothing varies outside its components."
        )
    turn, mean = (doubles(a, rows.work) for a in (model.components_.T, model.mean_))
    found, lengths = images_and_lengths(
        rows.source, rows.work, rows.home, turn, mean, current_settings().block_bytes
    )
    xp = namespace(found)
    if not all_finite(lengths, xp):
        refuse_blocks(model, rows)
    squares = (found - move(mean @ turn, rows.home)) ** 2
    variances = move(variances, rows.home)
    distance = squares @ (1.0 / variances)
    log_determinant = xp.sum(xp.log(variances))
    if k < p:
        distance = distance + (lengths - xp.sum(squares, axis=1)) / noise
        log_determinant = log_determinant + (p - k) * float(np.log(noise))
    likelihood = -0.5 * (distance + p * float(np.log(2 * np.pi)) + log_determinant)
    return in_kind(likelihood, rows.X.dtype)
