"""Logistic regression that chooses its penalty by cross-validation."""

import copy
import inspect
from functools import lru_cache
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn import linear_model as sk

from gpuml._arrays import Array, is_sparse, namespace, to_host
from gpuml._inputs.validation import ClassData, check_classify
from gpuml._settings.config import current_settings
from gpuml._sklearn import _fit_context
from gpuml.data import Batch, Folds, resident_classes, take, whole
from gpuml.linear_model._class_models import class_counts, class_factors
from gpuml.linear_model._classifier import ProbabilityClassifier, Sparsified
from gpuml.linear_model._cross_validation import Choosing, host_targets
from gpuml.linear_model._logistic_grid import Grid, move_home
from gpuml.linear_model._models import Models, at_home
from gpuml.linear_model.logistic import NATIVE_SOLVERS, LogisticRegression
from gpuml.metrics.scorer import get_scorer
from gpuml.resampling.atoms import folds_of
from gpuml.resampling.scores import stack_scores


class LogisticRegressionCV(Sparsified, Choosing, ProbabilityClassifier, sk.LogisticRegressionCV):
    r"""Logistic regression with `C` and `l1_ratio` chosen by cross-validation.

    Minimises, over W and b, as `LogisticRegression` does,

    .. math::
        \frac{1}{\sum_i s_i} \left( \sum_i s_i \, \mathrm{loss}(y_i, W x_i + b)
        + \frac{1}{C} \left( \frac{1 - \rho}{2} |W|_2^2 + \rho |W|_1 \right) \right)

    for every C and \rho = `l1_ratio` on the training part of every split, all in the same passes
    over the rows; scores them on the held-out parts, where the rows are; and fits the best once
    more on all rows, starting at the mean of its models.

    Parameters
    ----------
    Cs : int or array-like of floats, default=10
        Inverse strengths of the penalty; an int makes a grid from 1e-4 to 1e4.
    l1_ratios : array-like of shape (n_l1_ratios,) or None, default=None
        Shares of the l1 part, from 0 to 1; other than 0 only with ``solver="saga"``. None, which
        is deprecated in scikit-learn 1.8, means 0.
    fit_intercept : bool, default=True
    cv : int, splitter or iterable of index pairs, default=None
        None is 5-fold; ints are stratified.
    dual : bool, default=False
        Only for "liblinear".
    penalty : {"l1", "l2", "elasticnet"}, default="deprecated"
        Deprecated in scikit-learn 1.8; use `l1_ratios`.
    scoring : str, callable or None, default=None
        None is accuracy. A callable ``scorer(estimator, X, y)`` of your own is called model by
        model, with rows and labels in the library that they came in.
    solver : str, default="lbfgs"
        "lbfgs", "newton-cholesky" and "saga" are gpuml's, as for `LogisticRegression`; "liblinear",
        "newton-cg" and "sag" are scikit-learn's, for data in CPU memory.
    tol : float, default=1e-4
    max_iter : int, default=100
        Both as for `LogisticRegression`.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes; "balanced" ones are those of all rows, in all splits.
    n_jobs : int or None, default=None
        Only for scikit-learn's solvers.
    verbose : int, default=0
        Only for scikit-learn's solvers.
    refit : bool, default=True
        Whether to fit the model of the best mean score on all rows. If not, coefficients, `C_` and
        `l1_ratio_` are means over splits of those of the best model of each.
    intercept_scaling : float, default=1
        Only for "liblinear".
    random_state : int, RandomState instance or None, default=None
        Only for scikit-learn's solvers.
    use_legacy_attributes : bool, default=True
        Whether attributes have the form that scikit-learn had before 1.8, which is given after
        "legacy:" below.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        Sorted labels, in the library of y.
    coef_ : array of shape (1, n_features) or (n_classes, n_features)
        This and all arrays below are in the library and on the device of X.
    intercept_ : array of shape (1,) or (n_classes,)
    Cs_ : array of shape (n_cs,)
    l1_ratios_ : array of shape (n_l1_ratios,)
        A NumPy array that holds None where `l1_ratios` is None.
    C_ : float
        The best C. Legacy: an array, the value repeated for each row of `coef_`.
    l1_ratio_ : float
        The best l1_ratio. Legacy: an array, as `C_`.
    coefs_paths_ : array of shape (n_folds, n_l1_ratios, n_cs, 1 or n_classes, n_dof)
        Coefficients of all models; with an intercept it is the last of n_features + 1. Legacy: a
        dict from classes (of two, the second) to arrays (n_folds, n_cs, n_l1_ratios, n_dof),
        without the axis of l1_ratios where `l1_ratios` is None.
    scores_ : array of shape (n_folds, n_l1_ratios, n_cs)
        Held-out scores, weighted where the fit is. Legacy: a dict from classes to arrays
        (n_folds, n_cs, n_l1_ratios), without the last axis where `l1_ratios` is None.
    n_iter_ : array of shape (n_folds, n_l1_ratios, n_cs)
        Passes over all rows. Legacy: (1, n_folds, n_cs, n_l1_ratios), without the last axis where
        `l1_ratios` is None.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    LogisticRegression : With one C; in a `gpuml.model_selection` search it is fitted as here.

    References
    ----------
    T. Hastie, R. Tibshirani, J. Friedman, "The Elements of Statistical Learning", 2nd ed. (2009),
    section 7.10.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from gpuml.linear_model import LogisticRegressionCV
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LogisticRegressionCV(
    ...     Cs=[0.1, 10.0],
    ...     l1_ratios=(0,),
    ...     scoring="neg_log_loss",
    ...     use_legacy_attributes=False,
    ... ).fit(X, y)
    >>> model.C_
    10.0
    >>> model.scores_.shape
    (5, 1, 2)
    """

    # `score` uses `scoring`; scikit-learn's method calls `_get_scorer` below.
    score = sk.LogisticRegressionCV.score

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, sample_weight=None, **params) -> Self:
        """Choose C and l1_ratio, and fit.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Labels: integers, strings, bools, or floats without a fraction.
        sample_weight : float or array-like of shape (n_samples,), default=None
            Non-negative weights of fits and of scores.
        **params : dict
            For the splitter and the scorer, where scikit-learn's metadata routing is enabled; then
            scikit-learn does the work.

        Returns
        -------
        self : LogisticRegressionCV

        Raises
        ------
        ValueError
            For input that scikit-learn's LogisticRegressionCV rejects; and for device data with a
            solver that needs data in CPU memory, or with a training set that lacks a class, which
            only scikit-learn fits. A failed fit leaves the estimator as it was.

        Warns
        -----
        ConvergenceWarning
            If `max_iter` passes were not enough.
        FutureWarning
            Where scikit-learn is going to change a default.
        """
        return self._fit_choosing(super().fit, X, y, sample_weight, params)

    def _needs_host(self, X, y=None):
        """Why scikit-learn has to do this fit, as far as is known without the labels."""
        if is_sparse(X):
            return "sparse X"
        return None if self.solver in NATIVE_SOLVERS else f"solver={self.solver!r}"

    def _choose(self, X, y, sample_weight):
        # First of all: how many rows there are does not matter to parameters that are wrong.
        grid = Grid(self)
        if sparse.issparse(y):
            raise TypeError(
                "Sparse data was passed for y, but dense data is required. Use y.toarray()."
            )
        data = check_classify(self, X, y, sample_weight)
        labels = data.labels
        if labels.n_classes < 2:
            raise ValueError(
                "This solver needs samples of at least 2 classes in the data, but the data "
                f"contains only one class: {labels.host_classes[0]}."
            )
        batch = resident_classes(data.X, labels, data.weight, current_settings().device)
        folds = folds_of(self.cv, batch, data.X, _labels_of(data), classifier=True)
        if not _has_every_class(folds):
            reason = "a training part that lacks a class"
            with host_targets(self, reason, X, y, sample_weight) as (y, weight):
                sk.LogisticRegressionCV.fit(self, X, y, sample_weight=weight)
            return {}
        grid.warn()
        model = LogisticRegression(
            solver=self.solver,
            tol=self.tol,
            max_iter=self.max_iter,
            fit_intercept=self.fit_intercept,
            class_weight=_class_weights(self.class_weight, batch),
        )
        stack = model.multifit(folds, grid.candidates)
        return self._chosen(stack, grid, self._scores(stack, folds, data))

    def _scores(self, stack: Any, folds: Folds, data: ClassData) -> np.ndarray:
        """Scores (C, S), in CPU memory, of all models on their held-out rows."""
        batched, single = _for_classes(self._get_scorer(), data.labels.host_classes)

        @lru_cache(maxsize=1)
        def held_out(split):
            rows = folds.splits[split].test
            columns = data.X, _labels_of(data), data.weight
            return [None if a is None else take(a, rows, namespace(a)) for a in columns]

        def score_model(candidate, split, part, scorer):
            # Without a batched form, or where a split holds out no row of some class.
            model = LogisticRegression(solver=self.solver)
            model.__dict__.update(stack.pick(candidate, split))
            model.n_features_in_ = self.n_features_in_
            X, y, weight = held_out(split)
            return single(model, X, y, **({} if weight is None else {"sample_weight": weight}))

        scorers = {"score": batched}
        tables = stack_scores(stack, folds, scorers, weighted=True, score_model=score_model)
        return tables["test"]["score"]

    def _get_scorer(self):
        """The scorer of `scoring`; accuracy by default."""
        return get_scorer("accuracy" if self.scoring in ("warn", None) else self.scoring)

    def _chosen(self, stack, grid, scores):
        """Fitted attributes, by held-out scores (C, S)."""
        batch = stack.folds.batch
        scores = grid.table(scores)  # (S, R, n_cs)
        by_split = np.swapaxes(scores, 1, 2)  # (S, n_cs, R), the order in which ties are broken
        if self.refit:
            best = [np.unravel_index(np.argmax(by_split.sum(axis=0)), by_split.shape[1:])]
            fitted = stack.pick(grid.position(*best[0]), None)
        else:
            best = [np.unravel_index(np.argmax(each), each.shape) for each in by_split]
            positions = [grid.position(*index) for index in best]
            fitted = _mean_model(stack, positions)
        C = np.mean([grid.Cs[index[0]] for index in best])
        ratio = grid.best_ratio([index[1] for index in best], self.refit)
        return {
            **fitted,
            "Cs_": move_home(grid.Cs, batch),
            "l1_ratios_": move_home(np.asarray(grid.ratios), batch),
            **grid.attributes(stack, scores, C, ratio),
        }

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        known = self.l1_ratios is not None and not isinstance(self.l1_ratios, str)
        tags.array_api_support = self.solver in NATIVE_SOLVERS and known
        return tags


def _labels_of(data: ClassData) -> Array:
    """The original labels (n,)."""
    xp = namespace(data.labels.codes)
    codes = xp.astype(data.labels.codes, xp.int64, copy=False)
    return xp.take(data.labels.classes, codes, axis=0)


def _has_every_class(folds: Folds) -> bool:
    """Whether the training part of every split has rows of every class."""
    try:
        class_counts(folds)
    except ValueError:
        return False
    return True


def _class_weights(class_weight: Any, batch: Batch) -> dict | None:
    """Weights by label, the same in all splits."""
    if class_weight is None:
        return None
    classes = to_host(batch.classes)
    if isinstance(class_weight, dict):
        if not set(class_weight) <= set(classes.tolist()):
            raise ValueError(
                "The given class_weight dict must have the class labels as keys; classes="
                f"{classes} but key={class_weight.keys()}"
            )
        return class_weight
    factors = to_host(class_factors(class_weight, whole(batch)))[0]
    return dict(zip(classes.tolist(), factors.tolist(), strict=True))


def _for_classes(scorer: Any, classes: np.ndarray) -> tuple[Any, Any]:
    """A scorer with the options of scikit-learn's class: for all models, and for a single one.

    Of two classes the second is the positive one. The scorer's own options have precedence.
    """
    metric = getattr(scorer, "_score_func", None)
    names = () if metric is None else inspect.signature(metric).parameters
    if "labels" not in names:
        return scorer, scorer
    positive = {"pos_label": classes[-1]} if len(classes) == 2 and "pos_label" in names else {}
    batched, single = copy.copy(scorer), copy.copy(scorer)
    batched._kwargs = {**positive, **scorer._kwargs}
    single._kwargs = {"labels": classes, **batched._kwargs}
    return batched, single


def _mean_model(stack: Models, positions: list[int]) -> dict[str, Any]:
    """Attributes of the mean of one model of each split."""
    batch, xp = stack.folds.batch, namespace(stack.coef)
    coef, intercept = (
        xp.mean(xp.stack([a[c, split, ...] for split, c in enumerate(positions)]), axis=0)
        for a in (stack.coef, stack.intercept)
    )
    return {
        "classes_": batch.classes,
        "coef_": at_home(coef, batch),
        "intercept_": at_home(intercept, batch),
    }
