"""Fourier features of kernels: scikit-learn draws them, the device of X computes cosines."""

from typing import Any, ClassVar

import numpy as np
from sklearn import kernel_approximation as sk

from gpuml._arrays import Array, move, namespace, place_of
from gpuml._inputs.validation import check_rows
from gpuml.preprocessing._places import host_dtype, move_attributes
from gpuml.preprocessing._transformer import Transformer

# The step between samples of the spectrum, by the number of samples.
INTERVALS = {1: 0.8, 2: 0.5, 3: 0.4}


class RandomCosines(Transformer):
    """``sqrt(2 / k) cos(z(x) W + b)``, with W (p, k) and b (k,) from scikit-learn's class.

    The draws depend only on the number of features and their dtype, so scikit-learn's class is
    fitted to one row of zeros.
    """

    random_weights_: Any
    random_offset_: Any
    _theirs: ClassVar[Any]
    _located_by: ClassVar[str | None] = "random_weights_"

    def _fit_there(self, X, y=None):
        X = check_rows(self, X, reset=True)
        params = self.get_params(deep=False)
        theirs = self._theirs(**self._params_for(X, params))
        theirs.fit(np.zeros((1, X.shape[1]), dtype=host_dtype(X)))
        self.__dict__.update({n: v for n, v in vars(theirs).items() if n not in params})
        move_attributes(self, place_of(X))

    def _params_for(self, X: Array, params: dict[str, Any]) -> dict[str, Any]:
        """Parameters for scikit-learn's class; those that it would compute from X are numbers."""
        return params

    def _image(self, X: Array) -> Array:
        """z(x) for checked rows."""
        return X

    def _transform_there(self, X):
        X = self._image(check_rows(self, X, reset=False))
        place = place_of(X)
        xp = place.xp
        weights, offset = (move(a, place) for a in (self.random_weights_, self.random_offset_))
        dtype = xp.result_type(X.dtype, weights.dtype)
        X, weights, offset = (xp.astype(a, dtype, copy=False) for a in (X, weights, offset))
        angles = X @ weights
        angles += offset
        waves = xp.cos(angles)
        waves *= (2.0 / weights.shape[1]) ** 0.5
        return waves


class RBFSampler(RandomCosines, sk.RBFSampler):
    r"""Random Fourier features of the kernel :math:`e^{-\gamma |x - y|^2}`.

    The features are :math:`z(x) = \sqrt{2 / k} \cos(x W + b)`, where W is normal with variance
    :math:`2 \gamma` and b is uniform, so that the expectation of :math:`z(x) \cdot z(y)` is the
    kernel. scikit-learn draws W and b with NumPy, so a seed gives the same features on every
    device. CuPy, torch and other arrays are transformed on their device. scikit-learn does the work
    for data in CPU memory, including sparse matrices.

    In a `gpuml.model_selection` search, before a linear model, a sampler transforms the rows once
    for all folds if `random_state` is an int and `gamma` a number: its draws then do not depend on
    the training set.

    Parameters
    ----------
    gamma : "scale" or float, default=1.0
        Kernel coefficient. "scale" means ``1 / (n_features * X.var())``, or 1 for constant X.
    n_components : int, default=100
        Number k of features.
    random_state : int, RandomState instance or None, default=None
        Seed of W and b.

    Attributes
    ----------
    random_weights_ : array of shape (n_features, n_components)
        W, in the library, on the device and of the dtype of the X of `fit`.
    random_offset_ : array of shape (n_components,)
        b, in the same library, on the same device and of the same dtype.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    Nystroem : Features from kernels with a sample of the rows.
    gpuml.kernel_ridge.KernelRidge : The exact kernel, for up to a few ten thousand rows.

    References
    ----------
    A. Rahimi, B. Recht, "Random features for large-scale kernel machines", NIPS 2007.

    Examples
    --------
    >>> import numpy as np
    >>> from gpuml.kernel_approximation import RBFSampler
    >>> X = np.array([[0.0, 0.0], [1.0, 0.0]])
    >>> Z = RBFSampler(gamma=0.5, n_components=20_000, random_state=0).fit_transform(X)
    >>> (Z[0] @ Z[1]).round(2), np.exp(-0.5).round(2)
    (np.float64(0.61), np.float64(0.61))
    """

    _theirs: ClassVar[Any] = sk.RBFSampler

    def _params_for(self, X, params):
        if self.gamma != "scale":
            return params
        variance = float(namespace(X).var(X))
        return {**params, "gamma": 1.0 / (X.shape[1] * variance) if variance != 0 else 1.0}


class SkewedChi2Sampler(RandomCosines, sk.SkewedChi2Sampler):
    r"""Approximate the skewed chi-squared kernel by random Fourier features.

    The kernel is :math:`\prod_j 2 \sqrt{x_j + c} \sqrt{y_j + c} / (x_j + y_j + 2 c)`; the features
    are :math:`\sqrt{2 / k} \cos(\log(x + c) W + b)`. scikit-learn draws W and b with NumPy, so a
    seed gives the same features on every device. CuPy, torch and other arrays are transformed on
    their device. scikit-learn does the work for data in CPU memory.

    In a `gpuml.model_selection` search, before a linear model, a sampler transforms the rows once
    for all folds if `random_state` is an int.

    Parameters
    ----------
    skewedness : float, default=1.0
        The constant c of the kernel; all values of X must be above -c.
    n_components : int, default=100
        Number k of features.
    random_state : int, RandomState instance or None, default=None
        Seed of W and b.

    Attributes
    ----------
    random_weights_ : array of shape (n_features, n_components)
        W, in the library, on the device and of the dtype of the X of `fit`.
    random_offset_ : array of shape (n_components,)
        b, in the same library, on the same device and of the same dtype.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    AdditiveChi2Sampler : Features of another kernel between histograms, without random numbers.

    References
    ----------
    F. Li, C. Ionescu, C. Sminchisescu, "Random Fourier approximations for skewed multiplicative
    histogram kernels", DAGM 2010.

    Examples
    --------
    >>> from gpuml.kernel_approximation import SkewedChi2Sampler
    >>> X = [[0.0, 3.0], [1.0, 0.5]]
    >>> SkewedChi2Sampler(n_components=3, random_state=0).fit_transform(X).shape
    (2, 3)
    """

    _theirs: ClassVar[Any] = sk.SkewedChi2Sampler

    def _image(self, X):
        xp = namespace(X)
        least = float(xp.min(X))
        if least <= -self.skewedness:
            raise ValueError(
                f"X has a value of {least}, and SkewedChi2Sampler needs values above -skewedness, "
                f"which is {-self.skewedness}. Shift or clip X, or set skewedness above {-least}."
            )
        return xp.log(X + self.skewedness)


class AdditiveChi2Sampler(Transformer, sk.AdditiveChi2Sampler):
    r"""Approximate the additive chi-squared kernel by features sampled from its spectrum.

    For the kernel :math:`\sum_j 2 x_j y_j / (x_j + y_j)` and an interval L, each feature x becomes
    :math:`\sqrt{x L}` and, for i = 1, 2, ..., :math:`\sqrt{2 x L / \cosh(\pi i L)}` times
    :math:`\cos(i L \log x)` and :math:`\sin(i L \log x)`. Nothing is learned, and nothing is
    random. CuPy, torch and other arrays are transformed on their device. scikit-learn does the work
    for data in CPU memory, including sparse matrices.

    In a `gpuml.model_selection` search, before a linear model, it transforms the rows once for all
    folds.

    Parameters
    ----------
    sample_steps : int, default=2
        Number of samples, including the one at 0. Each feature becomes ``2 * sample_steps - 1``
        columns.
    sample_interval : float, default=None
        The interval L. None means 0.8, 0.5 or 0.4 for 1, 2 or 3 samples; for more samples, you must
        set it.

    Attributes
    ----------
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    SkewedChi2Sampler : Random features of another kernel between histograms.

    References
    ----------
    A. Vedaldi, A. Zisserman, "Efficient additive kernels via explicit feature maps", IEEE
    Transactions on Pattern Analysis and Machine Intelligence 34 (2012).

    Examples
    --------
    >>> from gpuml.kernel_approximation import AdditiveChi2Sampler
    >>> AdditiveChi2Sampler(sample_steps=1).fit_transform([[0.0, 0.2], [0.8, 0.05]])
    array([[0. , 0.4],
           [0.8, 0.2]])
    """

    def _fit_there(self, X, y=None):
        X = check_rows(self, X, reset=True)
        self._interval()
        self._refuse_negative(X, "fit")

    def _interval(self) -> float:
        if self.sample_interval is not None:
            return self.sample_interval
        if self.sample_steps not in INTERVALS:
            raise ValueError(
                f"sample_steps={self.sample_steps} has no default interval: set sample_interval, "
                "or sample_steps to 1, 2 or 3."
            )
        return INTERVALS[self.sample_steps]

    def _refuse_negative(self, X, method):
        if bool(namespace(X).any(X < 0)):
            raise ValueError(
                f"Negative values in data passed to X in AdditiveChi2Sampler.{method}; its kernel "
                "is for X of 0 and more."
            )

    def _transform_there(self, X):
        X = check_rows(self, X, reset=False)
        self._refuse_negative(X, "transform")
        xp, interval = namespace(X), self._interval()
        size = xp.sqrt(X * interval)
        # Where x is 0 the factor is 0 too, so the logarithm of any positive number will do.
        angle = interval * xp.log(xp.where(X > 0, X, xp.ones_like(X)))
        found = [size]
        for step in range(1, self.sample_steps):
            factor = size * float(np.sqrt(2.0 / np.cosh(np.pi * step * interval)))
            found += [factor * xp.cos(step * angle), factor * xp.sin(step * angle)]
        return xp.concat(found, axis=1)
