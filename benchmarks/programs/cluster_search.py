"""Search on a cluster of this machine, while workers are killed.

    python benchmarks/programs/cluster_search.py [--rows N] [--workers N] [--output DIR]

How late will a flight be, and which will be late at all? Flights out of New York in 2013 (some
150 features) are placed on the workers once: one worker for each GPU, or a few for the cores of the
CPU. A search over Ridge and one over LogisticRegression find them there. Each is repeated, and
half-way through the repetition the worker with most of the rows is killed (SIGKILL). What it had is
made again, and the table of scores is the same to the last bit: the script fails if it is not.

How the clock is read: each search has run once before, so that the workers have imported what they
need. It is then timed once undisturbed, and once with the death in it.
"""

import argparse
import os
import signal
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import gpuml
from gpuml.datasets import load_flights
from gpuml.linear_model import LogisticRegression, Ridge
from gpuml_dask import GridSearchCV, local_client, place

LATE_MINUTES = 15
KINDS_SHOWN = 6


def main():
    args = parse_arguments()
    X, delay = (part[: args.rows] for part in load_flights(return_X_y=True))
    late = (delay > LATE_MINUTES).astype(np.int64)
    gpuml.set_config(device=args.device)
    console = Console()
    with local_client(args.workers, device=args.device, silence_logs="CRITICAL") as client:
        n_workers = len(workers_of(client))
        start = time.perf_counter()
        with place(X, delay, {"late": late}, client=client) as table:
            seconds = time.perf_counter() - start
            console.print(
                f"{X.shape[0]:,} x {X.shape[1]} flights placed in {seconds:.2f} s; workers: "
                f"{n_workers}, chunks: {table.n_chunks}",
                soft_wrap=True,
            )
            results = [
                compare(client, "Ridge: how late?", delay_search(), table.X, table.y),
                compare(client, "Logistic: late?", late_search(), table.X, table["late"]),
            ]
    console.print(results_table(results))
    for result in results:
        console.print(f"Plan, {result.title} {result.undisturbed.search.plan_}", soft_wrap=True)
    console.print(f"Picture: {draw(results, args.output)}", soft_wrap=True)
    complain_if_different(results)


# ---------------------------------------------------------------- the two searches


def delay_search():
    """Searches of `gpuml_dask` find the client by themselves."""
    return GridSearchCV(Ridge(), {"alpha": np.logspace(-3, 3, 10)}, cv=5, scoring="r2")


def late_search():
    return GridSearchCV(LogisticRegression(), {"C": np.logspace(-3, 1, 5)}, cv=5)


# ---------------------------------------------------------------- with and without a death


@dataclass(frozen=True)
class Run:
    """A search, what workers did meanwhile, and which of them was killed when, if one was."""

    search: GridSearchCV
    began: float
    seconds: float
    tasks: list
    killed: str | None = None
    killed_after: float | None = None

    @property
    def scores(self):
        """Scores of all candidates on all folds."""
        table = self.search.cv_results_
        return np.stack([table[f"split{i}_test_score"] for i in range(self.search.n_splits_)])


@dataclass(frozen=True)
class Comparison:
    """A search undisturbed, and the same with one worker less for a while."""

    title: str
    undisturbed: Run
    disturbed: Run

    @property
    def agrees(self):
        # Bit for bit, so that even a NaN has to be in both.
        one, other = self.undisturbed, self.disturbed
        same_best = one.search.best_params_ == other.search.best_params_
        return same_best and one.scores.tobytes() == other.scores.tobytes()


def compare(client, title, search, X, y):
    """Run a search undisturbed, and again with the death of a worker in it."""
    search.fit(X, y)  # so that the workers have all imports, and the rows as this search wants them
    undisturbed = timed(client, search, X, y)
    killer = Killer(client, undisturbed.seconds / 2)
    n_workers = len(workers_of(client))
    disturbed = timed(client, search, X, y, killer)
    client.wait_for_workers(n_workers, timeout=60)  # Dask starts another in its place
    return Comparison(title, undisturbed, disturbed)


def timed(client, search, X, y, killer=None):
    """Fit a fresh copy of a search, and note who did what."""
    from distributed import get_task_stream

    search = GridSearchCV(search.estimator, search.param_grid, cv=search.cv, scoring=search.scoring)
    with get_task_stream(client) as stream:
        began, start = time.time(), time.perf_counter()
        if killer is not None:
            killer.start()
        search.fit(X, y)
        seconds = time.perf_counter() - start
    if killer is None:
        return Run(search, began, seconds, stream.data)
    killer.join()
    return Run(search, began, seconds, stream.data, killer.address, killer.at - began)


class Killer(threading.Thread):
    """Ends the process of one worker after some seconds, in a way that nobody can prepare for."""

    def __init__(self, client, seconds):
        super().__init__()
        self._seconds, self.at = seconds, None
        # The one with most rows: its loss is the worst.
        n_bytes = client.run(bytes_held)
        self.address = max(sorted(n_bytes), key=n_bytes.__getitem__)
        self._pid = workers_of(client)[self.address]

    def run(self):
        time.sleep(self._seconds)
        self.at = time.time()
        os.kill(self._pid, signal.SIGKILL)


def workers_of(client):
    """The process of each worker, by address."""
    return client.run(os.getpid)


def bytes_held(dask_worker):
    return sum(state.nbytes or 0 for state in dask_worker.state.tasks.values())


# ---------------------------------------------------------------- telling about it


def results_table(results):
    table = Table(title="Searches over 5 folds on the cluster, refit included")
    table.add_column("")
    for result in results:
        table.add_column(result.title, justify="right")
    for label, values in {
        "fits": [f"{r.undisturbed.search.plan_.n_fits}" for r in results],
        "best": [best_words(r.undisturbed.search) for r in results],
        "mean score of the best": [f"{r.undisturbed.search.best_score_:.4f}" for r in results],
        "seconds, undisturbed": [f"{r.undisturbed.seconds:.2f}" for r in results],
        "seconds, a worker killed half-way": [f"{r.disturbed.seconds:.2f}" for r in results],
        "killed after, seconds": [f"{r.disturbed.killed_after:.2f}" for r in results],
        "the same table, bit for bit": ["yes" if r.agrees else "no" for r in results],
    }.items():
        table.add_row(label, *values)
    return table


def best_words(search):
    return ", ".join(f"{name}={value:.3g}" for name, value in search.best_params_.items())


def draw(results, folder):
    """Write a picture of who did what: a bar per worker, a piece of it per task."""
    import matplotlib

    matplotlib.use("Agg")  # files, on machines without a screen too
    from matplotlib import pyplot

    folder.mkdir(parents=True, exist_ok=True)
    figure, panels = pyplot.subplots(len(results), 2, figsize=(12, 2.6 * len(results)))
    for row, result in zip(panels, results, strict=True):
        for panel, run in zip(row, (result.undisturbed, result.disturbed), strict=True):
            draw_run(panel, run, pyplot.get_cmap("tab10").colors)
            how = "undisturbed" if run.killed is None else "a worker killed"
            panel.set(title=f"{result.title} {how}: {run.seconds:.2f} s", xlabel="seconds")
    figure.tight_layout()
    path = folder / "cluster_search.png"
    figure.savefig(path, dpi=150)
    pyplot.close(figure)
    return path


def draw_run(panel, run, colors):
    """Tasks of a run over time, a line for each worker; a cross where one was killed."""
    from dask.utils import key_split

    spans = [
        (task["worker"], key_split(task["key"]), part["start"] - run.began, part["stop"])
        for task in run.tasks
        for part in task["startstops"]
        if part["action"] == "compute"
    ]
    workers = sorted({worker for worker, *_ in spans} | ({run.killed} - {None}))
    busy = {}
    for _, kind, start, stop in spans:
        busy[kind] = busy.get(kind, 0.0) + stop - run.began - start
    most = sorted(busy, key=lambda kind: -busy[kind])[:KINDS_SHOWN]
    color = {kind: colors[i] for i, kind in enumerate(most)}
    for worker, kind, start, stop in spans:
        width = stop - run.began - start
        panel.barh(workers.index(worker), width, left=start, color=color.get(kind, "0.7"))
    if run.killed is not None:
        panel.plot(run.killed_after, workers.index(run.killed), "rx", ms=10, mew=2)
    panel.set_yticks(range(len(workers)), [worker.rpartition(":")[2] for worker in workers])
    panel.set_xlim(0, run.seconds)
    panel.set_ylabel("worker (port)")
    # "gradients-of-logistic-regression" is too long for a picture.
    words = {kind: kind.partition("-of-")[0].replace("-", " ") for kind in most}
    handles = [panel.barh(0, 0, color=color[kind], label=words[kind]) for kind in most]
    panel.legend(handles=handles, fontsize=7, loc="upper left", bbox_to_anchor=(1.0, 1.0))


def complain_if_different(results):
    """Leave with an error that says what differs."""
    for result in results:
        if not result.agrees:
            gap = np.abs(result.undisturbed.scores - result.disturbed.scores).max()
            sys.exit(f"{result.title} Scores differ by up to {gap:.1e} after a worker was killed.")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("--rows", type=int, default=100_000, help="flights to use, the first of the year")
    add("--workers", type=int, help="worker processes (default: by GPUs, or by cores)")
    add("--output", type=Path, default=Path(), help="folder of the picture")
    add("--device", choices=["auto", "cpu", "cuda"], default="auto")
    return parser.parse_args()


if __name__ == "__main__":
    main()
