"""Ensembles that differ in their number of trees: the largest is grown, the others on its way.

scikit-learn's forests and gradient boosting, grown from m to n trees with ``warm_start=True``, are
the ensembles that a fit of n trees gives: the random numbers of the first m are drawn and passed
over (forests), or the generator is kept (boosting).
"""

import sys
from collections.abc import Callable, Hashable, Iterator, Sequence
from numbers import Integral
from typing import Any

from sklearn.base import clone

from gpuml.model_selection.prefix_keys import estimator_key

# The parameter that counts trees, of classes of scikit-learn; a subclass may draw other numbers.
GROWING = {
    "RandomForestClassifier": "n_estimators",
    "RandomForestRegressor": "n_estimators",
    "ExtraTreesClassifier": "n_estimators",
    "ExtraTreesRegressor": "n_estimators",
    "GradientBoostingClassifier": "n_estimators",
    "GradientBoostingRegressor": "n_estimators",
    "HistGradientBoostingClassifier": "max_iter",
    "HistGradientBoostingRegressor": "max_iter",
}


def size_param(estimator: Any) -> str | None:
    """The parameter that an estimator grows by; None where a warm start may change something."""
    # Nothing is imported for it: without the module there is no such estimator.
    ensemble, kind = sys.modules.get("sklearn.ensemble"), type(estimator)
    known = kind is getattr(ensemble, kind.__name__, None)
    return GROWING.get(kind.__name__) if known else None


def growth_key(estimator: Any) -> Hashable | None:
    """Equal for estimators that differ in `size_param` alone; None for those that can't grow.

    An estimator grows if it is of the classes above, `random_state` is an integer (generators
    would be read on), `warm_start` is False, and nothing is asked for that looks at the ensemble
    as a whole: scores of rows out of the bag, class weights by name (a warm start warns of them),
    early stopping, a start given as an estimator.
    """
    name = size_param(estimator)
    if name is None:
        return None
    params = estimator.get_params(deep=False)
    size = params.pop(name)
    if "early_stopping" in params:
        stops = params["early_stopping"] is not False  # "auto" is told by the rows alone
    else:
        stops = params.get("n_iter_no_change") is not None
    looks_at_all = (
        stops
        or params.get("oob_score", False) is not False
        or isinstance(params.get("class_weight"), str)
        or not (params.get("init") is None or params.get("init") == "zero")
    )
    if not (_is_integer(size) and size >= 1 and _is_integer(params["random_state"])):
        return None
    if params["warm_start"] is not False or looks_at_all:
        return None
    return estimator_key(estimator, without=(name,))


def grow(estimators: Sequence[Any], fit: Callable[[Any], Any]) -> Iterator[tuple[int, Any]]:
    """Fit estimators of one `growth_key`, smallest first.

    Parameters
    ----------
    estimators : sequence of estimators
    fit : callable
        Fits the estimator that it is given.

    Yields
    ------
    position : int
        Which of the estimators is done.
    fitted : estimator
        What it would be if fitted by itself. The same object every time: it goes on to grow.
    """
    name = size_param(estimators[0]) or ""
    sizes = [getattr(estimator, name) for estimator in estimators]
    order = sorted(range(len(sizes)), key=sizes.__getitem__)
    grown = clone(estimators[order[0]])
    size = 0
    for position in order:
        target = sizes[position]
        if target > size:
            grown.set_params(**{name: target}, warm_start=True)
            fit(grown)
            # As the user gave it, for those who look at it.
            grown.set_params(warm_start=False)
            size = target
        yield position, grown


def _is_integer(value):
    return isinstance(value, Integral) and not isinstance(value, bool)
