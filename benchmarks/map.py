"""The map: models x shapes x splits, gpuml against the best of what is installed.

    python benchmarks/map.py --json out/map_cpu.json
    python benchmarks/map.py --models Ridge Lasso --budget 60
    SCIPY_ARRAY_API=1 python benchmarks/map.py --device gpu --json out/map_gpu.json

Every cell times gpuml and all rivals that have the model, one after the other, each in a process of
its own, on the same rows: in CPU memory, or made on the GPU. A rival that stops at a tolerance gets
the loosest one (its default, or that by tens less) at which its objective is as good as gpuml's at
the rival's own penalties. README.md beside this file says which rivals there are, and how to
install them.
"""

import argparse
import os
import sys
import time
import warnings
from importlib import import_module
from pathlib import Path

import _harness as harness
import _map_cells as map_cells
import _map_rivals as map_rivals
from _map_workers import Worker, in_child, in_time, wait_for

import gpuml
from gpuml import linear_model as ours

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
# Runs that are short are made more often, until there are so many seconds of them.
LEAST_SECONDS = 0.25
# No contender is run again after so many seconds of runs.
ENOUGH_SECONDS = {"cpu": 8.0, "gpu": 2.0}
# A rival that takes so many times as long is run once, and has the time for twice as many, and
# some for its start, its rows and its objective.
FAR, FAR_SECONDS = 20, {"cpu": 20.0, "gpu": 4.0}
# What takes longer than this has no use for a run that warms it up.
COLD_SECONDS = {"cpu": 6.0, "gpu": 2.0}
DEFAULT_LIMIT, DEFAULT_BUDGET = {"cpu": 60, "gpu": 30}, {"cpu": 3600, "gpu": 400}
# Relative difference of objectives that are as good as each other.
EQUAL = 1e-6
# How often a tolerance may become ten times tighter, on a GPU a thousand times.
TIGHTER, MOST_TOLS = {"cpu": 10, "gpu": 1000}, {"cpu": 7, "gpu": 2}
# Rows and features of a fit that loads libraries and compiles kernels.
WARM_UP = (2_000, 50)
OURS = {
    "logistic": ours.LogisticRegression,
    "poisson": ours.PoissonRegressor,
    "l1": ours.ElasticNet,
}


class Map:
    """Workers of all contenders, and what bounds a run."""

    def __init__(self, args):
        self.args, self.on = args, args.device
        self.deadline = time.monotonic() + (args.budget or DEFAULT_BUDGET[self.on])
        self.limit = args.limit or DEFAULT_LIMIT[self.on]
        self._workers = {}

    def start(self, cells):
        """Start the workers of all contenders of some cells, and wait until all are ready."""
        names = dict.fromkeys(name for cell in cells for name in self.contenders_of(cell))
        for name in names:
            self.worker(name)
        print(f"started in {wait_for(self._workers.values()):.0f} s", file=sys.stderr)

    def contenders_of(self, cell):
        """Their names, gpuml first."""
        of = map_rivals.rivals_on_gpu if self.on == "gpu" else map_rivals.rivals_of
        return ["gpuml", *(name for name, _make in of(cell))]

    def worker(self, name):
        """The process of a contender."""
        if name not in self._workers:
            if self.on == "gpu":
                made = Worker(in_time, prepare_gpu, name, self.args.library)
            else:
                # Processes of a search live on for the next, as they do in a session.
                lives = name in map_rivals.WITH_PROCESSES
                made = Worker(in_time if lives else in_child, prepare_cpu, name)
            self._workers[name] = made
        return self._workers[name]

    def end(self):
        """End all processes."""
        for worker in self._workers.values():
            worker.end()

    def machine(self):
        """Facts about it, from a process that may use the GPU, and has all libraries loaded."""
        return self.worker("gpuml").ask(60, harness.machine)

    def measured(self, cell):
        """A scenario: gpuml and its rivals on the rows of a cell."""
        options = (cell, self.args.repeats, self.on, self.args.library)
        names = self.contenders_of(cell)
        contenders = []
        for name in names:
            if time.monotonic() > self.deadline:
                record = {"failed": "not run: the budget is used up"}
            elif name == "gpuml":
                record = self.worker(name).ask(self.limit, ours_on, *options)
            else:
                record = self.rival(name, contenders[0], options)
            contenders.append({"name": name, **record})
        tell(cell, contenders)
        problem = problem_of(cell, self.args.library if self.on == "gpu" else "numpy")
        return {"scenario": cell.name, "problem": problem, "contenders": contenders}

    def rival(self, name, own, options):
        """Record of a rival, within a time that would show it far behind."""
        median = own["seconds"]["median"] if "seconds" in own else None
        limit = self.limit
        if median is not None:
            limit = min(limit, FAR_SECONDS[self.on] + 2 * FAR * median)
        record = self.worker(name).ask(limit, rival_on, name, median, *options)
        if "seconds" in record and median is not None:
            record["ratio"] = record["seconds"]["median"] / median
        return record


def prepare_cpu(name):
    """Import what a rival needs, once for all cells."""
    gpuml.set_config(device="cpu")
    warnings.simplefilter("ignore")
    if name != "gpuml":
        import_module(map_rivals.PACKAGE.get(name, name))


def prepare_gpu(name, library):
    """The same, and the memory of the GPU as the library would have it."""
    warnings.simplefilter("ignore")
    if library == "cupy":
        harness.needed_cupy()
    if name == "cuml-array-api":
        _pool_of_rmm()
    if name == "himalaya":
        import_module("himalaya.backend").set_backend(library)
    if name != "gpuml":
        import_module(map_rivals.PACKAGE.get(name, name))
    if name.endswith("-array-api"):
        import sklearn

        sklearn.set_config(array_api_dispatch=True)


def _pool_of_rmm():
    """One pool for cuML and CuPy: without it, each array of cuML's asks the driver."""
    import cupy
    import rmm
    from rmm.allocators.cupy import rmm_cupy_allocator

    rmm.reinitialize(pool_allocator=True, initial_pool_size=2**32)
    cupy.cuda.set_allocator(rmm_cupy_allocator)


def problem_of(cell, library):
    """Facts of a cell."""
    model = map_cells.MODELS[cell.model]
    return {
        "rows": cell.n,
        "features": cell.d,
        "dtype": cell.dtype,
        "bytes": cell.n_bytes,
        "library": library,
        "candidates": model.grid_size,
        "splitter": cell.splitter if model.is_search else None,
        "filled": cell.filled,
        "classes": cell.classes if model.target == "classes" else None,
    }


def rows_on(cell, on, library):
    """X, y and what else `fit` takes."""
    if on == "gpu":
        return (*map_cells.rows_made_on(import_module(library), cell), {})
    groups = map_cells.groups_of(cell)
    return (*map_cells.rows_of(cell), {} if groups is None else {"groups": groups})


def warmed_up(make, X, y, on):
    """What `make` makes; on a GPU, after another one has seen a few rows."""
    if on == "gpu" and len(X) > WARM_UP[0]:
        rows, columns = WARM_UP
        make().fit(X[:rows, :columns], None if y is None else y[:rows])
    return make()


def ours_on(cell, repeats, on, library):
    """Record of gpuml: first run with its memory, the clock, what was planned."""
    X, y, params = rows_on(cell, on, library)
    made = warmed_up(lambda: map_cells.gpuml_of(cell), X, y, on)

    def fit():
        return made.fit(X, y, **params)

    own = harness.first_run(fit)
    own["seconds"] = harness.timing(fit, repeats, ENOUGH_SECONDS[on], LEAST_SECONDS)
    if hasattr(made, "plan_"):
        own["plan"] = str(made.plan_)
    return own


def rival_on(name, own_seconds, cell, repeats, on, library):
    """Record of a rival at the loosest tolerance that is as good as gpuml.

    Who is far behind at a looser one is run no more: a tighter tolerance takes longer still.
    """
    X, y, params = rows_on(cell, on, library)
    if name in map_rivals.WITH_PROCESSES:
        map_rivals.start_processes(name)
    make, kind = map_rivals.rival_of(cell, name, on == "gpu"), map_cells.MODELS[cell.model].kind
    tol = None
    for n_tols in range(MOST_TOLS[on]):
        made = warmed_up(lambda tol=tol: make(tol), X, y, on)
        record, seconds = first_seconds(lambda made=made: made.fit(X, y, **params), on)
        far = own_seconds is not None and seconds > FAR * own_seconds
        above = above_ours(kind, made, X, y)
        if above is None or above <= EQUAL or far or n_tols + 1 == MOST_TOLS[on]:
            break
        tol = (tol or 1e-4) / TIGHTER[on]
    if far:
        record |= {"seconds": harness.spread([seconds]), "tol": tol}
    else:
        fit = lambda: made.fit(X, y, **params)  # noqa: E731
        record |= {
            "seconds": harness.timing(fit, repeats, ENOUGH_SECONDS[on], LEAST_SECONDS),
            "tol": tol,
        }
    if above is not None:
        record["objective_above_gpuml"] = above
    return record


def first_seconds(fit, on):
    """Memory of the first run, and seconds of it, or of the next if that is short."""
    if "rmm" in sys.modules:
        record = rmm_run(fit)
    else:
        record = harness.first_run(fit)
    if record["first_seconds"] > COLD_SECONDS[on]:
        return record, record["first_seconds"]
    return record, harness.seconds_of(fit)


def rmm_run(fit):
    """`harness.first_run` where the memory of the GPU is RMM's."""
    try:
        import rmm.statistics

        rmm.statistics.enable_statistics()
    except (
        ImportError,
        AttributeError,
    ) as error:  # of an RMM without: the time counts all the same
        return harness.first_run(fit) | {"extra_pool_bytes": None, "memory": harness.failure(error)}
    with rmm.statistics.statistics():
        record = harness.first_run(fit)
        return record | {"extra_pool_bytes": rmm.statistics.get_statistics().peak_bytes}


def above_ours(kind, fitted, X, y):
    """By what share a rival's objective is above gpuml's at its penalties; None for exact ones."""
    value = map_rivals.objective(kind, fitted, X, y)
    if value is None:
        return None
    same = OURS[kind](**map_rivals.penalty_of(kind, fitted)).fit(X, y)
    own = map_rivals.objective(kind, same, X, y)
    return (value - own) / abs(own)


def tell(cell, contenders):
    """A line while it runs."""
    words = [
        f"{c['name']} {c['seconds']['median']:.4g}" if "seconds" in c else f"{c['name']} -"
        for c in contenders
    ]
    best = min((c["ratio"] for c in contenders if "ratio" in c), default=float("nan"))
    print(f"{best:8.2f}  {cell.key}:  {', '.join(words)}", file=sys.stderr, flush=True)


def show(scenarios):
    """A table of ratios to the best rival, the least first."""
    rows = []
    for scenario in scenarios:
        own, *rivals = scenario["contenders"]
        timed = [r for r in rivals if "ratio" in r]
        if "seconds" not in own or not timed:
            continue
        best = min(timed, key=lambda r: r["ratio"])
        problem = scenario["problem"]
        rows.append(
            {
                "cell": f"{scenario['scenario']}, {problem['dtype']}",
                "rows": f"{problem['rows']:,}",
                "features": f"{problem['features']:,}",
                "gpuml s": f"{own['seconds']['median']:.4f}",
                "best rival": best["name"],
                "ratio": best["ratio"],
            }
        )
    rows.sort(key=lambda row: row["ratio"])
    shown = [row | {"ratio": f"{row['ratio']:.2f}"} for row in rows]
    harness.print_table("Time of the best rival, in times of gpuml's", shown)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("--device", choices=["cpu", "gpu"], default="cpu", help="where rows are")
    add("--models", nargs="+", choices=list(map_cells.MODELS), default=list(map_cells.MODELS))
    add("--scale", type=float, default=1.0, help="share of the rows")
    add("--most-bytes", type=float, default=4e9, help="leave out cells with more rows")
    add("--repeats", type=int, default=5, help="timed runs, fewer of what takes long")
    add("--budget", type=float, help="seconds, after which nothing is run any more")
    add("--limit", type=float, help="seconds that a contender may take in all for a cell")
    add("--library", default="cupy", help="that makes rows on the GPU; numpy tries the script")
    add("--note", default="", help="a remark about the run, for its report")
    add("--json", type=Path, help="file for the report (default: standard output)")
    return parser.parse_args()


def main():
    args = parse_arguments()
    on_gpu = args.device == "gpu"
    gpuml.set_config(device="auto" if on_gpu else "cpu")
    warnings.simplefilter("ignore")
    all_cells = map_cells.cells_on_gpu if on_gpu else map_cells.cells
    chosen = [
        cell
        for cell in all_cells(args.scale)
        if cell.model in args.models and cell.n_bytes <= args.most_bytes
    ]
    report = {
        "benchmark": "map",
        "command": harness.without_paths(sys.argv[1:]),
        "environment": {
            name: os.environ[name] for name in (*THREADS, "SCIPY_ARRAY_API") if name in os.environ
        },
        "gpuml": gpuml.__version__,
        "device": args.device,
        "note": args.note,
        "scenarios": [],
    }
    run = Map(args)
    try:
        run.start(chosen)
        for cell in chosen:
            report["scenarios"].append(run.measured(cell))
            if args.json:  # who ends the run finds all cells until then
                report.setdefault("machine", run.machine())
                harness.write_json(report, args.json)
        report["machine"] = run.machine()
    finally:
        run.end()
    harness.write_json(report, args.json)
    show(report["scenarios"])


if __name__ == "__main__":
    main()
