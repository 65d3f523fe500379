"""Successive halving: each round keeps the best candidates, and gives them more rows."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

# This import puts scikit-learn's classes into `sklearn.model_selection`.
import sklearn.experimental.enable_halving_search_cv  # noqa: F401
from sklearn import model_selection as sk
from sklearn.base import is_classifier

from gpuml._arrays import is_array, is_numpy, namespace, to_host
from gpuml._settings.suggestions import check_resource
from gpuml._sklearn import _num_samples, _SubsampleMetaSplitter
from gpuml.data import AnySplit
from gpuml.model_selection.one_pass import OnePassSearch
from gpuml.model_selection.row_subsets import subsampled


class OnePassHalving(OnePassSearch):
    """scikit-learn's successive halving, with each round evaluated by `OnePassSearch`.

    All rounds share the rows that the first one brought to a device. If the resource is the
    number of boosting rounds, each round continues the boosters of the round before.
    """

    @property
    def _asks_for_more(self) -> bool:  # type: ignore[override]
        return self.resource != "n_samples"

    def _begin(self, X: Any) -> None:
        self._n_samples_orig = _num_samples(X)

    def _fit(self, X, y, params) -> Self:
        self._begin(X)
        self._base_splits: Sequence[AnySplit] | None = None
        try:
            super()._fit(X, y, params)
        finally:
            del self._base_splits
        self.best_score_ = self.cv_results_["mean_test_score"][self.best_index_]
        return self

    def _check_input_parameters(self, X, y, split_params):
        check_resource(self.resource, self.estimator, ("n_samples",))
        # scikit-learn reads classes in CPU memory; labels on a device are replaced by one of each
        # class.
        if is_array(y) and not is_numpy(y) and is_classifier(self.estimator):
            y = to_host(namespace(y).unique_values(y) if y.ndim == 1 else y)
        super()._check_input_parameters(X=X, y=y, split_params=split_params)

    def _split(self, cv: Any, X: Any, y: Any, params: Mapping[str, Any]) -> Sequence[AnySplit]:
        if not isinstance(cv, _SubsampleMetaSplitter):
            return super()._split(cv, X, y, params)
        if self._base_splits is None:  # all rounds have the same splits
            self._base_splits = super()._split(cv.base_cv, X, y, params)
        return subsampled(self._base_splits, cv.fraction, _num_samples(X), cv.random_state)


class HalvingGridSearchCV(OnePassHalving, sk.HalvingGridSearchCV):
    r"""Search over a grid of parameters by successive halving.

    The first round fits all candidates with few resources, such as few rows or trees. Each later
    round keeps the best ``1 / factor`` of the candidates, and gives each of them `factor` times
    the resources: round :math:`i` fits the best :math:`1 / \eta^i` of the candidates with
    :math:`\eta^i r_0`, where :math:`\eta` = `factor` and :math:`r_0` = `min_resources`.

    Candidates, sampled rows, `cv_results_` and best parameters equal those of scikit-learn's class
    of this name for the same `random_state`. gpuml evaluates each round as `GridSearchCV` does:
    candidates share passes over the rows if they can. It moves the rows to their device once for
    all rounds, and a round with few rows reads only those.

    You need not import `sklearn.experimental`.

    Parameters
    ----------
    estimator : estimator
        Any scikit-learn-compatible estimator.
    param_grid : dict or list of dicts
        Lists of values by parameter name; nested names as ``step__alpha``.
    factor : int or float, default=3
        One in `factor` candidates continues in the next round, with `factor` times the resources.
    resource : str, default="n_samples"
        What grows from round to round: "n_samples" (rows), or the name of a parameter of the
        estimator that takes positive integers, such as "n_estimators".
    max_resources : int or "auto", default="auto"
        The most of the resource that a candidate gets. "auto" is the number of rows of X, and
        only allowed for "n_samples".
    min_resources : int, "exhaust" or "smallest", default="exhaust"
        How much of the resource each candidate gets in the first round. "exhaust" chooses it so
        that the last round uses as much as possible of `max_resources`. "smallest" is two rows
        per split (and class), or 1 of a parameter.
    aggressive_elimination : bool, default=False
        Whether to repeat the first round until the last one has `factor` candidates or fewer, if
        `max_resources` does not allow enough rounds for that.
    cv : int, splitter or iterable of index pairs, default=5
        It must give the same splits at each call.
    scoring : str, callable or None, default=None
        One metric; None is the estimator's `score`.
    refit : bool or callable, default=True
        Whether to fit the best candidate on all rows. A callable gets `cv_results_`, and returns
        the index of the best candidate.
    error_score : "raise" or number, default=nan
        Score of a fit that fails.
    return_train_score : bool, default=True
        Whether to score the training rows too.
    random_state : int, RandomState instance or None, default=None
        Seed for sampling rows.
    n_jobs : int or None, default=None
        Number of workers for fits that are made one at a time; see `GridSearchCV`.
    verbose : int, default=0
        How much to print; see `GridSearchCV`.
    checkpoint : str, path or None, default=None
        A folder or URL to resume an interrupted search from; see `GridSearchCV`.

    Attributes
    ----------
    n_resources_, n_candidates_ : list of int
        The resources per candidate, and the number of candidates, in each round.
    n_remaining_candidates_, max_resources_, min_resources_
        As in scikit-learn's class.
    n_iterations_, n_possible_iterations_, n_required_iterations_
        As in scikit-learn's class.
    cv_results_, best_estimator_, best_score_, best_params_, best_index_, refit_time_
        As in scikit-learn's class.
    scorer_, multimetric_, n_splits_, classes_, n_features_in_, feature_names_in_
        As in scikit-learn's class.
    results_ : DataFrame
        A row for each candidate of each round, the best one first.
    split_sizes_ : list of (int, int)
        Numbers of training and held-out rows of each split of all rows.
    plan_ : Plan
        For each round: how many fits gpuml made, in how many passes over the rows, and where.

    Raises
    ------
    ValueError
        From `fit`, if scikit-learn's class would raise it, or all fits of a round fail.

    See Also
    --------
    HalvingRandomSearchCV : Draws candidates from distributions.
    HyperbandSearchCV : Tries several trade-offs between many candidates and long training.

    References
    ----------
    K. Jamieson and A. Talwalkar, "Non-stochastic best arm identification and hyperparameter
    optimization", AISTATS (2016).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_diabetes
    >>> from gpuml.linear_model import Ridge
    >>> from gpuml.model_selection import HalvingGridSearchCV
    >>> X, y = load_diabetes(return_X_y=True)
    >>> grid = {"alpha": np.logspace(-3, 3, 9)}
    >>> search = HalvingGridSearchCV(Ridge(), grid, random_state=0).fit(X, y)
    >>> search.n_candidates_, search.n_resources_
    ([9, 3, 1], [49, 147, 441])
    """

    def __init__(
        self,
        estimator,
        param_grid,
        *,
        factor=3,
        resource="n_samples",
        max_resources: Any = "auto",
        min_resources: Any = "exhaust",
        aggressive_elimination=False,
        cv: Any = 5,
        scoring=None,
        refit=True,
        error_score: Any = np.nan,
        return_train_score=True,
        random_state=None,
        n_jobs=None,
        verbose=0,
        checkpoint: Any = None,
    ):
        super().__init__(
            estimator,
            param_grid,
            factor=factor,
            resource=resource,
            max_resources=max_resources,
            min_resources=min_resources,
            aggressive_elimination=aggressive_elimination,
            cv=cv,
            scoring=scoring,
            refit=refit,
            error_score=error_score,
            return_train_score=return_train_score,
            random_state=random_state,
            n_jobs=n_jobs,
            verbose=verbose,
        )
        self.checkpoint = checkpoint


class HalvingRandomSearchCV(OnePassHalving, sk.HalvingRandomSearchCV):
    """Search over randomly drawn candidates by successive halving.

    It works like `HalvingGridSearchCV`, except that scikit-learn's `ParameterSampler` draws the
    candidates of the first round.

    Parameters
    ----------
    estimator : estimator
        Any scikit-learn-compatible estimator.
    param_distributions : dict or list of dicts
        Lists of values, or distributions with a method `rvs`, by parameter name.
    n_candidates : int or "exhaust", default="exhaust"
        Number of candidates in the first round. "exhaust" chooses it so that the last round uses
        as much as possible of `max_resources`.
    min_resources : int, "exhaust" or "smallest", default="smallest"
        How much of the resource each candidate gets in the first round, as for
        `HalvingGridSearchCV`. It cannot be "exhaust" if `n_candidates` is "exhaust" too.
    factor, resource, max_resources, aggressive_elimination, cv, scoring, refit, error_score
        As for `HalvingGridSearchCV`.
    return_train_score, n_jobs, verbose, checkpoint
        As for `HalvingGridSearchCV`.
    random_state : int, RandomState instance or None, default=None
        Seed for drawing candidates and sampling rows.

    Attributes
    ----------
    n_resources_, n_candidates_, n_remaining_candidates_, max_resources_, min_resources_
        As for `HalvingGridSearchCV`.
    n_iterations_, n_possible_iterations_, n_required_iterations_
        As for `HalvingGridSearchCV`.
    results_, split_sizes_, plan_
        As for `HalvingGridSearchCV`.
    cv_results_, best_estimator_, best_score_, best_params_, best_index_, refit_time_
        As for `HalvingGridSearchCV`.
    scorer_, multimetric_, n_splits_, classes_, n_features_in_, feature_names_in_
        As for `HalvingGridSearchCV`.

    Examples
    --------
    >>> from scipy.stats import loguniform
    >>> from sklearn.datasets import load_diabetes
    >>> from gpuml.linear_model import Ridge
    >>> from gpuml.model_selection import HalvingRandomSearchCV
    >>> X, y = load_diabetes(return_X_y=True)
    >>> draws = {"alpha": loguniform(1e-3, 1e3)}
    >>> search = HalvingRandomSearchCV(
    ...     Ridge(), draws, n_candidates=9, min_resources="exhaust", random_state=0
    ... )
    >>> search.fit(X, y).n_resources_
    [49, 147, 441]
    """

    def __init__(
        self,
        estimator,
        param_distributions,
        *,
        n_candidates: Any = "exhaust",
        factor=3,
        resource="n_samples",
        max_resources: Any = "auto",
        min_resources: Any = "smallest",
        aggressive_elimination=False,
        cv: Any = 5,
        scoring=None,
        refit=True,
        error_score: Any = np.nan,
        return_train_score=True,
        random_state=None,
        n_jobs=None,
        verbose=0,
        checkpoint: Any = None,
    ):
        super().__init__(
            estimator,
            param_distributions,
            n_candidates=n_candidates,
            factor=factor,
            resource=resource,
            max_resources=max_resources,
            min_resources=min_resources,
            aggressive_elimination=aggressive_elimination,
            cv=cv,
            scoring=scoring,
            refit=refit,
            error_score=error_score,
            return_train_score=return_train_score,
            random_state=random_state,
            n_jobs=n_jobs,
            verbose=verbose,
        )
        self.checkpoint = checkpoint
