"""What one fit knows of the fits of several candidates.

The largest of them is fitted, and the others are read off it: fewer neighbours, fewer trees, trees
that are cut. What a search scores are models whose predictions for the rows of a fold are found
once for all candidates.
"""

from collections.abc import Callable, Collection, Hashable, Sequence
from functools import wraps
from numbers import Integral
from typing import Any


class OneFit:
    """Answers for all models that have the `key` of one that is fitted.

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
        """Equal for models that one fit answers for; None for a model that none answers for."""
        raise NotImplementedError

    @staticmethod
    def why_alone(model: Any) -> str | None:
        """Why a model has no key, in words that say what to change; None where nothing can be."""
        return None

    @staticmethod
    def refused_rows(model: Any, X: Any) -> str | None:
        """Why a model is not answered for with these training rows; None if it is."""
        return None

    @staticmethod
    def largest(models: Sequence[Any], X: Any) -> Any:
        """An unfitted model that answers for all of them."""
        raise NotImplementedError

    @staticmethod
    def words(names: Collection[str]) -> tuple[str, ...]:
        """What models that differ in some parameters have in common, for a plan."""
        raise NotImplementedError

    def refused(self, model: Any) -> str | None:
        """Why a model is not answered for after all; None if it is."""
        return None

    def order(self, model: Any) -> Any:
        """Models are asked in this order."""
        return 0

    def model(self, unfitted: Any) -> Any:
        """What an unfitted model would be if it were fitted by itself."""
        raise NotImplementedError

    def answering(self, unfitted: Any) -> Any:
        """A model that predicts what `model` does, for `parts` from what is known."""
        raise NotImplementedError

    def part(self, X: Any) -> int | None:
        """Which of `parts` rows are; None for other rows."""
        return next((i for i, rows in enumerate(self.parts) if rows is X), None)

    def known(self, own: Callable[..., Any], answer: Callable[[int], Any]) -> Callable[..., Any]:
        """A method that takes what it gives for a part from `answer`."""

        @wraps(own)  # scorers ask for it by its name
        def method(X, *args, **params):
            part = None if args or params else self.part(X)
            return own(X, *args, **params) if part is None else answer(part)

        return method


def shallow(model: Any, kind: Any = None) -> Any:
    """A copy with the same attributes. `copy` takes what pickles: models in CPU memory."""
    kind = type(model) if kind is None else kind
    out = kind.__new__(kind)
    vars(out).update(vars(model))
    return out


def of_sklearn(model: Any) -> Any:
    """A copy of a model as scikit-learn's class, which computes where the rows are."""
    mro = type(model).__mro__
    return shallow(model, next(each for each in mro if each.__module__.startswith("sklearn.")))


def is_count(value: Any) -> bool:
    """Whether a value is a positive integer."""
    return is_seed(value) and int(value) >= 1


def is_seed(value: Any) -> bool:
    """Whether a `random_state` is an integer: a fit starts anew from it."""
    return isinstance(value, Integral) and type(value) is not bool
