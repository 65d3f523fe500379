"""The map: models x shapes x splits, gpuml against the best of what is installed.

    python benchmarks/map.py --json out/map_cpu.json
    python benchmarks/map.py --models Ridge Lasso --budget 60

Every cell times gpuml and all rivals that have the model, one after the other, each in a process of
its own, on the same rows in CPU memory. A rival that stops at a tolerance gets the loosest one (its
default, or that by tens less) at which its objective is as good as gpuml's at the rival's own
penalties. README.md beside this file says which rivals there are, and how to install them.
"""

import argparse
import multiprocessing
import os
import signal
import sys
import time
import warnings
from contextlib import suppress
from pathlib import Path

import _harness as harness
import _map_cells as map_cells
import _map_rivals as map_rivals

import gpuml
from gpuml import linear_model as ours

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
# No contender is run again after so many seconds of runs.
ENOUGH_SECONDS = 8.0
END_SECONDS = 10
# Relative difference of objectives that are as good as each other.
EQUAL = 1e-6
OURS = {
    "logistic": ours.LogisticRegression,
    "poisson": ours.PoissonRegressor,
    "l1": ours.ElasticNet,
}


def measured(cell, repeats, limit, deadline):
    """A scenario: gpuml and its rivals on the rows of a cell."""
    model = map_cells.MODELS[cell.model]
    own = in_child(limit, ours_on, cell, repeats)
    contenders = [{"name": "gpuml", **own}]
    for name, make in map_rivals.rivals_of(cell):
        if time.monotonic() > deadline:
            contenders.append({"name": name, "failed": "not run: the budget is used up"})
            continue
        record = in_child(limit, rival_on, cell, model.kind, make, repeats)
        if "seconds" in record and "seconds" in own:
            record["ratio"] = record["seconds"]["median"] / own["seconds"]["median"]
        contenders.append({"name": name, **record})
    tell(cell, contenders)
    return {"scenario": cell.name, "problem": problem_of(cell), "contenders": contenders}


def in_child(limit, function, *args):
    """What a function returns in a forked process, or why there is nothing after `limit` seconds.

    This process starts no threads and touches no rows, so that all contenders start alike.
    """
    forked = multiprocessing.get_context("fork")
    here, there = forked.Pipe(duplex=False)

    def work():
        os.setsid()  # so that its workers can be ended with it
        there.send(harness.attempt({}, lambda: function(*args)))

    process = forked.Process(target=work)
    process.start()
    there.close()
    try:
        if not here.poll(limit):
            return {"failed": f"not run to the end: more than {limit:g} s"}
        found = here.recv()
        process.join(END_SECONDS)  # it ends workers of its own
        return found
    except EOFError:
        return {"failed": f"its process ended with {process.exitcode}"}
    finally:
        process.kill()
        process.join()
        # Workers outlive who was killed, or died, before they had an answer, and take its cores.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def problem_of(cell):
    """Facts of a cell."""
    model = map_cells.MODELS[cell.model]
    return {
        "rows": cell.n,
        "features": cell.d,
        "dtype": cell.dtype,
        "bytes": cell.n_bytes,
        "library": "numpy",
        "candidates": model.grid_size,
        "splitter": cell.splitter if model.is_search else None,
        "filled": cell.filled,
    }


def ours_on(cell, repeats):
    """Record of gpuml: first run with its memory, the clock, what was planned."""
    made = map_cells.gpuml_of(cell)
    fit = fit_of(cell, made)
    own = harness.first_run(fit)
    own["seconds"] = harness.timing(fit, repeats, ENOUGH_SECONDS)
    if hasattr(made, "plan_"):
        own["plan"] = str(made.plan_)
    return own


def fit_of(cell, made):
    """A call that fits the rows of a cell."""
    X, y = map_cells.rows_of(cell)
    groups = map_cells.groups_of(cell)
    params = {} if groups is None else {"groups": groups}
    return lambda: made.fit(X, y, **params)


def rival_on(cell, kind, make, repeats):
    """Record of a rival at the loosest tolerance that is as good as gpuml."""
    tol, tried = None, 1e-4
    while True:
        made = make(tol)
        fit = fit_of(cell, made)
        fit()
        above = above_ours(kind, made, *map_cells.rows_of(cell))
        if above is None or above <= EQUAL or tried <= map_rivals.LEAST_TOL:
            break
        tol = tried = tried / 10
    record = {"seconds": harness.timing(fit, repeats, ENOUGH_SECONDS), "tol": tol}
    if above is not None:
        record["objective_above_gpuml"] = above
    return record


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
    add("--models", nargs="+", choices=list(map_cells.MODELS), default=list(map_cells.MODELS))
    add("--scale", type=float, default=1.0, help="share of the rows")
    add("--most-bytes", type=float, default=4e9, help="leave out cells with more rows")
    add("--repeats", type=int, default=5, help="timed runs, fewer of what takes long")
    add("--budget", type=float, default=3600, help="seconds, after which no rival is run any more")
    add("--limit", type=float, default=60, help="seconds that a contender may take in all")
    add("--note", default="", help="a remark about the run, for its report")
    add("--json", type=Path, help="file for the report (default: standard output)")
    return parser.parse_args()


def main():
    args = parse_arguments()
    gpuml.set_config(device="cpu")
    warnings.simplefilter("ignore")
    deadline = time.monotonic() + args.budget
    chosen = [
        cell
        for cell in map_cells.cells(args.scale)
        if cell.model in args.models and cell.n_bytes <= args.most_bytes
    ]
    scenarios = [measured(cell, args.repeats, args.limit, deadline) for cell in chosen]
    report = {
        "benchmark": "map",
        "command": harness.without_paths(sys.argv[1:]),
        "environment": {name: os.environ[name] for name in THREADS if name in os.environ},
        "gpuml": gpuml.__version__,
        "note": args.note,
        "scenarios": scenarios,
        "machine": harness.machine(),
    }
    harness.write_json(report, args.json)
    show(scenarios)


if __name__ == "__main__":
    main()
