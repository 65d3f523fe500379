"""Bins of continuous features, on the device of the rows."""

import warnings
from typing import Self

import numpy as np
from sklearn import preprocessing as sk
from sklearn.utils import resample
from sklearn.utils.validation import check_is_fitted

from gpuml._arrays import (
    as_array,
    is_array,
    is_cupyx_sparse,
    is_foreign,
    move,
    namespace,
    place_of,
    to_host,
)
from gpuml._inputs.validation import check_images, check_rows, check_weight
from gpuml._sklearn import _fit_context
from gpuml.exceptions import level_of_user
from gpuml.preprocessing._fills import column_quantiles, is_nan
from gpuml.preprocessing._places import host_dtype
from gpuml.preprocessing._transformer import Transformer
from gpuml.preprocessing._weighted_quantiles import weighted_quantiles
from gpuml.preprocessing.one_hot import csr, dense

# Bins that are not wider are joined with the one before, as in scikit-learn.
NARROWEST = 1e-8
# Quantiles that are known of weighted rows.
OF_WEIGHTS = ("inverted_cdf", "averaged_inverted_cdf")


class KBinsDiscretizer(Transformer, sk.KBinsDiscretizer):
    r"""Divide each feature into bins, and encode the bins as integers or indicator columns.

    A value :math:`x_j` of feature j is in the bin with the number

    .. math:: z_j = \#\{k : 0 < k < K,\ e_{jk} \le x_j\}

    for bin edges :math:`e_{j0} < \dots < e_{jK}`. CuPy, torch and other arrays stay on their
    device; scikit-learn does the work for data in CPU memory. Edges are in CPU memory.

    Parameters
    ----------
    n_bins : int or array-like of shape (n_features,), default=5
        Number K of bins of each feature, at least 2.
    encode : {"onehot", "onehot-dense", "ordinal"}, default="onehot"
        Whether the output is a sparse matrix of 0 and 1, a dense one, or one with the numbers of
        the bins. For device data, only CuPy arrays have sparse output.
    strategy : {"uniform", "quantile", "kmeans"}, default="quantile"
        "uniform" bins have the same width, and "quantile" bins about the same number of rows.
        "kmeans" has a bin around each of the centres of a clustering, only for data in CPU memory.
    quantile_method : str, default="averaged_inverted_cdf"
        Method for quantiles that are between two values: a name of `numpy.quantile`.
    dtype : {numpy.float32, numpy.float64}, default=None
        Dtype of the output; None is the dtype of X.
    subsample : int or None, default=200000
        If X has more rows than this, `fit` finds the edges in a random sample of this size. None
        uses all rows.
    random_state : int, RandomState instance or None, default=None
        Seed of the sample.

    Attributes
    ----------
    bin_edges_ : ndarray of shape (n_features,) of ndarrays
        The K + 1 edges of each feature, in CPU memory.
    n_bins_ : ndarray of shape (n_features,)
        Number of bins of each feature, without those that were too narrow.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    Binarizer : Two bins, with a given threshold.
    SplineTransformer : Smooth piecewise polynomials instead of bins.

    Examples
    --------
    >>> from gpuml.preprocessing import KBinsDiscretizer
    >>> bins = KBinsDiscretizer(3, encode="ordinal", strategy="uniform")
    >>> bins.fit_transform([[0.0], [1.0], [4.0], [6.0]])
    array([[0.],
           [0.],
           [2.],
           [2.]])
    """

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None, sample_weight=None) -> Self:
        """Find the edges of the bins.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows; None is 1.

        Returns
        -------
        self : KBinsDiscretizer

        Raises
        ------
        ValueError
            For input that scikit-learn's class rejects, and for arrays of other libraries with
            ``strategy="kmeans"``. A failed fit leaves the estimator as it was.
        """
        return self._fitted(X, y, sample_weight)

    def _fit_there(self, X, y=None, sample_weight=None):
        if self.strategy == "kmeans":
            raise ValueError(
                "strategy='kmeans' needs data in CPU memory: convert X to NumPy, or choose "
                "strategy='quantile' or 'uniform'."
            )
        X = check_rows(self, X, reset=True)
        weight = check_weight(sample_weight, X)
        xp, dtype = namespace(X), host_dtype(X) if self.dtype is None else self.dtype
        if self.subsample is not None and X.shape[0] > self.subsample:
            X = xp.take(X, move(self._drawn(X.shape[0], weight), place_of(X)), axis=0)
            weight = None
        if weight is not None and self.strategy == "uniform":
            X, weight = xp.take(X, xp.nonzero(weight)[0], axis=0), None
        elif weight is not None and self.quantile_method not in OF_WEIGHTS:
            raise ValueError(
                "When fitting with strategy='quantile' and sample weights, quantile_method should "
                "either be set to 'averaged_inverted_cdf' or 'inverted_cdf', got "
                f"quantile_method='{self.quantile_method}' instead."
            )
        self.n_bins_ = self._validate_n_bins(X.shape[1])
        self.bin_edges_ = self._edges(X, weight)
        if self.encode != "ordinal":
            self._encoder = sk.OneHotEncoder(
                categories=[np.arange(n) for n in self.n_bins_],
                sparse_output=self.encode == "onehot",
                dtype=dtype,
            ).fit(np.zeros((1, len(self.n_bins_))))

    def _drawn(self, n_rows, weight):
        """Numbers of the rows that scikit-learn would draw."""
        weight = to_host(weight) if is_array(weight) else weight
        options = {"random_state": self.random_state, "sample_weight": weight}
        return resample(np.arange(n_rows), replace=True, n_samples=self.subsample, **options)

    def _edges(self, X, weight):
        xp = namespace(X)
        low, high = to_host(xp.min(X, axis=0)), to_host(xp.max(X, axis=0))
        edges = np.zeros(len(low), dtype=object)
        for each in set(self.n_bins_.tolist()) if self.strategy == "quantile" else ():
            some = np.flatnonzero(self.n_bins_ == each)
            block = xp.take(X, move(some, place_of(X)), axis=1)
            levels = np.linspace(0, 100, each + 1) / 100
            found = self._quantiles(block, weight, levels)
            for j, own in zip(some.tolist(), found.T, strict=True):
                edges[j] = own.astype(np.float64)
        for j, n_bins in enumerate(self.n_bins_.tolist()):
            if low[j] == high[j]:
                warnings.warn(
                    f"Feature {j} is constant and will be replaced with 0.",
                    stacklevel=level_of_user(),
                )
                self.n_bins_[j], edges[j] = 1, np.array([-np.inf, np.inf])
            elif self.strategy == "uniform":
                edges[j] = np.linspace(low[j], high[j], n_bins + 1)
            else:
                self._join_narrow(edges, j)
        return edges

    def _quantiles(self, X, weight, levels):
        """Quantiles (q, p) of columns, in CPU memory."""
        if weight is not None:
            average = self.quantile_method == "averaged_inverted_cdf"
            return weighted_quantiles(X, weight, levels, average=average)
        seen = np.full(X.shape[1], X.shape[0])
        return to_host(column_quantiles(X, is_nan, seen, levels, self.quantile_method))

    def _join_narrow(self, edges, j):
        edges[j] = edges[j][np.ediff1d(edges[j], to_begin=np.inf) > NARROWEST]
        if len(edges[j]) - 1 != self.n_bins_[j]:
            warnings.warn(
                f"Bins whose width are too small (i.e., <= 1e-8) in feature {j} are removed. "
                "Consider decreasing the number of bins.",
                stacklevel=level_of_user(),
            )
            self.n_bins_[j] = len(edges[j]) - 1

    def _transform_there(self, X):
        place = place_of(as_array(X))
        if self.encode == "onehot" and place.kind != "cupy":
            raise ValueError(
                "encode='onehot' is for data in CPU memory and CuPy arrays, and X is of "
                f"{place.kind}. Set encode='onehot-dense' or encode='ordinal'."
            )
        X = check_rows(self, X, reset=False)
        xp = place.xp
        dtype = host_dtype(X) if self.dtype is None else np.dtype(self.dtype)
        floats = getattr(xp, dtype.name)
        X = xp.astype(xp.astype(X, floats), xp.float64)
        codes = [
            xp.searchsorted(move(edges[1:-1], place), xp.asarray(X[:, j], copy=True), side="right")
            for j, edges in enumerate(self.bin_edges_)
        ]
        if self.encode == "ordinal":
            return xp.astype(xp.stack(codes, axis=1), floats)
        return (csr if self.encode == "onehot" else dense)(codes, self.n_bins_.tolist(), dtype)

    def inverse_transform(self, X):
        """Replace the code of each bin by the centre of the bin.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features_out)
            Output of `transform`.

        Returns
        -------
        X_original : array of shape (n_samples, n_features)
            In the library and on the device of X.
        """
        check_is_fitted(self)
        X = as_array(X)
        if is_cupyx_sparse(X):
            X = X.toarray()
        if not is_foreign(X):
            return super().inverse_transform(X)
        in_columns = self.encode != "ordinal"
        X = check_images(self, X, int(self.n_bins_.sum()) if in_columns else len(self.n_bins_))
        xp, place = namespace(X), place_of(X)
        ends, columns = np.cumsum([0, *self.n_bins_]).tolist(), []
        for j, edges in enumerate(self.bin_edges_):
            own = xp.argmax(X[:, ends[j] : ends[j + 1]], axis=1) if in_columns else X[:, j]
            centres = move((edges[1:] + edges[:-1]) * 0.5, place)
            columns.append(xp.take(centres, xp.astype(own, xp.int64), axis=0))
        return xp.astype(xp.stack(columns, axis=1), X.dtype)
