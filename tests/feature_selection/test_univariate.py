"""Scores of features, and what is selected by them, over array libraries: as scikit-learn's."""

import numpy as np
import pytest
import sklearn.feature_selection as sk

import gpuml.feature_selection as ours
from gpuml import as_sklearn
from gpuml.linear_model import Ridge
from gpuml.model_selection import GridSearchCV
from gpuml.pipeline import make_pipeline
from gpuml.testing import ArrayLibrary

to_numpy = ArrayLibrary.to_numpy
SCORES = {
    "f_classif": {},
    "chi2": {},
    "f_regression": {},
    "r_regression": {},
    "not centred": {"center": False},
    "not finite": {"force_finite": False},
}


def rows(dtype="float64"):
    """Rows nowhere negative: one feature is constant, one is the target."""
    rng = np.random.default_rng(5)
    y = rng.integers(0, 3, 80)
    X = rng.integers(0, 9, (80, 6)) + 100.0 * (np.arange(6) == 2)
    X[:, 0] += 2 * y
    X[:, 3] = 7.25
    return X.astype(dtype), y


def function_of(module, name):
    return getattr(module, name if name in dir(sk) else "f_regression")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", SCORES)
def test_scores_are_those_of_scikit_learn(name, dtype, library):
    X, y = rows(dtype)
    # scikit-learn sums float32 in float32.
    on_host = library.name.startswith("numpy")
    expected = function_of(sk, name)(X if on_host else X.astype(float), y, **SCORES[name])
    found = function_of(ours, name)(library.asarray(X), library.asarray(y), **SCORES[name])
    for one, other in zip(np.atleast_2d(found), np.atleast_2d(expected), strict=True):
        kept = np.arange(6) != 3  # of a constant feature there is what rounding makes of 0 / 0
        np.testing.assert_allclose(one[kept], other[kept], rtol=1e-9)
    if name == "r_regression" and not on_host:
        assert found[3] == 0.0


def test_features_that_are_the_target_have_the_largest_score(library):
    y = np.arange(20.0)
    X = np.stack([y, -y, np.full(20, 0.1), y**2], axis=1)
    with np.errstate(all="ignore"):
        found, p_values = ours.f_regression(library.asarray(X), library.asarray(y))
    assert (found[:2] > 1e12).all()
    assert (p_values[:2] < 1e-50).all()
    np.testing.assert_allclose([found[2], p_values[2]], [0.0, 1.0], atol=1e-7)
    if not library.name.startswith("numpy"):
        assert (found[2], p_values[2]) == (0.0, 1.0)


def test_what_has_no_counts_is_refused(library):
    X, y = rows()
    with pytest.raises(ValueError, match="non-negative"):
        ours.chi2(library.asarray(X - 3.0), library.asarray(y))


@pytest.mark.filterwarnings("ignore:invalid value encountered in cast")  # by scikit-learn
@pytest.mark.parametrize("hole", [np.nan, np.inf])
def test_targets_with_holes_are_refused(hole, library):
    X, y = rows()
    y = np.where(np.arange(len(y)) == 3, hole, y)
    words = "Input y contains (NaN|infinity)"
    for name in ("f_classif", "f_regression", "chi2"):
        with pytest.raises(ValueError, match=words):
            getattr(ours, name)(library.asarray(X), library.asarray(y))
    for name in ("SelectKBest", "SelectFdr"):  # whatever the function of yours does
        selector = getattr(ours, name)(lambda X, y: np.ones(X.shape[1]))
        with pytest.raises(ValueError, match=words):
            selector.fit(library.asarray(X), library.asarray(y))


SELECTORS = [
    *[("SelectKBest", {"k": k}) for k in (2, "all")],
    ("SelectPercentile", {"percentile": 40}),
    *[(name, {"alpha": 1e-3}) for name in ("SelectFpr", "SelectFdr", "SelectFwe")],
    ("GenericUnivariateSelect", {"mode": "k_best", "param": 3}),
    ("VarianceThreshold", {}),
    ("VarianceThreshold", {"threshold": 6.0}),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.pairwise
@pytest.mark.parametrize("score", ["f_classif", "f_regression", "chi2"])
@pytest.mark.parametrize(("name", "params"), SELECTORS)
def test_selectors_select_what_scikit_learn_selects(name, params, score, library):
    X, y = rows()
    if name != "VarianceThreshold":
        params = {**params, "score_func": getattr(sk, score)}
    theirs = getattr(sk, name)(**params).fit(X, y)
    if "score_func" in params and library.name != "torch":
        params["score_func"] = getattr(ours, score)
    model = getattr(ours, name)(**params).fit(library.asarray(X), library.asarray(y))
    image = model.transform(library.asarray(X))
    assert type(image) is type(library.asarray(X))
    np.testing.assert_array_equal(to_numpy(image), theirs.transform(X))
    np.testing.assert_array_equal(model.transform(X), theirs.transform(X))
    assert list(model.get_feature_names_out()) == list(theirs.get_feature_names_out())
    back = to_numpy(model.inverse_transform(image))
    np.testing.assert_array_equal(back, theirs.inverse_transform(theirs.transform(X)))


def test_holes_do_not_vary(library):
    X = rows()[0]
    X[::4, 1], X[1:5, 3] = np.nan, np.nan
    model = ours.VarianceThreshold().fit(library.asarray(X))
    np.testing.assert_allclose(
        model.variances_, sk.VarianceThreshold().fit(X).variances_, atol=1e-20
    )
    with pytest.raises(ValueError, match="No feature in X meets the variance threshold 900"):
        ours.VarianceThreshold(900.0).fit(library.asarray(X))


def test_a_function_of_yours_is_given_rows_where_they_are(library):
    X, y = library.asarray(rows()[0]), library.asarray(rows()[1])
    seen = []

    def score(rows, target):
        seen.append(type(rows))
        return np.arange(6.0)

    model = ours.SelectKBest(score, k=1).fit(X, y)
    assert seen == [type(X)]
    assert model.get_support(indices=True).tolist() == [5]


@pytest.mark.parametrize("module", [ours, sk])
def test_selectors_join_the_pass_of_a_model(module):
    X, y = rows()
    steps = make_pipeline(ours.VarianceThreshold(), ours.SelectKBest(module.f_regression), Ridge())
    search = GridSearchCV(steps, {"selectkbest__k": [1, 2, 5], "ridge__alpha": [0.1, 10.0]}, cv=4)
    search.fit(X, y * 1.0)
    assert "all candidates together" in str(search.plan_)


@pytest.mark.parametrize(
    "name",
    [
        *("SelectKBest", "SelectPercentile", "SelectFpr", "SelectFdr", "SelectFwe"),
        "GenericUnivariateSelect",
    ],
)
def test_the_default_score_is_ours_and_scikit_learns_in_a_twin(name):
    kind, theirs = getattr(ours, name), getattr(sk, name)
    assert repr(kind(ours.f_classif)) == repr(theirs(sk.f_classif)) == f"{name}()"
    for given, expected in [((), sk.f_classif), ((ours.chi2,), sk.chi2)]:
        twin = as_sklearn(kind(*given))
        assert type(twin) is theirs
        assert twin.score_func is expected
