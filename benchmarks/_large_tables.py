"""Tables of a million rows or ten: 20 columns of numbers with holes and 10 of categories.

In CPU memory it is a DataFrame of pandas, in GPU memory an array whose categories are numbers.
"""

from dataclasses import dataclass
from functools import lru_cache, partial
from importlib import import_module

import numpy as np
import sklearn.compose
import sklearn.impute
import sklearn.linear_model
import sklearn.preprocessing
from _harness import needed_cupy
from _searches import ARRAY_API, N_SPLITS, Rival
from sklearn.model_selection import GridSearchCV as SklearnGridSearchCV
from sklearn.model_selection import KFold
from sklearn.pipeline import Pipeline

import gpuml.compose
import gpuml.impute
import gpuml.linear_model
import gpuml.preprocessing
from gpuml.model_selection import GridSearchCV

SEED = 0
MILLION = 1_000_000
N_NUMBERS, HOLES = 20, 0.05
LEVELS = (3, 4, 6, 8, 12, 20, 30, 50, 100, 5_000)
GRID = {"model__C": np.logspace(-4, 1, 20).tolist()}
# scikit-learn and cuML fit one by one: on so many rows, and no longer than so many seconds each.
RIVAL_ROWS, RIVAL_SECONDS = 200_000, 75.0


@dataclass(frozen=True)
class Large:
    """Where rows are and are worked on, how categories are encoded, what gpuml should reach.

    `seconds` are for ten million rows on one H200, or four cores of a CPU.
    """

    on_device: bool
    device: str
    seconds: float
    rivals: tuple[str, ...]
    target_means: bool = False
    rows: int = 10 * MILLION
    repeats: int = 5


SCENARIOS = {
    "large-one-hot": Large(False, "cpu", 15.0, ("sklearn",), rows=MILLION),
    "device-one-hot": Large(True, "auto", 0.5, ("cuml-array-api",)),
    "host-one-hot": Large(False, "cuda", 2.0, ("sklearn",)),
    "large-target": Large(False, "cpu", 15.0, ("sklearn",), True, MILLION),
    "device-target": Large(True, "auto", 0.5, (), True, MILLION),
    "host-target": Large(False, "cuda", 2.0, ("sklearn",), True, MILLION),
}
GROUPS = {
    place: tuple(name for name in SCENARIOS if name.startswith(place))
    for place in ("large", "device", "host")
}


# ---------------------------------------------------------------- data


@lru_cache(maxsize=1)
def columns(n_rows):
    """Numbers (n, 20) float32 with holes, codes (n, 10), and two classes that depend on both."""
    random = np.random.default_rng(SEED)
    numbers = np.empty((N_NUMBERS, n_rows), dtype=np.float32)
    margin = np.zeros(n_rows, dtype=np.float32)
    for j, own in enumerate(numbers):
        random.standard_normal(out=own, dtype=np.float32)
        margin += np.float32(0.3 * random.standard_normal()) * own
        own[random.random(n_rows, dtype=np.float32) < HOLES] = np.nan
        own *= np.float32(10.0 ** (j % 3))
    codes = np.empty((len(LEVELS), n_rows), dtype=np.int16)
    for own, n_levels in zip(codes, LEVELS, strict=True):
        own[:] = n_levels * random.random(n_rows, dtype=np.float32) ** 2  # some are rare
        margin += (0.3 * random.standard_normal(n_levels)).astype(np.float32)[own]
    chances = 1 / (1 + np.exp(-margin))
    return numbers.T, codes.T, (random.random(n_rows, dtype=np.float32) < chances).astype(np.int8)


def rows_of(scenario, n_rows):
    """X and y where the scenario has them."""
    numbers, codes, y = columns(n_rows)
    if scenario.on_device:
        xp = needed_cupy()
        X = xp.empty((n_rows, N_NUMBERS + len(LEVELS)), dtype=xp.float32)
        X[:, :N_NUMBERS] = xp.asarray(numbers)
        X[:, N_NUMBERS:] = xp.asarray(codes)
        return X, xp.asarray(y)
    import pandas

    table = pandas.DataFrame(numbers, columns=names(N_NUMBERS, "number"), copy=False)
    for name, own, n_levels in zip(names(len(LEVELS), "level"), codes.T, LEVELS, strict=True):
        levels = [f"{name} {code:04d}" for code in range(n_levels)]
        table[name] = pandas.Categorical.from_codes(own, levels)
    return table, y


def names(n_columns, kind):
    return [f"{kind} {j}" for j in range(n_columns)]


def facts_of(scenario, X):
    """What a report says of the rows."""
    return {
        "rows": X.shape[0],
        "features": X.shape[1],
        "dtype": "float32",
        "library": type(X).__module__.partition(".")[0],
        "bytes": int(X.nbytes if scenario.on_device else X.memory_usage(deep=True).sum()),
        "levels": dict(zip(names(len(LEVELS), "level"), LEVELS, strict=True)),
        "holes": HOLES,
        "steps": ["ColumnTransformer", "LogisticRegression"],
        "grid": GRID,
        "splits": N_SPLITS,
        "scoring": "accuracy",
        "refit": True,
    }


# ---------------------------------------------------------------- searches


def pipeline(scenario, steps, model):
    """Steps for columns before a model; `steps` is an object with their classes."""
    numbers = Pipeline([("fill", steps.SimpleImputer()), ("scale", steps.StandardScaler())])
    encoder = steps.OneHotEncoder(handle_unknown="ignore")
    if scenario.target_means:
        # By chance, as by default, contenders would encode by other folds than each other.
        encoder = steps.TargetEncoder(cv=KFold(N_SPLITS))
    every = names(N_NUMBERS, "number"), names(len(LEVELS), "level")
    if scenario.on_device:
        every = [*range(N_NUMBERS)], [*range(N_NUMBERS, N_NUMBERS + len(LEVELS))]
    entries = [("numbers", numbers, every[0]), ("levels", encoder, every[1])]
    return Pipeline([("columns", steps.ColumnTransformer(entries)), ("model", model)])


class Steps:
    """Classes of a package by name."""

    def __init__(self, package):
        parts = ("compose", "impute", "preprocessing")
        found = [import_module(f"{package}.{part}") for part in parts if package != "cuml"]
        if package == "cuml":  # its imputers are among its preprocessing
            found = [import_module(f"cuml.{part}") for part in ("compose", "preprocessing")]
        self._modules = found

    def __getattr__(self, name):
        return next(getattr(own, name) for own in self._modules if hasattr(own, name))


def ours(scenario):
    steps = pipeline(scenario, Steps("gpuml"), gpuml.linear_model.LogisticRegression())
    return GridSearchCV(steps, GRID, cv=N_SPLITS, scoring="accuracy")


def in_sklearn(scenario):
    # 100 passes leave scikit-learn's lbfgs far from the minimum of weak penalties.
    model = sklearn.linear_model.LogisticRegression(max_iter=1000)
    return _theirs(pipeline(scenario, Steps("sklearn"), model), n_jobs=-1)


def in_cuml(scenario):
    from cuml.linear_model import LogisticRegression

    return _theirs(pipeline(scenario, Steps("cuml"), LogisticRegression()))


def _theirs(steps, n_jobs=None):
    # A rival that cannot do it should say why, not return a table of NaN.
    options = {"cv": N_SPLITS, "scoring": "accuracy", "error_score": "raise"}
    return SklearnGridSearchCV(steps, GRID, n_jobs=n_jobs, **options)


def rival_of(name, scenario):
    """A rival's search, from rows where the scenario has them."""
    if name == "sklearn":
        return Rival(partial(in_sklearn, scenario))
    return Rival(partial(in_cuml, scenario), config=ARRAY_API)
