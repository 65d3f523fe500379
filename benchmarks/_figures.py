"""What the figures of the page show, taken from reports; `_plots` draws it."""

import math
import statistics
from dataclasses import dataclass

import _results

FACTORS = {
    "n": "rows",
    "d": "features",
    "candidates": "candidates",
    "folds": "folds",
    "classes": "classes",
}
# Not rivals: what an estimator, or Optuna, takes by itself.
NO_RIVALS = ("bare fits", "bare fits, pooled", "optuna alone")


TITLES = {
    "ridge_search": "Ridge search",
    "logistic_search": "LogisticRegression search",
    "pipeline_search": "pipeline search",
    "generic_search": "forest search",
    "dask_search": "cluster",
    "pca": "PCA",
    "selection": "feature selection",
    "bands": "banded ridge",
    "clusters": "numbers of clusters",
    "tree_search": "trees",
    "validation": "curves, predictions, permutation tests",
    "models": "search",
    "stored_rows": "rows in files",
    "svd": "SVD",
    "table_search": "table search",
}


# Searches that the first page shows, by report and scenario, or cell of a map.
PITCH = {
    "Ridge, 330,000 flights x 147": ("ridge_search_cpu", "flights"),
    "Ridge behind a ColumnTransformer,\n58,000 flights with categories": (
        "table_search_cpu",
        "ridge",
    ),
    "LogisticRegression, 100,000 x 100": ("logistic_search_cpu", "cpu"),
    "Ridge, 1,000,000 x 100 on a GPU": ("map_h200", "Ridge, 1,000,000 x 100 float32"),
    "LogisticRegression, 1,000,000 x 100 on a GPU": (
        *("map_h200", "LogisticRegression, 1,000,000 x 100 float32"),
    ),
}


def label_of(record):
    """What is timed, for people."""
    workers = f", {record.devices} workers" if record.devices > 1 else ""
    return f"{TITLES.get(record.benchmark, record.benchmark)}, {record.what}{workers}"


def shape_of(problem):
    """Rows of a scenario in a few words."""
    return f"{problem['rows']:,} x {problem['features']:,} {problem['dtype']}"


def kind_of(report, record):
    """What does the work of a record, in a word or two."""
    gpu = report.machine.get("gpu")
    if not gpu or record.place == "cpu":
        return "CPU"
    name = gpu["name"].replace("NVIDIA ", "")
    return name if record.devices == 1 else f"{record.devices} x {name}"


# ---------------------------------------------------------------- gpuml and its fastest rival


@dataclass(frozen=True)
class Comparison:
    """The fastest rival at a task, and where gpuml did it."""

    report: _results.Report
    rival: _results.Record
    kind: str

    @property
    def label(self):
        """Benchmark, task, size and rival in a line."""
        return f"{label_of(self.rival)} ({self.rival.contender})"


def comparisons(reports):
    """The fastest rival at every task, but for sweeps, maps and calls that are passed on."""
    others = ("sweep", "map", "optimum")
    return _fastest([r for r in reports if r.benchmark not in others])


def pitch(reports):
    """What PITCH names, with the fastest rival of each: pairs of words and comparisons."""
    of = {(one.report.name, one.rival.scenario): one for one in comparisons(reports)}
    of |= {(r.name, cell_of(one.rival)): one for r in maps(reports) for one in cells(r)}
    return [(words, of[name]) for words, name in PITCH.items() if name in of]


def maps(reports):
    """Reports of maps."""
    return [report for report in reports if report.benchmark == "map"]


def cells(report):
    """The fastest rival in every cell of a map, the least ratio first."""
    return _fastest([report])


def cell_of(record):
    """A cell of a map in a line, as `map_reasons.toml` has it."""
    return f"{record.scenario}, {record.n:,} x {record.d:,} {record.dtype}"


def _fastest(reports):
    fastest = {}
    for report in reports:
        for record in report.records:
            no_rival = record.is_ours or record.contender in NO_RIVALS or record.scenario == "face"
            if record.ratio is None or no_rival:
                continue
            key = report.name, record.problem, record.dtype
            if key not in fastest or record.ratio < fastest[key].rival.ratio:
                fastest[key] = Comparison(report, record, kind_of(report, _own(report, record)))
    return sorted(fastest.values(), key=lambda one: one.rival.ratio)


def _own(report, rival):
    """What a rival is compared with."""
    ours = [record for record in report.records if record.is_ours and record.seconds]
    same = [record for record in ours if record.problem == rival.problem]
    return next(iter(same or [r for r in ours if r.scenario == rival.scenario]), rival)


# ---------------------------------------------------------------- one factor at a time


def sweeps(reports):
    """Reports of sweeps."""
    return [report for report in reports if report.benchmark == "sweep"]


def base_of(report, model):
    """The case that all others differ from in one factor: what most have of each factor."""
    records = [r for r in report.records if r.scenario == model and r.is_ours]
    base = {}
    for factor in FACTORS:
        values = [getattr(record, factor) for record in records]
        base[factor] = max(set(values), key=values.count)
    return base


def curve(report, model, factor, ours):
    """Records that differ from the base case in one factor only, in its order."""
    base = base_of(report, model)
    same = [
        record
        for record in report.records
        if record.scenario == model
        and record.is_ours == ours
        and record.seconds
        and all(getattr(record, f) == base[f] for f in FACTORS if f != factor)
        and getattr(record, factor) is not None
    ]
    return sorted(same, key=lambda record: getattr(record, factor))


def exponent(records, factor):
    """The power of a factor that medians follow in the upper half; None for less than two."""
    upper = records[len(records) // 2 :] if len(records) > 2 else records
    if len(upper) < 2:
        return None
    levels = [math.log(getattr(record, factor)) for record in upper]
    times = [math.log(record.seconds["median"]) for record in upper]
    return statistics.linear_regression(levels, times).slope


# ---------------------------------------------------------------- several devices


@dataclass(frozen=True)
class Scaling:
    """A task on one worker and on more, of one report."""

    report: _results.Report
    task: str
    records: tuple
    weak: bool

    @property
    def efficiency(self):
        """Of the most workers."""
        one, *_, most = self.records
        gain = one.seconds["median"] / most.seconds["median"]
        return gain if self.weak else gain / most.devices


def scalings(reports):
    """Tasks that were timed on one worker and on more."""
    found = []
    for report in reports:
        if report.benchmark == "svd":
            found += _of_svd(report)
        if report.benchmark != "dask_search":
            continue
        for scenario, weak in (("scaling", True), ("generic", False)):
            records = [r for r in report.records if r.scenario == scenario and r.seconds]
            for task in dict.fromkeys(record.task for record in records):
                of_task = sorted((r for r in records if r.task == task), key=lambda r: r.devices)
                if len(of_task) > 1:
                    found.append(Scaling(report, task, tuple(of_task), weak))
    return found


def _of_svd(report):
    """A part of the matrix on one device, and as large a part on each of several."""
    ours = [r for r in report.records if r.scenario == "uint8" and r.is_ours and r.seconds]
    # On a CPU, one has all cores of the others together.
    records = [record for record in ours if record.place == "cuda"]
    one = next((record for record in records if record.devices == 1), None)
    if one is None:
        return []
    # Fewer rows than workers are left over.
    many = [r for r in records if r.devices > 1 and abs(r.n - r.devices * one.n) < r.devices]
    return [Scaling(report, "SVD", (one, record), True) for record in many]


# ---------------------------------------------------------------- bytes, limits


def moves(reports):
    """Records that say what went to a GPU, by the share of their data that did."""
    found = [
        (report, record)
        for report in reports
        for record in report.records
        if record.bytes_to_device and record.place == "cuda" and report.benchmark != "sweep"
    ]
    return sorted(found, key=lambda pair: pair[1].bytes_to_device / pair[1].data_bytes)


LIMITS = {
    "products": "bare matrix products",
    "memory": "one copy's bandwidth",
    "link": "the link to the GPU",
}


def at_limits(reports):
    """Records of gpuml with the part of their time that a limit of the hardware asks for."""
    found = []
    for report in reports:
        chosen = report.records
        if report.benchmark == "sweep":
            chosen = [_largest(report, model) for model in _models(report)]
        for record in chosen:
            for limit, share in record.shares.items():
                found.append((report, record, limit, share))
    return sorted(found, key=lambda row: row[3])


def _models(report):
    return dict.fromkeys(record.scenario for record in report.records)


def _largest(report, model):
    ours = [r for r in report.records if r.scenario == model and r.is_ours and r.seconds]
    return max(ours, key=lambda record: (record.n, record.candidates == 10))
