"""Tweedie regression on the device of the data."""

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
    `l1_ratio`. Where an exponent is 0, :math:`\log \mu_i` takes the place of its fraction. The
    means are :math:`\mu_i = e^{w \cdot x_i + b}` (`link` "log") or :math:`w \cdot x_i + b`
    ("identity"). The objective is convex for powers from 1 to 2 with the link "log", and from 0 to
    1 with "identity". For other powers it may have several minima; as in scikit-learn, the fit
    finds the one that its steps reach from the mean of y.

    The setting ``gpuml.set_config(device=...)`` chooses the device for NumPy, pandas, polars and
    lists; CuPy, torch and other device arrays stay on theirs. float32 rows stay float32, but sums
    over rows and coefficients are float64 until the fit ends. Sparse matrices of SciPy and CuPy
    stay sparse.

    In a `gpuml.model_selection` search, all values of `alpha`, `l1_ratio` and `fit_intercept` are
    fitted on all splits in the same passes over the rows.

    Parameters
    ----------
    power : float, default=0
        The variance grows with this power of the mean: 0 for least squares, 1 for counts (y at
        least 0), between 1 and 2 for sums of a random number of positive terms (y at least 0), 2
        for `GammaRegressor` (y above 0), 3 for inverse Gaussian targets (y above 0).
    alpha : float >= 0, default=1
        Strength of the penalty, which is added to the mean loss.
    fit_intercept : bool, default=True
        Whether to fit the intercept b, which is not penalised; otherwise it is 0.
    link : {"auto", "identity", "log"}, default="auto"
        The function of the mean that is linear in X. "auto" means "identity" if `power` <= 0, else
        "log". With "identity" and a `power` other than 0, all means must be above 0.
    solver : {"lbfgs", "newton-cholesky"}, default="lbfgs"
        - "lbfgs": quasi-Newton steps, preconditioned by the Hessian of a sample of rows
          where that is worth its cost.
        - "newton-cholesky": Newton steps with the Hessian of all rows; for few features.

        With an l1 part, both take proximal Newton steps.
    max_iter : int, default=100
        The most passes over all rows.
    tol : float, default=1e-4
        Iterations end when no component of the gradient of the objective above exceeds `tol` and
        the next step is predicted to lower the objective by at most ``10 tol^2``. With an l1 part,
        they end when no component of the smallest subgradient exceeds `tol`.
    warm_start : bool, default=False
        Whether to start from the coefficients of the last fit.
    verbose : int, default=0
        Has no effect.
    l1_ratio : float in [0, 1], default=0.0
        Share of the l1 part, which sets coefficients to zero. scikit-learn's class does not have
        this parameter.

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
    PoissonRegressor : The power 1, for counts.
    GammaRegressor : The power 2, for positive targets.
    Ridge : Least squares, in one pass over the rows.

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
        **sk.TweedieRegressor._parameter_constraints,
        **GeneralizedLinear._parameter_constraints,
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
                f"link='identity' with power={self.power:g} needs means above 0: without an "
                "intercept, the fit has no such start. Use fit_intercept=True, or link='log'."
            )
        return super().multifit(folds, candidates, advance, start)
