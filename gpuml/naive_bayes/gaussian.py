"""Naive Bayes with normal densities, on the device of the rows."""

from typing import Any

import numpy as np
from sklearn import naive_bayes as sk

from gpuml._arrays import Array, Place, as_array, is_array, move, namespace, place_of, to_host
from gpuml.naive_bayes._base import Posterior
from gpuml.naive_bayes._input import result_dtype
from gpuml.naive_bayes._sums import (
    ClassMoments,
    ClassRows,
    class_moments,
    column_moments,
    in_blocks,
    work_place,
)


class GaussianNB(Posterior, sk.GaussianNB):
    r"""Naive Bayes with a normal density of each feature in each class.

    .. math:: P(y = c, x) = \pi_c \prod_j N(x_j; \theta_{cj}, \sigma^2_{cj})

    with means and variances of the rows of class c. Rows are read once, where they are: NumPy,
    CuPy, torch and other arrays. Sums are float64 whatever the dtype of X, and taken about means,
    so that large values cost no digits.

    Parameters
    ----------
    priors : array-like of shape (n_classes,), default=None
        Probabilities of the classes; None takes their shares of the weight.
    var_smoothing : float, default=1e-9
        This part of the largest variance of a feature is added to all variances.

    Attributes
    ----------
    class_count_ : array of shape (n_classes,)
        Weight of the rows of each class. This and the arrays below are in the library and on the
        device of the X of the last fit, float32 for float32 X, else float64.
    class_prior_ : array of shape (n_classes,)
    classes_ : array of shape (n_classes,)
        Sorted labels, of the kind of y.
    epsilon_ : float or array of shape ()
        What was added to the variances.
    theta_, var_ : array of shape (n_classes, n_features)
        Mean and variance of each feature in each class.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Only where the columns of X have string names.

    See Also
    --------
    BernoulliNB : For features that are there or not.
    MultinomialNB : For counts.

    Notes
    -----
    Negative weights are refused. `epsilon_` is of the rows of the last call, without weights, as in
    scikit-learn; `partial_fit` takes off what it had added to the variances before, where
    scikit-learn takes off what it is going to add.

    References
    ----------
    T. F. Chan, G. H. Golub, R. J. LeVeque, "Algorithms for computing the sample variance: analysis
    and recommendations", The American Statistician 37 (1983).

    Examples
    --------
    >>> import numpy as np
    >>> from gpuml.naive_bayes import GaussianNB
    >>> X = np.array([[-1.0, -1.0], [-2.0, -1.0], [-3.0, -2.0], [1.0, 1.0], [2.0, 1.0], [3.0, 2.0]])
    >>> model = GaussianNB().fit(X, [1, 1, 1, 2, 2, 2])
    >>> model.predict([[-0.8, -1.0]])
    array([1])
    """

    _located_by = "theta_"
    _accept_sparse = False

    def _learn(self, rows: ClassRows, first: bool) -> None:
        with np.errstate(over="ignore", invalid="ignore"):  # the sums are looked at
            found = class_moments(rows)
            whole = found.pooled() if rows.weight is None else column_moments(rows)
            epsilon = self.var_smoothing * _largest(whole.variance)
            if not first:
                found = _before(self, work_place(rows.X)).merged(found)
            self._keep(found, epsilon, place_of(rows.X), result_dtype(rows.X))

    def _keep(self, found: ClassMoments, epsilon: float, home: Place, dtype: Any) -> None:
        xp = home.xp

        def kept(values: Array) -> Array:
            return xp.astype(move(values, home), dtype, copy=False)

        self.class_count_ = kept(found.count)
        _check_counts(found.count, self.class_count_)
        self.theta_ = kept(found.mean)
        self.var_ = kept(found.variance + epsilon)
        scalar = xp.asarray(epsilon, dtype=dtype, device=home.device)
        self.epsilon_ = scalar[()] if home.kind == "numpy" else scalar
        if self.priors is None:
            self.class_prior_ = kept(found.count / namespace(found.count).sum(found.count))
        else:
            self.class_prior_ = kept(move(_checked_priors(self.priors, found.count), home))

    def _joint_log_likelihood(self, X):
        place = work_place(X)
        xp = place.xp
        prior, mean, variance = (
            xp.astype(move(a, place), xp.float64)
            for a in (self.class_prior_, self.theta_, self.var_)
        )
        constant = xp.log(prior) - 0.5 * xp.sum(xp.log(2.0 * np.pi * variance), axis=1)

        def joint(block: Array) -> Array:
            distance = [
                xp.sum((block - mean[c, :]) ** 2 / variance[c, :], axis=1)
                for c in range(mean.shape[0])
            ]
            return constant - 0.5 * xp.stack(distance, axis=1)

        return in_blocks(X, 3 * X.shape[1] + 2 * mean.shape[0], joint)


def _largest(values: Array) -> float:
    return float(namespace(values).max(values))


def _check_counts(found: Array, kept: Array) -> None:
    """Raise if sums of weights, or all together, are no numbers of the dtype they are kept in."""
    total, held = to_host(found), to_host(kept)
    if not np.isfinite(held.sum()) or ((held == 0) & (total > 0)).any():
        raise ValueError(
            f"Sample weights of the classes sum to {total}, which {held.dtype} has no numbers for. "
            "Multiply them by a power of ten, or pass X in float64."
        )


def _checked_priors(priors: Any, like: Array) -> np.ndarray:
    priors = as_array(priors)
    priors = np.asarray(to_host(priors) if is_array(priors) else priors, dtype=np.float64)
    if priors.shape[0] != like.shape[0]:
        raise ValueError("Number of priors must match number of classes.")
    if not np.isclose(priors.sum(), 1.0):
        raise ValueError("The sum of the priors should be 1.")
    if (priors < 0).any():
        raise ValueError("Priors must be non-negative.")
    return priors


def _before(model: GaussianNB, place: Place) -> ClassMoments:
    """What the attributes say of the rows so far, in float64."""
    xp = place.xp
    count, mean, variance = (
        xp.astype(move(a, place), xp.float64)
        for a in (model.class_count_, model.theta_, model.var_)
    )
    variance = variance - float(model.epsilon_)
    # float32 attributes may round the variance to less than was added to it.
    variance = xp.where(variance > 0, variance, xp.zeros_like(variance))
    return ClassMoments(count, mean, variance)
