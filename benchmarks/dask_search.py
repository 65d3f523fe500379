"""Searches and fits over the workers of a cluster, beside those of others on the same workers.

    python benchmarks/dask_search.py --device cpu --workers 4 --json out/dask_search.json
    python benchmarks/dask_search.py --device cuda --workers 2 --json out/dask_search_2.json

Scenarios (``--scenario``, all by default):

    scaling   10 candidates x 5 folds of Ridge and LogisticRegression: rows on one worker, against
              as many rows for each of all workers (weak scaling); and the same with so few rows
              that only the start-up is left: questions to the scheduler, one task per worker
    overhead  a small search (442 x 10) on one device and on the cluster
    fits      row-sharded Ridge and LogisticRegression, and cuml.dask's classes on the same rows
    generic   forests fitted one by one: on one worker, and on all
    rivals    the same Ridge search by dask-ml's GridSearchCV, and by scikit-learn's on joblib's
              dask backend, over cuML's Ridge (on CPUs over scikit-learn's)

Rows are made on the workers and stay there, but for `overhead`, `generic` and `rivals`, where they
come from the client. README.md beside this file says how it is measured.
"""

import argparse
import sys
import time
import warnings
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import _harness as harness
import dask
import dask.array as da
import joblib
import numpy as np
from distributed import Client, wait
from joblib import cpu_count
from sklearn.datasets import load_diabetes
from sklearn.model_selection import GridSearchCV as SklearnGridSearchCV

import gpuml
import gpuml_dask
from gpuml.linear_model import LogisticRegression, Ridge
from gpuml.model_selection import GridSearchCV as OneDeviceGridSearchCV
from gpuml_dask import linear_model as divided
from gpuml_dask.model_selection import GridSearchCV

ALPHAS = {"alpha": np.logspace(-3, 3, 10)}
CS = {"C": np.logspace(-3, 1, 10)}
FOLDS = 5
FEATURES = 100
ROWS = {"cpu": 100_000, "cuda": 8_000_000}
REPEATS = 15
# Of the rows, those that take no time themselves; enough for all folds.
FEW, FEWEST_ROWS = 1 / 400, 200
CHUNKS_PER_WORKER = 4
SEED = 0


# ---------------------------------------------------------------- rows on workers


def made(client, n_rows, device, kind):
    """Rows and targets as dask arrays on the workers: standard normal float32 features."""
    workers = sorted(client.scheduler_info(n_workers=-1)["workers"])
    n_chunks = len(workers) * CHUNKS_PER_WORKER
    rows, targets = [], []
    for i in range(n_chunks):
        size = n_rows // n_chunks
        # As many chunks on each worker, whoever is the first to be free.
        both = client.submit(_chunk, i, size, device, kind, workers=[workers[i % len(workers)]])
        X, y = (dask.delayed(_part)(both, j) for j in (0, 1))
        rows.append(da.from_delayed(X, (size, FEATURES), meta=_meta(device, 2, "float32")))
        dtype = "float32" if kind == "regression" else "int32"
        targets.append(da.from_delayed(y, (size,), meta=_meta(device, 1, dtype)))
    X, y = client.persist([da.concatenate(rows), da.concatenate(targets)])
    wait([X, y])
    return X, y


def _part(both, number):
    return both[number]


def _meta(device, ndim, dtype):
    """An empty array of the kind that chunks are."""
    if device == "cpu" or not harness.has_gpu():
        return np.empty((0,) * ndim, dtype=dtype)
    import cupy

    return cupy.empty((0,) * ndim, dtype=dtype)


def _chunk(number, n_rows, device, kind):
    """A chunk of rows; the same numbers in every run on a device."""
    xp = np
    if device != "cpu":
        import cupy as xp
    random = xp.random.default_rng(SEED + number)
    X = random.standard_normal((n_rows, FEATURES), dtype=xp.float32)
    score = X @ xp.linspace(-1, 1, FEATURES, dtype=xp.float32) / 3
    noise = random.standard_normal(n_rows, dtype=xp.float32)
    if kind == "regression":
        return X, score + noise
    return X, (score + noise > 0).astype(xp.int32)


# ---------------------------------------------------------------- scenarios


def scaling(bench):
    """Weak scaling: n rows on one worker, k n rows on k workers."""
    report = []
    searches = (
        ("Ridge", Ridge(), ALPHAS, "regression"),
        ("LogisticRegression", LogisticRegression(), CS, "classification"),
    )
    for n_workers in (1, bench.n_workers):
        with bench.cluster(n_workers) as client:
            for name, estimator, grid, kind in searches:
                X, y = made(client, bench.rows * n_workers, bench.device, kind)
                run = partial(_search, estimator, grid, client, X, y)
                first = harness.seconds_of(run)
                row = {"search": name, "workers": n_workers, "rows": X.shape[0], "first": first}
                times = harness.timing(run, bench.repeats)
                plan = str(run().plan_)
                X, y = made(
                    client, max(FEWEST_ROWS, int(bench.rows * FEW)) * n_workers, bench.device, kind
                )
                few = partial(_search, estimator, grid, client, X, y)
                few()
                start_up = harness.timing(few, bench.repeats)["median"]
                _tell(report, {**row, **times, "start-up": start_up, "plan": plan})
                del X, y, run, few
    return sorted(report, key=lambda row: row["search"], reverse=True)


def _search(estimator, grid, client, X, y):
    # Chunks are the pieces, so that every worker has some also where all of them are small.
    pieces = X.nbytes // X.numblocks[0]
    with dask.config.set({"gpuml.plan": "rows", "gpuml.piece-bytes": pieces}):
        return GridSearchCV(estimator, grid, cv=FOLDS, refit=False, client=client).fit(X, y)


def _tell(report, row):
    """Add a row to a report, and show it at once: some take minutes."""
    report.append(row)
    print(_cells(row), file=sys.stderr, flush=True)


def efficiencies(report):
    """Seconds on one worker divided by those on all, by search."""
    found = []
    for name in dict.fromkeys(row["search"] for row in report):
        one, many = (row for row in report if row["search"] == name)
        found.append(
            {
                "search": name,
                "efficiency": one["median"] / many["median"],
                "start-up": many["start-up"],
                "first run": many["first"],
            }
        )
    return found


def overhead(bench):
    """A small search: what the cluster adds."""
    X, y = load_diabetes(return_X_y=True)
    alone = OneDeviceGridSearchCV(Ridge(), ALPHAS, cv=FOLDS)
    with bench.cluster(bench.n_workers) as client:
        spread = GridSearchCV(Ridge(), ALPHAS, cv=FOLDS, client=client)
        spread.fit(X, y)
        here = harness.timing(lambda: alone.fit(X, y), 10)
        there = harness.timing(lambda: spread.fit(X, y), 10)
    same = np.array_equal(
        alone.cv_results_["mean_test_score"], spread.cv_results_["mean_test_score"]
    )
    return [
        {"search": "one device", **here, "same scores": True},
        {"search": "cluster", **there, "same scores": same},
        {"search": "difference", "median": there["median"] - here["median"]},
    ]


def fits(bench):
    """Row-sharded estimators; on GPUs beside cuml.dask's."""
    report = []
    with bench.cluster(bench.n_workers) as client:
        for name, kind in (("Ridge", "regression"), ("LogisticRegression", "classification")):
            X, y = made(
                client, bench.sized(4_000_000 * bench.n_workers, bench.rows), bench.device, kind
            )
            contenders = {"gpuml_dask": lambda name=name: getattr(divided, name)()}
            if bench.gpu:
                contenders["cuml.dask"] = lambda name=name, client=client: cuml_dask(name, client)
            for who, make in contenders.items():
                run = partial(_fit, make, X, y)
                first = harness.seconds_of(run)
                _tell(
                    report,
                    {
                        "estimator": name,
                        "of": who,
                        "rows": X.shape[0],
                        "first": first,
                        **harness.timing(run, 5),
                    },
                )
    return report


def _fit(make, X, y):
    return make().fit(X, y)


def cuml_dask(name, client):
    from cuml.dask import linear_model

    return getattr(linear_model, name)(client=client)


def generic(bench):
    """An estimator that is fitted one by one."""
    n_rows = bench.sized(500_000, int(20_000 * bench.scale))
    grid = {"n_estimators": [10, 20, 40], "max_depth": [6, 8, 10, 12]}
    if not bench.gpu:
        grid = {"n_estimators": [5, 10, 20], "max_depth": [4, 6, 8, 10]}
    random = np.random.default_rng(SEED)
    X = random.standard_normal((n_rows, 50), dtype=np.float32)
    y = (X[:, 0] * X[:, 1] + X[:, 2] > 0).astype(np.int32)
    report = []
    for n_workers in (1, bench.n_workers):
        with (
            bench.cluster(n_workers) as client,
            gpuml_dask.place(X, y, client=client) as table,
        ):
            search = GridSearchCV(bench.forest(), grid, cv=FOLDS, refit=False, client=client)
            run = partial(search.fit, table.X, y)
            first = harness.seconds_of(run)
            _tell(
                report,
                {
                    "search": "forests, 12 x 5",
                    "workers": n_workers,
                    "rows": n_rows,
                    "first": first,
                    **harness.timing(run, 2),
                },
            )
    return report


def rivals(bench):
    """The Ridge search from rows of the client, by three libraries on the same workers."""
    n_rows = bench.sized(400_000, bench.rows)
    X, y = _chunk(0, n_rows, "cpu", "regression")
    report = []
    with bench.cluster(bench.n_workers) as client:
        contenders = {
            "gpuml_dask": lambda: GridSearchCV(Ridge(), ALPHAS, cv=FOLDS, client=client).fit(X, y),
            "scikit-learn, joblib dask": lambda: on_joblib(bench.ridge(), X, y),
            "dask-ml": lambda: dask_ml(bench.ridge(), X, y, client),
        }
        for who, run in contenders.items():
            try:
                first = harness.seconds_of(run)
                again = harness.timing(run, 3 if who == "gpuml_dask" else 1)
            except Exception as error:  # a rival that fails is a result too
                _tell(report, {"search": who, "rows": n_rows, "error": repr(error)[:200]})
                continue
            _tell(report, {"search": who, "rows": n_rows, "first": first, **again})
    return report


def on_joblib(estimator, X, y):
    with joblib.parallel_config("dask", wait_for_workers_timeout=60):
        return SklearnGridSearchCV(estimator, ALPHAS, cv=FOLDS, error_score="raise").fit(X, y)


def dask_ml(estimator, X, y, client):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from dask_ml.model_selection import GridSearchCV as DaskMLGridSearchCV
    return DaskMLGridSearchCV(estimator, ALPHAS, cv=FOLDS, scheduler=client).fit(X, y)


SCENARIOS = {
    "scaling": scaling,
    "overhead": overhead,
    "fits": fits,
    "generic": generic,
    "rivals": rivals,
}


# ---------------------------------------------------------------- the run


class Bench:
    """Where and how large."""

    def __init__(self, device, n_workers, rows, repeats, scale=1.0):
        self.device, self.n_workers, self.repeats = device, n_workers, repeats
        self.gpu, self.scale = device == "cuda", scale
        self.rows = int((rows or ROWS[device]) * scale)
        self.starts = []

    def sized(self, on_gpus, on_cpus):
        """Rows of a scenario that has a size of its own on GPUs."""
        return int(on_gpus * self.scale) if self.gpu else on_cpus

    @contextmanager
    def cluster(self, n_workers):
        start = time.perf_counter()
        # On CPUs a worker by itself has as many cores as each of all.
        threads = None if self.gpu else max(1, cpu_count() // self.n_workers)
        with (
            gpuml_dask.make_cluster(
                n_workers, device=self.device, threads_per_worker=threads
            ) as cluster,
            Client(cluster) as client,
        ):
            client.wait_for_workers(n_workers)
            client.run(_imported)
            self.starts.append({"workers": n_workers, "seconds": time.perf_counter() - start})
            yield client

    def forest(self):
        if not self.gpu:
            from sklearn.ensemble import RandomForestClassifier

            return RandomForestClassifier(random_state=SEED)
        from cuml.ensemble import RandomForestClassifier

        return RandomForestClassifier()

    def ridge(self):
        if not self.gpu:
            from sklearn.linear_model import Ridge as SklearnRidge

            return SklearnRidge()
        from cuml.linear_model import Ridge as CumlRidge

        return CumlRidge()


def _imported():
    """Import on a worker what tasks are going to need."""
    import gpuml_dask.model_selection

    return gpuml_dask.model_selection.__name__


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scenario", nargs="*", choices=SCENARIOS, default=list(SCENARIOS))
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--rows", type=int, help="rows per worker of `scaling`")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the rows")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    bench = Bench(options.device, options.workers, options.rows, options.repeats, options.scale)
    report = {"benchmark": "dask_search", "command": harness.without_paths(sys.argv[1:])}
    report |= {"device": options.device, "workers": options.workers, "gpuml": gpuml.__version__}
    for name in options.scenario:
        report[name] = SCENARIOS[name](bench)
        harness.print_table(name, [_cells(row) for row in report[name]])
        if name == "scaling":
            report["efficiency"] = efficiencies(report["scaling"])
            harness.print_table("weak scaling", [_cells(row) for row in report["efficiency"]])
        report["cluster_starts"] = bench.starts
        # Not earlier: it makes a CUDA context, and workers are to have theirs first.
        report["machine"] = report.get("machine") or harness.machine()
        if options.json:  # after each, because the next may take long, or fail
            harness.write_json(report, options.json)


def _cells(row):
    shown = {key: value for key, value in row.items() if key not in ("runs", "plan")}
    return {k: round(v, 4) if isinstance(v, float) else v for k, v in shown.items()}


if __name__ == "__main__":
    main()
