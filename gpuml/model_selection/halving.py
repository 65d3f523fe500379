"""Successive halving: many candidates on few resources, ever fewer of them on ever more."""

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

    All rounds share the rows that the first one brought to a device. Where the resource is the
    number of rounds of a booster, its ensembles go on from those of the round before.
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

    In round :math:`i` the best :math:`1 / \eta^i` of the candidates are fitted on
    :math:`\eta^i r_0` of a resource (rows, or a parameter such as ``n_estimators``), for
    :math:`\eta` = `factor` and :math:`r_0` = `min_resources`. Candidates, rows drawn, tables and
    best parameters are those of scikit-learn's class of this name for the same `random_state`.
    What differs is how: each round is evaluated as by `GridSearchCV`, candidates that can share a
    pass over the rows do so, rows are brought to their device once for all rounds, and rounds of
    few rows read only these.

    Unlike scikit-learn's, it needs no import of `sklearn.experimental` by the user.

    Parameters
    ----------
    estimator : estimator
        Any scikit-learn-compatible estimator.
    param_grid : dict or list of dicts
        Parameter names to lists of values.
    factor : int or float, default=3
        The inverse of the share of candidates that stay for the next round.
    resource : str, default="n_samples"
        "n_samples", or a parameter of the estimator that takes positive integers.
    max_resources : int or "auto", default="auto"
        Of the resource for one candidate; "auto" is the number of rows.
    min_resources : int, "exhaust" or "smallest", default="exhaust"
        Of the resource in the first round; "exhaust" uses as much as possible in the last.
    aggressive_elimination : bool, default=False
        Repeat the first round where there is too little of the resource to leave `factor`
        candidates or fewer.
    cv : int, splitter or iterable of index pairs, default=5
        Must give the same splits at each call.
    scoring : str, callable or None, default=None
        One metric; None is the estimator's `score`.
    refit : bool or callable, default=True
        Whether the best candidate is fitted on all rows.
    error_score : "raise" or number, default=nan
        Score of a candidate that fails.
    return_train_score : bool, default=True
        Whether training parts are scored too.
    random_state : int, RandomState instance or None, default=None
        Seed of the rows drawn.
    n_jobs : int or None, default=None
        As for `GridSearchCV`.
    verbose : int, default=0
    checkpoint : str, path or None, default=None
        As for `GridSearchCV`.

    Attributes
    ----------
    n_resources_, n_candidates_, n_remaining_candidates_, max_resources_, min_resources_
        As scikit-learn's.
    n_iterations_, n_possible_iterations_, n_required_iterations_
        As scikit-learn's.
    cv_results_, best_estimator_, best_score_, best_params_, best_index_, refit_time_
        As scikit-learn's.
    scorer_, multimetric_, n_splits_, classes_, n_features_in_, feature_names_in_
        As scikit-learn's.
    plan_ : Plan
        How many fits were done in how many passes, and where, for each round.

    Raises
    ------
    ValueError
        From `fit`, for what scikit-learn's class rejects, and if all fits of a round fail.

    See Also
    --------
    HalvingRandomSearchCV : Candidates drawn from distributions.
    HyperbandSearchCV : Several trade-offs between candidates and resources.

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
    """Search over candidates drawn from distributions by successive halving.

    As `HalvingGridSearchCV`, with scikit-learn's `ParameterSampler` for candidates.

    Parameters
    ----------
    estimator : estimator
    param_distributions : dict or list of dicts
        Parameter names to lists or to distributions with an `rvs` method.
    n_candidates : int or "exhaust", default="exhaust"
        Candidates of the first round; "exhaust" draws as many as let the last round use as much
        of the resource as possible.
    min_resources : int, "exhaust" or "smallest", default="smallest"
        Not "exhaust" together with `n_candidates`.
    factor, resource, max_resources, aggressive_elimination, cv, scoring, refit, error_score
        As for `HalvingGridSearchCV`.
    return_train_score, n_jobs, verbose, checkpoint
        As for `HalvingGridSearchCV`.
    random_state : int, RandomState instance or None, default=None
        Seed of the candidates and of the rows drawn.

    Attributes
    ----------
    plan_ : Plan
        How many fits were done in how many passes, and where; the rest as scikit-learn's.

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
