"""Models in files: saved on one machine, loaded on another, with or without a GPU."""

import importlib
import os
import pkgutil
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import joblib

from gpuml import __path__ as package_path
from gpuml._arrays import has_gpu
from gpuml._persistence.files import replacing
from gpuml._persistence.stored import loading_to
from gpuml._persistence.travel import Travels

__all__ = ["load", "save", "trusted_types"]

SKOPS_SUFFIX = ".skops"
COMPRESSIONS = {
    ".bz2": "bz2",
    ".gz": "gzip",
    ".lz4": "lz4",
    ".lzma": "lzma",
    ".xz": "xz",
    ".z": "zlib",
}
# How joblib writes what ends like this. Reading it runs the code in it.
PICKLED = {
    inner + outer: method
    for inner in ("", ".joblib", ".pickle", ".pkl")
    for outer, method in {"": 0, **COMPRESSIONS}.items()
}
# Types besides estimators that skops files contain: records, and scorers of searches.
_RECORDS = (
    *(
        "gpuml._persistence.stored.Member",
        "gpuml._persistence.stored.Stored",
        "gpuml.solvers._result.Status",
    ),
    *("gpuml.model_selection.candidates.Plan", "gpuml.model_selection.candidates.Step"),
    *("gpuml.metrics.scorer._DeviceScorer", "gpuml.metrics.scorer._HostScorer"),
    *("gpuml.gaussian_process._binary.BinaryGaussianProcess", "numpy.dtype"),
)


def save(model: Any, path: str | os.PathLike) -> None:
    """Save a model to a file that loads with and without a GPU.

    Parameters
    ----------
    model : estimator
        An estimator of gpuml or scikit-learn, or a pipeline or search of both; fitted or not.
        Arrays on devices are copied to CPU memory.
    path : str or path
        The suffix chooses the format; case does not matter.

        - ``.skops``: skops (which must be installed) writes the file. Loading it runs no code.
        - ``.joblib``, ``.pkl``, ``.pickle`` or no suffix: joblib writes the file, compressed if
          ``.gz``, ``.z``, ``.bz2``, ``.xz``, ``.lzma`` or ``.lz4`` follows. Loading it can run
          code: load such files only from sources that you trust.

        An existing file is replaced once the new one is completely on disk; if writing fails, it
        does not change. It keeps its permissions; a link is followed.

    Raises
    ------
    ValueError
        If the suffix is not one of these.
    ImportError
        For ``.skops``, if skops is not installed.
    pickle.PicklingError
        If the model holds objects that cannot be saved, such as lambda functions.
    OSError
        If the file cannot be written.

    See Also
    --------
    load : Load a saved model.

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
    ending = _ending(path)
    if ending == SKOPS_SUFFIX:
        write = _skops().dump
    else:
        write = partial(joblib.dump, compress=PICKLED[ending])
    with replacing(path) as file:
        write(model, file)


def load(path: str | os.PathLike, device: str | None = None, *, trusted: Sequence[str] = ()) -> Any:
    """Load a model that `save`, joblib, pickle or skops wrote.

    Parameters
    ----------
    path : str or path
        skops reads files that end in ``.skops``, in upper or lower case. joblib, which also reads
        pickles, reads files with the other suffixes that `save` accepts.
    device : {"auto", "cpu", "cuda"} or None, default=None
        The device for fitted arrays that were on a GPU. "auto" moves them to the current GPU of
        this process if there is one; otherwise they become NumPy arrays, and torch tensors become
        tensors on the CPU. "cpu" always does the latter. "cuda" requires a GPU. None is
        ``gpuml.get_config()["device"]``. Models predict on the device of the rows, wherever their
        fitted arrays are.
    trusted : sequence of str, default=()
        Names of further types that a skops file may hold, such as ``"my_package.MyTransformer"``.
        The types of scikit-learn that skops trusts, and `trusted_types`, are always accepted.

    Returns
    -------
    model : estimator

    Raises
    ------
    RuntimeError
        For ``device="cuda"``, if there is no GPU or the library of the arrays is not installed.
    ValueError
        If `save` does not accept the suffix, if a skops file holds types that are not trusted, or
        if a later gpuml saved the model in a newer format.
    ImportError
        For ``.skops``, if skops is not installed.

    Warns
    -----
    gpuml.exceptions.VersionWarning
        If another version of gpuml saved the model.
    sklearn.exceptions.InconsistentVersionWarning
        If the model was saved with another version of scikit-learn.

    Warnings
    --------
    Files of joblib and pickle can hold any code, and loading them runs it: load them only from
    sources that you trust. Loading files that end in ``.skops`` runs no code.

    See Also
    --------
    save : Save a model to a file.

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
                "device='cuda' needs a GPU, but CuPy is not installed or sees no GPU. Use "
                "device='auto' or 'cpu': the model works without one."
            )
        path = Path(path)
        if _ending(path) == SKOPS_SUFFIX:
            return _load_skops(path, [*trusted_types(), *trusted])
        return joblib.load(path)


def _ending(path):
    """What the name ends in, in lower case: `SKOPS_SUFFIX`, or one of `PICKLED`."""
    # Not Path.suffixes, to which ".skops" is a name without any.
    stem, ending = _split(path.name.lower())
    if ending in COMPRESSIONS:
        ending = _split(stem)[1] + ending
    if ending != SKOPS_SUFFIX and ending not in PICKLED:
        raise ValueError(
            f"{path} ends in {ending!r}, which is not the suffix of a model. Use .skops, or "
            ".joblib or .pkl, whose files run code when they are loaded. One of "
            f"{', '.join(COMPRESSIONS)} may follow these two. joblib.load reads joblib and pickle "
            "files of any name; gpuml.as_sklearn gives models that can be converted to ONNX."
        )
    return ending


def _split(name):
    stem, dot, suffix = name.rpartition(".")
    return (stem, dot + suffix) if dot else (name, "")


def _load_skops(path, trusted):
    skops = _skops()
    unknown = sorted(set(skops.get_untrusted_types(file=path)) - set(trusted))
    if unknown:
        raise ValueError(
            f"{path} holds types that gpuml does not know: {unknown}. If you know them and trust "
            f"the author of the file, use gpuml.load(path, trusted={unknown})."
        )
    return skops.load(path, trusted=trusted)


def _skops():
    try:
        import skops.io
    except ImportError as error:
        raise ImportError("Files that end in .skops need skops. Install gpuml[skops].") from error
    return skops.io


def trusted_types() -> list[str]:
    """Names of the types that saved gpuml models may contain, for ``skops.io.load``.

    Returns
    -------
    names : list of str
        Every estimator of gpuml, and the objects that searches store: metrics, scorers, splitters
        and plans.

    Examples
    --------
    >>> import gpuml
    >>> "gpuml.linear_model.ridge.Ridge" in gpuml.trusted_types()
    True
    """
    from sklearn.utils.metadata_routing import MetadataRequest

    from gpuml._sklearn import _CurveScorer, _PassthroughScorer, _Scorer

    scorers = (_CurveScorer, _PassthroughScorer, _Scorer)
    asked = MetadataRequest(owner="")
    found: tuple[Any, ...] = (
        *_estimators(),
        *_metrics(),
        *_splitters(),
        *_losses(),
        *_splines(),
        *_kernels(),
        *scorers,
        *(type(asked), type(asked.fit)),
    )
    return sorted({*_RECORDS, *(f"{obj.__module__}.{obj.__qualname__}" for obj in found)})


def _estimators() -> Iterator[type]:
    for found in pkgutil.iter_modules(package_path, "gpuml."):
        module = importlib.import_module(found.name) if found.ispkg else None
        for obj in (getattr(module, name) for name in getattr(module, "__all__", ())):
            if isinstance(obj, type) and issubclass(obj, Travels):
                yield obj


def _kernels() -> Iterator[type]:
    """The kernels of Gaussian processes."""
    from sklearn.gaussian_process import kernels

    for obj in vars(kernels).values():
        if isinstance(obj, type) and issubclass(obj, kernels.Kernel):
            yield obj


def _metrics() -> Iterator[Callable]:
    """The functions that scorers call, of gpuml and of scikit-learn."""
    import sklearn.metrics

    from gpuml.metrics import get_scorer

    for name in sklearn.metrics.get_scorer_names():
        scorers: tuple[Any, ...] = (get_scorer(name), sklearn.metrics.get_scorer(name))
        yield from (scorer._score_func for scorer in scorers)


def _losses() -> Iterator[type]:
    """What scikit-learn's generalised linear models keep of their losses."""
    from sklearn.linear_model import TweedieRegressor

    for power in (0, 1, 1.5, 2):
        for link in ("identity", "log"):
            yield type(TweedieRegressor(power=power, link=link)._get_loss())


def _splines() -> Iterator[Callable]:
    """What splines are kept as, and the functions and parts that SciPy keeps with each."""
    from scipy.interpolate import BSpline

    yield BSpline
    yield from _parts_of_scipy(BSpline([0.0, 0.0, 1.0, 1.0], [0.0, 1.0], 1))


def _parts_of_scipy(spline: Any) -> Iterator[Callable]:
    for value in vars(spline).values():
        if hasattr(value, "__qualname__"):
            yield value
        elif type(value).__module__.startswith("scipy."):  # since 1.18: one that does the work
            yield type(value)
            yield from _parts_of_scipy(value)


def _splitters() -> Iterator[type]:
    import sklearn.model_selection

    for name in sklearn.model_selection.__all__:
        obj = getattr(sklearn.model_selection, name, None)
        if isinstance(obj, type) and hasattr(obj, "get_n_splits"):
            yield obj
