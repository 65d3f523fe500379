"""Standard errors, tests and confidence intervals of the coefficients of fitted models."""

import warnings
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri, stdtr, stdtrit
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from gpuml._arrays import Array, as_array, is_array, move, namespace, place_of, to_host
from gpuml._arrays.labels import encode
from gpuml._inputs.nulls import is_missing
from gpuml.data import Batch
from gpuml.designs import Dense, Design
from gpuml.inspection._likelihoods import LEAST_SQUARES, LOGISTIC, Likelihood, likelihood_of
from gpuml.inspection._summary import Summary
from gpuml.linear_model import (
    GammaRegressor,
    LinearRegression,
    LogisticRegression,
    PoissonRegressor,
    Ridge,
    TweedieRegressor,
)
from gpuml.metrics import d2_log_loss_score, d2_tweedie_score
from gpuml.solvers.sandwich import Information, clustered, margins, robust
from gpuml.solvers.sparse_rows import SparseBatch

COVARIANCES = ("classical", "HC0", "HC1", "HC2", "HC3", "clustered")
# How far from the optimum, in standard errors, coefficients may be without a word.
FAR = 0.05


def summarize(
    model: Any,
    X: Any,
    y: Any,
    *,
    covariance: str = "classical",
    groups: Any = None,
    sample_weight: Any = None,
    weights: str = "frequency",
    scale: Any = None,
    level: float = 0.95,
) -> Summary:
    r"""Standard errors, tests and confidence intervals of a fitted model without a penalty.

    A row :math:`x_i` (with a 1 for the intercept) of weight :math:`s_i` has a score :math:`u_i`,
    the derivative of its log-likelihood by :math:`w \cdot x_i`, and an expected curvature
    :math:`c_i` (1 for least squares, :math:`\mu_i (1 - \mu_i)` for logistic regression). With
    :math:`A = \sum_i s_i c_i x_i x_i'` and the scale :math:`\phi`, the covariance of the
    coefficients is

    .. math:: \phi A^{-1}, \quad\text{or}\quad
              A^{-1} \left( \sum_i s_i m_i u_i^2 x_i x_i' \right) A^{-1}

    where :math:`m_i` = 1 (HC0), n / (n - q) (HC1), 1 / (1 - h_i) (HC2), 1 / (1 - h_i)^2 (HC3), for
    n rows, q coefficients and leverages h. "clustered" uses the squares of the sums of
    :math:`u_i x_i` over each of G groups, times :math:`\frac{G}{G - 1} \frac{n - 1}{n - q}`. The
    rows are read on their device, twice, or three times for HC2 and HC3.

    Parameters
    ----------
    model : fitted estimator
        A model of `gpuml.linear_model`: `LinearRegression`, `Ridge` with ``alpha=0``,
        `LogisticRegression` of two classes with ``C=np.inf``, or `PoissonRegressor`,
        `GammaRegressor` or `TweedieRegressor` with ``alpha=0``.
    X : array-like or sparse matrix of shape (n_samples, n_features)
        The rows of the fit. CuPy and torch arrays stay on their device.
    y : array-like of shape (n_samples,)
        The targets of the fit.
    covariance : {"classical", "HC0", "HC1", "HC2", "HC3", "clustered"}, default="classical"
        "classical" is valid if the variances are those of the model; HC0 to HC3 also if they are
        not; "clustered" also if rows of a group depend on each other.
    groups : array-like of shape (n_samples,), default=None
        Group of each row; only with ``covariance="clustered"``.
    sample_weight : array-like of shape (n_samples,), default=None
        The weights of the fit.
    weights : {"frequency", "precision"}, default="frequency"
        The meaning of weights. A row of frequency 2 is two equal rows, and n is the sum of the
        weights; a row of precision 2 is one row with half the variance.
    scale : float or "pearson", default=None
        The scale of the variance. None estimates it as Pearson's chi2 / (n - q), except for counts
        and classes, where it is 1; "pearson" estimates it for these, too (quasi-Poisson).
    level : float in (0, 1), default=0.95
        Confidence level: the probability that an interval contains the coefficient.

    Returns
    -------
    summary : Summary
        NumPy arrays in CPU memory, readable as text and HTML.

    Raises
    ------
    ValueError
        For a penalised model, because its coefficients are biased and these are not their errors;
        for models of several targets or more than two classes, collinear features, separated
        classes, no more rows than coefficients, and X and y that the estimator rejects.
    TypeError
        For other estimators.
    sklearn.exceptions.NotFittedError
        If the model is not fitted.

    Warns
    -----
    ConvergenceWarning
        If coefficients are more than 0.05 standard errors from the optimum for these rows: the
        `tol` of the fit was too large, or these are not the rows of the fit.

    Notes
    -----
    For least squares, tests and intervals use t distributions with n - q degrees of freedom (G - 1
    with groups), and for other models normal ones. The information is the expected one (as in R's
    ``glm``). Intervals are valid for a model that was chosen without y; after a selection of
    features they are too narrow.

    References
    ----------
    P. McCullagh, J. A. Nelder, "Generalized linear models", 2nd edition (1989), chapters 2 and 12.
    J. G. MacKinnon, H. White, Journal of Econometrics 29 (1985). K.-Y. Liang, S. L. Zeger,
    Biometrika 73 (1986).

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from gpuml.inspection import summarize
    >>> from gpuml.linear_model import LinearRegression
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> X = X[["bmi", "bp"]]
    >>> found = summarize(LinearRegression().fit(X, y), X, y, covariance="HC3")
    >>> found.names, found.std_error.round(1)
    (('bmi', 'bp', 'intercept'), array([67.1, 69. ,  2.9]))
    >>> found.interval[0].round()
    array([659., 922.])
    """
    _check_options(covariance, groups, weights, scale, level)
    fitted = _Fitted.of(model, X, y, sample_weight, repeated=weights == "frequency")
    phi = fitted.scale(scale)
    _warn_if_far(fitted, phi)
    centred, n_groups = _covariance(fitted, covariance, groups, phi)
    cov = fitted.known.to_features(centred)
    error = np.sqrt(np.diag(cov))
    with np.errstate(divide="ignore", invalid="ignore"):
        statistic = fitted.coef / error
    df_test = float(n_groups - 1 if n_groups else fitted.df)
    df_test = df_test if fitted.likelihood.is_least_squares else np.inf
    p_value, quantile = _tests(statistic, df_test, level)
    log_likelihood, n_coef = fitted.log_likelihood(phi), len(fitted.coef)
    return Summary(
        names=fitted.names,
        coef=fitted.coef,
        std_error=error,
        statistic=statistic,
        p_value=p_value,
        interval=fitted.coef[:, None] + quantile * error[:, None] * np.array([-1.0, 1.0]),
        covariance=cov,
        kind=covariance,
        level=float(level),
        n_rows=fitted.n_rows,
        df=fitted.df,
        df_test=df_test,
        n_groups=n_groups,
        scale=phi,
        log_likelihood=log_likelihood,
        aic=2.0 * n_coef - 2.0 * log_likelihood,
        bic=float(np.log(fitted.n_rows)) * n_coef - 2.0 * log_likelihood,
        r2=fitted.explained(),
        model=type(model).__name__,
    )


@dataclass(frozen=True)
class _Fitted:
    """A model and its rows, for the uncertainty of its coefficients.

    Arrays of rows (n,) are float64 where work is done; `coef` (q,), with the intercept last, is in
    CPU memory.
    """

    likelihood: Likelihood
    names: tuple[str, ...]
    coef: np.ndarray
    y: Array
    weight: Array
    margin: Array
    mean: Array
    score: Array
    known: Information
    repeated: bool
    n_rows: float

    @classmethod
    def of(cls, model: Any, X: Any, y: Any, sample_weight: Any, *, repeated: bool) -> "_Fitted":
        """Read the rows; raise ValueError if they do not determine the coefficients."""
        check_is_fitted(model)
        likelihood = _likelihood(model)
        fresh = clone(model)
        batch = fresh.multifit_batch(X, y, sample_weight)
        names = _names(model, fresh, batch)
        design, y, weight = _rows(batch)
        xp = design.place.xp
        coef, level = (
            np.ravel(to_host(as_array(a)) if is_array(a) else a).astype(np.float64)
            for a in (model.coef_, model.intercept_)
        )
        z = margins(design, coef, float(level[0]))
        if likelihood is LOGISTIC:
            _check_separated(z, y, weight, xp)
        score, curvature = likelihood.score(y, z, xp)
        known = Information(design, bool(model.fit_intercept), weight * curvature)
        coef = np.append(coef, level) if known.intercept else coef
        n_rows = float(xp.sum(weight if repeated else xp.astype(weight > 0, xp.float64)))
        _check_determined(known, names, n_rows)
        mean = likelihood.mean(z, xp)
        return cls(likelihood, names, coef, y, weight, z, mean, score, known, repeated, n_rows)

    @property
    def df(self) -> float:
        """Degrees of freedom of the residuals."""
        return self.n_rows - len(self.coef)

    def scale(self, asked: Any) -> float:
        """The scale of the variance."""
        if asked != "pearson" and asked is not None:
            return float(asked)
        if asked is None and not self.likelihood.has_scale:
            return 1.0
        squares = self.weight * (self.y - self.mean) ** 2 / self.likelihood.variance(self.mean)
        return float(namespace(squares).sum(squares)) / self.df

    def log_likelihood(self, phi: float) -> float:
        """Of all rows; least squares takes the variance of largest likelihood, as is usual."""
        xp, weight = namespace(self.y), self.weight
        scale: Any = phi
        if self.likelihood.is_least_squares:
            scale = float(xp.sum(weight * (self.y - self.margin) ** 2)) / self.n_rows
            if scale == 0:
                return np.inf
        there, times = weight > 0, weight
        if not self.repeated and self.likelihood.has_scale:
            times = xp.astype(there, xp.float64)
            scale = scale / xp.where(there, weight, xp.ones_like(weight))
        each = self.likelihood.log_likelihood(self.y, self.margin, scale, xp)
        if each is None:
            return np.nan
        return float(xp.sum(xp.where(there, times * each, xp.zeros_like(each))))

    def explained(self) -> float:
        """Share of the deviance that is explained."""
        power = self.likelihood.power
        if power is None:
            return float(d2_log_loss_score(self.y, self.mean, sample_weight=self.weight))
        return float(d2_tweedie_score(self.y, self.mean, sample_weight=self.weight, power=power))


def _covariance(fitted: _Fitted, kind: str, groups: Any, phi: float) -> tuple[np.ndarray, int]:
    """The covariance (q, q) of coefficients of centred features, and the number of groups."""
    known, n, df = fitted.known, fitted.n_rows, fitted.df
    if kind == "classical":
        return phi * known.inverse, 0
    if kind == "clustered":
        codes, n_codes, n_groups = _codes(groups, fitted.weight)
        found = clustered(known, fitted.score, fitted.weight, codes, n_codes)
        return found * (n_groups / (n_groups - 1) * (n - 1) / df), n_groups
    found = robust(known, fitted.score, fitted.weight, kind, repeated=fitted.repeated)
    return found * (n / df if kind == "HC1" else 1.0), 0


def _tests(statistic: np.ndarray, df: float, level: float) -> tuple[np.ndarray, float]:
    """Probabilities of larger quotients, and the quantile of intervals."""
    tail, middle = -np.abs(statistic), 0.5 + level / 2
    if np.isinf(df):
        return 2 * ndtr(tail), float(ndtri(middle))
    return 2 * stdtr(df, tail), float(stdtrit(df, middle))


# ---------------------------------------------------------------- what is asked, and of what


def _check_options(covariance, groups, weights, scale, level):
    if covariance not in COVARIANCES:
        raise ValueError(f"covariance must be one of {COVARIANCES}, got {covariance!r}.")
    if (groups is None) == (covariance == "clustered"):
        raise ValueError(
            'groups and covariance="clustered" need each other: pass both, or neither of them.'
        )
    if weights not in ("frequency", "precision"):
        raise ValueError(f'weights must be "frequency" or "precision", got {weights!r}.')
    is_number = isinstance(scale, Real) and 0 < float(scale) < np.inf
    if not (scale is None or scale == "pearson" or is_number):
        raise ValueError(f'scale must be None, "pearson" or a number above 0, got {scale!r}.')
    if not 0 < level < 1:
        raise ValueError(f"level must be between 0 and 1, got {level!r}.")


def _likelihood(model: Any) -> Likelihood:
    """The distribution that a model is fitted to by maximum likelihood."""
    name = type(model).__name__
    if getattr(model, "positive", False):
        raise ValueError(
            f"{name} has positive=True: a coefficient on its bound has no such standard error. Fit "
            "with positive=False."
        )
    if isinstance(model, LogisticRegression):
        if not (model.penalty is None or np.isinf(model.C)):
            raise _penalised(name, f"C={model.C:g}", "C=np.inf")
        if model.class_weight is not None:
            raise ValueError(
                f"{name} has class_weight={model.class_weight!r}: standard errors would need "
                "the weights of single rows. Fit without it, or pass sample_weight."
            )
        n_classes = as_array(model.classes_).shape[0]
        if n_classes > 2:
            raise ValueError(
                f"{name} has {n_classes} classes: a constant may be added to the "
                "coefficients of all of them, so that they have no standard errors. Fit two "
                "classes at a time."
            )
        return LOGISTIC
    if isinstance(model, LinearRegression):
        return LEAST_SQUARES
    if isinstance(model, Ridge | PoissonRegressor | GammaRegressor | TweedieRegressor):
        if np.any(to_host(as_array(model.alpha)) if is_array(model.alpha) else model.alpha):
            raise _penalised(name, f"alpha={model.alpha}", "alpha=0")
        if isinstance(model, Ridge):
            return LEAST_SQUARES
        return likelihood_of(model.power, "log" if model.loss.name == "poisson" else _link(model))
    raise TypeError(
        f"summarize takes LinearRegression, Ridge, LogisticRegression, PoissonRegressor, "
        f"GammaRegressor and TweedieRegressor of gpuml.linear_model without a penalty, got {name}."
    )


def _link(model):
    return model.loss.name.rpartition("_")[2]


def _penalised(name, has, use):
    return ValueError(
        f"{name} has {has}: penalised coefficients are biased towards 0, and standard errors of "
        f"maximum likelihood are not theirs. Fit with {use}, or repeat the fit on resampled rows."
    )


def _names(model, fresh, batch) -> tuple[str, ...]:
    """Names of the coefficients; the rows are checked to be of the model."""
    n_features = model.n_features_in_
    if fresh.n_features_in_ != n_features:
        raise ValueError(
            f"X has {fresh.n_features_in_} features, but {type(model).__name__} is expecting "
            f"{n_features} features as input."
        )
    names = getattr(model, "feature_names_in_", None)
    given = getattr(fresh, "feature_names_in_", None)
    if names is not None and given is not None and list(names) != list(given):
        raise ValueError("The columns of X have other names than in the fit, or another order.")
    if batch.classes is not None and list(batch.labels) != list(to_host(as_array(model.classes_))):
        raise ValueError("The labels in y differ from those of the fit.")
    if isinstance(batch, SparseBatch) and batch.n_features < n_features:
        raise ValueError(
            "Columns of X have no entries: their coefficients are not determined. Fit without them."
        )
    if batch.y.shape[1] > 1:
        raise ValueError(
            f"The model has {batch.y.shape[1]} targets; summarize takes one. Fit each by itself."
        )
    found = [f"x{j}" for j in range(n_features)] if names is None else [str(name) for name in names]
    return (*found, "intercept") if model.fit_intercept else tuple(found)


def _rows(batch: Batch) -> tuple[Design, Array, Array]:
    """The design, and targets and weights (n,) in float64, where work is done."""
    place = batch.work
    xp = place.xp
    design = batch.design() if isinstance(batch, SparseBatch) else Dense(batch.X, place)
    y = batch.y[:, 0] if batch.codes is None else batch.codes
    y = xp.astype(move(y, place), xp.float64)
    if batch.weight is None:
        return design, y, xp.ones_like(y)
    return design, y, xp.astype(move(batch.weight, place), xp.float64)


def _codes(groups: Any, weight: Array) -> tuple[Array, int, int]:
    """Groups as codes (n,) beside weights, how many they are, and how many have any weight."""
    place, n_rows = place_of(weight), weight.shape[0]
    groups = as_array(groups)
    groups = groups if is_array(groups) else np.asarray(groups)
    if tuple(groups.shape) != (n_rows,):
        raise ValueError(f"groups has shape {tuple(groups.shape)}, expected ({n_rows},).")
    host = to_host(groups)
    if host.dtype.kind in ("f", "O") and any(map(is_missing, host.tolist())):
        raise ValueError("groups has missing values: drop these rows, or give each a group.")
    found, xp = encode(groups), place.xp
    codes = xp.astype(move(found.codes, place), xp.int64)
    n_groups = xp.unique_values(codes[weight > 0]).shape[0]
    if n_groups < 2:
        raise ValueError("All rows are of one group: clustered errors need two groups at least.")
    return codes, found.n_classes, n_groups


def _check_separated(z, y, weight, xp):
    wrong = xp.astype((z > 0) != (y > 0.5), xp.float64)
    if float(xp.sum(weight * wrong)) == 0:
        raise ValueError(
            "The features separate the classes: the likelihood has no maximum, coefficients grow "
            "for as long as the fit goes on, and have no standard errors. Use a penalty."
        )


def _check_determined(known, names, n_rows):
    if n_rows <= len(names):
        raise ValueError(
            f"{n_rows:g} rows leave no degrees of freedom beside {len(names)} coefficients. Pass "
            "more rows, or fewer features."
        )
    at_fault = known.unidentified()
    if len(at_fault):
        some = ", ".join(names[j] for j in at_fault[:10])
        raise ValueError(
            "Coefficients are not determined: these are constant or nearly linear combinations of "
            f"each other: {some}. Leave some of them out, or use fit_intercept=False where columns "
            "add up to a constant."
        )


def _warn_if_far(fitted: _Fitted, phi: float) -> None:
    """Warn if a Newton step would change coefficients by much of a standard error."""
    known = fitted.known
    step = np.abs(known.inverse @ known.sums(fitted.weight * fitted.score)[0])
    error = np.sqrt(phi * np.diag(known.inverse))
    # What coefficients are rounded to: models of float32 rows have 7 digits.
    rounding = 1e-6 * np.abs(fitted.coef).max()
    far = step > np.maximum(FAR * error, rounding)
    if far.any():
        worst = np.max(step[far] / np.maximum(error[far], np.finfo(float).tiny))
        warnings.warn(
            f"Coefficients are up to {worst:.2g} standard errors from the optimum for these rows. "
            "Fit with a smaller tol, and pass the X, y and sample_weight of the fit.",
            ConvergenceWarning,
            stacklevel=3,
        )
