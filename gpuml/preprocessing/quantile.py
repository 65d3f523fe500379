"""Features mapped to a uniform or normal distribution, on the device of the rows."""

import warnings
from typing import Any

import numpy as np
from scipy import special
from sklearn import preprocessing as sk
from sklearn.utils import check_random_state, resample
from sklearn.utils.validation import check_is_fitted

from gpuml._arrays import (
    Array,
    as_array,
    is_foreign,
    move,
    namespace,
    place_of,
    to_host,
)
from gpuml._arrays.ops import clipped
from gpuml._inputs.validation import check_images, check_rows
from gpuml.exceptions import level_of_user
from gpuml.preprocessing._fills import column_quantiles, count_missing, is_nan
from gpuml.preprocessing._places import at_host
from gpuml.preprocessing._transformer import Transformer

# What is nearer to an end than this counts as there, before and behind a normal distribution.
NEAR_ENDS = 1e-7
NORMAL_ENDS = special.ndtri([NEAR_ENDS - np.spacing(1), 1 - (NEAR_ENDS - np.spacing(1))])


class QuantileTransformer(Transformer, sk.QuantileTransformer):
    r"""Map each feature to a uniform or normal distribution, by its quantiles.

    .. math:: z_j = G^{-1}(\hat F_j(x_j))

    where :math:`\hat F_j` is the distribution function of the training rows, linear between
    `n_quantiles` quantiles, and G that of the output. CuPy, torch and other arrays stay on their
    device, where columns are sorted; scikit-learn does the work for data in CPU memory, including
    sparse matrices.

    Parameters
    ----------
    n_quantiles : int, default=1000
        Number of quantiles per feature; at most the number of rows.
    output_distribution : {"uniform", "normal"}, default="uniform"
    ignore_implicit_zeros : bool, default=False
        Whether to leave out the zeros that a sparse matrix does not store. Only for data in CPU
        memory.
    subsample : int or None, default=10000
        Compute quantiles from at most this many randomly drawn rows; None uses all rows.
    random_state : int, RandomState instance or None, default=None
        Seed of `subsample`; the same rows are drawn as in scikit-learn.
    copy : bool, default=True
        Whether `transform` must not write to X. gpuml never does; scikit-learn's code may.

    Attributes
    ----------
    n_quantiles_ : int
    quantiles_ : array of shape (n_quantiles_, n_features)
        In the library and on the device of X, float64.
    references_ : ndarray of shape (n_quantiles_,)
        The levels of the quantiles, from 0 to 1, in CPU memory.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    PowerTransformer : Make features more normal by a smooth function with one parameter.

    References
    ----------
    B. M. Bolstad et al., "A comparison of normalization methods for high density oligonucleotide
    array data based on variance and bias", Bioinformatics 19 (2003).

    Examples
    --------
    >>> from gpuml.preprocessing import QuantileTransformer
    >>> QuantileTransformer(n_quantiles=3).fit_transform([[1.0], [2.0], [9.0]])
    array([[0. ],
           [0.5],
           [1. ]])
    """

    quantiles_: Any
    _located_by = "quantiles_"

    def _fit_there(self, X, y=None):
        if self.subsample is not None and self.n_quantiles > self.subsample:
            raise ValueError(
                "The number of quantiles cannot be greater than the number of samples used. Got "
                f"{self.n_quantiles} quantiles and {self.subsample} samples."
            )
        X = check_rows(self, X, reset=True, allow_nan=True)
        n_rows = X.shape[0]
        if self.n_quantiles > n_rows:
            warnings.warn(
                f"n_quantiles ({self.n_quantiles}) is greater than the total number of samples "
                f"({n_rows}). n_quantiles is set to n_samples.",
                stacklevel=level_of_user(),
            )
        if self.ignore_implicit_zeros:
            warnings.warn(
                "'ignore_implicit_zeros' takes effect only with sparse matrix. This parameter has "
                "no effect.",
                stacklevel=level_of_user(),
            )
        self.n_quantiles_ = max(1, min(self.n_quantiles, n_rows))
        self.references_ = np.linspace(0, 1, self.n_quantiles_, endpoint=True)
        if self.subsample is not None and self.subsample < n_rows:
            draw = {"replace": False, "n_samples": self.subsample}
            rows = resample(
                np.arange(n_rows), random_state=check_random_state(self.random_state), **draw
            )
            X = namespace(X).take(X, move(rows, place_of(X)), axis=0)
        X = namespace(X).astype(X, namespace(X).float64)
        seen = X.shape[0] - count_missing(X, is_nan)
        # As of percentages: of values that many rows have the last digit counts.
        found = column_quantiles(X, is_nan, seen, 100 * self.references_ / 100)
        xp = namespace(X)
        nothing = move(seen == 0, place_of(X))
        self.quantiles_ = xp.where(nothing, xp.full_like(found, float("nan")), found)

    def _transform_there(self, X):
        X = check_rows(self, X, reset=False, allow_nan=True)
        return self._columns(X, self._forward)

    def inverse_transform(self, X):
        """Invert `transform`.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        X_original : array of shape (n_samples, n_features)
            In the library, on the device and of the dtype of X.
        """
        check_is_fitted(self)
        X = as_array(X)
        if not is_foreign(X):
            return sk.QuantileTransformer.inverse_transform(at_host(self), X)
        return self._columns(
            check_images(self, X, self.n_features_in_, allow_nan=True), self._backward
        )

    def _columns(self, X, function):
        xp, place = namespace(X), place_of(X)
        quantiles = xp.astype(move(self.quantiles_, place), xp.float64)
        references = move(self.references_, place)
        found = []
        for j in range(X.shape[1]):
            x = xp.asarray(X[:, j], copy=True)
            mapped = function(x, xp.asarray(quantiles[:, j], copy=True), references, xp)
            mapped = xp.where(xp.isnan(x), xp.full_like(mapped, float("nan")), mapped)
            found.append(xp.astype(mapped, X.dtype))
        return xp.stack(found, axis=1)

    def _forward(self, x, quantiles, references, xp):
        wide = xp.astype(x, xp.float64)
        # For values that many rows have, the mean of both interpolation directions.
        up = _interpolated(wide, quantiles, references)
        down = _interpolated(-wide, -xp.flip(quantiles), -xp.flip(references))
        share = 0.5 * (up - down)
        share = self._at_ends(share, x, quantiles, (0.0, 1.0), xp)
        if self.output_distribution == "uniform":
            return share
        return clipped(of_scipy("ndtri", share), *map(float, NORMAL_ENDS))

    def _backward(self, z, quantiles, references, xp):
        wide = xp.astype(z, xp.float64)
        if self.output_distribution == "normal":
            wide = of_scipy("ndtr", wide)
        found = _interpolated(wide, references, quantiles)
        ends = xp.asarray([0.0, 1.0], dtype=xp.float64, device=place_of(z).device)
        return self._at_ends(found, wide, ends, (quantiles[0], quantiles[-1]), xp)

    def _at_ends(self, mapped, x, known, ends, xp):
        """Images of values at an end of the known range, which are the images of that end."""
        lowest, highest = (xp.astype(known[k], x.dtype) for k in (0, -1))
        if self.output_distribution == "normal":
            low, high = x - NEAR_ENDS < lowest, x + NEAR_ENDS > highest
        else:
            low, high = x == lowest, x == highest
        first, last = (xp.full_like(mapped, float(end)) for end in ends)
        return xp.where(low, first, xp.where(high, last, mapped))


def _interpolated(x: Array, known: Array, values: Array) -> Array:
    """As `numpy.interp`: values (n,) between those of increasing points (k,), nan of nan."""
    xp, k = namespace(x), known.shape[0]
    if k == 1:
        return xp.zeros_like(x) + values[0]
    at = clipped(xp.searchsorted(known, x, side="right") - 1, 0, k - 2)
    below, above = xp.take(known, at), xp.take(known, at + 1)
    first, last = xp.take(values, at), xp.take(values, at + 1)
    gap = above - below
    gap = xp.where(gap == 0, xp.ones_like(gap), gap)  # beyond both ends
    found = first + (last - first) / gap * (x - below)
    found = xp.where(x >= known[-1], xp.zeros_like(x) + values[-1], found)
    return xp.where(x < known[0], xp.zeros_like(x) + values[0], found)


def of_scipy(name: str, x: Array) -> Array:
    """A function of `scipy.special`, in the library of an array if it has one."""
    place = place_of(x)
    if place.kind == "cupy":
        from cupyx.scipy import special as theirs

        return getattr(theirs, name)(x)
    if place.kind == "torch":
        from torch import special as theirs

        return getattr(theirs, name)(x)
    return move(np.asarray(getattr(special, name)(to_host(x))), place)
