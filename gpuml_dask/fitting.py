"""What the estimators of this package share: fits to rows on workers, and what follows on them.

An estimator here is gpuml's class of the same name. Given data in this process it does what that
does. Given rows on a cluster it fits them where they are; its fitted attributes are the same, as
NumPy arrays, so that it is cloned, pickled and used like any other.
"""

import warnings
from collections.abc import Mapping
from typing import Any

import dask
import numpy as np
from distributed import Client, Future
from sklearn.base import clone
from sklearn.utils import get_tags

from gpuml import config_context, get_config
from gpuml.data import NeedsAllRows
from gpuml.divided import HOST, DividedRows, moved
from gpuml.model_selection.divided import fit_divided
from gpuml_dask import predict as blockwise
from gpuml_dask.cluster import the_client
from gpuml_dask.rows.placement import Placed, Table, place
from gpuml_dask.searching.warned import recorded, tell
from gpuml_dask.sums.divided import fetch, repeated, run_divided


def lives_on_workers(x: Any) -> bool:
    """Whether rows are on a cluster, or are going to be: collections, futures, placed arrays.

    >>> import dask.array as da
    >>> lives_on_workers(da.ones((4, 2))), lives_on_workers([[1.0, 2.0]])
    (True, False)
    """
    if isinstance(x, list | tuple) and len(x):
        return isinstance(x[0], Future) or dask.is_dask_collection(x[0])
    return isinstance(x, Future | Placed) or dask.is_dask_collection(x)


def client_of(*arrays: Any) -> Client | None:
    """The client that has some of the arrays already; None for whichever is the current one."""
    for x in arrays:
        if isinstance(x, Placed):
            return x.rows.client
        first = x[0] if isinstance(x, list | tuple) and len(x) else x
        if isinstance(first, Future) and first.client is not None:
            return first.client
    return None


class FitsOnWorkers:
    """`fit` of rows on a cluster; a mixin before one of gpuml's classes."""

    def _fit_on_workers(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Fit rows of which at least X is on workers; a failed fit leaves all as it was."""
        if hasattr(self, "_validate_params"):
            self._validate_params()
        if y is None and get_tags(self).target_tags.required:
            raise ValueError(
                f"This {type(self).__name__} estimator requires y to be passed, but the target y "
                "is None."
            )
        columns = {} if sample_weight is None else {"sample_weight": sample_weight}
        if np.ndim(sample_weight) == 0 and isinstance(sample_weight, int | float | np.number):
            columns = {}
        with (
            the_client(client_of(X, y, sample_weight)) as client,
            place(X, y, columns, client=client) as table,
        ):
            fitted = fit_table(_bare(self), table)
        vars(self).update(fitted)
        return self


def _bare(estimator):
    """The class of gpuml with the same parameters: workers need not know ours."""
    kind = next(k for k in type(estimator).__mro__ if k.__module__.startswith("gpuml."))
    return kind(**clone(estimator).get_params(deep=False))


def fit_table(estimator: Any, table: Table) -> dict[str, Any]:
    """Fitted attributes, on the host, of an estimator on the rows of a table.

    Rows stay divided where sums over them are enough; else they are gathered on one worker, and the
    fit is done there.
    """
    weight = "sample_weight" if "sample_weight" in table.names else None
    name = type(estimator).__name__
    label = f"{name} of {table.n_rows} rows"
    try:
        filters = list(warnings.filters)
        fitted, found = run_divided(
            table, _fit_rows, estimator, weight is not None, filters, label=label, weight=weight
        )
    except NeedsAllRows:
        fitted, found = repeated(table, _fit_whole, estimator, table, label)
    tell(found, set())
    return fitted


def _fit_rows(rows: DividedRows, estimator, weighted, filters):
    with recorded(filters) as found:
        fitted = fit_divided(estimator, rows, weighted=weighted)
    return moved(fitted, HOST), found


def _fit_whole(estimator, table: Table, label: str):
    """Attributes of a fit of all rows on one worker."""
    columns = [table.whole(name) for name in table.names]
    task = table.client.submit(
        _fit_one,
        estimator,
        table.names,
        get_config(),
        list(warnings.filters),
        *columns,
        key=f"fit-{label}".replace(" ", "-") + f"-{id(columns)}",
        pure=False,
    )
    return fetch(table.client, [task])[0]


def _fit_one(estimator, names, settings: Mapping, filters, *columns):
    given = dict(zip(names, columns, strict=True))
    X, y = given.pop("X"), given.pop("y", None)
    with config_context(**settings), recorded(filters) as found:
        model = estimator.fit(X, **given) if y is None else estimator.fit(X, y, **given)
    fitted = {n: v for n, v in vars(model).items() if n not in model.get_params(deep=False)}
    return moved(fitted, HOST), found


class Predicts:
    """`predict` and `score` of rows on workers, block by block; a mixin."""

    def predict(self, X):
        """Predict; of rows on workers lazily, block by block (see `gpuml_dask.predict`)."""
        return blockwise.predict(self, X) if lives_on_workers(X) else super().predict(X)

    def score(self, X, y, sample_weight=None):
        """The score of gpuml's class of this name; of rows on workers from sums of their blocks."""
        if lives_on_workers(X):
            return blockwise.score(self, X, y, sample_weight)
        return super().score(X, y, sample_weight)


class Classifies(Predicts):
    """What classifiers say of rows on workers; a mixin."""

    def decision_function(self, X):
        """Decision values; of rows on workers lazily, block by block."""
        if lives_on_workers(X):
            return blockwise.decision_function(self, X)
        return super().decision_function(X)


class Transforms:
    """`transform` of rows on workers, block by block; a mixin."""

    def transform(self, X, *args, **kwargs):
        """Transform; of rows on workers lazily, block by block (see `gpuml_dask.predict`)."""
        if lives_on_workers(X):
            return blockwise.transform(self, X)
        return super().transform(X, *args, **kwargs)

    def fit_transform(self, X, y=None, **params):
        """Fit, then transform the same rows; of rows on workers the second part is lazy."""
        if lives_on_workers(X):
            return self.fit(X, y, **params).transform(X)
        return super().fit_transform(X, y, **params)
