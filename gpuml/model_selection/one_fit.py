"""One fit that provides the fits of several candidates.

The largest model is fitted, and the others are read off it: fewer neighbours, fewer trees, cut
trees. The search scores models whose predictions for the rows of a fold are computed once for all
candidates.
"""

from collections.abc import Callable, Collection, Hashable, Sequence
from functools import wraps
from numbers import Integral
from typing import Any


class OneFit:
    """Answers for all models with the `key` of a fitted one.

    Parameters
    ----------
    fitted : estimator
        What `largest` gave, fitted.
    X, y : array-like
        What it was fitted to.
    parts : sequence of array-like
        Rows that models are going to be asked for. Predictions for other rows are made anew.
    """

    def __init__(self, fitted: Any, X: Any, y: Any, parts: Sequence[Any]):
        self.fitted, self.X, self.y, self.parts = fitted, X, y, parts

    @staticmethod
    def varying(estimator: Any) -> tuple[str, ...]:
        """Parameters in which models of one fit may differ; none for other estimators."""
        raise NotImplementedError

    @staticmethod
    def key(estimator: Any) -> Hashable | None:
        """A key, equal for models that one fit answers; None for other models."""
        raise NotImplementedError

    @staticmethod
    def why_alone(model: Any) -> str | None:
        """The reason why a model has no key, and what to change; None if nothing can be changed."""
        return None

    @staticmethod
    def refused_rows(model: Any, X: Any) -> str | None:
        """The reason why a model cannot be answered with these training rows, if any."""
        return None

    @staticmethod
    def largest(models: Sequence[Any], X: Any) -> Any:
        """An unfitted model that answers for all of them."""
        raise NotImplementedError

    @staticmethod
    def words(names: Collection[str]) -> tuple[str, ...]:
        """What models that differ in some parameters share, as text for a plan."""
        raise NotImplementedError

    def refused(self, model: Any) -> str | None:
        """The reason why the fitted model cannot answer for a model, if any."""
        return None

    def order(self, model: Any) -> Any:
        """A sort key: models are evaluated in this order."""
        return 0

    def model(self, unfitted: Any) -> Any:
        """The fitted model that a fit of `unfitted` would give."""
        raise NotImplementedError

    def answering(self, unfitted: Any) -> Any:
        """A model that predicts like `model`, using known predictions for `parts`."""
        raise NotImplementedError

    def part(self, X: Any) -> int | None:
        """The index of the part that X is; None for other rows."""
        return next((i for i, rows in enumerate(self.parts) if rows is X), None)

    def known(self, own: Callable[..., Any], answer: Callable[[int], Any]) -> Callable[..., Any]:
        """A method that takes its result for a part from `answer`."""

        @wraps(own)  # scorers look at its name
        def method(X, *args, **params):
            part = None if args or params else self.part(X)
            return own(X, *args, **params) if part is None else answer(part)

        return method


def shallow(model: Any, kind: Any = None) -> Any:
    """A copy with the same attributes. `copy` would pickle, with models in CPU memory."""
    kind = type(model) if kind is None else kind
    out = kind.__new__(kind)
    vars(out).update(vars(model))
    return out


def of_sklearn(model: Any) -> Any:
    """A copy as scikit-learn's class, which computes where the rows are."""
    mro = type(model).__mro__
    return shallow(model, next(each for each in mro if each.__module__.startswith("sklearn.")))


def is_count(value: Any) -> bool:
    """Whether a value is a positive integer."""
    return is_seed(value) and int(value) >= 1


def is_seed(value: Any) -> bool:
    """Whether a `random_state` is an integer, so that a fit is reproducible."""
    return isinstance(value, Integral) and type(value) is not bool
