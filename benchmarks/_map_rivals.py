"""Rivals of the map: scikit-learn with all cores, and specialists where they are installed."""

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import numpy as np
from _map_cells import MODELS, SPLITTERS, TEN, Cell
from sklearn.model_selection import GridSearchCV

# A rival's tolerance goes down by tens until its objective is as good as gpuml's.
LEAST_TOL = 1e-10


class _Of:
    """Estimators by name from some modules, the first that has one; `tol` where they take it."""

    def __init__(self, *modules, tol=None):
        self._modules = [import_module(name) for name in modules]
        self._tol = tol

    def __getattr__(self, name):
        found = next(getattr(m, name) for m in self._modules if hasattr(m, name))
        if self._tol is None or not isinstance(found, type):
            return found

        def make(*args, **params):
            made = found(*args, **params)
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

    if cell.d > cell.n:
        return _Column(KernelRidgeCV(alphas=TEN, kernel="linear", cv=5, fit_intercept=True))
    return _Column(RidgeCV(alphas=TEN, cv=5, fit_intercept=True))


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


def objective(kind: str, fitted: Any, X: Any, y: np.ndarray) -> float | None:
    """What a fitted model minimises; None where solutions are exact, or it has other parameters."""
    model = getattr(fitted, "best_estimator_", fitted)
    if kind == "exact" or not hasattr(model, "coef_"):
        return None
    coef = np.asarray(model.coef_, dtype=float).ravel()
    margin = np.asarray(X @ coef).ravel() + float(np.ravel(model.intercept_)[0])
    if kind == "logistic":
        if not hasattr(model, "C"):
            return None
        sign = np.where(y > 0, 1.0, -1.0)
        return float(model.C * np.logaddexp(0.0, -sign * margin).sum() + 0.5 * coef @ coef)
    alpha, ratio = _penalties(model)
    if kind == "poisson":
        return float(np.mean(np.exp(margin) - y * margin) + 0.5 * alpha * coef @ coef)
    loss = 0.5 * np.mean((y - margin) ** 2)
    return float(loss + alpha * (ratio * np.abs(coef).sum() + 0.5 * (1 - ratio) * coef @ coef))


def _penalties(model):
    alpha = getattr(model, "alpha_", getattr(model, "alpha", None))
    ratio = getattr(model, "l1_ratio_", getattr(model, "l1_ratio", 1.0))
    return alpha, 1.0 if ratio is None or isinstance(ratio, list) else ratio


def penalty_of(kind: str, fitted: Any) -> dict[str, float] | None:
    """The hyper-parameters that an objective depends on."""
    model = getattr(fitted, "best_estimator_", fitted)
    if kind == "logistic":
        return {"C": model.C} if hasattr(model, "C") else None
    if kind == "poisson":
        return {"alpha": model.alpha}
    if kind == "l1":
        alpha, ratio = _penalties(model)
        return {"alpha": float(alpha), "l1_ratio": float(ratio)}
    return None
