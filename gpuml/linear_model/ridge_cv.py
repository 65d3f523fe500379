"""Ridge regression that chooses its penalty by cross-validation."""

import warnings
from typing import Any, Self

import numpy as np
from sklearn import linear_model as sk
from sklearn.metrics import check_scoring

from gpuml._arrays import Array, is_sparse, move, namespace, to_host
from gpuml._sklearn import _fit_context
from gpuml.data import Batch, Folds, whole
from gpuml.exceptions import level_of_user
from gpuml.linear_model._base import LinearPredictor, describe_rows, multifit_batch
from gpuml.linear_model._cross_validation import Choosing, numbers_in, undefined
from gpuml.linear_model._models import at_home
from gpuml.linear_model.ridge import Ridge
from gpuml.metrics.scorer import BatchScorer, batch_scorer
from gpuml.resampling.atoms import folds_of
from gpuml.resampling.scores import stack_scores
from gpuml.solvers.leave_one_out import leave_one_out


class RidgeChoosing(Choosing):
    """Chooses alpha by leave-one-out, or by splits."""

    alphas: Any
    cv: Any
    fit_intercept: Any
    scoring: Any
    store_cv_results: Any

    def _batch(self, X: Any, y: Any, sample_weight: Any) -> Batch:
        """Rows with the targets of ridge regression, and all weights."""
        raise NotImplementedError

    def _model(self) -> Any:
        """What is fitted on every split."""
        raise NotImplementedError

    def _scorer(self):
        """The scorer of `scoring`; R^2 by default."""
        return check_scoring(estimator=self, scoring=self.scoring, allow_none=True)

    def _choose(self, X, y, sample_weight):
        if self.cv is not None:
            for name in ("store_cv_results", "alpha_per_target"):
                if getattr(self, name, False):
                    raise ValueError(f"cv!=None and {name}=True are incompatible")
        bounds = "neither" if self.cv is None else "left"
        alphas = numbers_in(self.alphas, "alphas", bounds=bounds, name_of_one="alphas")
        batch = self._batch(X, y, sample_weight)
        classes = {"classes_": batch.classes} if batch.n_classes else {}
        if self.cv is None:
            return classes | self._by_leaving_one_out(batch, alphas)
        folds = folds_of(self.cv, batch, X, y, classifier=batch.n_classes > 0)
        return classes | self._by_splits(folds, alphas)

    def _by_splits(self, folds, alphas):
        scores, model_of = self._scores_of_splits(folds, alphas)
        mean = scores.mean(axis=1)
        if np.isnan(mean).any():
            # As a search does: such a model is worse than every other.
            warnings.warn(
                f"One or more of the test scores are non-finite: {mean}",
                UserWarning,
                stacklevel=level_of_user(),
            )
        best = int(np.argmax(np.where(np.isnan(mean), -np.inf, mean)))
        return {
            **_model_only(model_of(best)),
            "alpha_": np.float64(alphas[best]),
            "best_score_": mean[best],
        }

    def _scores_of_splits(self, folds, alphas):
        """Scores (A, S), and what gives the model of all rows of an alpha."""
        candidates = [{"alpha": alpha} for alpha in alphas]
        stack = self._model().multifit(folds, candidates)
        score = self._scores_one(folds, stack)
        table = stack_scores(
            stack, folds, {"score": self._scorer()}, weighted=True, score_model=score
        )
        return table["test"]["score"], lambda best: stack.pick(best, None)

    def _scores_one(self, folds: Folds, stack: Any) -> Any:
        """What scores one model where not all are scored at once."""
        return undefined

    def _by_leaving_one_out(self, batch, alphas):
        folds = whole(batch)
        scores, table = self._left_out(describe_rows(self, folds), alphas)  # (A,) or (A, t)
        alpha, top = alphas[np.argmax(scores, axis=0)], scores.max(axis=0)
        model = Ridge(alpha=alpha, fit_intercept=self.fit_intercept)
        fitted = _model_only(model.multifit(folds, [{}]).pick(0, 0))
        if scores.ndim == 2:
            alpha_, best_score_ = (move(np.ascontiguousarray(a), batch.home) for a in (alpha, top))
        else:
            alpha_, best_score_ = float(alpha), np.float64(top)
        fitted.update(alpha_=alpha_, best_score_=best_score_)
        if self.store_cv_results:
            table = namespace(table).permute_dims(table, (1, 2, 0))  # (n, t, A)
            fitted["cv_results_"] = at_home(table[:, 0, :] if batch.y_is_flat else table, batch)
        return fitted

    def _left_out(self, described, alphas):
        """Scores (A,), or (A, t) where each target chooses for itself; and `cv_results_` (A, n, t).

        There is no such table where nobody needs it.
        """
        batch, xp = described.folds.batch, described.folds.batch.work.xp
        each = getattr(self, "alpha_per_target", False) and batch.y.shape[1] > 1
        scorer: Any = None if self.scoring is None else batch_scorer(self._scorer())
        blocks: list[Array] = []
        table: Any = None
        total: Any = 0.0
        for block in leave_one_out(described, alphas, bool(self.fit_intercept)):
            if scorer is not None:
                blocks.append(block.y[None, ...] - block.residual)
                continue
            squares = block.residual**2
            if block.weight is not None:
                squares = squares * xp.astype(block.weight, xp.float64)[:, None]
            if self.store_cv_results:
                blocks.append(squares)
            total = total + xp.sum(squares, axis=1)
        if blocks:
            table = blocks[0] if len(blocks) == 1 else xp.concat(blocks, axis=1)
        if scorer is None:
            mean = -to_host(total) / batch.n_rows  # (A, t)
            return mean if each else mean.mean(axis=1), table
        y, weight = move(batch.y, batch.work), move(batch.weight, batch.work)
        targets = [slice(k, k + 1) for k in range(y.shape[1])] if each else [slice(None)]
        columns = [
            to_host(scorer.from_predictions(y[:, k], table[..., k], weight)) for k in targets
        ]
        return np.stack(columns, axis=1) if each else columns[0], table


class RidgeCV(RidgeChoosing, LinearPredictor, sk.RidgeCV):
    r"""Ridge regression with `alpha` chosen by cross-validation.

    Without `cv`, it compares leave-one-out errors. They follow from the fit to all rows, so two
    passes over the rows give those of all alphas. With `cv`, it fits all alphas on all splits in
    one pass, like ``GridSearchCV(Ridge(), {"alpha": alphas})``.

    Parameters
    ----------
    alphas : array-like of shape (n_alphas,), default=(0.1, 1.0, 10.0)
        Penalties to try: positive without `cv`, 0 or more with it.
    fit_intercept : bool, default=True
    scoring : str or callable, default=None
        None is the negative mean squared error without `cv`, R^2 with it. A callable of your own
        makes scikit-learn do the work, with data in CPU memory.
    cv : int, splitter or iterable of index pairs, default=None
        None is leave-one-out.
    gcv_mode : {"auto", "svd", "eigen"}, default=None
        None, "auto" and "eigen" are the same; "svd" makes scikit-learn do the work, with data in
        CPU memory.
    store_cv_results : bool, default=False
        Whether to keep the results of every row; only without `cv`.
    alpha_per_target : bool, default=False
        Whether to choose an alpha for each target; only without `cv`.

    Attributes
    ----------
    alpha_ : float or array of shape (n_targets,)
    best_score_ : float or array of shape (n_targets,)
        Score with `alpha_`.
    cv_results_ : array of shape (n_samples, n_alphas) or (n_samples, n_targets, n_alphas)
        Only with `store_cv_results`: weighted squared errors or, with `scoring`, predictions.
    coef_ : array of shape (n_features,) or (n_targets, n_features)
        This and the arrays above are in the library, on the device and of the dtype of X.
    intercept_ : float or array of shape () or (n_targets,)
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    Ridge : The same with a given alpha.

    References
    ----------
    D. M. Allen, "The relationship between variable selection and data augmentation and a method for
    prediction", Technometrics 16 (1974).

    Examples
    --------
    >>> import numpy as np
    >>> from gpuml.linear_model import RidgeCV
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> float(RidgeCV().fit(X, X @ [1.0, 2.0, 0.0]).alpha_)
    0.1
    """

    _numeric_strings = "fit"

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, sample_weight=None, **params) -> Self:
        """Choose alpha and fit.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
        sample_weight : float or array-like of shape (n_samples,), default=None
            Weights of fits and of scores.
        **params : dict
            For scikit-learn's metadata routing; where it is enabled, scikit-learn does the work.

        Returns
        -------
        self : RidgeCV

        Raises
        ------
        ValueError
            For input that scikit-learn's RidgeCV rejects, and for device data with parameters that
            need data in CPU memory. A failed fit leaves the estimator as it was.

        Warns
        -----
        UserWarning
            If some score is nan, such as that of a held-out part without weight; such an alpha is
            chosen only if all are.
        """
        return self._fit_choosing(super().fit, X, y, sample_weight, params)

    def _needs_host(self, X, y=None):
        if is_sparse(X) and self.cv is None:
            return "sparse X and cv=None"
        if self.gcv_mode == "svd" and self.cv is None:
            return "gcv_mode='svd'"
        if self.scoring is not None and not isinstance(batch_scorer(self._scorer()), BatchScorer):
            return "this scoring"
        return None

    def _batch(self, X, y, sample_weight):
        return multifit_batch(self, X, y, sample_weight)

    def _model(self):
        return Ridge(fit_intercept=self.fit_intercept)


def _model_only(attributes: dict[str, Any]) -> dict[str, Any]:
    return {name: attributes[name] for name in ("coef_", "intercept_")}
