"""Truncated singular value decomposition on the device of its data."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.decomposition import TruncatedSVD as SklearnTruncatedSVD
from sklearn.utils import check_random_state

from gpuml._arrays import (
    Array,
    as_array,
    is_cupyx_sparse,
    is_foreign,
    is_sparse,
    move,
    namespace,
    place_of,
)
from gpuml._arrays.ops import all_finite, constant
from gpuml._inputs.csr import check_csr
from gpuml._inputs.host_rows import naming_columns
from gpuml._inputs.output import as_asked
from gpuml._inputs.validation import check_finite, unchanged_on_error
from gpuml._settings.config import current_settings
from gpuml._sklearn import StrOptions, _fit_context
from gpuml.data import Batch
from gpuml.decomposition._compressed import Iteration, compressed_components
from gpuml.decomposition._fitting import MANY_SPARSE_FEATURES, SparseHome
from gpuml.decomposition._input import (
    batch_of,
    check_fit_rows,
    refuse_what_is_not_finite,
)
from gpuml.decomposition._principal import SMALL_SIDE, or_nan, without_columns
from gpuml.decomposition._projection import Kind, Projection, at_home, project
from gpuml.decomposition._streamed import Streamed, check_streamed, opened
from gpuml.extending import AffineStep
from gpuml.reading.sources import is_stored
from gpuml.solvers.affine import Affine, FittedStep, Parts
from gpuml.solvers.components import (
    Components,
    from_moments,
    from_products,
    from_rows,
    variances_along,
)
from gpuml.solvers.factors import Stacked, atom_factors
from gpuml.solvers.moments import Moments, atom_moments, normal_equations, squares_vanish
from gpuml.solvers.randomized import (
    DenseRows,
    Rows,
    SparseRows,
    dense_sums,
    randomized_svd,
    sparse_products,
    sparse_sums,
)


class TruncatedSVD(AffineStep, Projection, SklearnTruncatedSVD):
    r"""Projection on the leading right singular vectors of the rows, which are not centred.

    For rows X the components are the first k right singular vectors V of

    .. math:: X = U \, \mathrm{diag}(s) \, V'

    NumPy, pandas, polars and lists are worked on where ``gpuml.set_config(device=...)`` says;
    CuPy, torch and other device arrays where they are, sparse CuPy matrices included. Products
    are float64 whatever the dtype of X; results have the dtype of X.

    Parameters
    ----------
    n_components : int, default=2
        k, at most the number of features; for "arpack" less than both sides of X.
    algorithm : {"randomized", "arpack", "compressed"}, default="randomized"
        - "randomized": iteration with a random block, orthonormalised by QR. Dense rows of up to
          1,000 features are described by their second moments instead, whose eigenvectors are
          what the iteration tends to, for one pass over the rows.
        - "compressed": iteration with one reading of the rows for each step, where "randomized"
          takes two; see `gpuml.linalg.svd_compressed`, whose input it takes and reads block by
          block: packed codes (missing ones count as the mean of their feature), ``zarr.Array``,
          memory maps. Products of codes, and of integers of 8 bits, are float32. Of rows on a
          cluster, only sums travel.
        - "arpack": scikit-learn's, for host data; on a device, eigenvectors of second moments.
    n_iter : int, default=5
        Iterations of "randomized" and "compressed".
    n_oversamples : int, default=10
        Random vectors of "randomized" and "compressed" beyond the number of components.
    power_iteration_normalizer : {"auto", "QR", "LU", "none"}, default="auto"
        Kept for scikit-learn's sake: QR, the stable choice, is taken always.
    random_state : int, RandomState instance or None, default=None
        For "randomized", "compressed" and "arpack". The same seed draws the numbers that
        scikit-learn draws ("compressed" draws some of its own).
    tol : float, default=0.0
        Only for ARPACK.

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        V', in the library, on the device and of the dtype of X, as are all arrays below. The entry
        of largest absolute value in each row is positive.
    explained_variance_ : array of shape (n_components,)
        Variance of each column of the projected rows.
    explained_variance_ratio_ : array of shape (n_components,)
        The same as shares of the variance of all features.
    singular_values_ : array of shape (n_components,)
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Only where the columns of X have string names.

    See Also
    --------
    PCA : With the mean removed.

    References
    ----------
    N. Halko, P. G. Martinsson, J. A. Tropp, "Finding structure with randomness", SIAM Review 53
    (2011).

    Examples
    --------
    >>> import numpy as np
    >>> from gpuml.decomposition import TruncatedSVD
    >>> X = np.array([[3.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 1.0]])
    >>> TruncatedSVD(n_components=2).fit(X).singular_values_.round(6)
    array([3., 2.])
    """

    _parameter_constraints: ClassVar[dict] = {
        **SklearnTruncatedSVD._parameter_constraints,
        "algorithm": [StrOptions({"arpack", "randomized", "compressed"})],
    }

    # Hyper-parameters that may differ between candidates of one decomposition.
    affine_params = ("n_components",)

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None) -> Self:
        """Find the components.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            At least two features. With "compressed", also what `gpuml.linalg.svd_compressed`
            takes.
        y : ignored

        Returns
        -------
        self : TruncatedSVD

        Raises
        ------
        ValueError
            For input that scikit-learn's TruncatedSVD rejects. A failed fit leaves the estimator
            as it was.
        MemoryError
            If a device has no room for even small blocks of rows.
        """
        with unchanged_on_error(self):
            self.__dict__.pop("_fill", None)
            X = opened(X)
            if self._needs_host(X):
                # Its fit is a call of fit_transform, which here is ours.
                self._fit_on_host(X)
            else:
                self._find(X)
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def fit_transform(self, X, y=None):
        """Find the components, and project the same rows on them.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : ignored

        Returns
        -------
        X_new : array of shape (n_samples, n_components)
            In the library and on the device of X.
        """
        with unchanged_on_error(self):
            self.__dict__.pop("_fill", None)
            X = opened(X)
            if self._needs_host(X):
                return self._fit_on_host(X)
            rows, home = self._find(X)
            return as_asked(self, move(project(self, rows), home))

    def _fit_on_host(self, X):
        with naming_columns(self, X):
            return SklearnTruncatedSVD.fit_transform(self, X)

    def _needs_host(self, X):
        """Whether scikit-learn does it: sparse host data, and ARPACK."""
        if self.algorithm == "compressed" and is_sparse(X):
            raise TypeError(
                "Sparse data was passed, but dense data is required for algorithm='compressed'. "
                "Use algorithm='randomized'."
            )
        return sparse.issparse(X) or (
            self.algorithm == "arpack" and not (is_foreign(X) or is_cupyx_sparse(X))
        )

    def _find(self, X):
        """Fit; gives rows to project, perhaps on a device, and the place for the result."""
        if is_cupyx_sparse(X):
            X = check_csr(self, X, reset=True, floats=True)
            found = _fit_sparse(self, X)
            self.__dict__.update(found.pick(self._count(X.shape), 0))
            return X, place_of(X.data)
        if self.fits_batches and is_stored(X):
            rows = check_streamed(self, X, reset=True, min_features=2)
            self._take(rows, self._count(X.shape))
            return rows, rows.home
        X = check_fit_rows(self, X, min_features=2, keep_dtype=self.fits_batches)
        batch = batch_of(X)
        self._take(batch, self._count(X.shape))
        return batch.X, batch.home

    def _take(self, batch: Batch | Streamed, count: int) -> None:
        self.__dict__.update(_fit_dense(self, batch, count).pick(count, 0))

    def _count(self, shape):
        """How many components rows of a shape give.

        Raises
        ------
        ValueError
            If the algorithm cannot give so many.
        """
        n, p = shape
        if self.algorithm == "arpack" and not self.n_components < min(n, p):
            raise ValueError(
                f"n_components({self.n_components}) must be < min(n_samples, n_features)="
                f"{min(n, p)} with algorithm='arpack'."
            )
        if self.n_components > p:
            raise ValueError(f"n_components({self.n_components}) must be <= n_features({p}).")
        return min(self.n_components, n)

    @property
    def fits_batches(self) -> bool:
        """Whether `fit_batch` does the work of `fit`, wherever the rows of a batch are."""
        return self.algorithm == "compressed"

    def fit_batch(self, batch: Batch) -> dict[str, Any]:
        """Attributes fitted to the rows of a batch, which may be divided."""
        count = self._count((batch.n_rows, batch.n_features))
        return _fit_dense(self, batch, count).pick(count, 0)

    # ---------------------------------------------------------------- as a step of a search

    def affine_obstacle(self, X: Any) -> str | None:
        """Why the components do not follow from second moments, which all candidates could share.

        They do for both algorithms: ARPACK stops where only rounding is left, and the randomized
        iteration is replaced by its limit for so many features anyway.
        """
        X = as_array(X)
        shape: tuple[int, ...] = tuple(getattr(X, "shape", ()))
        loose = self.algorithm == "arpack" and self.tol > 0
        if is_sparse(X) or len(shape) != 2:
            return "sparse X" if is_sparse(X) else "X without two dimensions"
        if loose or self.fits_batches:
            return f"tol={self.tol!r}" if loose else f"algorithm={self.algorithm!r}"
        return None if shape[1] <= SMALL_SIDE else f"more than {SMALL_SIDE} features"

    def multi_affine(
        self, parts: Parts, candidates: Sequence[Mapping[str, Any]]
    ) -> list[FittedStep]:
        """Fit every candidate to every part, from one decomposition of each part.

        Parameters
        ----------
        parts : Parts
            Without weights.
        candidates : sequence of dicts
            Values of `affine_params`; what one leaves out is as on this estimator.

        Returns
        -------
        steps : list of FittedStep
            One for each candidate. Where a part has fewer rows than components were asked for,
            its maps end in zero columns.

        Raises
        ------
        UnfittableSplits
            For a number of components that some part cannot have, by the numbers of the parts.
        """
        models = [clone(self).set_params(**candidate) for candidate in candidates]
        for model in models:
            model._validate_params()
        by_part = parts.each(
            lambda s: [model._count((parts.n_rows[s], parts.n_features)) for model in models]
        )
        counts = list(zip(*by_part, strict=True))
        most = max(map(max, counts))
        found = _from_moments(parts.moments, most, parts.n_rows, parts.batch, parts.stacked)
        return [_step(found, kept) for kept in counts]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.array_api_support = self.algorithm in ("randomized", "compressed")
        tags.input_tags.sparse = self.algorithm != "compressed"
        return tags


@dataclass(frozen=True)
class Truncated:
    """Components of S parts about the origin, and the variances (S, r) along them; float64.

    `spread` (S,) is the variance of all features together. Results are of the library and dtype of
    `batch`. `fill` (p,) counted in place of missing values, if any was.
    """

    found: Components
    variance: Array
    spread: Array
    batch: Kind
    fill: Array | None = None

    def pick(self, count: int, s: int) -> dict[str, Any]:
        """Fitted attributes of part s."""
        variance = self.variance[s, :count]
        kept = {
            "components_": self.found.vectors[s, :count, :],
            "singular_values_": self.found.singular[s, :count],
            "explained_variance_": variance,
            "explained_variance_ratio_": variance / or_nan(self.spread[s]),
        }
        if self.fill is not None:
            kept["_fill"] = self.fill
        return {name: at_home(values, self.batch) for name, values in kept.items()}

    def maps(self, counts: Sequence[int]) -> Affine:
        """``x -> x V``, with zero columns where a part has fewer components."""
        vectors = self.found.vectors
        xp = namespace(vectors)
        width = max(counts)
        matrix = xp.matrix_transpose(vectors[:, :width, :])
        if min(counts) < width:
            matrix = without_columns(matrix, counts)
        return Affine(matrix, xp.zeros_like(matrix[:, 0, :]))


def _step(found, counts):
    widths = counts if min(counts) < max(counts) else None
    return FittedStep(found.maps(counts), lambda s: found.pick(counts[s], s), widths)


def _from_moments(
    moments: Moments,
    count: int,
    n_rows: Sequence[int],
    batch: Batch,
    stacked: Callable[[int], Stacked],
) -> Truncated:
    """Of parts with some moments; ``stacked(s)`` are rows that describe part s (see `Parts`)."""
    if squares_vanish(moments):
        found = from_rows([stacked(s) for s in range(len(n_rows))], n_rows, centred=False)
    else:
        found = from_moments(moments, count, centred=False)
    xp = namespace(found.total)
    size = constant(n_rows, like=found.total, xp=xp)
    # How the projected rows vary follows from how the rows do.
    centred = normal_equations(moments, True).xx / size[:, None, None]
    spread = xp.sum(xp.linalg.diagonal(centred), axis=-1)
    return Truncated(found, variances_along(centred, found.vectors), spread, batch)


def _fit_dense(model: TruncatedSVD, batch: Batch | Streamed, count: int) -> Truncated:
    if isinstance(batch, Streamed) or model.fits_batches:
        return _from_visits(model, batch, count)
    block_bytes = current_settings().block_bytes
    if model.algorithm == "arpack" or batch.n_features <= SMALL_SIDE:
        every_row = (slice(0, batch.n_rows),)
        moments = atom_moments(batch, every_row, block_bytes=block_bytes)
        if not all_finite(moments.gram, batch.work.xp):
            refuse_what_is_not_finite(model, batch.X)

        def stacked(_):
            return atom_factors(batch, every_row, block_bytes=block_bytes).stack(np.ones(1))

        return _from_moments(moments, count, (batch.n_rows,), batch, stacked)
    sums = dense_sums(batch, block_bytes)
    if not all_finite(sums.total, batch.work.xp):
        refuse_what_is_not_finite(model, batch.X)
    return _randomized(model, DenseRows(batch, None, sums.mean, block_bytes), sums.total, batch)


def _from_visits(model: TruncatedSVD, batch: Batch | Streamed, count: int) -> Truncated:
    how = Iteration(model.n_oversamples, model.n_iter, model.random_state)
    found, _, fill, variance = compressed_components(model, batch, count, how, centred=False)
    assert variance is not None
    return Truncated(found, variance[None, :], found.total / batch.n_rows, batch, fill)


def _fit_sparse(model: TruncatedSVD, X: Any) -> Truncated:
    """Of a sparse matrix (CSR) whose data is an array that gpuml works on."""
    check_finite(X.data, "X", model)
    doubles = X.astype(np.float64)
    sums = sparse_sums(doubles)
    home = SparseHome(X, place_of(X.data))
    if model.algorithm == "randomized":
        return _randomized(model, SparseRows(doubles, None, sums.mean), sums.total, home)
    if X.shape[1] > MANY_SPARSE_FEATURES:
        raise ValueError(
            f"algorithm='arpack' needs the second moments of all features on a GPU, which is too "
            f"much for {X.shape[1]}. Use algorithm='randomized', or pass host data (X.get())."
        )
    centred = sparse_products(doubles, sums.mean)[None, ...] / X.shape[0]
    mean = sums.mean[None, :]
    products = X.shape[0] * (centred + mean[:, :, None] * mean[:, None, :])
    found = from_products(products, 0 * mean, model._count(X.shape))
    return Truncated(
        found, variances_along(centred, found.vectors), sums.total[None] / X.shape[0], home
    )


def _randomized(model: TruncatedSVD, rows: Rows, total: Array, batch: Any) -> Truncated:
    """`total` is the sum of squares of the rows less their mean."""
    xp = namespace(total)
    singular, vectors, projected = randomized_svd(
        rows,
        model.n_components,
        model.n_oversamples,
        model.n_iter,
        check_random_state(model.random_state),
    )
    variance = xp.var(projected, axis=0)
    found = Components(
        vectors[None, ...],
        singular[None, :],
        xp.sum(singular**2)[None],
        xp.zeros((1, rows.shape[1]), dtype=xp.float64, device=vectors.device),
    )
    return Truncated(found, variance[None, :], total[None] / rows.shape[0], batch)
