"""Gamma regression on the device of the data."""

from sklearn import linear_model as sk

from gpuml.linear_model._glm import GeneralizedLinear


class GammaRegressor(GeneralizedLinear, sk.GammaRegressor):
    r"""Gamma regression with a log link, for positive targets such as costs and durations.

    Minimises, over w of shape (n_features,) and b, half the mean Gamma deviance and a penalty,

    .. math:: \frac{1}{\sum_i s_i} \sum_i s_i \left( \log \mu_i + \frac{y_i}{\mu_i} \right)
              + \alpha \rho \, |w|_1 + \frac{\alpha (1 - \rho)}{2} |w|_2^2,
              \qquad \mu_i = e^{w \cdot x_i + b}

    with weights s (1 if not given), :math:`\alpha` = `alpha` and :math:`\rho` = `l1_ratio`.
    Targets must be above 0. If targets are means of several observations, such as the cost per
    claim, pass the number of observations as `sample_weight`.

    The setting ``gpuml.set_config(device=...)`` chooses the device for NumPy, pandas, polars and
    lists; CuPy, torch and other device arrays stay on theirs. float32 rows stay float32, but sums
    over rows and coefficients are float64 until the fit ends. Sparse matrices of SciPy and CuPy
    stay sparse.

    In a `gpuml.model_selection` search, all values of `alpha`, `l1_ratio` and `fit_intercept` are
    fitted on all splits in the same passes over the rows.

    Parameters
    ----------
    alpha : float >= 0, default=1
        Strength of the penalty, which is added to the mean loss.
    fit_intercept : bool, default=True
        Whether to fit the intercept b, which is not penalised; otherwise it is 0.
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
    PoissonRegressor : For counts, whose variance is their mean.
    TweedieRegressor : For targets whose variance grows with any power of the mean.
    Ridge : Least squares, in one pass over the rows.

    References
    ----------
    P. McCullagh, J. A. Nelder, "Generalized linear models", 2nd edition (1989).

    Examples
    --------
    >>> from gpuml.linear_model import GammaRegressor
    >>> X, y = [[1, 2], [2, 3], [3, 4], [4, 3]], [19, 26, 33, 30]
    >>> model = GammaRegressor().fit(X, y)
    >>> model.predict([[1, 0], [2, 8]]).round(1)
    array([19.5, 35.8])
    >>> round(model.score(X, y), 2)
    0.77
    """

    power = 2
