"""Results of searches as tables, the one-standard-error rule, and tests of candidates."""

import builtins
import pickle

import numpy as np
import pytest
import sklearn.linear_model as sk_linear
import sklearn.model_selection as sk
from scipy import stats
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.exceptions import NotFittedError

from gpuml.linear_model import Ridge
from gpuml.model_selection import (
    GridSearchCV,
    HalvingGridSearchCV,
    OneStandardError,
    compare_candidates,
)

PARTS = ("test", "train")
ALPHAS = {"alpha": [0.01, 0.1, 0.3, 1.0, 10.0]}


@pytest.fixture(scope="module")
def rows():
    return load_diabetes(return_X_y=True)


def made(means, errors=0.1, **params):
    """A table of scores on 4 splits with these means and standard errors."""
    spread = np.array([-1.0, 1.0, -1.0, 1.0]) * np.sqrt(3)
    scores = np.asarray(means)[:, None] + np.multiply.outer(errors * np.ones(len(means)), spread)
    names = [
        dict(zip(params, values, strict=True)) for values in zip(*params.values(), strict=True)
    ]
    splits = {f"split{i}_test_score": scores[:, i] for i in range(4)}
    return {"params": names, "mean_test_score": scores.mean(axis=1), **splits}


CHOICES = [
    # The error of the best one decides.
    (made([0.5, 0.45, 0.3], alpha=[1, 2, 3]), {}, 1),
    (made([0.5, 0.41, 0.39], alpha=[3, 2, 1]), {}, 0),
    (made([0.5, 0.45, 0.45], C=[3, 2, 1]), {}, 2),
    (made([0.5, 0.5, 0.45], model__C=[1, 2, 0.5]), {}, 2),
    # The first parameter decides, then the next, then the score.
    (made([0.5, 0.46, 0.45], alpha=[1, 2, 2], k=[5, 5, 4]), {}, 2),
    (made([0.44, 0.46, 0.5], alpha=[2, 2, 1]), {}, 1),
    # Those that differ from the best in something else are not looked at.
    (made([0.5, 0.45, 0.45], alpha=[1, 9, 2], kernel=["a", "b", "a"]), {}, 2),
    (made([0.5, 0.45], alpha=[1, None]), {}, 0),
    (made([0.5, 0.45], depth=[5, 3]), {"simpler": {"depth": "smaller"}}, 1),
    (made([0.5, 0.45], alpha=[5, 3]), {"simpler": {"alpha": "smaller"}}, 1),
    (made([np.nan, 0.5, 0.45], alpha=[9, 1, 2]), {}, 2),
]


@pytest.mark.parametrize("case", range(len(CHOICES)))
def test_the_simplest_within_one_error(case):
    table, options, expected = CHOICES[case]
    assert OneStandardError(**options)(table) == expected


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "which values are simpler of depth"),
        ({"simpler": {"width": "larger"}}, "no parameter 'width'"),
        ({"simpler": {"depth": "more"}}, "'larger' or 'smaller'"),
        ({"metric": "r2"}, "'score'"),
    ],
)
def test_what_the_rule_cannot_know(options, words):
    with pytest.raises(ValueError, match=words):
        OneStandardError(**options)(made([0.5, 0.4], depth=[1, 2]))


def test_a_search_takes_the_rule_by_name(rows):
    search = GridSearchCV(Ridge(), ALPHAS, refit="1se").fit(*rows)
    assert search.best_params_ == {"alpha": 0.3}
    assert search.best_score_ == search.cv_results_["mean_test_score"][2]
    assert search.best_estimator_.alpha == 0.3
    rule = OneStandardError(simpler={"alpha": "larger"})
    other = clone(GridSearchCV(Ridge(), ALPHAS, refit=pickle.loads(pickle.dumps(rule))))
    assert other.fit(*rows).best_index_ == search.best_index_
    theirs = sk.GridSearchCV(sk_linear.Ridge(), ALPHAS, refit=rule).fit(*rows)
    assert theirs.best_index_ == search.best_index_
    with pytest.raises(ValueError, match="same splits"):
        HalvingGridSearchCV(Ridge(), ALPHAS, refit="1se").fit(*rows)
    one = sk.ShuffleSplit(1, random_state=0)
    for rule in ("1se", OneStandardError()):
        with pytest.raises(ValueError, match="at least two splits"):
            GridSearchCV(Ridge(), ALPHAS, refit=rule, cv=one).fit(*rows)
    with pytest.raises(ValueError, match="multi-metric"):
        GridSearchCV(Ridge(), ALPHAS, refit="1se", scoring=["r2", "neg_max_error"]).fit(*rows)


def test_a_row_for_each_candidate(rows):
    grid = {"alpha": [1.0, 0.1], "fit_intercept": [True, False]}
    search = GridSearchCV(Ridge(), grid, return_train_score=True).fit(*rows)
    frame, table = search.results_, search.cv_results_
    assert list(frame["rank"]) == [1, 2, 3, 4]
    order = frame["candidate"].to_numpy()
    assert list(frame["alpha"]) == [
        grid_point["alpha"] for grid_point in np.take(table["params"], order)
    ]
    assert frame["fit_intercept"].dtype == bool
    for name, theirs in (
        ("score", "mean_test"),
        ("score_std", "std_test"),
        ("train_score", "mean_train"),
    ):
        np.testing.assert_array_equal(frame[name], table[f"{theirs}_score"][order])
    np.testing.assert_array_equal(frame["score_3"], table["split3_test_score"][order])
    several = GridSearchCV(
        Ridge(), ALPHAS, scoring=["r2", "neg_max_error"], refit="neg_max_error"
    ).fit(*rows)
    frame = several.results_
    assert frame["rank_neg_max_error"].is_monotonic_increasing
    assert {"score_r2", "score_neg_max_error_std", "score_r2_0"} <= set(frame.columns)
    with pytest.raises(AttributeError, match="not fitted"):
        GridSearchCV(Ridge(), ALPHAS).results_  # noqa: B018


def test_libraries_of_tables(rows, monkeypatch):
    search = GridSearchCV(Ridge(), {**ALPHAS, "solver": ["auto", "svd"]}).fit(*rows)
    expected, missing, real = search.results_, {"pandas"}, builtins.__import__

    def without(name, *args, **kwargs):
        if name in missing:
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    pytest.importorskip("polars")
    found = search.results_
    assert type(found).__module__.startswith("polars")
    assert found.columns == list(expected.columns)
    assert found["score"].to_list() == expected["score"].to_list()
    missing.add("polars")
    with pytest.raises(ImportError, match="pip install pandas"):
        _ = search.results_


def test_the_corrected_t_test(rows):
    search = GridSearchCV(
        Ridge(), ALPHAS, cv=sk.RepeatedKFold(n_splits=4, n_repeats=3, random_state=0)
    )
    search.fit(*rows)
    found = compare_candidates(search, reference=1)
    scores = np.stack([search.cv_results_[f"split{i}_test_score"] for i in range(12)], axis=1)
    for c, row in enumerate(found.to_dict("records")):
        if c == 1:
            assert (row["difference"], row["t"], row["p_value"]) == (0, 0, 1)
            continue
        d = scores[c] - scores[1]
        # A plain t-test with its variance corrected by J n2 / n1.
        plain = stats.ttest_1samp(d, 0)
        ratio = np.sqrt((1 / 12) / (1 / 12 + 1 / 3))
        np.testing.assert_allclose(row["t"], plain.statistic * ratio, rtol=1e-3)
        np.testing.assert_allclose(row["p_value"], 2 * stats.t.sf(abs(row["t"]), 11), rtol=1e-12)
        assert row["low"] < d.mean() < row["high"]
    assert compare_candidates(search)["difference"].max() == 0
    assert [sum(sizes) for sizes in search.split_sizes_] == [len(rows[0])] * 12


def test_what_cannot_be_compared(rows):
    search = GridSearchCV(Ridge(), ALPHAS)
    with pytest.raises(NotFittedError):
        compare_candidates(search)
    search.fit(*rows)
    for options, words in (
        ({"metric": "r2"}, "'score'"),
        ({"reference": 9}, "no candidate 9"),
        ({"level": 2}, "level"),
    ):
        with pytest.raises(ValueError, match=words):
            compare_candidates(search, **options)
    with pytest.raises(ValueError, match="how many rows"):
        compare_candidates(sk.GridSearchCV(sk_linear.Ridge(), ALPHAS).fit(*rows))
    one = GridSearchCV(Ridge(), ALPHAS, cv=sk.ShuffleSplit(1, random_state=0)).fit(*rows)
    with pytest.raises(ValueError, match="two splits"):
        compare_candidates(one)


@pytest.mark.parametrize("values", [[1.0] * 7, [1.0, 0.1, 1, 0.1, 1.0]], ids=str)
def test_equal_candidates_have_the_same_scores_and_rank(values, rows):
    """The last bits of models that are fitted together depend on their place among the others."""
    for n in (60, 80, 442):
        X, y = (a[:n] for a in rows)
        found = GridSearchCV(Ridge(), {"alpha": values}, cv=3, return_train_score=True).fit(X, y)
        scores = [found.cv_results_[f"split{s}_{p}_score"] for s in range(3) for p in PARTS]
        for alpha in set(values):
            same = np.equal(values, alpha)
            assert len(np.unique(np.stack(scores)[:, same], axis=1).T) == 1
            assert len(set(found.cv_results_["rank_test_score"][same])) == 1
