"""How near fitted models are to their optimum: gpuml and scikit-learn, both at their defaults.

    python benchmarks/optimum.py --json out/optimum.json

Cells are those of the map whose models stop at a tolerance. README.md beside this file says how it
is measured.
"""

import argparse
import os
import sys
import warnings
from pathlib import Path
from time import perf_counter

import _harness as harness
import _map_cells as map_cells
import _map_rivals as map_rivals
from sklearn import linear_model as theirs
from sklearn.base import clone

import gpuml
from gpuml import linear_model as ours

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
# What the tight fits are given, of which the better one is the optimum.
TIGHT = {"tol": 1e-10, "max_iter": 20_000}
SEARCHES = ("LogisticRegression", "PoissonRegressor", "Lasso", "ElasticNet")
# No further cell is begun after so many seconds.
DEFAULT_BUDGET = 1200.0
# What takes longer than this is fitted once, and nothing is fitted again after so many seconds.
COLD_SECONDS, ENOUGH_SECONDS = 2.0, 2.0


def cells(scale):
    """Those of the map that stop at a tolerance, each shape once."""
    found = {}
    for cell in map_cells.cells(scale):
        if cell.model in SEARCHES and cell.splitter == "K-fold":
            found.setdefault((cell.model, cell.n, cell.d, cell.dtype, cell.filled), cell)
    return list(found.values())


def penalties_of(cell):
    """The weakest penalty of the search, one in the middle, and the strongest."""
    search = map_cells.gpuml_of(cell)
    (name, values), *rest = search.param_grid.items()
    fixed = {other: some[0] for other, some in rest}
    chosen = [float(values[i]) for i in (0, len(values) // 2, -1)]
    return name, chosen, fixed


def fitted(module, cell, X, y, params, repeats):
    """A fitted model, and the clock."""
    model = getattr(module, cell.model)(**params)
    first = harness.seconds_of(lambda: model.fit(X, y))
    if first > COLD_SECONDS:
        return model, harness.spread([first])
    return model, harness.timing(lambda: model.fit(X, y), repeats, ENOUGH_SECONDS)


def measured(cell, repeats):
    """A scenario for each of three penalties."""
    X, y = map_cells.rows_of(cell)
    kind = map_cells.MODELS[cell.model].kind
    name, values, fixed = penalties_of(cell)
    for value in values:
        params = {name: value, **fixed}
        found = {
            who: fitted(module, cell, X, y, params, repeats)
            for who, module in (("gpuml", ours), ("sklearn-one-process", theirs))
        }
        tight = clone(found["gpuml"][0]).set_params(**TIGHT).fit(X, y)
        at = {who: map_rivals.objective(kind, model, X, y) for who, (model, _) in found.items()}
        best = min(*at.values(), map_rivals.objective(kind, tight, X, y))
        contenders = []
        for who, (_, seconds) in found.items():
            gap = (at[who] - best) / abs(best)
            contenders.append({"name": who, "gap": gap, "seconds": seconds})
        own, rival = contenders
        rival["ratio"] = rival["seconds"]["median"] / own["seconds"]["median"]
        print(
            f"{cell.key} {name}={value:.3g}: {own['gap']:.1e} {rival['gap']:.1e}",
            file=sys.stderr,
            flush=True,
        )
        yield {
            "scenario": f"{cell.name}, {name} = {value:.3g}",
            "problem": problem_of(cell),
            "contenders": contenders,
        }


def problem_of(cell):
    """Facts of a cell; one model is fitted to all of its rows."""
    return {
        "rows": cell.n,
        "features": cell.d,
        "dtype": cell.dtype,
        "bytes": cell.n_bytes,
        "library": "numpy",
    }


def show(scenarios):
    """Print all of them as a table."""
    rows = []
    for scenario in scenarios:
        problem, (own, rival) = scenario["problem"], scenario["contenders"]
        shape = f"{problem['rows']:,} x {problem['features']:,} {problem['dtype']}"
        rows.append(
            {
                "model": scenario["scenario"],
                "rows": shape,
                "gpuml": f"{own['gap']:.0e}",
                "scikit-learn": f"{rival['gap']:.0e}",
            }
        )
    harness.print_table("Objective above the optimum, as a share of it", rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--scale", type=float, default=1.0, help="share of the rows")
    parser.add_argument("--repeats", type=int, default=5, help="timed runs of what is short")
    parser.add_argument("--budget", type=float, default=DEFAULT_BUDGET, help="seconds in all")
    parser.add_argument("--json", type=Path, help="file for the report")
    args = parser.parse_args()
    gpuml.set_config(device="cpu")
    warnings.simplefilter("ignore")
    report = {
        "benchmark": "optimum",
        "command": harness.without_paths(sys.argv[1:]),
        "environment": {name: os.environ[name] for name in THREADS if name in os.environ},
        "gpuml": gpuml.__version__,
        "machine": harness.machine(),
        "scenarios": [],
    }
    end = perf_counter() + args.budget
    for cell in cells(args.scale):
        if perf_counter() > end:
            report["unfinished"] = "the budget is used up"
            break
        report["scenarios"] += measured(cell, args.repeats)
    harness.write_json(report, args.json)
    show(report["scenarios"])


if __name__ == "__main__":
    main()
