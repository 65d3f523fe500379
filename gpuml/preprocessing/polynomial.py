"""Products of features up to a degree, on the device of the rows."""

from itertools import accumulate
from typing import Any

from sklearn import preprocessing as sk

from gpuml._arrays import Array, device_of, namespace
from gpuml._inputs.validation import check_rows
from gpuml.preprocessing._transformer import Transformer


class PolynomialFeatures(Transformer, sk.PolynomialFeatures):
    r"""All products of features up to a degree, :math:`\prod_j x_j^{e_j}, \sum_j e_j \le d`.

    CuPy, torch and other arrays stay on their device; scikit-learn transforms data in CPU memory,
    including sparse matrices.

    Parameters
    ----------
    degree : int or tuple (min_degree, max_degree), default=2
        The largest degree (sum of exponents) of a product, or the smallest and the largest degree.
    interaction_only : bool, default=False
        Whether to leave out products with an exponent above 1.
    include_bias : bool, default=True
        Whether to add a first column of ones.
    order : {"C", "F"}, default="C"
        Memory order of the output. "F" (by columns) is faster to compute.

    Attributes
    ----------
    powers_ : ndarray of shape (n_output_features_, n_features_in_)
        Exponents of each product.
    n_output_features_ : int
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    Examples
    --------
    >>> from gpuml.preprocessing import PolynomialFeatures
    >>> PolynomialFeatures().fit_transform([[2.0, 3.0]])
    array([[1., 2., 3., 4., 6., 9.]])
    """

    def _fit_there(self, X, y=None):
        X = check_rows(self, X, reset=True)
        # Only the number of features counts, so that one row of zeros says it all.
        self._fit_few([[0.0] * X.shape[1]])

    def _transform_there(self, X):
        X = check_rows(self, X, reset=False)
        XP = _empty((X.shape[0], self.n_output_features_), self.order, like=X)
        column = 0
        if self.include_bias:
            XP[:, 0] = 1.0
            column = 1
        self._write_products(X, XP, column)
        return XP

    def _write_products(self, X: Array, XP: Array, column: int) -> None:
        """Write all products of degree 1 and more, from a column on."""
        last, sizes = X, [1] * X.shape[1]
        for degree in range(1, self._max_degree + 1):
            if degree > 1:
                sizes = _sizes(sizes, self.interaction_only)
            width = sum(sizes)
            if width == 0:
                return
            if degree >= self._min_degree:
                products = XP[:, column : column + width]
                column += width
            else:
                products = _empty((X.shape[0], width), self.order, like=X)
            if degree == 1:
                products[:, :] = X
            else:
                _write_next(last, X, products, sizes)
            last = products


def _sizes(sizes: list[int], interaction_only: bool) -> list[int]:
    """Of the next degree, how many products have feature j for their first one."""
    # Feature j times the products whose first feature is j or later, or later than j.
    from_j = list(accumulate(reversed(sizes)))[::-1]
    return [*from_j[1:], 0] if interaction_only else from_j


def _write_next(last: Array, X: Array, products: Array, sizes: list[int]) -> None:
    """Each feature times the last of the products of one degree less."""
    start = 0
    for j, size in enumerate(sizes):
        if size:
            factors = last[:, last.shape[1] - size :]
            _multiply(factors, X[:, j : j + 1], products, slice(start, start + size))
            start += size


def _empty(shape: tuple[int, int], order: str, *, like: Array) -> Any:
    xp = namespace(like)
    options = {"dtype": like.dtype, "device": device_of(like)}
    return xp.empty(shape, **options) if order == "C" else xp.empty(shape[::-1], **options).T


def _multiply(a: Array, b: Array, target: Array, columns: slice) -> None:
    """``target[:, columns] = a * b``, without a copy in between where the library can."""
    if type(target).__module__.startswith("cupy"):
        namespace(a).multiply(a, b, out=target[:, columns])
    else:
        target[:, columns] = a * b
