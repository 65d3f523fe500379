"""Cells of the map: what is fitted, on rows of which shape, in which splits."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn import model_selection as splitters

from gpuml import linear_model as ours
from gpuml.compose import ColumnTransformer
from gpuml.decomposition import PCA
from gpuml.impute import SimpleImputer
from gpuml.model_selection import GridSearchCV
from gpuml.naive_bayes import GaussianNB, MultinomialNB
from gpuml.pipeline import Pipeline, make_pipeline
from gpuml.preprocessing import OneHotEncoder, PolynomialFeatures, StandardScaler

SEED = 0
FEWEST_ROWS = 100
TEN = np.logspace(-3, 3, 10)
SPLITTERS = {
    "K-fold": lambda: 5,
    "shuffled": lambda: splitters.KFold(5, shuffle=True, random_state=SEED),
    "repeated": lambda: splitters.RepeatedKFold(n_splits=5, n_repeats=10, random_state=SEED),
    "shuffle split": lambda: splitters.ShuffleSplit(20, random_state=SEED),
    "time series": lambda: splitters.TimeSeriesSplit(5),
    "group": lambda: splitters.GroupKFold(5),
    "leave one out": splitters.LeaveOneOut,
}


@dataclass(frozen=True)
class Cell:
    """One thing to fit on rows of one shape."""

    model: str
    n: int
    d: int
    splitter: str = "K-fold"
    dtype: str = "float64"
    filled: float | None = None
    classes: int = 2

    @property
    def name(self) -> str:
        """Model and what is unusual of it; with the shape it names the cell."""
        unusual = [self.splitter] if self.splitter != "K-fold" else []
        unusual += ["sparse"] if self.filled else []
        unusual += [f"{self.classes} classes"] if self.classes > 2 else []
        return ", ".join([self.model, *unusual])

    @property
    def n_bytes(self) -> int:
        """Of the rows; of sparse ones, of what is stored."""
        size = np.dtype(self.dtype).itemsize
        return int(self.n * self.d * (size if not self.filled else (size + 4) * self.filled))

    @property
    def key(self) -> str:
        """The whole cell in a line."""
        return f"{self.name}, {self.n:,} x {self.d:,} {self.dtype}"


@dataclass(frozen=True)
class Model:
    """How to make what is fitted.

    `make(estimators, search)` makes it from a namespace of estimators and a function
    ``search(estimator, grid)``. `target` is "numbers", "counts" (which grow with the features),
    "classes", "counted classes" (features that are counts) or None; `kind` tells
    which objective is compared, `grid_size` how many candidates there are.
    """

    make: Callable[[Any, Callable[..., Any]], Any]
    target: str | None
    grid_size: int
    kind: str = "exact"
    is_search: bool = True


def _search(name, grid, **params):
    return lambda e, search: search(getattr(e, name)(**params), grid)


def _polynomial(e, search):
    steps = e.PolynomialFeatures(2, include_bias=False), e.StandardScaler(), e.Ridge()
    return search(e.make_pipeline(*steps), {"ridge__alpha": TEN})


def _components(e, search):
    grid = {"pca__n_components": [5, 10, 20], "ridge__alpha": TEN[::3]}
    return search(e.make_pipeline(e.StandardScaler(), e.PCA(), e.Ridge()), grid)


# Numbers with holes, and levels of categories of a table.
N_NUMBERS, N_LEVELS = 7, (16, 8, 105)


def _table(model, grid):
    def make(e, search):
        names = [f"number {j}" for j in range(N_NUMBERS)]
        kinds = [f"kind {j}" for j in range(len(N_LEVELS))]
        numbers = e.make_pipeline(e.SimpleImputer(), e.StandardScaler())
        levels = e.OneHotEncoder(handle_unknown="ignore")
        columns = e.ColumnTransformer([("numbers", numbers, names), ("levels", levels, kinds)])
        return search(e.Pipeline([("columns", columns), ("model", getattr(e, model)())]), grid)

    return make


PENALTIES = {"alpha": np.logspace(-2, 0, 8)}
MODELS = {
    "Ridge": Model(_search("Ridge", {"alpha": TEN}), "numbers", 10),
    "LogisticRegression": Model(
        _search("LogisticRegression", {"C": TEN}), "classes", 10, "logistic"
    ),
    "l1 LogisticRegression": Model(
        _search("LogisticRegression", {"C": TEN}, solver="saga", l1_ratio=1.0),
        "classes",
        10,
        "logistic",
    ),
    "PoissonRegressor": Model(_search("PoissonRegressor", {"alpha": TEN}), "counts", 10, "poisson"),
    "Lasso": Model(_search("Lasso", PENALTIES), "numbers", 8, "l1"),
    "ElasticNet": Model(
        _search("ElasticNet", PENALTIES | {"l1_ratio": [0.5, 0.9]}), "numbers", 16, "l1"
    ),
    "LassoCV": Model(lambda e, _: e.LassoCV(cv=5), "numbers", 100, "l1"),
    "ElasticNetCV": Model(
        lambda e, _: e.ElasticNetCV(l1_ratio=[0.2, 0.5, 0.9], cv=5), "numbers", 300, "l1"
    ),
    "RidgeCV": Model(lambda e, _: e.RidgeCV(alphas=TEN), "numbers", 10),
    "RidgeClassifier": Model(_search("RidgeClassifier", {"alpha": TEN}), "classes", 10),
    "GaussianNB": Model(
        _search("GaussianNB", {"var_smoothing": np.logspace(-9, -1, 10)}), "classes", 10
    ),
    "MultinomialNB": Model(
        _search("MultinomialNB", {"alpha": np.logspace(-2, 1, 10)}), "counted classes", 10
    ),
    "table-Ridge": Model(_table("Ridge", {"model__alpha": TEN}), "table of numbers", 10),
    "table-LogisticRegression": Model(
        _table("LogisticRegression", {"model__C": TEN[2:8]}), "table of classes", 6
    ),
    "polynomial-scaler-Ridge": Model(_polynomial, "numbers", 10),
    "scaler-PCA-Ridge": Model(_components, "numbers", 12),
    "one Ridge": Model(lambda e, _: e.Ridge(), "numbers", 1, is_search=False),
    "one LogisticRegression": Model(
        lambda e, _: e.LogisticRegression(), "classes", 1, "logistic", is_search=False
    ),
    "one Lasso": Model(lambda e, _: e.Lasso(alpha=0.1), "numbers", 1, "l1", is_search=False),
    "one PCA": Model(lambda e, _: e.PCA(n_components=10), None, 1, is_search=False),
}

_SMALL, _LONG, _WIDE = (300, 10), (100_000, 50), (500, 2_000)
SHAPES = {
    "Ridge": (_SMALL, (2_000, 100), (5_000, 800), _LONG, (1_000_000, 20), _WIDE, (200, 20_000)),
    "LogisticRegression": (_SMALL, (2_000, 100), (5_000, 800), _LONG, (300, 2_000)),
    "PoissonRegressor": (_SMALL, (5_000, 20), _LONG),
    "Lasso": (_SMALL, (2_000, 100), (20_000, 300), (300, 2_000)),
    "ElasticNet": (_SMALL, (2_000, 100), (300, 2_000)),
    "LassoCV": (_SMALL, (5_000, 100), (300, 2_000), (500, 5_000)),
    "ElasticNetCV": (_SMALL, (5_000, 100), (300, 2_000)),
    "RidgeCV": (_SMALL, (5_000, 100), (500, 3_000)),
    "RidgeClassifier": (_SMALL, (20_000, 100), _WIDE),
    "GaussianNB": (_SMALL, (50_000, 50)),
    "MultinomialNB": (_SMALL, (20_000, 200)),
    "table-Ridge": ((1_000, 10), (58_000, 10)),
    "table-LogisticRegression": ((1_000, 10), (58_000, 10)),
    "polynomial-scaler-Ridge": ((8_000, 30),),
    "scaler-PCA-Ridge": ((20_000, 100),),
    "one Ridge": (_SMALL, (2_000, 50), _LONG, _WIDE),
    "one LogisticRegression": (_SMALL, (2_000, 50), _LONG, (300, 2_000)),
    "one Lasso": (_SMALL, _LONG, _WIDE),
    "one PCA": (_SMALL, (100_000, 100), _WIDE),
}


def cells(scale: float = 1.0) -> list[Cell]:
    """All of them: shapes of each model, then what is unusual, one thing at a time."""
    if scale != 1.0:
        return [replace(cell, n=max(FEWEST_ROWS, int(scale * cell.n))) for cell in cells()]
    found = [Cell(model, *shape) for model, shapes in SHAPES.items() for shape in shapes]
    for model in ("Ridge", "LogisticRegression"):
        base = Cell(model, 20_000, 50)
        found += [replace(base, splitter=s) for s in SPLITTERS if s != "leave one out"]
        found += [replace(base, dtype="float32"), Cell(model, 100, 10, "leave one out")]
        found += [Cell(model, 20_000, 20_000, filled=0.002)]
    found += [replace(Cell("one PCA", 100_000, 100), dtype="float32")]
    found += [Cell("MultinomialNB", 20_000, 20_000, filled=0.002)]
    return list(dict.fromkeys(found))


# On a GPU, the most important first, for a run may end before the last.
ON_GPU = (
    Cell("Ridge", 20_000, 5_000, dtype="float32"),
    Cell("Ridge", 1_000_000, 100, dtype="float32"),
    Cell("Ridge", 50_000, 1_000, dtype="float32"),
    Cell("LogisticRegression", 1_000_000, 100, dtype="float32"),
    Cell("LogisticRegression", 1_000_000, 100, dtype="float32", classes=10),
    Cell("one PCA", 1_000_000, 500, dtype="float32"),
    Cell("LogisticRegression", 100_000, 100, dtype="float32"),
    Cell("Ridge", 2_000, 20_000, dtype="float32"),
    Cell("Ridge", 353, 10),
    Cell("Ridge", 1_000, 100),
    Cell("Ridge", 1_000_000, 100, "repeated", "float32"),
    Cell("Ridge", 1_000_000, 100, "shuffle split", "float32"),
    Cell("Ridge", 7_000_000, 100, dtype="float32"),
    Cell("scaler-PCA-Ridge", 200_000, 100, dtype="float32"),
    Cell("l1 LogisticRegression", 1_000_000, 100, dtype="float32"),
    Cell("Lasso", 100_000, 100, dtype="float32"),
    Cell("LogisticRegression", 500_000, 50, dtype="float32", classes=100),
    Cell("Ridge", 20_000, 3_000, dtype="float32"),
    Cell("Ridge", 1_000_000, 100),
    Cell("LogisticRegression", 1_000_000, 100),
    Cell("LogisticRegression", 1_000_000, 100, "shuffle split", "float32"),
    Cell("one LogisticRegression", 1_000_000, 100, dtype="float32"),
    Cell("one Ridge", 1_000_000, 100, dtype="float32"),
    Cell("one Lasso", 1_000_000, 100, dtype="float32"),
    Cell("Lasso", 300, 2_000),
    Cell("ElasticNet", 100_000, 100, dtype="float32"),
    Cell("GaussianNB", 1_000_000, 50, dtype="float32"),
    Cell("one PCA", 100_000, 100),
)


def cells_on_gpu(scale: float = 1.0) -> list[Cell]:
    """Those whose rows are in GPU memory."""
    if scale == 1.0:
        return list(ON_GPU)
    return [replace(cell, n=max(FEWEST_ROWS, int(scale * cell.n))) for cell in ON_GPU]


# ---------------------------------------------------------------- rows


def rows_made_on(xp: Any, cell: Cell) -> tuple[Any, Any]:
    """X and y of dense cells, made by CuPy (or whatever has its `random`) where its memory is."""
    random = xp.random.default_rng(SEED)
    kind = np.dtype(cell.dtype).type
    X = random.standard_normal((cell.n, cell.d), dtype=kind)
    # Few and small: from the CPU, so that they are the same with any library.
    few = np.random.default_rng(SEED)
    kinds = cell.classes if cell.classes > 2 else 1
    slopes = few.standard_normal((cell.d, kinds))
    slopes *= few.random((cell.d, 1)) < max(0.1, 10 / cell.d)
    signal = X @ xp.asarray(slopes, dtype=cell.dtype)
    signal = (signal - signal.mean(axis=0)) / signal.std(axis=0)
    noisy = signal + random.standard_normal(signal.shape, dtype=kind)
    target = MODELS[cell.model].target
    if target is None:
        return X, None
    if target == "numbers":
        return X, noisy[:, 0]
    return X, noisy.argmax(axis=1) if kinds > 1 else (noisy[:, 0] > 0).astype(np.int64)


def rows_of(cell: Cell) -> tuple[Any, Any]:
    """X and y of a cell, in CPU memory; some features matter, and noise is as strong as they."""
    random = np.random.default_rng(SEED)
    if MODELS[cell.model].target in ("table of numbers", "table of classes"):
        return _table_of(cell, random)
    shape = (cell.n, cell.d)
    counted = MODELS[cell.model].target == "counted classes"
    if cell.filled:
        X: Any = sparse.random_array(
            shape, density=cell.filled, format="csr", rng=random, data_sampler=random.random
        )
        X = X.astype(cell.dtype)
        X.data = np.ceil(5 * X.data) if counted else X.data
    elif counted:
        X = random.poisson(random.gamma(1.0, 1.0, cell.d), shape).astype(cell.dtype)
    else:
        X = random.standard_normal(shape, dtype=np.float64).astype(cell.dtype)
    slopes = random.standard_normal(cell.d) * (random.random(cell.d) < max(0.1, 10 / cell.d))
    signal = np.asarray(X @ slopes)
    signal = (signal - signal.mean()) / signal.std()
    y = signal + random.standard_normal(cell.n)
    target = MODELS[cell.model].target
    if target is None:
        return X, None
    if target == "numbers":
        return X, y.astype(cell.dtype)
    if target == "counts":
        return X, random.poisson(np.exp(0.5 * signal)).astype(cell.dtype)
    return X, (y > 0).astype(np.int64)


def _table_of(cell, random):
    """A DataFrame of numbers, a twentieth of them missing in some columns, and of strings."""
    columns: dict[str, Any] = {}
    signal = np.zeros(cell.n)
    for j in range(N_NUMBERS):
        values = random.standard_normal(cell.n)
        signal += values * random.standard_normal()
        holes = random.random(cell.n) < (0.05 if j % 2 else 0.0)
        columns[f"number {j}"] = np.where(holes, np.nan, 10.0**j * values)
    for j, n_levels in enumerate(N_LEVELS):
        codes = np.minimum(random.geometric(4 / n_levels, cell.n) - 1, n_levels - 1)
        signal += random.standard_normal(n_levels)[codes]
        names = np.asarray([f"level {code:03d}" for code in range(n_levels)], dtype=object)
        columns[f"kind {j}"] = names[codes]
    y = signal + signal.std() * random.standard_normal(cell.n)
    if MODELS[cell.model].target == "table of classes":
        return pd.DataFrame(columns), (y > np.median(y)).astype(np.int64)
    return pd.DataFrame(columns), y


def groups_of(cell: Cell) -> np.ndarray | None:
    """Of group K-fold: a thousand groups at most."""
    if cell.splitter != "group":
        return None
    return np.random.default_rng(SEED).integers(0, min(1_000, cell.n // 10), cell.n)


# ---------------------------------------------------------------- gpuml


class _Ours:
    """Estimators of gpuml by name."""

    GaussianNB, MultinomialNB, PCA = GaussianNB, MultinomialNB, PCA
    PolynomialFeatures, StandardScaler = PolynomialFeatures, StandardScaler
    ColumnTransformer, OneHotEncoder = ColumnTransformer, OneHotEncoder
    SimpleImputer, Pipeline = SimpleImputer, Pipeline
    make_pipeline = staticmethod(make_pipeline)

    def __getattr__(self, name):
        return getattr(ours, name)


def gpuml_of(cell: Cell) -> Any:
    """What gpuml fits."""

    def search(estimator, grid):
        return GridSearchCV(estimator, grid, cv=SPLITTERS[cell.splitter]())

    return MODELS[cell.model].make(_Ours(), search)
