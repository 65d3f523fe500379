"""Quantile regression on the device of its data."""

from typing import Any, ClassVar

import numpy as np
from sklearn import linear_model as sk

from gpuml._arrays import namespace
from gpuml.linear_model._base import LinearPredictor
from gpuml.linear_model._by_split import BySplit, Centred, Found, warn_late
from gpuml.solvers.quantiles import fit_quantiles


class QuantileRegressor(LinearPredictor, BySplit, sk.QuantileRegressor):
    r"""Linear models of quantiles of the targets, such as their median, with an l1 penalty.

    Minimises, over w of shape (n_features,) and b,

    .. math:: \frac{1}{\sum_i s_i} \sum_i s_i \, \rho_q(y_i - w \cdot x_i - b) + \alpha |w|_1,
              \qquad \rho_q(r) = \max(q r, (q - 1) r)

    with weights s (1 if not given), q = `quantile` and :math:`\alpha` = `alpha`. The minimum is
    that of the linear program, as scikit-learn finds it: an interior-point method with some twenty
    second moments of the rows, and then the vertex, so that coefficients are 0 exactly. Of many
    rows, a sample tells which are near the plane; of the others only the side matters, which is
    looked at again in the end.

    NumPy, pandas, polars and lists are worked on where ``gpuml.set_config(device=...)`` says;
    CuPy, torch and other device arrays where they are; in float64 until the end. In a
    `gpuml.model_selection` search, the training rows of a split are taken once for all candidates.

    Parameters
    ----------
    quantile : float in (0, 1), default=0.5
        Share of the targets that are to be below the predictions.
    alpha : float >= 0, default=1.0
        Strength of the penalty, in units of the mean loss.
    fit_intercept : bool, default=True
        Whether b is fitted (it is not penalised) or 0.
    solver : {"highs", "highs-ds", "highs-ipm", "revised simplex"}, default="highs"
        "highs" is ours for dense rows; the others, and sparse rows, are scikit-learn's work, with
        data in CPU memory.
    solver_options : dict, default=None
        Only for scikit-learn's solvers, which are used if it is given.

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
        Only where the columns of X have string names.

    See Also
    --------
    HuberRegressor : Means that outliers do not pull away.

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

    def _solve(self, rows, candidates, start=None):
        models: list[Any] = [None] * len(candidates)
        for flag in (True, False):
            some = [i for i, each in enumerate(candidates) if bool(each["fit_intercept"]) is flag]
            if not some:
                continue
            data = Centred.of(rows, flag)
            total = float(namespace(data.weight).sum(data.weight))
            penalties = np.stack(
                [data.penalties(float(candidates[i]["alpha"]) * total / data.scale) for i in some]
            )
            quantiles = np.asarray([float(candidates[i]["quantile"]) for i in some])
            found = fit_quantiles(data.X, data.y, data.weight, quantiles, penalties)
            for i, model in zip(some, found, strict=True):
                coef, intercept = data.model(model.coef)
                attributes = {"n_iter_": model.n_steps}
                models[i] = Found(coef, intercept, model.n_steps + 2, attributes)
            late = sum(not model.converged for model in found)
            advice = "alpha, or leave out features that depend on others"
            warn_late(late, len(found), advice)
        return models
