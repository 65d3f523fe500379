"""Models in files: saved on one machine, loaded on another, with or without a GPU."""

import importlib
import os
import pkgutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import joblib

from gpuml import __path__ as package_path
from gpuml._arrays import has_gpu
from gpuml._stored import loading_to
from gpuml._travel import Travels

__all__ = ["load", "save", "trusted_types"]

SKOPS_SUFFIX = ".skops"
# What files of skops hold besides estimators: records, and scorers of searches.
_RECORDS = (
    *("gpuml._stored.Member", "gpuml._stored.Stored", "gpuml.solvers._result.Status"),
    *("gpuml.model_selection.candidates.Plan", "gpuml.model_selection.candidates.Step"),
    *("gpuml.metrics.scorer._DeviceScorer", "gpuml.metrics.scorer._HostScorer"),
    *("sklearn.metrics._scorer._PassthroughScorer", "sklearn.metrics._scorer._Scorer"),
    "numpy.dtype",
)


def save(model: Any, path: str | os.PathLike) -> None:
    """Save a model to a file, so that it loads with a GPU and without one.

    Parameters
    ----------
    model : estimator
        Of gpuml, of scikit-learn, or a pipeline or search of both; fitted or not. Arrays on devices
        are copied to the host.
    path : str or path
        A file that ends in ``.skops`` is written by skops (which has to be installed): reading it
        runs no code. Any other is written by joblib, compressed if it ends in ``.gz``, ``.z``,
        ``.bz2``, ``.xz`` or ``.lzma``: load such files only from who you would run code of. A file
        of this name is replaced when all is written, and stays as it was if that fails.

    Raises
    ------
    ImportError
        For ``.skops`` without skops.
    pickle.PicklingError
        If a model holds what cannot be saved, such as lambda functions.

    See Also
    --------
    load : The way back.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import gpuml
    >>> from gpuml.preprocessing import StandardScaler
    >>> scaler = StandardScaler().fit([[0.0], [2.0]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     gpuml.save(scaler, Path(folder) / "scaler.joblib")
    ...     gpuml.load(Path(folder) / "scaler.joblib").transform([[3.0]])
    array([[2.]])
    """
    path = Path(path)
    write = _skops().dump if path.suffix == SKOPS_SUFFIX else joblib.dump
    # With the same suffix, which tells joblib how to compress.
    unfinished = path.with_name(f".{uuid4().hex}.{path.name}")
    try:
        write(model, unfinished)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def load(path: str | os.PathLike, device: str | None = None, *, trusted: Sequence[str] = ()) -> Any:
    """Load a model that `save`, joblib, pickle or skops wrote.

    Parameters
    ----------
    path : str or path
        Read by skops if it ends in ``.skops``, else by joblib, which also reads files of pickle.
    device : {"auto", "cpu", "cuda"} or None, default=None
        Where fitted arrays that were on a GPU go. "auto" takes them to the GPU if there is one (the
        current one of this process), and makes them NumPy's if not; those of torch become tensors
        on the CPU. "cpu" always does the latter. "cuda" insists on a GPU. None is
        ``gpuml.get_config()["device"]``. Models predict where the rows are, wherever their fitted
        arrays are.
    trusted : sequence of str, default=()
        Names of types that a file of skops may hold besides those of scikit-learn that skops trusts
        and `trusted_types`, such as ``"my_package.MyTransformer"``.

    Returns
    -------
    model : estimator

    Raises
    ------
    RuntimeError
        For ``device="cuda"`` without a GPU, or without the library that the arrays were of.
    ValueError
        If a file of skops holds types that are not trusted, and if a model was saved in a format
        of a later gpuml.
    ImportError
        For ``.skops`` without skops.

    Warns
    -----
    gpuml.exceptions.VersionWarning
        If another version of gpuml saved the model.
    sklearn.exceptions.InconsistentVersionWarning
        If that used another version of scikit-learn.

    See Also
    --------
    save : The way here.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import gpuml
    >>> from gpuml.linear_model import Ridge
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     gpuml.save(Ridge(alpha=2.0), Path(folder) / "ridge.joblib")
    ...     gpuml.load(Path(folder) / "ridge.joblib")
    Ridge(alpha=2.0)
    """
    with loading_to(device):
        if device == "cuda" and not has_gpu():
            raise RuntimeError(
                "device='cuda' was asked for, but CuPy is not installed or sees no GPU. Use "
                "device='auto' or 'cpu': the model works without one."
            )
        path = Path(path)
        if path.suffix == SKOPS_SUFFIX:
            return _load_skops(path, [*trusted_types(), *trusted])
        return joblib.load(path)


def _load_skops(path, trusted):
    skops = _skops()
    unknown = sorted(set(skops.get_untrusted_types(file=path)) - set(trusted))
    if unknown:
        raise ValueError(
            f"{path} holds types that gpuml does not know: {unknown}. If you know them and who "
            f"wrote the file, use gpuml.load(path, trusted={unknown})."
        )
    return skops.load(path, trusted=trusted)


def _skops():
    try:
        import skops.io
    except ImportError as error:
        raise ImportError("Files that end in .skops need skops. Install gpuml[skops].") from error
    return skops.io


def trusted_types() -> list[str]:
    """Names of the types that files of gpuml's models hold, for ``skops.io.load``.

    Returns
    -------
    names : list of str
        Every estimator of gpuml, and what searches keep: metrics, scorers, splitters,
        plans.

    Examples
    --------
    >>> import gpuml
    >>> "gpuml.linear_model.ridge.Ridge" in gpuml.trusted_types()
    True
    """
    found: tuple[Any, ...] = (*_estimators(), *_metrics(), *_splitters())
    return sorted({*_RECORDS, *(f"{obj.__module__}.{obj.__qualname__}" for obj in found)})


def _estimators() -> Iterator[type]:
    for found in pkgutil.iter_modules(package_path, "gpuml."):
        module = importlib.import_module(found.name) if found.ispkg else None
        for obj in (getattr(module, name) for name in getattr(module, "__all__", ())):
            if isinstance(obj, type) and issubclass(obj, Travels):
                yield obj


def _metrics() -> Iterator[Callable]:
    """The functions that scorers call, of gpuml and of scikit-learn."""
    import sklearn.metrics

    from gpuml.metrics import get_scorer

    for name in sklearn.metrics.get_scorer_names():
        scorers: tuple[Any, ...] = (get_scorer(name), sklearn.metrics.get_scorer(name))
        yield from (scorer._score_func for scorer in scorers)


def _splitters() -> Iterator[type]:
    import sklearn.model_selection

    for name in sklearn.model_selection.__all__:
        obj = getattr(sklearn.model_selection, name, None)
        if isinstance(obj, type) and hasattr(obj, "get_n_splits"):
            yield obj
