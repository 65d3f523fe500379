"""RidgeClassifier against scikit-learn, its laws, and searches over it."""

import numpy as np
import pandas as pd
import pytest
import sklearn.linear_model as sk
from scipy import sparse
from sklearn.model_selection import GridSearchCV as SkGridSearchCV
from sklearn.model_selection import KFold, ShuffleSplit, StratifiedKFold

from gpuml import linear_model, set_config
from gpuml._arrays import place_of
from gpuml.linear_model import RidgeClassifier, RidgeClassifierCV
from gpuml.model_selection import GridSearchCV
from gpuml.multioutput import MultiOutputClassifier
from gpuml.pipeline import Pipeline
from gpuml.preprocessing import PolynomialFeatures, StandardScaler
from gpuml.testing import LAW_RTOL

NAMES = np.array(["ash", "beech", "cedar", "dogwood"])


def problem(rng, n=90, p=6, k=3):
    """Rows of overlapping classes of different sizes, and weights."""
    codes = np.sort(rng.integers(0, k, size=n) // rng.integers(1, 3, size=n))
    codes[:k] = np.arange(k)
    rng.shuffle(codes)
    X = rng.normal(1, 2, size=(n, p)) + rng.normal(size=(k, p))[codes]
    return X, codes, rng.uniform(0.1, 2, size=n)


def fit(model, library, X, y, w=None):
    weight = {} if w is None else {"sample_weight": library.asarray(w)}
    return model.fit(library.asarray(X), library.asarray(y), **weight)


def assert_same_model(library, ours, theirs, X, rtol=1e-8):
    for name in ("classes_", "coef_", "intercept_"):
        a, b = library.to_numpy(getattr(ours, name)), np.asarray(getattr(theirs, name))
        assert a.shape == b.shape, name
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol, err_msg=name)
    there = library.asarray(X)
    decision = library.to_numpy(ours.decision_function(there))
    expected = theirs.decision_function(X)
    assert decision.shape == expected.shape
    np.testing.assert_allclose(decision, expected, rtol=rtol, atol=rtol)
    np.testing.assert_array_equal(library.to_numpy(ours.predict(there)), theirs.predict(X))


# ---------------------------------------------------------------- scikit-learn


@pytest.mark.pairwise
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("k", [2, 3, 5])
@pytest.mark.parametrize("p", [6, 120])
@pytest.mark.parametrize(
    "params",
    [
        {},
        {"fit_intercept": False, "alpha": 3.0},
        {"solver": "svd"},
        {"class_weight": "balanced"},
        {"class_weight": {0: 3.0, 1: 0.5}},
        {"class_weight": {}},
    ],
    ids=str,
)
def test_agrees_with_sklearn(library, rng, weighted, k, p, params):
    X, y, w = problem(rng, p=p, k=k)
    if params.get("class_weight") and isinstance(params["class_weight"], dict):
        params = {**params, "class_weight": {**dict.fromkeys(range(k), 1.5), 0: 3.0, 1: 0.5}}
    w = w if weighted else None
    ours = fit(RidgeClassifier(**params), library, X, y, w)
    theirs = sk.RidgeClassifier(**{"alpha": 1.0, **params}).fit(X, y, w)
    assert_same_model(library, ours, theirs, X)
    assert ours.score(library.asarray(X), library.asarray(y)) == theirs.score(X, y)
    assert ours.n_iter_ == 1
    assert ours.status_.advice


@pytest.mark.parametrize("k", [2, 4])
def test_strings(rng, k):
    X, codes, w = problem(rng, k=k)
    y = NAMES[codes]
    weights = {"class_weight": {name: 1.0 + i for i, name in enumerate(NAMES[:k])}}
    ours = RidgeClassifier(**weights).fit(X, y, w)
    theirs = sk.RidgeClassifier(**weights).fit(X, y, w)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-9)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))
    assert ours.score(X, y, w) == pytest.approx(theirs.score(X, y, w), rel=1e-12)


def test_bools_and_labels_with_gaps(library, rng):
    X, codes, _ = problem(rng)
    for y in (codes == 1, np.array([-3, 5, 100_000])[codes]):
        ours = fit(RidgeClassifier(), library, X, y)
        assert_same_model(library, ours, sk.RidgeClassifier().fit(X, y), X)


def test_an_alpha_for_each_class(library, rng):
    X, y, _ = problem(rng)
    alpha = [0.1, 1.0, 10.0]
    ours = fit(RidgeClassifier(alpha), library, X, y)
    assert_same_model(library, ours, sk.RidgeClassifier(alpha).fit(X, y), X)


def test_one_class(library, rng):
    X, _, _ = problem(rng)
    y = np.full(len(X), 7)
    ours = fit(RidgeClassifier(), library, X, y)
    assert_same_model(library, ours, sk.RidgeClassifier().fit(X, y), X)


def test_float32_stays_float32(library, rng):
    X, y, _ = problem(rng)
    X = X.astype(np.float32)
    ours = fit(RidgeClassifier(), library, X, y)
    theirs = sk.RidgeClassifier().fit(X, y)
    assert library.to_numpy(ours.coef_).dtype == np.float32
    assert library.to_numpy(ours.decision_function(library.asarray(X))).dtype == np.float32
    np.testing.assert_allclose(library.to_numpy(ours.coef_), theirs.coef_, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(
    "params",
    [{"solver": "lsqr", "tol": 1e-12}, {"positive": True, "tol": 1e-5}, {"solver": "sag"}],
    ids=str,
)
def test_sklearns_solvers_on_host_data(rng, params):
    X, y, w = problem(rng)
    params = {**params, "random_state": 0}
    ours = RidgeClassifier(**params).fit(X, y, w)
    theirs = sk.RidgeClassifier(**params).fit(X, y, w)
    np.testing.assert_allclose(ours.coef_, theirs.coef_)
    assert ours.solver_ == theirs.solver_
    assert np.min(ours.n_iter_) >= 1


@pytest.mark.parametrize("k", [2, 3])
def test_sparse_rows(rng, k):
    X, y, _ = problem(rng, k=k)
    X = sparse.csr_array(np.where(X > 1, X, 0))
    ours, theirs = RidgeClassifier().fit(X, y), sk.RidgeClassifier().fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))


def test_several_labels_per_row(rng):
    X, codes, _ = problem(rng)
    Y = np.stack([codes == 0, codes > 0], axis=1).astype(int)
    ours, theirs = RidgeClassifier().fit(X, Y), sk.RidgeClassifier().fit(X, Y)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))
    assert ours.score(X, Y) == theirs.score(X, Y)
    # What that fit left behind does not stay for a fit of single labels.
    np.testing.assert_array_equal(
        ours.fit(X, codes).predict(X), sk.RidgeClassifier().fit(X, codes).predict(X)
    )


def test_device_data_for_sklearns_solvers_is_an_error(library, rng):
    if library.name.startswith("numpy"):
        pytest.skip("data in CPU memory")
    X, y, _ = problem(rng)
    with pytest.raises(ValueError, match="solver='lsqr'.*data in CPU memory"):
        fit(RidgeClassifier(solver="lsqr"), library, X, y)
    Y = np.stack([y == 0, y == 1], axis=1).astype(int)
    with pytest.raises(ValueError, match="several labels.*data in CPU memory"):
        fit(RidgeClassifierCV(cv=3), library, X, Y)


@pytest.mark.parametrize("name", ["RidgeClassifier", "RidgeClassifierCV"])
@pytest.mark.parametrize("options", [{}, {"class_weight": "balanced"}, {"fit_intercept": False}])
def test_several_labels_are_those_of_scikit_learn_wherever_rows_are(name, options, library, rng):
    X, y, weight = problem(rng)
    Y = np.stack([y == 0, y == 1, y > 0], axis=1).astype(int)
    kinds = RidgeClassifier if name == "RidgeClassifier" else RidgeClassifierCV, getattr(sk, name)
    theirs = kinds[1](**options).fit(X, Y, weight)
    ours = kinds[0](**options).fit(*map(library.asarray, (X, Y, weight)))
    np.testing.assert_allclose(library.to_numpy(ours.coef_), theirs.coef_, rtol=1e-7, atol=1e-12)
    labels = ours.predict(library.asarray(X))
    np.testing.assert_array_equal(library.to_numpy(labels), theirs.predict(X))
    assert place_of(labels) == place_of(library.asarray(X))
    there = MultiOutputClassifier(kinds[0]()).fit(library.asarray(X), library.asarray(Y))
    alone = kinds[0]().fit(X, Y).predict(X)
    if name == "RidgeClassifier":  # which chooses no alpha for each label
        np.testing.assert_array_equal(library.to_numpy(there.predict(library.asarray(X))), alone)


@pytest.mark.parametrize("name", ["RidgeClassifier", "RidgeClassifierCV"])
def test_rows_of_several_labels_are_checked_as_those_of_single_ones(name, rng):
    X, y, _ = problem(rng)
    Y = np.stack([y == 0, y == 1], axis=1).astype(int)
    ours, theirs = (getattr(module, name)() for module in (linear_model, sk))
    names = pd.DataFrame(X).add_prefix("x")
    assert list(ours.fit(names, Y).feature_names_in_) == list(names.columns)
    for bad in (X[:0], X[:, :0], np.where(X > 0, np.nan, X), X.astype(str)):
        for model in (ours, theirs):
            with pytest.raises(ValueError, match=rf"{name}\b|not compatible|convert|numeric"):
                model.fit(bad, Y[: len(bad)])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        ours.fit(X, Y[:-1])
    # A failed fit changes nothing, and one to an array leaves no names of columns.
    assert list(ours.feature_names_in_) == list(names.columns)
    assert not hasattr(ours.fit(X, Y), "feature_names_in_")


@pytest.mark.parametrize(
    "steps", [[], [("terms", PolynomialFeatures()), ("scale", StandardScaler())]]
)
def test_a_plan_says_why_searches_over_several_labels_go_one_by_one(steps, rng, recwarn):
    X, y, _ = problem(rng)
    Y = np.stack([y == 0, y == 1], axis=1).astype(int)
    grid = {"model__alpha": [0.1, 10.0, 1e4]}
    ours, theirs = (
        search(Pipeline([*steps, ("model", model)]), grid, cv=3).fit(X, Y)
        for search, model in (
            (GridSearchCV, RidgeClassifier()),
            (SkGridSearchCV, sk.RidgeClassifier()),
        )
    )
    for name in ("mean_test_score", "std_test_score"):
        np.testing.assert_allclose(ours.cv_results_[name], theirs.cv_results_[name])
    assert "the targets of RidgeClassifier have several labels per row" in str(ours.plan_)
    assert not recwarn.list


@pytest.mark.parametrize("y_is_sparse", [False, True])
@pytest.mark.parametrize("rows", [np.asarray, sparse.csr_array])
def test_several_labels_may_be_sparse(rows, y_is_sparse, rng):
    X, y, _ = problem(rng)
    Y = np.stack([y == 0, y == 1], axis=1).astype(int)
    Y = sparse.csr_array(Y) if y_is_sparse else Y
    ours = RidgeClassifier().fit(rows(X), Y)
    theirs = sk.RidgeClassifier().fit(X, Y)  # of dense rows, to the optimum
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-7)
    said = ours.predict(rows(X)), theirs.predict(X)
    assert sparse.issparse(said[0]) == sparse.issparse(said[1]) == y_is_sparse
    assert abs(said[0] - said[1]).max() == 0


def test_errors(rng):
    X, y, _ = problem(rng)
    model = RidgeClassifier().fit(X, y)
    before = dict(vars(model))
    with pytest.raises(ValueError, match="continuous"):
        model.fit(X, X[:, 0])
    with pytest.raises(ValueError, match="penalties do not correspond"):
        RidgeClassifier(alpha=[1.0, 2.0]).fit(X, y)
    with pytest.raises(ValueError, match="not be negative"):
        RidgeClassifier(class_weight={0: -1.0, 1: 1.0, 2: 1.0}).fit(X, y)
    with pytest.raises(ValueError, match="not in class_weight"):
        RidgeClassifier(class_weight={0: 1.0, 17: 1.0}).fit(X, y)
    with pytest.raises(ValueError, match="'solver' parameter"):
        RidgeClassifier(solver="newton").fit(X, y)
    assert vars(model) == before


# ---------------------------------------------------------------- laws


@pytest.mark.parametrize("k", [2, 3])
def test_a_row_twice_is_a_weight_of_two(library, rng, k):
    X, y, _ = problem(rng, k=k)
    w = np.where(np.arange(len(X)) < 20, 2.0, 1.0)
    twice = fit(RidgeClassifier(), library, np.concatenate([X, X[:20]]), np.append(y, y[:20]))
    weighted = fit(RidgeClassifier(), library, X, y, w)
    for name in ("coef_", "intercept_"):
        a, b = (library.to_numpy(getattr(m, name)) for m in (twice, weighted))
        np.testing.assert_allclose(a, b, rtol=LAW_RTOL["float64"], atol=1e-12)


SPLITTERS = [
    StratifiedKFold(3),
    StratifiedKFold(3, shuffle=True, random_state=0),
    KFold(4),
    ShuffleSplit(5, random_state=0),
]


@pytest.mark.pairwise
@pytest.mark.parametrize("splitter", SPLITTERS, ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("class_weight", [None, {0: 2.0, 1: 1.0, 2: 0.3}, "balanced"])
@pytest.mark.parametrize("p", [6, 120])
def test_all_at_once_is_one_by_one(library, rng, splitter, class_weight, p):
    from gpuml.resampling.atoms import make_folds
    from gpuml.resampling.split import split_rows

    X, y, w = problem(rng, p=p)
    X_there, y_there, w_there = (library.asarray(a) for a in (X, y, w))
    model = RidgeClassifier(class_weight=class_weight)
    batch = model.multifit_batch(X_there, y_there, w_there)
    folds = make_folds(batch, split_rows(splitter, X_there, y_there, len(X)))
    candidates = [{"alpha": 0.1}, {"alpha": 10.0}, {"alpha": 1.0, "fit_intercept": False}]
    stack = model.multifit(folds, candidates)
    assert (stack.n_candidates, stack.n_passes) == (3, len(folds.partitions))
    splits = list(splitter.split(X, y))
    for c, params in enumerate(candidates):
        for s, train in [*enumerate(rows for rows, _ in splits), (None, np.arange(len(X)))]:
            one = sk.RidgeClassifier(class_weight=class_weight, **params)
            one.fit(X[train], y[train], w[train])
            found = stack.pick(c, s)
            for name in ("coef_", "intercept_", "classes_"):
                a = library.to_numpy(found[name])
                b = getattr(one, name)
                np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-9, err_msg=f"{name} {c} {s}")
            if s is not None:
                decision = library.to_numpy(stack.decision(batch.X, s, slice(c, c + 1)))[0]
                np.testing.assert_allclose(decision, one.decision_function(X), rtol=1e-8, atol=1e-8)


# ---------------------------------------------------------------- searches

GRID = {"alpha": [0.1, 1.0, 100.0], "fit_intercept": [True, False]}
SCORING = ["accuracy", "f1_macro", "balanced_accuracy", "roc_auc"]


@pytest.fixture(scope="module")
def fit_once():
    """Fits of scikit-learn that all array libraries ask for, each once.

    The rows are those of `problem`, so that their shape and number of classes tell them apart.
    """
    known = {}

    def fit(theirs, X, y, w=None):
        key = f"{theirs!r} {X.shape} {len(np.unique(y))} {w is None}"
        if key not in known:
            theirs.fit(X, y, **({} if w is None else {"sample_weight": w}))
            known[key] = X, y, theirs
        assert all(map(np.array_equal, known[key], (X, y)))
        return known[key][2]

    return fit


def assert_same_search(library, ours, theirs, X, y, w=None):
    """`theirs` is fitted."""
    weight = {} if w is None else {"sample_weight": library.asarray(w)}
    ours.fit(library.asarray(X), library.asarray(y), **weight)
    names = [n for n in theirs.cv_results_ if n.startswith(("split", "mean_test"))]
    assert names
    for name in names:
        np.testing.assert_allclose(
            ours.cv_results_[name], theirs.cv_results_[name], rtol=1e-10, atol=1e-10, err_msg=name
        )
    assert ours.best_index_ == theirs.best_index_
    coef = library.to_numpy(ours.best_estimator_.coef_)
    np.testing.assert_allclose(coef, theirs.best_estimator_.coef_, rtol=1e-8, atol=1e-10)


@pytest.mark.pairwise
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("class_weight", [None, "balanced", {0: 2.0, 1: 1.0}])
@pytest.mark.parametrize("scoring", SCORING)
def test_a_search_has_the_scores_of_sklearn(
    library, rng, fit_once, scoring, class_weight, weighted
):
    X, y, w = problem(rng, n=120, k=2)
    params = {"scoring": scoring, "cv": 3, "return_train_score": True}
    ours = GridSearchCV(RidgeClassifier(class_weight=class_weight), GRID, **params)
    theirs = SkGridSearchCV(sk.RidgeClassifier(class_weight=class_weight), GRID, **params)
    w = w if weighted else None
    assert_same_search(library, ours, fit_once(theirs, X, y, w), X, y, w)
    (step,) = ours.plan_.steps
    assert step.why == "all candidates together"


@pytest.mark.each
@pytest.mark.parametrize("scoring", ["accuracy", "f1_macro", "balanced_accuracy", None])
def test_a_search_over_many_classes(library, rng, fit_once, scoring):
    X, y, _ = problem(rng, n=150, k=4)
    grid = {**GRID, "class_weight": [None, "balanced"]}
    ours = GridSearchCV(RidgeClassifier(), grid, scoring=scoring, cv=3)
    theirs = SkGridSearchCV(sk.RidgeClassifier(), grid, scoring=scoring, cv=3)
    assert_same_search(library, ours, fit_once(theirs, X, y), X, y)
    assert [step.why for step in ours.plan_.steps] == ["all candidates together"] * 2


def test_a_search_with_moments_that_would_not_fit(rng, monkeypatch):
    monkeypatch.setattr("gpuml.linear_model.ridge_classifier.CLASS_MOMENT_BYTES", 1000)
    X, y, _ = problem(rng)
    with pytest.warns(RuntimeWarning, match=r"raised ValueError: .*GiB of moments.* None of them"):
        ours = GridSearchCV(RidgeClassifier(class_weight="balanced"), GRID, cv=3).fit(X, y)
    theirs = SkGridSearchCV(sk.RidgeClassifier(class_weight="balanced"), GRID, cv=3).fit(X, y)
    np.testing.assert_allclose(
        ours.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"]
    )
    assert ours.plan_.steps[0].why == "one by one, folds gathered once each"


def test_a_training_part_that_lacks_a_class(rng):
    X, y, _ = problem(rng)
    order = np.argsort(y, kind="stable")
    X, y = X[order], y[order]
    ours = GridSearchCV(RidgeClassifier(), GRID, cv=KFold(3)).fit(X, y)
    theirs = SkGridSearchCV(sk.RidgeClassifier(), GRID, cv=KFold(3)).fit(X, y)
    for split in range(3):
        name = f"split{split}_test_score"
        np.testing.assert_array_equal(ours.cv_results_[name], theirs.cv_results_[name])
    alone = [s for s, (train, _) in enumerate(KFold(3).split(X)) if len(np.unique(y[train])) < 3]
    assert alone == [2]
    together = ["all candidates together", "one by one, on split 2"]
    assert [step.why for step in ours.plan_.steps] == together


@pytest.mark.filterwarnings("ignore:Fitting all candidates together raised ValueError. y should")
def test_a_search_with_one_class_or_several_labels(rng):
    X, codes, _ = problem(rng)
    Y = np.stack([codes == 0, codes > 0], axis=1).astype(int)
    grid = {"alpha": [0.1, 10.0]}
    for y, scoring in ((np.zeros(len(X), dtype=int), "f1_macro"), (Y, "accuracy")):
        ours = GridSearchCV(RidgeClassifier(), grid, cv=KFold(3), scoring=scoring).fit(X, y)
        theirs = SkGridSearchCV(sk.RidgeClassifier(), grid, cv=KFold(3), scoring=scoring).fit(X, y)
        np.testing.assert_allclose(
            ours.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"]
        )


def test_rows_that_are_read_block_by_block(rng):
    X, y, w = problem(rng)
    theirs = sk.RidgeClassifier(class_weight="balanced").fit(X, y, w)
    set_config(block_bytes=4096)
    try:
        ours = RidgeClassifier(class_weight="balanced").fit(X, y, w)
    finally:
        set_config(block_bytes=None)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-9)


@pytest.mark.parametrize("weighted", [False, True])
def test_weights_of_classes_that_leave_no_row(library, rng, weighted):
    X, y, _ = problem(rng)
    zero = {0: 0.0, 1: 0.0, 2: 0.0}
    w = None
    if weighted:
        zero, w = {0: 0.0}, (y == 0).astype(float)
    with pytest.raises(ValueError, match="at least one non-zero number"):
        fit(RidgeClassifier(class_weight=zero), library, X, y, w)
    with pytest.raises(ValueError, match="at least one non-zero number"):
        sk.RidgeClassifier(class_weight=zero).fit(X, y, w)
    fit(RidgeClassifier(class_weight={0: 0.0}), library, X, y)  # others are left
