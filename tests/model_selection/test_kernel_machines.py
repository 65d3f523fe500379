"""Support vector machines that read one matrix of a fold: scores are those of fits to the rows."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn import model_selection as sk
from sklearn import svm
from sklearn.exceptions import FitFailedWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import gpuml.svm
from gpuml import config_context
from gpuml._arrays import has_gpu
from gpuml.model_selection import GridSearchCV, cross_validate, fold_fits, kernel_machines
from gpuml.model_selection.candidates import KERNELS

RNG = np.random.default_rng(3)
X = RNG.normal(size=(120, 5)) + 2.0
NUMBERS = np.sin(X.sum(axis=1)) + 0.1 * RNG.normal(size=120)
NAMES = np.array(["b", "a", "cc"])[np.digitize(NUMBERS, [-0.4, 0.4])]
PAIR = NUMBERS > 0
WEIGHT = RNG.uniform(0.2, 2.0, 120)
RBF = {"C": [0.1, 1.0, 10.0], "gamma": ["scale", "auto", 0.3]}
# name -> (machine, y, grid)
CASES = {
    "two classes": (svm.SVC(), PAIR, RBF),
    "three classes": (svm.SVC(class_weight="balanced"), NAMES, RBF),
    "ours": (gpuml.svm.SVC(), NAMES, RBF),
    "one kernel": (svm.SVC(kernel="linear"), PAIR, {"C": np.logspace(-3, 1, 8)}),
    "all kernels": (
        svm.SVC(),
        NAMES,
        {"kernel": ["linear", "poly", "rbf", "sigmoid"], "C": [1, 9]},
    ),
    "polynomials": (
        svm.SVC(kernel="poly"),
        PAIR,
        {"degree": [2, 3], "coef0": [0.0, 1.0], "C": [0.1, 0.3, 1.0, 3.0]},
    ),
    "pairs of classes": (
        svm.SVC(decision_function_shape="ovo", break_ties=False, class_weight={"a": 3.0}),
        NAMES,
        RBF,
    ),
    "nu": (svm.NuSVC(), PAIR, {"nu": [0.2, 0.4], "gamma": [0.1, 1.0]}),
    "numbers": (svm.SVR(), NUMBERS, {**RBF, "epsilon": [0.01, 0.1]}),
    "our numbers": (gpuml.svm.SVR(), NUMBERS, RBF),
    "nu of numbers": (svm.NuSVR(), NUMBERS, {"nu": [0.2, 0.4], "C": [1.0, 5.0]}),
}


def compared(machine, y, grid, X=X, fit=None, behind=None, **params):
    """A search of ours, and scikit-learn's."""
    if behind is not None:
        name = type(machine).__name__.lower()
        machine = make_pipeline(behind, machine)
        grid = {f"{name}__{key}": values for key, values in grid.items()}
    searches = [
        search(machine, grid, cv=3, **params).fit(X, y, **(fit or {}))
        for search in (GridSearchCV, sk.GridSearchCV)
    ]
    ours, theirs = (search.cv_results_ for search in searches)
    for key, values in theirs.items():
        # Ties are no ties where they round otherwise.
        if "_score" in key and "time" not in key and "rank" not in key:
            # Kernels that round to another float32 change what is found within tol.
            assert_allclose(ours[key], values, rtol=1e-6, atol=1e-9, err_msg=key)
    return searches


@pytest.mark.parametrize("behind", [None, StandardScaler()])
@pytest.mark.parametrize("case", CASES)
def test_scores_are_those_of_fits_to_rows(case, behind):
    machine, y, grid = CASES[case]
    search, theirs = compared(machine, y, grid, behind=behind, return_train_score=True)
    assert KERNELS in str(search.plan_)
    best, wanted = search.best_estimator_, theirs.best_estimator_
    best, wanted = (best, wanted) if behind is None else (best[-1], wanted[-1])
    assert type(best) is type(machine)
    assert best.kernel == wanted.kernel
    assert_allclose(best.dual_coef_, wanted.dual_coef_)
    assert_allclose(search.predict(X) == y, theirs.predict(X) == y)


def test_probabilities_are_those_of_fits_of_their_own():
    machine = svm.SVC(probability=True, random_state=0)
    with pytest.warns(FutureWarning, match="probability"):
        search, _ = compared(machine, PAIR, {"C": [0.1, 1.0]}, scoring="neg_log_loss")
    assert KERNELS not in str(search.plan_)


def test_several_scores_of_decisions_agree():
    search, _ = compared(svm.SVC(), PAIR, RBF, scoring=["roc_auc", "f1"], refit="f1")
    assert KERNELS in str(search.plan_)


def test_weights_of_rows_go_to_each_fit():
    search, _ = compared(svm.SVC(), NAMES, RBF, fit={"sample_weight": WEIGHT})
    assert KERNELS in str(search.plan_)


@pytest.mark.parametrize("case", ["three classes", "pairs of classes", "nu", "numbers"])
@pytest.mark.parametrize("behind", [None, StandardScaler()])
def test_rows_of_no_weight_shift_no_support_vectors(case, behind):
    # libsvm drops them and numbers the others anew: its predictions read other rows of a kernel.
    machine, y, grid = CASES[case]
    weight = np.where(np.arange(120) % 3 == 0, 0.0, WEIGHT)
    name = "sample_weight" if behind is None else f"{type(machine).__name__.lower()}__sample_weight"
    search, _ = compared(machine, y, grid, fit={name: weight}, behind=behind)
    assert "libsvm drops rows of no weight" in str(search.plan_)


def test_tables_and_float32_are_rows():
    compared(svm.SVC(), NAMES, RBF, X=pd.DataFrame(X).add_prefix("c"))
    compared(svm.SVC(), NAMES, RBF, X=X.astype(np.float32))


def test_densities_have_no_targets(rng):
    search = GridSearchCV(svm.OneClassSVM(), {"nu": [0.1, 0.5], "gamma": [0.1, 1.0]}, cv=3)
    y = np.where(rng.random(120) < 0.8, 1, -1)
    search.set_params(scoring="accuracy").fit(X, y)
    wanted = sk.GridSearchCV(
        svm.OneClassSVM(), {"nu": [0.1, 0.5], "gamma": [0.1, 1.0]}, cv=3, scoring="accuracy"
    ).fit(X, y)
    assert KERNELS in str(search.plan_)
    name = "mean_test_score"
    assert_allclose(search.cv_results_[name], wanted.cv_results_[name])


def test_predictions_of_held_out_rows_are_kept():
    search = GridSearchCV(svm.SVC(), RBF, cv=3, return_predictions="decision_function")
    kept = search.fit(X, PAIR).cv_predictions_
    machine = svm.SVC(C=10.0, gamma=0.3)
    found = np.asarray(kept)[-1] if np.ndim(kept) else kept
    wanted = sk.cross_val_predict(machine, X, PAIR, cv=3, method="decision_function")
    assert_allclose(np.ravel(found)[-120:], wanted, rtol=1e-6, atol=1e-8)


def looks_at_rows(model, X, y):
    assert X.shape[1] == 5
    return float(X[0, 0])


REASONS = {
    "sparse rows": (svm.SVC(), sparse.csr_array(X), {}, "X is sparse"),
    "a scorer of the user's": (svm.SVC(), X, {"scoring": looks_at_rows}, "may use X"),
    "the same of a pipeline": (
        make_pipeline(StandardScaler(), svm.SVC()),
        X,
        {"scoring": looks_at_rows},
        "may use X",
    ),
}


@pytest.mark.parametrize("case", REASONS)
def test_who_computes_kernels_itself_says_why(case):
    machine, rows, params, words = REASONS[case]
    name = "svc__C" if hasattr(machine, "steps") else "C"
    grid = {name: [0.1, 1.0]}
    search = GridSearchCV(machine, grid, cv=3, **params).fit(rows, PAIR)
    wanted = sk.GridSearchCV(machine, grid, cv=3, **params).fit(rows, PAIR)
    name = "mean_test_score"
    assert_allclose(search.cv_results_[name], wanted.cv_results_[name])
    assert words in str(search.plan_)
    assert KERNELS not in str(search.plan_)


def test_kernels_that_are_functions_are_their_own():
    machine = svm.SVC(kernel=lambda A, B: A @ B.T)
    search, _ = compared(machine, PAIR, {"C": [0.1, 1.0]})
    assert KERNELS not in str(search.plan_)


def test_kernels_that_memory_does_not_hold_are_computed_by_libsvm(monkeypatch):
    monkeypatch.setattr(kernel_machines, "free_bytes", lambda place: 10**5)
    search, _ = compared(svm.SVC(), PAIR, {"C": [0.1, 1.0]})
    assert "more than a quarter of the free CPU memory" in str(search.plan_)


def test_machines_of_few_support_vectors_compute_few_kernels():
    apart = X + 20.0 * PAIR[:, None]
    search, _ = compared(svm.SVC(kernel="linear"), PAIR, {"C": [0.1, 1.0, 10.0]}, X=apart)
    (reason,) = search.plan_.reasons
    assert reason.count("few rows are support vectors") == reason.count("do not share passes") == 1
    assert KERNELS not in str(search.plan_)


def test_kernels_of_few_candidates_are_computed_by_libsvm():
    grids = {"C": [0.1, 1.0]}, {"C": np.logspace(-3, 3, 30)}
    few, many = (str(compared(svm.SVC(), PAIR, grid)[0].plan_) for grid in grids)
    assert "few candidates share a kernel" in few
    assert KERNELS not in few
    assert KERNELS in many


def test_estimators_of_folds_are_fitted_to_rows():
    found = cross_validate(svm.SVC(), X, PAIR, cv=3, return_estimator=True)
    assert [model.kernel for model in found["estimator"]] == ["rbf"] * 3


def test_a_fit_that_fails_fails_alone():
    search = GridSearchCV(svm.NuSVC(), {"nu": [0.3, 1.0]}, cv=3)
    y = np.arange(120) < 20  # of which nu=1 is infeasible
    with pytest.warns((FitFailedWarning, UserWarning, RuntimeWarning)):
        search.fit(X, y)
    scores = search.cv_results_["mean_test_score"]
    assert np.isfinite(scores[0])
    assert np.isnan(scores[1])


@pytest.mark.skipif(has_gpu(), reason="cuML does the work of ours")
def test_ours_read_kernels_where_no_gpu_does_the_work():
    assert kernel_machines.kernel_key(gpuml.svm.SVC()) == ("kernels", "squares")
    with config_context(device="cpu"):
        assert kernel_machines.kernel_key(gpuml.svm.SVC(kernel="poly")) == ("kernels", "inner")


def test_candidates_of_one_kernel_stay_together_where_others_are_divided():
    params = [{"C": C, "gamma": gamma} for C in (1.0, 2.0) for gamma in (0.1, "scale")]
    found = fold_fits.families(svm.SVC(), params)
    assert sorted(map(sorted, found)) == [[0, 2], [1, 3]]
    assert fold_fits.families(svm.SVC(kernel="linear"), params) == [[0, 1, 2, 3]]


def test_subclasses_have_ways_of_their_own():
    class Own(svm.SVC):
        pass

    assert kernel_machines.kernel_key(Own()) is None
    assert kernel_machines.kernel_key(svm.LinearSVC()) is None
