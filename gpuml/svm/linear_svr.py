"""Linear support vector regression on the device of its data."""

from sklearn import svm as sk

from gpuml.data import Folds
from gpuml.linear_model._base import LinearPredictor
from gpuml.linear_model._losses import Family
from gpuml.linear_model._models import RegressionModels
from gpuml.losses import Loss, squared_beyond
from gpuml.resampling.stand_ins import no_weight
from gpuml.solvers.margins import tube
from gpuml.svm._machines import LinearMachine, by_epsilon


class _Models(RegressionModels):
    """Models whose intercept has shape (1,), as in scikit-learn's class."""

    def pick(self, candidate, split):
        fitted = super().pick(candidate, split)
        if self.fit_intercept[candidate]:
            xp = self.folds.batch.home.xp
            fitted["intercept_"] = xp.reshape(xp.asarray(fitted["intercept_"]), (1,))
        return fitted


class LinearSVR(LinearPredictor, LinearMachine, sk.LinearSVR):
    r"""Linear support vector regression with an epsilon-insensitive loss.

    Minimises, over w of shape (n_features,) and b,

    .. math:: \frac{1}{2} \left( |w|^2 + (b / c)^2 \right)
              + C \sum_i s_i \, \max(0, |y_i - w \cdot x_i - b| - \epsilon)

    with weights s (1 by default) and c = `intercept_scaling`: as in liblinear, the intercept is
    penalised like the coefficient of a feature with the value c in every row. With
    ``loss="squared_epsilon_insensitive"`` the maximum is squared.

    The setting ``gpuml.set_config(device=...)`` chooses the device for NumPy, pandas, polars and
    lists; CuPy, torch and other device arrays stay on theirs. An interior-point method on the rows
    near the kinks minimises the first loss to its optimum, in float64; with fewer rows than
    features, linear systems in the space of the rows do. Quasi-Newton steps with the Hessian of the
    rows beyond epsilon minimise the squared loss.

    In a `gpuml.model_selection` search, all values of `C`, `epsilon`, `fit_intercept` and
    `intercept_scaling` are fitted on all splits together. With the squared loss, all models with
    the same epsilon share their passes over the rows.

    Parameters
    ----------
    epsilon : float >= 0, default=0.0
        Largest error without a loss, in units of y.
    tol : float, default=1e-4
        A model has converged if no component of the gradient of the objective, divided by C times
        the sum of s, exceeds `tol`. Only with ``loss="squared_epsilon_insensitive"``.
    C : float > 0, default=1.0
        Inverse strength of the penalty.
    loss : {"epsilon_insensitive", "squared_epsilon_insensitive"}, default="epsilon_insensitive"
        The loss of an error beyond epsilon: its size, or its square.
    fit_intercept : bool, default=True
        Whether to fit the intercept b; otherwise it is 0.
    intercept_scaling : float > 0, default=1.0
        The constant c. The larger it is, the weaker is the penalty on b.
    dual : "auto" or bool, default="auto"
        Has no effect, because both problems have the same optimum. ``dual=False`` with
        ``loss="epsilon_insensitive"`` is an error, as in scikit-learn, which has no solver for it.
    verbose : int, default=0
        Only for scikit-learn's solver.
    random_state : int, RandomState instance or None, default=None
        Only for scikit-learn's solver.
    max_iter : int, default=1000
        The most passes over all rows. Only with ``loss="squared_epsilon_insensitive"``.

    Attributes
    ----------
    coef_ : array of shape (n_features,)
        w, in the library, on the device and of the dtype of X.
    intercept_ : array of shape (1,), or 0.0
        b; 0.0 without an intercept.
    n_iter_ : int
        Number of passes over all rows, of interior-point steps or of linear systems.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    LinearSVC : Linear support vector classification.
    gpuml.linear_model.HuberRegressor : Squared loss for small errors, absolute for large ones.
    gpuml.linear_model.QuantileRegressor : Any quantile, with an l1 penalty.

    Notes
    -----
    For sparse X with ``loss="epsilon_insensitive"``, scikit-learn does the work, in CPU memory.

    References
    ----------
    C.-H. Ho, C.-J. Lin, "Large-scale linear support vector regression", JMLR 13 (2012).

    Examples
    --------
    >>> import numpy as np
    >>> from gpuml.svm import LinearSVR
    >>> X = np.arange(20.0)[:, None]
    >>> y = 3.0 * X[:, 0] + 1.0
    >>> y[5] = 1000.0
    >>> model = LinearSVR(C=100.0).fit(X, y)
    >>> model.coef_.round(2), model.intercept_.round(2)
    (array([3.]), array([1.]))
    """

    _numeric_strings = "fit"
    _kind = _Models
    multifit_params = ("C", "epsilon", "fit_intercept", "intercept_scaling")
    _fit_losses = staticmethod(by_epsilon)

    def _loss_of(self, y) -> tuple[Loss, int]:
        return squared_beyond(float(self.epsilon)), 1

    def _family(self, folds: Folds, epsilon: float = 0.0) -> Family:
        rarest = folds.batch.n_rows
        return Family(squared_beyond(epsilon), 1, rarest, no_weight(), vanishes=True)

    def _attributes(self, models, candidate, split):
        return {"n_iter_": int(models.iterations_of(candidate, split))}

    def _kinks(self, rows, weight, candidate):
        return [tube(rows.y, weight, float(candidate["epsilon"]))]
