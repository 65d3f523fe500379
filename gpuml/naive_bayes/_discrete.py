"""What the naive Bayes classifiers of discrete features share."""

from typing import Any

import numpy as np

from gpuml._arrays import Array, as_array, is_array, is_sparse, move, place_of, to_host
from gpuml._inputs.csr import in_float64
from gpuml.naive_bayes._base import Posterior
from gpuml.naive_bayes._input import refuse_negative, values_of
from gpuml.naive_bayes._sums import ClassRows, class_sums, in_blocks, work_place


class Discrete(Posterior):
    """Models that are sums over classes; log-likelihoods that are linear in the values of rows.

    A class has `_update_feature_log_prob(alpha)`, and `_linear()`: coefficients (k, p) and
    constants (k,) of the log-likelihoods.
    """

    class_count_: Array
    feature_count_: Array

    def _check_values(self, X):
        refuse_negative(X, f"{type(self).__name__} (input X)")

    def _values(self, X: Any) -> Any:
        """What is summed of rows, dense or CSR."""
        return X

    def _learn(self, rows: ClassRows, first: bool) -> None:
        self._add(rows, first)
        self._update_feature_log_prob(self._check_alpha())
        self._update_class_log_prior(self.class_prior)

    def _add(self, rows: ClassRows, first: bool) -> None:
        home = place_of(values_of(rows.X))
        count, sums = (move(a, home) for a in class_sums(rows, self._values))
        if not first:
            count = count + move(self.class_count_, home)
            sums = sums + move(self.feature_count_, home)
        self.class_count_, self.feature_count_ = count, sums

    def _near_counts(self, values: Any) -> Any:
        """A number as it is, an array as float64 where the counts are."""
        if np.ndim(values) == 0:
            return float(values)
        return move(np.asarray(values, dtype=np.float64), place_of(self.class_count_))

    def _update_class_log_prior(self, class_prior=None):
        place = place_of(self.class_count_)
        xp, k = place.xp, self.class_count_.shape[0]
        if class_prior is not None:
            class_prior = as_array(class_prior)
            class_prior = to_host(class_prior) if is_array(class_prior) else class_prior
            if len(class_prior) != k:
                raise ValueError("Number of priors must match number of classes.")
            self.class_log_prior_ = move(np.log(np.asarray(class_prior, np.float64)), place)
        elif self.fit_prior:
            with np.errstate(divide="ignore"):  # a class without weight has the prior 0
                logged = xp.log(self.class_count_)
            self.class_log_prior_ = logged - xp.log(xp.sum(self.class_count_))
        else:
            self.class_log_prior_ = xp.full((k,), -np.log(k), dtype=xp.float64, device=place.device)

    def _linear(self) -> tuple[Array, Array]:
        raise NotImplementedError

    def _joint_log_likelihood(self, X):
        place = work_place(X)
        xp = place.xp
        coef, constant = (move(a, place) for a in self._linear())
        turned = xp.matrix_transpose(coef)
        if is_sparse(X):
            return in_float64(self._values(X)) @ turned + constant

        def joint(block: Array) -> Array:
            return self._values(block) @ turned + constant

        return in_blocks(X, 2 * X.shape[1] + 2 * coef.shape[0], joint)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.array_api_support = True
        return tags
