"""Searches over a file of Parquet that is larger than the memory they are given.

    python benchmarks/stored_rows.py --json stored_rows.json

Beside the same search on rows in memory, one model of scikit-learn that learns batch by batch, and
pyarrow reading the columns alone. README.md beside this file says how it is measured.
"""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import _harness as harness
import numpy as np
from _beside import RIVAL_SECONDS
from _harness import scaled
from sklearn.linear_model import SGDClassifier, SGDRegressor

import gpuml
from gpuml.linear_model import LogisticRegression, Ridge
from gpuml.model_selection import GridSearchCV

SEED = 0
FOLDS = 5
# Row groups of a file: a reader holds one of them at least.
GROUPS = 20
BATCH_ROWS = 2**15
CLASSES = {"label": {"classes": [0, 1]}}
# What pyarrow holds while it reads, and pieces on their way, come first.
READING = 64 * 2**20
# The rest of the memory, as a share of the bytes of the rows.
MEMORY = {"out": 0.1, "half": 0.6}


@dataclass(frozen=True)
class Scenario:
    """A search; "half" of the rows may stay in memory, or as good as none."""

    model: Any
    grid: dict[str, Any]
    learner: Any
    memory: str
    n: int = 1_000_000
    p: int = 50

    @property
    def target(self) -> str:
        return "label" if isinstance(self.model, LogisticRegression) else "y"


RIDGE = (Ridge(), {"alpha": np.logspace(-3, 3, 10)}, SGDRegressor())
LOGISTIC = (LogisticRegression(), {"C": np.logspace(-2, 2, 3)}, SGDClassifier(loss="log_loss"))
SCENARIOS = {
    "ridge": Scenario(*RIDGE, "out"),
    "logistic": Scenario(*LOGISTIC, "out"),
    "logistic_half": Scenario(*LOGISTIC, "half"),
}


def write(path, n, p):
    """A file of normal features, of which y is made, and noise; labels are its sign."""
    import pyarrow as pa
    from pyarrow import parquet

    random, group = np.random.default_rng(SEED), max(1, n // GROUPS)
    coef = random.normal(size=p)
    names = [*(f"x{j}" for j in range(p)), "y", "label"]
    schema = pa.schema([(name, pa.int8() if name == "label" else pa.float64()) for name in names])
    with parquet.ParquetWriter(path, schema, use_dictionary=False) as writer:
        for start in range(0, n, group):
            X = random.normal(size=(p, min(group, n - start)))
            y = coef @ X + np.sqrt(p) * random.normal(size=X.shape[1])
            writer.write_table(pa.table([*X, y, (y > 0).astype(np.int8)], schema=schema))
    return names[:p]


def batches(path, columns):
    from pyarrow import parquet

    return parquet.ParquetFile(path, pre_buffer=False, buffer_size=2**18).iter_batches(
        BATCH_ROWS, columns=columns
    )


def read(path, columns):
    """Decode the columns, and do nothing with them."""
    for _ in batches(path, columns):
        pass


def learn(learner, path, features, target):
    """One model, from each batch once."""
    for batch in batches(path, [*features, target]):
        X = np.column_stack([column.to_numpy() for column in batch.columns[:-1]])
        learner.partial_fit(X, batch.columns[-1].to_numpy(), **CLASSES.get(target, {}))


def search_in_memory(scenario, path, features):
    rows = gpuml.read_parquet(path, memory=2**60)
    X, y = rows.select(features)[:], rows.column(scenario.target)
    return GridSearchCV(scenario.model, scenario.grid, cv=FOLDS).fit(X, y)


def run_scenario(name, args):
    """Everything about one scenario, as it goes into the JSON."""
    scenario = SCENARIOS[name]
    n, p = scaled(scenario.n, args), args.features or scenario.p
    with tempfile.TemporaryDirectory() as folder, gpuml.config_context(device="cpu"):
        path = Path(folder) / "rows.parquet"
        features = write(path, n, p)
        return measured(name, scenario, path, features, n, args)


def measured(name, scenario, path, features, n, args):
    columns, repeats = [*features, scenario.target], args.repeats or 3
    row_bytes = 8 * len(features)
    memory = READING + int(MEMORY[scenario.memory] * n * row_bytes)
    found: list[Any] = []

    def search():
        rows = gpuml.read_parquet(path, columns, memory=memory)
        found.append(GridSearchCV(scenario.model, scenario.grid, cv=FOLDS))
        found[-1].fit(rows, scenario.target)

    own = {"name": "gpuml", "memory": memory} | harness.first_run(search)
    own["seconds"] = harness.timing(search, repeats, at_most=RIVAL_SECONDS)
    own["passes"] = found[-1].plan_.n_passes
    others = {
        "pyarrow-reading": lambda: read(path, features),
        "gpuml-in-memory": lambda: search_in_memory(scenario, path, features),
        "sklearn-sgd-one-model": lambda: learn(scenario.learner, path, features, scenario.target),
    }
    contenders = [own]
    median = own["seconds"]["median"]
    for other, call in others.items():

        def measure(call=call):
            first = harness.first_run(call)
            seconds = harness.timing(call, repeats, at_most=RIVAL_SECONDS)
            return {**first, "seconds": seconds, "ratio": seconds["median"] / median}

        contenders.append(harness.attempt({"name": other}, measure))
    problem = {
        "rows": n,
        "features": len(features),
        "dtype": "float64",
        "library": "pyarrow",
        "bytes": n * row_bytes,
        "folds": FOLDS,
        "file_bytes": path.stat().st_size,
        "candidates": int(np.prod([len(values) for values in scenario.grid.values()])),
    }
    return {"scenario": name, "problem": problem, "contenders": contenders}


def show(result):
    """Print a scenario as a table."""
    problem = result["problem"]
    title = (
        f"{result['scenario']}: {problem['rows']:,} x {problem['features']}, {FOLDS} folds, "
        f"{problem['candidates']} candidates, file of {problem['file_bytes'] / 1e9:.2f} GB"
    )
    harness.print_table(title, [as_row(contender) for contender in result["contenders"]])


def as_row(contender):
    grown = contender.get("extra_host_bytes")
    return {
        "contender": contender["name"],
        **harness.clock_cells(contender),
        "x gpuml": harness.cell(contender.get("ratio"), ".2f"),
        "memory grew by MB": harness.cell(None if grown is None else grown / 1e6, ".0f"),
        "allowed MB": harness.cell(
            None if "memory" not in contender else contender["memory"] / 1e6, ".0f"
        ),
    }


def main():
    args = harness.arguments(__doc__, SCENARIOS, list(SCENARIOS)).parse_args()
    harness.report_on("stored_rows", args.scenario, run_scenario, show, args)


if __name__ == "__main__":
    main()
