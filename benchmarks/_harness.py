"""What every benchmark needs: a clock, memory peaks, facts about the machine, JSON and a table."""

import importlib.metadata
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_info

VERSIONS_OF = (
    *("numpy", "scipy", "scikit-learn", "joblib", "pandas", "threadpoolctl", "torch"),
    *("cupy-cuda12x", "cupy-cuda13x", "cuml-cu12", "cuml-cu13", "cupti-python"),
)

# ---------------------------------------------------------------- the clock


def synchronize():
    """Wait for the GPU, if this process uses one: kernels run on after their call returns."""
    if "cupy" in sys.modules and has_gpu():
        sys.modules["cupy"].cuda.Device().synchronize()


def seconds_of(call):
    """Seconds that one call takes, work queued on the GPU included."""
    synchronize()
    start = time.perf_counter()
    call()
    synchronize()
    return time.perf_counter() - start


def timing(call, repeats):
    """Median, extremes and all runs of a call, in seconds."""
    runs = [seconds_of(call) for _ in range(repeats)]
    return {"median": statistics.median(runs), "min": min(runs), "max": max(runs), "runs": runs}


# ---------------------------------------------------------------- memory


@contextmanager
def host_peak():
    """Bytes by which this process grew at most; the yielded dict holds them after the block.

    The kernel keeps a high-water mark that can be set back on most Linux systems; where it
    cannot, a thread looks every millisecond. "bytes" is None where neither is possible.
    """
    peak = {"bytes": None, "method": "none"}
    before = _status_bytes("VmRSS")
    if before is None:
        yield peak
    elif _reset_high_water_mark():
        yield peak
        peak.update(bytes=_status_bytes("VmHWM") - before, method="VmHWM")
    else:
        with _sampled_peak() as seen:
            yield peak
        peak.update(bytes=max(seen) - before, method="sampled every ms")


@contextmanager
def pool_peak():
    """Bytes that CuPy's pool took from the driver in the block, from an emptied pool.

    The pool gives nothing back by itself, so its growth is the peak of what was asked for,
    fragmentation included. None without a GPU.
    """
    peak = {"bytes": None}
    if not has_gpu():
        yield peak
        return
    pool = sys.modules["cupy"].get_default_memory_pool()
    pool.free_all_blocks()
    before = pool.total_bytes()
    yield peak
    peak["bytes"] = pool.total_bytes() - before


def _status_bytes(field):
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    values = [line.split()[1] for line in lines if line.startswith(field + ":")]
    return int(values[0]) * 1024 if values else None


def _reset_high_water_mark():
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    # Some sandboxes take the write and ignore it.
    mark, now = _status_bytes("VmHWM"), _status_bytes("VmRSS")
    return mark is not None and mark - now < 2**24


@contextmanager
def _sampled_peak():
    seen, done = [_status_bytes("VmRSS")], threading.Event()

    def look():
        while not done.wait(0.001):
            seen.append(_status_bytes("VmRSS"))

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        done.set()
        thread.join()


# ---------------------------------------------------------------- the machine


@cache
def has_gpu():
    """Whether CuPy is installed and sees a GPU."""
    try:
        import cupy
    except ImportError:
        return False
    return cupy.is_available()


def machine():
    """Facts that a figure means nothing without."""
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


# ---------------------------------------------------------------- telling about it


def write_json(report, path):
    """Write a report to a file, or to standard output where `path` is None."""
    text = json.dumps(report, indent=2, default=_plain)
    if path is None:
        print(text)
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")


def _plain(value):
    """NumPy's scalars as Python's."""
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def print_table(title, rows):
    """Print dicts with the same keys as a table; the keys are the headings."""
    # A log file has no width; rich would take 80 columns and fold every cell.
    console = Console(width=None if sys.stdout.isatty() else 140)
    table = Table(title=title, title_justify="left")
    for i, heading in enumerate(rows[0]):
        table.add_column(heading, justify="right" if i else "left", no_wrap=not i)
    for row in rows:
        table.add_row(*("" if cell is None else str(cell) for cell in row.values()))
    console.print(table)


def megabytes(n_bytes):
    """A number of bytes for a table."""
    return None if n_bytes is None else f"{n_bytes / 1e6:,.1f} MB"


@contextmanager
def own_allocator():
    """Leave CuPy's memory allocator as it was found.

    An import of cuML makes RMM the allocator of the whole process, by default one that asks the
    driver for every array: whatever is timed after that is slower than it would be without.
    """
    cupy = sys.modules.get("cupy")
    if cupy is None:
        yield
        return
    before = cupy.cuda.get_allocator()
    try:
        yield
    finally:
        cupy.cuda.set_allocator(before)
