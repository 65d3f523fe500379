"""Features eliminated by the size of their coefficients, on all rows or on those of each split."""

import warnings
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Self

import numpy as np
from sklearn import feature_selection as sk
from sklearn.base import clone, is_classifier
from sklearn.utils import check_consistent_length

from gpuml._arrays import as_array, is_array, is_foreign, namespace, place_of
from gpuml._arrays.gathered import gathered
from gpuml._arrays.threads import threads_for_order
from gpuml._inputs.validation import require_target, unchanged_on_error
from gpuml._sklearn import _fit_context
from gpuml.data import row_indices, take
from gpuml.exceptions import level_of_user
from gpuml.feature_selection._comparison import cross_validated
from gpuml.feature_selection._from_sums import NEARLY_DEPENDENT, Eliminated, Sums, eliminate
from gpuml.feature_selection._selector import Selector, checked, columns
from gpuml.feature_selection.from_model import importances
from gpuml.metrics import get_scorer
from gpuml.model_selection.candidates import ALONE, Plan, Step
from gpuml.model_selection.parts import run_around
from gpuml.preprocessing._transformer import Transformer
from gpuml.resampling.split import check_splits, check_splitter, split_rows
from gpuml.solvers.swept import Swept


@dataclass(frozen=True)
class Fitted:
    """A step of an elimination: which features (p,) are left, their ranks, and a model of them."""

    support: np.ndarray
    ranking: np.ndarray
    model: Any


class _Eliminating(Selector):
    """Fitting of `RFE` and `RFECV`."""

    def _begun(self, X: Any, y: Any, params: Any, splits: Any = None, scorer: Any = None) -> Any:
        """Sums over checked rows and models of all features; or why there are none."""
        if self.importance_getter != "auto":
            return f"importance_getter={self.importance_getter!r}"
        if params:
            return f"fit is given {', '.join(sorted(params))}"
        sums = Sums.of(clone(self.estimator), X, y, splits, scorer)
        if isinstance(sums, str):
            return sums
        swept = sums.swept(of_all_rows=True)
        if splits is not None:
            swept = Swept.joined([swept, sums.swept()])
        with threads_for_order(X.shape[1]):
            return (sums, swept) if swept.use_all() else NEARLY_DEPENDENT

    def _step_by_step(self, why: str, X: Any, y: Any, params: Any, splits: Any = ()) -> Self:
        """Fit as scikit-learn does: by it, or where the rows of a device are.

        `splits` are those of `cv`, which may make others, or none, when it is asked again.
        """
        if is_foreign(X):
            n_fits = self._fit_on_columns(X, y, params, splits)
            self.plan_ = Plan((Step(n_fits, n_fits, str(place_of(X)), ALONE, (why,)),))
            return self
        theirs: Any = super(Transformer, type(self))
        pairs = [(row_indices(split.train), row_indices(split.test)) for split in splits]
        # X was checked, and has lost the names of its columns.
        names = getattr(self, "feature_names_in_", None)
        run_around(self, theirs.fit, {"cv": pairs} if pairs else {}, X, y, **params)
        if names is not None:
            self.feature_names_in_ = names
        tables = [
            table for key, table in getattr(self, "cv_results_", {}).items() if "_rank" in key
        ]
        n_fits = int(self.ranking_.max()) + sum(len(table) for table in tables)
        self.plan_ = Plan((Step(n_fits, n_fits, "numpy:cpu", ALONE, (why,)),))
        return self

    def _fit_on_columns(self, X: Any, y: Any, params: Any, splits: Any) -> int:
        """Fit step by step to rows that stay in place; returns the number of fits."""
        raise NotImplementedError

    def _by_fits(self, X: Any, y: Any, n_left: int, params: Any) -> list["Fitted"]:
        """The steps of an elimination, each with a model of the features that are left."""
        n_features = X.shape[1]
        support, ranking = np.ones(n_features, dtype=bool), np.ones(n_features, dtype=int)
        step, found = _step(self.step, n_features), []
        while True:
            features = np.flatnonzero(support)
            model = clone(self.estimator).fit(columns(X, features), y, **params)
            found.append(Fitted(support.copy(), ranking.copy(), model))
            if len(features) <= n_left:
                return found
            if self.verbose > 0:
                print(f"Fitting estimator with {len(features)} features.")  # noqa: T201
            # Numbers of the size of the features come to CPU memory, and no rows.
            squares = importances(model, self.importance_getter) ** 2
            squares = squares.sum(axis=0) if squares.ndim > 1 else squares
            least = np.argsort(squares, kind="stable")[: min(step, len(features) - n_left)]
            support[features[least]] = False
            ranking[~support] += 1

    def _left_by_fit(self, last: "Fitted") -> None:
        """Set what `RFE` fits, from the last step of an elimination on all rows."""
        self.support_, self.ranking_, self.estimator_ = last.support, last.ranking, last.model
        self.n_features_ = self.support_.sum()

    def _left(self, steps: Eliminated, k: int, sums: Sums, X: Any, y: Any) -> None:
        """Set what `RFE` fits, from step k of an elimination, whose first part is all rows."""
        self.support_, self.ranking_ = steps.support[k, 0], steps.ranking[k, 0]
        self.n_features_ = self.support_.sum()
        self.estimator_ = sums.refit(self.estimator, X, y, np.flatnonzero(self.support_))


class RFE(_Eliminating, sk.RFE):
    r"""Recursive feature elimination: drop the least important features, step by step.

    Each step fits the estimator to the remaining features and eliminates the `step` least important
    ones [1]_. The importance of feature j in a linear model is :math:`\sum_k w_{kj}^2`, over its
    outputs k.

    For `Ridge` and `LinearRegression` of `gpuml.linear_model`, second moments of the rows are
    summed once, and all steps follow from them: removing a feature is a sweep of the sums [2]_.
    Other estimators are fitted at each step, as in scikit-learn, on the device of the rows, and so
    are all estimators for sparse X and nearly dependent features; `plan_` gives the reason.

    Parameters
    ----------
    estimator : estimator
        An estimator with `coef_` or `feature_importances_` after `fit`; it is cloned.
    n_features_to_select : int or float, default=None
        How many features to keep: a number, or a share of the features. None is half of them.
    step : int or float, default=1
        How many features each step eliminates: a number, or a share of all features.
    verbose : int, default=0
        Above 0, `fit` prints a line for each step.
    importance_getter : str or callable, default="auto"
        An attribute of the fitted estimator, or a function of it, that returns the importances.
        Unless it is "auto", scikit-learn does the work.

    Attributes
    ----------
    estimator_ : estimator
        The estimator, fitted to the selected features.
    n_features_ : int
        Number of selected features.
    support_ : bool ndarray of shape (n_features_in_,)
    ranking_ : int ndarray of shape (n_features_in_,)
        1 for selected features; the features that were eliminated first have the largest rank.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.
    plan_ : Plan
        How many models were computed from sums, how many were fitted, and why.

    References
    ----------
    .. [1] I. Guyon, J. Weston, S. Barnhill, V. Vapnik, "Gene selection for cancer classification
       using support vector machines", Machine Learning 46 (2002).
    .. [2] J. H. Goodnight, "A tutorial on the SWEEP operator", The American Statistician 33 (1979).

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from gpuml.feature_selection import RFE
    >>> from gpuml.linear_model import Ridge
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> RFE(Ridge(0.1), n_features_to_select=3).fit(X, y).get_feature_names_out()
    array(['bmi', 'bp', 's5'], dtype=object)
    """

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X, y, **fit_params) -> Self:  # type: ignore[override]
        """Eliminate features, and fit the estimator to the remaining ones.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
        **fit_params
            Passed to `fit` of the estimator, which is then fitted at each step.

        Returns
        -------
        self : estimator

        Raises
        ------
        ValueError
            For input that scikit-learn's class, or the estimator, rejects. A failed fit leaves the
            selector as it was.
        """
        with unchanged_on_error(self):
            # The estimator says what it can fit.
            X, y = checked(self, X, allow_nan=True), gathered(y)
            begun = self._begun(X, y, fit_params)
            if isinstance(begun, str):
                self._step_by_step(begun, X, y, fit_params)
                return self
            sums, swept = begun
            n_left, step = self._n_left(X.shape[1]), _step(self.step, X.shape[1])
            with threads_for_order(X.shape[1]):
                steps = eliminate(swept, n_left, step, self.verbose)
            self._left(steps, -1, sums, X, y)
            self.plan_ = sums.plan(len(steps.sizes))
        return self

    def _fit_on_columns(self, X, y, params, splits):
        steps = self._by_fits(X, y, self._n_left(X.shape[1]), params)
        self._left_by_fit(steps[-1])
        return len(steps)

    def _n_left(self, n_features):
        wanted = self.n_features_to_select
        if wanted is None:
            return n_features // 2
        if not isinstance(wanted, Integral):
            return int(n_features * wanted)
        if wanted > n_features:
            _warn_of_few("n_features_to_select", wanted, n_features)
        return int(wanted)


class RFECV(_Eliminating, sk.RFECV):
    """Recursive feature elimination, with the number of features chosen by cross-validation.

    On the training set of every split, it eliminates features like `RFE`, and scores the model of
    each step on the held-out rows. It then eliminates features on all rows, down to the number with
    the best mean score (if there are several, the smallest).

    For `Ridge` and `LinearRegression` of `gpuml.linear_model`, and scores that follow from
    residuals, second moments of the rows are summed once. The steps of all splits, their scores and
    the elimination on all rows follow from them. In all other cases models are fitted at each step,
    as in scikit-learn, on the device of the rows; `plan_` gives the reason.

    Parameters
    ----------
    estimator : estimator
        An estimator with `coef_` or `feature_importances_` after `fit`; it is cloned.
    step : int or float, default=1
        How many features each step eliminates: a number, or a share of all features.
    min_features_to_select : int, default=1
        The smallest number of features that is scored.
    cv : int, splitter or iterable, default=None
        Number of folds, or the splits; None is 5 folds.
    scoring : str or callable, default=None
        The score of a model; None is R^2, or accuracy for classifiers.
    verbose : int, default=0
        Above 0, a line for each step is printed.
    n_jobs : int, default=None
        Number of parallel jobs for splits that are fitted step by step in CPU memory. With rows on
        a device, splits are fitted one after the other.
    importance_getter : str or callable, default="auto"
        Where importances are; other than "auto", scikit-learn does the work.

    Attributes
    ----------
    cv_results_ : dict of ndarrays
        "n_features", "mean_test_score", "std_test_score" (n_steps,), and for each split
        "split0_test_score", "split0_support" and "split0_ranking".
    estimator_ : estimator
        The estimator, fitted to the selected features.
    n_features_ : int
        Number of selected features.
    support_ : bool ndarray of shape (n_features_in_,)
    ranking_ : int ndarray of shape (n_features_in_,)
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.
    plan_ : Plan
        How many models were computed from sums, how many were fitted, and why.

    See Also
    --------
    SequentialFeatureSelector : Compares scores instead of coefficients.

    References
    ----------
    I. Guyon, J. Weston, S. Barnhill, V. Vapnik, "Gene selection for cancer classification using
    support vector machines", Machine Learning 46 (2002).

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from gpuml.feature_selection import RFECV
    >>> from gpuml.linear_model import Ridge
    >>> X, y = load_diabetes(return_X_y=True)
    >>> selector = RFECV(Ridge(0.1)).fit(X, y)
    >>> int(selector.n_features_)
    5
    """

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X, y, **params) -> Self:  # type: ignore[override]
        """Choose the number of features, and fit the estimator to the selected ones.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
        **params
            `groups` for the splitter; other parameters only if metadata routing is on. With those,
            the estimator is fitted at each step.

        Returns
        -------
        self : estimator

        Raises
        ------
        ValueError
            For input that scikit-learn's class, or the estimator, rejects, and for device data with
            parameters other than `groups`. A failed fit leaves the selector as it was.
        """
        with unchanged_on_error(self):
            # The estimator says what it can fit.
            X, y = checked(self, X, allow_nan=True), gathered(y)
            given = {name: value for name, value in params.items() if name != "groups"}
            splits = () if given else self._splits(X, y, params)
            begun = self._begun(X, y, given, splits, self._get_scorer())
            if isinstance(begun, str):
                self._step_by_step(begun, X, y, params if given else {}, splits)
            else:
                sums, swept = begun
                self._choose(sums, swept, X, y)
        return self

    def _get_scorer(self):
        # scikit-learn's scorers read arrays in CPU memory only.
        usual = "accuracy" if is_classifier(self.estimator) else "r2"
        return get_scorer(usual if self.scoring is None else self.scoring)

    def _splits(self, X, y, params):
        check_consistent_length(X, y)
        cv = check_splitter(self.cv, y, classifier=is_classifier(self.estimator))
        given = {name: value for name, value in params.items() if value is not None}
        splits = split_rows(cv, X, y, X.shape[0], **given)
        check_splits(splits)
        return splits

    def _choose(self, sums, swept, X, y):
        fewest, step = self._fewest(X.shape[1]), _step(self.step, X.shape[1])
        with threads_for_order(X.shape[1]):
            steps = eliminate(swept, fewest, step, self.verbose)
            scores = sums.scores(steps.coef[:, 1:], steps.intercept[:, 1:])  # (K, S)
        support, ranking = steps.support[:, 1:], steps.ranking[:, 1:]
        lost = np.argwhere(np.isnan(scores)).tolist()
        for k, s in lost:
            split, used = sums.folds.splits[s : s + 1], support[k, s]
            scorer = self._get_scorer()
            alone = cross_validated(self.estimator, X, y, used, split, scoring=scorer)
            scores[k, s] = alone[0]
        best = self._set_results(steps.sizes, scores, support, ranking)
        self._left(steps, steps.sizes.index(best), sums, X, y)
        n_models = scores.size - len(lost) + sum(size >= best for size in steps.sizes)
        self.plan_ = sums.plan(n_models, len(lost))

    def _fewest(self, n_features):
        fewest = self.min_features_to_select
        if fewest > n_features:
            _warn_of_few("min_features_to_select", fewest, n_features)
        return min(fewest, n_features)

    def _fit_on_columns(self, X, y, params, splits):
        given = [name for name in params if name != "groups"]
        if given:
            raise ValueError(
                f"RFECV of rows on {place_of(X)} passes no parameters to the estimator and the "
                f"scorer, and got {', '.join(given)}. Leave them out, or pass NumPy arrays."
            )
        require_target(self, y)
        y, scorer = as_array(y), self._get_scorer()
        y = y if is_array(y) else np.asarray(y)
        fewest, table = self._fewest(X.shape[1]), []
        for split in splits:
            (X_train, y_train), (X_test, y_test) = (
                [take(a, rows, namespace(a)) for a in (X, y)] for rows in (split.train, split.test)
            )
            steps = self._by_fits(X_train, y_train, fewest, {})
            score = [
                scorer(each.model, columns(X_test, np.flatnonzero(each.support)), y_test)
                for each in steps
            ]
            table.append((score, [e.support for e in steps], [e.ranking for e in steps]))
        sizes = [int(each.support.sum()) for each in steps]
        scores, support, ranking = (np.stack(column, axis=1) for column in zip(*table, strict=True))
        best = self._set_results(sizes, scores, support, ranking)
        of_all = self._by_fits(X, y, best, {})
        self._left_by_fit(of_all[-1])
        return scores.size + len(of_all)

    def _set_results(self, sizes, scores, support, ranking) -> int:
        """Set `cv_results_` from steps (K, S, ...); the number of features that is best."""
        # Of equal sums the fewest features win, so the last step.
        sizes, scores, support, ranking = (
            np.asarray(a)[::-1] for a in (sizes, scores, support, ranking)
        )
        splits = range(scores.shape[1])
        self.cv_results_ = {
            "mean_test_score": scores.mean(axis=1),
            "std_test_score": scores.std(axis=1),
            **{f"split{s}_test_score": scores[:, s] for s in splits},
            **{f"split{s}_ranking": ranking[:, s] for s in splits},
            **{f"split{s}_support": support[:, s] for s in splits},
            "n_features": sizes,
        }
        return int(sizes[np.argmax(scores.sum(axis=1))])


def _step(step, n_features):
    """Features that a step eliminates."""
    return int(max(1, step * n_features)) if 0.0 < step < 1.0 else int(step)


def _warn_of_few(name, wanted, n_features):
    warnings.warn(
        f"Found {name}={wanted} > n_features={n_features}. There will be no feature selection and "
        "all features will be kept.",
        UserWarning,
        stacklevel=level_of_user(),
    )
