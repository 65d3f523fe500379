"""Whether an estimator is fitted at once, and if not why, in words for the user."""

import re
from collections.abc import Mapping
from importlib import import_module
from numbers import Integral
from typing import Any

from sklearn.base import BaseEstimator

from gpuml.extending import AffineStep, Extension, MultifitEstimator
from gpuml.protocol import METHOD, overridden, supports_multifit

# What a subclass may do in its own way; then it is not what its parent fits at once.
FITS_AND_PREDICTIONS = (
    *("fit", "predict", "decision_function", "predict_proba", "predict_log_proba"),
    *("fit_transform", "transform", "partial_fit"),
)
# The members that a class must define, and name prefixes that show its intention.
NEEDED = {MultifitEstimator: ("multifit", "multifit_batch"), AffineStep: ("multi_affine",)}
MEANT = {MultifitEstimator: "multifit", AffineStep: "multi_affine"}
# Packages whose classes are known to be consistent. The methods that classes of gpuml_dask define
# are those of gpuml's classes, and take rows on workers too.
OURS = ("gpuml", "gpuml_dask")
KNOWN = (*OURS, "sklearn")
SCORE = "multifit_score"  # which any estimator may have
PAGE = "see the page on extending gpuml"
# Models that gpuml's class fits together and scikit-learn's class of that name does not.
MODELS = dict.fromkeys(
    (
        *(
            "ARDRegression",
            "BayesianRidge",
            "ElasticNet",
            "GammaRegressor",
            "HuberRegressor",
            "Lars",
            "Lasso",
            "LassoLars",
            "LassoLarsIC",
            "LinearRegression",
        ),
        *("LogisticRegression", "MultiTaskElasticNet", "MultiTaskLasso"),
        *("OrthogonalMatchingPursuit", "PoissonRegressor", "QuantileRegressor", "Ridge"),
        *("RidgeClassifier", "TweedieRegressor"),
    ),
    "gpuml.linear_model",
)
MODELS |= dict.fromkeys(
    ("LinearDiscriminantAnalysis", "QuadraticDiscriminantAnalysis"), "gpuml.discriminant_analysis"
)
MODELS |= dict.fromkeys(
    ("EmpiricalCovariance", "LedoitWolf", "OAS", "ShrunkCovariance"), "gpuml.covariance"
)
MODELS |= dict.fromkeys(("CCA", "PLSCanonical", "PLSRegression"), "gpuml.cross_decomposition")
MODELS |= dict.fromkeys(("LinearSVC", "LinearSVR"), "gpuml.svm")
MODELS["FactorAnalysis"] = "gpuml.decomposition"
MODELS["KMeans"] = "gpuml.cluster"
# Those of them that join no affine steps.
OF_ROWS = dict.fromkeys(
    ("BernoulliNB", "CategoricalNB", "ComplementNB", "GaussianNB", "MultinomialNB"),
    "gpuml.naive_bayes",
)
OF_ROWS["BisectingKMeans"] = "gpuml.cluster"
OF_ROWS |= {"GaussianMixture": "gpuml.mixture", "KernelRidge": "gpuml.kernel_ridge"}
OF_ROWS |= dict.fromkeys(
    ("GaussianProcessClassifier", "GaussianProcessRegressor"), "gpuml.gaussian_process"
)
STEPS = {
    **dict.fromkeys(("MaxAbsScaler", "MinMaxScaler", "StandardScaler"), "gpuml.preprocessing"),
    **dict.fromkeys(("PCA", "TruncatedSVD"), "gpuml.decomposition"),
}
# Those that scale or select features, by what is no sum over the rows.
FROM_ROWS = (
    *("GenericUnivariateSelect", "RobustScaler", "SelectFdr", "SelectFpr", "SelectFwe"),
    *("SelectKBest", "SelectPercentile", "VarianceThreshold"),
)
# Those whose candidates are answered by one query of each fold.
NEIGHBOURS = (
    *("KNeighborsClassifier", "KNeighborsRegressor", "LocalOutlierFactor"),
    *("RadiusNeighborsClassifier", "RadiusNeighborsRegressor"),
)
# Those that give the same of the same rows, in `fit_transform` and `transform`: of others that is
# so where `fit_transform` is scikit-learn's, and there is no `random_state`.
MADE = ("KBinsDiscretizer", "MissingIndicator", "PowerTransformer", "QuantileTransformer")
# Those that make something else of the rows they are fitted to than of the same rows later: models
# are fitted to other columns than training parts are scored with.
CROSS_FITTED = ("TargetEncoder",)
# Those that make of each row another one, whatever the other rows are.
BY_ROW = dict.fromkeys(("Normalizer", "PolynomialFeatures"), "gpuml.preprocessing")
BY_ROW |= dict.fromkeys(
    ("AdditiveChi2Sampler", "PolynomialCountSketch", "RBFSampler", "SkewedChi2Sampler"),
    "gpuml.kernel_approximation",
)
# Those of them whose output is dense, of sparse rows too.
DENSE_BY_ROW = ("PolynomialCountSketch", "RBFSampler")
# Those that read tables. scikit-learn's own do as well, and so do the steps inside.
TABLES = {"ColumnTransformer": "gpuml.compose"}
LONGEST_NAME = 60


def obstacle(estimator: Any, base: type[Extension], method: str) -> str | None:
    """The reason why a method of a base class does not fit an estimator; None if it does.

    A user's subclass with a `fit` or `predict` of its own inherits `multifit`, which knows nothing
    of it.

    Raises
    ------
    TypeError
        For a class that derives from the base class and lacks what it has to define.
    """
    kind = type(estimator)
    if not isinstance(estimator, base):
        return meant(estimator) or _not_one(estimator, base)
    for name in NEEDED[base]:
        if getattr(kind, name) is getattr(base, name):
            raise TypeError(
                f"{kind.__name__} derives from gpuml.extending.{base.__name__} and defines no "
                f"{name}. Define it ({PAGE}), or derive from scikit-learn's classes alone."
            )
    for each, name in overridden(kind, method, FITS_AND_PREDICTIONS):
        if each.__module__.partition(".")[0] not in OURS:
            return (
                f"{each.__name__} has its own {name}, which the inherited {method} does not "
                f"use; define {method} too ({PAGE})"
            )
    return None


def meant(estimator: Any) -> str | None:
    """The missing base class of a class that has its members, in words, if any."""
    kind = type(estimator)
    if is_known(estimator):
        return None
    for base, method in MEANT.items():
        found = sorted(name for name in dir(kind) if name.startswith(method) and name != SCORE)
        if found and not isinstance(estimator, base):
            return (
                f"{kind.__name__} has {', '.join(found)} and does not derive from "
                f"gpuml.extending.{base.__name__}; derive it from that ({PAGE})"
            )
    return None


def _not_one(estimator, base):
    """Why something is not fitted at once that does not derive from a base class."""
    kind = type(estimator)
    table = {**MODELS, **OF_ROWS} if base is MultifitEstimator else STEPS
    module = table.get(kind.__name__)
    if module is not None and kind.__module__.partition(".")[0] == "sklearn":
        return f"{kind.__name__} is scikit-learn's; write from {module} import {kind.__name__}"
    named = _named(estimator)
    if table is STEPS:
        why = own_map_words(estimator)
        if why is not None:
            return why
        return f"{named} is not one of gpuml's linear steps ({_listed(STEPS)})"
    if kind.__name__ in NEIGHBOURS and is_known(estimator):
        return f"{kind.__name__} searches for neighbours in each training set"
    if supports_multifit(estimator):
        return f"{METHOD} of {named} is called for one fold at a time"
    return f"models of {named} do not share passes over the rows, as gpuml's linear models do"


def own_map_words(step: Any) -> str | None:
    """Why a step that a seed could make one map of all rows is another one in each split."""
    name = type(step).__name__
    if not is_known(step):
        return None
    if name == "Nystroem":
        return "Nystroem draws its components from the rows of each training set"
    if name not in BY_ROW:
        return None
    if not isinstance(getattr(step, "random_state", 0), Integral):
        return f"{name} draws again for each training set; set random_state to an int"
    if getattr(step, "gamma", None) == "scale":
        return f"{name} takes gamma='scale' from each training set; set gamma to a number"
    return None


def is_known(estimator: Any) -> bool:
    """Whether a class is from a package whose classes are consistent."""
    return type(estimator).__module__.partition(".")[0] in KNOWN


def _named(estimator):
    """An estimator with the parameters that are not as usual, in few words."""
    text = estimator if isinstance(estimator, str) else " ".join(repr(estimator).split())
    return text if len(text) <= LONGEST_NAME else type(estimator).__name__


def _listed(names):
    *first, last = names
    return f"{', '.join(first)} and {last}"


def ours_of(step: Any, table: Mapping[str, str]) -> Any:
    """The class of gpuml that a table has for a step of scikit-learn; else the step itself."""
    kind = type(step)
    module = table.get(kind.__name__)
    if module is None or kind.__module__.partition(".")[0] != "sklearn":
        return step
    return class_of(kind.__name__, table)(**step.get_params(deep=False))


def class_of(name: str, table: Mapping[str, str]) -> Any:
    """The class of gpuml that a table has of a name."""
    return getattr(import_module(table[name]), name)


def model_words(estimator: Any) -> str | None:
    """The reason why several models of a kind are not fitted together; None if they are."""
    return obstacle(estimator, MultifitEstimator, "multifit")


def step_words(step: Any) -> str | None:
    """The reason why a step does not join the pass of the model after it; None if it does."""
    return obstacle(step, AffineStep, "multi_affine")


def data_obstacle(estimator: MultifitEstimator, X: Any) -> str | None:
    """The reason why these parameters and this data cannot be fitted together; None if they can."""
    why = estimator.multifit_obstacle(X)
    asks_more = type(estimator).multifit_ready is not MultifitEstimator.multifit_ready
    if why is None and asks_more and not estimator.multifit_ready(X):
        why = "what multifit_ready returns"
    if why is None or not isinstance(estimator, BaseEstimator):
        return why  # of a pipeline or a step, which says it in full
    return obstacle_words(type(estimator).__name__, why, "cannot be batched")


def obstacle_words(name: str, why: str, cannot: str) -> str:
    """What cannot be done, why, and what to change: as `why` says, or the parameters it names."""
    if "; " in why:
        return f"{name} {cannot}: {why}"
    names = re.findall(r"(\w+)=", why)
    advice = f"; leave {' and '.join(names)} at the default" if names else ""
    return f"{name} with {why} {cannot}{advice}"


def offers_multifit(estimator: Any) -> bool:
    """Whether `multifit` fits what an estimator's `fit` fits."""
    # No text is needed for other estimators, and making it takes as long as a small fit.
    return isinstance(estimator, MultifitEstimator) and model_words(estimator) is None


def offers_affine(step: Any) -> bool:
    """Whether `multi_affine` fits what a step's `fit` fits."""
    return isinstance(step, AffineStep) and step_words(step) is None
