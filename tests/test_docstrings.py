"""Docstrings of everything public: numpydoc's checks, and shapes, errors and examples."""

import importlib
import inspect
import re

import pytest

from gpuml import model_selection
from gpuml.linear_model import Ridge

validate = pytest.importorskip("numpydoc.validate")

# Where users import from: the table in docs/index.md. What other modules offer is for those who
# extend the library; docs/extending.md is their guide, with the code.
MODULES = (
    *("gpuml", "gpuml.cluster", "gpuml.compose", "gpuml.covariance", "gpuml.datasets"),
    "gpuml.cross_decomposition",
    *("gpuml.decomposition", "gpuml.discriminant_analysis"),
    *("gpuml.encodings", "gpuml.ensemble", "gpuml.exceptions"),
    "gpuml.feature_selection",
    *("gpuml.feature_extraction.text", "gpuml.impute", "gpuml.inspection"),
    *("gpuml.gaussian_process", "gpuml.kernel_approximation", "gpuml.kernel_ridge"),
    "gpuml.mixture",
    *("gpuml.linalg", "gpuml.linear_model", "gpuml.manifold", "gpuml.metrics"),
    *("gpuml.model_selection", "gpuml.naive_bayes", "gpuml.neighbors", "gpuml.pipeline"),
    *("gpuml.preprocessing", "gpuml.random_projection", "gpuml.svm", "gpuml.testing"),
    *("gpuml_dask", "gpuml_dask.clustering", "gpuml_dask.decomposition", "gpuml_dask.mixture"),
    *("gpuml_dask.discriminant_analysis", "gpuml_dask.errors", "gpuml_dask.impute"),
    "gpuml_dask.io",
    *("gpuml_dask.linalg", "gpuml_dask.linear_model", "gpuml_dask.model_selection"),
    *("gpuml_dask.naive_bayes", "gpuml_dask.predict", "gpuml_dask.preprocessing"),
    "gpuml_dask.settings",
    "gpuml_dask.svm",
)

# numpydoc's checks by their codes. Those left out are of style, which ruff looks at, or ask of
# everything what helps in some places only: a See Also, an extended summary.
OF_METHODS = {
    "GL08": "there is no docstring",
    "PR02": "a parameter is described that is not there",
    "PR10": "a parameter and its type run together",
    "SS06": "the summary has several lines",
    "SA04": "something under See Also is not described",
}
# Methods need not say these: most are scikit-learn's, and say in a line where they differ.
OF_OBJECTS = {
    **OF_METHODS,
    "PR01": "a parameter is missing",
    "RT01": "what comes back is missing",
    "YD01": "what is yielded is missing",
    "EX01": "there is no example",
}

RESULT = "users are given these and make none: attributes are described, their own page has both"
THEIRS = "scikit-learn's class, made by its from_* methods; the data it holds is described there"
# Which checks do not hold of an object, and why.
EXCEPTIONS = {
    "gpuml.set_config": (("PR01", "PR02"), "takes **settings, and describes each by name"),
    "gpuml.encodings.BedFile": (("EX01",), "open_bed makes it, and has the example"),
    "gpuml.ensemble.EnsembleSelection": (("PR01", "EX01"), RESULT),
    "gpuml.feature_selection.BestSubsets": (("PR01", "EX01"), RESULT),
    "gpuml.inspection.Summary": (("PR01", "EX01"), RESULT),
    "gpuml.linalg.SVD": (("PR01", "EX01"), RESULT),
    "gpuml.linalg.ErrorEstimate": (("PR01", "EX01"), RESULT),
    "gpuml.model_selection.Plan": (("PR01", "EX01"), RESULT),
    "gpuml.model_selection.Explanation": (("PR01", "EX01"), RESULT),
    "gpuml.testing.ArrayLibrary": (("PR01", "EX01"), RESULT),
    "gpuml.testing.TransferCounter": (("PR01", "EX01"), RESULT),
    "gpuml.model_selection.LearningCurveDisplay": (("PR01",), THEIRS),
    "gpuml.model_selection.ValidationCurveDisplay": (("PR01",), THEIRS),
    **{
        f"gpuml.inspection.{name}": (("PR01",), THEIRS)
        for name in (
            *("ConfusionMatrixDisplay", "DetCurveDisplay", "PrecisionRecallDisplay"),
            *("CalibrationDisplay", "PredictionErrorDisplay", "RocCurveDisplay"),
        )
    },
}
# Functions that nothing can be wrong with.
WITHOUT_ERRORS = {
    *("gpuml.doctor", "gpuml.get_config", "gpuml.show_versions", "gpuml.trusted_types"),
    *("gpuml.metrics.get_scorer_names", "gpuml.testing.array_libraries"),
    *("gpuml.testing.estimators",),
    # What they make complains when it is fitted.
    *("gpuml.compose.make_column_transformer", "gpuml.pipeline.make_union"),
}
# Arrays whose shape says nothing.
WITHOUT_SHAPE = {
    ("gpuml.cluster.AgglomerativeClustering", "connectivity"),  # of several kinds, one a function
    ("gpuml_dask.HyperbandSearchCV", "predict_meta"),  # ignored
    ("gpuml_dask.HyperbandSearchCV", "predict_proba_meta"),
    ("gpuml_dask.HyperbandSearchCV", "transform_meta"),
}


def public_objects():
    """Every class and function that users import from those modules, once, by its name there."""
    found = {}
    for module_name in MODULES:
        module = importlib.import_module(module_name)
        own = [n for n, x in vars(module).items() if getattr(x, "__module__", "") == module_name]
        for name in getattr(module, "__all__", own):
            thing = getattr(module, name)
            is_ours = (getattr(thing, "__module__", None) or "").split(".")[0] in (
                "gpuml",
                "gpuml_dask",
            )
            is_shown = not name.startswith("_") and (
                inspect.isclass(thing) or inspect.isfunction(thing)
            )
            if is_ours and is_shown:
                found.setdefault(thing, f"{module_name}.{name}")
    return {name: thing for thing, name in found.items()}


OBJECTS = public_objects()
CLASSES = {name: thing for name, thing in OBJECTS.items() if inspect.isclass(thing)}
FUNCTIONS = {name: thing for name, thing in OBJECTS.items() if name not in CLASSES}


def complaints(name, checks):
    """What numpydoc finds, of what is checked, in words."""
    found = validate.validate(name)["errors"]
    return [f"{name}: {checks[code]}: {text}" for code, text in found if code in checks]


def checks_of(name, thing):
    exempt = EXCEPTIONS.get(name, ((), ""))[0]
    if inspect.isclass(thing) and issubclass(thing, Exception):
        exempt = ("EX01", "PR01")  # they are raised, not made, by users
    return {code: words for code, words in OF_OBJECTS.items() if code not in exempt}


@pytest.mark.parametrize("name", OBJECTS)
def test_objects(name):
    assert complaints(name, checks_of(name, OBJECTS[name])) == []


@pytest.mark.parametrize("name", CLASSES)
def test_methods(name):
    own = [
        key
        for key, value in vars(CLASSES[name]).items()
        if not key.startswith("_")
        and (inspect.isfunction(value) or isinstance(value, classmethod | staticmethod))
    ]
    assert [text for key in own for text in complaints(f"{name}.{key}", OF_METHODS)] == []


@pytest.mark.parametrize("name", OBJECTS)
def test_arrays_have_shapes(name):
    doc = validate.Validator(validate.get_doc_object(OBJECTS[name]))
    types = {key: kind for key, (kind, _) in doc.doc_all_parameters.items()}
    arrays = {key for key, kind in types.items() if re.match(r"array|matrix|sparse", kind)}
    without = {key for key in arrays if "shape" not in types[key]}
    assert {key for key in without if (name, key) not in WITHOUT_SHAPE} == set()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_name_their_errors(name):
    has_errors = (
        "Raises" in validate.Validator(validate.get_doc_object(FUNCTIONS[name])).section_titles
    )
    assert has_errors != (name in WITHOUT_ERRORS)


def test_exceptions_are_of_what_is_there_and_needed():
    assert set(EXCEPTIONS) | WITHOUT_ERRORS <= set(OBJECTS)
    for name, (codes, _) in EXCEPTIONS.items():
        found = {code for code, _ in validate.validate(name)["errors"]}
        assert set(codes) <= found, name


DRAWS = {
    "GridSearchCV": {},
    "RandomizedSearchCV": {"n_iter": 2},
    "HalvingGridSearchCV": {},
    "HalvingRandomSearchCV": {"n_candidates": 2},
}


@pytest.mark.parametrize("name", DRAWS)
def test_searches_list_what_they_find(rng, name):
    kind, X = getattr(model_selection, name), rng.random((60, 2))
    found = dir(kind(Ridge(), {"alpha": [1.0, 2.0]}, **DRAWS[name]).fit(X, X[:, 0]))
    listed = re.findall(r"\w+_\b", kind.__doc__.partition("Attributes\n")[2])
    assert {n for n in found if n.endswith("_") and not n.startswith("_")} <= set(listed)
