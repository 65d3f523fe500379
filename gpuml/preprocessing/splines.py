"""B-splines of each feature, on the device of the rows."""

from typing import Any, Self

import numpy as np
from sklearn import preprocessing as sk

from gpuml._arrays import Array, as_array, move, namespace, place_of, to_host
from gpuml._arrays.ops import any_true, clipped
from gpuml._inputs.validation import check_rows, check_weight
from gpuml._sklearn import _fit_context
from gpuml.preprocessing._column_extrema import column_extrema
from gpuml.preprocessing._fills import column_quantiles, count_missing, is_nan
from gpuml.preprocessing._transformer import Transformer
from gpuml.preprocessing._weighted_quantiles import weighted_quantiles


class SplineTransformer(Transformer, sk.SplineTransformer):
    r"""Replace each feature by the values of B-splines, :math:`z_{jk} = B_{jk}(x_j)`.

    CuPy, torch and other arrays are transformed on their device; scikit-learn transforms data in
    CPU memory. The splines themselves stay in CPU memory.

    Parameters
    ----------
    n_knots : int, default=5
        Number of knots per feature, unless `knots` is an array.
    degree : int, default=3
        Degree of the polynomials between knots.
    knots : {"uniform", "quantile"} or array-like of shape (n_knots, n_features), default="uniform"
        Positions of the knots: evenly spaced, at quantiles of the feature, or given.
    extrapolation : {"error", "constant", "linear", "continue", "periodic"}, default="constant"
        What to do with values below the first or above the last knot.
    include_bias : bool, default=True
        Whether to keep the last spline of each feature. It is redundant beside an intercept: the
        splines of a feature sum to 1.
    order : {"C", "F"}, default="C"
        Memory order of the output; only for data in CPU memory.
    handle_missing : {"error", "zeros"}, default="error"
        Whether nan raises an error, or becomes zeros in all splines.
    sparse_output : bool, default=False
        Whether `transform` returns a sparse matrix; only for data in CPU memory.

    Attributes
    ----------
    bsplines_ : list of scipy.interpolate.BSpline
        In CPU memory.
    n_features_out_ : int
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    KBinsDiscretizer : Divide features into bins.
    PolynomialFeatures : Powers and products of features.

    Examples
    --------
    >>> from gpuml.preprocessing import SplineTransformer
    >>> SplineTransformer(3, degree=1).fit_transform([[0.0], [1.0], [4.0]])
    array([[1. , 0. , 0. ],
           [0.5, 0.5, 0. ],
           [0. , 0. , 1. ]])
    """

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None, sample_weight=None) -> Self:
        """Find the knots.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        self : SplineTransformer

        Raises
        ------
        ValueError
            For input that scikit-learn's class rejects. A failed fit leaves the estimator as it
            was.
        """
        return self._fitted(X, y, sample_weight)

    def _checked(self, X: Any, *, reset: bool) -> Array:
        if self.sparse_output:
            raise ValueError(
                "sparse_output=True needs data in CPU memory. Set sparse_output=False, or convert "
                "X to NumPy."
            )
        return check_rows(self, X, reset=reset, allow_nan=self.handle_missing == "zeros")

    def _fit_there(self, X, y=None, sample_weight=None):
        X = self._checked(X, reset=True)
        if X.shape[0] < 2:
            raise ValueError(
                f"Found array with {X.shape[0]} sample(s) (shape={tuple(X.shape)}) while a minimum "
                "of 2 is required by SplineTransformer."
            )
        weight = check_weight(sample_weight, X)
        # scikit-learn finds the same knots in a few rows.
        self._fit_few(self._rows_of_knots(X, weight))

    def _rows_of_knots(self, X: Array, weight: Array | None) -> np.ndarray:
        """Rows (k, p) in CPU memory with the same extrema, or quantiles, as X."""
        xp = namespace(X)
        if not isinstance(self.knots, str):
            return np.zeros((2, X.shape[1]))
        if self.knots == "uniform":
            X = X if weight is None else xp.take(X, xp.nonzero(weight)[0], axis=0)
            return to_host(xp.stack(column_extrema(self, X)))
        levels = np.linspace(0, 1, self.n_knots)
        if weight is not None:
            return weighted_quantiles(X, weight, levels, average=False)
        seen = X.shape[0] - count_missing(X, is_nan)
        found = to_host(column_quantiles(X, is_nan, seen, levels))
        return np.where(seen > 0, found, np.nan)

    def _transform_there(self, X):
        X = self._checked(as_array(X), reset=False)
        xp = namespace(X)
        splines = [self._values(X[:, j], spline) for j, spline in enumerate(self.bsplines_)]
        if not self.include_bias:
            splines = [values[:, :-1] for values in splines]
        return xp.concat([xp.astype(values, X.dtype) for values in splines], axis=1)

    def _values(self, column: Array, spline: Any) -> Array:
        """Values (n, k) of the splines of a feature."""
        xp, place = namespace(column), place_of(column)
        x = xp.astype(column, xp.float64, copy=True)
        missing = xp.isnan(x)
        t, degree = spline.t, spline.k
        n = len(t) - degree - 1
        low, high = float(t[degree]), float(t[n])
        x = xp.where(missing, xp.full_like(x, low if low == low else 0.0), x)
        inside = clipped(x, low, high) if low == low else x
        outside = x - inside
        if self.extrapolation == "error" and any_true(outside != 0, xp):
            raise ValueError("`X` contains values beyond the limits of the knots.")
        if self.extrapolation == "continue":
            inside = x
        elif self.extrapolation == "periodic":
            inside = low + (x - low) % (high - low) if high > low else xp.zeros_like(x)
        values = _basis(inside, t, degree)
        if self.extrapolation == "periodic" and degree:
            head = values[:, :degree] + values[:, -degree:]
            values = xp.concat([head, values[:, degree:-degree]], axis=1)
        elif self.extrapolation == "linear":
            for edge, away in ((low, outside < 0), (high, outside > 0)):
                slopes = move(np.ascontiguousarray(spline(edge, nu=1)), place)
                rise = xp.where(away, outside, xp.zeros_like(outside))
                values = values + rise[:, None] * slopes[None, :]
        return xp.where(missing[:, None], xp.zeros_like(values), values)


def _basis(x: Array, t: np.ndarray, degree: int) -> Array:
    """All B-splines (n, len(t) - degree - 1) of some knots at x (n,).

    Those that are not 0 between two knots follow from those of the degree below (de Boor 1978,
    chapter X): beyond the outer knots the polynomials go on.
    """
    xp, place = namespace(x), place_of(x)
    n_splines = len(t) - degree - 1
    knots = move(np.ascontiguousarray(t, dtype=np.float64), place)
    interior = move(np.ascontiguousarray(t[degree + 1 : n_splines], dtype=np.float64), place)
    at = xp.searchsorted(interior, x, side="right") + degree
    values = [xp.ones_like(x)]
    for d in range(1, degree + 1):
        below = [xp.zeros_like(x)] * (d + 1)
        for r, value in enumerate(values):
            left = xp.take(knots, at - d + 1 + r, axis=0)
            right = xp.take(knots, at + 1 + r, axis=0)
            width = right - left
            share = xp.where(width > 0, value / xp.where(width > 0, width, 1.0), 0.0)
            below[r] = below[r] + (right - x) * share
            below[r + 1] = (x - left) * share
        values = below
    numbers = xp.arange(n_splines, dtype=at.dtype, device=place.device)
    found = xp.zeros((x.shape[0], n_splines), dtype=xp.float64, device=place.device)
    for r, value in enumerate(values):
        own = (at - degree + r)[:, None] == numbers[None, :]
        found = found + xp.where(own, value[:, None], 0.0)
    return found
