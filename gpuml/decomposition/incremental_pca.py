"""Principal components of rows that come in batches, on the device of the data."""

from typing import Any, Self

import numpy as np
from sklearn.decomposition import IncrementalPCA as SklearnIncrementalPCA
from sklearn.utils import gen_batches
from sklearn.utils.validation import validate_data

from gpuml._arrays import (
    Array,
    Place,
    as_array,
    compute_place,
    is_cupyx_sparse,
    is_host_sparse,
    is_sparse,
    move,
    namespace,
    nbytes,
    place_of,
)
from gpuml._arrays.threads import one_thread_for_few
from gpuml._inputs.host_rows import naming_columns
from gpuml._inputs.validation import FLOATS, check_rows, unchanged_on_error
from gpuml._settings.config import current_settings
from gpuml._sklearn import _fit_context
from gpuml.decomposition._input import demand_array
from gpuml.decomposition._principal import Generative
from gpuml.decomposition._projection import Projection, in_kind, or_nan
from gpuml.solvers.incremental import Seen, extend


class IncrementalPCA(Projection, Generative, SklearnIncrementalPCA):
    r"""Principal component analysis of rows that come in batches.

    Each batch is read once. Of all earlier rows, the estimator keeps k scaled components
    ``diag(s) V``, the mean m and the number n. With a batch B of b rows, the new components are the
    leading right singular vectors of

    .. math:: \begin{bmatrix} \mathrm{diag}(s) V \\ B - \bar B \\
              \sqrt{n b / (n + b)} \, (m - \bar B) \end{bmatrix}

    All computations are in float64. NumPy, pandas, polars and lists go to the device of
    ``gpuml.set_config(device=...)``; CuPy, torch and other device arrays stay on theirs. Results
    have the dtype of X.

    Parameters
    ----------
    n_components : int or None, default=None
        Number k of components. None keeps min(n_samples, n_features) of the first batch.
    whiten : bool, default=False
        Whether `transform` divides each component by its standard deviation.
    copy : bool, default=True
        Has no effect: X is never written to.
    batch_size : int or None, default=None
        Number of rows in each batch of `fit`; None is 5 times the number of features.

    Attributes
    ----------
    components_ : array of shape (n_components_, n_features)
        Orthonormal rows, in the library, on the device and of the dtype of X, as are all arrays
        below. The entry of largest absolute value in each is positive.
    explained_variance_ : array of shape (n_components_,)
        Variances along the components, in descending order.
    explained_variance_ratio_ : array of shape (n_components_,)
        The same, as shares of the total variance of the features.
    singular_values_ : array of shape (n_components_,)
    mean_ : array of shape (n_features,)
        Means of the features in all rows so far.
    var_ : array of shape (n_features,)
        Variances of the features in all rows so far.
    noise_variance_ : float or array of shape ()
        Mean variance along the directions that the last batch left out.
    n_components_ : int
    n_samples_seen_ : float
        Number of rows so far.
    batch_size_ : int
        Only after `fit`.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    PCA : PCA of all rows at once, which need not fit on the device.

    References
    ----------
    D. A. Ross, J. Lim, R.-S. Lin, M.-H. Yang, "Incremental learning for robust visual tracking",
    International Journal of Computer Vision 77 (2008).

    Examples
    --------
    >>> import numpy as np
    >>> from gpuml.decomposition import IncrementalPCA
    >>> X = np.array([[-1.0, -1], [-2, -1], [-3, -2], [1, 1], [2, 1], [3, 2]])
    >>> ipca = IncrementalPCA(n_components=1, batch_size=3).fit(X)
    >>> ipca.explained_variance_ratio_.round(3)
    array([0.992])
    """

    @_fit_context(prefer_skip_nested_validation=True)
    @one_thread_for_few
    def fit(self, X, y=None) -> Self:
        """Find the components of rows, in batches of `batch_size`.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Batches of sparse rows are made dense one at a time.
        y : ignored

        Returns
        -------
        self : IncrementalPCA

        Raises
        ------
        ValueError
            For input that scikit-learn's IncrementalPCA rejects. A failed fit leaves the estimator
            as it was.
        """
        with unchanged_on_error(self):
            X = self._check_all(X)
            n, p = X.shape
            self.batch_size_ = 5 * p if self.batch_size is None else self.batch_size
            seen, kept = None, None
            for piece in gen_batches(n, self.batch_size_, min_batch_size=self.n_components or 0):
                batch = X[piece].toarray() if is_sparse(X) else X[piece, ...]
                kept = self._number_to_keep(batch.shape, kept)
                seen = self._extended(seen, batch, kept)
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    @one_thread_for_few
    def partial_fit(self, X, y=None, check_input=True) -> Self:
        """Update the components with one more batch of rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : ignored
        check_input : bool, default=True
            Whether to check X.

        Returns
        -------
        self : IncrementalPCA

        Raises
        ------
        ValueError
            For input that scikit-learn's IncrementalPCA rejects. A failed call leaves the
            estimator as it was.
        TypeError
            For sparse X.
        """
        with unchanged_on_error(self):
            first = getattr(self, "components_", None) is None
            if is_sparse(X):
                raise TypeError(
                    "IncrementalPCA.partial_fit does not support sparse input. Either convert "
                    "data to dense or use IncrementalPCA.fit to do so in batches."
                )
            demand_array(self, X)
            X = as_array(X)
            if check_input:
                X = check_rows(self, X, reset=first)
            kept = self._number_to_keep(X.shape, None if first else self.components_.shape[0])
            self._extended(None if first else _remembered(self, _work_place(X)), X, kept)
        return self

    def _check_all(self, X):
        if is_cupyx_sparse(X):
            raise TypeError(
                "IncrementalPCA does not support sparse device data. Use PCA, which does, or "
                "partial_fit with dense batches."
            )
        demand_array(self, X)
        if not is_host_sparse(X):
            return check_rows(self, X, reset=True)
        accepted = ["csr", "csc", "lil"]
        with naming_columns(self, X):
            return validate_data(self, X, accept_sparse=accepted, dtype=FLOATS).tocsr()

    def _number_to_keep(self, shape, before):
        """Components to keep after a batch of a shape, where `before` were kept (None: the first).

        Raises
        ------
        ValueError
            If there cannot be so many, or if their number would change.
        """
        n, p = shape
        wanted = self.n_components
        if wanted is None:
            return min(n, p) if before is None else before
        if wanted > p:
            raise ValueError(
                f"n_components={wanted} invalid for n_features={p}, need more rows than columns "
                "for IncrementalPCA processing"
            )
        if before is None and wanted > n:
            raise ValueError(
                f"n_components={wanted} must be less or equal to the batch number of samples {n} "
                "for the first partial_fit call."
            )
        if before not in (None, wanted):
            raise ValueError(
                f"Number of input features has changed from {before} to {wanted} between calls to "
                "partial_fit! Try setting n_components to a fixed value."
            )
        return wanted

    def _extended(self, seen: Seen | None, X: Array, kept: int) -> Seen:
        """Set the fitted attributes after one more batch, and return the state for the next."""
        found = extend(seen, move(X, _work_place(X)))
        xp = namespace(found.mean)
        squares, n = found.singular**2, found.n_rows
        variance = squares / max(n - 1, 1)
        total = or_nan(xp.sum(found.variance) * n)
        arrays = {
            "components_": found.vectors[:kept, :],
            "singular_values_": found.singular[:kept],
            "explained_variance_": variance[:kept],
            "explained_variance_ratio_": squares[:kept] / total,
            "mean_": found.mean,
            "var_": found.variance,
        }
        home = place_of(X)
        fitted = {name: in_kind(move(a, home), X.dtype) for name, a in arrays.items()}
        noise: Any = 0.0
        if kept not in X.shape and kept < variance.shape[0]:
            noise = in_kind(move(xp.mean(variance[kept:]), home), X.dtype)
        self.__dict__.update(
            fitted,
            noise_variance_=noise,
            n_components_=kept,
            n_samples_seen_=np.float64(found.n_rows),
        )
        return Seen(n, found.mean, found.variance, found.singular[:kept], found.vectors[:kept, :])

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.array_api_support = True
        return tags


def _work_place(X: Array) -> Place:
    return compute_place(X, nbytes(X), current_settings().device)


def _remembered(model: IncrementalPCA, place: Place) -> Seen:
    xp = place.xp
    mean, variance, singular, vectors = (
        xp.astype(move(getattr(model, name), place), xp.float64)
        for name in ("mean_", "var_", "singular_values_", "components_")
    )
    return Seen(int(model.n_samples_seen_), mean, variance, singular, vectors)
