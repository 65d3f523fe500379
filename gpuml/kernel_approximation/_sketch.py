"""Sketches of polynomial kernels: scikit-learn draws hashes, the device of X computes spectra."""

from typing import Any

from sklearn import kernel_approximation as sk

from gpuml._arrays import Array, device_of, namespace
from gpuml._arrays.ops import constant
from gpuml._inputs.validation import check_rows
from gpuml.preprocessing._places import row_blocks
from gpuml.preprocessing._transformer import Transformer


class PolynomialCountSketch(Transformer, sk.PolynomialCountSketch):
    r"""Features of the polynomial kernel :math:`(\gamma \, x \cdot y + c)^d` by tensor sketches.

    Each of d count sketches adds every feature, with a random sign, to a random one of k sums. The
    result is the circular convolution of the sketches: the inverse Fourier transform of the product
    of their Fourier transforms. scikit-learn draws signs and places with NumPy, so a seed gives the
    same features on every device. CuPy, torch and other arrays are transformed on their device.
    scikit-learn does the work for data in CPU memory, including sparse matrices.

    In a `gpuml.model_selection` search, before a linear model, a sketch transforms the rows once
    for all folds if `random_state` is an int.

    Parameters
    ----------
    gamma : float, default=1.0
        The factor :math:`\gamma` of the kernel.
    degree : int, default=2
        The degree d of the kernel, and the number of count sketches.
    coef0 : float, default=0
        The constant c of the kernel; at least 0.
    n_components : int, default=100
        Number k of features.
    random_state : int, RandomState instance or None, default=None
        Seed of signs and places.

    Attributes
    ----------
    indexHash_ : ndarray of shape (degree, n_features), or one more column where c is not 0
        Place of each feature in each count sketch, in CPU memory.
    bitHash_ : ndarray of the same shape
        Sign of each feature in each count sketch, in CPU memory.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    gpuml.preprocessing.PolynomialFeatures : All products of features, without approximation.

    References
    ----------
    N. Pham, R. Pagh, "Fast and scalable polynomial kernels via explicit feature maps", KDD 2013.

    Examples
    --------
    >>> from gpuml.kernel_approximation import PolynomialCountSketch
    >>> sketch = PolynomialCountSketch(n_components=2000, random_state=0)
    >>> Z = sketch.fit_transform([[1.0, 2.0, 3.0]])
    >>> (Z @ Z.T).round()  # (1 + 4 + 9) ** 2
    array([[196.]])
    """

    indexHash_: Any
    bitHash_: Any

    def _fit_there(self, X, y=None):
        if self.coef0 < 0:
            raise ValueError(
                f"coef0={self.coef0} has no root: PolynomialCountSketch needs 0 or more."
            )
        X = check_rows(self, X, reset=True)
        self._fit_few([[0.0] * X.shape[1]])

    def _transform_there(self, X):
        X = check_rows(self, X, reset=False)
        xp = namespace(X)
        sketches = [self._sketch(number, X) for number in range(self.degree)]
        # Memory for real numbers, and for half as many complex ones of a product and a transform.
        blocks = row_blocks(X, 8 * 4 * self.n_components)
        return xp.concat([self._sketched(X[rows, :], sketches) for rows in blocks])

    def _sketch(self, number: int, X: Array) -> tuple[Array, Array]:
        """A count sketch as a matrix (p, k), and what it adds (k,) for the constant `coef0`."""
        xp = namespace(X)
        places = constant(self.indexHash_[number], like=X, xp=xp)
        signs = constant(self.bitHash_[number], like=X, xp=xp)
        columns = xp.arange(self.n_components, dtype=xp.float64, device=device_of(X))
        scattered = xp.astype(places[:, None] == columns, xp.float64) * signs[:, None]
        p = X.shape[1]
        of_features = scattered[:p, :] * self.gamma**0.5
        of_constant = xp.sum(scattered[p:, :], axis=0)
        return of_features, of_constant * (self.coef0**0.5 if self.coef0 != 0 else 0.0)

    def _sketched(self, X: Array, sketches: list[tuple[Array, Array]]) -> Array:
        xp, spectrum = namespace(X), None
        X = xp.astype(X, xp.float64, copy=False)
        for of_features, of_constant in sketches:
            own = xp.fft.rfft(X @ of_features + of_constant, axis=1)
            spectrum = own if spectrum is None else spectrum * own
        return xp.fft.irfft(spectrum, n=self.n_components, axis=1)
