"""Rivals of the map: scikit-learn with all cores, and specialists where they are installed."""

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import joblib
import numpy as np
from _map_cells import MODELS, SPLITTERS, TEN, Cell
from sklearn.model_selection import GridSearchCV

# A rival's tolerance goes down by tens until its objective is as good as gpuml's.
LEAST_TOL = 1e-10


class _Of:
    """Estimators by name from some modules, the first that has one; `tol` where they take it.

    `given` has parameters by name of the class, which replace or add to those asked for.
    """

    def __init__(self, *modules, tol=None, given=None):
        self._modules = [import_module(name) for name in modules]
        self._tol, self._given = tol, given or {}

    def __getattr__(self, name):
        found = next(getattr(m, name) for m in self._modules if hasattr(m, name))
        given = self._given.get(name)
        if not isinstance(found, type) or (self._tol is None and given is None):
            return found

        def make(*args, **params):
            made = found(*args, **(given(params) if given else params))
            if self._tol is None:
                return made
            if "tol" in made.get_params() and name not in ("Ridge", "RidgeClassifier", "PCA"):
                made.set_params(tol=self._tol, max_iter=100_000)
            return made

        return make


SCIKIT_LEARN = (
    *("sklearn.linear_model", "sklearn.decomposition", "sklearn.naive_bayes"),
    *("sklearn.preprocessing", "sklearn.pipeline", "sklearn.compose", "sklearn.impute"),
)
# Of a package's modules, which come before scikit-learn's, and the models that it has.
ESTIMATORS = {
    "sklearnex": (
        ("sklearnex.linear_model", "sklearnex.decomposition"),
        {"Ridge", "LogisticRegression", "Lasso", "ElasticNet", "one Ridge", "one PCA"}
        | {"one LogisticRegression", "one Lasso", "polynomial-scaler-Ridge", "scaler-PCA-Ridge"},
    ),
    "skglm": (("skglm",), {"Lasso", "ElasticNet", "one Lasso"}),
    "celer": (("celer",), {"Lasso", "ElasticNet", "one Lasso"}),
}

# Families of glum by model.
GLUM = {"LogisticRegression": "binomial", "PoissonRegressor": "poisson"}


def rivals_of(cell: Cell) -> Iterator[tuple[str, Callable[[float | None], Any]]]:
    """Names of rivals and functions ``make(tol)`` of what they fit."""
    model = MODELS[cell.model]

    def over(modules, n_jobs=None):
        def search(estimator, grid):
            cv = SPLITTERS[cell.splitter]()
            return GridSearchCV(estimator, grid, cv=cv, n_jobs=n_jobs)

        return lambda tol: model.make(_Of(*modules, *SCIKIT_LEARN, tol=tol), search)

    if model.is_search:
        yield "sklearn", over((), -1)
    yield "sklearn-one-process", over(())
    for name, (modules, models) in ESTIMATORS.items():
        if cell.model in models and not (cell.filled and name != "skglm"):
            yield name, _needing(name, lambda tol, m=modules: over(m)(tol))
    if cell.model == "LassoCV":
        yield "adelie", _needing("adelie", lambda tol: _Adelie(tol))
    if cell.model == "Ridge" and not cell.filled and cell.splitter == "K-fold":
        yield "himalaya", _needing("himalaya", lambda tol: _himalaya(cell))
    if cell.model in GLUM:
        yield "glum", _needing("glum", lambda tol: _glum(cell, tol))


# scikit-learn's solvers that run off NumPy.
ARRAY_API = {
    "Ridge": lambda params: params | {"solver": "svd"},
    "PCA": lambda params: params | {"svd_solver": "covariance_eigh"},
}
OFF_NUMPY = {"Ridge", "LogisticRegression", "GaussianNB", "one PCA", "one Ridge"} | {
    "one LogisticRegression",
    "scaler-PCA-Ridge",
}


def _cuml_logistic(params):
    """cuML's has one solver, and names the l1 penalty as scikit-learn did before 1.8."""
    others = {name: params[name] for name in params if name not in ("solver", "l1_ratio")}
    return others | ({"penalty": "l1"} if params.get("l1_ratio") else {})


CUML = (
    *("cuml.linear_model", "cuml.decomposition", "cuml.naive_bayes", "cuml.preprocessing"),
    "sklearn.pipeline",
)
# What has to be imported for a rival of each name, once per process.
PACKAGE = {
    "sklearn": "sklearn",
    "sklearn-one-process": "sklearn",
    "cuml-array-api": "cuml",
    "sklearn-array-api": "sklearn",
}


# Those whose searches start processes.
WITH_PROCESSES = {"sklearn", "glum"}


def start_processes(name: str) -> None:
    """Start them if they are not there, and have them import what they will need."""
    names = (*SCIKIT_LEARN, PACKAGE.get(name, name))
    some = 4 * joblib.cpu_count()  # so that each process gets one
    joblib.Parallel(n_jobs=-1)(joblib.delayed(_import_all)(names) for _ in range(some))


def _import_all(names):
    for name in names:
        import_module(name)


def rivals_on_gpu(cell: Cell) -> Iterator[tuple[str, Callable[[float | None], Any]]]:
    """The same for rows on a GPU, under scikit-learn's `array_api_dispatch`."""

    def over(modules, given):
        def search(estimator, grid):
            cv = SPLITTERS[cell.splitter]()
            return GridSearchCV(estimator, grid, cv=cv, error_score="raise")

        return lambda tol: MODELS[cell.model].make(_Of(*modules, tol=tol, given=given), search)

    if cell.model == "Ridge":
        yield "himalaya", lambda tol: _himalaya(cell)
    yield "cuml-array-api", lambda tol: over(CUML, {"LogisticRegression": _cuml_logistic})(tol)
    if cell.model in OFF_NUMPY:
        yield "sklearn-array-api", over(SCIKIT_LEARN, ARRAY_API)


def rival_of(cell: Cell, name: str, on_gpu: bool) -> Callable[[float | None], Any]:
    """The function ``make(tol)`` of a rival."""
    return dict((rivals_on_gpu if on_gpu else rivals_of)(cell))[name]


def _needing(package, make):
    """The function, which fails with the name of what is not installed."""

    def checked(tol):
        import_module(package)
        return make(tol)

    return checked


class _Adelie:
    """adelie's path of a hundred penalties on five folds, and the fit of the best."""

    def __init__(self, tol):
        self._tol = tol or 1e-7

    def fit(self, X, y):
        from adelie import glm, grpnet
        from adelie.cv import cv_grpnet

        X = np.asfortranarray(X)
        options = {"tol": self._tol, "progress_bar": False, "early_exit": False}
        found = cv_grpnet(
            X, glm.gaussian(y), n_folds=5, lmda_path_size=100, min_ratio=1e-3, **options
        )
        best = found.lmdas[found.best_idx]
        path = grpnet(
            X, glm.gaussian(y), lmda_path=[*found.lmdas[: found.best_idx], best], **options
        )
        self.coef_, self.alpha_ = path.betas.toarray()[-1], best
        self.intercept_ = float(path.intercepts[-1])
        return self


class _Column:
    """himalaya's searches take targets as columns."""

    def __init__(self, search):
        self._search = search

    def fit(self, X, y):
        self._search.fit(X, y[:, None])
        return self


def _himalaya(cell):
    from himalaya.kernel_ridge import KernelRidgeCV
    from himalaya.ridge import RidgeCV

    cv = SPLITTERS[cell.splitter]()
    if cell.d > cell.n:
        return _Column(KernelRidgeCV(alphas=TEN, kernel="linear", cv=cv, fit_intercept=True))
    return _Column(RidgeCV(alphas=TEN, cv=cv, fit_intercept=True))


def _glum(cell, tol):
    from glum import GeneralizedLinearRegressor

    # Its objective is the mean of the losses: for C of a logistic regression alpha is 1 / (C n).
    family = GLUM[cell.model]
    alphas = TEN if family == "poisson" else 1 / (TEN * (cell.n * 4 // 5))
    model = GeneralizedLinearRegressor(
        family=family, l1_ratio=0, gradient_tol=tol or 1e-4, max_iter=1000
    )
    return GridSearchCV(model, {"alpha": alphas}, cv=SPLITTERS[cell.splitter](), n_jobs=-1)


# ---------------------------------------------------------------- equal objectives


def objective(kind: str, fitted: Any, X: Any, y: Any) -> float | None:
    """What a fitted model minimises; None where solutions are exact, or it has other parameters."""
    model = getattr(fitted, "best_estimator_", fitted)
    if kind == "exact" or not hasattr(model, "coef_"):
        return None
    coef = _on_host(model.coef_)
    margin, y = _margins(model, coef, X), _on_host(y)
    if kind == "logistic":
        if not hasattr(model, "C"):
            return None
        ratio = _l1_ratio(model)
        penalty = ratio * np.abs(coef).sum() + 0.5 * (1 - ratio) * (coef * coef).sum()
        if margin.shape[1] == 1:
            loss = np.logaddexp(0.0, -np.where(y > 0, 1.0, -1.0) * margin[:, 0]).sum()
        else:
            own = margin[np.arange(len(y)), y.astype(np.intp)]
            loss = (np.logaddexp.reduce(margin, axis=1) - own).sum()
        return float(model.C * loss + penalty)
    margin, coef = margin[:, 0], coef.ravel()
    alpha, ratio = _penalties(model)
    if kind == "poisson":
        return float(np.mean(np.exp(margin) - y * margin) + 0.5 * alpha * coef @ coef)
    loss = 0.5 * np.mean((y - margin) ** 2)
    return float(loss + alpha * (ratio * np.abs(coef).sum() + 0.5 * (1 - ratio) * coef @ coef))


# Rows of an array on a GPU that are cast to float64 at a time.
CHUNK = 100_000


def _margins(model, coef, X):
    """Margins of all rows in float64, a column for each class, or one; in CPU memory."""
    W = np.atleast_2d(coef).T
    if hasattr(X, "get"):  # of CuPy
        there = X.device
        with there:
            xp = import_module("cupy")
            W = xp.asarray(W)
            parts = [X[i : i + CHUNK].astype(float) @ W for i in range(0, len(X), CHUNK)]
            product = xp.concatenate(parts).get()
    else:
        product = np.asarray(X @ W)
    return product + _on_host(model.intercept_).reshape(1, -1)


def _on_host(x):
    """An array of CuPy, cuML or NumPy as one of float64 in CPU memory."""
    for name in ("to_output", "get"):
        if hasattr(x, name):
            x = x.to_output("numpy") if name == "to_output" else x.get()
    return np.asarray(x, dtype=float)


def _l1_ratio(model):
    """Of a logistic regression of any library."""
    if getattr(model, "penalty", None) == "l1":
        return 1.0
    return float(getattr(model, "l1_ratio", None) or 0.0)


def _penalties(model):
    alpha = getattr(model, "alpha_", getattr(model, "alpha", None))
    ratio = getattr(model, "l1_ratio_", getattr(model, "l1_ratio", 1.0))
    return alpha, 1.0 if ratio is None or isinstance(ratio, list) else ratio


def penalty_of(kind: str, fitted: Any) -> dict[str, float] | None:
    """The hyper-parameters that an objective depends on."""
    model = getattr(fitted, "best_estimator_", fitted)
    if kind == "logistic":
        if not hasattr(model, "C"):
            return None
        ratio = _l1_ratio(model)
        return {"C": model.C} | ({"l1_ratio": ratio, "solver": "saga"} if ratio else {})
    if kind == "poisson":
        return {"alpha": model.alpha}
    if kind == "l1":
        alpha, ratio = _penalties(model)
        return {"alpha": float(alpha), "l1_ratio": float(ratio)}
    return None
