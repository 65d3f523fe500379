"""What a kind of input has to give, and what it gives: in a few words that can be compared."""

import importlib.util
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone, is_classifier

from gpuml._arrays import as_array, has_gpu, is_array, to_host
from tests.targets import suited

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "inputs.md"

N_ROWS = 30
NAMES = ["a", "b", "c", "d"]
TOLERANCE_32 = 1e-3
# Dtypes of results, whatever the rows are.
OF_THEIR_OWN = {
    **dict.fromkeys(("OneHotEncoder", "OrdinalEncoder", "TargetEncoder"), "float64"),
    "MissingIndicator": "bool",
}


def numbers() -> np.ndarray:
    """Rows that every dtype holds exactly, bool apart: integers from 0 to 15."""
    return np.random.default_rng(0).integers(0, 16, (N_ROWS, 4)).astype(np.float64)


def bits() -> np.ndarray:
    """Rows of 0 and 1."""
    return numbers() % 2


def target() -> np.ndarray:
    """A target with one decimal, so that NumPy and other libraries read the same number."""
    noise = np.random.default_rng(1).normal(size=N_ROWS)
    y = np.round(numbers() @ np.array([1.0, -2.0, 0.5, 3.0]) + noise, 1)
    return np.round(y - y.min() + 0.1, 1)  # of positive means


def labels() -> np.ndarray:
    """Two classes."""
    y = target()
    return (y > np.median(y)).astype(np.int64)


@dataclass(frozen=True)
class Kind:
    """A kind of input: how it is made of a NumPy array, what that needs, and what it has to give.

    Attributes
    ----------
    dtype : str
        Of results: numbers, or labels if the kind is one of labels. They are in the library of the
        kind, and of targets in that of X.
    error : str
        What most estimators raise instead.
    but : mapping of str to str
        What other estimators give, or, of targets, what comes back for some X.
    """

    name: str
    make: Callable[[np.ndarray], Any]
    needs: tuple[str, ...] = ()
    rows: Callable[[], np.ndarray] = numbers
    dtype: str = "float64"
    error: str = ""
    but: Mapping[str, str] = field(default_factory=dict)
    tolerance: float = 1e-6

    @property
    def library(self) -> str:
        """Where results are: in kind, but for frames and protocols, which are read as arrays."""
        if "torch" in self.needs:
            return "torch on the GPU" if self.needs_gpu else "torch"
        if self.needs_gpu:
            return "CuPy"
        return "array_api_strict" if "array_api_strict" in self.needs else "NumPy"

    def expected(self, name: str, estimator: Any) -> str:
        """What an estimator makes of it: labels are int64 here, and codes of categories float64."""
        if name in self.but or self.error:
            return self.but.get(name, self.error)
        if is_classifier(estimator):
            return f"{self.library} int64"
        return f"{self.library} {OF_THEIR_OWN.get(name, self.dtype)}"

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
    return has_gpu()


# ---------------------------------------------------------------- outcomes


def method_that_says(model: Any) -> str:
    """The method by which a fitted model answers for rows."""
    if hasattr(model, "predict") and hasattr(model, "score_samples"):
        return "score_samples"  # components have any numbers
    methods = ("predict", "transform", "mahalanobis")
    return next(name for name in methods if hasattr(model, name))


def says(model: Any, X: Any) -> Any:
    """What a fitted model says of rows."""
    return getattr(model, method_that_says(model))(X)


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
        "reg_param": 0.1,
        "sparse_output": False,
        "encode": "onehot-dense",
        "features": "all",
        "optimizer": None,
    }
    found = []
    for name, estimator in estimators():
        if name == "FunctionTransformer":  # gives what its function gives
            continue
        known = {k: v for k, v in cheap.items() if k in estimator.get_params()}
        if name == "GaussianProcessRegressor":  # of rows that are there several times
            known["alpha"] = 1.0
        if name in ("LinearDiscriminantAnalysis", "RidgeCV", "RidgeClassifierCV"):
            known = {}
        if name in ("CCA", "PLSCanonical", "PLSSVD"):
            known = {"n_components": 1}  # of one target
        if name == "LinearSVR":  # sparse rows of the default are liblinear's, which ends anywhere
            known["loss"] = "squared_epsilon_insensitive"
        if name == "GaussianMixture":
            known["random_state"] = 0
        if name == "OneHotEncoder":
            known["handle_unknown"] = "ignore"
        found.append((name, estimator.set_params(**known)))
    found.append(("GridSearchCV", GridSearchCV(Ridge(), {"alpha": [0.1, 1.0]}, cv=3)))
    found.append(("Pipeline", make_pipeline(StandardScaler(), Ridge())))
    return found


def fitted(estimator: Any, X: Any, y: Any) -> Any:
    """What a model fitted to X says of X."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator = clone(estimator).fit(X, y)
        return says(estimator, X)


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
    if is_array(x):
        return np.array(to_host(as_array(x)))
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
    return to_host(result) if is_array(result) else np.asarray(result)


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
        y = labels() if is_classifier(estimator) else suited(estimator, target())
        expected = None if kind.error else as_numpy(fitted(estimator, kind.rows(), y))
        found[name] = outcome(estimator, kind.make(kind.rows()), y, expected, kind.tolerance)
    return found


def expected_of_rows(kind: Kind) -> dict[str, str]:
    """For each estimator, what they have to give."""
    return {name: kind.expected(name, estimator) for name, estimator in estimators()}


def places(kind: Kind) -> dict[str, Kind]:
    """Kinds of X that targets of a kind are tried with."""
    host = {"X of NumPy": Kind("", np.asarray)}
    if kind.needs_gpu:
        return {
            **host,
            "X of CuPy": Kind("", _cupy, ("cupy",)),
            "X of cuDF": Kind("", _cudf, ("cudf",)),
        }
    return {**host, "X of torch": Kind("", _torch, ("torch",))}


def outcome_of_target(kind: Kind, where: str) -> str:
    """What a target of a kind gives."""
    from gpuml.linear_model import LogisticRegression, Ridge

    model = Ridge() if kind.rows is target else LogisticRegression()
    y = kind.rows()
    expected = as_numpy(fitted(model, numbers(), y))
    return outcome(model, places(kind)[where].make(numbers()), kind.make(y), expected, 1e-3)


def expected_of_target(kind: Kind, where: str) -> str:
    """What it has to give, where X is; but only NumPy has strings."""
    library = "NumPy" if kind.dtype in ("<U1", "object") else places(kind)[where].library
    return kind.but.get(where, f"{library} {kind.dtype}")


def outputs(kind: Kind) -> list[str]:
    """What `set_output` is asked for, for rows of a kind."""
    return ["default", "pandas", "polars", *(["cudf"] if kind.needs_gpu else [])]


def expected_of_output(kind: Kind, what: str) -> str:
    """What it has to make of results: frames have names, and those of the kind of X its index."""
    if what == "default":
        return f"{kind.library} {kind.dtype}"
    has_index = kind.name.lower() == what != "polars"
    return f"{what}, names of columns" + (", index" if has_index else "")


def outcome_of_output(kind: Kind, what: str) -> str:
    """What `set_output` makes of results."""
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
