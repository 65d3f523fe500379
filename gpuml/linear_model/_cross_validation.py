"""What estimators share that choose their penalty by cross-validation."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from contextlib import contextmanager
from numbers import Real
from typing import Any, Self

import numpy as np
from sklearn.utils import check_scalar

from gpuml._arrays import as_array, is_array, is_cupyx_sparse, place_of, to_host
from gpuml._arrays.threads import threads_of_fit
from gpuml._inputs.host_rows import naming_columns
from gpuml._inputs.validation import is_foreign, unchanged_on_error
from gpuml._sklearn import _raise_for_params, _routing_enabled


class Choosing:
    """An estimator that chooses by held-out scores, where our own solver does the work."""

    def _needs_host(self, X: Any, y: Any = None) -> str | None:
        """Why scikit-learn has to do this fit, in CPU memory; None if it need not."""
        raise NotImplementedError

    def _choose(self, X: Any, y: Any, sample_weight: Any) -> dict[str, Any]:
        """The fitted attributes."""
        raise NotImplementedError

    def _fit_choosing(
        self, theirs: Callable, X: Any, y: Any, sample_weight: Any, params: Mapping
    ) -> Self:
        """Fit, or have `theirs` do it."""
        with unchanged_on_error(self), threads_of_fit(self, X, y):
            _raise_for_params(params, self, "fit")
            X = as_array(X)
            reason = "metadata routing" if _routing_enabled() else self._needs_host(X, y)
            if reason is None:
                vars(self).update(self._choose(X, y, sample_weight))
                return self
            with host_targets(self, reason, X, y, sample_weight) as (y, weight):
                weighted = {} if weight is None else {"sample_weight": weight}
                return theirs(X, y, **weighted, **params)


def undefined(candidate: int, split: int, part: str, scorer: Any) -> float:
    """The score of a model for a held-out part without weight."""
    return np.nan


def numbers_in(
    values: Any,
    name: str,
    *,
    bounds: str = "left",
    largest: float | None = None,
    name_of_one: str | None = None,
) -> np.ndarray:
    """The numbers (n,), float64 in CPU memory, of a parameter that is a number or holds several.

    Looked at one by one, since NumPy takes a list with one string for strings. `bounds` says
    whether 0, below which none may be, is allowed: "left" or "neither". A message names a number by
    its index, or by `name_of_one` where it is the only one.
    """
    if is_array(values):
        values = np.atleast_1d(to_host(values))
    several = isinstance(values, Iterable) and not isinstance(values, Set | Mapping)
    items = list(values) if several else [values]
    if not items:
        raise ValueError(f"{name} must hold at least one number, got {values!r}.")
    for index, item in enumerate(items):
        label = name_of_one if name_of_one and len(items) == 1 else f"{name}[{index}]"
        item = item.item() if isinstance(item, np.generic) else item
        check_scalar(item, label, target_type=Real, min_val=0.0, include_boundaries=bounds)
        if np.isnan(item) or (largest is not None and item > largest):
            top = "" if largest is None else f" and <= {largest:g}"
            raise ValueError(f"{label} == {item}, must be >= 0{top}.")
    return np.asarray(items, dtype=np.float64)


@contextmanager
def host_targets(
    estimator: Any, reason: str, X: Any, y: Any, sample_weight: Any
) -> Iterator[tuple[Any, Any]]:
    """`y` and `sample_weight` in CPU memory, where X must be already, for scikit-learn's fit."""
    if is_foreign(X) or is_cupyx_sparse(X):
        on_gpu = is_cupyx_sparse(X)
        place = place_of(X.data if on_gpu else X)
        what = "X.get()" if on_gpu else "NumPy arrays (cupy.asnumpy(X), X.cpu().numpy())"
        raise ValueError(
            f"{type(estimator).__name__} with {reason} runs scikit-learn's solver, which needs "
            f"data in CPU memory, and got X in {place}. Pass {what}, or use other parameters."
        )
    y, sample_weight = as_array(y), as_array(sample_weight)
    with naming_columns(estimator, X):
        y, sample_weight = (to_host(a) if is_foreign(a) else a for a in (y, sample_weight))
        yield y, sample_weight
