"""Searches over grids and draws of hyper-parameters."""

from typing import Any, ClassVar

import numpy as np
from sklearn import model_selection as sk

from gpuml._sklearn import StrOptions
from gpuml.model_selection.kept import RESPONSES
from gpuml.model_selection.one_pass import OnePassSearch
from gpuml.model_selection.out_of_bag import OUT_OF_BAG

_OWN: dict[str, Any] = {
    "cv": ["cv_object", StrOptions({OUT_OF_BAG})],
    "return_predictions": ["boolean", StrOptions(set(RESPONSES))],
}


class GridSearchCV(OnePassSearch, sk.GridSearchCV):
    r"""Exhaustive search over a grid of parameters, in as few passes over the rows as possible.

    Parameters, attributes and results are those of scikit-learn's class of this name, but the
    search does less work. It moves the rows to their device once. If the estimator can fit
    several candidates together, as `gpuml.linear_model.Ridge` can for any values of `alpha`, it
    fits and scores them on all folds in one pass. For other estimators, it selects the rows of
    each fold once for all candidates. It copies the scores to CPU memory once.

    Parameters
    ----------
    estimator : estimator
        Any scikit-learn-compatible estimator.
    param_grid : dict or list of dicts
        Lists of values by parameter name; nested names as ``step__alpha``.
    scoring : str, callable, list, tuple, set, dict or None, default=None
        Names as in `gpuml.metrics.get_scorer_names`; None is the estimator's `score`.
    n_jobs : int or None, default=None
        Number of workers for fits that are made one at a time. Batched fits use the threads of
        BLAS instead. Rows on a device are not sent to other processes: such fits run in this one,
        or in threads with joblib's threading backend.
    refit : bool, str or callable, default=True
        Whether to fit the best candidate on all rows; with several metrics, the one that decides.
        "1se" selects the simplest candidate within one standard error of the best
        (`OneStandardError`).
    cv : int, splitter, iterable of index pairs or "oob", default=None
        None is 5 folds. "oob" is for forests with ``bootstrap=True``: each candidate is fitted
        once, to all rows, and each row is predicted by the trees that did not draw it. With
        scikit-learn's default scores that is the `oob_score_` of the forest.
    verbose : int, default=0
        1 prints the number of fits; 2 also each fit and the plan; 3 and above also scores.
    pre_dispatch : int or str, default="2*n_jobs"
        Number of tasks that are dispatched to workers in advance.
    error_score : "raise" or number, default=nan
        Score of a candidate that fails.
    return_train_score : bool, default=False
        Whether to score the training rows too.
    return_predictions : bool or str, default=False
        Which predictions for held-out rows to keep for each candidate: True or "predict",
        "predict_proba", "predict_log_proba" or "decision_function". Each row must be held out once.
    checkpoint : str, path or None, default=None
        A folder, or a URL that fsspec knows. Finished work is stored there; a search that was
        interrupted does only the missing work when you fit it again, with the same scores. Models
        and predictions are not stored. Rows must be in memory.

    Attributes
    ----------
    cv_results_, best_estimator_, best_score_, best_params_, best_index_, refit_time_
        As scikit-learn's. The time of a batch is divided evenly among its fits.
    scorer_, multimetric_, n_splits_, classes_, n_features_in_, feature_names_in_
        As scikit-learn's.
    plan_ : Plan
        How many fits were done in how many passes, and where.
    results_ : DataFrame
        A row for each candidate, the best one first.
    split_sizes_ : list of (int, int)
        Numbers of training and held-out rows of each split.
    cv_predictions_ : array of shape (n_candidates, n_samples), and (..., n_classes or n_outputs)
        With `return_predictions`: for each candidate the result of `cross_val_predict`, from the
        fits that were scored; a list of arrays if that returns one. nan if a fit failed. It is on
        the device of X, and takes 8 bytes or more per row and candidate.

    See Also
    --------
    RandomizedSearchCV : Search over randomly drawn candidates.
    compare_candidates : Test whether candidates differ.

    References
    ----------
    Sums over the rows of several folds add up, which allows the batching; see `gpuml.solvers`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_diabetes
    >>> from gpuml.linear_model import Ridge
    >>> from gpuml.model_selection import GridSearchCV
    >>> X, y = load_diabetes(return_X_y=True)
    >>> search = GridSearchCV(Ridge(), {"alpha": np.logspace(-3, 3, 7)}, scoring="r2").fit(X, y)
    >>> print(search.plan_)
    35 fits in 1 pass on numpy:cpu (all candidates together)
    """

    _parameter_constraints: ClassVar[dict] = {**sk.GridSearchCV._parameter_constraints, **_OWN}

    def __init__(
        self,
        estimator,
        param_grid,
        *,
        scoring=None,
        n_jobs=None,
        refit: Any = True,
        cv=None,
        verbose=0,
        pre_dispatch: Any = "2*n_jobs",
        error_score: Any = np.nan,
        return_train_score=False,
        return_predictions: bool | str = False,
        checkpoint: Any = None,
    ):
        super().__init__(
            estimator,
            param_grid,
            scoring=scoring,
            n_jobs=n_jobs,
            refit=refit,
            cv=cv,
            verbose=verbose,
            pre_dispatch=pre_dispatch,
            error_score=error_score,
            return_train_score=return_train_score,
        )
        self.return_predictions = return_predictions
        self.checkpoint = checkpoint


class RandomizedSearchCV(OnePassSearch, sk.RandomizedSearchCV):
    """Search over randomly drawn parameters, in as few passes over the rows as possible.

    It works like `GridSearchCV`, but draws the candidates with scikit-learn's `ParameterSampler`,
    so the same `random_state` gives the same candidates as scikit-learn's class of this name.

    Parameters
    ----------
    estimator : estimator
    param_distributions : dict or list of dicts
        Lists of values, or distributions with a method `rvs`, by parameter name.
    n_iter : int, default=10
        Number of candidates to draw.
    scoring, n_jobs, refit, cv, verbose, pre_dispatch, error_score, return_train_score
        As for `GridSearchCV`.
    return_predictions, checkpoint
        As for `GridSearchCV`.
    random_state : int, RandomState instance or None, default=None
        Seed of the draws.

    Attributes
    ----------
    cv_results_, best_estimator_, best_score_, best_params_, best_index_, refit_time_
        As for `GridSearchCV`.
    scorer_, multimetric_, n_splits_, classes_, n_features_in_, feature_names_in_
        As for `GridSearchCV`.
    plan_, results_, split_sizes_, cv_predictions_
        As for `GridSearchCV`.

    Examples
    --------
    >>> from scipy.stats import loguniform
    >>> from sklearn.datasets import load_diabetes
    >>> from gpuml.linear_model import Ridge
    >>> from gpuml.model_selection import RandomizedSearchCV
    >>> X, y = load_diabetes(return_X_y=True)
    >>> search = RandomizedSearchCV(Ridge(), {"alpha": loguniform(1e-3, 1e3)}, random_state=0)
    >>> print(round(search.fit(X, y).best_params_["alpha"], 3))
    0.2
    """

    _parameter_constraints: ClassVar[dict] = {
        **sk.RandomizedSearchCV._parameter_constraints,
        **_OWN,
    }

    def __init__(
        self,
        estimator,
        param_distributions,
        *,
        n_iter=10,
        scoring=None,
        n_jobs=None,
        refit: Any = True,
        cv=None,
        verbose=0,
        pre_dispatch: Any = "2*n_jobs",
        random_state=None,
        error_score: Any = np.nan,
        return_train_score=False,
        return_predictions: bool | str = False,
        checkpoint: Any = None,
    ):
        super().__init__(
            estimator,
            param_distributions,
            n_iter=n_iter,
            scoring=scoring,
            n_jobs=n_jobs,
            refit=refit,
            cv=cv,
            verbose=verbose,
            pre_dispatch=pre_dispatch,
            random_state=random_state,
            error_score=error_score,
            return_train_score=return_train_score,
        )
        self.return_predictions = return_predictions
        self.checkpoint = checkpoint
