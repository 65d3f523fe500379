"""Reads the reports of all benchmarks, of this shape and of earlier ones, as one flat list.

Every report is a JSON file. Measured numbers are taken as they stand; what a record lacks is None.
A ratio that a report lacks is computed from its medians.
"""

import json
import shlex
from dataclasses import dataclass, replace
from pathlib import Path

from _readers import READERS
from _records import Record

__all__ = ["RESULTS", "Record", "Report", "machine_name", "read", "read_all", "report_of"]

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Report:
    """A file of results: where it comes from, and its records."""

    name: str
    benchmark: str
    command: str
    gpuml: str
    machine: dict
    records: tuple
    raw: dict

    @property
    def machine_name(self):
        """The machine in a few words."""
        return machine_name(self.machine)


def machine_name(machine):
    """The machine in a few words."""
    cores = f"{machine['cores']} core{'s' * (machine['cores'] != 1)}"
    cpu = f"{machine['cpu'].replace('(R)', '')}, {cores}"
    gpu = machine.get("gpu")
    return f"{gpu.get('count', 1)} x {gpu['name']}; {cpu}" if gpu else cpu


# ---------------------------------------------------------------- files


def read_all(folder=RESULTS):
    """Reports of all files of a folder, by name."""
    return [read(path) for path in sorted(Path(folder).glob("*.json"))]


def read(path):
    """The report in a file."""
    path = Path(path)
    return report_of(json.loads(path.read_text()), path.stem)


def report_of(raw, name):
    """A report from what its file holds."""
    benchmark = raw.get("benchmark") or _benchmark_of(raw, name)
    if benchmark not in READERS:
        raise ValueError(f"{name}: not a report of a benchmark: {benchmark!r}")
    records = _with_ratios(list(READERS[benchmark](raw)))
    command = command_of(raw, benchmark)
    return Report(name, benchmark, command, raw["gpuml"], raw["machine"], tuple(records), raw)


def _benchmark_of(raw, name):
    """Earlier reports of two benchmarks do not name it."""
    if "face" in raw or "models" in raw or "search" in raw:
        return "adapters"
    return "dask_search" if "cluster_starts" in raw else name


def command_of(raw, benchmark):
    """What to type for a run like this one."""
    words = raw.get("command")
    if words is None:
        words = _old_command(raw, benchmark)
    environment = dict(raw.get("environment", {}))
    if raw.get("SCIPY_ARRAY_API"):
        environment["SCIPY_ARRAY_API"] = raw["SCIPY_ARRAY_API"]
    if "--note" in words:
        words = words[: words.index("--note")] + words[words.index("--note") + 2 :]
    before = [f"{name}={value}" for name, value in environment.items()]
    return " ".join([*before, "python", f"benchmarks/{benchmark}.py", *map(shlex.quote, words)])


def _old_command(raw, benchmark):
    words = ["--device", raw["device"]] if "device" in raw else []
    if benchmark == "dask_search":
        words += ["--workers", str(raw["workers"])]
        words += ["--repeats", str(len(raw["scaling"][0]["runs"]))]
    if benchmark == "adapters" and "face" in raw:
        words += ["--rows", *map(str, dict.fromkeys(row["rows"] for row in raw["face"]))]
    if benchmark == "svd":
        contenders = [c for s in raw["scenarios"] for c in s.get("contenders", [])]
        device = next((c["device"] for c in contenders if "device" in c), "cpu")
        workers = next((c["workers"] for c in contenders if "workers" in c), None)
        words += ["--device", device, "--scenario", *(s["scenario"] for s in raw["scenarios"])]
        words += ["--gpus", str(workers)] if workers else []
        repeats = max(len(c["seconds"]["runs"]) for c in contenders if "seconds" in c)
        words += ["--repeats", str(repeats)]
    return words


def _with_ratios(records):
    """The same with ratios where a rival stands beside gpuml and its report has none."""
    own = {}
    for record in records:
        if record.is_ours and record.seconds:
            own.setdefault(record.problem, record.seconds["median"])
    return [
        replace(record, ratio=record.seconds["median"] / own[record.problem])
        if record.ratio is None and record.seconds and not record.is_ours and record.problem in own
        else record
        for record in records
    ]
