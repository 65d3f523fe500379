"""Banded ridge: a penalty for each group of features, which may differ between targets."""

from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils import check_random_state

from gpuml._arrays import as_array, is_array, is_sparse, move, to_host
from gpuml._arrays.threads import one_thread_for_few
from gpuml._inputs.validation import unchanged_on_error
from gpuml._sklearn import Interval, StrOptions, _fit_context
from gpuml.data import Batch, count_rows
from gpuml.linear_model._base import LinearPredictor, OnePass, describe_rows, multifit_batch
from gpuml.linear_model._cross_validation import numbers_in
from gpuml.linear_model._least_squares import solve_candidates
from gpuml.resampling.atoms import folds_of
from gpuml.solvers.band_scores import held_out_scores
from gpuml.solvers.bands import solve_bands


class _Banded(LinearPredictor):
    """Shared parts: rows, groups, and models for given penalties."""

    groups: Any
    fit_intercept: bool

    def multifit_batch(self, X: Any, y: Any, sample_weight: Any = None) -> Batch:
        """Check the rows of a fit or a search and move them to their compute device."""
        if is_sparse(X):
            raise TypeError(
                "Sparse data was passed for X, but dense data is required. Use X.toarray()."
            )
        return multifit_batch(self, X, y, sample_weight)

    def _grouped(self, n_features):
        """Sorted labels of the groups, and the index of each feature's group."""
        if self.groups is None:
            return np.zeros(1, dtype=int), np.zeros(n_features, dtype=int)
        groups = np.asarray(to_host(self.groups) if is_array(self.groups) else self.groups)
        if groups.shape != (n_features,):
            raise ValueError(
                f"groups must name the group of each of {n_features} features, got an array of "
                f"shape {groups.shape}."
            )
        labels, group = np.unique(groups, return_inverse=True)
        return labels, group.reshape(-1)

    def _solved(self, folds, alphas, fit_intercept, advance=None):
        """Models for penalties (C, t, G) or (C, 1, G)."""
        labels, group = self._grouped(folds.n_features)
        unpenalised = bool((alphas == 0).any())
        return solve_candidates(
            described=describe_rows(self, folds, advance, by_features=unpenalised),
            alphas=alphas,
            fit_intercept=fit_intercept,
            attributes=lambda models, candidate, split: {
                "groups_": labels.tolist(),
                "status_": models.status_of(candidate, split),
            },
            flat_coef=True,
            solve=partial(solve_bands, group=group),
        )


class BandedRidge(_Banded, OnePass, MultiOutputMixin, RegressorMixin, BaseEstimator):
    r"""Linear least squares with an l2 penalty for each group of features.

    Minimises, over W of shape (n_targets, n_features) and b,

    .. math:: \sum_i w_i \, |y_i - W x_i - b|^2 + \sum_k \sum_g \alpha_{kg} |W_{kg}|^2

    where :math:`W_{kg}` are the coefficients of target k and group g, and w are weights (1 if not
    given). This is `Ridge` with ``alpha=1`` after dividing each feature by the square root of its
    penalty.

    The setting ``gpuml.set_config(device=...)`` chooses the device for NumPy, pandas, polars and
    lists; CuPy, torch and other device arrays stay on theirs. The fit sums second moments of the
    rows in float64; with more features than rows, it uses inner products of the rows instead, one
    matrix for each group. In a `gpuml.model_selection` search, all values of `alpha` and
    `fit_intercept` are fitted on all splits from the same pass.

    Parameters
    ----------
    alpha : float, or array-like of shape (n_groups,) or (n_targets, n_groups), default=1.0
        Strength of the penalty of each group, in the order of `groups_` and in units of
        ``sum w x^2``. With 0 a group has no penalty; with inf all its coefficients are 0.
    groups : array-like of shape (n_features,), default=None
        Label of each feature's group, such as a number or a string. None means one group. With
        ``range(n_features)``, every feature has its own penalty.
    fit_intercept : bool, default=True
        Whether to fit the intercept b, which is not penalised; otherwise it is 0.

    Attributes
    ----------
    coef_ : array of shape (n_features,) or (n_targets, n_features)
        W, in the library, on the device and of the dtype of X.
    intercept_ : float or array of shape () or (n_targets,)
        b; 0.0 without an intercept.
    groups_ : list
        The different labels, sorted.
    status_ : gpuml.solvers.Status
        Whether the solver succeeded; ``status_.advice`` says so in a sentence.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    BandedRidgeCV : Chooses the penalties by cross-validation.
    Ridge : One penalty for all features.

    References
    ----------
    A. O. Nunez-Elizalde, A. G. Huth, J. L. Gallant, "Voxelwise encoding models with non-spherical
    multivariate normal priors", NeuroImage 197 (2019).

    Examples
    --------
    >>> import numpy as np
    >>> from gpuml.linear_model import BandedRidge
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> model = BandedRidge(alpha=[0.0, np.inf], groups=["a", "a", "b"])
    >>> model.fit(X, X @ [1.0, 2.0, 0.0]).coef_.round(6)
    array([1., 2., 0.])
    """

    multifit_params = ("alpha", "fit_intercept")
    multifit_targets = True
    _parameter_constraints: ClassVar[dict] = {
        "alpha": [Interval(Real, 0, None, closed="both"), "array-like"],
        "groups": [None, "array-like"],
        "fit_intercept": ["boolean"],
    }

    def __init__(self, alpha=1.0, *, groups=None, fit_intercept=True):
        self.alpha = alpha
        self.groups = groups
        self.fit_intercept = fit_intercept

    def _needs_sklearn(self, X: Any, y: Any = None) -> str | None:
        return None

    def multifit_obstacle(self, X: Any) -> str | None:
        """The reason why models are fitted one by one; each fit then rejects sparse rows."""
        return "sparse X" if is_sparse(X) else None

    def multifit(self, folds, candidates, advance=None, start=None):
        """Fit every candidate on the training part of every split; see `LinearEstimator`."""
        n_groups = len(self._grouped(folds.n_features)[0])
        shape = (folds.batch.y.shape[1], n_groups)
        each = [_penalties(alpha, *shape) for alpha in self._values(candidates, "alpha")]
        width = max(len(alpha) for alpha in each)
        alphas = np.stack([np.broadcast_to(alpha, (width, n_groups)) for alpha in each])
        return self._solved(folds, alphas, self._values(candidates, "fit_intercept"), advance)


def _penalties(alpha, n_targets, n_groups):
    """`alpha` as penalties (1, G) or (t, G)."""
    alpha = np.asarray(to_host(alpha) if is_array(alpha) else alpha, dtype=float)
    if alpha.shape not in ((), (n_groups,), (n_targets, n_groups)):
        raise ValueError(
            f"alpha must be one number, or of shape ({n_groups},) or ({n_targets}, {n_groups}), "
            f"for {n_groups} groups and {n_targets} targets, got shape {alpha.shape}."
        )
    if not (alpha >= 0).all():
        raise ValueError(f"alpha must be >= 0, got {alpha}.")
    return np.broadcast_to(alpha, (len(alpha) if alpha.ndim == 2 else 1, n_groups))


class BandedRidgeCV(_Banded, MultiOutputMixin, RegressorMixin, BaseEstimator):
    r"""`BandedRidge` with penalties chosen by cross-validation for each target.

    A candidate is a vector of shares :math:`\gamma` of the groups, which sum to 1. The first has
    equal shares; the others are drawn from Dirichlet distributions. Each candidate is combined with
    each of `alphas`, to the penalties :math:`\alpha / \gamma_g`. Each target takes the penalties
    with the best mean score over the splits, and is fitted with them to all rows. With one group,
    this is `RidgeCV` with `cv`, where `alpha` may differ between targets.

    Rows are read once: the scores of all candidates, alphas and targets, and the final fit, come
    from second moments of the folds. With more features than rows, they come from inner products of
    the rows, one matrix for each group. Thousands of targets share one eigendecomposition per
    candidate and split.

    Parameters
    ----------
    alphas : array-like of shape (n_alphas,), default=(0.1, 1.0, 10.0)
        Penalties to compare; all positive.
    groups : array-like of shape (n_features,), default=None
        Label of each feature's group; see `BandedRidge`. None means one group.
    n_iter : int, default=100
        Number of candidates. With one group, there is only one.
    concentration : float or array-like of floats, default=(0.1, 1.0)
        Parameters of the Dirichlet distributions, which take turns. Small values draw shares that
        are nearly 0 for most groups; large values draw nearly equal shares.
    fit_intercept : bool, default=True
        Whether to fit the intercept b, which is not penalised; otherwise it is 0.
    scoring : {"r2", "neg_mean_squared_error"}, default="r2"
        Score of each target.
    cv : int, splitter or iterable of index pairs, default=None
        None is 5-fold without shuffling.
    alpha_per_target : bool, default=True
        Whether penalties are chosen for each target. Otherwise all targets share the penalties with
        the best mean score over targets.
    random_state : int, RandomState instance, default=None
        Seed of the drawn shares.

    Attributes
    ----------
    alpha_ : array of shape (n_groups,) or (n_targets, n_groups)
        The chosen penalties, in the order of `groups_`.
    best_score_ : float or array of shape (n_targets,)
        Mean score of the chosen penalties over the splits.
    cv_scores_ : array of shape (n_candidates, n_targets)
        For each candidate and target, the mean score with the best alpha.
    shares_ : array of shape (n_candidates, n_groups)
        Shares of the candidates. This and the arrays above are float64, in the library and on the
        device of X.
    coef_ : array of shape (n_features,) or (n_targets, n_features)
        In the library, on the device and of the dtype of X.
    intercept_ : float or array of shape () or (n_targets,)
    groups_ : list
    status_ : gpuml.solvers.Status
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    BandedRidge : Takes given penalties, also for a search of your own.
    RidgeCV : Chooses one penalty for all features, also by leave-one-out.

    References
    ----------
    T. Dupre la Tour, M. Eickenberg, A. O. Nunez-Elizalde, J. L. Gallant, "Feature-space selection
    with banded ridge regression", NeuroImage 264 (2022).

    Examples
    --------
    >>> import numpy as np
    >>> from gpuml.linear_model import BandedRidgeCV
    >>> X = np.random.default_rng(0).normal(size=(60, 4))
    >>> Y = X @ [[1.0, 0.0], [2.0, 0.0], [0.0, 1.0], [0.0, -1.0]]
    >>> model = BandedRidgeCV(groups=[0, 0, 1, 1], random_state=0).fit(X, Y)
    >>> (model.alpha_[:, 0] < model.alpha_[:, 1]).tolist()
    [True, False]
    """

    _parameter_constraints: ClassVar[dict] = {
        "alphas": ["array-like", Interval(Real, 0, None, closed="neither")],
        "groups": [None, "array-like"],
        "n_iter": [Interval(Integral, 1, None, closed="left")],
        "concentration": ["array-like", Interval(Real, 0, None, closed="neither")],
        "fit_intercept": ["boolean"],
        "scoring": [StrOptions({"r2", "neg_mean_squared_error"})],
        "cv": ["cv_object"],
        "alpha_per_target": ["boolean"],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        alphas=(0.1, 1.0, 10.0),
        *,
        groups=None,
        n_iter=100,
        concentration=(0.1, 1.0),
        fit_intercept=True,
        scoring="r2",
        cv=None,
        alpha_per_target=True,
        random_state=None,
    ):
        self.alphas = alphas
        self.groups = groups
        self.n_iter = n_iter
        self.concentration = concentration
        self.fit_intercept = fit_intercept
        self.scoring = scoring
        self.cv = cv
        self.alpha_per_target = alpha_per_target
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=True)
    @one_thread_for_few
    def fit(self, X, y, sample_weight=None) -> Self:
        """Choose the penalties and fit.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
        sample_weight : float or array-like of shape (n_samples,), default=None
            Non-negative weights, used by fits and scores.

        Returns
        -------
        self : BandedRidgeCV

        Raises
        ------
        TypeError
            For sparse X.
        ValueError
            If a training or held-out part has no weight, if ``scoring="r2"`` and a held-out part
            has one row, or for input that `Ridge` rejects. A failed fit leaves the estimator as it
            was.
        """
        with unchanged_on_error(self):
            X = as_array(X)
            alphas = numbers_in(self.alphas, "alphas", bounds="neither", name_of_one="alphas")
            batch = self.multifit_batch(X, y, sample_weight)
            folds = folds_of(self.cv, batch, X, y)
            if self.scoring == "r2" and any(count_rows(s.test) < 2 for s in folds.splits):
                raise ValueError(
                    "R^2 is not defined if a split holds out only one row. Use "
                    "scoring='neg_mean_squared_error', or fewer splits."
                )
            self.__dict__.update(self._chosen(folds, alphas))
        return self

    def _chosen(self, folds, alphas):
        described = describe_rows(self, folds)
        labels, group = self._grouped(folds.n_features)
        shares = self._shares(len(labels))
        best, penalty, share, scores = self._best(described, shares, alphas, group)
        with np.errstate(divide="ignore"):
            chosen = alphas[penalty][:, None] / shares[share]  # (t, G) or (1, G)
        fitted = self._solved(folds, chosen[None, ...], [self.fit_intercept]).pick(0, None)
        one = len(chosen) == 1 and (folds.batch.y_is_flat or not self.alpha_per_target)
        arrays = {
            "alpha_": chosen[0] if one else chosen,
            "cv_scores_": scores,
            "shares_": shares,
        }
        arrays |= {} if one else {"best_score_": best}
        home = folds.batch.home
        there = {name: move(np.ascontiguousarray(a), home) for name, a in arrays.items()}
        return {**fitted, "best_score_": float(best[0]), **there}

    def _best(self, described, shares, alphas, group):
        """Best scores, (t,) or (1,), the indices of their alphas and shares, and all scores."""
        best: Any = -np.inf
        penalty: Any = 0
        share: Any = 0
        found = []
        for i, scores in enumerate(
            held_out_scores(
                described,
                shares,
                alphas,
                bool(self.fit_intercept),
                group=group,
                scoring=self.scoring,
            )
        ):
            found.append(scores.max(axis=0))
            judged = scores if self.alpha_per_target else scores.mean(axis=1, keepdims=True)
            top, place = judged.max(axis=0), judged.argmax(axis=0)
            better = top > best
            best, penalty = np.where(better, top, best), np.where(better, place, penalty)
            share = np.where(better, i, share)
        return best, penalty, share, np.stack(found)

    def _shares(self, n_groups):
        """Shares (N, G) of the groups: first equal ones, then drawn ones."""
        if n_groups == 1:
            return np.ones((1, 1))
        random = check_random_state(self.random_state)
        turns = numbers_in(self.concentration, "concentration", bounds="neither")
        drawn = [
            random.dirichlet([turns[i % len(turns)]] * n_groups) for i in range(1, self.n_iter)
        ]
        return np.stack([np.full(n_groups, 1.0 / n_groups), *drawn])
