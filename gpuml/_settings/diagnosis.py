"""What is installed and what works here: `show_versions` and `doctor`."""

import ctypes
import importlib
import importlib.util
import platform
from collections.abc import Callable, Iterator
from importlib import metadata
from typing import Any, NamedTuple

from gpuml import __version__

# Names of distributions; of packages for CUDA 12 and 13 the one that is there.
PACKAGES = (
    *("numpy", "scipy", "scikit-learn", "joblib", "array-api-compat", "threadpoolctl", "rich"),
    *("narwhals", "pandas", "polars", "pyarrow", "torch", "matplotlib", "numba", "umap-learn"),
    *("dask", "distributed", "dask-ml", "cloudpickle", "fsspec", "zarr", "bed-reader"),
    *("skops", "skl2onnx", "onnxruntime", "scikit-learn-intelex"),
    *("cupy", "cuml", "cudf", "rmm", "nvforest", "treelite", "cupti-python", "kvikio"),
    *("dask-cuda", "raft-dask", "distributed-ucxx"),
)
SUFFIXES = ("", "-cuda13x", "-cuda12x", "-cu13", "-cu12")
DRIVER_LIBRARIES = ("libcuda.so.1", "nvcuda.dll")
CUDA_13 = 13_000
# Only one of them may be installed: they have the same files.
CUPYS = ("cupy-cuda12x", "cupy-cuda13x", "cupy")


class Finding(NamedTuple):
    """One thing that `doctor` looked at.

    Attributes
    ----------
    part : str
        What was looked at.
    works : bool or None
        None: it is not there, and nothing needs it.
    found : str
        What was found.
    advice : str
        What to type, or to know; empty if there is nothing to do.
    """

    part: str
    works: bool | None
    found: str
    advice: str = ""


class Findings(list[Finding]):
    """The findings of `doctor`: a list that consoles and notebooks do not print again."""

    def __repr__(self) -> str:
        return f"<{len(self)} findings, printed above>"


def show_versions() -> None:
    """Print versions of Python, of the packages that gpuml works with, and of the driver.

    Nothing is imported for it. What is not installed is left out.

    Examples
    --------
    >>> import gpuml
    >>> gpuml.show_versions()  # doctest: +SKIP
    gpuml             0.1.0
    python            3.11.7
    ...
    """
    lines = {"gpuml": __version__, "python": platform.python_version()}
    lines["system"] = platform.platform()
    lines.update({name: v for name in PACKAGES if (v := installed(name)) is not None})
    version = driver_version()
    lines["CUDA of the driver"] = "no driver" if version is None else in_words(version)
    width = max(map(len, lines))
    for name, value in lines.items():
        print(f"{name:<{width}}  {value}")


def doctor() -> Findings:
    """Check what gpuml can use on this machine, and print what to type if something is missing.

    It imports CuPy and cuML if they are installed, and runs a kernel, so it takes a few seconds.

    Returns
    -------
    findings : Findings
        A list of `Finding`, in the order in which they depend on each other: the driver, CuPy, its
        memory, cuML, cuDF, CUPTI, NCCL, Dask, UCX, GPUDirect storage, pictures, threads of the CPU.

    Examples
    --------
    >>> import gpuml
    >>> findings = gpuml.doctor()  # doctest: +SKIP
    driver   ok       CUDA 13.0, 1 GPU
    CuPy     missing  not installed
             pip install 'gpuml[gpu-cu13]'
    ...
    Nothing is broken.
    """
    findings = Findings(_findings())
    width = max(len(finding.part) for finding in findings)
    for finding in findings:
        state = {True: "ok", False: "broken", None: "missing" if finding.advice else "-"}
        print(f"{finding.part:<{width}}  {state[finding.works]:<7}  {finding.found}")
        if finding.advice:
            print(f"{'':<{width}}           {finding.advice}")
    print(_summary(findings))
    return findings


def _summary(findings: list[Finding]) -> str:
    broken = [finding.part for finding in findings if finding.works is False]
    if broken:
        return f"To fix: {', '.join(broken)}."
    if any(finding.part == "driver" and finding.works for finding in findings):
        return "Nothing is broken."
    return "Nothing is broken. gpuml runs on the CPU."


def installed(name: str) -> str | None:
    """Version of a distribution, whichever CUDA it is for; None if it is not installed."""
    for suffix in SUFFIXES:
        try:
            return metadata.version(name + suffix)
        except metadata.PackageNotFoundError:
            pass
    return None


def driver_version() -> int | None:
    """The newest CUDA that the driver can run, such as 13000; None without a driver."""
    for library in DRIVER_LIBRARIES:
        try:
            driver = ctypes.CDLL(library)
        except OSError:
            continue
        version = ctypes.c_int()
        if driver.cuDriverGetVersion(ctypes.byref(version)) == 0:
            return version.value
    return None


def in_words(version: int) -> str:
    """``13000`` as ``13.0``."""
    return f"{version // 1000}.{version % 1000 // 10}"


HINTS_OF_CUPTI = {
    "gpu-cu12": "That of CUDA 12 cannot be installed beside RAPIDS; copies by gpuml are counted.",
    "gpu-cu13": "pip install 'gpuml[gpu-cu13]', to count copies",
}


def _findings() -> Iterator[Finding]:
    version = driver_version()
    yield _driver(version)
    extra = "gpu-cu12" if version is not None and version < CUDA_13 else "gpu-cu13"
    has_driver = version is not None
    yield from _cupys(version, extra)
    for part, look, hint in (
        ("CuPy", _cupy, f"pip install 'gpuml[{extra}]'"),
        ("CuPy memory", _allocator, ""),
        ("cuML", _cuml, f"pip install 'gpuml[{extra}]'"),
        ("cuDF", _module("cudf"), f"pip install 'gpuml[{extra}]'"),
        ("CUPTI", _module("cupti"), HINTS_OF_CUPTI[extra]),
        ("NCCL", _nccl, f"pip install 'gpuml[{extra.replace('gpu', 'dask')}]'"),
    ):
        yield _for_gpus(part, look, hint, has_driver)
    yield _looked_at("Dask", _dask, "pip install 'gpuml[dask]', for clusters")
    hint = f"pip install 'gpuml[{extra.replace('gpu', 'dask')}]', for clusters of GPUs"
    yield _for_gpus("dask-cuda", _module("dask_cuda"), hint, has_driver)
    yield _for_gpus("UCX", _module("distributed_ucxx"), hint, has_driver)
    hint = "Its driver comes with NVIDIA's nvidia-gds; files are read through CPU memory without."
    yield _for_gpus("GPUDirect storage", _kvikio, hint, has_driver)
    yield _looked_at("matplotlib", _module("matplotlib"), "pip install matplotlib, for pictures")
    yield _looked_at("CPU", _threads, "")


def _driver(version):
    if version is None:
        return Finding("driver", None, "no NVIDIA driver; everything runs on the CPU")
    return Finding("driver", True, f"CUDA {in_words(version)}")


def _cupys(version: int | None, extra: str) -> Iterator[Finding]:
    """What is wrong with the distributions of CuPy, which their import may not tell."""
    found = [name for name in CUPYS if _is_installed(name)]
    if len(found) > 1:
        advice = f"pip uninstall {' '.join(found)}; pip install 'gpuml[{extra}]'"
        yield Finding("CuPy packages", False, f"{' and '.join(found)} overwrite each other", advice)
    elif found == ["cupy-cuda13x"] and version is not None and version < CUDA_13:
        text = f"cupy-cuda13x needs a driver for CUDA 13; this one is for {in_words(version)}"
        advice = f"pip uninstall cupy-cuda13x; pip install 'gpuml[{extra}]'"
        yield Finding("CuPy packages", False, text, advice)


def _is_installed(name):
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True


class _NotThere(Exception):
    """Not installed."""


def _looked_at(part: str, look: Callable[[], str], hint: str) -> Finding:
    try:
        return Finding(part, True, look())
    except _NotThere as error:
        return Finding(part, None, str(error), hint)
    except Exception as error:  # whatever an import or a first call raises
        return Finding(part, False, f"{type(error).__name__}: {error}".splitlines()[0], hint)


def _for_gpus(part: str, look: Callable[[], str], hint: str, has_driver: bool) -> Finding:
    """A part that only GPUs need: without a driver, nothing is missing."""
    found = _looked_at(part, look, hint if has_driver else "")
    if found.works is None and not has_driver:
        return found._replace(found="not needed on a CPU")
    return found


def _imported(name: str) -> Any:
    if importlib.util.find_spec(name) is None:
        raise _NotThere("not installed")
    return importlib.import_module(name)


def _module(name: str) -> Callable[[], str]:
    def look():
        return str(getattr(_imported(name), "__version__", "installed"))

    return look


def _cupy():
    cupy = _imported("cupy")
    if not cupy.is_available():
        raise RuntimeError(f"{cupy.__version__} is installed, but sees no GPU")
    assert int(cupy.arange(4).sum()) == 6  # a kernel is compiled and runs
    runtime = cupy.cuda.runtime
    found = []
    for device in range(runtime.getDeviceCount()):
        properties = runtime.getDeviceProperties(device)
        memory = properties["totalGlobalMem"] / 2**30
        found.append(f"{properties['name'].decode()} ({memory:.0f} GiB)")
    return f"{cupy.__version__}, {', '.join(found)}"


def _allocator():
    cupy = _imported("cupy")
    if not cupy.is_available():
        raise _NotThere("no GPU")
    allocator = cupy.cuda.get_allocator()
    module = getattr(allocator, "__module__", None) or type(allocator).__module__
    return "RMM's" if module.startswith("rmm") else "CuPy's own, or the user's"


def _cuml():
    """An import of cuML makes RMM the allocator of CuPy: looking at it should change nothing."""
    if importlib.util.find_spec("cuml") is None:
        raise _NotThere("not installed")
    cuda = getattr(importlib.import_module("cupy"), "cuda", None)
    if cuda is None:  # CuPy is broken, and cuML will say so
        return _module("cuml")()
    before = cuda.get_allocator()
    try:
        return _module("cuml")()
    finally:
        cuda.set_allocator(before)


def _nccl():
    if importlib.util.find_spec("cupy") is None:
        raise _NotThere("not installed (CuPy's)")
    nccl = importlib.import_module("cupy.cuda.nccl")
    return str(nccl.get_version())


def _dask():
    distributed = _imported("distributed")
    return f"{_imported('dask').__version__}, distributed {distributed.__version__}"


def _kvikio():
    kvikio = _imported("kvikio")
    if not kvikio.DriverProperties().is_gds_available:
        raise _NotThere("kvikio is installed, the driver of GPUDirect storage is not")
    return str(kvikio.__version__)


def _threads():
    import numpy  # noqa: F401  it loads the BLAS that is looked at
    from threadpoolctl import threadpool_info

    pools = [
        f"{pool['internal_api']} {pool.get('version') or ''}".strip()
        + f" with {pool['num_threads']} thread{'s' * (pool['num_threads'] != 1)}"
        for pool in threadpool_info()
        if pool["user_api"] == "blas"
    ]
    return ", ".join(pools) or "threads of BLAS are not known"
