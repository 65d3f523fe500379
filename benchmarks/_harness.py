"""What every benchmark needs: arguments, a clock, memory peaks, failures, JSON and tables.

Facts about the machine are in `_machine`, and are to be had here too.
"""

import argparse
import json
import os
import re
import statistics
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from _machine import has_gpu, machine
from rich.console import Console
from rich.table import Table

import gpuml
from gpuml.testing import count_transfers

# Digits of numbers in reports: of a time of milliseconds, the nanoseconds that the clock counts.
DIGITS = 7

# ---------------------------------------------------------------- the command line


def arguments(doc, scenarios, default, rivals=None):
    """A parser with the options that benchmarks have in common."""
    parser = argparse.ArgumentParser(description=doc.partition("\n")[0])
    add = parser.add_argument
    add("--scenario", nargs="+", choices=list(scenarios), default=default)
    if rivals is not None:
        add("--rivals", nargs="*", choices=list(rivals), help="default: those that suit a scenario")
    add("--rows", type=int, help="default: those of the scenario")
    add("--features", type=int, help="default: those of the scenario")
    add("--scale", type=float, default=1.0, help="share of the rows")
    add("--repeats", type=int, help="timed runs of gpuml")
    add("--json", type=Path, help="file for the report (default: standard output)")
    return parser


def scaled(rows, args):
    """Rows of a scenario as asked for on the command line."""
    return max(2, int((args.rows or rows) * args.scale))


def names_of(chosen, groups):
    """Scenarios without repetition, groups taken apart."""
    return list(dict.fromkeys(name for each in chosen for name in groups.get(each, (each,))))


def without_paths(command):
    """The command line less the name of the report, which says nothing about the run."""
    skip = command.index("--json") if "--json" in command else len(command)
    return command[:skip] + command[skip + 2 :]


def report_on(benchmark, names, run_scenario, show, args, **more):
    """Run scenarios, write the report and print tables."""
    report = {
        "benchmark": benchmark,
        "command": without_paths(sys.argv[1:]),
        "gpuml": gpuml.__version__,
        "SCIPY_ARRAY_API": os.environ.get("SCIPY_ARRAY_API"),
        **more,
        "scenarios": [run_scenario(name, args) for name in names],
    }
    # Last, when every library that matters is loaded and shows its thread pool.
    report["machine"] = machine()
    write_json(report, args.json)
    for result in report["scenarios"]:
        if "skipped" in result:
            print(f"{result['scenario']}: skipped: {result['skipped']}")
        else:
            show(result)


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


def timing(call, repeats, at_most=None, at_least=0.0):
    """Median, extremes and all runs of a call, in seconds.

    No run is begun after `at_most` seconds of runs, and more than `repeats` are made until there
    are `at_least` seconds of them: among a few short ones are collections of garbage, or none.
    """
    runs = [seconds_of(call)]
    while (len(runs) < repeats or sum(runs) < at_least) and (
        at_most is None or sum(runs) < at_most
    ):
        runs.append(seconds_of(call))
    return spread(runs)


def spread(runs):
    """What a report says of timed runs."""
    return {
        "median": statistics.median(runs),
        "min": min(runs),
        "max": max(runs),
        "runs": runs,
        "repeats": len(runs),
    }


def attempt(record, call):
    """A record with what the call returns, or with why it failed."""
    try:
        return record | call()
    # Whatever a rival raises is a result, not the end of the benchmark.
    except Exception as error:
        return record | {"failed": failure(error)}


def failure(error):
    """An exception in one line."""
    reason = (str(error).strip() or "no message").splitlines()[0]
    return f"failed: {type(error).__name__}: {reason}"


# ---------------------------------------------------------------- where rows are


def needed_cupy():
    """CuPy, or an error that says what is missing."""
    if not has_gpu():
        raise RuntimeError("needs CuPy and a GPU")
    import cupy

    return cupy


def to_host(x):
    """An array in the memory of the host."""
    return x if isinstance(x, np.ndarray) else x.get()


def to_gpu(x):
    """An array on the GPU."""
    return needed_cupy().asarray(x)


def facts_of(X):
    """Size, type and place of rows."""
    facts = {"rows": len(X), "features": X.shape[1], "dtype": str(X.dtype), "bytes": X.nbytes}
    return facts | {"library": type(X).__module__.partition(".")[0]}


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


def first_run(call):
    """A call's first run at full size: its time, and what it takes of both memories."""
    with host_peak() as host, pool_peak() as pool:
        seconds = seconds_of(call)
    return {
        "first_seconds": seconds,
        "extra_host_bytes": host["bytes"],
        "extra_host_method": host["method"],
        "extra_pool_bytes": pool["bytes"],
    }


def moved_by(call):
    """Bytes that cross between host and device in a call."""
    with count_transfers() as moved:
        call()
    return {
        "bytes_to_device": moved.to_device,
        "bytes_to_host": moved.to_host,
        "every_copy_counted": moved.counts_everyone,
    }


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


# ---------------------------------------------------------------- telling about it


def write_json(report, path):
    """Write a report to a file, or to standard output where `path` is None."""
    text = json.dumps(_rounded(report), default=_plain)
    # A line for each scenario and each contender, so that a diff shows which has changed.
    text = re.sub(r'(?<=[\[,]) ?(?=\{"(scenario|name)": )', "\n", text)
    if path is None:
        print(text)
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")


def _rounded(value):
    """Numbers with `DIGITS`, which is more than a clock tells."""
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(each) for each in value]
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


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


def print_facts(facts):
    """Print names and values as a table without headings; what is None is left out."""
    rows = [{"gpuml": name, "": value} for name, value in facts.items() if value is not None]
    print_table("", rows)


def memory_facts(own):
    """What `first_run` and `moved_by` found, for `print_facts`."""
    facts = {
        "first run at this size": f"{own['first_seconds']:.4f} s",
        "extra host memory": megabytes(own["extra_host_bytes"]),
        "growth of the GPU pool": megabytes(own["extra_pool_bytes"]),
    }
    if "bytes_to_device" in own:
        facts["moved host to device"] = f"{own['bytes_to_device']:,} bytes"
        facts["moved device to host"] = f"{own['bytes_to_host']:,} bytes"
    return facts


def parts_of(breakdown):
    """Seconds of parts, for `print_facts`."""
    return {name: f"{value:.4f} s" for name, value in breakdown.items()}


def clock_cells(record):
    """Median and extremes of a contender, or why it failed, as cells of a table."""
    if "failed" in record:
        return {"median s": record["failed"][:70], "min": None, "max": None}
    clock = record["seconds"]
    shown = {end: f"{clock[end]:.4f}" for end in ("median", "min", "max")}
    return {"median s": shown.pop("median"), **shown}


def cell(value, form):
    """A number for a table, or nothing."""
    return None if value is None else format(value, form)


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
