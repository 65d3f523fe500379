"""How time grows: one factor at a time around a base case, gpuml and scikit-learn in the same run.

    python benchmarks/sweep.py --device cpu --json out/sweep_cpu.json
    python benchmarks/sweep.py --device cuda --json out/sweep_gpu.json

Searches over Ridge and LogisticRegression; factors (``--factors``, all by default):

    n           rows
    d           features
    candidates  of the grid
    folds       of the cross-validation
    classes     of LogisticRegression

gpuml has float64 rows in host memory on a CPU, and float32 rows in the memory of the GPU. Its rival
is scikit-learn on the CPU of the same machine, with rows of the same type. README.md beside this
file says how it is measured.
"""

import argparse
import os
import sys
import time
import warnings
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import _harness as harness
import numpy as np
from logistic_search import make_classes
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression as SklearnLogisticRegression
from sklearn.linear_model import Ridge as SklearnRidge
from sklearn.model_selection import GridSearchCV as SklearnGridSearchCV

import gpuml
from gpuml.linear_model import LogisticRegression, Ridge
from gpuml.model_selection import GridSearchCV

SEED = 0
WARM_UP_ROWS = 1_000
# For all numbers of folds and classes.
FEWEST_ROWS = 500
# A contender is not run again after so many seconds of runs.
ENOUGH_SECONDS = {"cpu": 1.0, "cuda": 0.3}
LIMIT_BYTES = {"cpu": 2**28, "cuda": 2**32}
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True)
class Case:
    """One search; the number of classes is None for Ridge."""

    model: str
    n: int
    d: int
    candidates: int = 10
    folds: int = 5
    classes: int | None = None

    @property
    def columns(self):
        """Of the coefficients of all models together."""
        return self.candidates * self.folds * (self.classes if (self.classes or 2) > 2 else 1)

    @property
    def work(self):
        """What the time of scikit-learn is about proportional to, from what was seen of it."""
        width = self.d * (self.d + 100 if self.model == "Ridge" else 100 * (self.classes or 2))
        return self.n * width * self.candidates * self.folds


BASES = {
    "cpu": {"n": 20_000, "d": 50},
    "cuda": {"n": 200_000, "d": 100},
}
LEVELS = {
    "cpu": {"n": (1_000, 5_000, 20_000, 80_000, 320_000), "d": (10, 25, 50, 100, 200)},
    "cuda": {"n": (10_000, 50_000, 200_000, 1_000_000, 5_000_000), "d": (25, 50, 100, 200, 400)},
}
SAME_LEVELS = {"candidates": (1, 3, 10, 30, 100), "folds": (2, 5, 10, 20), "classes": (2, 3, 5, 10)}
FACTORS = ("n", "d", "candidates", "folds", "classes")
# scikit-learn's time on so many would say nothing that fewer do not.
MOST_RIVAL_ROWS = 1_000_000
DEFAULT_BUDGET = {"cpu": 110, "cuda": 75}


def bases(device, scale=1.0):
    """The case of each model that all others differ from in one factor."""
    size = BASES[device] | {"n": _rows(BASES[device]["n"], scale)}
    base = Case("Ridge", **size)
    return base, replace(base, model="LogisticRegression", classes=2)


def _rows(n, scale):
    return max(FEWEST_ROWS, int(n * scale))


def cases(device, factors, scale):
    """All cases, each once."""
    found = []
    for base in bases(device, scale):
        found.append(base)
        for factor in factors:
            if factor == "classes" and base.classes is None:
                continue
            for level in (LEVELS[device] | SAME_LEVELS)[factor]:
                level = _rows(level, scale) if factor == "n" else level
                found.append(replace(base, **{factor: level}))
    return list(dict.fromkeys(found))


# ---------------------------------------------------------------- data and searches


def rows_of(case, device):
    """Rows and target, made where gpuml works on them."""
    xp = harness.needed_cupy() if device == "cuda" else np
    dtype = np.float32 if device == "cuda" else np.float64
    if case.classes:
        return make_classes(xp, case.n, case.d, case.classes, dtype)
    random = xp.random.default_rng(SEED)
    X = random.standard_normal((case.n, case.d), dtype=dtype)
    w = random.standard_normal(case.d, dtype=dtype)
    return X, X @ w + case.d**0.5 * random.standard_normal(case.n, dtype=dtype)


def search_of(case, jobs=None, ours=True):
    """The search by gpuml, or by scikit-learn with so many processes."""
    if case.model == "Ridge":
        grid, scoring = {"alpha": np.logspace(-3, 3, case.candidates)}, "r2"
        estimator = Ridge() if ours else SklearnRidge(solver="cholesky")
    else:
        grid, scoring = {"C": np.logspace(-4, 4, case.candidates)}, "accuracy"
        estimator = LogisticRegression() if ours else SklearnLogisticRegression()
    options = {"cv": case.folds, "scoring": scoring}
    if ours:
        return GridSearchCV(estimator, grid, **options)
    return SklearnGridSearchCV(estimator, grid, n_jobs=jobs, error_score="raise", **options)


# ---------------------------------------------------------------- measuring


class Sweep:
    """Where, how often, and for how long."""

    def __init__(self, options):
        self.device, self.jobs, self.repeats = options.device, options.jobs, options.repeats
        self.enough, self.rivals = ENOUGH_SECONDS[self.device], not options.no_rival
        budget = options.budget or DEFAULT_BUDGET[self.device]
        self.budget, self.deadline = budget, time.monotonic() + budget
        self.seconds_of_work = {}

    def run(self, all_cases):
        """Records of all cases: gpuml first, then scikit-learn from the least work to the most."""
        records, scores = {}, {}
        for case in all_cases:
            records[case] = self.described(case)
            own = harness.attempt({"name": "gpuml"}, lambda c=case: self.ours(c))
            if "failed" in own:
                print(f"{case}: {own['failed']}", file=sys.stderr, flush=True)
            scores[case] = own.pop("scores", None)
            records[case]["breakdown_seconds"] = own.pop("products", {})
            records[case]["contenders"].append(own)
        if self.rivals:
            known = [case for case in all_cases if scores[case] is not None]
            for case in sorted(known, key=lambda case: case.work):
                rival = harness.attempt(
                    {"name": "sklearn"}, lambda c=case: self.rival(c, scores[c])
                )
                own = records[case]["contenders"][0]
                if "seconds" in rival:
                    rival["ratio"] = rival["seconds"]["median"] / own["seconds"]["median"]
                records[case]["contenders"].append(rival)
        return list(records.values())

    def described(self, case):
        """A scenario without contenders."""
        dtype = np.dtype("float32" if self.device == "cuda" else "float64")
        facts = {"rows": case.n, "features": case.d, "dtype": dtype.name}
        facts |= {"bytes": case.n * case.d * dtype.itemsize}
        facts |= {"library": "cupy" if self.device == "cuda" else "numpy"}
        return {"scenario": case.model, "problem": asdict(case) | facts, "contenders": []}

    def ours(self, case):
        """gpuml's record, with its scores and the time of bare products."""
        X, y = rows_of(case, self.device)
        search = search_of(case)
        own = harness.first_run(lambda: search.fit(X, y))
        own |= harness.moved_by(lambda: search.fit(X, y))
        own["seconds"] = harness.timing(lambda: search.fit(X, y), self.repeats, self.enough)
        plan = search.plan_
        own |= {"plan": str(plan), "passes": plan.n_passes, "place": plan.place}
        tell(case, {"name": "gpuml"} | own)
        own["products"] = self.products(case, X)
        return own | {"scores": search.cv_results_["mean_test_score"]}

    def products(self, case, X):
        """What each reading of the rows cannot do without."""
        if case.model == "Ridge":
            name = f"one product X'X in {X.dtype}"

            def product():
                return X.T @ X

        else:
            W = X[: case.columns].T.copy()
            name = f"products of X with {W.shape[1]} vectors and back, in {X.dtype}"

            def product():
                return X.T @ (X @ W)

        product()
        return {name: harness.timing(product, self.repeats, self.enough)["median"]}

    def rival(self, case, our_scores):
        """What scikit-learn needs, if there is time for it."""
        if case.n > MOST_RIVAL_ROWS:
            return {"failed": f"not run: more than {MOST_RIVAL_ROWS:,} rows"}
        expected = self.seconds_of_work.get(case.model, 0) * case.work
        if time.monotonic() + expected > self.deadline:
            return {"failed": f"not run: about {expected:.0f} s, more than the budget leaves"}
        X, y = (harness.to_host(a) for a in rows_of(case, self.device))
        search = search_of(case, self.jobs, ours=False)
        search.fit(X[:WARM_UP_ROWS], y[:WARM_UP_ROWS])
        # Longer than the limit: once is enough.
        seconds = harness.timing(lambda: search.fit(X, y), self.repeats, self.enough)
        self.seconds_of_work[case.model] = seconds["median"] / case.work
        difference = np.abs(search.cv_results_["mean_test_score"] - our_scores).max()
        record = {"seconds": seconds, "largest_mean_score_difference": float(difference)}
        tell(case, {"name": "sklearn"} | record)
        return record


def limits(device):
    """Bytes a second of a copy, and operations a second of a product of large matrices."""
    xp = harness.needed_cupy() if device == "cuda" else np
    dtype = xp.float32 if device == "cuda" else xp.float64
    size = 8192 if device == "cuda" else 1024
    # A copy reads and writes.
    copied, operations = 2 * LIMIT_BYTES[device], 2 * size**3
    return {
        "copy": copied / _seconds_of_copy(xp, LIMIT_BYTES[device]),
        "operations": operations / _seconds_of_product(xp.ones((size, size), dtype=dtype)),
        "dtype": np.dtype(dtype).name,
    }


def _seconds_of_copy(xp, n_bytes):
    one, other = xp.ones(n_bytes, dtype=xp.uint8), xp.ones(n_bytes, dtype=xp.uint8)
    return harness.timing(lambda: xp.copyto(other, one), 5)["median"]


def _seconds_of_product(A):
    A @ A  # the library's start
    return harness.timing(lambda: A @ A, 5)["median"]


def tell(case, record):
    """A line while it runs."""
    seconds = record["seconds"]
    print(
        f"{case.model:18} n={case.n:<9,} d={case.d:<4} {case.candidates:3} candidates "
        f"{case.folds:2} folds  {record['name']:8} {seconds['median']:.4f} s "
        f"({seconds['repeats']} runs)",
        *([f"{case.classes} classes"] if case.classes else []),
        file=sys.stderr,
        flush=True,
    )


# ---------------------------------------------------------------- telling about it


def show(records, device, scale, factors):
    """Print a table for each model and factor."""
    for base in bases(device, scale):
        fixed = {key: value for key, value in asdict(base).items() if value is not None}
        for factor in factors:
            same = [r for r in records if _differs_only_in(factor, r["problem"], fixed)]
            if len(same) > 1:
                same.sort(key=lambda record: record["problem"][factor])
                rows = [_row(factor, record) for record in same]
                harness.print_table(f"{base.model}, by {factor}", rows)


def _differs_only_in(factor, problem, fixed):
    return all(problem[key] == value for key, value in fixed.items() if key != factor) and (
        factor in fixed
    )


def _row(factor, record):
    own, *rivals = record["contenders"]
    row = {factor: f"{record['problem'][factor]:,}"}
    row |= {
        "gpuml s": f"{own['seconds']['median']:.4f}" if "seconds" in own else own["failed"][:60]
    }
    row["passes"] = own.get("passes")
    for rival in rivals or [{"failed": ""}]:
        row["sklearn s"] = _median(rival)
        row["ratio"] = harness.cell(rival.get("ratio"), ".1f")
    return row


def _median(record):
    clock = record.get("seconds")
    return f"{clock['median']:.4f}" if clock else record["failed"][:60]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("--device", choices=["cpu", "cuda"], default="cpu")
    add("--factors", nargs="+", choices=FACTORS, default=list(FACTORS))
    add("--scale", type=float, default=1.0, help="share of the rows")
    add("--jobs", type=int, default=-1, help="processes of scikit-learn's searches")
    add("--repeats", type=int, default=5, help="timed runs, fewer of what takes long")
    add("--budget", type=float, help="seconds, after which scikit-learn is not run any more")
    add("--no-rival", action="store_true", help="leave scikit-learn out")
    add("--note", default="", help="a remark about the run, for its report")
    add("--json", type=Path, help="file for the report (default: standard output)")
    return parser.parse_args()


def main():
    args = parse_arguments()
    gpuml.set_config(device="auto" if args.device == "cuda" else "cpu")
    # Who has converged, and why it took long, is not the question here.
    warnings.simplefilter("ignore", ConvergenceWarning)
    sweep = Sweep(args)
    warm_up(args.device)
    records = sweep.run(cases(args.device, args.factors, args.scale))
    report = {
        "benchmark": "sweep",
        "command": harness.without_paths(sys.argv[1:]),
        "environment": {name: os.environ[name] for name in THREADS if name in os.environ},
        "gpuml": gpuml.__version__,
        "device": args.device,
        "note": args.note,
        "budget_seconds": sweep.budget,
        "limits": limits(args.device),
        "scenarios": records,
        "machine": harness.machine(),
    }
    harness.write_json(report, args.json)
    show(records, args.device, args.scale, args.factors)


def warm_up(device):
    """Imports, compiled kernels, the context of the GPU."""
    for base in bases(device):
        case = replace(base, n=WARM_UP_ROWS)
        search_of(case).fit(*rows_of(case, device))


if __name__ == "__main__":
    main()
