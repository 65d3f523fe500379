"""The ridge classifier with its penalty chosen by cross-validation."""

from typing import Any, Self

import numpy as np
from sklearn import linear_model as sk

from gpuml._arrays import is_sparse, namespace, to_host
from gpuml._sklearn import _fit_context, _routing_enabled
from gpuml.data import UnfittableSplits, row_indices, take, whole
from gpuml.linear_model._input import class_batch
from gpuml.linear_model._several_labels import SeveralLabels, is_table
from gpuml.linear_model.ridge_classifier import (
    RidgeClassifier,
    with_binarizer,
    with_class_weights,
)
from gpuml.linear_model.ridge_cv import RidgeChoosing, RidgeCV
from gpuml.resampling.atoms import make_folds
from gpuml.resampling.stand_ins import Refused


class RidgeClassifierCV(RidgeChoosing, SeveralLabels, sk.RidgeClassifierCV):
    r"""Classification by ridge regression on indicators, with `alpha` chosen by cross-validation.

    Without `cv`, it compares leave-one-out squared errors of the indicators (1 and -1), which
    follow from the fit to all rows. With `cv`, it fits all alphas on all splits in one pass, like
    ``GridSearchCV(RidgeClassifier(), {"alpha": alphas})``.

    Parameters
    ----------
    alphas : array-like of shape (n_alphas,), default=(0.1, 1.0, 10.0)
        Penalties to try: positive without `cv`, 0 or more with it.
    fit_intercept : bool, default=True
    scoring : str or callable, default=None
        None is the negative mean squared error of indicators without `cv`, accuracy with it.
        For other scores without `cv`, scikit-learn does the work, and needs data in CPU memory.
    cv : int, splitter or iterable of index pairs, default=None
        None is leave-one-out; an integer is the number of stratified folds.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes. "balanced" weights are computed from all rows.
    store_cv_results : bool, default=False
        Whether to keep the squared errors of every row; only without `cv`.

    Attributes
    ----------
    alpha_ : float
    best_score_ : float
        Score with `alpha_`.
    cv_results_ : array of shape (n_samples, n_targets, n_alphas)
        Only with `store_cv_results`: weighted squared errors of one indicator for two classes, or
        of one for each class.
    coef_ : array of shape (1, n_features) or (n_classes, n_features)
        This and the array above are in the library, on the device and of the dtype of X.
    intercept_ : float or array of shape (1,) or (n_classes,)
    classes_ : array of shape (n_classes,)
        Sorted labels, in the library of y.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    RidgeClassifier : The same with one given alpha.

    Notes
    -----
    Targets with several labels per row have a regression on 1 and -1 for each label. With `cv` or
    `scoring`, scikit-learn fits them one at a time, and needs data in CPU memory.

    References
    ----------
    R. Rifkin, R. Lippert, "Notes on regularized least squares", MIT-CSAIL-TR-2007-025.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from gpuml.linear_model import RidgeClassifierCV
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = RidgeClassifierCV(alphas=[1e-3, 1e-2, 1e-1, 1]).fit(X, y)
    >>> model.alpha_, round(model.score(X, y), 2)
    (0.01, 0.96)
    """

    _classes_as_text = True

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, sample_weight=None, **params) -> Self:
        """Choose alpha and fit.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Labels.
        sample_weight : float or array-like of shape (n_samples,), default=None
            Weights of fits and of scores.
        **params : dict
            For scikit-learn's metadata routing; where it is enabled, scikit-learn does the work.

        Returns
        -------
        self : RidgeClassifierCV

        Raises
        ------
        ValueError
            For input that scikit-learn's class rejects, and for device data with parameters that
            need data in CPU memory. A failed fit leaves the estimator as it was.

        Warns
        -----
        UserWarning
            If some score is nan, such as that of a held-out part without weight; such an alpha is
            chosen only if all are.
        """
        if is_table(y) and self._needs_host(X, y) is None and not _routing_enabled():
            own = ("alphas", "fit_intercept", "store_cv_results")
            model = RidgeCV(**{name: getattr(self, name) for name in own})
            return self._fit_labels(model, X, y, sample_weight)
        self.__dict__.pop("_label_binarizer", None)  # of an earlier fit
        return self._fit_choosing(super().fit, X, y, sample_weight, params)

    def _needs_host(self, X, y=None):
        if is_table(y) and (self.cv is not None or self.scoring is not None):
            return "several labels per row and cv= or scoring="
        if is_sparse(X):
            return "sparse X"
        return "scoring and cv=None" if self.scoring is not None and self.cv is None else None

    def _batch(self, X: Any, y: Any, sample_weight: Any) -> Any:
        batch = self._model().multifit_joined(class_batch(self, X, y, sample_weight))
        return with_class_weights(whole(batch), self.class_weight).batch

    def _model(self):
        return RidgeClassifier(fit_intercept=self.fit_intercept)

    def _scores_of_splits(self, folds, alphas):
        """As in `RidgeCV`. Splits whose training rows lack a class are fitted one by one."""
        batch, splits = folds.batch, folds.splits
        lacking, refused = _lacking(batch, splits), Refused(splits, batch.n_rows)
        if len(lacking) == len(splits):
            return self._all_alone(folds, alphas)
        while lacking:
            refused.add(UnfittableSplits(lacking))
            folds = make_folds(batch, refused.splits())
            lacking = _lacking(batch, folds.splits)
        scores, model_of = super()._scores_of_splits(folds, alphas)
        for split in refused.reasons:
            scores[:, split] = self._alone(batch, splits[split], alphas)
        return scores, model_of

    def _all_alone(self, folds, alphas):
        batch = folds.batch
        scores = np.stack([self._alone(batch, split, alphas) for split in folds.splits], axis=1)
        every = whole(batch)
        return (
            scores,
            lambda best: self._model().multifit(every, [{"alpha": alphas[best]}]).pick(0, 0),
        )

    def _alone(self, batch, split, alphas):
        """Scores (A,) of models of a split, of the classes that its training part has."""
        X, y, weighted = _part(batch, split.train)
        scores = []
        for alpha in alphas:
            model = self._model().set_params(alpha=float(alpha))
            try:
                model.fit(X, y, **weighted)
            except ValueError:
                scores.append(np.nan)  # as of a fit that fails in a search
            else:
                scores.append(self._score_of(model, batch, split.test))
        return np.asarray(scores)

    def _scores_one(self, folds, stack):
        def score(candidate, split, part, scorer):
            model = self._model()
            vars(model).update(stack.pick(candidate, split))
            return self._score_of(model, folds.batch, getattr(folds.splits[split], part))

        return score

    def _score_of(self, model, batch, rows):
        X, y, weighted = _part(batch, rows)
        if any(not (to_host(weight) > 0).any() for weight in weighted.values()):
            return np.nan  # as of scores that fail in a search
        model.n_features_in_ = X.shape[1]
        scorer = self._scorer()
        takes = getattr(scorer, "_accept_sample_weight", bool)()
        return float(scorer(model, X, y, **(weighted if takes else {})))

    def _sklearn_state(self):
        return with_binarizer(super()._sklearn_state())


def _part(batch, rows):
    """Some rows, their labels, and their weights for fits and scores."""
    xp = namespace(batch.X)
    weight = None if batch.weight is None else take(batch.weight, rows, xp)
    labels = batch.labels[to_host(batch.codes)]
    weighted = {} if weight is None else {"sample_weight": weight}
    return take(batch.X, rows, xp), labels[row_indices(rows)], weighted


def _lacking(batch, splits):
    """Splits whose training part lacks a class, and why that is in the way."""
    codes = to_host(batch.codes)
    weight = np.ones(len(codes)) if batch.weight is None else to_host(batch.weight)
    own = [row_indices(split.train) for split in splits]
    n_classes = [len(np.unique(codes[rows][weight[rows] > 0])) for rows in own]
    why = "it lacks a class. Use a stratified splitter, or fewer folds."
    return {s: why for s, n in enumerate(n_classes) if n < batch.n_classes}
