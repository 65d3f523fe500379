"""Features added or removed one at a time, by the scores of all models that a step compares."""

from numbers import Integral, Real
from typing import Self

import numpy as np
from sklearn import feature_selection as sk
from sklearn.base import is_classifier
from sklearn.metrics import check_scoring
from sklearn.utils.metadata_routing import get_routing_for_object, process_routing

from gpuml._inputs.validation import unchanged_on_error
from gpuml._sklearn import _fit_context, _raise_for_params, _routing_enabled
from gpuml.feature_selection._comparison import Comparison
from gpuml.feature_selection._selector import Selector, checked
from gpuml.resampling.split import check_splits, check_splitter, split_rows


class SequentialFeatureSelector(Selector, sk.SequentialFeatureSelector):
    r"""Forward or backward feature selection by cross-validated scores, one feature per step.

    With F the set of selected features, a forward step adds the feature

    .. math:: \arg\max_{j \notin F} \; \frac{1}{S} \sum_s \mathrm{score}_s(F \cup \{j\}),

    and a backward step removes the feature without which the mean score of the S splits is largest.

    For `Ridge` and `LinearRegression` of `gpuml.linear_model`, second moments of the rows are
    summed once. All models of a step, on all splits, follow from them: adding or removing a feature
    is a sweep of the sums [1]_. Other estimators are cross-validated subset by subset, and so are
    all estimators for scores that do not follow from residuals, sparse X and nearly dependent
    features; `plan_` gives the reason.

    CuPy, torch and other arrays stay on their device.

    Parameters
    ----------
    estimator : estimator
        The model to select features for; it is cloned.
    n_features_to_select : "auto", int or float, default="auto"
        How many features to select: a number, or a share of the features. "auto" is half of them,
        or with `tol`, the number at which selection ends.
    tol : float, default=None
        With "auto", selection ends when a step increases the score by less than this. A negative
        value lets backward steps lower the score by up to its size.
    direction : {"forward", "backward"}, default="forward"
        Whether to start with no features, or with all.
    scoring : str or callable, default=None
        The score of a model; None is the estimator's `score`.
    cv : int, splitter or iterable, default=5
        Number of folds, or the splits. All steps use the same splits: a splitter that shuffles is
        called once.
    n_jobs : int, default=None
        Number of parallel jobs for subsets that are cross-validated one by one.

    Attributes
    ----------
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.
    n_features_to_select_ : int
        Number of selected features.
    support_ : bool ndarray of shape (n_features_in_,)
        Whether each feature is selected; in CPU memory.
    plan_ : Plan
        How many models were computed from sums, how many were fitted, and why.

    See Also
    --------
    RFECV : Eliminates features by their coefficients.

    References
    ----------
    .. [1] J. H. Goodnight, "A tutorial on the SWEEP operator", The American Statistician 33 (1979).

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from gpuml.feature_selection import SequentialFeatureSelector
    >>> from gpuml.linear_model import Ridge
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> selector = SequentialFeatureSelector(Ridge(0.1), n_features_to_select=3).fit(X, y)
    >>> selector.get_feature_names_out()
    array(['bmi', 'bp', 's5'], dtype=object)
    """

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X, y=None, **params) -> Self:
        """Select features.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_targets), default=None
        **params
            Passed to the estimator, the splitter and the scorer, if metadata routing is on.

        Returns
        -------
        self : estimator

        Raises
        ------
        ValueError
            For input that scikit-learn's class rejects. A failed fit leaves the selector as it was.
        """
        _raise_for_params(params, self, "fit")
        with unchanged_on_error(self):
            X = checked(self, X, self.__sklearn_tags__().input_tags.allow_nan)
            n_features = X.shape[1]
            wanted = self._n_wanted(n_features)
            if self.tol is not None and self.tol < 0 and self.direction == "forward":
                raise ValueError("tol must be strictly positive when doing forward selection")
            if _routing_enabled():
                process_routing(self, "fit", **params)
            models = self._compared(X, y, params)
            self._select(models, self._n_steps(wanted, n_features))
            self.support_ = models.used
            self.n_features_to_select_ = models.used.sum()
            self.plan_ = models.plan()
        return self

    def _n_wanted(self, n_features):
        """How many features are to be selected, at most where `tol` decides."""
        wanted = self.n_features_to_select
        if wanted == "auto":
            return n_features // 2 if self.tol is None else n_features - 1
        if isinstance(wanted, Integral):
            if wanted >= n_features:
                raise ValueError(
                    f"n_features_to_select must be < n_features, got {wanted} of {n_features}."
                )
            return int(wanted)
        return int(n_features * wanted) if isinstance(wanted, Real) else wanted

    def _n_steps(self, wanted, n_features):
        # "auto" bounds the steps that are taken, in either direction.
        forward = self.direction == "forward" or self.n_features_to_select == "auto"
        return wanted if forward else n_features - wanted

    def _compared(self, X, y, params):
        cv = check_splitter(self.cv, y, classifier=is_classifier(self.estimator))
        scorer = check_scoring(self.estimator, self.scoring)
        routed = {}
        if params:
            routed = process_routing(self, "fit", **params).splitter.split
            # What only the splitter requests ends here: the splits are known.
            used = _consumed(self.estimator, "fit", params) | _consumed(scorer, "score", params)
            params = {n: value for n, value in params.items() if n in used or n not in routed}
        splits = split_rows(cv, X, y, X.shape[0], **routed)
        check_splits(splits)
        options = {"params": params, "n_jobs": self.n_jobs}
        backward = self.direction == "backward"
        return Comparison.of(self.estimator, X, y, splits, scorer, options, backward=backward)

    def _select(self, models, n_steps):
        stops = self.tol is not None and self.n_features_to_select == "auto"
        last, begun_with = -np.inf, models.used.copy()
        for _ in range(n_steps):
            left = np.flatnonzero(models.used == begun_with)
            scores = models.scores(left)
            best = int(np.argmax(scores))
            if stops and scores[best] - last < self.tol:
                break
            last = scores[best]
            models.take(left[best])


def _consumed(owner, method, params):
    """Names of the parameters that a method requests."""
    return get_routing_for_object(owner).consumes(method, params)
