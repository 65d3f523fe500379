"""What is imported of other packages: their private names in one place, and names they still have."""

import ast
import importlib
import inspect
import re
import sys
import tomllib

import pytest

from gpuml import _sklearn
from tests.test_architecture import ROOT, SOURCES, imports, is_private

# What releases rename. Not here: what may be absent, and what needs a GPU to be imported.
OTHERS = ("array_api_compat", "dask", "distributed", "joblib", "narwhals", "scipy", "sklearn")


def lacks(module, name):
    """Whether a package has no longer a name, or a module of that name."""
    try:
        return not hasattr(importlib.import_module(module), name) and not importlib.import_module(
            f"{module}.{name}"
        )
    except ImportError:
        return True


def names_of_others():
    """What both packages import of others, with private names of scikit-learn: (module, name)."""
    found = {(module, name) for name, module in _sklearn.MODULES.items()}
    for source in SOURCES.values():
        for each in imports(source):
            module, _, name = each.target.rpartition(".")
            if module.split(".")[0] in OTHERS:
                found.add((module, name))
    return sorted(found)


def test_what_is_installed_has_all_names_that_are_imported():
    # After a release of scikit-learn or Dask: the names that it no longer has.
    gone = [f"{module}.{name}" for module, name in names_of_others() if lacks(module, name)]
    assert gone == []


def test_each_private_name_of_scikit_learn_is_used_and_needs_to_be():
    used = {
        each.target.removeprefix("gpuml._sklearn.")
        for source in SOURCES.values()
        for each in imports(source)
    }
    assert [name for name in _sklearn.MODULES if name not in used] == []
    public = [
        name for name, module in _sklearn.MODULES.items() if not is_private(f"{module}.{name}")
    ]
    assert public == []


def test_a_private_name_that_scikit_learn_lacks_is_an_error_that_says_what_to_install(monkeypatch):
    monkeypatch.setitem(_sklearn.MODULES, "_renamed", "sklearn.utils.validation")
    with pytest.raises(
        ImportError, match=r"needs '_renamed' of sklearn.*pip install 'scikit-learn"
    ):
        _ = _sklearn._renamed


def test_scikit_learn_has_a_ceiling_that_pages_and_messages_name():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (requirement,) = (each for each in project["dependencies"] if each.startswith("scikit-learn"))
    assert "<" in requirement
    assert requirement in SOURCES["gpuml._sklearn"]


# ---------------------------------------------------------------- attributes

# Private attributes of others' objects. Of scikit-learn's classes, by a class that has them.
OF_SCIKIT_LEARN = {
    "sklearn.cluster.BisectingKMeans": "_X_mean _bisecting_tree",
    "sklearn.cross_decomposition.PLSRegression": "_predict_1d _x_mean _x_std _y_mean _y_std",
    "sklearn.discriminant_analysis.LinearDiscriminantAnalysis": "_max_components",
    "sklearn.ensemble.RandomForestClassifier": "_get_estimators_indices _validate_X_predict",
    "sklearn.ensemble.VotingClassifier": "_check_voting",
    "sklearn.feature_extraction.text.CountVectorizer": (
        "_check_vocabulary _validate_ngram_range _validate_vocabulary _warn_for_unused_params"
    ),
    "sklearn.gaussian_process.GaussianProcessRegressor": (
        "_constrained_optimization _y_train_mean _y_train_std"
    ),
    "sklearn.gaussian_process.kernels.Kernel": "_check_bounds_params",
    "sklearn.impute.SimpleImputer": "_fit_indicator",
    "sklearn.linear_model.PoissonRegressor": "_get_loss",
    "sklearn.metrics._scorer._MultimetricScorer": "_raise_exc _scorers _use_cache",
    "sklearn.metrics._scorer._Scorer": ("_accept_sample_weight _response_method _score_func _sign"),
    "sklearn.mixture.GaussianMixture": (
        "_print_verbose_msg_init_beg _print_verbose_msg_init_end _print_verbose_msg_iter_end"
    ),
    "sklearn.model_selection.GridSearchCV": (
        "_check_refit_for_multimetric _get_routed_params_for_fit _init_callback_context "
        "_select_best_index"
    ),
    "sklearn.naive_bayes.CategoricalNB": "_validate_n_categories",
    "sklearn.naive_bayes.MultinomialNB": "_check_alpha",
    "sklearn.neighbors.NearestNeighbors": "_fit_X",
    "sklearn.pipeline.Pipeline": (
        "_check_method_params _final_estimator _iter _log_message _validate_steps"
    ),
    "sklearn.preprocessing.KBinsDiscretizer": "_validate_n_bins",
    "sklearn.preprocessing.OneHotEncoder": (
        "_default_to_infrequent_mappings _drop_idx_after_grouping _infrequent_enabled "
        "_infrequent_indices _n_features_outs _transform"
    ),
    "sklearn.preprocessing.OrdinalEncoder": "_missing_indices",
    "sklearn.preprocessing.PolynomialFeatures": "_max_degree _min_degree",
    "sklearn.preprocessing.StandardScaler": "_reset",
    "sklearn.random_projection.GaussianRandomProjection": "_compute_inverse_components",
    "sklearn.svm.SVC": "_sparse",
    "sklearn.tree.DecisionTreeClassifier": "_prune_tree",
    "sklearn.utils._metadata_requests._MetadataRequester": "_metadata_request",
    "sklearn.callback.CallbackSupportMixin": "_skl_callbacks",
    "sklearn.utils._param_validation.validate_params": "_skl_parameter_constraints",
}
OF_OTHERS = {
    "catboost.CatBoost": "_init_params",
    "collections.namedtuple": "_replace",
    "cuml": "_cpu_class _n_neighbors _raw_data _single_linkage_tree _sparse_data _sync_attrs_from_cpu",
    "dask": "_meta",
    "fsspec.AbstractFileSystem": "_strip_protocol",
    "joblib.Parallel": "_backend",
    "multiprocessing.Process": "_inheriting",
    "numpy.random.mtrand": "_rand",
    "os": "_exit",
    "sklearnex.svm.SVC": "_n_support _onedal_cpu_supported",
    "sys": "_getframe",
    "umap.UMAP": "_a _b _metric_kwds _sigmas _small_data _validate_parameters",
}


def private_attributes():
    """Private names that are asked of objects, and that nothing in the two packages defines."""
    asked, defined = {}, set()
    for module, source in SOURCES.items():
        for node in ast.walk(ast.parse(source)):
            match node:
                case (
                    ast.FunctionDef(name=name)
                    | ast.AsyncFunctionDef(name=name)
                    | ast.ClassDef(name=name)
                ):
                    defined.add(name)
                case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                    defined.add(name)
                case (
                    ast.Attribute(attr=name)
                    | ast.Call(
                        func=ast.Name(id="getattr" | "hasattr"),
                        args=[_, ast.Constant(value=name), *_],
                    )
                ) if is_private(name) and name.isidentifier():
                    asked.setdefault(name, module)
    return {name: module for name, module in asked.items() if name not in defined}


def test_private_attributes_of_others_are_those_that_are_listed():
    listed = {
        name for names in (*OF_SCIKIT_LEARN.values(), *OF_OTHERS.values()) for name in names.split()
    }
    asked = private_attributes()
    assert {name: asked[name] for name in asked.keys() - listed} == {}
    assert listed - asked.keys() == set()


def test_those_of_dask_are_asked_for_in_one_module():
    asking = {m for m, source in SOURCES.items() if "._meta" in source or '"_meta"' in source}
    assert asking == {"gpuml_dask._dask"}


def test_scikit_learn_has_the_private_attributes():
    # Those that instances are given are in the text of the module of a class in its order of bases.
    gone = []
    for path, names in OF_SCIKIT_LEARN.items():
        module, _, kind = path.rpartition(".")
        found = getattr(importlib.import_module(module), kind)
        bases = {base.__module__ for base in getattr(found, "__mro__", (found,))} - {
            "builtins",
            "abc",
        }
        text = "".join(inspect.getsource(sys.modules[base]) for base in bases)
        has = {name: re.search(rf"\b{name}\b", text) for name in names.split()}
        gone += [f"{path}.{name}" for name, seen in has.items() if not seen]
    assert gone == []
