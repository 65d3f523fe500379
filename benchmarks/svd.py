"""Leading singular triplets of large and encoded matrices: gpuml and its rivals in the same run.

    python benchmarks/svd.py --device cpu --json out/svd_cpu.json
    python benchmarks/svd.py --device cuda --scenario packed float32 stream --json out/svd_gpu.json
    python benchmarks/svd.py --device cuda --scenario uint8 --gpus 8 --json out/svd_gpus.json

k = 10, 2 power iterations, 10 more vectors. Scenarios (``--scenario``; all that the device can do):

    packed   genotypes in two bits each: 1,000,000 x 2,000 on a CPU, 10,000,000 x 20,000 (50 GB) in
             the memory of a GPU; Dask's svd_compressed has them as uint8
    float32  1,000,000 x 1,000 numbers
    stream   packed genotypes in host memory, and in a file, that pass through a GPU
    uint8    genotypes as uint8 on the workers of a cluster, as many for each (25 GB on a GPU)

The report is written after every contender, and ``--budget`` seconds end the run in good time.
Every contender runs in a process of its own. README.md beside this file says how it is measured.
"""

import argparse
import sys
import time
from dataclasses import replace
from pathlib import Path

import _harness as harness
import numpy as np
from _svd import (
    N_COMPONENTS,
    N_OVERSAMPLES,
    N_POWER_ITER,
    N_VISITS,
    OUT_OF_TIME,
    Task,
    bandwidths,
    measured,
)
from _svd_cluster import on_cluster, our_cluster, their_cluster

import gpuml

# Relative, of singular values: none of those that are compared is noise.
TOLERANCE = 1e-4
SHAPES = {
    ("packed", "cpu"): (1_000_000, 2_000),
    ("packed", "cuda"): (10_000_000, 20_000),
    ("float32", "cpu"): (1_000_000, 1_000),
    ("float32", "cuda"): (1_000_000, 1_000),
    ("stream", "cuda"): (10_000_000, 20_000),
    # For each worker.
    ("uint8", "cpu"): (100_000, 2_000),
    ("uint8", "cuda"): (1_250_000, 20_000),
}
# Of the rows, those of rivals that have them as bytes on one GPU, and those of a file.
RIVAL_SHARE, FILE_SHARE = 0.2, 0.2
# What is asked for.
CPU_SPEED, CPU_MEMORY = 3, 1 / 4
PACKED_SECONDS, STREAM_RATIO, CLUSTER_SECONDS = 1.0, 1.5, 0.5


# ---------------------------------------------------------------- scenarios


def packed(bench):
    """Genotypes in two bits, and Dask's function on the same as bytes."""
    codes = bench.task("packed", "packed")
    if bench.device == "cpu":
        runs = [(rival, bench.task("packed", "uint8")) for rival in CPU_DASK]
    else:
        few = bench.task("packed", "packed", RIVAL_SHARE)
        as_bytes = bench.task("packed", "uint8", RIVAL_SHARE)
        runs = [("gpuml", few), ("gpuml", as_bytes), ("dask, cupy", as_bytes)]
    runs += [("gpuml, standardised", codes), ("gpuml, standardised", bench.missing(codes))]
    report = bench.run([("gpuml", codes), *runs])
    return report | {"checks": _packed_checks(report["contenders"], bench)}


CPU_DASK = ("dask", "dask, small chunks")


def _packed_checks(contenders, bench):
    ours = contenders[0]
    if "failed" in ours or not bench.is_whole:
        return {}
    if bench.device == "cuda":
        return {f"at most {PACKED_SECONDS} s": ours["seconds"]["median"] <= PACKED_SECONDS}
    rivals = [c for c in contenders if c["name"] in CPU_DASK and "failed" not in c]
    if not rivals:
        return {}
    speed = min(c["seconds"]["median"] for c in rivals) / ours["seconds"]["median"]
    memory = ours["total_bytes"] / min(c["total_bytes"] for c in rivals)
    return {
        f"{CPU_SPEED} x the speed of Dask ({speed:.1f})": speed >= CPU_SPEED,
        f"a quarter of its memory ({memory:.2f})": memory <= CPU_MEMORY,
    }


def float32(bench):
    """Dense numbers."""
    task = bench.task("float32", "float32")
    names = ["gpuml", "gpuml, centred"]
    names += ["dask", "sklearn"] if bench.device == "cpu" else ["dask, cupy", "cuml"]
    runs = [(name, task) for name in names]
    if bench.device == "cuda":
        on_cpu = Task("float32", task.rows, task.columns, "cpu")
        runs += [("gpuml, centred", on_cpu), ("sklearn", on_cpu)]
    return bench.run(runs)


def stream(bench):
    """Data that is not on the GPU, against the time that its bytes take over the link."""
    task = bench.task("stream", "packed")
    in_file = bench.streamed(task, "file", FILE_SHARE)
    runs = [("gpuml", bench.task("stream", "packed", FILE_SHARE))]
    runs += [("gpuml", bench.streamed(task, "memory", FILE_SHARE)), ("gpuml", in_file)]
    runs += [("gpuml, standardised", bench.missing(in_file))]
    runs += [("gpuml", bench.streamed(task, "memory", 1))]
    report = bench.run(runs)
    checks = {}
    for record in report["contenders"]:
        if bench.is_whole and "over_link" in record:
            name = f"{record['name']}, {record['on_host']}, {record['rows']:,} rows: "
            name += f"{STREAM_RATIO} x the link"
            checks[f"{name} ({record['over_link']:.2f})"] = record["over_link"] <= STREAM_RATIO
    return report | {"checks": checks}


def uint8(bench):
    """Bytes on the workers of a cluster: gpuml_dask, Dask's own function, and gpuml on one."""
    rows, columns = bench.shape("uint8")
    total = rows * bench.workers
    runs = []
    for name, run in (("gpuml_dask", our_cluster), ("dask", their_cluster)):
        record = {"name": name, "kind": "uint8", "rows": total, "workers": bench.workers}
        try:
            is_late = bench.seconds_left == 0
            found = {"failed": OUT_OF_TIME} if is_late else on_cluster(run, bench, total, columns)
            runs.append(record | found)
        # Whatever a rival raises is a result, not the end of the benchmark.
        except Exception as error:
            runs.append(record | {"failed": f"failed: {type(error).__name__}: {error}"[:200]})
        print(said(runs[-1]), flush=True)
        bench.told(runs)
    report = bench.run([("gpuml", bench.task("uint8", "uint8"))], before=runs)
    report["contenders"] = compared([*runs, *report["contenders"]])
    if bench.is_whole and bench.device == "cuda" and "failed" not in runs[0]:
        fast = runs[0]["seconds"]["median"] <= CLUSTER_SECONDS
        report["checks"] = {f"at most {CLUSTER_SECONDS} s": fast}
    return report


# ---------------------------------------------------------------- the run


class Bench:
    """What is asked for on the command line, and how contenders run."""

    def __init__(self, options):
        self.device, self.scale = options.device, options.scale
        self.rows, self.columns = options.rows, options.columns
        self.repeats, self.workers = options.repeats, options.gpus
        self.began, self.budget = time.monotonic(), options.budget
        # Called with the records of a scenario after each of them.
        self.told = lambda records: None
        self.bandwidths = bandwidths() if self.device == "cuda" else None

    @property
    def is_whole(self):
        """Whether sizes are the scenario's own: of others, nothing is asked for."""
        return (self.rows, self.columns, self.scale) == (None, None, 1.0)

    def shape(self, scenario):
        """Rows and columns of a scenario."""
        rows, columns = SHAPES[scenario, self.device]
        return int((self.rows or rows) * self.scale), self.columns or columns

    def task(self, scenario, kind, share=1.0):
        """A matrix of a kind, of the scenario's size or a share of its rows."""
        rows, columns = self.shape(scenario)
        return Task(kind, int(rows * share), columns, self.device)

    def missing(self, task):
        """The same with missing values."""
        return replace(task, missing=0.02)

    def streamed(self, task, where, share):
        """The same out of the GPU."""
        return replace(task, rows=int(task.rows * share), on_host=where)

    @property
    def seconds_left(self):
        """Of the budget; None without one."""
        if self.budget is None:
            return None
        return max(0.0, self.budget - (time.monotonic() - self.began))

    def run(self, runs, before=()):
        """Records of contenders on their matrices, compared; ours first, those on a CPU last.

        `before` are records that the report has already.
        """
        records = []
        for name, task in sorted(runs, key=self._turn):
            print(f"{name}: {task}", file=sys.stderr, flush=True)
            record = measured(name, task, self.repeats, self.seconds_left)
            record |= {"device": task.device, "columns": task.columns, "on_host": task.on_host}
            records.append(self.with_rates(record, task))
            print(said(record), flush=True)
            self.told([*before, *compared(records)])
        return {"contenders": compared(records), "bandwidths": self.bandwidths}

    def _turn(self, run):
        name, task = run
        return task.device != self.device, not name.startswith("gpuml")

    def with_rates(self, record, task):
        """What the time comes to: products, and bytes against what a copy moves."""
        if "failed" in record:
            return record
        seconds = record["seconds"]["median"]
        width = N_COMPONENTS + N_OVERSAMPLES
        # Two products in each visit, of a multiplication and an addition.
        operations = 4 * N_VISITS * task.rows * task.columns * width
        record["teraflops"] = operations / seconds / 1e12
        # Means are found before, and what is missing.
        visits = N_VISITS + bool(task.missing or "standardised" in record["name"])
        record["bytes_read_once_a_visit"] = visits * task.n_bytes
        if self.bandwidths and task.device == "cuda" and not task.on_host:
            once = visits * task.n_bytes / seconds / self.bandwidths["copy"]
            record |= {"bandwidth_share": once, "bandwidth_share_two_reads": 2 * once}
        if self.bandwidths and task.on_host:
            link = record["bytes_read_once_a_visit"] / self.bandwidths["link"]
            record |= {"link_seconds": link, "over_link": seconds / link}
        return record


def compared(records):
    """Records with differences of singular values from the first that did the same."""
    known = {}
    for record in records:
        if "failed" in record:
            continue
        centred = any(word in record["name"] for word in ("centred", "sklearn"))
        group = "standardised" if "standardised" in record["name"] else centred
        # The numbers of NumPy and CuPy are not the same.
        key = (group, record["rows"], record.get("missing", 0.0), record.get("device"))
        base = known.setdefault(key, record)
        if base is record:
            continue
        ours, theirs = (np.array(r["singular_values"]) for r in (base, record))
        record["largest_difference"] = float(np.max(np.abs(theirs / ours - 1)))
        record["ratio"] = record["seconds"]["median"] / base["seconds"]["median"]
        record["agrees"] = record["largest_difference"] <= TOLERANCE
    return records


SCENARIOS = {"packed": packed, "float32": float32, "stream": stream, "uint8": uint8}


def run_scenario(name, bench):
    """Everything about one scenario, as it goes into the JSON."""
    if (name, bench.device) not in SHAPES:
        return {"scenario": name, "skipped": "needs --device cuda"}
    return {"scenario": name, **SCENARIOS[name](bench)}


# ---------------------------------------------------------------- telling about it


def show(report):
    """Print a scenario as a table."""
    if "skipped" in report:
        print(f"{report['scenario']}: skipped: {report['skipped']}")
        return
    harness.print_table(report["scenario"], [as_row(c) for c in report["contenders"]])
    for check, holds in report.get("checks", {}).items():
        print(f"{'yes' if holds else 'NO '}  {check}")


def said(record):
    """A record in a line."""
    row = as_row(record)
    return "; ".join(f"{name} {cell}" for name, cell in row.items() if cell not in (None, ""))


def as_row(record):
    where = record.get("on_host") or record.get("device", "")
    row = {
        "contender": record["name"],
        "data": f"{record['rows']:,} {record['kind']}" + (" missing" * bool(record.get("missing"))),
        "where": where if "workers" not in record else f"{record['workers']} workers",
    }
    seconds = record.get("seconds", {})
    row["median s"] = f"{seconds['median']:.3f}" if seconds else record["failed"][:60]
    shown = {
        "first": ("first_seconds", "{:.2f}"),
        "x first": ("ratio", "{:.1f}"),
        "difference": ("largest_difference", "{:.0e}"),
        "TFLOP/s": ("teraflops", "{:.2f}"),
        "of copy": ("bandwidth_share", "{:.0%}"),
        "x link": ("over_link", "{:.2f}"),
    }
    for heading, (key, form) in shown.items():
        row[heading] = form.format(record[key]) if key in record else None
    for heading, key in (("data MB", "data_bytes"), ("more MB", "extra_bytes")):
        row[heading] = f"{record[key] / 1e6:,.0f}" if record.get(key) is not None else None
    return row


def measured_scenarios(bench, names, path):
    """All scenarios; the JSON is there after every contender, in case that the run is cut off."""
    report = {
        "benchmark": "svd",
        "gpuml": gpuml.__version__,
        "n_components": N_COMPONENTS,
        "n_power_iter": N_POWER_ITER,
        "n_oversamples": N_OVERSAMPLES,
        "machine": harness.machine(),
    }
    scenarios = []

    def save(*unfinished):
        if path:
            part = path.with_name(path.name + ".part")
            harness.write_json(report | {"scenarios": [*scenarios, *unfinished]}, part)
            part.replace(path)

    for name in names:
        bench.told = lambda records, name=name: save(
            {"scenario": name, "unfinished": True, "contenders": records}
        )
        scenarios.append(run_scenario(name, bench))
        save()
    return scenarios


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--scenario", nargs="*", choices=list(SCENARIOS), default=list(SCENARIOS))
    add("--device", choices=["cpu", "cuda"], default="cpu")
    add("--rows", type=int, help="default: those of the scenario")
    add("--columns", type=int, help="default: those of the scenario")
    add("--scale", type=float, default=1.0, help="share of the rows")
    add("--gpus", type=int, default=2, help="workers of the scenario uint8")
    add("--repeats", type=int, default=5, help="timed runs of each contender")
    add("--budget", type=float, help="seconds; who is not done by then is skipped")
    add("--json", type=Path)
    options = parser.parse_args()
    bench = Bench(options)
    scenarios = measured_scenarios(bench, options.scenario, options.json)
    for scenario in scenarios:
        show(scenario)
    disagree = [
        f"{s['scenario']}: {c['name']}"
        for s in scenarios
        for c in s.get("contenders", ())
        if not c.get("agrees", True)
    ]
    if disagree:
        sys.exit(f"Singular values differ by more than {TOLERANCE:.0e}: {', '.join(disagree)}")


if __name__ == "__main__":
    main()
