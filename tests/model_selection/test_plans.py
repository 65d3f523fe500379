"""A plan says what happened: its fits, passes and words are those that are counted."""

import functools
import re
import threading
from collections import Counter
from contextlib import nullcontext
from types import SimpleNamespace

import joblib
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

import gpuml
from gpuml.feature_extraction.text import TfidfVectorizer
from gpuml.linear_model import LogisticRegression, Ridge
from gpuml.model_selection import GridSearchCV
from gpuml.model_selection.candidates import (
    ALONE,
    GROWN,
    ON_EACH_FOLD,
    STEPS,
    STEPS_AGAIN,
    STEPS_OF_TASKS,
    TOGETHER,
)
from gpuml.pipeline._affine import AffinePipeline
from gpuml.preprocessing import StandardScaler as OurScaler

CV = 3
ALPHAS = [0.1, 1.0, 10.0]
TEXTS = Pipeline([("first", TfidfVectorizer()), ("model", LogisticRegression())])
MIXED = Pipeline([("first", StandardScaler()), ("model", Ridge())])
TAIL = Pipeline([("first", StandardScaler()), ("more", OurScaler()), ("model", Ridge())])
OURS = Pipeline([("first", OurScaler()), ("model", Ridge())])
IN_COMMON = "shared steps"
FOREST = RandomForestRegressor(random_state=0)


def threads():
    return joblib.parallel_config(backend="threading")


def case(estimator, grid, ahead, ways, words=(), firsts=None, context=nullcontext, **options):
    return SimpleNamespace(**locals())


# What is said before the fits; the ways of the steps of the plan, what their words say besides, and
# how often the first step of a pipeline is fitted on a fold.
CASES = {
    "texts": case(TEXTS, {"model__C": ALPHAS}, IN_COMMON, [ON_EACH_FOLD], [STEPS], 1),
    "texts alone": case(TEXTS, {"first__min_df": [1, 2, 3]}, ALONE, [ALONE], [], 3),
    "numbers": case(MIXED, {"model__alpha": ALPHAS}, IN_COMMON, [ON_EACH_FOLD], [STEPS], 1),
    "two groups": case(
        MIXED,
        {"model__alpha": ALPHAS, "first__with_mean": [True, False]},
        IN_COMMON,
        [ON_EACH_FOLD],
        [STEPS],
        2,
    ),
    "some alone": case(
        MIXED,
        {"model__alpha": ALPHAS, "model__solver": ["auto", "sag"]},
        IN_COMMON,
        [ON_EACH_FOLD, ALONE],
        [STEPS],
        1,
    ),
    "no group, as one is refused": case(
        MIXED, {"model__alpha": [1.0, 2.0, "x"]}, IN_COMMON, [ALONE], [STEPS], 1
    ),
    "a tail": case(TAIL, {"model__alpha": ALPHAS}, IN_COMMON, [ON_EACH_FOLD], [STEPS], 1),
    "no memory": case(
        TAIL,
        {"model__solver": ["sag"], "model__alpha": [1.0, 2.0], "more__with_std": [True, False]},
        IN_COMMON,
        [ALONE],
        [STEPS_AGAIN],
        None,
        functools.partial(gpuml.config_context, cache_bytes=1),
    ),
    "more workers than folds": case(
        MIXED,
        {"model__alpha": [1.0, 2.0, 3.0, 4.0]},
        IN_COMMON,
        [ON_EACH_FOLD],
        [STEPS_OF_TASKS],
        2,
        threads,
        n_jobs=2 * CV,
    ),
    "a candidate for each worker": case(
        MIXED, {"model__alpha": ALPHAS}, IN_COMMON, [ALONE], [], 3, threads, n_jobs=3 * CV
    ),
    "all at once": case(OURS, {"model__alpha": ALPHAS}, TOGETHER, [TOGETHER], [], 0),
    "read off": case(FOREST, {"n_estimators": [2, 4]}, GROWN, [ON_EACH_FOLD], [GROWN]),
    "not read off": case(
        FOREST,
        [{"n_estimators": [2], "max_features": [1]}, {"n_estimators": [4], "max_features": [2]}],
        ALONE,
        [ALONE],
    ),
}
WORDS = {STEPS, STEPS_AGAIN, STEPS_OF_TASKS, GROWN}


@pytest.fixture
def counted(monkeypatch):
    """Fits of models, passes of shared fits, and fits of the first steps."""
    found: Counter = Counter()
    inside = threading.local()

    def counting(kind, name):
        original = getattr(kind, name)

        @functools.wraps(original)
        def wrapper(self, *args, **params):
            depth = getattr(inside, "depth", 0)
            if depth == 0 and name == "fit":
                found["fit"] += 1
            inside.depth = depth + 1
            try:
                out = original(self, *args, **params)
            finally:
                inside.depth = depth
            if depth == 0 and name == "multifit":
                found["passes"] += out.n_passes
            return out

        monkeypatch.setattr(kind, name, wrapper)

    for kind in (Ridge, LogisticRegression, AffinePipeline):
        counting(kind, "multifit")
    for kind in (Ridge, LogisticRegression, RandomForestRegressor):
        counting(kind, "fit")
    for kind in (StandardScaler, TfidfVectorizer):
        original = kind.fit_transform if kind is TfidfVectorizer else kind.fit

        def first(self, *args, _original=original, **params):
            found["first"] += 1
            return _original(self, *args, **params)

        monkeypatch.setattr(kind, original.__name__, first)
    return found


@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.FitFailedWarning", "ignore:One or more")
def test_a_plan_says_what_happened(name, counted, rng, capsys):
    one = CASES[name]
    X = rng.normal(size=(60, 3))
    y = X @ [1.0, 2.0, 3.0] + rng.normal(size=60)
    if one.estimator is TEXTS:
        X, y = [" ".join(words) for words in rng.choice(["ab", "cd", "ef"], (60, 8))], y > 0
    with one.context():
        search = GridSearchCV(one.estimator, one.grid, cv=CV, refit=False, verbose=2, **one.options)
        plan = search.fit(X, y).plan_
    assert plan.n_fits == CV * len(search.cv_results_["params"])
    assert [step.why.partition(",")[0] for step in plan.steps] == one.ways
    alone = [step for step in plan.steps if step.why.startswith(ALONE)]
    assert sum(step.n_fits for step in alone) == sum(step.n_passes for step in alone)
    read_off = sum(step.n_passes for step in plan.steps if GROWN in step.why)
    assert sum(step.n_fits for step in alone) + read_off == counted["fit"]
    assert plan.n_passes == counted["fit"] + counted["passes"]
    # Before the fits it says what is going to be done, and after them what was.
    printed = capsys.readouterr().out
    assert printed.endswith(f"\n{plan}\n")
    _, before, *fits = printed.removesuffix(f"{plan}\n").splitlines()
    # And why not all are fitted at once, both times in the same words.
    n_why = sum(line.startswith("not batched: ") for line in fits)
    ahead = [line.removeprefix("not batched: ") for line in fits[:n_why]]
    fits = fits[n_why:]
    told = [reason for step in plan.steps for reason in step.reasons]
    assert all(any(words in reason for reason in told) for words in ahead)
    assert bool(told) == any(not step.why.startswith(TOGETHER) for step in plan.steps)
    assert before.startswith("plan: ")
    assert sum(map(int, re.findall(r"(\d+) fits", before))) == plan.n_fits
    assert before.endswith(f"({one.ahead})")
    assert [line[:8] for line in fits] == ["[CV] END"] * plan.n_fits
    said = {words for words in WORDS for step in plan.steps if words in step.why}
    assert said == set(one.words)
    if one.firsts is not None:
        assert counted["first"] == CV * one.firsts


def test_results_do_not_keep_how_they_were_made(rng):
    X = rng.normal(size=(30, 2))
    search = GridSearchCV(MIXED, {"model__alpha": ALPHAS}, cv=CV).fit(X, X[:, 0])
    assert "made" not in " ".join(search.cv_results_)
