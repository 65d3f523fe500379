"""Prediction intervals from residuals of held-out rows."""

import math
from numbers import Real
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, RegressorMixin
from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping
from sklearn.utils.validation import check_is_fitted

from gpuml._arrays import Array, as_array, is_array, move, namespace, place_of
from gpuml._persistence.travel import Travels
from gpuml._sklearn import HasMethods, StrOptions, _fit_context, _MultimetricScorer, _num_samples
from gpuml.data import count_rows, row_indices
from gpuml.metrics.own_scores import ScoredByR2
from gpuml.model_selection.evaluate import Evaluator
from gpuml.model_selection.one_by_one import rows_of
from gpuml.model_selection.validation import job_of

# Memory for intervals: each row of X has a bound from every row of the fit.
BLOCK_BYTES = 2**26


class ConformalRegressor(ScoredByR2, Travels, MetaEstimatorMixin, RegressorMixin, BaseEstimator):
    r"""A regressor with prediction intervals, from the residuals of cross-validation.

    Let :math:`\mu_k` be the models of the training sets, which are fitted together if possible, and
    :math:`r_i = |y_i - \mu_{k(i)}(x_i)|` the residuals of the n held-out rows. The interval of
    coverage :math:`1 - \alpha` for a new row x is

    - ``"plus"``: from the :math:`\lfloor \alpha (n + 1) \rfloor`-th smallest
      :math:`\mu_{k(i)}(x) - r_i` to the :math:`\lceil (1 - \alpha)(n + 1) \rceil`-th smallest
      :math:`\mu_{k(i)}(x) + r_i`: CV+, or jackknife+ for ``cv=LeaveOneOut()`` [1]_;
    - ``"minmax"``: the same from the smallest and largest :math:`\mu_k(x)`, which is wider;
    - ``"base"``: :math:`\mu(x) \pm` the :math:`\lceil (1 - \alpha)(n + 1) \rceil`-th smallest
      :math:`r_i`, with the model :math:`\mu` of all rows;
    - ``"split"``: the same with the model of a single training set (split conformal
      prediction [2]_); `cv` has one split.

    If rows are exchangeable, ``"split"`` and ``"minmax"`` cover at least :math:`1 - \alpha`, and
    ``"plus"`` at least :math:`1 - 2 \alpha`. If single rows change the model little, ``"plus"`` and
    ``"base"`` cover about :math:`1 - \alpha`; otherwise, ``"base"`` guarantees nothing. Coverage is
    an average over new rows, not a guarantee for each of them.

    Parameters
    ----------
    estimator : estimator
        Any regressor of one target.
    method : {"plus", "minmax", "base", "split"}, default="plus"
    cv : int, splitter or iterable of index pairs, default=None
        None is 5 folds, or, for ``"split"``, one split that trains on three quarters of the rows.
        No row may be held out twice.
    n_jobs : int or None, default=None
        Workers for estimators that are fitted one by one.

    Attributes
    ----------
    estimator_ : estimator
        The model that predicts, fitted to all rows, or to the training set for ``"split"``.
    estimators_ : list of estimators
        The model of each training set.
    residuals_ : array of shape (n_held_out,)
        Absolute residuals, split after split, on the device of X.
    n_features_in_ : int
        If `estimator_` has it.

    Raises
    ------
    ValueError
        From `fit`, for several targets, rows that are held out twice, and ``"split"`` with several
        splits; from `predict_interval`, if there are too few residuals for the coverage.

    See Also
    --------
    cross_val_predict : The out-of-fold predictions.

    References
    ----------
    .. [1] R. F. Barber, E. J. Candes, A. Ramdas, R. J. Tibshirani, "Predictive inference with the
       jackknife+", Annals of Statistics 49 (2021).
    .. [2] J. Lei, M. G'Sell, A. Rinaldo, R. J. Tibshirani, L. Wasserman, "Distribution-free
       predictive inference for regression", J. Am. Stat. Assoc. 113 (2018).

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from gpuml.linear_model import Ridge
    >>> from gpuml.model_selection import ConformalRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = ConformalRegressor(Ridge(alpha=0.01)).fit(X[:300], y[:300])
    >>> lower, upper = model.predict_interval(X[300:], coverage=0.9)
    >>> bool(0.8 < ((lower <= y[300:]) & (y[300:] <= upper)).mean() < 1.0)
    True
    """

    _parameter_constraints: dict = {  # noqa: RUF012
        "estimator": [HasMethods(["fit", "predict"])],
        "method": [StrOptions({"plus", "minmax", "base", "split"})],
        "cv": ["cv_object"],
        "n_jobs": "no_validation",
    }

    def __init__(self, estimator, *, method="plus", cv=None, n_jobs=None):
        self.estimator = estimator
        self.method = method
        self.cv = cv
        self.n_jobs = n_jobs

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X, y, **params) -> Self:
        """Fit the models of all training sets, and the model of all rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        **params : dict
            As for `cross_validate`: what `fit` of the estimator takes, such as `sample_weight`.

        Returns
        -------
        self : ConformalRegressor

        Raises
        ------
        ValueError
            See the class. A failed fit leaves the estimator as it was.
        """
        X, y = as_array(X), as_array(y)
        if getattr(y, "ndim", 1) != 1:
            raise ValueError("ConformalRegressor needs one target: y must be 1-D.")
        cv = self.cv
        if cv is None and self.method == "split":
            n_train = 3 * _num_samples(X) // 4
            rows = np.random.RandomState(0).permutation(_num_samples(X))
            cv = [(np.sort(rows[:n_train]), np.sort(rows[n_train:]))]
        job = job_of(
            self.estimator,
            X,
            y,
            _MultimetricScorer(scorers={}),  # only predictions are needed
            "ConformalRegressor",
            groups=None,
            cv=cv,
            params=params,
            n_jobs=self.n_jobs,
            return_train_score=False,
            error_score="raise",
            verbose=0,
            return_estimator=True,
        )
        if self.method == "split" and len(job.splits) != 1:
            raise ValueError(f"method='split' takes a cv of one split, got {len(job.splits)}.")
        held_out = np.concatenate([row_indices(split.test) for split in job.splits])
        if len(np.unique(held_out)) < len(held_out):
            raise ValueError("cv holds out some rows more than once; use one without repeats.")
        evaluator = Evaluator(job)
        models = [result["estimator"] for result in evaluator.evaluate([{}])]
        residuals = [
            _residuals(model, rows_of(job.X, split.test), rows_of(job.y, split.test))
            for model, split in zip(models, job.splits, strict=True)
        ]
        of_all_rows = models[0] if self.method == "split" else evaluator.refit(0)
        self.estimators_, self.estimator_ = models, of_all_rows
        self._n_held_out = [count_rows(split.test) for split in job.splits]
        self.residuals_ = namespace(*residuals).concat(residuals)
        for name in ("n_features_in_", "feature_names_in_"):
            self.__dict__.pop(name, None)
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
        return self

    def predict(self, X):
        """Predict targets.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        y : array of shape (n_samples,)
            Predictions of `estimator_`, on the device of X.
        """
        check_is_fitted(self)
        model: Any = self.estimator_
        return model.predict(X)

    def predict_interval(self, X, coverage=0.9):
        """Predict intervals.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        coverage : float, default=0.9
            Share of new rows that the intervals should cover.

        Returns
        -------
        lower, upper : arrays of shape (n_samples,)
            On the device of the predictions.

        Raises
        ------
        ValueError
            If there are too few residuals: coverage c needs c / (1 - c) of them.
        """
        check_is_fitted(self)
        is_number = isinstance(coverage, Real)
        if not (is_number and 0 < coverage < 1):
            raise ValueError(f"coverage must be a number between 0 and 1, got {coverage!r}.")
        residuals = self.residuals_
        n, xp = residuals.shape[0], namespace(residuals)
        # Exact where the product is a whole number up to rounding.
        rank = math.ceil(round(coverage * (n + 1), 9))
        if rank > n:
            raise ValueError(
                f"Coverage {coverage} needs {math.ceil(coverage / (1 - coverage))} residuals, and "
                f"there are {n}: hold out more rows, or lower coverage."
            )
        if self.method in ("base", "split"):
            middle, half = self.predict(X), xp.sort(residuals)[rank - 1]
            return middle - half, middle + half
        said = [_as_numbers(model.predict(X), residuals) for model in self.estimators_]
        if self.method == "minmax":
            half, each = xp.sort(residuals)[rank - 1], xp.stack(said)
            return xp.min(each, axis=0) - half, xp.max(each, axis=0) + half
        step, m = max(1, BLOCK_BYTES // (8 * n)), said[0].shape[0]
        blocks = [
            self._plus([each[first : min(first + step, m)] for each in said], rank)
            for first in range(0, m, step)
        ]
        return tuple(xp.concat(parts) for parts in zip(*blocks, strict=True))

    def _plus(self, said, rank) -> tuple[Array, Array]:
        """Bounds for some rows, from the predictions of each model."""
        xp, n = namespace(*said), self.residuals_.shape[0]
        middle = xp.concat(
            [
                xp.broadcast_to(each[:, None], (each.shape[0], k))
                for each, k in zip(said, self._n_held_out, strict=True)
            ],
            axis=1,
        )
        lower, upper = middle - self.residuals_, middle + self.residuals_
        return xp.sort(lower, axis=1)[:, n - rank], xp.sort(upper, axis=1)[:, rank - 1]

    def get_metadata_routing(self):
        """Get the metadata routing of this object.

        Returns
        -------
        routing : MetadataRouter
        """
        return MetadataRouter(owner=self).add(
            estimator=self.estimator,
            method_mapping=MethodMapping().add(caller="fit", callee="fit"),
        )

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self.estimator).input_tags
        tags.array_api_support = get_tags(self.estimator).array_api_support
        return tags


def _residuals(model: Any, X: Any, y: Any) -> Array:
    said = model.predict(X)
    y = move(y if is_array(y) else np.asarray(y), place_of(said))
    xp = namespace(said)
    return xp.abs(xp.astype(y, xp.float64) - xp.astype(said, xp.float64))


def _as_numbers(said: Any, like: Array) -> Array:
    """Predictions (m,) in the library of the residuals."""
    said = move(said, place_of(like))
    return namespace(said).astype(said, like.dtype)
