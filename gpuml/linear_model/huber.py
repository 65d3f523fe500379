"""Huber regression on the device of the data."""

import numpy as np
from sklearn import linear_model as sk

from gpuml._arrays import as_array, move, namespace, to_host
from gpuml.linear_model._base import LinearPredictor
from gpuml.linear_model._by_split import BySplit, Centred, Found, training_rows, warn_late
from gpuml.solvers.huber import HuberRows, Robust, fit_huber


class HuberRegressor(LinearPredictor, BySplit, sk.HuberRegressor):
    r"""Huber regression: linear regression that is robust to outliers.

    Minimises, over w of shape (n_features,), b and a scale :math:`\sigma > 0`,

    .. math:: \sum_i s_i \left( \sigma + H\!\left(\frac{y_i - w \cdot x_i - b}{\sigma}\right)
              \sigma \right) + \alpha |w|_2^2,
              \qquad H(z) = \begin{cases} z^2 & |z| \le \epsilon \\
              2 \epsilon |z| - \epsilon^2 & \text{else} \end{cases}

    with weights s (1 if not given), by Newton's method.

    The setting ``gpuml.set_config(device=...)`` chooses the device for NumPy, pandas, polars and
    lists; CuPy, torch and other device arrays stay on theirs. The fit is in float64. In a
    `gpuml.model_selection` search, the training rows of a split are copied once for all candidates,
    and each candidate starts from the model of the one before it.

    Parameters
    ----------
    epsilon : float >= 1, default=1.35
        Rows are outliers if their absolute residual exceeds `epsilon` times the scale.
    max_iter : int, default=100
        The most steps.
    alpha : float >= 0, default=0.0001
        Strength of the penalty, which is added to the sum of the losses.
    warm_start : bool, default=False
        Whether to start from the model of the last fit; otherwise the fit starts from least
        squares.
    fit_intercept : bool, default=True
        Whether to fit the intercept b, which is not penalised; otherwise it is 0.
    tol : float, default=1e-5
        A fit that reaches `max_iter` has converged if no component of its gradient (for features
        scaled to mean square 1) exceeds `tol`. Fits that end earlier have gone on until a step is
        predicted to change the objective by rounding error only.

    Attributes
    ----------
    coef_ : array of shape (n_features,)
        w, in the library, on the device and of the dtype of X.
    intercept_ : float or array of shape ()
        b; 0.0 without an intercept.
    scale_ : float
        :math:`\sigma`.
    n_iter_ : int
        Steps taken.
    outliers_ : bool array of shape (n_samples,)
        Which training rows are outliers, in the library and on the device of X.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    QuantileRegressor : Predicts quantiles instead of means.

    Notes
    -----
    scikit-learn does the work for sparse X. If too few rows are close to the model for joint steps
    of coefficients and scale, the fit searches for the scale instead. For this search, X on a
    device is copied to CPU memory if it has at most 2^20 numbers, because many short steps over few
    rows take longer on a device.

    References
    ----------
    A. B. Owen, "A robust hybrid of lasso and ridge regression", Contemporary Mathematics 443
    (2007).

    Examples
    --------
    >>> import numpy as np
    >>> from gpuml.linear_model import HuberRegressor
    >>> X = np.arange(20.0)[:, None]
    >>> y = 3.0 * X[:, 0] + 1.0 + 0.1 * np.sin(np.arange(20))
    >>> y[5] = 1000.0
    >>> model = HuberRegressor().fit(X, y)
    >>> model.coef_.round(2), bool(model.outliers_[5])
    (array([3.]), True)
    """

    _numeric_strings = "fit"

    multifit_params = ("alpha", "epsilon", "fit_intercept")

    def _start(self, batch):
        if getattr(self, "coef_", None) is None:
            return None
        coef = to_host(as_array(self.coef_))
        level = float(self.intercept_) if self.fit_intercept else 0.0  # of the last fit, or none
        if coef.shape != (batch.n_features,):
            raise ValueError(
                f"warm_start=True starts from coef_ of shape {coef.shape}, and X has "
                f"{batch.n_features} features. Use warm_start=False, or a clone of the estimator."
            )
        return np.asarray([*coef, level, self.scale_], dtype=float)

    def _solve(self, rows, candidates, start=None):
        found: list[Found] = []
        known: dict[bool, tuple[Centred, HuberRows, Robust]] = {}
        late = 0
        # Without a penalty, what a start has outside of the space of the rows stays there.
        by_rows = rows.X.shape[0] < rows.X.shape[1] and all(
            each["alpha"] > 0 for each in candidates
        )
        for each in candidates:
            flag = bool(each["fit_intercept"])
            before: Robust | None
            if flag in known:
                data, taken, before = known[flag]
            else:
                data = (Centred.in_row_space if by_rows else Centred.of)(rows, flag)
                taken = HuberRows(data.X, data.y, data.weight)
                before = None if start is None else _begun(data, start)
            model = fit_huber(
                taken,
                float(each["epsilon"]),
                data.penalties(float(each["alpha"]) / data.scale**2),
                tol=self.tol,
                max_iter=self.max_iter,
                start=before,
            )
            known[flag] = data, taken, model
            late += not model.converged
            attributes = {"scale_": model.scale, "n_iter_": model.n_steps}
            attributes["epsilon"] = float(each["epsilon"])
            coef, intercept = data.model(model.coef)
            found.append(Found(coef, intercept, 2 * model.n_steps + 1, attributes))
        warn_late(late, len(found), "Increase max_iter, or scale the features (StandardScaler)")
        return found

    def _attributes_of(self, folds, split, found):
        batch = folds.batch
        X, y = training_rows(folds, split, batch.y[:, 0])
        xp = namespace(X)
        residual = xp.astype(y, xp.float64) - X @ move(found.coef, batch.work) - found.intercept
        known = dict(found.attributes)
        outliers = xp.abs(residual) > known.pop("epsilon") * known["scale_"]
        known["scale_"] = np.float64(known["scale_"])
        return {**known, "outliers_": move(outliers, batch.home)}


def _begun(data, start):
    """The start of a fit that continues another model, which may have converged already."""
    coef, (level, scale) = start[:-2], map(float, start[-2:])
    return Robust(data.vector(coef, level), scale, 0, True)
