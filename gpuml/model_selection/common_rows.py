"""Training and held-out rows of a fold as one batch, so that models are scored where they are."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpuml._arrays import is_array, namespace
from gpuml._sklearn import _routing_enabled
from gpuml.data import Split
from gpuml.model_selection.one_by_one import Fold, Task


@dataclass(frozen=True)
class CommonRows:
    """Rows for `multifit`; a split where the held-out ones are there too."""

    X: Any
    y: Any
    weight: Any
    split: Split | None


def common_rows(
    fold: Fold, X_train: Any, X_test: Any, fit_params: Mapping[str, Any], task: Task
) -> CommonRows:
    """Training rows, and held-out rows behind them where all scores can be had at once.

    For that both have to be arrays of one kind, have weights or not, and training rows must not be
    scored, because what `fit_transform` gives is not always what `transform` gives.

    Parameters
    ----------
    fold : Fold
        Where y and weights are taken from.
    X_train, X_test : rows
        As the models see them; `X_test` may be None.
    fit_params : mapping
        What `fit` takes besides X and y.
    task : Task
    """
    X, y = (X_train, X_test), (fold.y_train, fold.y_test)
    weights = tuple(p.get("sample_weight") for p in (fit_params, fold.test_score_params))
    weighted = [weight for weight in weights if weight is not None]
    together = (
        not task.return_train_score
        and set(fold.test_score_params) <= {"sample_weight"}
        and not (fold.test_score_params and _routing_enabled())
        and _alike(X)
        and _alike(y)
        and (not weighted or _alike(weights))
    )
    if not together:
        return CommonRows(X[0], y[0], weights[0], None)
    n = X[0].shape[0]
    split = Split(slice(0, n), slice(n, n + fold.n_test))
    return CommonRows(_joined(X), _joined(y), _joined(weights) if weighted else None, split)


def _alike(pair):
    """Whether two are arrays of one library, dtype and row shape."""
    first, second = pair
    return (
        is_array(first)
        and type(first) is type(second)
        and first.dtype == second.dtype
        and first.shape[1:] == second.shape[1:]
    )


def _joined(pair):
    return namespace(*pair).concat(pair, axis=0)
