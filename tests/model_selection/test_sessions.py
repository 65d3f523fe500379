"""A session gives what searches give, however its candidates and its rows came."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge as TheirRidge
from sklearn.model_selection import KFold, RepeatedKFold, ShuffleSplit

from gpuml._arrays import to_host
from gpuml.data import row_indices
from gpuml.decomposition import PCA
from gpuml.linear_model import ElasticNet, LogisticRegression, Ridge, RidgeClassifier
from gpuml.model_selection import GridSearchCV, Session
from gpuml.model_selection.evaluate import Evaluator
from gpuml.pipeline import make_pipeline
from gpuml.preprocessing import StandardScaler
from gpuml.testing import array_libraries

GRID = {"alpha": [0.01, 0.1, 1.0]}
CANDIDATES = [{"alpha": alpha} for alpha in GRID["alpha"]]
SPLITTERS = [5, KFold(4, shuffle=True, random_state=0)]


@pytest.fixture(scope="module")
def numbers():
    return load_diabetes(return_X_y=True)


def splits_of(session):
    """The splits of its rows as they are now, as an iterable of index pairs."""
    return [
        (row_indices(split.train), row_indices(split.test))
        for split in session._evaluator.job.splits
    ]


@pytest.mark.parametrize("library", array_libraries())
@pytest.mark.parametrize("scoring", [None, ["r2", "neg_mean_absolute_error"]])
def test_one_by_one_as_a_search(library, scoring, numbers):
    X, y = map(library.asarray, numbers)
    search = GridSearchCV(Ridge(), GRID, scoring=scoring, refit=False, return_train_score=True)
    expected = search.fit(X, y).cv_results_
    with Session(Ridge(), X, y, scoring=scoring, return_train_score=True) as session:
        for candidate in CANDIDATES:
            one = session.evaluate([candidate])
            assert one["params"] == [candidate]
        found = session.cv_results_
    assert found.keys() == expected.keys()
    for name in [name for name in found if "score" in name and "time" not in name]:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-9)
    assert session.plan_.n_passes == 1


def test_a_refit_takes_the_sums_there_are(numbers, monkeypatch):
    X, y = numbers
    session = Session(Ridge(), X, y)
    with pytest.raises(ValueError, match="Nothing was evaluated"):
        session.refit()
    with pytest.raises(NotFittedError, match="Nothing was evaluated"):
        _ = session.results_
    assert not hasattr(session, "cv_results_")
    session.evaluate(CANDIDATES)
    expected = GridSearchCV(Ridge(), GRID).fit(X, y)
    found = session.refit()
    assert found.alpha == expected.best_params_["alpha"]
    np.testing.assert_allclose(found.coef_, expected.best_estimator_.coef_, rtol=1e-9)
    assert session.refit({"alpha": 7.0}).alpha == 7.0
    assert session.plan_.n_passes == 1
    # Models one by one, too.
    theirs = Session(TheirRidge(), X, y)
    theirs.evaluate(CANDIDATES)
    np.testing.assert_allclose(theirs.refit().coef_, found.coef_, rtol=1e-8)


BEHIND_STEPS = [
    {"standardscaler__with_mean": False},
    {"ridgeclassifier__class_weight": "balanced"},
    {"ridgeclassifier__class_weight": {0: 3.0}},
    {"ridgeclassifier__alpha": 10.0, "pca__n_components": 2},
    {"standardscaler__with_std": False, "pca": "passthrough"},
    {"pca__n_components": 0.9, "ridgeclassifier__fit_intercept": False},
]


@pytest.mark.parametrize("weighted", [False, True])
def test_steps_that_are_fitted_once_are_those_of_each_candidate(weighted):
    """What a session keeps of steps before models is of the same steps, weights and targets only."""
    X, y = load_breast_cancer(return_X_y=True)
    X = X[:, :8]
    params = {"ridgeclassifier__sample_weight": np.linspace(0.5, 2, len(y))} if weighted else {}
    pipe = make_pipeline(StandardScaler(), PCA(3), RidgeClassifier())
    session = Session(pipe, X, y, params=params, cv=3)
    for candidate in [{}, *BEHIND_STEPS, {}, *BEHIND_STEPS[::-1]]:
        found = session.evaluate([candidate])
        alone = Session(pipe, X, y, params=params, cv=3).evaluate([candidate])
        for split in range(3):
            name = f"split{split}_test_score"
            np.testing.assert_array_equal(found[name], alone[name])
        coef, expected = (
            each.refit(candidate)[-1].coef_
            for each in (session, Session(pipe, X, y, params=params, cv=3))
        )
        np.testing.assert_allclose(coef, expected, rtol=1e-9, atol=1e-12)


def test_the_best_of_several_metrics_is_named(numbers):
    session = Session(Ridge(), *numbers, scoring=["r2", "neg_mean_absolute_error"])
    session.evaluate(CANDIDATES)
    with pytest.raises(ValueError, match="Choose one of the metrics 'r2', 'neg"):
        session.refit()
    assert session.results_["alpha"][0] == session.refit(metric="r2").alpha
    ranks = session.cv_results_["rank_test_neg_mean_absolute_error"]
    best = session.refit(metric="neg_mean_absolute_error")
    assert best.alpha == CANDIDATES[ranks.argmin()]["alpha"]
    for wrong in (None, "alpha", [1.0]):
        with pytest.raises(TypeError, match="list of dicts"):
            session.evaluate(wrong)
    with pytest.raises(TypeError, match="a dict of parameters, got 3"):
        session.refit(3)
    with pytest.raises(TypeError, match="list of dicts"):
        session.evaluate(CANDIDATES[0])


def test_a_closed_session_says_so_and_keeps_its_tables(numbers):
    with Session(Ridge(), *numbers) as session:
        session.evaluate(CANDIDATES)
    assert len(session.cv_results_["params"]) == 3
    for use in (
        lambda: session.evaluate(CANDIDATES),
        session.refit,
        lambda: session.remove_rows([0]),
    ):
        with pytest.raises(ValueError, match="is closed"):
            use()
    with pytest.raises(ValueError, match="No candidates"):
        Session(Ridge(), *numbers).evaluate([])


# ---------------------------------------------------------------- rows that come and go


@pytest.fixture
def n_read(monkeypatch):
    """Rows that sums were made of."""
    found = []
    import gpuml.solvers.carried as carried
    import gpuml.solvers.described as described

    for module in (carried, described):
        real = module.atom_moments

        def counted(batch, atoms, *args, _real=real, **options):
            found.append(sum(len(row_indices(atom)) for atom in atoms))
            return _real(batch, atoms, *args, **options)

        monkeypatch.setattr(module, "atom_moments", counted)
    return found


@pytest.mark.pairwise
@pytest.mark.parametrize("library", array_libraries())
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("cv", SPLITTERS, ids=str)
@pytest.mark.parametrize(
    ("model", "name"),
    [(Ridge(), "alpha"), (make_pipeline(StandardScaler(), ElasticNet()), "elasticnet__alpha")],
    ids=["Ridge", "pipeline"],
)
def test_rows_that_come_and_go_are_as_if_they_had_been_there(
    model, name, cv, weighted, library, numbers, n_read
):
    X, y = numbers
    candidates = [{name: alpha} for alpha in (0.01, 1.0)]
    to = "elasticnet__sample_weight" if "__" in name else "sample_weight"
    weight = np.random.default_rng(0).uniform(0.5, 2.0, len(y))

    def params(rows):
        return {to: library.asarray(weight[rows])} if weighted else None

    def of(rows):
        return library.asarray(X[rows]), library.asarray(y[rows])

    first, later = slice(0, 300), slice(300, None)
    session = Session(model, *of(first), cv=cv, params=params(first))
    session.evaluate(candidates)
    session.add_rows(*of(later), params=params(later))
    held_out = np.bincount(np.concatenate([test for _, test in splits_of(session)]))
    assert (held_out == 1).all()
    sizes = [len(test) for _, test in splits_of(session)]
    assert max(sizes) - min(sizes) <= 1
    gone = np.arange(50, 120)
    session.remove_rows(gone)
    found = session.evaluate(candidates)
    if not weighted or "__" not in name:
        assert sum(n_read) == 300 + 142 + 70
    rows = np.delete(np.arange(len(y)), gone)
    fresh = Session(model, *of(rows), cv=splits_of(session), params=params(rows))
    expected = fresh.evaluate(candidates)
    for split in range(session.n_splits_):
        key = f"split{split}_test_score"
        np.testing.assert_allclose(found[key], expected[key], rtol=1e-10)
    model_found, model_expected = session.refit(), fresh.refit()
    coef = [getattr(each, "coef_", None) for each in (model_found, model_expected)]
    if coef[0] is not None:
        np.testing.assert_allclose(*(to_host(each) for each in coef), rtol=1e-9)


@pytest.mark.parametrize("steps", [1, 2])
@pytest.mark.parametrize("wild", [1e3, 1e7, 1e9])
def test_wild_rows_that_go_leave_no_trace(wild, steps):
    """Their squares take digits from sums with other rows, which the first change notices."""
    random = np.random.default_rng(0)
    X = random.normal(size=(400, 5))
    y = X @ random.normal(size=5) + random.normal(size=400)
    X[[0, 3, 100, 250]] *= wild
    session = Session(Ridge(alpha=1e-3), X, y)
    session.evaluate([{}])
    if steps == 2:
        session.remove_rows([399])
        session.evaluate([{}])
    session.remove_rows([0, 3, 100, 250])
    found = session.evaluate([{}])
    rows = np.delete(np.arange(400 - (steps == 2)), [0, 3, 100, 250])
    expected = Session(Ridge(alpha=1e-3), X[rows], y[rows], cv=splits_of(session)).evaluate([{}])
    np.testing.assert_allclose(found["mean_test_score"], expected["mean_test_score"], rtol=1e-11)


def test_what_does_not_add_is_read_again():
    X, y = load_breast_cancer(return_X_y=True)
    session = Session(LogisticRegression(), X[:400] / X.max(axis=0), y[:400])
    candidates = [{"C": 0.1}, {"C": 1.0}]
    session.evaluate(candidates)
    session.add_rows(X[400:] / X.max(axis=0), y[400:])
    # Classes are dealt out by themselves.
    for label in (0, 1):
        counts = [np.sum(y[test] == label) for _, test in splits_of(session)]
        assert max(counts) - min(counts) <= 1
    found = session.evaluate(candidates)
    fresh = Session(LogisticRegression(), X / X.max(axis=0), y, cv=splits_of(session))
    expected = fresh.evaluate(candidates)
    np.testing.assert_allclose(found["mean_test_score"], expected["mean_test_score"], rtol=1e-6)


def test_rows_that_were_nearly_all_of_a_sum_leave_no_rounding(numbers):
    X, y = numbers
    wild = X.copy()
    wild[7] = 1e9
    session = Session(Ridge(), wild, y)
    session.evaluate(CANDIDATES)
    session.remove_rows([7])
    found = session.evaluate(CANDIDATES)
    fresh = Session(Ridge(), np.delete(X, 7, 0), np.delete(y, 7), cv=splits_of(session))
    expected = fresh.evaluate(CANDIDATES)
    np.testing.assert_allclose(found["mean_test_score"], expected["mean_test_score"], rtol=1e-10)


@pytest.mark.parametrize(
    "kind", [pd.DataFrame, sparse.csr_array, sparse.csc_matrix, lambda X: X.tolist()]
)
def test_rows_of_other_kinds(kind, numbers):
    X, y = numbers
    rows = np.delete(np.arange(len(y)), [3, 5])
    target = pd.Series if kind is pd.DataFrame else np.asarray
    session = Session(Ridge(), kind(X[:300]), target(y[:300]))
    session.evaluate(CANDIDATES)
    session.add_rows(kind(X[300:]), target(y[300:])).remove_rows([3, 5])
    found = session.evaluate(CANDIDATES)
    fresh = Session(Ridge(), kind(X[rows]), target(y[rows]), cv=splits_of(session))
    expected = fresh.evaluate(CANDIDATES)
    np.testing.assert_allclose(found["mean_test_score"], expected["mean_test_score"], rtol=1e-8)


@pytest.mark.parametrize(
    "cv",
    [
        ShuffleSplit(3, random_state=0),
        RepeatedKFold(n_splits=2, n_repeats=2, random_state=0),
    ],
    ids=["ShuffleSplit", "RepeatedKFold"],
)
def test_new_rows_of_other_splits_are_placed_by_the_user(cv, numbers):
    X, y = numbers
    session = Session(Ridge(), X[:400], y[:400], cv=cv)
    with pytest.raises(ValueError, match="test_fold must say"):
        session.add_rows(X[400:], y[400:])
    fold = np.arange(42) % 4 - 1
    session.add_rows(X[400:], y[400:], test_fold=fold)
    for number, (train, test) in enumerate(splits_of(session)):
        np.testing.assert_array_equal(test[test >= 400], 400 + np.flatnonzero(fold == number))
        np.testing.assert_array_equal(train[train >= 400], 400 + np.flatnonzero(fold != number))
    found = session.evaluate(CANDIDATES)
    expected = Session(Ridge(), X, y, cv=splits_of(session)).evaluate(CANDIDATES)
    np.testing.assert_allclose(found["mean_test_score"], expected["mean_test_score"], rtol=1e-10)


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (lambda s, X, y: s.add_rows(X), ValueError, "Pass y for the new rows"),
        (lambda s, X, y: s.add_rows(X, y[:2]), ValueError, "y has 2 new rows"),
        (lambda s, X, y: s.add_rows(X[:, :3], y), ValueError, r"the shape \(n_new, 10\)"),
        (lambda s, X, y: s.add_rows(X, y, test_fold=[9] * len(y)), ValueError, "one of 5 splits"),
        (lambda s, X, y: s.add_rows(X, y, test_fold=[0]), ValueError, "integers"),
        (lambda s, X, y: s.remove_rows(np.arange(442)), ValueError, "No rows are left"),
        (lambda s, X, y: s.remove_rows([442]), IndexError, "out of bounds"),
    ],
)
def test_rows_that_cannot_be_changed_so(change, error, words, numbers):
    X, y = numbers
    session = Session(Ridge(), X, y)
    before = session.evaluate(CANDIDATES)
    with pytest.raises(error, match=words):
        change(session, X[:5], y[:5])
    after = session.evaluate(CANDIDATES)
    np.testing.assert_array_equal(before["mean_test_score"], after["mean_test_score"])


def test_groups_are_not_dealt_out(numbers):
    X, y = numbers
    groups = np.arange(len(y)) // 10
    from sklearn.model_selection import GroupKFold

    session = Session(Ridge(), X, y, groups=groups, cv=GroupKFold(3))
    with pytest.raises(ValueError, match="without groups"):
        session.add_rows(X[:5], y[:5])


def test_weights_of_new_rows_are_asked_for(numbers):
    X, y = numbers
    session = Session(Ridge(), X, y, params={"sample_weight": np.ones(len(y))})
    with pytest.raises(ValueError, match="params must have 'sample_weight'"):
        session.add_rows(X[:5], y[:5])


def test_models_of_many_rounds_are_not_kept(numbers):
    session = Session(Ridge(), *numbers)
    for alpha in np.logspace(-3, 3, 5):
        session.evaluate([{"alpha": alpha}])
    evaluator: Evaluator = session._evaluator
    assert evaluator._shared == []
