"""Boosted ensembles that differ in their number of rounds: the largest is fitted, others read off.

The first m rounds of an ensemble with n > m rounds are the ensemble with m rounds: rounds are made
in order, and random numbers are drawn in order. This holds for scikit-learn's gradient boosting,
XGBoost, LightGBM and CatBoost, with the exceptions in their `_why_alone` below. Early stopping
happens at the same round whatever the maximum is.
"""

import sys
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from gpuml.model_selection.candidates import GROWN
from gpuml.model_selection.cut_trees import is_forest
from gpuml.model_selection.one_fit import OneFit, is_count, is_seed, shallow
from gpuml.resampling.keys import estimator_key

# Methods that predict.
PREDICTING = ("predict", "predict_proba", "predict_log_proba", "decision_function")


@dataclass(frozen=True)
class Library:
    """How ensembles of a library are read off larger ones.

    Attributes
    ----------
    module : str
        That has the classes; it is loaded where there is an estimator of one.
    sizes : mapping of str to tuple of str
        Names of the number of rounds, of each class.
    default : int
        Rounds of a model that is told no number.
    why_alone : callable (params) -> str or None
        What in the parameters keeps a model from being read off another one.
    first : callable (fitted, n) -> estimator
        A fitted model of the first n rounds.
    options : callable (n) -> dict or None
        What tells predictions to use n rounds. None: they are read off `staged_predict` and its
        like, one round after the other.
    matrix : str
        The method that makes what a fit reads of its rows.
    threads : str
        The parameter that says how many threads a fit uses; "" where it is OpenMP's number.
    """

    module: str
    sizes: Mapping[str, tuple[str, ...]]
    default: int
    why_alone: Callable[[dict[str, Any]], str | None]
    first: Callable[[Any, int], Any]
    options: Callable[[int], dict[str, Any]] | None = None
    matrix: str = ""
    threads: str = ""


def library_of(estimator: Any) -> Library | None:
    """The library of an estimator's class; None for subclasses, which may boost differently."""
    name = type(estimator).__name__
    for library in LIBRARIES:
        module = sys.modules.get(library.module)
        if name in library.sizes and type(estimator) is getattr(module, name, None):
            return library
    return None


class OneBooster(OneFit):
    """Boosted ensembles with fewer rounds than a fitted one."""

    def __init__(self, fitted: Any, X: Any, y: Any, parts: Sequence[Any]):
        super().__init__(fitted, X, y, parts)
        self._library = _known(library_of(fitted))
        self._stages: dict[tuple[int, str], Stages] = {}

    @staticmethod
    def varying(estimator: Any) -> tuple[str, ...]:
        """The names of the number of rounds."""
        library = library_of(estimator)
        return () if library is None else library.sizes[type(estimator).__name__]

    @staticmethod
    def key(estimator: Any) -> Hashable | None:
        """A key, equal for models that differ only in their number of rounds."""
        model = estimator
        names = OneBooster.varying(model)
        if not names or OneBooster.why_alone(model) is not None or not is_count(size_of(model)):
            return None
        return estimator_key(model, without=names)

    @staticmethod
    def why_alone(model: Any) -> str | None:
        """The reason why a model cannot be read off another one, if any."""
        seed = getattr(model, "random_state", None)
        if seed is not None and not is_seed(seed):
            return "a generator as random_state draws differently for each fit; set an integer"
        return _known(library_of(model)).why_alone(model.get_params(deep=False))

    @staticmethod
    def largest(models: Sequence[Any], X: Any) -> Any:
        """The model with the most rounds."""
        return max(models, key=size_of)

    @staticmethod
    def words(names: Collection[str]) -> tuple[str, ...]:
        """Text: rounds are made once."""
        return (GROWN,)

    def order(self, model: Any) -> Any:
        """The number of rounds."""
        return size_of(model)

    def model(self, unfitted: Any) -> Any:
        """The fitted model that a fit of `unfitted` would give."""
        out = self._library.first(self.fitted, size_of(unfitted))
        return like(out, unfitted)

    def answering(self, unfitted: Any) -> Any:
        """A model with the same predictions."""
        n_rounds, options = size_of(unfitted), self._library.options
        if options is not None:
            out = shallow(self.fitted)
            for name in PREDICTING:
                if hasattr(self.fitted, name):
                    setattr(out, name, _told(getattr(self.fitted, name), options(n_rounds)))
            return out
        out = self.model(unfitted)
        for name in PREDICTING:
            if hasattr(self.fitted, f"staged_{name}") and hasattr(out, name):
                answer = partial(self._staged, name, n_rounds)
                setattr(out, name, self.known(getattr(out, name), answer))
        return out

    def _staged(self, name, n_rounds, part):
        stages = self._stages.get((part, name))
        if stages is None or stages.n_read > n_rounds:
            rounds = getattr(self.fitted, f"staged_{name}")(self.parts[part])
            stages = self._stages[part, name] = Stages(rounds)
        return stages.after(n_rounds)


class Stages:
    """Predictions after each round, read forwards only."""

    def __init__(self, rounds: Any):
        self._rounds, self.n_read = iter(rounds), 0
        self._last: Any = None

    def after(self, n_rounds: int) -> Any:
        """Predictions after some rounds, or after the last one."""
        while self.n_read < n_rounds:
            following = next(self._rounds, None)
            if following is None:
                break
            self._last, self.n_read = following, self.n_read + 1
        return self._last.copy()


def uses_threads(estimator: Any) -> bool:
    """Whether an estimator is an ensemble, whose fits use several threads well."""
    return is_forest(estimator) or library_of(estimator) is not None


def grows_trees(estimator: Any) -> bool:
    """Whether an estimator is a forest, or a pipeline that ends in one."""
    steps = getattr(estimator, "steps", None)
    return is_forest(steps[-1][1] if steps else estimator)


@contextmanager
def fit_threads(model: Any, threads: int | None) -> Iterator[None]:
    """Set the threads of an ensemble's fit inside this context; None leaves them.

    Boosters use all cores without a limit, even beside other fits; forests use one. A smaller
    number set by the user stays, and any that is set for a forest.
    """
    library = library_of(model)
    name = "n_jobs" if is_forest(model) else "" if library is None else library.threads
    if not name or threads is None:
        yield
        return
    given = model.get_params(deep=False).get(name)
    few = given is not None and (0 < given <= threads or library is None)
    model.set_params(**({} if few else {name: threads}))
    try:
        yield
    finally:
        _put_back(model, name, given)


def _put_back(model, name, given):
    if hasattr(model, "_init_params"):  # CatBoost refuses to change fitted models
        model._init_params.pop(name, None)
        model._init_params.update({} if given is None else {name: given})
    else:
        model.set_params(**{name: given})


class SharedBins:
    """XGBoost's matrices for one training set, shared by candidates with equal bins.

    XGBoost takes a matrix for each fit: quantiles of each feature, and the bin of each value. It
    depends on the rows, their targets and weights, and a few parameters.

    Attributes
    ----------
    n_shared : int
        Fits that took a matrix of another one.
    """

    def __init__(self):
        self._made: list[tuple[tuple, Mapping[str, Any], Any]] = []
        self.n_shared = 0

    @contextmanager
    def lent_to(self, model: Any) -> Iterator[None]:
        """Inside this context, a fit of the model takes its matrix from here."""
        library = library_of(model)
        if library is None or not hasattr(model, library.matrix or ""):
            yield
            return
        setattr(model, library.matrix, partial(self._matrix, model, library.matrix))
        try:
            yield
        finally:
            delattr(model, library.matrix)

    def _matrix(self, model, name, ref=None, **given):
        make = partial(getattr(type(model), name), model, ref=ref, **given)
        if ref is not None:
            return make()
        bins = tuple(getattr(model, each, None) for each in _OF_BINS)
        for known_bins, known, matrix in self._made:
            equal = bins == known_bins and known.keys() == given.keys()
            if equal and all(_is_same(known[key], given[key]) for key in given):
                self.n_shared += 1
                return matrix
        matrix = make()
        self._made.append((bins, given, matrix))
        return matrix


# The parameters on which an XGBoost matrix depends.
_OF_BINS = ("tree_method", "device", "booster", "n_jobs", "max_bin")


def _is_same(a, b):
    """Whether values are identical or equal: encoded labels are new objects in each fit."""
    if a is b:
        return True
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a.dtype == b.dtype and a.ndim == 1 and np.array_equal(a, b)
    is_plain = isinstance(a, int | float | str) and type(a) is type(b)
    return is_plain and (a == b or (a != a and b != b))  # nan marks missing values


def _known(library: Library | None) -> Library:
    assert library is not None  # `varying` was called before
    return library


def size_of(model: Any) -> int:
    """The number of rounds of a model."""
    library = _known(library_of(model))
    params = model.get_params(deep=False)
    given = (params.get(name) for name in library.sizes[type(model).__name__])
    return next((size for size in given if size is not None), library.default)


def like(fitted: Any, unfitted: Any) -> Any:
    """A fitted model with the number of rounds of an unfitted one."""
    params = unfitted.get_params(deep=False)
    size = {name: params[name] for name in OneBooster.varying(unfitted) if name in params}
    for name in ("_other_params", "_init_params"):  # LightGBM and CatBoost keep them here
        if name in vars(fitted):
            setattr(fitted, name, dict(getattr(fitted, name)))
    if "_init_params" in vars(fitted):  # CatBoost refuses to change fitted models
        fitted._init_params.update(size)
        return fitted
    return fitted.set_params(**size)


def _told(own, options):
    """A method that passes the number of rounds."""

    def method(X, **params):
        return own(X, **{**options, **params})

    method.__name__ = own.__name__  # scorers look at its name
    return method


# ---------------------------------------------------------------- scikit-learn


def _alone_in_sklearn(params):
    if not is_seed(params["random_state"]):
        return "candidates can share rounds only with an integer random_state"
    if params["warm_start"]:
        return "warm_start=True fits each candidate anew; leave warm_start at the default"
    start = params.get("init")
    if start is not None and start != "zero":
        return "init is an estimator, which is fitted again in each fit; leave init at the default"
    return None


def _first_in_sklearn(fitted, n):
    out = shallow(fitted)
    if hasattr(out, "_predictors"):
        n = min(n, len(out._predictors))
        out._predictors = out._predictors[:n]
        for name in ("train_score_", "validation_score_"):
            # One score more than rounds; none if the fit does not stop early.
            setattr(out, name, getattr(out, name)[: n + 1])
        return out
    n = min(n, out.n_estimators_)
    out.n_estimators_ = n
    out.estimators_ = out.estimators_[:n]
    for name in ("train_score_", "oob_improvement_", "oob_scores_"):
        if hasattr(out, name):
            setattr(out, name, getattr(out, name)[:n])
    if hasattr(out, "oob_scores_"):
        out.oob_score_ = out.oob_scores_[-1]
    return out


# ---------------------------------------------------------------- XGBoost, LightGBM, CatBoost


def _alone_in_xgboost(params):
    if params.get("booster") not in (None, "gbtree"):
        return f"rounds of booster={params['booster']!r} change earlier ones"
    for name in ("early_stopping_rounds", "callbacks"):
        if params.get(name) is not None:
            return f"{name} is given; leave {name} at the default"
    return None


def _first_in_xgboost(fitted, n):
    out = shallow(fitted)
    out._Booster = fitted.get_booster()[: min(n, fitted.get_booster().num_boosted_rounds())]
    return out


# Undocumented aliases of LightGBM for the number of rounds and for early stopping.
_ALIASES = (
    *("num_iterations", "num_iteration", "n_iter", "num_tree", "num_trees", "num_round"),
    *("num_rounds", "nrounds", "num_boost_round", "max_iter", "early_stopping"),
    *("early_stopping_round", "early_stopping_rounds", "n_iter_no_change"),
)


def _alone_in_lightgbm(params):
    kind = params.get("boosting_type", "gbdt")
    if kind not in ("gbdt", "goss"):
        return f"rounds of boosting_type={kind!r} change earlier ones"
    for name in _ALIASES:
        if params.get(name) is not None:
            return f"{name} is given; write n_estimators, and leave {name} out"
    return None


def _first_in_lightgbm(fitted, n):
    from lightgbm import Booster

    out = shallow(fitted)
    out._Booster = Booster(model_str=fitted.booster_.model_to_string(num_iteration=n))
    return out


def _alone_in_catboost(params):
    if params.get("learning_rate", params.get("eta")) is None:
        return "CatBoost chooses learning_rate from the number of rounds; set learning_rate"
    if params.get("task_type", "CPU") != "CPU":
        return "CatBoost on a GPU uses another algorithm for many rounds"
    for name in ("model_shrink_rate", "model_shrink_mode", "langevin", "posterior_sampling"):
        if params.get(name):
            return f"{name} changes earlier rounds; leave {name} out"
    return None


def _first_in_catboost(fitted, n):
    out = fitted.copy()
    out.shrink(ntree_end=min(n, fitted.tree_count_))
    return out


_SKLEARN = dict.fromkeys(
    ("GradientBoostingClassifier", "GradientBoostingRegressor"), ("n_estimators",)
) | dict.fromkeys(
    ("HistGradientBoostingClassifier", "HistGradientBoostingRegressor"), ("max_iter",)
)
_OF_CATBOOST = ("iterations", "n_estimators", "num_boost_round", "num_trees")
LIBRARIES = (
    Library("sklearn.ensemble", _SKLEARN, 100, _alone_in_sklearn, _first_in_sklearn),
    Library(
        "xgboost",
        dict.fromkeys(("XGBClassifier", "XGBRegressor"), ("n_estimators",)),
        100,
        _alone_in_xgboost,
        _first_in_xgboost,
        lambda n: {"iteration_range": (0, n)},
        matrix="_create_dmatrix",
        threads="n_jobs",
    ),
    Library(
        "lightgbm",
        dict.fromkeys(("LGBMClassifier", "LGBMRegressor"), ("n_estimators",)),
        100,
        _alone_in_lightgbm,
        _first_in_lightgbm,
        lambda n: {"num_iteration": n},
        threads="n_jobs",
    ),
    Library(
        "catboost",
        dict.fromkeys(("CatBoostClassifier", "CatBoostRegressor"), _OF_CATBOOST),
        1000,
        _alone_in_catboost,
        _first_in_catboost,
        lambda n: {"ntree_end": n},
        threads="thread_count",
    ),
)
