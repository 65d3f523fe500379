"""Rows that several holders have, as one batch with splits: the same algorithms and one sum more.

Whoever fits models asks `gpuml.data.Holders` for sums over all rows and never sees the rows. Here
shares of X, y and weights become such a batch (`divided_batch`), and splits of all rows become
splits of every piece (`divided_folds`). `InProcess` keeps the pieces in this process; tests rest on
it, and it is what a distributed one has to agree with. `small_arrays` is for whoever runs fits on a
GPU worker.
"""

from gpuml._arrays.small_arrays import small_arrays
from gpuml.divided.batch import SEEN, Share, divided_batch
from gpuml.divided.folds import divided_folds
from gpuml.divided.frames import rows_like
from gpuml.divided.holders import HOST, InProcess, Place, moved, tree
from gpuml.divided.read import Rest
from gpuml.divided.rows import DividedRows
from gpuml.divided.splits import Deal, DealtSplit, divided_splits, located_splits
from gpuml.divided.stored import StoredRows

__all__ = [
    "HOST",
    "SEEN",
    "Deal",
    "DealtSplit",
    "DividedRows",
    "InProcess",
    "Place",
    "Rest",
    "Share",
    "StoredRows",
    "divided_batch",
    "divided_folds",
    "divided_splits",
    "located_splits",
    "moved",
    "rows_like",
    "small_arrays",
    "tree",
]
