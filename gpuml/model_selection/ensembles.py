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

# Classes of scikit-learn; a subclass may draw other numbers.
GROWING = (
    *("RandomForestClassifier", "RandomForestRegressor"),
    *("ExtraTreesClassifier", "ExtraTreesRegressor"),
    *("GradientBoostingClassifier", "GradientBoostingRegressor"),
)


def may_grow(estimator: Any) -> bool:
    """Whether an estimator is of a class whose warm start is known to change nothing."""
    # Nothing is imported for it: without the module there is no such estimator.
    ensemble, kind = sys.modules.get("sklearn.ensemble"), type(estimator)
    return kind.__name__ in GROWING and kind is getattr(ensemble, kind.__name__, None)


def growth_key(estimator: Any) -> Hashable | None:
    """Equal for estimators that differ in `n_estimators` alone; None for those that can't grow.

    An estimator grows if it is of the classes above, `random_state` is an integer (generators
    would be read on), `warm_start` is False, and nothing is asked for that looks at the ensemble
    as a whole: scores of rows out of the bag, class weights by name (a warm start warns of them),
    early stopping, a start given as an estimator.
    """
    if not may_grow(estimator):
        return None
    params = estimator.get_params(deep=False)
    size = params.pop("n_estimators")
    looks_at_all = (
        params.get("oob_score", False) is not False
        or isinstance(params.get("class_weight"), str)
        or params.get("n_iter_no_change") is not None
        or not (params.get("init") is None or params.get("init") == "zero")
    )
    if not (_is_integer(size) and size >= 1 and _is_integer(params["random_state"])):
        return None
    if params["warm_start"] is not False or looks_at_all:
        return None
    return estimator_key(estimator, without=("n_estimators",))


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
    order = sorted(range(len(estimators)), key=lambda i: estimators[i].n_estimators)
    grown = clone(estimators[order[0]])
    size = 0
    for position in order:
        target = estimators[position].n_estimators
        if target > size:
            grown.set_params(n_estimators=target, warm_start=True)
            fit(grown)
            # As the user gave it, for those who look at it.
            grown.set_params(warm_start=False)
            size = target
        yield position, grown


def _is_integer(value):
    return isinstance(value, Integral) and not isinstance(value, bool)
