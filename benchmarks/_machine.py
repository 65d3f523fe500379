"""Facts about a machine that a figure means nothing without."""

import importlib.metadata
import os
import platform
import shutil
import subprocess
from functools import cache
from pathlib import Path

from threadpoolctl import threadpool_info

VERSIONS_OF = (
    *("numpy", "scipy", "scikit-learn", "joblib", "pandas", "threadpoolctl", "torch"),
    *("dask", "distributed", "cupy-cuda12x", "cupy-cuda13x", "cuml-cu12", "cuml-cu13"),
    *("cupti-python", "scikit-learn-intelex", "himalaya", "skglm", "celer", "adelie", "glum"),
)


@cache
def has_gpu():
    """Whether CuPy is installed and sees a GPU."""
    try:
        import cupy
    except ImportError:
        return False
    return cupy.is_available()


def machine():
    """Processor, memory, GPU, driver, CUDA, versions and threads, as they go into the JSON."""
    return {
        "cpu": _cpu_model(),
        "cores": _cores(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": f"{platform.system()} {platform.machine()}",
        "gpu": _gpu() if has_gpu() else None,
        "python": platform.python_version(),
        "versions": {name: version for name in VERSIONS_OF if (version := _version(name))},
        "thread_pools": [
            {key: pool.get(key) for key in ("user_api", "internal_api", "version", "num_threads")}
            for pool in threadpool_info()
        ],
    }


def _cores():
    # Fewer than the machine has where the process is confined to some.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def _cpu_model():
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def _gpu():
    import cupy

    properties = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)
    return {
        "name": properties["name"].decode(),
        "memory_bytes": properties["totalGlobalMem"],
        "count": cupy.cuda.runtime.getDeviceCount(),
        "cuda_runtime": cupy.cuda.runtime.runtimeGetVersion(),
        "driver": _driver(),
    }


def _driver():
    if not shutil.which("nvidia-smi"):
        return None
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    return subprocess.run(query, capture_output=True, text=True, check=False).stdout.split("\n")[0]


def _version(package):
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
