"""Search over pipelines with a linear model at the end: gpuml and its rivals in the same run.

    python benchmarks/pipeline_search.py --scenario cpu scaled_logistic_cpu --json pipelines.json

StandardScaler and PCA before Ridge, with steps that are not affine before them or without, and
StandardScaler before LogisticRegression; 5 folds, refit on the best. README.md beside this file
says how it is measured.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import _harness as harness
import numpy as np
from _harness import needed_cupy, scaled, to_host
from _pipelines import (
    LARGE_RIDGE,
    RIVAL_NAMES,
    SCALED_LOGISTIC,
    SHARED_STEPS,
    SMALL_RIDGE,
    Task,
    exact_sklearn_steps,
    low_rank,
    our_search,
    rival_of,
    search_without_steps,
    their_search,
    two_classes,
    with_gaps,
)
from _searches import N_SPLITS, found, not_complaining, score_difference, time_ours, time_rival
from ridge_search import as_row

import gpuml
import gpuml.linear_model
from gpuml.resampling.atoms import make_folds
from gpuml.resampling.split import split_rows
from gpuml.solvers.described import describe

CHECK_ROWS = 20_000
# How far r2 may be from that of scikit-learn in float64; and how many rows of a fold may be judged
# differently by two classifiers, of which one stops at the default tolerance.
ALLOWED = {"float64": 1e-6, "float32": 1e-4}
ROWS_APART = 10


# ---------------------------------------------------------------- scenarios


@dataclass(frozen=True)
class Scenario:
    """A task and its data, who is measured how often and on how much, and what gpuml should reach.

    `target_ratio` is how many times as long the fastest rival should take, `target_unscaled` how
    many times as long as without the scaler gpuml may take.
    """

    task: Task
    make: Callable[..., tuple]
    rows: int
    features: int
    on_device: bool
    rivals: tuple[str, ...]
    repeats: int = 5
    rival_repeats: int = 1
    rival_rows: dict[str, int] = field(default_factory=dict)
    rival_candidates: dict[str, int] = field(default_factory=dict)
    target_seconds: float | None = None
    target_ratio: float | None = None
    target_unscaled: float | None = None


GPU_RIVALS = ("sklearn-array-api", "cuml", "cuml-array-api")
CPU_RIVALS = ("sklearn", "sklearn-one-process")
# From host rows, copies of every fold for each of 250 fits would take cuML's search minutes.
LARGE_RIVALS = {"cuml": 10}
SCENARIOS = {
    "cpu": Scenario(SMALL_RIDGE, low_rank, 200_000, 100, False, CPU_RIVALS, 5, 3, target_ratio=10),
    "scaled_logistic_cpu": Scenario(
        SCALED_LOGISTIC, two_classes, 100_000, 100, False, ("sklearn",), target_unscaled=1.3
    ),
    "shared_steps_cpu": Scenario(SHARED_STEPS, with_gaps, 20_000, 20, False, CPU_RIVALS),
    "shared_steps": Scenario(SHARED_STEPS, with_gaps, 200_000, 20, True, ("sklearn",)),
    "pca_ridge_small": Scenario(
        SMALL_RIDGE, low_rank, 200_000, 100, True, GPU_RIVALS, 10, target_seconds=0.040
    ),
    "pca_ridge_large": Scenario(
        *(LARGE_RIDGE, low_rank, 1_000_000, 200, True, ("cuml", "cuml-array-api"), 10),
        rival_candidates=LARGE_RIVALS,
        target_ratio=100,
    ),
    "scaled_logistic": Scenario(
        *(SCALED_LOGISTIC, two_classes, 1_000_000, 100, True, ("sklearn-array-api",), 10),
        target_unscaled=1.3,
    ),
}
GROUPS = {
    "host": ("cpu", "scaled_logistic_cpu", "shared_steps_cpu"),
    "device": ("pca_ridge_small", "pca_ridge_large", "scaled_logistic", "shared_steps"),
    "all": tuple(SCENARIOS),
}


# ---------------------------------------------------------------- measuring


def run_scenario(name, args):
    """Everything about one scenario, as it goes into the JSON."""
    scenario = SCENARIOS[name]
    rows, features = scaled(scenario.rows, args), args.features or scenario.features
    try:
        xp = needed_cupy() if scenario.on_device else np
    except RuntimeError as error:
        return {"scenario": name, "skipped": str(error)}
    X, y = scenario.make(xp, rows, features, np.float32 if scenario.on_device else np.float64)
    task, repeats = scenario.task.of_features(features), args.repeats or scenario.repeats
    device = "auto" if scenario.on_device else args.device or "cpu"
    with gpuml.config_context(device=device), not_complaining():
        result = {"scenario": name, "problem": facts_of(task, X)}
        result["contenders"] = measure_all(scenario, task, X, y, repeats, args)
        result["against_float64"] = against_float64(task, X, y)
        if scenario.target_unscaled is not None:
            result["without_scaler"] = without_scaler(task, X, y, repeats)
        result["breakdown_seconds"] = breakdown(task, X, y, repeats)
    result["checks"] = checks(scenario, result)
    return result


def facts_of(task, X):
    facts = harness.facts_of(X) | {"steps": task.steps}
    facts |= {"grid": {name: list(values) for name, values in task.grid.items()}}
    facts |= {"candidates": task.n_candidates, "splits": N_SPLITS}
    return facts | {"scoring": task.scoring, "refit": True}


def measure_all(scenario, task, X, y, repeats, args):
    """Records of gpuml and of each rival, and of gpuml on as few rows or candidates as a rival."""
    own = {(len(X), task.n_candidates): measure_ours(task, X, y, repeats)}
    rivals = []
    for name in scenario.rivals if args.rivals is None else args.rivals:
        rows = min(args.rival_rows or scenario.rival_rows.get(name, len(X)), len(X))
        part = task.part(args.rival_candidates or scenario.rival_candidates.get(name))
        size = rows, part.n_candidates
        if size not in own:
            own[size] = measure_ours(part, X[:rows], y[:rows], repeats)
        rivals.append(
            measure_rival(name, part, X[:rows], y[:rows], *own[size], scenario.rival_repeats)
        )
    return [record for record, _search in own.values()] + rivals


def measure_ours(task, X, y, repeats):
    """Record and fitted search."""
    search = our_search(task)
    record = {"name": "gpuml", "rows": len(X), "candidates": task.n_candidates}
    record |= time_ours(search, X, y, repeats)
    return record | {"passes": search.plan_.n_passes}, search


def measure_rival(name, task, X, y, own, own_search, repeats):
    """Record of one rival on the same rows and candidates, or of why it failed."""
    rival = rival_of(name, task)

    def measure():
        search, seconds = time_rival(rival, rival.place(X), rival.place(y), repeats)
        return {
            "seconds": seconds,
            **found(search),
            "largest_score_difference": score_difference(search, own_search),
            "ratio": seconds["median"] / own["seconds"]["median"],
        }

    return harness.attempt({"name": name, "rows": len(X), "candidates": task.n_candidates}, measure)


def against_float64(task, X, y):
    """Scores on the first rows against those of scikit-learn in float64, solved to the end."""
    X, y = X[:CHECK_ROWS], y[:CHECK_ROWS]
    ours = our_search(task, refit=False).fit(X, y)
    theirs = their_search(task, exact_sklearn_steps, n_jobs=-1).set_params(refit=False)
    theirs.fit(to_host(X).astype(np.float64), to_host(y))
    return {
        "rows": len(X),
        "largest_score_difference": score_difference(ours, theirs),
        "allowed": allowed_difference(task, X),
    }


def allowed_difference(task, X):
    if task.scoring == "accuracy":
        return ROWS_APART * N_SPLITS / len(X)
    return ALLOWED[str(X.dtype)]


def without_scaler(task, X, y, repeats):
    """gpuml's search with its scaler and without, in turn, so that both see the same machine."""
    scaled, bare = our_search(task), search_without_steps(task)
    seconds = {"with": [], "without": []}
    for search in (scaled, bare):
        search.fit(X, y)
    for _ in range(repeats):
        for which, search in (("with", scaled), ("without", bare)):
            seconds[which].append(harness.seconds_of(lambda s=search: s.fit(X, y)))
    medians = [float(np.median(runs)) for runs in (seconds["with"], seconds["without"])]
    return {
        "seconds": seconds,
        "ratio": medians[0] / medians[1],
        "plan": str(bare.plan_),
        **found(bare),
    }


def breakdown(task, X, y, repeats):
    """Medians of parts of the job, and of what no search can do without."""
    parts = {
        "search without refit": lambda: our_search(task, refit=False).fit(X, y),
        "search of one candidate": lambda: our_search(task.part(1)).fit(X, y),
    }
    if task.is_affine:
        parts["moments of the folds alone"] = lambda: moments(task, X, y)
        parts[f"one product X'X in {X.dtype}"] = lambda: X.T @ X
    return {name: harness.timing(part, repeats)["median"] for name, part in parts.items()}


def moments(task, X, y):
    """What every step is fitted to, read as the search reads it."""
    last = getattr(gpuml.linear_model, task.steps[-1])()
    splits = split_rows(task.splitter, X, y, len(X))
    folds = make_folds(last.multifit_batch(X, y), splits)
    return describe(folds, block_bytes=gpuml.get_config()["block_bytes"], by_features=True)


def checks(scenario, result):
    """What gpuml should reach, and whether it did, in this run; speed only at the full size."""
    own, check = result["contenders"][0], result["against_float64"]
    label = f"scores are within {check['allowed']:g} of scikit-learn's in float64"
    out = {label: check["largest_score_difference"] <= check["allowed"]}
    route = "all candidates together" if scenario.task.is_affine else "shared steps fitted once"
    out[f"route: {route}"] = route in own["plan"]
    if (result["problem"]["rows"], result["problem"]["features"]) != (
        scenario.rows,
        scenario.features,
    ):
        return out
    ratios = [record["ratio"] for record in result["contenders"] if "ratio" in record]
    if scenario.target_seconds is not None:
        label = f"at most {1000 * scenario.target_seconds:g} ms"
        out[label] = own["seconds"]["median"] <= scenario.target_seconds
    if scenario.target_ratio is not None and ratios:
        label = f"the fastest rival takes {scenario.target_ratio:g} times as long, or longer"
        out[label] = min(ratios) >= scenario.target_ratio
    if scenario.target_unscaled is not None:
        label = f"at most {scenario.target_unscaled:g} times as long as without the scaler"
        out[label] = result["without_scaler"]["ratio"] <= scenario.target_unscaled
    return out


# ---------------------------------------------------------------- telling about it


def show(result):
    """Print a scenario as two tables."""
    problem = result["problem"]
    title = (
        f"{result['scenario']}: {problem['rows']:,} x {problem['features']} {problem['dtype']} "
        f"({problem['library']}), {' -> '.join(problem['steps'])}, "
        f"{problem['candidates']} candidates x {N_SPLITS} folds"
    )
    contenders = result["contenders"]
    rows = [
        {"contender": each["name"], "candidates": each["candidates"]} | as_row(each)
        for each in contenders
    ]
    harness.print_table(title, rows)
    for each in contenders:
        if "failed" in each:
            print(f"{each['name']} {each['failed']}")
    harness.print_facts(facts_to_show(result))


def facts_to_show(result):
    own, check = result["contenders"][0], result["against_float64"]
    facts = {"plan": own["plan"], "passes over the rows": own["passes"]}
    facts |= harness.memory_facts(own) | harness.parts_of(result["breakdown_seconds"])
    if "without_scaler" in result:
        facts["time with the scaler / without"] = f"{result['without_scaler']['ratio']:.2f}"
    label = f"scores against float64, {check['rows']:,} rows"
    facts[label] = f"{check['largest_score_difference']:.1e}"
    return facts | {name: "yes" if so else "NO" for name, so in result["checks"].items()}


def main():
    parser = harness.arguments(__doc__, [*SCENARIOS, *GROUPS], ["host"], RIVAL_NAMES)
    add = parser.add_argument
    add("--rival-rows", type=int, help="rows for every rival; gpuml runs on as many beside it")
    add("--rival-candidates", type=int, help="candidates for every rival, and for gpuml beside it")
    add("--device", choices=["auto", "cpu", "cuda"], help="gpuml's setting for host data")
    args = parser.parse_args()
    names = harness.names_of(args.scenario, GROUPS)
    harness.report_on("pipeline_search", names, run_scenario, show, args)


if __name__ == "__main__":
    main()
