"""LogisticRegressionCV against scikit-learn."""

import warnings

import numpy as np
import pytest
import sklearn.linear_model as sk
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_digits, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import f1_score, make_scorer
from sklearn.model_selection import GridSearchCV, KFold, ShuffleSplit, StratifiedKFold
from sklearn.preprocessing import scale

from gpuml.linear_model import LogisticRegression, LogisticRegressionCV

TIGHT = {"tol": 1e-9, "max_iter": 10_000}
CS = [0.01, 1.0, 10.0]
DEFAULTS = {
    **TIGHT,
    "Cs": CS,
    "l1_ratios": (0,),
    "scoring": "neg_log_loss",
    "use_legacy_attributes": False,
}


def iris():
    X, y = load_iris(return_X_y=True)
    return scale(X), y


def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return scale(X), y


def digits():
    X, y = load_digits(return_X_y=True)
    return X[:400, ::2] / 16, y[:400]


def small(rng, k=3, n=120, p=4):
    codes = rng.permutation(np.arange(n) % k)
    return rng.normal(size=(n, p)) + rng.normal(size=(k, p))[codes], codes


def fit_both(X, y, library=None, weight=None, **params):
    params = {**DEFAULTS, **params}
    there = np.asarray if library is None else library.asarray
    kwargs = {} if weight is None else {"sample_weight": weight}
    ours = LogisticRegressionCV(**params).fit(
        there(X), y if y.dtype.kind == "U" else there(y), **{n: there(v) for n, v in kwargs.items()}
    )
    with warnings.catch_warnings():
        # Beyond rounding, line searches of scikit-learn's solvers fail and say so.
        warnings.simplefilter("ignore", ConvergenceWarning)
        theirs = sk.LogisticRegressionCV(**params).fit(X, y, **kwargs)
    return ours, theirs


def host(x, library=None):
    return np.asarray(x) if library is None else library.to_numpy(x)


def assert_same(ours, theirs, library=None, rtol=1e-5):
    names = ["Cs_", "l1_ratios_", "C_", "l1_ratio_", "coef_", "intercept_", "scores_"]
    for name in [*names, "coefs_paths_"]:
        a, b = getattr(ours, name), getattr(theirs, name)
        assert isinstance(a, dict) == isinstance(b, dict), name
        if isinstance(b, dict):
            assert list(a) == list(b), name
        else:
            a, b = {"": a}, {"": b}
        for key in b:
            found, expected = host(a[key], library), np.asarray(b[key])
            assert found.shape == expected.shape, name
            if expected.dtype == object:
                np.testing.assert_array_equal(found, expected)
                continue
            atol = rtol * np.abs(expected[np.isfinite(expected)]).max(initial=1)
            np.testing.assert_allclose(found, expected, rtol=rtol, atol=atol, err_msg=name)
    assert host(ours.n_iter_, library).shape == theirs.n_iter_.shape
    np.testing.assert_array_equal(host(ours.classes_, library), theirs.classes_)


# ---------------------------------------------------------------- scikit-learn


@pytest.mark.each
@pytest.mark.parametrize("data", [iris, cancer, digits], ids=lambda f: f.__name__)
@pytest.mark.parametrize("scoring", ["neg_log_loss", "accuracy"])
def test_known_data(data, scoring):
    X, y = data()
    assert_same(*fit_both(X, y, scoring=scoring, cv=3))


@pytest.mark.pairwise
@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("legacy", [True, False])
@pytest.mark.parametrize("refit", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_every_library(library, rng, k, legacy, refit, weighted):
    X, y = small(rng, k)
    w = rng.uniform(0.1, 2, size=len(X)) if weighted else None
    params = {"use_legacy_attributes": legacy, "refit": refit}
    ours, theirs = fit_both(X, y, library, w, **params)
    assert_same(ours, theirs, library)
    there = library.asarray(X)
    for name in ("predict", "predict_proba", "predict_log_proba", "decision_function"):
        a, b = library.to_numpy(getattr(ours, name)(there)), getattr(theirs, name)(X)
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    assert ours.score(there, library.asarray(y)) == pytest.approx(theirs.score(X, y), rel=1e-6)


@pytest.mark.each
@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize(
    "params",
    [
        {"fit_intercept": False},
        {"class_weight": "balanced"},
        {"class_weight": {0: 2.0, 1: 0.5}},
        {"Cs": 4},
        {"Cs": [1.0, np.inf]},
        {"cv": None},
        {"cv": KFold(4, shuffle=True, random_state=0)},
        {"cv": ShuffleSplit(3, random_state=0), "scoring": "balanced_accuracy"},
        {"scoring": "f1_macro"},
        {"scoring": "roc_auc_ovr"},
        {"solver": "newton-cholesky"},
    ],
    ids=str,
)
def test_parameters(rng, k, params):
    X, y = small(rng, k)
    if params.get("scoring") == "f1_macro" and k == 2:
        pytest.skip("scikit-learn gives its metric pos_label twice")
    if isinstance(params.get("class_weight"), dict) and k == 3:
        params = {"class_weight": {0: 2.0, 1: 0.5, 2: 1.0}}
    w = rng.uniform(0.1, 2, size=len(X))
    assert_same(*fit_both(X, y, weight=w, **params))


@pytest.mark.pairwise
@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("legacy", [True, False])
@pytest.mark.parametrize("ratios", [(0,), (1,), (0, 0.5, 1)])
def test_l1(rng, k, legacy, ratios):
    X, y = small(rng, k)
    ours, theirs = fit_both(
        X, y, l1_ratios=ratios, solver="saga", cv=3, use_legacy_attributes=legacy, Cs=[0.05, 1.0]
    )
    assert_same(ours, theirs, rtol=1e-4)


def test_l1_without_a_refit(rng):
    X, y = small(rng)
    ratios = np.array([0.2, 0.8])
    ours, theirs = fit_both(
        X, y, l1_ratios=ratios, solver="saga", cv=3, refit=False, Cs=[0.05, 1.0]
    )
    assert_same(ours, theirs, rtol=1e-4)


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("scoring", ["neg_log_loss", "f1", "neg_brier_score"])
def test_strings(rng, k, scoring):
    if k == 3 and scoring == "f1":
        pytest.skip("of two classes")
    X, codes = small(rng, k)
    y = np.array(["ash", "beech", "cedar"])[codes]
    assert_same(*fit_both(X, y, scoring=scoring, use_legacy_attributes=True))


def test_scorers_of_ones_own(library, rng):
    X, y = small(rng, 2)
    w = rng.uniform(0.1, 2, size=len(X))

    def by_hand(estimator, X, y, sample_weight=None):
        assert (sample_weight is None) == (w is None)
        return estimator.score(X, y) ** 2

    assert_same(*fit_both(X, y, library, w, scoring=by_hand, cv=3), library)
    w = None
    assert_same(*fit_both(X, y, library, scoring=by_hand, cv=3), library)
    theirs = make_scorer(f1_score, average="macro")
    if library.name.startswith("numpy"):
        assert_same(*fit_both(X, y, library, scoring=theirs, cv=3), library)


def test_averages_over_two_classes(rng):
    X, y = small(rng, 2)
    model = LogisticRegressionCV(**{**DEFAULTS, "scoring": "f1_macro", "cv": 3}).fit(X, y)
    search = GridSearchCV(
        LogisticRegression(**TIGHT), {"C": CS}, cv=StratifiedKFold(3), scoring="f1_macro"
    ).fit(X, y)
    np.testing.assert_allclose(
        model.scores_[:, 0, :].mean(axis=0), search.cv_results_["mean_test_score"], rtol=1e-9
    )


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning")
def test_held_out_parts_that_lack_a_class(library, rng):
    X, y = small(rng)
    rows = np.arange(len(X))
    splits = [(rows[rows % 3 != i], rows[(rows % 3 == i) & (y != i)]) for i in range(3)]
    for scoring in ("neg_log_loss", "f1_macro", "accuracy"):
        ours, theirs = fit_both(X, y, library, cv=splits, scoring=scoring)
        assert_same(ours, theirs, library)


def test_is_what_a_grid_search_does(library, rng):
    X, y = small(rng)
    params = {n: DEFAULTS[n] for n in ("tol", "max_iter")}
    search = GridSearchCV(
        LogisticRegression(**params), {"C": CS}, cv=StratifiedKFold(4), scoring="neg_log_loss"
    ).fit(X, y)
    model = LogisticRegressionCV(**{**DEFAULTS, "cv": 4})
    model.fit(library.asarray(X), library.asarray(y))
    assert search.best_params_["C"] == model.C_
    scores = library.to_numpy(model.scores_)[:, 0, :].mean(axis=0)
    np.testing.assert_allclose(scores, search.cv_results_["mean_test_score"], rtol=1e-6)


def test_a_row_twice_is_a_weight_of_two(library, rng):
    X, y = small(rng)
    w = np.where(np.arange(len(X)) < 30, 2.0, 1.0)
    folds = np.arange(len(X)) % 3
    twice, fold_twice = np.append(np.arange(len(X)), np.arange(30)), np.append(folds, folds[:30])
    models = [
        LogisticRegressionCV(
            **{
                **DEFAULTS,
                "cv": [(np.flatnonzero(f != i), np.flatnonzero(f == i)) for i in range(3)],
            }
        )
        for f in (folds, fold_twice)
    ]
    models[0].fit(library.asarray(X), library.asarray(y), sample_weight=library.asarray(w))
    models[1].fit(library.asarray(X[twice]), library.asarray(y[twice]))
    for name in ("scores_", "coefs_paths_", "coef_"):
        a, b = (library.to_numpy(getattr(model, name)) for model in models)
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-7)


def test_float32_stays_float32(library, rng):
    X, y = small(rng)
    there = library.asarray(X.astype(np.float32))
    model = LogisticRegressionCV(**{**DEFAULTS, "tol": 1e-4}).fit(there, library.asarray(y))
    assert library.to_numpy(model.coef_).dtype == np.float32
    assert library.to_numpy(model.coefs_paths_).dtype == np.float32
    assert library.to_numpy(model.predict_proba(there)).dtype == np.float32


# ---------------------------------------------------------------- what scikit-learn does


@pytest.mark.parametrize("solver", ["liblinear", "newton-cg", "sag"])
def test_sklearns_solvers(rng, solver):
    X, y = small(rng, 2)
    ours, theirs = fit_both(X, y, solver=solver, random_state=0, tol=1e-6)
    assert_same(ours, theirs)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X))


def test_sparse_rows(rng):
    X, y = small(rng)
    X = sparse.csr_array(np.where(X > 0, X, 0))
    ours = LogisticRegressionCV(**DEFAULTS).fit(X, y)
    theirs = sk.LogisticRegressionCV(**DEFAULTS).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X))


def test_training_parts_that_lack_a_class(rng):
    X, y = small(rng)
    order = np.argsort(y, kind="stable")
    assert_same(*fit_both(X[order], y[order], cv=KFold(3), scoring="accuracy", tol=1e-6))


def test_device_data_that_sklearn_would_have_to_fit_is_an_error(library, rng):
    if library.name.startswith("numpy"):
        pytest.skip("host data")
    X, y = small(rng)
    order = np.argsort(y)
    for params in ({"solver": "newton-cg"}, {"cv": KFold(3)}):
        model = LogisticRegressionCV(**{**DEFAULTS, **params})
        with pytest.raises(ValueError, match="data in CPU memory"):
            model.fit(library.asarray(X[order]), library.asarray(y[order]))
        assert not hasattr(model, "n_features_in_")


# ---------------------------------------------------------------- warnings and errors


def messages(model, X, y):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y)
    return sorted(
        (w.category.__name__, " ".join(str(w.message).split()[:4]))
        for w in caught
        if w.category is not ConvergenceWarning
    )


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"l1_ratios": None, "scoring": None, "use_legacy_attributes": True},
        {"penalty": "l2"},
        {"penalty": "l1", "solver": "saga", "use_legacy_attributes": False},
        {"penalty": "l2", "l1_ratios": (0.5,)},
        {"penalty": "elasticnet", "solver": "saga", "l1_ratios": [0.3, 0.7]},
        {"l1_ratios": (1.0,), "solver": "saga", "refit": True},
    ],
    ids=str,
)
def test_what_is_deprecated(rng, params):
    X, y = small(rng)
    params = {"Cs": [0.1, 1.0], **TIGHT, **params}
    ours, theirs = LogisticRegressionCV(**params), sk.LogisticRegressionCV(**params)
    found, expected = messages(ours, X, y), messages(theirs, X, y)
    assert [kind for kind, _ in found] == [kind for kind, _ in expected]
    assert_same(ours, theirs, rtol=1e-4)


@pytest.mark.parametrize(
    ("params", "match"),
    [
        ({"l1_ratios": (0.5,)}, "supports only"),
        ({"l1_ratios": (0.5, 2.0), "solver": "saga"}, "l1_ratios must be"),
        ({"class_weight": {0: 1.0, 7: 1.0}}, "class_weight dict"),
        ({"Cs": [0.0, 1.0]}, "must be > 0"),
        ({"dual": True}, "dual"),
        ({"solver": "qn"}, "'solver' parameter"),
        ({"scoring": "accurate"}, "'scoring' parameter"),
        ({"cv": 100}, "n_splits"),
    ],
    ids=str,
)
def test_errors(rng, params, match):
    X, y = small(rng)
    with pytest.raises(ValueError, match=match):
        LogisticRegressionCV(**{**DEFAULTS, **params}).fit(X, y)


@pytest.mark.parametrize(
    ("params", "error", "match"),
    [
        ({"Cs": [1.0, "2"]}, TypeError, r"Cs\[1\] must be an instance of float, not str"),
        ({"Cs": [None]}, TypeError, "not NoneType"),
        ({"Cs": [[1.0, 2.0]]}, TypeError, "not list"),
        ({"Cs": np.array(2.0)}, TypeError, "an int or a list"),
        ({"Cs": []}, ValueError, "at least one number"),
        ({"cv": []}, ValueError, "No fits were performed"),
        ({"cv": [(np.arange(60), [])]}, ValueError, "held-out part of split 0"),
    ],
    ids=str,
)
def test_types_of_errors(rng, params, error, match):
    X, y = small(rng)
    with pytest.raises(error, match=match):
        LogisticRegressionCV(**{**DEFAULTS, **params}).fit(X, y)


def test_parameters_are_looked_at_before_rows():
    model = LogisticRegressionCV(penalty="elasticnet", solver="saga", l1_ratios=None)
    with pytest.raises(ValueError, match="l1_ratio"):
        model.fit(np.eye(2), [0, 1])


def test_labels_are_dense(rng):
    X, y = small(rng)
    with pytest.raises(TypeError, match="Sparse data was passed for y"):
        LogisticRegressionCV(**DEFAULTS).fit(X, sparse.csr_matrix(y[:, None]))


def test_warnings_point_to_the_call_and_come_once(rng):
    X, y = small(rng)
    lacking = [(np.flatnonzero(y > 0), np.arange(20)), (np.arange(len(y)), np.arange(20))]
    for cv in (3, lacking):  # our solver, and scikit-learn's for a training part without a class
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            LogisticRegressionCV(Cs=2, cv=cv, l1_ratios=(0,), scoring="accuracy").fit(X, y)
        legacy = [w for w in found if "use_legacy_attributes" in str(w.message)]
        assert len(legacy) == 1
        assert "The default value of use_legacy_attributes will change" in " ".join(
            str(legacy[0].message).split()
        )
        assert cv is lacking or legacy[0].filename == __file__


def test_one_class(library, rng):
    X, y = small(rng)
    with pytest.raises(ValueError, match="at least 2 classes"):
        LogisticRegressionCV(**DEFAULTS).fit(library.asarray(X), library.asarray(0 * y))


def test_too_few_passes_warn(rng):
    X, y = small(rng)
    with pytest.warns(ConvergenceWarning, match="Increase max_iter"):
        LogisticRegressionCV(**{**DEFAULTS, "max_iter": 1}).fit(X, y)


def test_positional_weights_of_score_are_deprecated(rng):
    X, y = small(rng)
    model = LogisticRegressionCV(**DEFAULTS).fit(X, y)
    with pytest.warns(FutureWarning, match="sample_weight"):
        model.score(X, y, np.ones(len(y)))
