"""Shared parts of estimators that fit one model per column of a target."""

from collections.abc import Callable
from typing import Any

import numpy as np

from gpuml._arrays import as_array, is_foreign
from gpuml._inputs.validation import unchanged_on_error
from gpuml._sklearn import _ConstantPredictor, _fit_context
from gpuml.model_selection.numbered import Numbered, ask_parts, numbers_of
from gpuml.model_selection.parts import (
    Later,
    fitted_later,
    host_target,
    host_value,
    run_around,
    taken_apart,
)


def answers(method: str) -> Callable[[Any], bool]:
    """Whether the models inside an estimator have a method; for `available_if`."""

    def check(around):
        for each in getattr(around, "estimators_", [around.estimator]):
            getattr(each, method)  # raises the error if not
        return True

    return check


class _Constant(Numbered):
    """A predictor of scikit-learn that asks of rows only how many there are, and how wide."""

    def rows(self, numbers: Any) -> np.ndarray:
        """Rows in CPU memory that nobody looks at."""
        return np.broadcast_to(0.0, (len(numbers), self.X.shape[1]))


class ByColumn:
    """Fit the models of all target columns together, by scikit-learn's own `fit`.

    Rows on a device stay there. A subclass has scikit-learn's class behind it.
    """

    # scikit-learn's class
    _theirs: Any
    estimator: Any
    estimators_: Any
    n_jobs: int | None

    @_fit_context(prefer_skip_nested_validation=False)
    def _fit_columns(self, X: Any, y: Any, *args: Any, **params: Any) -> Any:
        X = taken_apart(X)
        given = [host_target(y), *map(host_value, args)]
        changes = {"estimator": Later(self.estimator), "n_jobs": 1}
        # scikit-learn's constant for a column of one label reads the rows that it is given.
        rows = numbers_of(X) if is_foreign(X) else X
        with unchanged_on_error(self):
            run_around(self, self._theirs.fit, changes, rows, *given, **params)
            for each in self.estimators_ if is_foreign(X) else ():
                if isinstance(each, Later):
                    each.X = X
                else:
                    each.n_features_in_ = X.shape[1]
            self.estimators_, self.plan_ = fitted_later(self.estimators_, self.n_jobs)
        first = self.estimators_[0]
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(first, name):  # a property, where models are pipelines
                setattr(self, name, getattr(first, name))
        return self

    def _asked(self, method: str, X: Any) -> Any:
        """The result of scikit-learn's method, computed from the predictions of the models."""
        X = as_array(X)
        if not is_foreign(X):
            return getattr(self._theirs, method).__get__(self)(X)
        parts = [
            (_Constant if isinstance(each, _ConstantPredictor) else Numbered)(each, X)
            for each in getattr(self, "estimators_", [])
        ]
        known = {"estimators_": parts} if parts else {}
        return ask_parts(self, method, X, known)
