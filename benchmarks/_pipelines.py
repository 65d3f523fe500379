"""What pipeline_search.py searches over: tasks, data, and the searches of all contenders."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import sklearn.decomposition
import sklearn.impute
import sklearn.linear_model
import sklearn.preprocessing
from _harness import needed_cupy, to_gpu
from _searches import ARRAY_API, N_SPLITS, Rival
from logistic_search import make_classes
from sklearn.model_selection import GridSearchCV as SklearnGridSearchCV
from sklearn.model_selection import KFold, ParameterGrid, StratifiedKFold
from sklearn.pipeline import make_pipeline

import gpuml.decomposition
import gpuml.linear_model
import gpuml.preprocessing
from gpuml.model_selection import GridSearchCV

SEED = 0
LATENT = 20
MISSING = 0.02
MAKE_ROWS = 250_000  # at a time: what they are made of is as large as they are


# ---------------------------------------------------------------- what is searched over


@dataclass(frozen=True)
class Task:
    """Names of the steps of the pipelines, what is searched, and how models are scored."""

    steps: tuple[str, ...]
    grid: Any
    scoring: str

    @property
    def splitter(self):
        return KFold(N_SPLITS) if self.scoring == "r2" else StratifiedKFold(N_SPLITS)

    def of_features(self, n_features):
        """The same without numbers of components that so few features do not have."""
        name = "pca__n_components"
        if name not in self.grid or not self.is_affine:
            return self
        fitting = [k for k in self.grid[name] if k <= n_features]
        return replace(self, grid={**self.grid, name: fitting})

    def part(self, n_candidates):
        """The same with so many of the candidates, evenly spread over the grid."""
        every = list(ParameterGrid(self.grid))
        if n_candidates is None or n_candidates >= len(every):
            return self
        chosen = np.linspace(0, len(every) - 1, n_candidates).round().astype(int)
        return replace(self, grid=[{k: [v] for k, v in every[i].items()} for i in chosen])

    @property
    def is_affine(self):
        """Whether all steps before the model are, so that everything follows from one pass."""
        return "PolynomialFeatures" not in self.steps

    @property
    def n_candidates(self):
        return len(ParameterGrid(self.grid))


def pca_ridge(before, components, n_alphas):
    alphas = np.logspace(-1, 3, n_alphas)
    grid = {"pca__n_components": components, "ridge__alpha": alphas}
    return Task((*before, "PCA", "Ridge"), grid, "r2")


SMALL_RIDGE = pca_ridge(("StandardScaler",), [10, 20, 50], 4)
LARGE_RIDGE = pca_ridge((), [5, 10, 20, 50, 100], 10)
# The first two steps are not affine: they are fitted once per fold, the others all at once.
SHARED_STEPS = pca_ridge(("SimpleImputer", "PolynomialFeatures", "StandardScaler"), [10, 20, 50], 4)
SCALED_LOGISTIC = Task(
    ("StandardScaler", "LogisticRegression"),
    {"logisticregression__C": np.logspace(-4, 4, 10)},
    "accuracy",
)


# ---------------------------------------------------------------- data


def low_rank(xp, n_rows, n_features, dtype):
    """Rows of few latent variables and noise, made where `xp` keeps its arrays, and a target.

    ``x = m + s * (z B + e)`` and ``y = z v + noise`` for 20 normal variables z, each with less
    weight in x than the one before: the more components are kept, the better y is known, and
    beyond 20 little is won. Features have means m, scales s and noise e of their own.
    """
    random, host_random = xp.random.default_rng(SEED), np.random.default_rng(SEED)
    strength = 3 * 0.9 ** np.arange(LATENT)
    loadings = strength[:, None] * host_random.standard_normal((LATENT, n_features))
    parameters = {
        "B": loadings / LATENT**0.5,
        "noise": np.linspace(0.3, 1.0, n_features),
        "m": 3 * host_random.standard_normal(n_features),
        "s": np.exp(0.5 * host_random.standard_normal(n_features)),
        "v": host_random.standard_normal(LATENT),
    }
    of = {name: xp.asarray(value, dtype=dtype) for name, value in parameters.items()}
    X, y = xp.empty((n_rows, n_features), dtype=dtype), xp.empty(n_rows, dtype=dtype)
    for start in range(0, n_rows, MAKE_ROWS):
        rows = slice(start, min(start + MAKE_ROWS, n_rows))
        size = rows.stop - start
        latent = random.standard_normal((size, LATENT), dtype=dtype)
        noise = random.standard_normal((size, n_features), dtype=dtype)
        X[rows] = of["m"] + of["s"] * (latent @ of["B"] + noise * of["noise"])
        y[rows] = latent @ of["v"] + 2 * random.standard_normal(size, dtype=dtype)
    return X, y


def with_gaps(xp, n_rows, n_features, dtype):
    """The same rows, some of whose values are missing."""
    X, y = low_rank(xp, n_rows, n_features, dtype)
    X[xp.random.default_rng(SEED).random(X.shape) < MISSING] = np.nan
    return X, y


def two_classes(xp, n_rows, n_features, dtype):
    """Those of logistic_search.py: features near unit scale, so that a scaler changes little."""
    return make_classes(xp, n_rows, n_features, 2, dtype)


# ---------------------------------------------------------------- contenders


def our_search(task, **options):
    modules = (gpuml.preprocessing, gpuml.decomposition, gpuml.linear_model)
    pipeline = make_pipeline(*(class_of(name, modules)() for name in task.steps))
    return GridSearchCV(pipeline, task.grid, cv=N_SPLITS, scoring=task.scoring, **options)


def search_without_steps(task):
    """The same search over the last step alone."""
    name = task.steps[-1]
    prefix = f"{name.lower()}__"
    grid = {key.removeprefix(prefix): v for key, v in task.grid.items() if key.startswith(prefix)}
    model = getattr(gpuml.linear_model, name)()
    return GridSearchCV(model, grid, cv=N_SPLITS, scoring=task.scoring)


def their_search(task, steps, n_jobs=None):
    # A rival that cannot do it should say why, not return a table of NaN.
    options = {"cv": N_SPLITS, "scoring": task.scoring, "error_score": "raise"}
    pipeline = make_pipeline(*steps(task.steps))
    return SklearnGridSearchCV(pipeline, task.grid, n_jobs=n_jobs, **options)


def sklearn_steps(names, ridge="cholesky", **logistic):
    """Steps with the solvers that suit many rows."""
    options = {"PCA": {"svd_solver": "covariance_eigh"}, "Ridge": {"solver": ridge}}
    options["LogisticRegression"] = logistic
    modules = (sklearn.impute, sklearn.preprocessing, sklearn.decomposition, sklearn.linear_model)
    return [class_of(name, modules)(**options.get(name, {})) for name in names]


def sklearn_steps_on_gpu(names):
    """With the only solver of Ridge that scikit-learn runs off NumPy."""
    needed_cupy()
    return sklearn_steps(names, ridge="svd")


def exact_sklearn_steps(names):
    return sklearn_steps(names, tol=1e-8, max_iter=10_000)


def cuml_steps(names):
    import cuml.decomposition
    import cuml.linear_model
    import cuml.preprocessing

    modules = (cuml.preprocessing, cuml.decomposition, cuml.linear_model)
    return [class_of(name, modules)() for name in names]


def class_of(name, modules):
    return next(getattr(module, name) for module in modules if hasattr(module, name))


RIVAL_NAMES = ("sklearn", "sklearn-one-process", "sklearn-array-api", "cuml", "cuml-array-api")


def rival_of(name, task):
    """A rival's search of a task, and where it takes its data from."""
    search = partial(their_search, task)
    return {
        "sklearn": Rival(partial(search, sklearn_steps, n_jobs=-1)),
        "sklearn-one-process": Rival(partial(search, sklearn_steps)),
        "sklearn-array-api": Rival(partial(search, sklearn_steps_on_gpu), to_gpu, ARRAY_API),
        "cuml": Rival(partial(search, cuml_steps)),
        "cuml-array-api": Rival(partial(search, cuml_steps), to_gpu, ARRAY_API),
    }[name]
