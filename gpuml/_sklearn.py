"""scikit-learn's private names: the only module that imports them.

A name is private where it, or a module on its path, begins with an underscore. scikit-learn may
rename or remove those in any release, which is why `pyproject.toml` has a ceiling: raise it when
`tests/test_borders.py` finds all of them in the new release and the suite passes with it.

Each name is imported at its first use, so that a module that needs one loads no more of
scikit-learn than that.
"""

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

import sklearn

if TYPE_CHECKING:
    Method = TypeVar("Method", bound=Callable[..., Any])

    # scikit-learn has no types. Without these, a method that one decorates would have none either.
    def _fit_context(*, prefer_skip_nested_validation: bool) -> Callable[[Method], Method]: ...

    def validate_params(
        parameter_constraints: dict[str, Any], *, prefer_skip_nested_validation: bool
    ) -> Callable[[Method], Method]: ...


# Tables of constraints and the check that reads them. Public is only that an estimator may have
# a table; what a table holds, and the error that its users may catch, are not.
PARAMETERS = {
    "HasMethods": "sklearn.utils._param_validation",
    "Interval": "sklearn.utils._param_validation",
    "InvalidParameterError": "sklearn.utils._param_validation",
    "StrOptions": "sklearn.utils._param_validation",
    "_fit_context": "sklearn.base",
    "make_constraint": "sklearn.utils._param_validation",
    "validate_parameter_constraints": "sklearn.utils._param_validation",
    "validate_params": "sklearn.utils._param_validation",
}

# What is checked or taken of X, y and weights. `validate_data` and `check_array`, which are public,
# turn all of X into NumPy first, or check it again where it has been checked. Told to check names
# and number of features alone, `validate_data` collects all tags first, which takes as long as
# `predict` of a few rows.
ROWS = {
    "_align_api_if_sparse": "sklearn.utils",
    "_check_feature_names": "sklearn.utils.validation",
    "_check_method_params": "sklearn.utils.validation",
    "_check_n_features": "sklearn.utils.validation",
    "_check_sample_weight": "sklearn.utils.validation",
    "_check_y": "sklearn.utils.validation",
    "_get_column_indices": "sklearn.utils._indexing",
    "_is_arraylike": "sklearn.utils.validation",
    "_num_samples": "sklearn.utils.validation",
    "_safe_indexing": "sklearn.utils",
    "_safe_split": "sklearn.utils.metaestimators",
    "check_same_namespace": "sklearn.utils._array_api",
    "is_pandas_na": "sklearn.utils._missing",
    "is_scalar_nan": "sklearn.utils._missing",
}

# `set_output`: public for whom it is set, not for what hands over a container of its own.
OUTPUT = {
    "ADAPTERS_MANAGER": "sklearn.utils._set_output",
    "_get_output_config": "sklearn.utils._set_output",
    "get_columns": "sklearn.utils._set_output",
}

# Metadata routing inside an estimator that routes parameters without a request.
ROUTING = {
    "_check_groups_routing_disabled": "sklearn.model_selection._validation",
    "_raise_for_params": "sklearn.utils.metadata_routing",
}

# The kinds of scorers. `make_scorer` and `get_scorer` make them; only the classes tell what a user
# passed: a batch of models is scored from what a scorer holds.
SCORERS = {
    "_BaseScorer": "sklearn.metrics._scorer",
    "_check_multimetric_scoring": "sklearn.metrics._scorer",
    "_MultimetricScorer": "sklearn.metrics._scorer",
    "_CurveScorer": "sklearn.metrics._scorer",
    "_PassthroughScorer": "sklearn.metrics._scorer",
    "_Scorer": "sklearn.metrics._scorer",
    "_check_response_method": "sklearn.utils.validation",
}

# What scikit-learn's searches are made of: their base class, and the words and forms of their
# results, which ours have too.
SEARCHES = {
    "BaseSearchCV": "sklearn.model_selection._search",
    "_SubsampleMetaSplitter": "sklearn.model_selection._search_successive_halving",
    "_fit_transform_one": "sklearn.pipeline",
    "_check_is_permutation": "sklearn.model_selection._validation",
    "_enforce_prediction_order": "sklearn.model_selection._validation",
    "_insert_error_scores": "sklearn.model_selection._validation",
    "_normalize_score_results": "sklearn.model_selection._validation",
    "_print_elapsed_time": "sklearn.utils._user_interface",
    "_score": "sklearn.model_selection._validation",
    "_search_estimator_has": "sklearn.model_selection._search",
    "_translate_train_sizes": "sklearn.model_selection._validation",
    "_warn_or_raise_about_fit_failures": "sklearn.model_selection._validation",
    "_validate_score_name": "sklearn.utils._plotting",
    "check_matplotlib_support": "sklearn.utils._optional_dependencies",
    "_yield_masked_array_for_each_param": "sklearn.model_selection._search",
}

# What a docstring says of a parameter, as notebooks show it.
DISPLAY = {"get_docstring": "sklearn.utils._repr_html.common"}

# Parts of single estimators: compiled loops, a dtype of what is fitted, and checks whose messages
# are the same in ours.
MODELS = {
    "_ConstantPredictor": "sklearn.multiclass",
    "_BinaryGaussianProcessClassifierLaplace": "sklearn.gaussian_process._gpc",
    "HIERARCHY_dtype": "sklearn.cluster._hdbscan._tree",
    "Tree": "sklearn.tree._tree",
    "_AvailableIfDescriptor": "sklearn.utils._available_if",
    "_build_pruned_tree_py": "sklearn.tree._tree",
    "_cd_fast": "sklearn.linear_model",
    "_check_means": "sklearn.mixture._gaussian_mixture",
    "_check_precisions": "sklearn.mixture._gaussian_mixture",
    "_check_solver": "sklearn.linear_model._logistic",
    "_check_weights": "sklearn.mixture._gaussian_mixture",
    "_get_liblinear_solver_type": "sklearn.svm._base",
    "_validate_dual_parameter": "sklearn.svm._classes",
    "_get_feature_importances": "sklearn.feature_selection._base",
    "_infer_dimension": "sklearn.decomposition._pca",
    "_openmp_effective_n_threads": "sklearn.utils._openmp_helpers",
    "_ovr_decision_function": "sklearn.utils.multiclass",
}


def _routing_enabled() -> bool:
    """Whether metadata routing is on; scikit-learn's own is private, its setting is public."""
    return sklearn.get_config()["enable_metadata_routing"]


MODULES = PARAMETERS | ROWS | OUTPUT | ROUTING | SCORERS | SEARCHES | DISPLAY | MODELS


def __getattr__(name: str) -> Any:
    if name not in MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(MODULES[name]), name)
    except (ImportError, AttributeError) as error:
        raise ImportError(
            f"gpuml needs {name!r} of {MODULES[name]}, which scikit-learn {sklearn.__version__} "
            "does not have. Install a version that this gpuml supports: "
            "pip install 'scikit-learn>=1.9,<1.10'."
        ) from error
