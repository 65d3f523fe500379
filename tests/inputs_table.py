"""What happens to a kind of input: run it, and say in a few words what comes back.

`python -m tests.inputs_page` runs every kind whose libraries are here and writes down the outcomes;
`tests/test_inputs.py` runs them again and compares.
"""

import datetime
import importlib.util
import json
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone, is_classifier

from gpuml import _arrays

ROOT = Path(__file__).parents[1]
OUTCOMES = ROOT / "tests" / "inputs_outcomes.json"
PAGE = ROOT / "docs" / "inputs.md"

N_ROWS = 30
NAMES = ["a", "b", "c", "d"]
TOLERANCE_32 = 1e-3


def numbers() -> np.ndarray:
    """Rows that every dtype holds exactly, bool apart: integers from 0 to 15."""
    return np.random.default_rng(0).integers(0, 16, (N_ROWS, 4)).astype(np.float64)


def bits() -> np.ndarray:
    """Rows of 0 and 1."""
    return numbers() % 2


def target() -> np.ndarray:
    """A target with one decimal, so that NumPy and other libraries read the same number."""
    noise = np.random.default_rng(1).normal(size=N_ROWS)
    return np.round(numbers() @ np.array([1.0, -2.0, 0.5, 3.0]) + noise, 1)


def labels() -> np.ndarray:
    """Two classes."""
    y = target()
    return (y > np.median(y)).astype(np.int64)


@dataclass(frozen=True)
class Kind:
    """A kind of input: how it is made of a NumPy array, and what has to be installed for that."""

    name: str
    make: Callable[[np.ndarray], Any]
    needs: tuple[str, ...] = ()
    rows: Callable[[], np.ndarray] = numbers
    refused: bool = False
    tolerance: float = 1e-6

    @property
    def needs_gpu(self) -> bool:
        """Whether it lives on a GPU."""
        return any(name in self.needs for name in ("cupy", "cudf", "cuda"))

    def missing(self) -> str:
        """What is missing here, in words; "" for nothing."""
        if self.needs_gpu and not _sees_gpu():
            return "no GPU"
        absent = [x for x in self.needs if x != "cuda" and importlib.util.find_spec(x) is None]
        return f"{absent[0]} is not installed" if absent else ""


def _sees_gpu():
    return _arrays.has_gpu()


# ---------------------------------------------------------------- outcomes


def estimators() -> list[tuple[str, Any]]:
    """Every estimator of `gpuml.testing`, cheap, and two that are made of others."""
    from gpuml.linear_model import Ridge
    from gpuml.model_selection import GridSearchCV
    from gpuml.pipeline import make_pipeline
    from gpuml.preprocessing import StandardScaler
    from gpuml.testing import estimators

    cheap = {
        "alphas": 3,
        "Cs": 3,
        "cv": 3,
        "n_components": 2,
        "sparse_output": False,
        "handle_unknown": "ignore",
    }
    found = []
    for name, estimator in estimators():
        known = {k: v for k, v in cheap.items() if k in estimator.get_params()}
        if name in ("RidgeCV",):
            known = {}
        found.append((name, estimator.set_params(**known)))
    found.append(("GridSearchCV", GridSearchCV(Ridge(), {"alpha": [0.1, 1.0]}, cv=3)))
    found.append(("Pipeline", make_pipeline(StandardScaler(), Ridge())))
    return found


def fitted(estimator: Any, X: Any, y: Any) -> Any:
    """What a model fitted to X says of X."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator = clone(estimator).fit(X, y)
        return estimator.transform(X) if hasattr(estimator, "transform") else estimator.predict(X)


def outcome(
    estimator: Any, X: Any, y: Any, expected: np.ndarray | None = None, tolerance: float = 0.0
) -> str:
    """Library and dtype of a result, or the type of an error; in capitals what must not be."""
    before = None if expected is None else _copy(X)
    try:
        result = fitted(estimator, X, y)
    except Exception as error:
        named = re.search(r"\bColumns? '", str(error)) is not None
        return _public(type(error)) + (", names the column" if named else "")
    text = described(result)
    if expected is None:
        return text
    if not _agree(result, expected, tolerance):
        text += ", OTHER VALUES"
    return text if np.array_equal(before, _copy(X)) else text + ", WRITTEN TO"


def _copy(x):
    """Values of now, of what could be written to."""
    if sparse.issparse(x):
        return x.data.copy()
    if _arrays.is_array(x):
        return np.array(_arrays.to_host(_arrays.as_array(x)))
    return np.array(x.to_numpy()) if hasattr(x, "iloc") else np.empty(0)


def described(result: Any) -> str:
    """Library and dtype of an array or a frame."""
    library = type(result).__module__.split(".")[0]
    library = {"numpy": "NumPy", "cupy": "CuPy", "scipy": "SciPy sparse"}.get(library, library)
    library = "CuPy sparse" if library == "cupyx" else library
    if hasattr(result, "columns"):
        return f"{library}"
    device = "" if not hasattr(result, "is_cuda") or not result.is_cuda else " on the GPU"
    return f"{library}{device} {str(result.dtype).rpartition('.')[2]}"


def as_numpy(result: Any) -> np.ndarray:
    """A result of any library, dense, as NumPy."""
    if hasattr(result, "toarray"):
        result = result.toarray()
    if hasattr(result, "to_pandas"):
        result = result.to_pandas()
    return _arrays.to_host(result) if _arrays.is_array(result) else np.asarray(result)


def _agree(result, expected, tolerance):
    found = as_numpy(result)
    if found.dtype.kind not in "fiub" or expected.dtype.kind not in "fiub":
        return found.shape == expected.shape and bool(np.all(found == expected))
    tolerance = max(tolerance, TOLERANCE_32) if found.dtype == np.float32 else tolerance
    scale = max(1.0, float(np.max(np.abs(expected))))
    return found.shape == expected.shape and bool(
        np.max(np.abs(found.astype(np.float64) - expected)) <= tolerance * scale
    )


def _public(kind):
    """The first class of an exception's ancestors that Python itself has."""
    return next(c.__name__ for c in kind.__mro__ if c.__module__ == "builtins")


def outcomes_of_rows(kind: Kind) -> dict[str, str]:
    """For each estimator, what rows of a kind give."""
    found = {}
    for name, estimator in estimators():
        y = labels() if is_classifier(estimator) else target()
        expected = None if kind.refused else as_numpy(fitted(estimator, kind.rows(), y))
        found[name] = outcome(estimator, kind.make(kind.rows()), y, expected, kind.tolerance)
    return found


def outcomes_of_target(kind: Kind) -> dict[str, str]:
    """What targets of a kind give, with X of NumPy and of torch."""
    from gpuml.linear_model import LogisticRegression, Ridge

    model = Ridge() if kind.rows is target else LogisticRegression()
    found = {}
    places = {"X of NumPy": np.asarray, "X of torch": _torch}
    if kind.needs_gpu:
        places = {"X of NumPy": np.asarray, "X of CuPy": _cupy, "X of cuDF": _cudf}
    for where, place in places.items():
        y = kind.rows()
        expected = None if kind.refused else as_numpy(fitted(model, numbers(), y))
        found[where] = outcome(model, place(numbers()), kind.make(y), expected, 1e-3)
    return found


def outcomes_of_output(kind: Kind) -> dict[str, str]:
    """What `set_output` makes of results for rows of a kind."""
    asked = ("default", "pandas", "polars") + (("cudf",) if kind.needs_gpu else ())
    return {what: _output(kind, what) for what in asked}


def _output(kind, what):
    from gpuml.decomposition import PCA
    from gpuml.preprocessing import StandardScaler

    said = set()
    for estimator in (StandardScaler(), PCA(2)):
        X = kind.make(kind.rows())
        result = estimator.fit(X).set_output(transform=what).transform(X)
        text = described(result)
        if what != "default":
            names = list(result.columns) == list(estimator.get_feature_names_out())
            text += ", names of columns" if names else ""
        if hasattr(X, "iloc") and hasattr(result, "iloc"):
            text += ", index" if list(_host_index(result)) == list(_host_index(X)) else ""
        said.add(text)
    return "; ".join(sorted(said))


def _host_index(frame):
    index = frame.index
    return index.to_pandas() if hasattr(index, "to_pandas") else index


def _torch(x):
    import torch

    return torch.from_numpy(x.copy())


def _cupy(x):
    import cupy

    return cupy.asarray(x)


def _cudf(x):
    import cudf

    return cudf.DataFrame(_cupy(x), columns=NAMES)


# ---------------------------------------------------------------- outcomes in a file

TABLES = {
    "rows": outcomes_of_rows,
    "targets": outcomes_of_target,
    "outputs": outcomes_of_output,
}


def stored() -> dict[str, Any]:
    """The outcomes of the last runs."""
    return json.loads(OUTCOMES.read_text()) if OUTCOMES.exists() else {}


def run_all(kinds_of: dict[str, list[Kind]]) -> None:
    """Run what can be run here, and keep the outcomes beside those of other machines."""
    found = stored()
    for table, kinds in kinds_of.items():
        old = found.get(table, {})
        found[table] = {
            kind.name: old.get(kind.name) if kind.missing() else TABLES[table](kind)
            for kind in kinds
        }
    if _sees_gpu():
        found["gpu"] = _machine()
    found.setdefault("gpu", None)
    OUTCOMES.write_text(json.dumps(found, indent=1) + "\n")


def _machine():
    import cupy

    name = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    return f"{datetime.date.today().isoformat()}, {name}, CuPy {cupy.__version__}"
