"""Naive Bayes with normal densities, on the device of the rows."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import islice
from typing import Any

import numpy as np
from sklearn import naive_bayes as sk

from gpuml._arrays import Array, Place, as_array, is_array, move, namespace, place_of, to_host
from gpuml._arrays.ops import constant
from gpuml.naive_bayes._base import Incremental
from gpuml.naive_bayes._input import result_dtype
from gpuml.naive_bayes._sums import (
    ClassMoments,
    ClassRows,
    as_kept,
    class_distances,
    class_moments,
    column_moments,
    here_if_few,
    joined_moments,
    work_place,
)


class GaussianNB(Incremental, sk.GaussianNB):
    r"""Gaussian naive Bayes: a normal density for each feature in each class.

    .. math:: P(y = c, x) = \pi_c \prod_j N(x_j; \theta_{cj}, \sigma^2_{cj})

    with the mean and the variance of feature j over the rows of class c. X is read once, on its
    device. Sums are float64 for every dtype of X, and are taken about means, so that variances of
    large values lose no digits.

    Parameters
    ----------
    priors : array-like of shape (n_classes,), default=None
        Prior probabilities of the classes; None is the share of each class in the total weight.
    var_smoothing : float, default=1e-9
        This multiple of the largest variance of a feature is added to all variances.

    Attributes
    ----------
    class_count_ : array of shape (n_classes,)
        Weight of the rows of each class. This and the arrays below are in the library and on the
        device of the X of the last fit, float32 for float32 X, else float64.
    class_prior_ : array of shape (n_classes,)
        Prior probabilities of the classes.
    classes_ : array of shape (n_classes,)
        Sorted labels, of the dtype of y.
    epsilon_ : float or array of shape ()
        The number that was added to the variances.
    theta_, var_ : array of shape (n_classes, n_features)
        Mean and variance of each feature in each class.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    BernoulliNB : For binary features.
    MultinomialNB : For counts.

    Notes
    -----
    Negative weights raise an error. As in scikit-learn, `epsilon_` is computed from the rows of the
    last call, without weights. `partial_fit` subtracts it from the variances before it adds it:
    after a call with rows that are all alike, whose `epsilon_` is 0, what was added before stays.

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

    multifit_params = ("priors", "var_smoothing")
    _own_params = ("priors", "var_smoothing")
    multifit_repeats = False  # `epsilon_` is of all rows, without weights

    def _sums(self, rows: ClassRows) -> "GaussianSums":
        with np.errstate(over="ignore", invalid="ignore"):  # the sums are checked later
            found = class_moments(rows)
            return GaussianSums(found, None if rows.weight is None else column_moments(rows))

    def _joined(self, each: Sequence["GaussianSums"], times: Any) -> "GaussianSums":
        with np.errstate(over="ignore", invalid="ignore"):
            found = joined_moments([one.found for one in each], times)
            columns = [one.columns for one in each if one.columns is not None]
            return GaussianSums(found, joined_moments(columns, times) if columns else None)

    def _learn(self, rows, first=True):
        sums = self._sums(rows)
        if not first:
            with np.errstate(over="ignore", invalid="ignore"):
                whole = sums.columns or sums.found.pooled()
                epsilon = self.var_smoothing * _largest(whole.variance)
                before = _before(self, work_place(rows.X), epsilon)
                sums = GaussianSums(_after(before, sums.found), whole)
        models = self._fitted([self], sums, place_of(rows.X), result_dtype(rows.X))
        self.__dict__.update(models.attributes(0))

    def _small(self, sums: list["GaussianSums"]) -> list["GaussianSums"]:
        each = [m for one in sums for m in (one.found, one.columns) if m is not None]
        arrays = iter(here_if_few([a for m in each for a in (m.count, m.mean, m.variance)]))

        def next_of() -> ClassMoments:
            return ClassMoments(*islice(arrays, 3))

        return [GaussianSums(next_of(), None if one.columns is None else next_of()) for one in sums]

    def _fitted(self, candidates, sums, home, dtype) -> "NormalModels":
        return NormalModels.of(candidates, sums, home, dtype)

    def _check_parameters(self, n_classes):
        if self.priors is not None:
            _checked_priors(self.priors, n_classes)

    def _joint_log_likelihood(self, X: Any) -> Array:
        variance, prior = self.var_[None, ...], self.class_prior_[None, :]
        return normal_joints(self.theta_, variance, prior, X)[0, ...]


@dataclass(frozen=True)
class NormalModels:
    """Models of C candidates that share the means of the classes.

    Attributes
    ----------
    count : array (k,)
    mean : array (k, p)
    variance : array (C, k, p)
    epsilon : array (C,)
        The part of the variance that was added to it.
    prior : array (C, k)
    home : Place
        The place of fitted attributes.

    Arrays have the dtype of the fitted attributes, so that candidates predict what estimators do.
    """

    count: Array
    mean: Array
    variance: Array
    epsilon: Array
    prior: Array
    home: Place

    @classmethod
    def of(
        cls, candidates: Sequence[GaussianNB], sums: "GaussianSums", home: Place, dtype: Any
    ) -> "NormalModels":
        """The models of candidates, from the sums of their training rows."""
        found, place = sums.found, place_of(sums.found.count)
        xp, kept = place.xp, partial(as_kept, single=dtype == home.xp.float32)
        smoothing = [model.var_smoothing for model in candidates]
        with np.errstate(over="ignore", invalid="ignore"):
            epsilon = constant(smoothing, like=found.mean, xp=xp) * sums.largest
            count = kept(found.count)
            _check_counts(found.count, count)
            shares = found.count / xp.sum(found.count)
            priors = [
                shares
                if model.priors is None
                else move(_checked_priors(model.priors, shares.shape[0]), place)
                for model in candidates
            ]
            variance = kept(found.variance + epsilon[:, None, None])
            return cls(
                count, kept(found.mean), variance, kept(epsilon), kept(xp.stack(priors)), home
            )

    def attributes(self, candidate: int) -> dict[str, Any]:
        """Fitted attributes of one candidate."""
        epsilon = move(self.epsilon[candidate, ...], self.home)
        found = {
            "class_count_": self.count,
            "class_prior_": self.prior[candidate, :],
            "theta_": self.mean,
            "var_": self.variance[candidate, ...],
        }
        found = {name: move(values, self.home) for name, values in found.items()}
        return {**found, "epsilon_": epsilon[()] if self.home.kind == "numpy" else epsilon}

    def joints(self, candidates: slice, X: Array) -> Array:
        """Joint log likelihoods of some candidates for checked rows: float64 (C, n, k)."""
        variance, prior = self.variance[candidates, ...], self.prior[candidates, ...]
        return normal_joints(self.mean, variance, prior, X)


def normal_joints(mean: Array, variance: Array, prior: Array, X: Array) -> Array:
    """Joint log likelihoods of models with means (k, p), variances (C, k, p) and priors (C, k).

    The result is float64 (C, n, k). The arrays of the models may be on another device than X.
    """
    xp = namespace(variance)
    mean, variance, prior = (xp.astype(a, xp.float64) for a in (mean, variance, prior))
    constant = xp.log(prior) - 0.5 * xp.sum(xp.log(2.0 * np.pi * variance), axis=-1)  # (C, k)
    shares = xp.permute_dims(-0.5 / variance, (1, 2, 0))  # (k, p, C)
    return class_distances(X, mean, shares, constant)


@dataclass(frozen=True)
class GaussianSums:
    """Moments of the classes, and of all rows without weights if there are weights."""

    found: ClassMoments
    columns: ClassMoments | None

    @cached_property
    def largest(self) -> float:
        """The largest variance of a feature over all rows, without weights."""
        return _largest((self.columns or self.found.pooled()).variance)


def _largest(values: Array) -> float:
    return float(namespace(values).max(values))


def _check_counts(found: Array, kept: Array) -> None:
    """Raise ValueError if weights of classes overflow or vanish in the dtype of attributes."""
    total, held = to_host(found), to_host(kept)
    if not np.isfinite(held.sum()) or ((held == 0) & (total > 0)).any():
        raise ValueError(
            f"Sample weights of the classes sum to {total}, which {held.dtype} cannot hold. "
            "Multiply them by a power of ten, or pass X in float64."
        )


def _checked_priors(priors: Any, n_classes: int) -> np.ndarray:
    priors = as_array(priors)
    priors = np.asarray(to_host(priors) if is_array(priors) else priors, dtype=np.float64)
    if priors.shape[0] != n_classes:
        raise ValueError("Number of priors must match number of classes.")
    if not np.isclose(priors.sum(), 1.0):
        raise ValueError("The sum of the priors should be 1.")
    if (priors < 0).any():
        raise ValueError("Priors must be non-negative.")
    return priors


def _before(model: GaussianNB, place: Place, epsilon: float) -> ClassMoments:
    """The moments of earlier rows, from the attributes, in float64; epsilon is added again later.

    Where they are less than it, the sum with those of other rows still is not.
    """
    xp = place.xp
    count, mean, variance = (
        xp.astype(move(a, place), xp.float64)
        for a in (model.class_count_, model.theta_, model.var_)
    )
    return ClassMoments(count, mean, variance - epsilon)


def _after(before: ClassMoments, found: ClassMoments) -> ClassMoments:
    """The moments of all rows so far; of classes without any, what they were."""
    both = before.merged(found)
    is_there = both.count[:, None] > 0
    variance = namespace(both.count).where(is_there, both.variance, before.variance)
    return replace(both, variance=variance)
