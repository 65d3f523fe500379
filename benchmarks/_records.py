"""What reports of all benchmarks come down to: one contender at one task."""

import statistics
from dataclasses import asdict, dataclass, field

# gpuml with the rows of rivals that have them in CPU memory, beside gpuml with rows on a GPU.
HOST_ROWS = "gpuml, rows in CPU memory"


@dataclass(frozen=True)
class Record:
    """One contender at one task.

    Attributes
    ----------
    benchmark, scenario, task, contender : str
        `task` tells apart what a scenario times of one contender, and may be empty.
    n, d, candidates, folds, classes : int or None
        Rows, features; what is searched; classes of the target.
    devices : int
        Workers of a cluster, or 1.
    place : str
        Where the work is done: "cpu" or "cuda".
    dtype, data_bytes : str or None, int or None
        Of the rows.
    seconds : dict or None
        "median", "min", "max", "runs", "repeats"; None if it failed.
    first_seconds : float or None
        The first run at this size.
    ratio : float or None
        Of a rival's median to gpuml's at the same task.
    bytes_to_device, bytes_to_host : int or None
        That crossed between host and device in one run.
    shares : dict
        Names of limits to the part of the median that is needed at that limit: 1 is as fast as it
        can be.
    failed : str or None
        Why there is no time.
    """

    benchmark: str
    scenario: str
    contender: str
    task: str = ""
    n: int | None = None
    d: int | None = None
    candidates: int | None = None
    folds: int | None = None
    classes: int | None = None
    devices: int = 1
    place: str = "cpu"
    dtype: str | None = None
    data_bytes: int | None = None
    seconds: dict | None = None
    first_seconds: float | None = None
    ratio: float | None = None
    bytes_to_device: int | None = None
    bytes_to_host: int | None = None
    shares: dict = field(default_factory=dict)
    failed: str | None = None

    @property
    def is_ours(self):
        """Whether it is gpuml's or gpuml_dask's."""
        return self.contender.startswith("gpuml")

    @property
    def problem(self):
        """What contenders have in common."""
        return (
            *(self.benchmark, self.scenario, self.task, self.n, self.d, self.candidates),
            *(self.folds, self.classes, self.devices),
        )

    @property
    def key(self):
        """What the same measurement of another run has in common with this one."""
        return (*self.problem, self.dtype, self.place, self.contender)

    @property
    def what(self):
        """Scenario, task and size in a few words."""
        size = " x ".join(f"{k:,}" for k in (self.n, self.d) if k is not None)
        task = "" if self.task == self.scenario else self.task
        return " ".join(word for word in (self.scenario, task, size) if word)

    def as_dict(self):
        """What goes into JSON: all that is known."""
        return {k: v for k, v in asdict(self).items() if v not in (None, "", {})}


def clock(found):
    """Seconds of a record from what a report holds of them, or None."""
    if found is None:
        return None
    if isinstance(found, int | float):
        found = [found]
    if isinstance(found, list):
        found = {"runs": found}
    if "runs" not in found and "median" not in found:
        return None
    runs = found.get("runs") or [found["median"]]
    return {
        "median": found.get("median", statistics.median(runs)),
        "min": found.get("min", min(runs)),
        "max": found.get("max", max(runs)),
        "runs": list(runs),
        "repeats": len(runs),
    }
