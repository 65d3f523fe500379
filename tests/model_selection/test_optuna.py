"""Searches that Optuna guides: its samplers, pruners and storages, over our evaluation."""

import warnings

import numpy as np
import pytest
from scipy.stats import loguniform, norm, randint, uniform
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.linear_model import Ridge as TheirRidge
from sklearn.model_selection import cross_val_score
from sklearn.tree import DecisionTreeRegressor

optuna = pytest.importorskip("optuna", minversion="5.0")

from gpuml.linear_model import ElasticNet, Ridge  # noqa: E402
from gpuml.model_selection import OneStandardError, Session  # noqa: E402
from gpuml.optuna import OptunaSearchCV, optimize  # noqa: E402
from gpuml.pipeline import make_pipeline  # noqa: E402
from gpuml.preprocessing import MinMaxScaler, StandardScaler  # noqa: E402
from gpuml.testing import array_libraries  # noqa: E402

SPACE = {"alpha": loguniform(1e-3, 1e3)}


@pytest.fixture(scope="module")
def numbers():
    return load_diabetes(return_X_y=True)


@pytest.fixture(autouse=True)
def quiet():
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    yield
    optuna.logging.set_verbosity(before)


def new_study(sampler=None, **options):
    sampler = sampler or optuna.samplers.TPESampler(seed=0)
    return optuna.create_study(direction="maximize", sampler=sampler, **options)


@pytest.mark.parametrize("library", array_libraries())
def test_a_search_finds_what_its_trials_say(library, numbers):
    X, y = map(library.asarray, numbers)
    search = OptunaSearchCV(Ridge(), SPACE, n_trials=25, random_state=0).fit(X, y)
    assert len(search.cv_results_["params"]) == len(search.study_.trials) == 25
    for trial, score, number in zip(
        search.study_.trials,
        search.cv_results_["mean_test_score"],
        search.cv_results_["trial"],
        strict=True,
    ):
        assert trial.number == number
        assert trial.value == pytest.approx(score)
    assert search.study_.best_params == search.best_params_
    assert search.study_.best_value == pytest.approx(search.best_score_)
    # One reading, for three batches and the refit.
    assert search.plan_.n_passes == 1
    again = clone(search).fit(X, y)
    assert again.best_params_ == search.best_params_


def test_scores_are_those_of_cross_val_score(numbers):
    X, y = numbers
    space = {
        "elasticnet__alpha": optuna.distributions.FloatDistribution(1e-3, 1.0, log=True),
        "elasticnet__l1_ratio": uniform(0.1, 0.9),
        "elasticnet__fit_intercept": [True, False],
    }
    model = make_pipeline(StandardScaler(), ElasticNet())
    study = new_study()
    with Session(model, X, y, cv=4) as session:
        study.optimize(session.objective(space), n_trials=5)
        optimize(study, session, space, n_trials=12, batch_size=5)
        assert session.plan_.n_passes == 1
    assert len(study.trials) == 17
    for trial in study.trials[::4]:
        expected = cross_val_score(clone(model).set_params(**trial.params), X, y, cv=4).mean()
        assert trial.value == pytest.approx(expected, rel=1e-8)


def from_package(sampler, package):
    """A sampler that needs a package which Optuna does not bring."""
    pytest.importorskip(package)
    return sampler(seed=0, n_startup_trials=2)


@pytest.mark.parametrize(
    "sampler",
    [
        lambda: optuna.samplers.RandomSampler(seed=0),
        lambda: optuna.samplers.TPESampler(seed=0, multivariate=True, n_startup_trials=4),
        lambda: optuna.samplers.TPESampler(seed=0, constant_liar=True, n_startup_trials=2),
        lambda: optuna.samplers.GridSampler({"alpha": [0.1, 1.0, 10.0], "fit": [0, 1]}),
        lambda: optuna.samplers.QMCSampler(seed=0),
        lambda: optuna.samplers.NSGAIISampler(seed=0, population_size=4),
        lambda: optuna.samplers.NSGAIIISampler(seed=0, population_size=4),
        lambda: optuna.samplers.BruteForceSampler(seed=0),
        lambda: optuna.samplers.PartialFixedSampler(
            {"fit": 1}, optuna.samplers.RandomSampler(seed=0)
        ),
        lambda: from_package(optuna.samplers.CmaEsSampler, "cmaes"),
        lambda: from_package(optuna.samplers.GPSampler, "torch"),
    ],
    ids=[
        *(
            "Random",
            "TPE",
            "liar",
            "Grid",
            "QMC",
            "NSGAII",
            "NSGAIII",
            "BruteForce",
            "PartialFixed",
        ),
        *("CmaEs", "GP"),
    ],
)
def test_samplers(sampler, numbers):
    def space(trial):
        alpha = trial.suggest_categorical("alpha", [0.1, 1.0, 10.0])
        return {"alpha": alpha, "fit_intercept": bool(trial.suggest_int("fit", 0, 1))}

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some are experimental
        study = new_study(sampler())
        search = OptunaSearchCV(Ridge(), space, n_trials=6, batch_size=3, study=study)
        search.fit(*numbers)
    assert search.study_ is study
    assert [trial.state.name for trial in study.trials] == ["COMPLETE"] * 6


def test_storages_go_on(tmp_path, numbers):
    storages = optuna.storages
    storage = storages.JournalStorage(storages.journal.JournalFileBackend(f"{tmp_path}/journal"))
    for n_trials in (4, 8):
        study = optuna.create_study(
            storage=storage, study_name="one", direction="maximize", load_if_exists=True
        )
        search = OptunaSearchCV(Ridge(), SPACE, n_trials=4, batch_size=2, study=study)
        explained = search.explain(*numbers)
        assert explained.n_fits == 10
        search.fit(*numbers)
        assert len(study.trials) == n_trials


def test_one_by_one_candidates_are_pruned_between_splits(numbers):
    X, y = numbers
    space = {"max_depth": optuna.distributions.IntDistribution(1, 12)}
    pruner = optuna.pruners.MedianPruner(n_startup_trials=3, n_warmup_steps=0)
    study = new_study(pruner=pruner)
    model = DecisionTreeRegressor(random_state=0)
    search = OptunaSearchCV(
        model, space, n_trials=20, batch_size=4, study=study, enable_pruning=True
    ).fit(X, y)
    states = [trial.state.name for trial in study.trials]
    assert {"COMPLETE", "PRUNED"} == set(states)
    means = search.cv_results_["mean_test_score"]
    assert [state == "PRUNED" for state in states] == np.isnan(means).tolist()
    assert search.plan_.n_fits < 100
    assert search.best_score_ == pytest.approx(study.best_value)
    # A study over a session prunes, too.
    study = new_study(pruner=pruner)
    session = Session(model, X, y)
    study.optimize(session.objective(space), n_trials=20)
    states = [trial.state.name for trial in study.trials]
    assert {"COMPLETE", "PRUNED"} == set(states)
    complete = next(trial for trial in study.trials if trial.state.name == "COMPLETE")
    expected = cross_val_score(model.set_params(**complete.params), X, y).mean()
    assert complete.value == pytest.approx(expected)


def test_candidates_of_one_pass_are_not_pruned(numbers):
    pruner = optuna.pruners.MedianPruner(n_startup_trials=1, n_warmup_steps=0)
    study = new_study(pruner=pruner)
    OptunaSearchCV(Ridge(), SPACE, n_trials=8, study=study, enable_pruning=True).fit(*numbers)
    assert {trial.state.name for trial in study.trials} == {"COMPLETE"}


def test_several_metrics(numbers):
    X, y = numbers
    scoring = ["r2", "neg_mean_absolute_error"]
    search = OptunaSearchCV(Ridge(), SPACE, n_trials=5, scoring=scoring, refit="r2").fit(X, y)
    r2 = search.cv_results_["mean_test_r2"]
    np.testing.assert_allclose([trial.value for trial in search.study_.trials], r2)
    study = optuna.create_study(directions=["maximize"] * 2)
    session = Session(Ridge(), X, y, scoring=scoring)
    study.optimize(session.objective(SPACE, metric=scoring), n_trials=3)
    assert all(len(trial.values) == 2 for trial in study.trials)
    with pytest.raises(ValueError, match="metric must be one of r2"):
        study.optimize(session.objective(SPACE), n_trials=1)
    with pytest.raises(ValueError, match="refit must name"):
        OptunaSearchCV(Ridge(), SPACE, scoring=scoring, refit=False).fit(X, y)


def test_spaces(numbers):
    space = {
        "ridge__alpha": randint(1, 4),
        "standardscaler": [StandardScaler(), MinMaxScaler(), "passthrough"],
        "ridge__fit_intercept": np.asarray([True, False]),
    }
    model = make_pipeline(StandardScaler(), Ridge())
    search = OptunaSearchCV(model, space, n_trials=12, random_state=0).fit(*numbers)
    assert {type(p["ridge__alpha"]) for p in search.cv_results_["params"]} == {int}
    assert {p["ridge__alpha"] for p in search.cv_results_["params"]} <= {1, 2, 3}
    kinds = {type(p["standardscaler"]) for p in search.cv_results_["params"]}
    assert kinds <= {StandardScaler, MinMaxScaler, str}
    assert len(kinds) > 1
    with pytest.raises(TypeError, match="must be a list of choices, a distribution"):
        OptunaSearchCV(model, {"ridge__alpha": norm()}).fit(*numbers)


def test_failures_are_told(numbers):
    X, y = numbers
    study = new_study()
    space = {"alpha": [-1.0, 1.0]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn tells of failed fits and of nan
        OptunaSearchCV(TheirRidge(), space, n_trials=12, study=study).fit(X, y)
    for trial in study.trials:
        assert (trial.state.name == "FAIL") == (trial.params["alpha"] < 0)
    study = new_study()
    with pytest.raises(ValueError, match="All the 10 fits failed"):
        OptunaSearchCV(TheirRidge(), {"alpha": [-1.0]}, n_trials=2, study=study).fit(X, y)
    assert {trial.state.name for trial in study.trials} == {"FAIL"}
    two = optuna.create_study(directions=["maximize"] * 2)
    with pytest.raises(ValueError, match="one direction"):
        OptunaSearchCV(Ridge(), SPACE, study=two).fit(X, y)
    with pytest.raises(ValueError, match="batch_size"):
        OptunaSearchCV(Ridge(), SPACE, batch_size=0).fit(X, y)
    with pytest.raises(ValueError, match="batch_size must be an int of at least 1"):
        optimize(new_study(), Session(Ridge(), X, y), SPACE, n_trials=2, batch_size=0)


def test_a_timeout_or_a_callback_ends_it(numbers):
    def stop(study, trial):
        if trial.number == 4:
            study.stop()

    search = OptunaSearchCV(Ridge(), SPACE, n_trials=100, batch_size=3, callbacks=[stop])
    assert len(search.fit(*numbers).study_.trials) == 6
    search = OptunaSearchCV(Ridge(), SPACE, n_trials=100_000, timeout=0.05).fit(*numbers)
    assert 1 <= len(search.study_.trials) < 100_000


@pytest.mark.parametrize(
    "start",
    [
        lambda study, session: OptunaSearchCV(Ridge(), SPACE, study=study).fit(*session),
        lambda study, session: optimize(study, Session(Ridge(), *session), SPACE, n_trials=3),
        lambda study, session: study.optimize(
            Session(Ridge(), *session).objective(SPACE), n_trials=1
        ),
    ],
    ids=["search", "optimize", "objective"],
)
def test_a_study_that_minimises_scores_is_refused(start, numbers):
    """Optuna's default direction would find the worst candidate."""
    with pytest.raises(ValueError, match=r"create_study\(direction='maximize'\), got .*'minimize'"):
        start(optuna.create_study(), numbers)


def test_the_simplest_within_an_error_of_the_best(numbers):
    search = OptunaSearchCV(Ridge(), SPACE, n_trials=20, refit="1se", random_state=0).fit(*numbers)
    assert search.best_index_ == OneStandardError()(search.cv_results_)
    assert search.best_params_["alpha"] > search.study_.best_params["alpha"]


def test_pruning_of_all_candidates_is_an_error(numbers):
    study = new_study(pruner=optuna.pruners.ThresholdPruner(lower=2.0))
    search = OptunaSearchCV(DecisionTreeRegressor(), {"max_depth": [1, 2, 3]}, study=study)
    with pytest.raises(ValueError, match="ThresholdPruner.* dropped all 10 candidates"):
        search.set_params(enable_pruning=True).fit(*numbers)


def test_a_plan_of_many_rounds_is_short(numbers):
    study = new_study(pruner=optuna.pruners.NopPruner())
    model = DecisionTreeRegressor(random_state=0)
    search = OptunaSearchCV(model, {"min_samples_leaf": [1, 2, 3]}, study=study, batch_size=2)
    plan = search.set_params(enable_pruning=True).fit(*numbers).plan_
    assert len(plan.steps) == 25
    assert str(plan).startswith("50 fits in 50 passes")
    assert str(plan).count("DecisionTreeRegressor") == 1
