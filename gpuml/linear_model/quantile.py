"""Quantile regression on the device of the data."""

from typing import Any, ClassVar

import numpy as np
from sklearn import linear_model as sk

from gpuml._arrays import namespace, to_host
from gpuml.linear_model._base import LinearPredictor
from gpuml.linear_model._by_split import BySplit, Centred, Found, warn_late
from gpuml.solvers.quantiles import Rows, fit_quantiles


class QuantileRegressor(LinearPredictor, BySplit, sk.QuantileRegressor):
    r"""Quantile regression with an l1 penalty.

    Minimises, over w of shape (n_features,) and b,

    .. math:: \frac{1}{\sum_i s_i} \sum_i s_i \, \rho_q(y_i - w \cdot x_i - b) + \alpha |w|_1,
              \qquad \rho_q(r) = \max(q r, (q - 1) r)

    with weights s (1 if not given), q = `quantile` and :math:`\alpha` = `alpha`. As in
    scikit-learn, the solution is that of a linear program: an interior-point method, with about
    twenty weighted Gram matrices of the features, comes close to it, and a last step moves to the
    vertex, where coefficients are exactly 0. With many rows, a fit to a sample finds the rows near
    the plane. Of the other rows only their side of the plane matters, which is checked at the end.
    With more features than rows, most features are eliminated from the Gram matrices first.

    The setting ``gpuml.set_config(device=...)`` chooses the device for NumPy, pandas, polars and
    lists; CuPy, torch and other device arrays stay on theirs. The fit is in float64. In a
    `gpuml.model_selection` search, the training rows of a split are copied once for all candidates.

    Parameters
    ----------
    quantile : float in (0, 1), default=0.5
        The quantile to predict: the share of targets below the predictions.
    alpha : float >= 0, default=1.0
        Strength of the penalty, which is added to the mean loss.
    fit_intercept : bool, default=True
        Whether to fit the intercept b, which is not penalised; otherwise it is 0.
    solver : {"highs", "highs-ds", "highs-ipm", "revised simplex"}, default="highs"
        "highs" runs gpuml's solver for dense rows. With the other solvers, and for sparse rows,
        scikit-learn does the work in CPU memory.
    solver_options : dict, default=None
        Options of scikit-learn's solver. If you set them, scikit-learn does the work.

    Attributes
    ----------
    coef_ : array of shape (n_features,)
        w, in the library, on the device and of the dtype of X.
    intercept_ : float or array of shape ()
        b; 0.0 without an intercept.
    n_iter_ : int
        Steps of the interior-point method.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    HuberRegressor : Predicts means, and is robust to outliers.

    References
    ----------
    Koenker, "Quantile regression" (2005).

    Portnoy and Koenker, "The Gaussian hare and the Laplacian tortoise", Statistical Science 12
    (1997).

    Examples
    --------
    >>> import numpy as np
    >>> from gpuml.linear_model import QuantileRegressor
    >>> random = np.random.default_rng(0)
    >>> X = random.normal(size=(200, 2))
    >>> y = X[:, 0] + random.exponential(size=200)
    >>> model = QuantileRegressor(quantile=0.8, alpha=0.0).fit(X, y)
    >>> round(float(np.mean(y <= model.predict(X) + 1e-9)), 1)
    0.8
    """

    multifit_params = ("quantile", "alpha", "fit_intercept")
    _own_solvers: ClassVar[tuple[str, ...]] = ("highs",)
    _sklearn_solvers = ("highs-ds", "highs-ipm", "interior-point", "revised simplex")
    _instead = "solver='highs' without solver_options"

    def _needs_sklearn(self, X, y=None):
        if self.solver_options is not None:
            return "solver_options"
        return super()._needs_sklearn(X, y)

    _solves_together = True

    def _solve_all(self, parts, candidates, start=None):
        found: list[list[Any]] = [[None] * len(candidates) for _ in parts]
        for flag in (True, False):
            some = [i for i, each in enumerate(candidates) if bool(each["fit_intercept"]) is flag]
            if not some:
                continue
            data = [Centred.of(rows, flag) for rows in parts]
            chosen = [candidates[i] for i in some]
            solved = fit_quantiles([_rows_of(each, chosen, start) for each in data])
            for of_part, own, models in zip(found, data, solved, strict=True):
                for i, model in zip(some, models, strict=True):
                    coef, intercept = own.model(model.coef)
                    attributes = {"n_iter_": model.n_steps}
                    of_part[i] = Found(coef, intercept, model.n_steps + 2, attributes)
                late = sum(not model.converged for model in models)
                advice = "Increase alpha, or leave out features that depend on others"
                warn_late(late, len(models), advice)
        return found

    def _start_of_all(self, models, candidate):
        if models.folds.frame is not None:
            return None  # in the coordinates of another split, the same numbers are another model
        coef, level = (
            to_host(a[candidate, :, 0, ...])
            for a in (models.responses.coef, models.responses.intercept)
        )
        return coef.mean(axis=0), float(level.mean())


def _rows_of(data, candidates, start):
    """A training part as the solver takes it."""
    total = float(namespace(data.weight).sum(data.weight))
    penalties = [data.penalties(float(each["alpha"]) * total / data.scale) for each in candidates]
    quantiles = np.asarray([float(each["quantile"]) for each in candidates])
    vectors = None if start is None else data.vector(*start)[None, :]
    return Rows(data.X, data.y, data.weight, quantiles, np.stack(penalties), vectors)
