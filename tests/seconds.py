"""How many cases of a test function `make test` runs: as many as fit into its share of five minutes.

`seconds.json` has the functions whose cases take longer than that together, with the seconds of one
case. All their other cases are `exhaustive`, and run with ``make test-all``. `make test-seconds`
writes the file again, from a run of ``make test`` with all cases.
"""

import json
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

FILE = Path(__file__).with_suffix(".json")
# Seconds for all cases of a function, and the longest that any case may take.
SHARE = 0.2
LONGEST = 0.8


def function_of(nodeid: str) -> str:
    """The function of a test, by the name that pytest gives the test."""
    return nodeid.partition("[")[0]


def recorded() -> dict[str, float]:
    """Seconds of one case, of functions that take longer than their share."""
    files = json.loads(FILE.read_text())
    return {f"{file}::{name}": each[name] for file, each in files.items() for name in each}


def sample(function: str, n_cases: int, seconds: float | None) -> Sequence[int]:
    """Positions of the cases of a function that `make test` runs, the same in every run.

    Examples
    --------
    >>> sample("tests/test_a.py::test_b", 3, seconds=None)
    range(0, 3)
    >>> len(sample("tests/test_a.py::test_b", 30, seconds=0.05))
    4
    """
    if seconds is None:
        return range(n_cases)
    if seconds > LONGEST:
        return []
    n_kept = min(n_cases, max(1, int(SHARE / seconds)))
    return sorted(random.Random(function).sample(range(n_cases), n_kept))


def record(durations: Mapping[str, float]) -> None:
    """Write the file, from the seconds that tests took."""
    of_function = defaultdict(list)
    for nodeid, seconds in durations.items():
        of_function[function_of(nodeid)].append(seconds)
    files: dict[str, dict[str, float]] = defaultdict(dict)
    for function, each in sorted(of_function.items()):
        if sum(each) > SHARE and (len(each) > 1 or each[0] > LONGEST):
            file, _, name = function.partition("::")
            files[file][name] = round(sum(each) / len(each), 3)
    FILE.write_text(json.dumps(files, indent=0) + "\n")


# ---------------------------------------------------------------- with `pytest -p tests.seconds`

_durations: dict[str, float] = defaultdict(float)


def pytest_runtest_logreport(report):
    """Add up what the phases of a test take."""
    _durations[report.nodeid] += report.duration


def pytest_sessionfinish(session):
    """Write the file once, in the process that hears of all tests."""
    if not hasattr(session.config, "workerinput"):
        record(_durations)
