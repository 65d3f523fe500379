"""Decompositions of rows that are divided over the workers of a cluster."""

import warnings
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Self
from uuid import uuid4

import numpy as np
from sklearn.utils import gen_batches

from gpuml import config_context, get_config
from gpuml import decomposition as one_device
from gpuml.divided import HOST, moved
from gpuml.model_selection.warned import recorded, tell
from gpuml_dask.client import the_client
from gpuml_dask.fitting import TRANSFORMED, OnWorkers, bare, check_names, documented
from gpuml_dask.rows.lazy import client_of, lives_on_workers
from gpuml_dask.rows.placement import Table, place
from gpuml_dask.rows.unread import Chunk
from gpuml_dask.sums.columns import fitted_attributes
from gpuml_dask.sums.divided import fetch, repeated

FROM_MOMENTS = (
    "one pass sums second moments over all chunks, and the components are their eigenvectors (for "
    "solvers that need the rows themselves, the rows are gathered on one worker)"
)
IN_ORDER = (
    "one task per chunk, one after the other, updates the components with batches of `batch_size` "
    "rows, the same batches as on one device (if a collection is larger than the workers' memory, "
    "the last batch of each chunk may be smaller). `partial_fit` takes each chunk as one batch"
)


@documented(FROM_MOMENTS, TRANSFORMED.format("PCA(2)", 2))
class PCA(OnWorkers, one_device.PCA):
    """Principal component analysis, of rows here or on workers."""


@documented(FROM_MOMENTS, TRANSFORMED.format("TruncatedSVD(2)", 2))
class TruncatedSVD(OnWorkers, one_device.TruncatedSVD):
    """Truncated singular value decomposition, without centring, of rows here or on workers."""


@documented(IN_ORDER, TRANSFORMED.format("IncrementalPCA(2)", 2))
class IncrementalPCA(OnWorkers, one_device.IncrementalPCA):
    """Principal component analysis batch by batch, of rows here or on workers."""

    def partial_fit(self, X, y=None, check_input=True) -> Self:
        """Update the components with more rows; each chunk on a worker is one batch.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), here or on workers
        y : ignored
        check_input : bool, default=True
            Whether to check X.

        Returns
        -------
        self : IncrementalPCA
        """
        if not lives_on_workers(X):
            return super().partial_fit(X, y, check_input)
        self._validate_params()
        model = bare(self)
        model.__dict__.update(self.__dict__)
        return self._updated(X, model, None)

    def _fit_on_workers(self, X, y=None, sample_weight=None):
        self._validate_params()
        return self._updated(X, bare(self), self.n_components or 0)

    def _updated(self, X, model, least):
        """Update a model chunk after chunk, in batches of `least` rows or more, and become it."""
        with the_client(client_of(X)) as client, place(X, client=client, memory="auto") as table:
            names = _names(table.columns_names, vars(model).pop("feature_names_in_", None))
            batch = None
            if least is not None:
                batch = 5 * table.shape[1] if self.batch_size is None else self.batch_size
                model.batch_size_ = batch
            fitted, found = repeated(table, _in_order, table, model, batch, least or 0)
        tell(found, set())
        return self._become(fitted if names is None else {**fitted, "feature_names_in_": names})


def _names(given: Sequence[Any] | None, before: np.ndarray | None) -> np.ndarray | None:
    """Feature names of chunks that are arrays: the given ones, or those of earlier rows."""
    check_names(given)
    if given is None or not all(isinstance(name, str) for name in given):
        return before
    if before is not None and list(given) != list(before):
        raise ValueError(
            "The feature names should match those that were passed during fit: got "
            f"{list(given)}, and {list(before)} before."
        )
    return np.asarray(given, dtype=object)


def _in_order(table: Table, model: Any, batch: int | None, least: int):
    """Fitted attributes of a model that chunks have updated, one after the other, and warnings."""
    # Chunks that are computed by those who need them are not cut.
    bounds = _bounds(table.sizes, batch if table.X.rows.unread is None else None, least)
    word, filters = uuid4().hex, list(warnings.filters)
    state: Any = (model, [])
    for i, (rows, *_) in enumerate(table.pieces(bounds)):
        key = (f"update-{type(model).__name__}-{word}", i)
        options = batch, least, get_config(), filters
        state = table.X.rows.submit(_update, state, rows, *options, key=key)
    ((model, found),) = fetch(table.client, [state])
    return fitted_attributes(model), found


def _bounds(sizes: Sequence[int], batch: int | None, least: int) -> list[tuple[int, int]]:
    """Bounds of chunks, moved to ends of batches; no part has fewer than `least` rows."""
    ends, n = np.cumsum(sizes)[:-1], int(np.sum(sizes))
    inner = ends if batch is None else np.unique(ends // batch * batch)
    return list(pairwise([0, *(int(end) for end in inner if 0 < end <= n - least), n]))


def _update(state, rows, batch, least, settings: Mapping[str, Any], filters):
    """Update a copy of the model with more rows, in batches or all at once."""
    (last, before), rows = state, rows.rows() if isinstance(rows, Chunk) else rows
    model = bare(last)
    model.__dict__.update(vars(last))
    n, dense = rows.shape[0], batch is not None and hasattr(rows, "toarray")  # as on one device
    size = max(1, n if batch is None else batch)
    with config_context(**settings), recorded(filters) as found:
        for some in gen_batches(n, size, min_batch_size=least):
            model.partial_fit(rows[some, ...].toarray() if dense else rows[some, ...])
    model.__dict__.update(moved(vars(model), HOST))
    return model, [*before, *found]
