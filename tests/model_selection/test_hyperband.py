"""Hyperband: the paper's brackets, who goes on, what models are trained on, and what is refused."""

import copy
import pickle
import warnings
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from scipy.stats import loguniform, uniform
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.cluster import MiniBatchKMeans
from sklearn.ensemble import RandomForestRegressor
from sklearn.exceptions import FitFailedWarning, NotFittedError
from sklearn.linear_model import SGDClassifier, SGDRegressor
from sklearn.model_selection import ParameterSampler

from gpuml._arrays import place_of
from gpuml.linear_model import LogisticRegression, Ridge
from gpuml.model_selection import HyperbandSearchCV
from gpuml.model_selection.brackets import Bracket, BracketRun, plan_brackets
from gpuml.model_selection.row_blocks import RowBlocks, even_bounds
from gpuml.model_selection.trainers import seeded

DRAWS = {"alpha": loguniform(1e-6, 1e1), "average": [True, False]}
UNTIMED = ("test_score", "rank_test_score", "model_id", "bracket", "partial_fit_calls", "params")


def data(rng, *, n=400, p=5, classes=False):
    X = rng.normal(size=(n, p))
    y = X @ rng.normal(size=p) + 0.3 * rng.normal(size=n)
    return X, (y > 0).astype(np.int64) if classes else y


def table(search):
    return {name: list(search.cv_results_[name]) for name in UNTIMED}


class Recorder(RegressorMixin, BaseEstimator):
    """Writes down the rows of each call; its score is `quality`, whatever the rows."""

    def __init__(self, quality=0.0, log=None, random_state=None):
        self.quality = quality
        self.log = log
        self.random_state = random_state

    def partial_fit(self, X, y, sample_weight=None):
        self.calls_ = [*getattr(self, "calls_", []), X[:, 0].copy()]
        self.weights_ = sample_weight
        return self

    fit = partial_fit

    def score(self, X, y, sample_weight=None):
        self.scored_on_ = X[:, 0].copy()
        assert sample_weight is None or np.array_equal(sample_weight, self.scored_on_)
        return self.quality


class Fails(Recorder):
    """Fails at its third call if its quality is above a half."""

    def partial_fit(self, X, y):
        if self.quality > 0.5 and len(getattr(self, "calls_", [])) == 2:
            raise ValueError("too good to be true")
        return super().partial_fit(X, y)


# ---------------------------------------------------------------- brackets


def test_brackets_are_those_of_the_paper():
    # R = 81, eta = 3; models and calls of each rung by algorithm 1.
    expected = {
        4: [(81, 1), (27, 3), (9, 9), (3, 27), (1, 81)],
        3: [(34, 3), (11, 9), (3, 27), (1, 81)],
        2: [(15, 9), (5, 27), (1, 81)],
        1: [(8, 27), (2, 81)],
        0: [(5, 81)],
    }
    assert {b.number: list(b.rungs) for b in plan_brackets(81, 3)} == expected


@pytest.mark.parametrize("eta", [2, 3, 4])
@pytest.mark.parametrize("max_calls", [1, 2, 9, 27, 81, 100, 243, 1000])
def test_every_bracket_has_about_the_same_budget(max_calls, eta):
    plan = plan_brackets(max_calls, eta)
    largest = plan[0].number
    assert eta**largest <= max_calls < eta ** (largest + 1)
    assert [b.number for b in plan] == list(range(largest, -1, -1))
    for bracket in plan:
        # Each rung may spend (s_max + 1) R / (s + 1); rounding up adds a model at most.
        most = (largest + 1) * max_calls / (bracket.number + 1)
        for n_models, n_calls in bracket.rungs:
            assert n_models * n_calls <= most + max_calls
        assert bracket.rungs[-1][0] >= 1
        assert max_calls / eta < bracket.rungs[-1][1] <= max_calls


def run_to_the_end(run, score_of):
    while asked := run.next():
        for entry, wanted in asked:
            record = {"partial_fit_calls": wanted, "score": score_of(entry, wanted)}
            run.record(entry, record, None)
    return run


def test_the_best_of_a_rung_go_on():
    run = BracketRun(Bracket(2, ((9, 1), (3, 3), (1, 9))), [{}] * 9)
    run_to_the_end(run, lambda entry, calls: -abs(entry.number - 4.2) + 100 * calls)
    assert [entry.n_calls for entry in run.entries] == [1, 1, 1, 3, 9, 3, 1, 1, 1]
    assert run.best.number == 4


def test_a_score_that_is_no_number_is_the_worst():
    run = BracketRun(Bracket(1, ((3, 1), (1, 3))), [{}] * 3)
    scores = [np.nan, -1e9, np.nan]
    run_to_the_end(run, lambda entry, calls: scores[entry.number])
    assert run.best.number == 1


def test_equal_scores_keep_the_first():
    run = BracketRun(Bracket(1, ((6, 1), (2, 3))), [{}] * 6)
    run_to_the_end(run, lambda entry, calls: 0.0)
    assert [entry.n_calls for entry in run.entries] == [3, 3, 1, 1, 1, 1]


@pytest.mark.parametrize(("tol", "expected"), [(0.05, 4), (0.01, 20), (None, 20), (np.nan, 20)])
def test_models_whose_scores_do_not_rise_stop(tol, expected):
    # Scores rise by 0.01 a call: by 0.03 in three calls.
    run = BracketRun(Bracket(0, ((1, 20),)), [{}], patience=3, tol=tol)
    run_to_the_end(run, lambda entry, calls: calls / 100)
    (entry,) = run.entries
    assert entry.n_calls == expected
    assert all(b - a <= 3 for a, b in pairwise(r["partial_fit_calls"] for r in entry.records))


# ---------------------------------------------------------------- rows


def test_each_block_holds_out_its_share(rng):
    blocks = RowBlocks(even_bounds(103, 25), 0.2, 7)
    assert blocks.bounds == (0, 25, 50, 75, 100, 103)
    parts = [blocks.train(j) for j in range(5)]
    everything = np.concatenate([*parts, blocks.test()])
    np.testing.assert_array_equal(np.sort(everything), np.arange(103))
    assert [len(part) for part in parts] == [20, 20, 20, 20, 2]
    shorter, longer = set(blocks.prefix(0.25)), set(blocks.prefix(0.5))
    assert shorter < longer < set(blocks.prefix(1.0)) == set(np.concatenate(parts))


def test_calls_take_all_blocks_before_any_comes_again():
    blocks = RowBlocks(even_bounds(60, 10), 0.1, 3)
    order = blocks.order(15)
    assert sorted(order[:6]) == sorted(order[6:12]) == list(range(6))
    assert order[:6] != order[6:12]


def test_models_go_on_from_where_they_were(rng):
    X, y = data(rng, n=90)
    search = HyperbandSearchCV(
        Recorder(), {"quality": uniform(0, 1)}, max_iter=9, chunk_size=30, random_state=0
    ).fit(X, y)
    model = search.best_estimator_
    assert len(model.calls_) == 9
    held_out = set(model.scored_on_)
    assert len(held_out) == 18
    seen = [set(call) for call in model.calls_]
    assert set().union(*seen[:3]) == set(X[:, 0]) - held_out
    assert sorted(map(sorted, seen[:3])) == sorted(map(sorted, seen[6:]))


# ---------------------------------------------------------------- searches


def test_metadata_is_what_happened(rng):
    X, y = data(rng)
    search = HyperbandSearchCV(Recorder(), {"quality": uniform(0, 1)}, max_iter=27, random_state=1)
    with pytest.raises(NotFittedError):
        search.metadata_  # noqa: B018
    search.fit(X, y)
    assert search.metadata_ == search.metadata
    assert search.metadata["n_models"] == len(search.cv_results_["model_id"]) == 49
    assert search.metadata["brackets"][3] == {
        "bracket": 3, "n_models": 27, "partial_fit_calls": 81, "decisions": [1, 3, 9, 27]
    }  # fmt: skip
    assert search.cv_results_["partial_fit_calls"].sum() == search.metadata["partial_fit_calls"]
    assert search.plan_.n_passes == search.metadata["partial_fit_calls"]


def test_the_best_of_all_candidates_is_found(rng):
    X, y = data(rng)
    search = HyperbandSearchCV(Recorder(), {"quality": uniform(0, 1)}, max_iter=27, random_state=1)
    results = search.fit(X, y).cv_results_
    qualities = results["param_quality"]
    np.testing.assert_array_equal(results["test_score"], qualities)
    assert search.best_index_ == np.argmax(qualities)
    assert search.best_score_ == search.best_params_["quality"] == qualities.max()
    assert results["rank_test_score"][search.best_index_] == 1
    assert search.best_estimator_.quality == qualities.max()


def test_a_known_problem_is_solved(rng):
    X, y = data(rng, n=1000, classes=True)
    search = HyperbandSearchCV(
        SGDClassifier(), {"alpha": [1e-4, 1e3, 1e4, 1e5, 1e6]}, max_iter=9, random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # fewer candidates than models
        search.fit(X, y)
    assert search.best_params_ == {"alpha": 1e-4}
    assert search.best_score_ > 0.85
    assert search.score(X, y) > 0.85
    assert set(search.classes_) == {0, 1}
    assert search.n_features_in_ == 5


def test_candidates_are_drawn_by_bracket_as_in_dask_ml(rng):
    X, y = data(rng, n=60)
    draws = {"quality": uniform(0, 1)}
    search = HyperbandSearchCV(Recorder(), draws, max_iter=9, random_state=5).fit(X, y)
    first = np.random.RandomState(5).randint(2**31)
    seeds = {0: 5, 1: first + 1, 2: first + 2}
    for bracket in plan_brackets(9, 3):
        expected = ParameterSampler(draws, bracket.n_models, random_state=seeds[bracket.number])
        of_bracket = search.cv_results_["bracket"] == bracket.number
        found = [
            p for p, mine in zip(search.cv_results_["params"], of_bracket, strict=True) if mine
        ]
        assert found == list(expected)


@pytest.mark.some
@pytest.mark.parametrize("random_state", [3, np.random.RandomState(3)])
@pytest.mark.parametrize("settings", [{}, {"n_jobs": 2}, {"patience": True}])
def test_the_same_seed_gives_the_same_table(rng, random_state, settings):
    X, y = data(rng, classes=True)
    # SGDClassifier shuffles by random_state=None: it gets a seed.
    found = [
        HyperbandSearchCV(
            SGDClassifier(), DRAWS, max_iter=9, chunk_size=100, random_state=state, **settings
        ).fit(X, y)
        for state in (copy.deepcopy(random_state), copy.deepcopy(random_state))
    ]
    assert table(found[0]) == table(found[1])
    np.testing.assert_array_equal(*(search.best_estimator_.coef_ for search in found))


def test_jobs_do_not_change_the_table(rng):
    X, y = data(rng)
    search = HyperbandSearchCV(SGDRegressor(), DRAWS, max_iter=9, chunk_size=100, random_state=0)
    here = clone(search).fit(X, y)
    assert table(here) == table(clone(search).set_params(n_jobs=2).fit(X, y))


def test_histories_say_when_each_model_was_scored(rng):
    X, y = data(rng)
    search = HyperbandSearchCV(Recorder(), {"quality": uniform(0, 1)}, max_iter=9, random_state=1)
    search.fit(X, y)
    assert sum(map(len, search.model_history_.values())) == len(search.history_)
    for position, name in enumerate(search.cv_results_["model_id"]):
        history = search.model_history_[name]
        calls = [record["partial_fit_calls"] for record in history]
        assert calls == sorted(set(calls))
        assert calls[-1] == search.cv_results_["partial_fit_calls"][position]
        assert {record["model_id"] for record in history} == {name}
        assert set(history[0]) == {
            *("model_id", "params", "bracket", "partial_fit_calls", "partial_fit_time"),
            *("score", "score_time", "elapsed_wall_time"),
        }


def test_patience_saves_calls(rng):
    X, y = data(rng)
    search = HyperbandSearchCV(
        Recorder(), {"quality": uniform(0, 1)}, max_iter=27, patience=True, random_state=1
    ).fit(X, y)
    assert search.metadata_["partial_fit_calls"] < search.metadata["partial_fit_calls"]
    assert search.metadata_["n_models"] == search.metadata["n_models"]


# ---------------------------------------------------------------- other resources


@pytest.mark.parametrize("classes", [False, True])
def test_rows_are_a_resource(rng, library, classes):
    X, y = data(rng, classes=classes)
    estimator, name = (LogisticRegression(), "C") if classes else (Ridge(), "alpha")
    search = HyperbandSearchCV(
        estimator, {name: loguniform(1e-3, 1e3)}, max_iter=9, random_state=0
    ).fit(library.asarray(X), library.asarray(y))
    assert search.metadata_ == search.metadata
    # One step for each rung: all of its models at once.
    assert len(search.plan_.steps) == sum(len(b["decisions"]) for b in search.metadata["brackets"])
    assert place_of(search.best_estimator_.coef_) == place_of(library.asarray(X))
    expected = clone(search.best_estimator_).fit(X, y)
    coef = np.asarray(library.to_numpy(search.best_estimator_.coef_))
    np.testing.assert_allclose(coef, expected.coef_, rtol=1e-3, atol=1e-4)


def test_scores_are_of_models_of_row_prefixes(rng):
    X, y = data(rng)
    search = HyperbandSearchCV(
        Ridge(), {"alpha": loguniform(1e-3, 1e3)}, max_iter=9, random_state=0
    )
    search.fit(X, y)
    seed = int(np.random.RandomState(0).randint(2**31))
    blocks = RowBlocks((0, len(y)), 0.2, seed)
    test = blocks.test()
    for record in search.history_:
        rows = blocks.prefix(record["partial_fit_calls"] / 9)
        model = Ridge(**record["params"]).fit(X[rows], y[rows])
        assert record["score"] == pytest.approx(model.score(X[test], y[test]), rel=1e-9)


def test_a_parameter_is_a_resource(rng):
    X, y = data(rng, n=100)
    search = HyperbandSearchCV(
        RandomForestRegressor(max_features=1),
        {"max_depth": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]},
        max_iter=9,
        resource="n_estimators",
        random_state=0,
    ).fit(X, y)
    assert search.metadata_ == search.metadata
    best_calls = search.cv_results_["partial_fit_calls"][search.best_index_]
    assert search.best_estimator_.n_estimators == best_calls
    assert table(search) == table(clone(search).fit(X, y))


# ---------------------------------------------------------------- what fit takes


def test_weights_go_with_their_rows(rng):
    X, y = data(rng, n=60)
    search = HyperbandSearchCV(
        Recorder(), {"quality": uniform(0, 1)}, max_iter=3, chunk_size=20, random_state=0
    ).fit(X, y, sample_weight=X[:, 0])
    np.testing.assert_array_equal(
        search.best_estimator_.weights_, search.best_estimator_.calls_[-1]
    )


def test_frames_keep_their_names(rng):
    X, y = data(rng, classes=True)
    frame = pd.DataFrame(X, columns=list("abcde"))
    search = HyperbandSearchCV(SGDClassifier(), DRAWS, max_iter=3, random_state=0).fit(frame, y)
    assert list(search.feature_names_in_) == list("abcde")
    assert len(search.predict(frame)) == len(y)


def test_models_without_targets_are_scored_by_themselves(rng):
    X, _ = data(rng)
    search = HyperbandSearchCV(
        MiniBatchKMeans(n_init=1), {"n_clusters": list(range(2, 30))}, max_iter=3, random_state=0
    ).fit(X)
    assert search.transform(X).shape[1] == search.best_params_["n_clusters"]


def test_a_search_is_cloned_and_pickled(rng):
    X, y = data(rng, classes=True)
    search = clone(HyperbandSearchCV(SGDClassifier(), DRAWS, max_iter=3, random_state=0)).fit(X, y)
    back = pickle.loads(pickle.dumps(search))
    assert table(back) == table(search)
    np.testing.assert_array_equal(back.predict(X), search.predict(X))


def test_seeds_are_given_where_there_is_none():
    model = seeded(SGDClassifier(), 1)
    assert model.random_state == seeded(SGDClassifier(), 1).random_state
    assert model.random_state != seeded(SGDClassifier(), 2).random_state
    assert seeded(SGDClassifier(random_state=9), 1).random_state == 9


# ---------------------------------------------------------------- what fails


def test_a_model_that_fails_gets_no_more_calls(rng):
    X, y = data(rng, n=60)
    search = HyperbandSearchCV(Fails(), {"quality": uniform(0, 1)}, max_iter=9, random_state=0)
    with pytest.warns(FitFailedWarning, match="too good to be true"):
        search.fit(X, y)
    failed = np.isnan(search.cv_results_["test_score"])
    assert failed.any()
    assert (search.cv_results_["param_quality"][failed] > 0.5).all()
    assert search.best_score_ <= 0.5
    assert search.cv_results_["rank_test_score"][failed].min() == np.sum(~failed) + 1
    with pytest.raises(ValueError, match="too good to be true"):
        clone(search).set_params(error_score="raise").fit(X, y)


class NeverFits(Recorder):
    """Fails at once."""

    def partial_fit(self, X, y):
        raise ValueError("never")


def test_a_search_whose_fits_all_fail_says_so_and_stays_as_it_was(rng):
    X, y = data(rng, n=60)
    search = HyperbandSearchCV(NeverFits(), {"quality": uniform(0, 1)}, max_iter=3, random_state=0)
    before = dict(vars(search))
    with pytest.raises(ValueError, match="All the 5 fits failed"):
        search.fit(X, y)
    assert vars(search) == before


BAD = {
    "max_iter": ({"max_iter": 0}, "max_iter"),
    "aggressiveness": ({"aggressiveness": 1}, "aggressiveness"),
    "test_size": ({"test_size": 1.5}, "test_size"),
    "chunk_size": ({"chunk_size": 0}, "chunk_size"),
    "scoring": ({"scoring": "best"}, "scoring"),
    "several metrics": ({"scoring": ["r2"]}, "scoring"),
    "resource": ({"resource": "depth"}, "Cannot use resource=depth"),
    "searched resource": ({"resource": "alpha"}, "part of the searched parameters"),
    "patience": ({"patience": 1}, "always detects a plateau"),
    "no rows left": ({"chunk_size": 1}, "train set will be empty"),
    "no jobs": ({"n_jobs": 0}, "n_jobs == 0"),
    "error_score": ({"error_score": "nan"}, "error_score"),
}


@pytest.mark.parametrize(("settings", "message"), BAD.values(), ids=BAD)
def test_bad_settings_are_refused_by_name(rng, settings, message):
    X, y = data(rng, n=40)
    search = HyperbandSearchCV(SGDRegressor(), {"alpha": loguniform(1e-3, 1)}, **settings)
    before = dict(vars(search))
    with pytest.raises(ValueError, match=message):
        search.fit(X, y)
    assert vars(search) == before


@pytest.mark.parametrize(
    ("model", "draws", "options"),
    [
        (SGDRegressor(), {"alpha": [0.1]}, {}),
        (Ridge(), {"alpha": [0.1]}, {}),
        (RandomForestRegressor(max_depth=1), {"max_depth": [1]}, {"resource": "n_estimators"}),
    ],
    ids=["calls", "rows", "parameter"],
)
@pytest.mark.filterwarnings("ignore:The total space of parameters")
def test_several_scores_are_refused(rng, model, draws, options):
    X, y = data(rng, n=40)
    options = {"scoring": lambda *_: {"a": 1.0}, **options}
    search = HyperbandSearchCV(model, draws, max_iter=3, **options)
    with pytest.raises(ValueError, match="scoring must return a number, got {'a': 1.0}"):
        search.fit(X, y)


def test_an_estimator_without_partial_fit_is_refused_where_calls_are_asked_for(rng):
    search = HyperbandSearchCV(Ridge(), {"alpha": loguniform(1e-3, 1)}, resource="partial_fit")
    with pytest.raises(ValueError, match="Ridge has no such method"):
        search.fit(*data(rng))


def test_little_patience_warns(rng):
    X, y = data(rng, n=60)
    search = HyperbandSearchCV(
        Recorder(), {"quality": uniform(0, 1)}, max_iter=9, patience=2, random_state=0
    )
    with pytest.warns(UserWarning, match="patience >= 3"):
        search.fit(X, y)
    search.set_params(tol=None).fit(X, y)


def test_verbose_reports_rungs(rng, capsys):
    X, y = data(rng, n=60)
    HyperbandSearchCV(
        Recorder(),
        {"quality": uniform(0, 1)},
        max_iter=3,
        verbose=True,
        prefix=" a",
        random_state=0,
    ).fit(X, y)
    out = capsys.readouterr().out.splitlines()
    assert len(out) == 3
    assert out[0].startswith("[CV a] bracket 1: 3 models after 1 calls, best score ")


class TwoClasses(ClassifierMixin, BaseEstimator):
    """Has to be told of all classes at the first call."""

    def __init__(self, a=0):
        self.a = a

    def partial_fit(self, X, y, classes=None):
        if not hasattr(self, "classes_"):
            self.classes_ = np.asarray(classes)
        return self

    fit = partial_fit

    def predict(self, X):
        return np.full(len(X), self.classes_[-1])


def test_classes_are_told_unless_the_user_does(rng):
    X, y = data(rng, n=60, classes=True)
    search = HyperbandSearchCV(TwoClasses(), {"a": uniform(0, 1)}, max_iter=3, random_state=0)
    assert list(search.fit(X, y).classes_) == [0, 1]
    assert list(search.fit(X, y, classes=[0, 1, 2]).classes_) == [0, 1, 2]
