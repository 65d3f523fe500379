"""Models of cuML with scikit-learn's faces: what the face costs, and what a GPU gains.

    python benchmarks/adapters.py --device cuda --json out/adapters.json
    python benchmarks/adapters.py --device cpu --scenario face --json out/adapters_cpu.json

Scenarios (``--scenario``, all by default; on a CPU `face` alone):

    face    gpuml's classes beside the classes that do their work, on the same rows, call by call in
            turn: cuML's on a GPU, scikit-learn's on a CPU; 1,000 and 1,000,000 rows of 50 features.
            cuML's twice: as it is imported, and with a pool of memory, as ours have it
    search  a search over each class that scores, two candidates on five folds of rows on the GPU,
            beside the fits and predictions of cuML's class, and beside scikit-learn's search over
            that from host memory
    models  UMAP, forests, k-means and neighbours on a GPU, beside scikit-learn and umap-learn on
            the CPU of the same machine

README.md beside this file says how it is measured.
"""

import argparse
import statistics
import sys
from functools import partial
from pathlib import Path

import _harness as harness
import numpy as np
from _adapter_searches import CASES, against_bare, target_of

import gpuml
from gpuml._cuml import import_cuml
from gpuml.adapters._cuml_memory import pooled_memory
from gpuml.cluster import KMeans
from gpuml.ensemble import RandomForestClassifier
from gpuml.manifold import UMAP
from gpuml.neighbors import NearestNeighbors

FEATURES = 50
ROWS = (1_000, 1_000_000)
QUERIES = 1_000
CLUSTERS = 8
SEED = 0
# Of k-means: nothing stops before the iterations that are asked for, and cuML refuses 0.
TOL = 1e-30
# Of the face: at most so much of the time with many rows, and so many seconds with few.
MOST_SHARE, MOST_SECONDS = 0.03, 2e-3
# Rows of each model of `models`: as many as CPUs of 16 cores do in a minute at most.
MODEL_ROWS = {"UMAP": 20_000, "forest": 100_000, "k-means": 1_000_000, "neighbours": 1_000_000}


def rows_of(n_rows):
    """Rows around a few centres, and the centre of each."""
    random = np.random.default_rng(SEED)
    y = random.integers(CLUSTERS, size=n_rows, dtype=np.int32)
    centres = 4 * random.standard_normal((CLUSTERS, FEATURES), dtype=np.float32)
    return centres[y] + random.standard_normal((n_rows, FEATURES), dtype=np.float32), y


# ---------------------------------------------------------------- what the face costs


def face(device, repeats, all_rows, tell):
    """Ours and the bare class in turn, so that both see the same machine."""
    for n_rows in all_rows:
        X, y = on_device(device, *rows_of(n_rows))
        for name, ours, bare in cases(device, X, y):
            calls = {"ours": ours, "bare": bare}
            if device == "cuda":
                calls["bare, pooled"] = pooled(bare)
            for call in calls.values():
                call()  # imports, compiled kernels
            runs = [[harness.seconds_of(call) for call in calls.values()] for _ in range(repeats)]
            medians = [statistics.median(times) for times in zip(*runs, strict=True)]
            row = {"call": name, "rows": n_rows, **dict(zip(calls, medians, strict=True))}
            extra = row["ours"] - row["bare"]
            allowed = max(MOST_SHARE * row["bare"], MOST_SECONDS)
            tell({**row, "extra": extra, "as asked": extra <= allowed, "runs": runs})


def pooled(call):
    """The same call with the pool for cuML's memory that our classes have."""

    def with_pool():
        with pooled_memory():
            return call()

    return with_pool


def cases(device, X, y):
    """Names, calls of ours and calls of the bare class with the same parameters."""
    start = X[:CLUSTERS]
    clusters = {"n_clusters": CLUSTERS, "init": start, "n_init": 1, "max_iter": 5, "tol": TOL}
    yield from of_class("KMeans", KMeans, device, clusters, (X,), "predict", X)
    queries = X[:QUERIES]
    neighbours = {"n_neighbors": 5, "algorithm": "brute"}
    yield from of_class(
        "NearestNeighbors", NearestNeighbors, device, neighbours, (X,), "kneighbors", queries
    )
    forest = {"n_estimators": 10, "max_depth": 8, "random_state": SEED}
    yield from of_class(
        "RandomForestClassifier", RandomForestClassifier, device, forest, (X, y), "predict", X
    )


def of_class(name, ours, device, params, rows, use, queries):
    """Fit, and one use of the fitted models."""
    bare = bare_class(ours, device)
    # cuML's names of parameters are scikit-learn's here.
    yield f"{name}.fit", lambda: ours(**params).fit(*rows), lambda: bare(**params).fit(*rows)
    our_model, bare_model = ours(**params).fit(*rows), bare(**params).fit(*rows)
    yield (
        f"{name}.{use}",
        lambda: getattr(our_model, use)(queries),
        lambda: getattr(bare_model, use)(queries),
    )


def bare_class(ours, device):
    """The class that does the work."""
    if device == "cpu":
        return ours._row.sk
    import importlib

    # As gpuml does it: with CuPy's pool of memory for both, which cuML's own import takes away.
    import_cuml()

    module, _, name = ours._row.cuml.rpartition(".")
    return getattr(importlib.import_module(module), name)


def on_device(device, *arrays):
    if device == "cpu":
        return arrays
    import cupy

    return tuple(cupy.asarray(x) for x in arrays)


# ---------------------------------------------------------------- searches


def search(device, names, repeats, scale, tell):
    """Ours and the bare fits in turn, for each class."""
    for case in CASES:
        if names and case.name not in names:
            continue
        host_X, centre = rows_of(max(500, int(scale * case.rows)))
        host_y = target_of(case, host_X, centre)
        there = on_device(device, *(a for a in (host_X, host_y) if a is not None))
        data = (there[0], there[1] if len(there) > 1 else None, host_X, host_y)
        on_gpu = device == "cuda"
        bare_only = case.bare_only if on_gpu else {}
        wrap = pooled if on_gpu else None
        kind = bare_class(case.ours, device)
        tell(against_bare(case, data, kind, bare_only, wrap, repeats, rival=on_gpu))


# ---------------------------------------------------------------- what a GPU gains


def models(sizes, tell):
    """Fits and queries from host rows, on the GPU and on the CPU."""
    for name, make, run in MODELS:
        X, y = rows_of(sizes[name])
        seconds = {}
        for device in ("cuda", "cpu"):
            with gpuml.config_context(device=device, fallback="error"):
                run(make(), X[:5_000], y[:5_000])  # imports, compiled kernels
                seconds[device] = harness.seconds_of(partial(run, make(), X, y))
        ratio = seconds["cpu"] / seconds["cuda"]
        tell({"model": name, "rows": len(X), **seconds, "ratio": ratio})


MODELS = (
    ("UMAP", lambda: UMAP(), lambda model, X, y: model.fit(X)),
    (
        "forest",
        lambda: RandomForestClassifier(100, max_depth=16, random_state=SEED, n_jobs=-1),
        lambda model, X, y: model.fit(X, y).predict(X),
    ),
    (
        "k-means",
        lambda: KMeans(CLUSTERS, n_init=1, random_state=SEED),
        lambda model, X, y: model.fit(X).labels_,
    ),
    (
        "neighbours",
        lambda: NearestNeighbors(n_neighbors=10, algorithm="brute", n_jobs=-1),
        lambda model, X, y: model.fit(X).kneighbors(X[:10_000]),
    ),
)


# ---------------------------------------------------------------- the run


class Report:
    """What was measured so far: shown at once, and in the file if there is to be one."""

    def __init__(self, path, **about):
        self.path, self.content = path, about

    def teller(self, scenario):
        """A function that adds a row to a scenario."""
        rows = self.content[scenario] = []

        def tell(row):
            rows.append(row)
            print(cells(row), file=sys.stderr, flush=True)
            if self.path:
                harness.write_json(self.content, self.path)

        return tell

    def print_table(self, scenario):
        harness.print_table(scenario, [cells(row) for row in self.content[scenario]])


def cells(row):
    shown = {key: value for key, value in row.items() if key not in ("runs", "plan")}
    return {k: round(v, 5) if isinstance(v, float) else v for k, v in shown.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scenario", nargs="*", choices=["face", "search", "models"])
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--rows", type=int, nargs="*", default=ROWS, help="of `face`")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--models", nargs="*", help="of `search`: names of classes; default: all")
    parser.add_argument("--scale", type=float, default=1.0, help="of `search`: share of the rows")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    wanted = options.scenario or (
        ["face", "search", "models"] if options.device == "cuda" else ["face"]
    )
    if "models" in wanted and options.device == "cpu":
        parser.error("the scenario models needs --device cuda")
    gpuml.set_config(device=options.device)
    about = {"benchmark": "adapters", "command": harness.without_paths(sys.argv[1:])}
    about |= {"device": options.device, "gpuml": gpuml.__version__, "machine": harness.machine()}
    report = Report(options.json, **about)
    if "face" in wanted:
        face(options.device, options.repeats, options.rows, report.teller("face"))
        report.print_table("face")
    if "search" in wanted:
        sizes = options.repeats, options.scale
        search(options.device, options.models, *sizes, report.teller("search"))
        report.print_table("search")
    if "models" in wanted:
        models(MODEL_ROWS, report.teller("models"))
        report.print_table("models")


if __name__ == "__main__":
    main()
