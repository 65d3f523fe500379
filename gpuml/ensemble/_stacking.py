"""Stacking: final models of out-of-fold predictions, with the base models fitted together."""

from typing import Any, Self

import numpy as np
from sklearn import ensemble as sk
from sklearn.base import is_classifier
from sklearn.utils.metadata_routing import process_routing
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, column_or_1d

from gpuml._arrays import as_array, is_foreign, move, namespace, place_of
from gpuml._inputs.output import as_asked
from gpuml._persistence.travel import Travels
from gpuml._sklearn import _fit_context, _routing_enabled
from gpuml.linear_model import LogisticRegression, RidgeCV
from gpuml.metrics.own_scores import ScoredByAccuracy, ScoredByR2
from gpuml.model_selection.candidates import Plan
from gpuml.model_selection.numbered import InCpuMemory, Numbered, Rehearsed, ask_parts, numbers_of
from gpuml.model_selection.parts import host_target, run_around, taken_apart


def final_has(method: str) -> Any:
    """A check for `available_if` that the final estimator has a method."""

    def check(stacking):
        final = getattr(stacking, "final_estimator_", stacking.final_estimator)
        getattr(final, method)  # or its error; before a fit that of None, as in scikit-learn
        return True

    return check


class _Stacking(Travels):
    """Code that both classes share: scikit-learn's `fit` gets row numbers and looks up models."""

    # scikit-learn's class.
    _theirs: Any
    _rows: Any = None
    estimators_: Any
    passthrough: bool

    def _default_final(self) -> Any:
        """The default final estimator."""
        raise NotImplementedError

    def _targets(self, y: Any) -> Any:
        """The targets that the models are fitted to."""
        return y

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X, y, **fit_params) -> Self:
        """Fit all models, and the final estimator to their predictions for held-out rows.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        **fit_params : dict
            `sample_weight`, passed to all models; with scikit-learn's metadata routing, all
            parameters that the models request.

        Returns
        -------
        self : estimator

        Raises
        ------
        ValueError
            For input that scikit-learn's class rejects.
        """
        X, y = taken_apart(X), host_target(y)
        check_consistent_length(X, y)
        rehearsed: list[Rehearsed] = []
        stand_ins = []
        for entry in self.estimators:
            if not (isinstance(entry, tuple) and len(entry) == 2 and hasattr(entry[1], "fit")):
                stand_ins.append(entry)  # "drop", or an error
                continue
            name, estimator = entry
            each = None
            if not isinstance(self.cv, str):
                params = self._fit_params(name, fit_params)
                # All models use the splits of the first.
                cv = rehearsed[0] if rehearsed else self.cv
                targets = self._targets(y)
                options = {"classifier": is_classifier(self)}
                each = Rehearsed(estimator, X, targets, cv, params, self.n_jobs, **options)
                rehearsed.append(each)
            stand_ins.append((name, Numbered(estimator, X, each)))
        final = self._default_final() if self.final_estimator is None else self.final_estimator
        changes = {"estimators": stand_ins, "n_jobs": 1, "final_estimator": final, "_rows": X}
        if rehearsed:
            changes["cv"] = rehearsed[0]
        run_around(self, self._theirs.fit, changes, numbers_of(X), y, **fit_params)
        self.__dict__.pop("_rows", None)
        self.estimators_ = [each.model for each in self.estimators_]
        for name, each in self.named_estimators_.items():
            if isinstance(each, Numbered):
                self.named_estimators_[name] = each.model
        named = [e.feature_names_in_ for e in self.estimators_ if hasattr(e, "feature_names_in_")]
        if named:
            self.feature_names_in_ = named[-1]
        self.plan_ = Plan(tuple(step for each in rehearsed for step in each.plan.steps))
        return self

    def _fit_params(self, name, fit_params):
        if _routing_enabled():
            return dict(process_routing(self, "fit", **fit_params)[name]["fit"])
        return {n: value for n, value in fit_params.items() if n == "sample_weight"}

    def _concatenate_predictions(self, X, predictions):
        rows = self._rows
        if rows is None:
            return super()._concatenate_predictions(X, predictions)
        if not is_foreign(rows) or not self.passthrough:
            return super()._concatenate_predictions(rows, predictions)
        # Appended here, at the place of the rows.
        self.passthrough = False
        said = super()._concatenate_predictions(X, predictions)
        self.passthrough = True
        xp = namespace(rows)
        said = xp.astype(move(np.ascontiguousarray(said), place_of(rows)), rows.dtype)
        return as_asked(self, xp.concat([said, rows], axis=1))

    def _asked(self, method, X, **params):
        """The result of scikit-learn's method, computed from the predictions of the models."""
        X = as_array(X)
        if not is_foreign(X):
            return getattr(self._theirs, method).__get__(self)(X, **params)
        parts = [Numbered(each, X) for each in getattr(self, "estimators_", [])]
        known: dict[str, Any] = {"estimators_": parts, "_rows": X} if parts else {}
        if parts:
            known["final_estimator_"] = InCpuMemory(self.final_estimator_)
        return ask_parts(self, method, X, known, **params)

    def transform(self, X):
        """The predictions of all models, side by side.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        said : array of shape (n_samples, n_columns)
            In the library and on the device of X.
        """
        return self._asked("transform", X)

    @available_if(final_has("predict"))
    def predict(self, X, **predict_params):
        """The predictions of the final estimator.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        **predict_params : dict
            Passed to `predict` of the final estimator.

        Returns
        -------
        y : array of shape (n_samples,)
            In the library and on the device of X; strings are in NumPy arrays.
        """
        return self._asked("predict", X, **predict_params)


class StackingClassifier(ScoredByAccuracy, _Stacking, sk.StackingClassifier):
    """Stacking: a final classifier learns from out-of-fold predictions of other models.

    If an estimator can be batched, its models of all splits and of all rows are fitted together, as
    in `cross_val_predict`. Data on a device stays there. The predictions of the models are copied
    to CPU memory, where the final estimator is fitted. With ``passthrough=True``, the predictions
    are joined with X on the device instead.

    Parameters
    ----------
    estimators : list of (str, estimator)
        Names and models; "drop" instead of a model leaves it out.
    final_estimator : estimator or None, default=None
        The classifier of the predictions; None is `gpuml.linear_model.LogisticRegression`.
    cv : int, splitter, iterable of index pairs, "prefit" or None, default=None
        How to split the rows for out-of-fold predictions; None is 5 stratified folds. "prefit"
        means that the models are fitted already, and `fit` fits only the final estimator.
    stack_method : {"auto", "predict_proba", "decision_function", "predict"}, default="auto"
        The method whose output the final estimator gets; "auto" is the first of the three that a
        model has.
    n_jobs : int or None, default=None
        Number of workers for models that are fitted one by one.
    passthrough : bool, default=False
        Whether the final estimator also gets X.
    verbose : int, default=0
        How much scikit-learn's code prints.

    Attributes
    ----------
    estimators_ : list of estimators
        The models, fitted to all rows.
    named_estimators_ : Bunch
        The same by name.
    final_estimator_ : estimator
        The fitted final estimator.
    stack_method_ : list of str
        The method of each model whose output the final estimator gets.
    classes_ : ndarray of shape (n_classes,)
        Sorted labels, in CPU memory.
    plan_ : gpuml.model_selection.Plan
        How the models were fitted.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    StackingRegressor : Stacking of regressors.
    select_ensemble : Choose models to average.

    References
    ----------
    D. H. Wolpert, "Stacked generalization", Neural Networks 5 (1992).

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from gpuml.ensemble import StackingClassifier
    >>> from gpuml.linear_model import RidgeClassifier
    >>> from gpuml.naive_bayes import GaussianNB
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> models = [("ridge", RidgeClassifier()), ("bayes", GaussianNB())]
    >>> round(StackingClassifier(models).fit(X, y).score(X, y), 2)
    0.96
    """

    _theirs = sk.StackingClassifier

    def _default_final(self):
        return LogisticRegression()

    def _targets(self, y):
        check_classification_targets(y)
        labels = np.asarray(y)
        if labels.ndim == 2 and labels.shape[1] > 1:
            columns = [np.unique(column, return_inverse=True)[1] for column in labels.T]
            return np.stack(columns, axis=1)
        return np.unique(labels, return_inverse=True)[1].reshape(-1)

    @available_if(final_has("predict_proba"))
    def predict_proba(self, X):
        """Probabilities of the classes, from the final estimator.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        probability : array of shape (n_samples, n_classes)
            In the library and on the device of X.
        """
        return self._asked("predict_proba", X)

    @available_if(final_has("decision_function"))
    def decision_function(self, X):
        """Decision values of the final estimator.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        scores : array of shape (n_samples,) or (n_samples, n_classes)
            In the library and on the device of X.
        """
        return self._asked("decision_function", X)


class StackingRegressor(ScoredByR2, _Stacking, sk.StackingRegressor):
    """Stacking: a final regressor learns from out-of-fold predictions of other models.

    If an estimator can be batched, its models of all splits and of all rows are fitted together, as
    in `cross_val_predict`. Data on a device stays there. The predictions of the models are copied
    to CPU memory, where the final estimator is fitted. With ``passthrough=True``, the predictions
    are joined with X on the device instead.

    Parameters
    ----------
    estimators : list of (str, estimator)
        Names and models; "drop" instead of a model leaves it out.
    final_estimator : estimator or None, default=None
        The regressor of the predictions; None is `gpuml.linear_model.RidgeCV`.
    cv : int, splitter, iterable of index pairs, "prefit" or None, default=None
        How to split the rows for out-of-fold predictions; None is 5 folds. "prefit" means that the
        models are fitted already, and `fit` fits only the final estimator.
    n_jobs : int or None, default=None
        Number of workers for models that are fitted one by one.
    passthrough : bool, default=False
        Whether the final estimator also gets X.
    verbose : int, default=0
        How much scikit-learn's code prints.

    Attributes
    ----------
    estimators_ : list of estimators
        The models, fitted to all rows.
    named_estimators_ : Bunch
        The same by name.
    final_estimator_ : estimator
        The fitted final estimator.
    stack_method_ : list of str
        The method of each model whose output the final estimator gets.
    plan_ : gpuml.model_selection.Plan
        How the models were fitted.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    StackingClassifier : Stacking of classifiers.

    References
    ----------
    D. H. Wolpert, "Stacked generalization", Neural Networks 5 (1992).

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from gpuml.ensemble import StackingRegressor
    >>> from gpuml.linear_model import Lasso, Ridge
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = StackingRegressor([("ridge", Ridge(0.1)), ("lasso", Lasso(0.1))]).fit(X, y)
    >>> round(model.score(X, y), 2)
    0.51
    >>> [step.n_fits for step in model.plan_.steps]
    [5, 5]
    """

    _theirs = sk.StackingRegressor

    def _targets(self, y):
        return column_or_1d(y)

    def _default_final(self):
        return RidgeCV()
