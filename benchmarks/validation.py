"""What comes after a search: gpuml and scikit-learn on the same rows in the same run.

    python benchmarks/validation.py --json validation.json

Curves, predictions of held-out rows, permutation tests, importances, resamples, and candidates one
after another, of a ridge regression, 5 folds; nested cross-validation of it and of a logistic
regression, 5 x 5 folds, beside the search by itself; trials of Optuna, also of a pipeline with an
elastic net, beside what Optuna takes for itself.
README.md beside this file says how it is measured.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import _harness as harness
import numpy as np
import sklearn.inspection
import sklearn.model_selection as sk
from _beside import contenders
from _harness import needed_cupy, scaled, to_host
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression as SklearnLogistic
from sklearn.linear_model import Ridge as SklearnRidge

import gpuml
import gpuml.model_selection as ours
from gpuml.linear_model import ElasticNet, LogisticRegression, Ridge
from gpuml.pipeline import make_pipeline
from gpuml.preprocessing import StandardScaler

SEED = 0
FOLDS = 5
ALPHAS = np.logspace(-3, 3, 10)
MANY_ALPHAS = np.logspace(-3, 3, 50)


def validation(functions, model, X, y, n_jobs):
    return functions.validation_curve(
        model, X, y, param_name="alpha", param_range=ALPHAS, n_jobs=n_jobs
    )[1]


def learning(functions, model, X, y, n_jobs):
    return functions.learning_curve(model, X, y, n_jobs=n_jobs)[2]


def predictions(functions, model, X, y, n_jobs):
    return to_host(functions.cross_val_predict(model, X, y, n_jobs=n_jobs))


def permutations(functions, model, X, y, n_jobs, n_permutations=100, drawn_there=False):
    """Scikit-learn's own order of permutations, or one that is drawn where the rows are."""
    random_state = np.random.default_rng(SEED) if drawn_there else SEED
    options = {"n_permutations": n_permutations, "n_jobs": n_jobs, "random_state": random_state}
    return functions.permutation_test_score(model, X, y, **options)[1]


def nested(functions, model, X, y, n_jobs, grid):
    search = functions.GridSearchCV(model, grid)
    return functions.cross_val_score(search, X, y, n_jobs=n_jobs)


def plain(functions, model, X, y, n_jobs, grid):
    """The search by itself, whose splits are the outer ones of `nested`."""
    return functions.GridSearchCV(model, grid, n_jobs=n_jobs).fit(X, y).best_score_


def importances(functions, model, X, y, n_jobs):
    inspection = gpuml.inspection if functions is ours else sklearn.inspection
    model = model.fit(X, y)
    return inspection.permutation_importance(model, X, y, n_jobs=n_jobs, random_state=0)[
        "importances"
    ]


def one_by_one(functions, model, X, y, n_jobs):
    """Scores of candidates that come up one after another."""
    if functions is ours:
        with ours.Session(model, X, y) as session:
            found = [session.evaluate([{"alpha": alpha}]) for alpha in MANY_ALPHAS]
        return np.concatenate([each["mean_test_score"] for each in found])
    return np.asarray(
        [
            functions.cross_val_score(clone(model).set_params(alpha=alpha), X, y, n_jobs=n_jobs)
            for alpha in MANY_ALPHAS
        ]
    ).mean(axis=1)


def resamples(functions, model, X, y, n_jobs, n_resamples=200):
    """The mean score of models of resamples, on the rows that these lack."""
    if functions is ours:
        return np.asarray(ours.bootstrap_score(model, X, y, n_resamples=n_resamples).mean)
    splits = []
    for seed in range(n_resamples):
        drawn = np.random.default_rng(seed).integers(0, len(X), len(X))
        splits.append((drawn, np.setdiff1d(np.arange(len(X)), drawn)))
    return functions.cross_val_score(model, X, y, cv=splits, n_jobs=n_jobs).mean()


def trials(functions, model, X, y, n_jobs, space, n_trials):
    """The best score that a study of Optuna finds."""
    study = new_study()
    if functions is ours:
        known = {name: _distribution(*bounds) for name, bounds in space.items()}
        with ours.Session(model, X, y) as session:
            gpuml.optuna.optimize(study, session, known, n_trials=n_trials)
    else:

        def objective(trial):
            one = clone(model).set_params(**_suggested(trial, space))
            return functions.cross_val_score(one, X, y, n_jobs=n_jobs).mean()

        study.optimize(objective, n_trials=n_trials)
    return np.asarray(study.best_value)


def optuna_alone(functions, model, X, y, n_jobs, space, n_trials):
    """What Optuna takes for as many trials of an objective that costs nothing."""
    study = new_study()
    study.optimize(lambda trial: -sum(_suggested(trial, space).values()), n_trials=n_trials)
    return np.asarray(study.best_value)


def new_study():
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=SEED))


def _distribution(low, high, log):
    from optuna.distributions import FloatDistribution

    return FloatDistribution(low, high, log=log)


def _suggested(trial, space):
    return {
        name: trial.suggest_float(name, low, high, log=log)
        for name, (low, high, log) in space.items()
    }


@dataclass(frozen=True)
class Scenario:
    """What is asked for, of rows and features, and of which models, ours and scikit-learn's.

    `alone` has the name of what else is timed, and what it asks for. What takes rivals minutes is
    asked of us only.
    """

    ask: Callable[..., Any]
    models: tuple[Callable[[], Any], Callable[[], Any]] = (Ridge, SklearnRidge)
    labels: bool = False
    n: int = 20_000
    p: int = 40
    on_device: bool = False
    alone: tuple[str, Callable[..., Any]] | None = None
    rivals: bool = True


def of_options(ask, name, alone, **options):
    """A scenario that is asked for beside something simpler, both with some options."""
    return {"ask": partial(ask, **options), "alone": (name, partial(alone, **options))}


LOGISTIC = {"models": (LogisticRegression, SklearnLogistic), "labels": True}
NESTED = partial(of_options, nested, "gpuml, the search alone", plain)
TRIALS = partial(of_options, trials, "optuna alone", optuna_alone)
PENALTIES = {"elasticnet__alpha": (1e-3, 1.0, True), "elasticnet__l1_ratio": (0.05, 1.0, False)}
SCENARIOS = {
    "validation_curve": Scenario(validation),
    "learning_curve": Scenario(learning),
    "cross_val_predict": Scenario(predictions),
    "permutation_test_score": Scenario(permutations),
    "nested_ridge": Scenario(**NESTED(grid={"alpha": MANY_ALPHAS})),
    "nested_logistic": Scenario(**NESTED(grid={"C": np.logspace(-3, 3, 10)}), **LOGISTIC),
    "permutation_importance": Scenario(importances),
    "candidates_one_by_one": Scenario(one_by_one),
    "bootstrap_score": Scenario(resamples),
}
# The same on a GPU, of which scikit-learn knows nothing.
SCENARIOS |= {
    f"device_{name}": replace(each, n=1_000_000, p=100, on_device=True, rivals=False)
    for name, each in SCENARIOS.items()
}
for name, ask in {
    "device_bootstrap_score": partial(resamples, n_resamples=1000),
    "device_permutations_1000": partial(permutations, n_permutations=1000, drawn_there=True),
}.items():
    SCENARIOS[name] = Scenario(ask, n=1_000_000, p=100, on_device=True, rivals=False)
# On a CPU alone.
SCENARIOS["optuna_trials"] = Scenario(
    **TRIALS(space={"alpha": (1e-3, 1e3, True)}, n_trials=len(MANY_ALPHAS))
)
SCENARIOS["optuna_elastic_net"] = Scenario(
    **TRIALS(space=PENALTIES, n_trials=200),
    models=(lambda: make_pipeline(StandardScaler(), ElasticNet()), ElasticNet),
    n=100_000,
    p=100,
    rivals=False,
)
GROUPS = {
    "cpu": tuple(name for name, each in SCENARIOS.items() if not each.on_device),
    "device": tuple(name for name, each in SCENARIOS.items() if each.on_device),
}


def rows(args, scenario):
    """Normal features, of which y is made, and noise; labels are its sign."""
    random = np.random.default_rng(SEED)
    X = random.normal(size=(scaled(scenario.n, args), args.features or scenario.p))
    coef = random.normal(size=X.shape[1])
    y = X @ coef + np.sqrt(len(coef)) * random.normal(size=len(X))
    return X, (y > 0).astype(float) if scenario.labels else y


def run_scenario(name, args):
    """Everything about one scenario, as it goes into the JSON."""
    scenario = SCENARIOS[name]
    X, y = rows(args, scenario)
    if scenario.on_device:
        try:
            xp = needed_cupy()
        except RuntimeError as error:
            return {"scenario": name, "skipped": str(error)}
        X, y = xp.asarray(X, dtype=xp.float32), xp.asarray(y, dtype=xp.float32)
    own, other = scenario.models
    theirs = partial(scenario.ask, sk, other(), X, y) if scenario.rivals else None
    repeats = args.repeats or 7
    with gpuml.config_context(device="auto" if scenario.on_device else "cpu"):
        found = contenders(lambda: scenario.ask(ours, own(), X, y, None), theirs, repeats, compared)
        if scenario.alone is not None:
            alone, ask = scenario.alone
            seconds = harness.timing(lambda: ask(ours, own(), X, y, None), repeats)
            ratio = seconds["median"] / found[0]["seconds"]["median"]
            found.append({"name": alone, "seconds": seconds, "ratio": ratio})
    problem = harness.facts_of(X) | {"folds": FOLDS}
    return {"scenario": name, "problem": problem, "contenders": found}


def compared(own, other):
    return {"largest_difference": float(np.max(np.abs(own - other)))}


def show(result):
    """Print a scenario as a table."""
    problem = result["problem"]
    title = f"{result['scenario']}: {problem['rows']:,} x {problem['features']}, {FOLDS} folds"
    harness.print_table(title, [as_row(contender) for contender in result["contenders"]])


def as_row(contender):
    return {
        "contender": contender["name"],
        **harness.clock_cells(contender),
        "x gpuml": harness.cell(contender.get("ratio"), ".1f"),
        "difference": harness.cell(contender.get("largest_difference"), ".1e"),
    }


def main():
    args = harness.arguments(__doc__, [*SCENARIOS, *GROUPS], ["cpu"]).parse_args()
    names = harness.names_of(args.scenario, GROUPS)
    harness.report_on("validation", names, run_scenario, show, args)


if __name__ == "__main__":
    main()
