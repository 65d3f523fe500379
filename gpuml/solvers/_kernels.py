"""Element-wise CUDA kernels: one reading of the margins gives weighted slopes of the loss."""

from functools import cache
from typing import Any

from gpuml._arrays import Array
from gpuml.losses import Loss


def has_kernel(loss: Loss) -> bool:
    """Whether slopes of a loss come from one kernel; plain operations of arrays make many."""
    return loss.coupled or loss.cuda is not None


@cache
def _one_vector(name: str, slope: str) -> Any:
    """The kernel of a loss with one margin, from its slope as an expression of z and y."""
    import cupy

    return cupy.ElementwiseKernel(
        "T offset, Y target, W w",
        "T margin",
        f"const T z = margin + offset; const T y = target; margin = ({slope}) * T(w)",
        f"gpuml_{name}_slope",
    )


@cache
def _softmax() -> Any:
    import cupy

    # One thread per model and row; classes are `stride` apart.
    return cupy.ElementwiseKernel(
        "raw T offset, Y y, W w, int64 k, int64 stride, int64 n_rows",
        "raw T z",
        """
        const long long model = i / n_rows;
        const long long models = stride / n_rows;
        T top = z[i] + offset[model];
        for (long long j = 1; j < k; ++j) {
            top = max(top, z[i + j * stride] + offset[model + j * models]);
        }
        T total = 0;
        for (long long j = 0; j < k; ++j) {
            const T e = exp(z[i + j * stride] + offset[model + j * models] - top);
            z[i + j * stride] = e;
            total += e;
        }
        const T scale = T(w) / total;
        for (long long j = 0; j < k; ++j) {
            z[i + j * stride] = z[i + j * stride] * scale - (j == (long long)y ? T(w) : T(0));
        }
        """,
        "gpuml_softmax_slope",
    )


def weighted_slope(
    loss: Loss, z: Array, offset: Array, target: Array, weights: Array | None, shape: tuple
) -> Array:
    """Weight x slope of a loss that `has_kernel`, (k C S, b), in the memory of `z` where it can be.

    Parameters
    ----------
    loss : Loss
    z : CuPy array (k C S, b)
        Margins without their offsets.
    offset : array (k C S, 1)
    target : array (b,)
    weights : array (S, b) or None
    shape : (k, C, S)
    """
    import cupy

    k, n_candidates, n_splits = shape
    z = cupy.ascontiguousarray(z)
    n_rows = z.shape[-1]
    weights = cupy.ones((1, 1), dtype=cupy.uint8) if weights is None else weights
    if not loss.coupled:
        grid: Any = z.reshape(n_candidates, n_splits, n_rows)
        slope = _one_vector(loss.name, loss.cuda or "")
        slope(offset.reshape(n_candidates, n_splits, 1), target, weights, grid)
        return z
    stride = n_candidates * n_splits * n_rows
    y, w = (cupy.broadcast_to(a, (n_candidates, n_splits, n_rows)) for a in (target, weights))
    _softmax()(offset, y, w, k, stride, n_rows, z)
    return z
