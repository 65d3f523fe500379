"""Tweedie regression on the device of its data."""

from typing import ClassVar

from sklearn import linear_model as sk

from gpuml.linear_model._glm import GeneralizedLinear
from gpuml.losses import Loss, tweedie


class TweedieRegressor(GeneralizedLinear, sk.TweedieRegressor):
    r"""Tweedie regression, for targets whose variance grows with a power of their mean.

    Minimises, over w of shape (n_features,) and b, half the mean deviance and a penalty,

    .. math:: \frac{1}{\sum_i s_i} \sum_i s_i \left( \frac{\mu_i^{2 - p}}{2 - p}
              - y_i \frac{\mu_i^{1 - p}}{1 - p} \right)
              + \alpha \rho \, |w|_1 + \frac{\alpha (1 - \rho)}{2} |w|_2^2

    with p = `power`, weights s (1 if not given), :math:`\alpha` = `alpha` and :math:`\rho` =
    `l1_ratio`. A power of the exponent 0 over 0 stands for a logarithm. Means are
    :math:`\mu_i = e^{w \cdot x_i + b}` (`link` "log") or :math:`w \cdot x_i + b` ("identity").
    Powers of 1 to 2 with logarithms, and of 0 to 1 without, make the objective convex; of others
    it may have several minima, and the fit ends in the one that steps from the mean of y lead to,
    as scikit-learn's does.

    The setting ``gpuml.set_config(device=...)`` chooses the device for NumPy, pandas, polars and
    lists; CuPy, torch and other device arrays stay on theirs. Float32 rows stay float32; sums over
    them and coefficients are float64 until the end. Sparse matrices of SciPy and CuPy are
    multiplied and never made dense.

    In a `gpuml.model_selection` search, all values of `alpha`, `l1_ratio` and `fit_intercept` are
    fitted on all splits in the same passes over the rows.

    Parameters
    ----------
    power : float, default=0
        Power of the mean that the variance grows with: 0 for least squares, 1 for counts (y at
        least 0), between 1 and 2 for sums of a random number of positive terms (y at least 0), 2
        for `GammaRegressor` (y above 0), 3 for inverse Gaussian targets (y above 0).
    alpha : float >= 0, default=1
        Strength of the penalty, in units of the mean loss.
    fit_intercept : bool, default=True
        Whether to fit the intercept b, which is not penalised; otherwise it is 0.
    link : {"auto", "identity", "log"}, default="auto"
        What the margin is of the mean; "auto" takes "identity" for `power` <= 0, and else "log".
        "identity" with another `power` than 0 has means above 0 only.
    solver : {"lbfgs", "newton-cholesky"}, default="lbfgs"
        - "lbfgs": quasi-Newton steps, preconditioned by the Hessian of a sample of rows
          wherever those are worth their cost.
        - "newton-cholesky": Newton steps with the Hessian of all rows; for few features.

        With an l1 part both take proximal Newton steps.
    max_iter : int, default=100
        Bound on the passes over all rows.
    tol : float, default=1e-4
        Iterations end when no component of the gradient (with an l1 part: of the least subgradient)
        of the objective above is larger, and, without an l1 part, the next step promises to lower
        the objective by no more than ``10 tol^2``.
    warm_start : bool, default=False
        Whether to begin at the coefficients of the last fit.
    verbose : int, default=0
        Without effect.
    l1_ratio : float in [0, 1], default=0.0
        Share of the l1 part, which makes coefficients zero. scikit-learn's class has no such
        parameter.

    Attributes
    ----------
    coef_ : array of shape (n_features,)
        w, in the library, on the device and of the dtype of X.
    intercept_ : float or array of shape ()
        b; 0.0 without an intercept.
    n_iter_ : int
        Passes over all rows.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    PoissonRegressor : The power 1.
    GammaRegressor : The power 2.
    Ridge : Least squares, from one pass.

    References
    ----------
    B. Jorgensen, "Exponential dispersion models", Journal of the Royal Statistical Society B 49
    (1987). P. McCullagh, J. A. Nelder, "Generalized linear models", 2nd edition (1989).

    Examples
    --------
    >>> from gpuml.linear_model import TweedieRegressor
    >>> X, y = [[1, 2], [2, 3], [3, 4], [4, 3]], [0, 3.5, 5, 5.5]
    >>> model = TweedieRegressor(power=1.5, alpha=0.01).fit(X, y)
    >>> model.predict([[1, 1], [3, 4]]).round(1)
    array([0.2, 6.7])
    >>> round(model.score(X, y), 2)
    0.54
    """

    _parameter_constraints: ClassVar[dict] = {
        **GeneralizedLinear._parameter_constraints,
        **sk.TweedieRegressor._parameter_constraints,
    }

    def __init__(
        self,
        *,
        power=0.0,
        alpha=1.0,
        fit_intercept=True,
        link="auto",
        solver="lbfgs",
        max_iter=100,
        tol=1e-4,
        warm_start=False,
        verbose=0,
        l1_ratio=0.0,
    ):
        super().__init__(
            alpha=alpha,
            fit_intercept=fit_intercept,
            solver=solver,
            max_iter=max_iter,
            tol=tol,
            warm_start=warm_start,
            verbose=verbose,
            l1_ratio=l1_ratio,
        )
        self.power = power
        self.link = link

    @property
    def loss(self) -> Loss:
        return tweedie(float(self.power), self._link)

    @property
    def _link(self):
        auto = "identity" if self.power <= 0 else "log"
        return auto if self.link == "auto" else self.link

    def multifit(self, folds, candidates, advance=None, start=None):
        """Fit every candidate on the training part of every split; see `LinearEstimator`."""
        bounded = self._link == "identity" and self.power != 0
        if bounded and start is None and not all(self._values(candidates, "fit_intercept")):
            raise ValueError(
                f"link='identity' with power={self.power:g} has means above 0 only: without an "
                "intercept there are none to begin at. Use fit_intercept=True, or link='log'."
            )
        return super().multifit(folds, candidates, advance, start)
