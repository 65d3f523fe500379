"""Helpers for tests of numerical code on devices: array libraries, tolerances, a transfer counter.

Nothing here imports an array library, or pytest, before it is used.
"""

import ctypes
import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np

from gpuml._arrays import is_array, places, to_host
from gpuml._arrays.transfers import TransferBudgetExceeded, TransferCounter

__all__ = [
    "LAW_RTOL",
    "RTOL",
    "ArrayLibrary",
    "TransferBudgetExceeded",
    "TransferCounter",
    "array_libraries",
    "count_transfers",
    "estimators",
    "tolerance",
]

# Tolerances for agreement with scikit-learn, whose solvers stop early.
RTOL = {"float64": 1e-6, "float32": 1e-4}
# Tolerances for laws: two computations by gpuml that are equal up to rounding.
LAW_RTOL = {"float64": 1e-9, "float32": 1e-4}


def tolerance(dtype: Any, table: Mapping[str, float] = RTOL) -> float:
    """Relative tolerance for results of a dtype.

    Parameters
    ----------
    dtype : dtype
        float32 or float64, of any array library, or its name.
    table : mapping of str to float, default=RTOL
        `RTOL` to compare with scikit-learn, `LAW_RTOL` to compare gpuml with itself.

    Returns
    -------
    rtol : float
        The tolerance.

    Raises
    ------
    KeyError
        If the table has no such dtype.

    Examples
    --------
    >>> from gpuml.testing import LAW_RTOL, tolerance
    >>> tolerance("float32"), tolerance("float64", LAW_RTOL)
    (0.0001, 1e-09)
    """
    is_of_numpy = isinstance(dtype, str | type | np.dtype)
    name = np.dtype(dtype).name if is_of_numpy else str(dtype).rpartition(".")[2]
    if name not in table:
        raise KeyError(f"No tolerance for {name}; the table has {sorted(table)}.")
    return table[name]


# ---------------------------------------------------------------- array libraries


@dataclass(frozen=True)
class ArrayLibrary:
    """An array library on one device, to run a test on.

    Attributes
    ----------
    name : str
        Name of the entry, such as "torch-cuda".
    asarray : callable
        Makes an array of this library, on this device, of a NumPy array. The NumPy array is never
        shared: writing to the result leaves it as it was.
    why_missing : callable
        Says, in a few words, why the entry cannot be used here; "" if it can.
    needs_gpu : bool
        Whether the entry is of a GPU; its tests then bear the marker ``gpu``.
    """

    name: str
    asarray: Callable[[np.ndarray], Any]
    why_missing: Callable[[], str]
    needs_gpu: bool = False

    @staticmethod
    def to_numpy(x: Any) -> np.ndarray:
        """`x`, an array of any library or a number, as a NumPy array."""
        return to_host(x) if is_array(x) else np.asarray(x)

    def __str__(self):
        return self.name


def array_libraries() -> list:
    """The array libraries that a test is to run on, for ``pytest.mark.parametrize``.

    Returns
    -------
    entries : list of pytest parameters
        Each holds one `ArrayLibrary`: NumPy, NumPy with read-only memory, array-api-strict on a
        device that NumPy cannot read, torch on the CPU, CuPy, torch on a GPU. What is not
        installed, or needs a GPU that is not there, is skipped and the report says why; entries
        of a GPU bear the marker ``gpu``.

    Examples
    --------
    >>> from gpuml.testing import array_libraries
    >>> [entry.id for entry in array_libraries()]
    ['numpy', 'numpy-readonly', 'array_api_strict', 'torch', 'cupy', 'torch-cuda']
    """
    return [_as_parameter(library) for library in _LIBRARIES]


def _as_parameter(library):
    import pytest

    reason = library.why_missing()
    marks = [pytest.mark.gpu] if library.needs_gpu else []
    marks += [pytest.mark.skip(reason=reason)] if reason else []
    return pytest.param(library, id=library.name, marks=marks)


def _numpy_readonly(x):
    copy = np.array(x)
    copy.flags.writeable = False
    return copy


def _strict_on_second_device(x):
    import array_api_strict

    return array_api_strict.asarray(x, device=array_api_strict.Device("device1"), copy=True)


def _torch(x, device="cpu"):
    import torch

    return torch.asarray(np.array(x, order="C"), device=device)


def _cupy(x):
    import cupy

    return cupy.array(x)


def _missing(package, sees_gpu=None):
    """Why a package, or the GPU that it is to see, cannot be used here; "" if it can."""
    if sees_gpu is not None and not _has_driver():
        return "no GPU"
    if package is not None and importlib.util.find_spec(package) is None:
        return f"{package} is not installed"
    return "" if sees_gpu is None or sees_gpu() else "no GPU"


@cache
def _has_driver():
    # Checked first, because importing torch or CuPy takes seconds.
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


@cache
def _torch_sees_gpu():
    import torch

    return torch.cuda.is_available()


def _library(name, asarray, package=None, sees_gpu=None):
    missing = partial(_missing, package, sees_gpu)
    return ArrayLibrary(name, asarray, missing, needs_gpu=sees_gpu is not None)


_LIBRARIES = (
    _library("numpy", np.array),
    _library("numpy-readonly", _numpy_readonly),
    _library("array_api_strict", _strict_on_second_device, "array_api_strict"),
    _library("torch", _torch, "torch"),
    _library("cupy", _cupy, "cupy", places.has_gpu),
    _library("torch-cuda", partial(_torch, device="cuda"), "torch", _torch_sees_gpu),
)


# ---------------------------------------------------------------- estimators


def estimators() -> list[tuple[str, Any]]:
    """Every estimator of gpuml with default parameters, for tests that each must pass.

    Returns
    -------
    entries : list of (str, estimator)
        Names, and new unfitted instances.

    Examples
    --------
    >>> from gpuml.testing import estimators
    >>> [name for name, estimator in estimators()][:4]
    ['PCA', 'FactorAnalysis', 'IncrementalPCA', 'TruncatedSVD']
    """
    from gpuml import (
        covariance,
        cross_decomposition,
        decomposition,
        discriminant_analysis,
        gaussian_process,
        kernel_ridge,
        linear_model,
        mixture,
        preprocessing,
        svm,
    )

    modules = (
        *(decomposition, linear_model, preprocessing, discriminant_analysis),
        *(cross_decomposition, gaussian_process, kernel_ridge, mixture),
    )
    names = {module: module.__all__ for module in modules}
    # Encoders of labels take no rows.
    names[preprocessing] = [n for n in preprocessing.__all__ if not n.startswith("Label")]
    names[covariance] = ["EmpiricalCovariance", "LedoitWolf", "OAS", "ShrunkCovariance"]
    names[svm] = ["LinearSVC", "LinearSVR"]
    public = [(name, getattr(module, name)) for module in names for name in names[module]]
    return [(name, kind()) for name, kind in public if isinstance(kind, type)]


# ---------------------------------------------------------------- transfers


def count_transfers(
    max_to_device: float | None = None, max_to_host: float | None = None
) -> TransferCounter:
    """Count the bytes that cross between CPU memory and devices inside a ``with`` block.

    With a GPU and the package ``cupti-python``, every copy made in this process counts, by
    whichever library and thread: gpuml, CuPy, cuML, cuDF, torch. (The extra ``gpu-cu13`` brings it;
    that of CUDA 12 cannot be installed beside RAPIDS.) Otherwise the moves that gpuml
    itself makes count. Copies within a device and between devices do not, nor do pages of managed
    memory that migrate.

    Parameters
    ----------
    max_to_device : float or None, default=None
        Bytes that the block may copy to devices. None sets no limit.
    max_to_host : float or None, default=None
        Bytes that the block may copy from devices. None sets no limit.

    Returns
    -------
    counter : TransferCounter
        Yielded by the block, and good after it. Its attributes are ``to_device`` and ``to_host``
        (bytes), ``n_to_device`` and ``n_to_host`` (numbers of copies) and ``counts_everyone``
        (False if only the moves of gpuml count). Printing it gives all figures. Read inside the
        block, it waits for the GPU and gives the figures so far.

    Raises
    ------
    TransferBudgetExceeded
        On leaving the block, if it copied more than it may. An exception raised inside the block
        is let through instead.
    ValueError
        If a budget is negative.

    Warns
    -----
    RuntimeWarning
        Once, if there is a GPU but CUPTI does not work.

    Notes
    -----
    Entering and leaving the block waits for all GPUs that the process uses, so that earlier copies
    do not count and late ones do. Blocks may be nested, and may run in several threads at once;
    each counts the copies of all threads. CUPTI serves one listener per process, so do not run
    ``torch.profiler`` in the block.

    Examples
    --------
    >>> import numpy as np
    >>> from gpuml.testing import count_transfers
    >>> with count_transfers(max_to_device=0) as moved:
    ...     total = np.ones(1000).sum()
    >>> print(moved)
    0 B up in 0 copies, 0 B down in 0 copies
    """
    return TransferCounter(max_to_device, max_to_host)
