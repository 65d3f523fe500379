"""Discriminants are scikit-learn's, in single fits and in searches, wherever the rows are."""

import numpy as np
import pytest
import sklearn.discriminant_analysis as sk
from sklearn.base import clone
from sklearn.covariance import OAS
from sklearn.model_selection import GridSearchCV as TheirSearch
from sklearn.pipeline import make_pipeline as their_pipeline
from sklearn.preprocessing import StandardScaler as TheirScaler

import gpuml.discriminant_analysis as own
from gpuml import as_sklearn
from gpuml._arrays import device_of
from gpuml.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from gpuml.model_selection import GridSearchCV
from gpuml.pipeline import make_pipeline
from gpuml.preprocessing import StandardScaler
from gpuml.testing import array_libraries

LINEAR = [
    {},
    {"store_covariance": True},
    {"n_components": 1},
    {"priors": [0.2, 0.3, 0.5]},
    {"solver": "lsqr"},
    {"solver": "lsqr", "shrinkage": 0.3},
    {"solver": "lsqr", "shrinkage": "auto"},
    {"solver": "lsqr", "priors": [0.2, 0.3, 0.5], "shrinkage": 0.1},
    {"solver": "eigen"},
    {"solver": "eigen", "shrinkage": 0.5},
    {"solver": "eigen", "shrinkage": "auto"},
]
QUADRATIC = [
    {},
    {"reg_param": 0.3, "store_covariance": True},
    {"priors": [0.2, 0.3, 0.5]},
    {"solver": "eigen"},
    {"solver": "eigen", "shrinkage": 0.3},
]
MODELS = [
    *(LinearDiscriminantAnalysis(**params) for params in LINEAR),
    *(QuadraticDiscriminantAnalysis(**params) for params in QUADRATIC),
]
GRIDS = [
    (LinearDiscriminantAnalysis(), {"tol": [1e-6, 1e-3, 0.5], "n_components": [1, None]}),
    (LinearDiscriminantAnalysis(solver="lsqr"), {"shrinkage": [None, 0.0, 0.2, 1.0, "auto"]}),
    (
        LinearDiscriminantAnalysis(shrinkage=0.1),
        {"solver": ["lsqr", "eigen"], "priors": [None, [0.1, 0.1, 0.8]]},
    ),
    (QuadraticDiscriminantAnalysis(), {"reg_param": [0.0, 0.1, 1.0], "priors": [None, [0.4] * 3]}),
    (QuadraticDiscriminantAnalysis(solver="eigen"), {"shrinkage": [None, 0.1, 0.9]}),
]


def classes(rng, n_classes=3, n_rows=240):
    """Rows of classes that differ in mean and spread, and a feature that is nearly another."""
    y = rng.integers(0, n_classes, n_rows)
    X = rng.normal(size=(n_rows, 4)) * (1.0 + 0.5 * y[:, None])
    X = X @ (rng.normal(size=(4, 4)) + 2.0 * np.eye(4))
    X = np.concatenate([X, X[:, :1] + 0.05 * rng.normal(size=(n_rows, 1))], axis=1)
    return X + rng.normal(size=(n_classes, 5))[y] + 50.0, y


def theirs(model):
    return getattr(sk, type(model).__name__)(**model.get_params(deep=False))


def in_order(values):
    """Directions whose sign is nobody's choice."""
    return np.abs(np.asarray(values))


def assert_same_attributes(found, expected, library, rtol=1e-7):
    assert {name for name in vars(expected) if name.endswith("_")} <= set(vars(found))
    for name in ("coef_", "intercept_", "means_", "priors_", "xbar_", "explained_variance_ratio_"):
        if hasattr(expected, name):
            values = library.to_numpy(getattr(found, name))
            np.testing.assert_allclose(
                values, getattr(expected, name), rtol=rtol, atol=1e-9, err_msg=name
            )
    covariance = getattr(expected, "covariance_", None)
    if covariance is not None:
        for i, other in enumerate(covariance):
            own = (
                found.covariance_[i] if isinstance(covariance, list) else found.covariance_[i, ...]
            )
            own = library.to_numpy(own)
            np.testing.assert_allclose(own, other, rtol=1e-7, atol=1e-9)


@pytest.mark.pairwise
@pytest.mark.parametrize("model", MODELS, ids=str)
@pytest.mark.parametrize("library", array_libraries())
@pytest.mark.parametrize("n_classes", [2, 3])
def test_models_are_those_of_scikit_learn(model, library, n_classes, rng):
    X, y = classes(rng, n_classes)
    model = clone(model)
    if n_classes == 2:
        params = {name: 1 for name in ["n_components"] if getattr(model, name, None)}
        priors = {"priors": [0.3, 0.7]} if model.priors is not None else {}
        model.set_params(**params, **priors)
    expected = theirs(model).fit(X, y)
    rows = library.asarray(X)
    model.fit(rows, library.asarray(y))
    assert_same_attributes(model, expected, library)
    assert device_of(model.means_) == device_of(rows)
    for method in ("predict", "predict_proba", "predict_log_proba", "decision_function"):
        found = getattr(model, method)(rows)
        assert device_of(found) == device_of(rows)
        np.testing.assert_allclose(
            library.to_numpy(found), getattr(expected, method)(X), rtol=1e-6, atol=1e-7
        )
    if hasattr(expected, "transform") and model.solver != "lsqr":
        image = library.to_numpy(model.transform(rows))
        np.testing.assert_allclose(
            in_order(image), in_order(expected.transform(X)), rtol=1e-6, atol=1e-6
        )


@pytest.mark.each
@pytest.mark.parametrize(("model", "grid"), GRIDS, ids=str)
@pytest.mark.parametrize("scoring", [None, "neg_log_loss", "roc_auc_ovr"])
def test_searches_give_the_scores_of_scikit_learn(model, grid, scoring, rng):
    X, y = classes(rng)
    found = GridSearchCV(model, grid, scoring=scoring).fit(X, y)
    expected = TheirSearch(theirs(model), grid, scoring=scoring).fit(X, y)
    assert "together" in found.plan_.steps[0].why
    for split in range(5):
        name = f"split{split}_test_score"
        np.testing.assert_allclose(found.cv_results_[name], expected.cv_results_[name], rtol=1e-9)
    best = found.best_estimator_
    np.testing.assert_allclose(best.predict_proba(X), theirs(best).fit(X, y).predict_proba(X))


@pytest.mark.parametrize("model", MODELS[:1] + MODELS[5:7] + MODELS[9:10], ids=str)
def test_linear_discriminants_join_the_pass_of_scalers(model, rng):
    X, y = classes(rng)
    name = "lineardiscriminantanalysis"
    values = [0.1, 0.6] if model.solver != "svd" else [None]
    grid = {f"{name}__shrinkage": [*values, *(["auto"] if model.shrinkage == "auto" else [])]}
    found = GridSearchCV(make_pipeline(StandardScaler(), model), grid).fit(X, y)
    expected = TheirSearch(their_pipeline(TheirScaler(), theirs(model)), grid).fit(X, y)
    assert "together" in found.plan_.steps[0].why
    np.testing.assert_allclose(
        found.cv_results_["mean_test_score"], expected.cv_results_["mean_test_score"], rtol=1e-9
    )
    np.testing.assert_allclose(found.predict_proba(X), expected.predict_proba(X), rtol=1e-6)


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_repeated_rows_change_nothing_but_counts(model, rng):
    if model.solver != "svd" and model.get_params()["shrinkage"] == "auto":
        pytest.skip("the share of Ledoit and Wolf depends on the number of rows")
    X, y = classes(rng)
    once = clone(model).fit(X, y)
    twice = clone(model).fit(np.concatenate([X, X]), np.concatenate([y, y]))
    np.testing.assert_allclose(twice.predict_proba(X), once.predict_proba(X), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("model", [MODELS[0], MODELS[4], MODELS[11]], ids=str)
def test_large_means_cost_few_digits(model, rng):
    X, y = classes(rng)
    near, far = (clone(model).fit(X + shift, y) for shift in (0.0, 1e6))
    np.testing.assert_allclose(far.predict_proba(X + 1e6), near.predict_proba(X), atol=1e-4)


def test_features_without_variance_are_left_out_by_svd(rng):
    X, y = classes(rng)
    X = np.concatenate([X, np.full((len(X), 1), 3.0), X[:, :1] + X[:, 1:2]], axis=1)
    found = LinearDiscriminantAnalysis().fit(X, y)
    expected = sk.LinearDiscriminantAnalysis().fit(X, y)
    np.testing.assert_allclose(found.predict_proba(X), expected.predict_proba(X), atol=1e-6)


@pytest.mark.parametrize(
    ("model", "error", "words"),
    [
        (LinearDiscriminantAnalysis(shrinkage=0.1), NotImplementedError, "svd"),
        (LinearDiscriminantAnalysis(n_components=3), ValueError, "n_components"),
        (LinearDiscriminantAnalysis(priors=[-0.5, 1.0, 0.5]), ValueError, "non-negative"),
        (LinearDiscriminantAnalysis(priors=[0.5, 0.5]), ValueError, "each of 3 classes"),
        (LinearDiscriminantAnalysis(tol=-1.0), ValueError, "tol"),
        (QuadraticDiscriminantAnalysis(shrinkage=0.1), NotImplementedError, "svd"),
        (QuadraticDiscriminantAnalysis(priors=[0.5, 0.5]), ValueError, "each of 3 classes"),
        (QuadraticDiscriminantAnalysis(tol=1e9), np.linalg.LinAlgError, "Increase the value"),
    ],
    ids=str,
)
def test_wrong_parameters_are_errors_and_nothing_is_left_behind(model, error, words, rng):
    model = clone(model)
    with pytest.raises(error, match=words):
        model.fit(*classes(rng))
    assert not [name for name in vars(model) if name.endswith("_")]


@pytest.mark.parametrize("solver", ["svd", "eigen"])
def test_a_class_of_too_few_rows_is_named_as_in_sklearn(rng, solver):
    X, y = rng.normal(size=(35, 20)), np.array(["few"] * 15 + ["more"] * 20)
    said = []
    for kind in (QuadraticDiscriminantAnalysis, sk.QuadraticDiscriminantAnalysis):
        with pytest.raises(np.linalg.LinAlgError, match="class few") as raised:
            kind(solver=solver).fit(X, y)
        said.append(str(raised.value))
    assert said[0] == said[1]


def test_one_class_and_one_row_of_a_class_are_errors(rng):
    X, y = classes(rng)
    for model in (LinearDiscriminantAnalysis(), QuadraticDiscriminantAnalysis()):
        with pytest.raises(ValueError, match="greater than one"):
            model.fit(X, np.zeros(len(X)))
    y[0] = 7
    with pytest.raises(ValueError, match="only 1 sample in class 7"):
        QuadraticDiscriminantAnalysis().fit(X, y)


def test_candidates_that_cannot_be_fitted_are_those_of_scikit_learn(rng):
    X, y = classes(rng)
    grid = {"solver": ["svd", "lsqr"], "shrinkage": [None, 0.2]}
    with pytest.warns(RuntimeWarning, match="shrinkage not supported"):
        found = GridSearchCV(LinearDiscriminantAnalysis(), grid, error_score=-1.0).fit(X, y)
    np.testing.assert_array_equal(found.cv_results_["mean_test_score"] == -1, [0, 0, 1, 0])


@pytest.mark.parametrize(
    "model",
    [
        LinearDiscriminantAnalysis(solver="lsqr", covariance_estimator=OAS()),
        QuadraticDiscriminantAnalysis(solver="eigen", covariance_estimator=OAS()),
        QuadraticDiscriminantAnalysis(solver="eigen", shrinkage="auto"),
    ],
    ids=str,
)
def test_what_scikit_learn_fits_needs_rows_in_cpu_memory_and_says_so(model, rng):
    strict = pytest.importorskip("array_api_strict")
    X, y = classes(rng)
    expected = theirs(model).fit(X, y)
    np.testing.assert_array_equal(model.fit(X, y).predict(X), expected.predict(X))
    with pytest.raises(ValueError, match="scikit-learn's solver"):
        clone(model).fit(strict.asarray(X), strict.asarray(y))


@pytest.mark.parametrize("model", MODELS[:1] + MODELS[-1:], ids=str)
def test_models_become_scikit_learns(model, rng):
    X, y = classes(rng)
    fitted = clone(model).fit(X.astype(np.float32), y)
    twin = as_sklearn(fitted)
    assert type(twin).__module__.startswith("sklearn.")
    assert fitted.means_.dtype == np.float32
    np.testing.assert_allclose(twin.predict_proba(X), fitted.predict_proba(X), atol=1e-3)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.FitFailedWarning", "ignore:One or more")
def test_models_that_fail_where_they_are_asked_for_fail_alone(rng):
    """Behind steps, training parts are scored by single models, which are fitted that late."""
    X, y = rng.normal(size=(90, 12)), np.repeat([0, 1], [75, 15])
    pipe = make_pipeline(StandardScaler(), QuadraticDiscriminantAnalysis())
    splits = [(np.arange(90), np.arange(90)), (np.arange(80), np.arange(60, 90))]  # 5 rows of 1
    options = {"cv": splits, "return_train_score": True, "scoring": ["accuracy", "neg_log_loss"]}
    grid = {"quadraticdiscriminantanalysis__reg_param": [0.1, 0.5]}
    ours, theirs = (
        kind(pipe, grid, refit="accuracy", **options).fit(X, y)
        for kind in (GridSearchCV, TheirSearch)
    )
    for key in ("split0_train_accuracy", "split1_train_accuracy", "split1_test_neg_log_loss"):
        np.testing.assert_allclose(ours.cv_results_[key], theirs.cv_results_[key])
    assert np.isnan(ours.cv_results_["split1_test_accuracy"]).all()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.FitFailedWarning", "ignore:One or more")
def test_splits_with_one_row_of_each_class_fail_alone(rng):
    X, y = rng.normal(size=(12, 3)), np.arange(12) % 3
    options = {"cv": [(np.arange(3), np.arange(3, 12)), (np.arange(9), np.arange(9, 12))]}
    ours, theirs = (
        kind(module.LinearDiscriminantAnalysis(), {"tol": [1e-4, 1e-2]}, refit=False, **options)
        for kind, module in ((GridSearchCV, own), (TheirSearch, sk))
    )
    found, wanted = (search.fit(X, y).cv_results_ for search in (ours, theirs))
    for key in ("split0_test_score", "split1_test_score"):
        np.testing.assert_allclose(found[key], wanted[key])
    assert np.isnan(found["split0_test_score"]).all()


@pytest.mark.parametrize("solver", ["svd", "eigen"])
def test_names_of_components_are_as_many_as_components(solver):
    # Of classes in two directions, a constant feature leaves one.
    X, y = np.random.default_rng(0).normal(size=(30, 2)), np.arange(30) % 3
    X[:, 0] = 2.0
    model = LinearDiscriminantAnalysis(solver=solver).set_output(transform="pandas").fit(X, y)
    assert list(model.transform(X).columns) == ["lineardiscriminantanalysis0"]
