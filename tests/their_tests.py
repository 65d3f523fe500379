"""scikit-learn's own tests of classes that gpuml has by the same names, with ours in their place.

`THEIR_PACKAGE=preprocessing pytest tests/their_tests.py -k encoders` runs some of a package: fixtures
of several have the same names. `test_their_tests.py` runs all of them, each package in a process of
its own, so that nobody else waits until they are collected.
"""

import importlib
import importlib.util
import os
import sys
from functools import cache
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import sklearn
from sklearn import calibration, metrics
from sklearn.preprocessing import _label

pytestmark = pytest.mark.filterwarnings("default")

# Test modules of each package, with words one of which is in the name of a test of a class that
# gpuml has; none for all of them.
MODULES = {
    # Those of all meta-estimators lie beside those of calibration.
    "calibration": dict.fromkeys(("test_calibration", "test_metaestimators_metadata_routing")),
    "cluster": {
        **dict.fromkeys(("test_bisect_k_means", "test_dbscan", "test_hdbscan", "test_k_means")),
        **dict.fromkeys(("test_hierarchical", "test_spectral")),
    },
    "gaussian_process": dict.fromkeys(("test_gpc", "test_gpr", "test_kernels")),
    "kernel_approximation": {"test_kernel_approximation": None},
    "kernel_ridge": {"test_kernel_ridge": None},
    "neighbors": {
        **dict.fromkeys(("test_kde", "test_lof", "test_nearest_centroid")),
        **dict.fromkeys(("test_neighbors", "test_neighbors_pipeline")),
    },
    "mixture": dict.fromkeys(("test_gaussian_mixture", "test_mixture")),
    "multiclass": {"test_multiclass": None},
    "multioutput": {"test_multioutput": None},
    "ensemble": {
        **dict.fromkeys(("test_stacking", "test_voting", "test_bagging", "test_common")),
        **dict.fromkeys(("test_forest", "test_iforest")),
    },
    "covariance": {
        **dict.fromkeys(("test_covariance", "test_elliptic_envelope", "test_graphical_lasso")),
        "test_robust_covariance": None,
    },
    "decomposition": dict.fromkeys(
        ("test_factor_analysis", "test_incremental_pca", "test_pca", "test_truncated_svd")
    ),
    "discriminant_analysis": {"test_discriminant_analysis": None},
    "feature_extraction": {"test_text": None},
    "random_projection": {"test_random_projection": None},
    "cross_decomposition": dict.fromkeys(("test_pls",)),
    "preprocessing": {
        **dict.fromkeys(("test_discretization", "test_encoders", "test_function_transformer")),
        **dict.fromkeys(("test_polynomial", "test_target_encoder")),
        **dict.fromkeys(("test_common", "test_data", "test_label")),
    },
    "impute": dict.fromkeys(("test_base", "test_common", "test_impute")),
    "compose": dict.fromkeys(("test_column_transformer", "test_target")),
    "linear_model": {
        **dict.fromkeys(("test_base", "test_bayes", "test_common", "test_coordinate_descent")),
        **dict.fromkeys(("test_huber", "test_least_angle", "test_logistic", "test_omp")),
        **dict.fromkeys(("test_quantile", "test_ridge", "test_sparse_coordinate_descent")),
        **dict.fromkeys(("test_ransac", "test_sag", "test_theil_sen")),
    },
    "linear_model._glm": {"test_glm": None},
    "metrics": {
        **dict.fromkeys(("test_classification", "test_common", "test_ranking", "test_regression")),
        "test_score_objects": None,
    },
    # Not those of ROC curves alone, which have a fixture by the name of another.
    "metrics._plot": {
        **dict.fromkeys(("test_common_curve_display", "test_confusion_matrix_display")),
        **dict.fromkeys(("test_det_curve_display", "test_precision_recall_display")),
        "test_predict_error_display": None,
    },
    "manifold": dict.fromkeys(("test_spectral_embedding", "test_t_sne")),
    "pipeline": {"test_pipeline": None},
    "naive_bayes": {"test_naive_bayes": None},
    "feature_selection": {
        **dict.fromkeys(("test_base", "test_chi2", "test_feature_select", "test_from_model")),
        **dict.fromkeys(("test_rfe", "test_sequential", "test_variance_threshold")),
    },
    "inspection": dict.fromkeys(("test_partial_dependence", "test_permutation_importance")),
    "inspection._plot": dict.fromkeys(
        ("test_boundary_decision_display", "test_plot_partial_dependence")
    ),
    "model_selection": {
        **dict.fromkeys(("test_classification_threshold", "test_plot", "test_search")),
        **dict.fromkeys(("test_split", "test_successive_halving", "test_validation")),
    },
    "svm": dict.fromkeys(("test_bounds", "test_sparse", "test_svm")),
    # Of what gpuml leaves to scikit-learn, with our classes inside.
    "frozen": {"test_frozen": None},
    "semi_supervised": {"test_self_training": None},
    "utils": {"test_response": None},
}
# Packages whose classes are in a module of them.
PUBLIC_IN = {
    "feature_extraction": "feature_extraction.text",
    "linear_model._glm": "linear_model",
    "metrics._plot": "inspection",
    **dict.fromkeys(("frozen", "inspection._plot", "utils"), "linear_model"),
    "semi_supervised": "neighbors",
}
# Where scikit-learn has names that gpuml has in another module, or that its tests import from there.
ELSEWHERE = calibration, metrics, _label
FIXTURE = type(pytest.fixture(lambda: None))
# What ours need not do, and why.
OTHERWISE = {
    # They take all parameters wherever rows are; "auto" has other bounds.
    "test_array_api_error_and_warnings_on_unsupported_params",
    "test_pca_svd_solver_auto",
    # They take rows of a device in this order as well.
    "test_polynomial_features_array_api_raises_on_order_F",
    # Classes and calibrators are in CPU memory, wherever labels are; what is sparse is refused in
    # other words.
    *("test_label_encoder_array_api_compliance", "test_label_binarizer_array_api_compliance"),
    "test_temperature_scaling_array_api_compliance",
    "test_temperature_scaling_array_api_with_str_y_estimator_not_prefit",
    # Ours never write to X.
    *("test_copy", "test_tfidf_transformer_copy"),
    # Searches have attributes more (plan_, results_), whatever class they derive from.
    "test_custom_run_search",
    # Weights beside repeated rows, of logistic models at the default tol: one row of 17 falls to
    # the other side. At tol=1e-10 all scores are the same.
    "test_search_cv_sample_weight_equivalence",
    # Ours begin with clusters of k-means wherever rows are, and call none of their functions.
    "test_gaussian_mixture_raises_where_array_api_not_implemented",
    "test_gaussian_mixture_all_init_does_not_estimate_gaussian_parameters",
    # A component of one row has no variance: theirs has what rounding leaves, ours is refused.
    "test_gaussian_mixture_setting_best_params",
    # Of float32 rows, a score is compared with a mean that was summed in float32; five or ten
    # starts that come to the same mixture end within rounding of one.
    *("mixture.test_score", "test_multiple_init", "test_init"),
    # It counts calls of `set_params`, which are one per candidate, or none.
    "test_base_estimator_inputs",
    # Private attributes are asked for.
    *("test_pls_canonical_basics", "test_sanity_check_pls_canonical"),
    "test_sanity_check_pls_canonical_random",
    # Pictures are scikit-learn's; the fixture `pyplot` is of its own settings.
    "test_plot_calibration_curve_pipeline",
    # Digits of scikit-learn's models, which stop at the default tol; a model of sparse rows too,
    # which is scikit-learn's, next to one of dense rows, which is at the optimum.
    "test_multiclass_multioutput_estimator_predict_proba",
    "test_multi_target_sparse_regression",
    # They are expected to fail, by numerical derivatives; of ours some pass.
    "test_lml_gradient",
    # They write to X with copy_X=False.
    "test_lasso_lars_copyX_behaviour",
    "test_lasso_lars_fit_copyX_behaviour",
    # They compare models that stop at a gap with those of Lasso, which do not.
    "test_1d_multioutput_enet_and_multitask_enet_cv",
    "test_1d_multioutput_lasso_and_multitask_lasso_cv",
    # It expects that a fit which failed has changed `classes_`; ours leaves the estimator as it was.
    "test_discretenb_provide_prior",
    # They compare scikit-learn's model of sparse rows, at its tol, with ours, at the optimum.
    *("test_huber_sample_weights", "test_huber_sparse"),
    # A coefficient of 10 may be one unit of rounding more.
    "test_quantile_toy_example",
    # Digits of scikit-learn's models, which stop at the default tol: ours are at the optimum, and
    # models of sparse rows, or with precompute=, are scikit-learn's.
    *("test_sparse_dense_equality", "test_same_output_sparse_dense_lasso_and_enet_cv"),
    *("test_same_multiple_output_sparse_dense", "test_path_parameters", "test_logistic_cv_sparse"),
    *("test_logreg_l1", "test_logistic_cv_multinomial_score", "test_enet_float_precision"),
    "test_elasticnet_precompute_gram_weighted_samples",
    *("test_regularization_limits_ridge", "test_lasso_dual_gap"),
    # Ours need no other solver, and no warning, for these.
    *("test_lasso_alpha_warning", "test_newton_cholesky_fallback_to_lbfgs"),
    *("test_linalg_warning_with_newton_solver", "test_ridge_fit_intercept_sparse_error"),
    *("test_large_sparse_matrix", "test_n_iter"),
    # It compares what callbacks see with models that stop after so many iterations of ours.
    "test_logistic_regression_callback_fitted_estimator",
    # They write to X with copy_X=False, or leave out checks.
    *("test_inplace_data_preprocessing", "test_enet_copy_X_False_check_input_False"),
    "test_check_input_false",
    # It asks for a call of a function of scikit-learn's.
    "test_lassoCV_does_not_set_precompute",
    # Values that overflow are told in other words.
    "test_enet_nonfinite_params",
    # gcv_mode="svd" needs data in CPU memory; solvers that do, too.
    "test_ridge_array_api_compliance",
    "test_array_api_error_and_warnings_for_solver_parameter",
    # Of coefficients that are nan, where a fit begins at them, ours tell in other words.
    "test_sag_classifier_raises_error",
    # Ours are at the optimum after two steps.
    "test_linear_svm_convergence_warnings",
    # They are expected to fail, for want of precision; ours pass.
    *("test_linear_regression_sample_weight_consistency", "test_balance_property"),
    # Defaults are printed where a function of ours is the default of a class of theirs, and a union
    # of transformers takes rows of devices.
    *("test_pipeline_invalid_parameters", "test_feature_union_array_api_support_tag"),
    # It compares logistic models at the default tol to 7 digits: those that are fitted together
    # agree with those of a search by itself within tol. Ours compares them at a smaller one.
    "test_gridsearchcv_cross_val_predict_with_method",
}
# Values of a parameter of a test, of which the same holds.
LEFT_OUT = {
    # It asks for the class that IterativeImputer imports by itself.
    "test_iterative_imputer_estimators": ("estimator", None),
    # Errors of some ten thousands to 6 decimals: models of sparse rows agree to 1e-9 of them.
    "test_cross_validate": ("use_sparse", True),
}
# Classes of ours that some packages do not make, and why: in place of "passthrough" the fitted
# transformers of a ColumnTransformer have scikit-learn's own.
NOT_OURS = {
    ("compose", "FunctionTransformer"),
    # Called while their module is read, ours would ask itself.
    *((each, "make_column_transformer") for each in ("frozen", "inspection", "metrics._plot")),
}
# They ask scikit-learn for the same.
SAME = {"get_scorer", "get_scorer_names"}


@pytest.fixture
def pyplot():
    """What their tests of pictures ask for."""
    module = pytest.importorskip("matplotlib.pyplot")
    module.switch_backend("agg")
    yield module
    module.close("all")


def with_ours(package, name):
    """A test module of scikit-learn whose imports find our classes."""
    root = Path(sklearn.__file__).parent
    own = root.joinpath(*package.split("."))
    folder = own if own.is_dir() else root
    path = folder / "tests" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"swapped_{package}_{name}", path)
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        for theirs, public, ours in public_names():
            if (package, public) in NOT_OURS or public in SAME:
                continue
            for each in (theirs, *ELSEWHERE):
                if public in vars(each):
                    patch.setattr(each, public, ours)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        replaced = {theirs for theirs, _, _ in public_names()}
        for name, value in list(vars(module).items()):
            if isinstance(value, ModuleType) and value in replaced:
                # Of `from sklearn import svm`, their tests read names when they run.
                setattr(module, name, SimpleNamespace(**vars(value)))
    return module


@cache
def public_names():
    """Modules of scikit-learn, and names in ours of the same name, with what these are."""
    found = []
    for each in dict.fromkeys(PUBLIC_IN.get(own, own) for own in MODULES):
        theirs, ours = (importlib.import_module(f"{p}.{each}") for p in ("sklearn", "gpuml"))
        # Ours are imported before any name is replaced: they derive from theirs.
        found += [(theirs, public, getattr(ours, public)) for public in ours.__all__]
    return found


def collected():
    """Their tests, under names of their own, and what these are given."""
    for package, modules in MODULES.items():
        if os.environ.get("THEIR_PACKAGE", package) != package:
            continue
        for name, words in modules.items():
            for test, function in vars(with_ours(package, name)).items():
                if isinstance(function, FIXTURE):
                    yield test, function
                elif callable(function) and is_asked(package, test, words):
                    marks = getattr(function, "pytestmark", ())
                    function.pytestmark = [as_list(mark, test) for mark in marks]
                    yield f"{test}_of_{package}_{name}", function


def is_asked(package, test, words):
    if not test.startswith("test_") or OTHERWISE & {test, f"{package}.{test}"}:
        return False
    return words is None or any(word in test for word in words.split())


def as_list(mark, test):
    """A mark whose values are no generator, which pytest will refuse, without those left out."""
    if mark.name != "parametrize":
        return mark
    name, value = LEFT_OUT.get(test, ("", None))
    values = [each for each in mark.args[1] if mark.args[0] != name or each is not value]
    return pytest.mark.parametrize(mark.args[0], values, **mark.kwargs).mark


globals().update(collected())


def test_the_classes_are_ours():
    for package in [os.environ["THEIR_PACKAGE"]] if "THEIR_PACKAGE" in os.environ else MODULES:
        ours = importlib.import_module(f"gpuml.{PUBLIC_IN.get(package, package)}")
        taken = {
            name: value
            for module in list(sys.modules)
            if module.startswith("swapped_")
            for name, value in vars(sys.modules[module]).items()
            if name in set(ours.__all__) - SAME and callable(value)
        }
        assert taken
        others = [name for name, value in taken.items() if value is not getattr(ours, name)]
        assert others == [], package


@pytest.fixture
def global_random_seed():
    return 0


@pytest.fixture(params=[np.float32, np.float64])
def global_dtype(request):
    return request.param
