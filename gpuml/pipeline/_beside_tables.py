"""Targets and weights beside a table, and the device for both."""

from dataclasses import replace
from typing import Any

import numpy as np

from gpuml._arrays import compute_place, device_of, fits, is_foreign, namespace
from gpuml._settings.config import config_context, current_settings
from gpuml._sklearn import _num_samples
from gpuml.data import Batch
from gpuml.extending import MultifitEstimator
from gpuml.solvers.table_rows import Table, table_batch


def batch_beside(model: MultifitEstimator, X: Any, y: Any, sample_weight: Any) -> Batch:
    """A batch of the targets and weights of a model's rows, whose features are a table's affair.

    Its `work` is where the settings want a table of this size; what it holds is with X so far.

    Raises
    ------
    MemoryError
        If the table does not fit into memory there.
    """
    xp = namespace(X) if is_foreign(X) else np
    there = {"device": device_of(X)} if is_foreign(X) else {}
    nothing = xp.zeros((_num_samples(X), 1), dtype=xp.float64, **there)
    if is_foreign(X):
        return model.multifit_batch(nothing, y, sample_weight)
    size = nothing.itemsize * X.shape[0] * X.shape[1]
    work = compute_place(nothing, size, current_settings().device)
    if not fits(size, work):
        raise MemoryError(
            f"A table of {X.shape[0]:,} rows and {X.shape[1]} columns takes {size:,} bytes, which "
            f"are not free on {work}. Use gpuml.set_config(device='cpu')."
        )
    with config_context(device="cpu"):
        return replace(model.multifit_batch(nothing, y, sample_weight), work=work)


def piece_beside(model: MultifitEstimator, X: Table, y: Any, sample_weight: Any) -> Batch:
    """A batch of some rows of a table, with the targets and weights of a model, where it is."""
    with config_context(device="cpu"):
        batch = model.multifit_piece(np.zeros((X.n_rows, 1)), y, sample_weight)
    return table_batch(batch, X, None)
