"""What the naive Bayes classifiers of discrete features share."""

from typing import Any, Self

import numpy as np

from gpuml._arrays import Array, as_array, is_array, is_sparse, move, place_of, to_host
from gpuml._inputs.csr import in_float64
from gpuml._inputs.validation import unchanged_on_error
from gpuml._sklearn import _fit_context
from gpuml.naive_bayes._base import Posterior
from gpuml.naive_bayes._input import Labelled, check_labelled, codes_among, first_classes, values_of
from gpuml.naive_bayes._sums import ClassRows, class_sums, in_blocks, work_place


class Discrete(Posterior):
    """`fit` from sums over classes; log-likelihoods that are linear in the values of the rows.

    A class has `_update_feature_log_prob(alpha)`, and `_linear()`: coefficients (k, p) and
    constants (k,) of the log-likelihoods.
    """

    class_count_: Array
    feature_count_: Array
    _accept_sparse = True

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, sample_weight=None) -> Self:
        """Sum the features over the rows of each class.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Sparse matrices of SciPy or cupyx.
        y : array-like of shape (n_samples,)
            Labels: numbers, strings or bools, on the host or a device.
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        self : estimator

        Raises
        ------
        ValueError
            For input that scikit-learn's class of the same name rejects, and for negative
            weights. A failed fit leaves the estimator as it was.
        """
        with unchanged_on_error(self):
            data = self._checked(X, y, sample_weight, reset=True)
            self.classes_ = data.labels.classes
            self._learn(data, first=True)
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y, classes=None, sample_weight=None) -> Self:
        """Take more rows into account, as one `fit` to all rows so far would.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            May be in another place than the rows before: the model follows.
        y : array-like of shape (n_samples,)
        classes : array-like of shape (n_classes,), default=None
            All labels that there will be; needed at the first call.
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        self : estimator

        Raises
        ------
        ValueError
            As for `fit`, and for labels that are not among the classes.
        """
        with unchanged_on_error(self):
            first = getattr(self, "classes_", None) is None
            data = self._checked(X, y, sample_weight, reset=first)
            first_classes(self, classes, data.labels)
            self._learn(data, first)
        return self

    def _checked(self, X, y, sample_weight, *, reset) -> Labelled:
        data = check_labelled(
            self, X, y, sample_weight, reset=reset, accept_sparse=self._accept_sparse
        )
        self._check_values(data.X)
        return data

    def _check_values(self, X: Any) -> None:
        """Raise ValueError for values that the model cannot count."""

    def _values(self, X: Any) -> Any:
        """What is summed of rows, dense or CSR."""
        return X

    def _learn(self, data, first):
        codes = codes_among(data.labels, self.classes_)
        home = place_of(values_of(data.X))
        rows = ClassRows(data.X, move(codes, home), data.weight, self.classes_.shape[0])
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
