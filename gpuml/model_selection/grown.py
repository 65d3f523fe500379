"""Boosted ensembles that continue those of an earlier round of an adaptive search.

Successive halving and Hyperband need more and more boosting rounds for fewer and fewer candidates.
The rounds of each candidate are kept, and only the new ones are fitted.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from sklearn.base import clone

from gpuml.model_selection.boosters import library_of, like, size_of
from gpuml.model_selection.candidates import CONTINUED, Made
from gpuml.model_selection.one_fit import is_count
from gpuml.model_selection.residence import configured
from gpuml.resampling.keys import estimator_key

# ``fit(model, **more)`` fits a model to the rows of a fold, with more fit parameters.
Fit = Callable[..., None]


@dataclass(frozen=True)
class Way:
    """How ensembles of a library are continued.

    Attributes
    ----------
    why_anew : callable (params) -> str or None
        What in the parameters makes a larger ensemble another one than a smaller one that goes on.
    go_on : callable (before, model, fit) -> estimator
        An unfitted model, fitted by going on from a smaller ensemble, which stays as it is.
    is_seeded : bool
        Whether an ensemble keeps its generator of random numbers, and goes on with it.
    """

    why_anew: Callable[[dict[str, Any]], str | None]
    go_on: Callable[[Any, Any, Fit], Any]
    is_seeded: bool = False


class Grown:
    """Ensembles of one round of a search, which the next round continues."""

    def __init__(self):
        self._before: dict[tuple[int, Hashable], Any] = {}
        self._found: dict[tuple[int, Hashable], Any] = {}

    def before(
        self, estimator: Any, candidates: Sequence[Mapping[str, Any]], n_splits: int
    ) -> list[dict[int, Any]]:
        """For each split, by candidate, the ensemble of the previous round; None if there is none.

        Candidates that cannot be continued are missing.
        """
        keys = _keys(estimator, candidates)
        known = self._before
        return [
            {c: known.get((split, key)) for c, key in keys.items()} for split in range(n_splits)
        ]

    def keep(
        self,
        estimator: Any,
        candidates: Sequence[Mapping[str, Any]],
        table: Sequence[Sequence[dict[str, Any]]],
    ) -> None:
        """Take ensembles out of the results of candidates, split after split."""
        for c, key in _keys(estimator, candidates).items():
            for split, result in enumerate(table[c]):
                if "grown" in result:
                    self._found[split, key] = result.pop("grown")

    def turn(self) -> None:
        """End the round: release the ensembles of the previous one."""
        self._before, self._found = self._found, {}


def _keys(estimator, candidates):
    """The keys of those candidates that have one."""
    found = {}
    for c, params in enumerate(candidates):
        try:
            key = grown_key(configured(estimator, params))
        except Exception:
            continue  # its fit will raise the error
        if key is not None:
            found[c] = key
    return found


def grown_key(model: Any) -> Hashable | None:
    """A key, equal for ensembles that differ only in their rounds; None for other models.

    In one process: classes are named by identity.
    """
    library = library_of(model)
    if library is None or why_anew(model) is not None or not is_count(size_of(model)):
        return None
    key = estimator_key(model, without=library.sizes[type(model).__name__])
    # A key of another type names an object without a pickle, which may be gone by then.
    return key if isinstance(key, bytes) else None


def why_anew(model: Any) -> str | None:
    """The reason why a larger ensemble cannot continue a smaller one; None for other models."""
    library = library_of(model)
    if library is None:
        return None
    way, params = WAYS.get(library.module), model.get_params(deep=False)
    name = type(model).__name__
    if way is None:
        return (
            f"each round of the search fits {name} anew: its random draws would start again; "
            "boosters of scikit-learn, XGBoost and LightGBM are continued"
        )
    # An ensemble that does not contain smaller ones cannot continue one either, unless only a seed
    # is missing.
    why = None if way.is_seeded else library.why_alone(params)
    why = way.why_anew(params) if why is None else why
    return None if why is None else f"each round of the search fits {name} anew: {why}"


def why_rounds_anew(
    estimator: Any, params: Mapping[str, Any], *, on_cluster: bool = False
) -> str | None:
    """Why no round goes on from the one before, whatever the rounds: for a plan.

    That is so of boosters inside of other estimators, such as steps of a pipeline, and of all
    boosters on a cluster. None for candidates that do not set the number of rounds of such a one.
    """
    try:
        whole = configured(estimator, params)
        parts = {f"{name}__": part for name, part in whole.get_params().items()}
    except Exception:
        return None  # its fit will raise the error
    for prefix, part in {**({"": whole} if on_cluster else {}), **parts}.items():
        library, name = library_of(part), type(part).__name__
        if library is None or not any(prefix + size in params for size in library.sizes[name]):
            continue
        why = f"it is inside of {type(whole).__name__}; search {name} by itself to continue it"
        if on_cluster:
            why = (
                "workers keep no ensembles between rounds; the search of the same name in "
                "gpuml.model_selection, on one machine, continues them"
            )
        return why_anew(part) or f"each round of the search fits {name} anew: {why}"
    return None


def grow(model: Any, fit: Fit, before: Any | None) -> tuple[Any, Made]:
    """Fit an ensemble, as the continuation of a smaller one if there is one.

    Parameters
    ----------
    model : estimator
        Unfitted.
    fit : callable
    before : estimator or None
        Fitted, and equal but for its number of rounds; it stays as it is.

    Returns
    -------
    fitted : estimator
    made : Made
        What it has in common with the round before, or why nothing.
    """
    library = library_of(model)
    if library is None or before is None or size_of(before) >= size_of(model):
        fit(model)
        return model, Made(reason=why_anew(model) or "")
    return WAYS[library.module].go_on(before, model, fit), Made(shared=(CONTINUED,))


# ---------------------------------------------------------------- scikit-learn


def _anew_in_sklearn(params):
    if params["warm_start"]:
        return "leave warm_start at the default"
    if hasattr(params["random_state"], "randint"):
        return "a generator as random_state draws differently for each fit; set an integer"
    if params.get("n_iter_no_change") is not None and "early_stopping" not in params:
        return "n_iter_no_change needs earlier rounds, which are not kept; leave it out"
    return None


def _on_in_sklearn(before, model, fit):
    out = like(deepcopy(before), model)
    if not _has_stopped(before):
        fit(out.set_params(warm_start=True))
        out.set_params(warm_start=False)
    return out


def _has_stopped(fitted):
    """Whether an ensemble stopped early, which it would with any larger maximum."""
    if not getattr(fitted, "do_early_stopping_", False):
        return False
    if fitted.n_iter_ < fitted.max_iter:
        return True
    held_out = fitted.validation_fraction is not None
    scores = fitted.validation_score_ if held_out else fitted.train_score_
    n = fitted.n_iter_no_change
    return len(scores) > n and bool(max(scores[-n:]) <= scores[-n - 1] + fitted.tol)


# ---------------------------------------------------------------- XGBoost, LightGBM

# Draws of rows and features start again when an ensemble is continued.
_SHARES = (
    *("subsample", "colsample_bytree", "colsample_bylevel", "colsample_bynode"),
    *("bagging_fraction", "pos_bagging_fraction", "neg_bagging_fraction", "feature_fraction"),
    *("feature_fraction_bynode",),
)


def _draws(params):
    for name in _SHARES:
        if params.get(name) not in (None, 1, 1.0):
            return (
                f"{name} draws rows or features, and its draws would start again in each "
                "round; leave it out to continue ensembles"
            )
    return None


def _anew_in_xgboost(params):
    if params.get("sampling_method") not in (None, "uniform"):
        return (
            "sampling_method draws rows, and its draws would start again in each round; leave "
            "it out to continue ensembles"
        )
    return _draws(params)


def _on_in_xgboost(before, model, fit):
    return _with_more(before, model, fit, "xgb_model", before.get_booster())


def _anew_in_lightgbm(params):
    for name in ("boosting_type", "boosting", "boost"):
        if params.get(name) not in (None, "gbdt"):
            return (
                f"{name}={params[name]!r} draws rows, and its draws would start again in each "
                "round; leave it out to continue ensembles"
            )
    for name in ("data_sample_strategy", "extra_trees", "linear_tree"):
        if params.get(name):
            return f"leave {name} out"
    return _draws(params)


def _on_in_lightgbm(before, model, fit):
    return _with_more(before, model, fit, "init_model", before.booster_)


def _with_more(before, model, fit, name, booster):
    """A model with the rounds that a booster lacks; `name` is the fit parameter for the booster."""
    out = clone(model).set_params(n_estimators=size_of(model) - size_of(before))
    fit(out, **{name: booster})
    return like(out, model)


WAYS = {
    "sklearn.ensemble": Way(_anew_in_sklearn, _on_in_sklearn, is_seeded=True),
    "xgboost": Way(_anew_in_xgboost, _on_in_xgboost),
    "lightgbm": Way(_anew_in_lightgbm, _on_in_lightgbm),
}
