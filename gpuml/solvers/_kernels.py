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


# Classes up to which a thread keeps the margins of a row in its registers.
MOST_IN_REGISTERS = 32
# One thread per model and row; classes are `stride` apart. Margins are read once and written once.
_FEW_CLASSES = """
    T e[{k}];
    #pragma unroll
    for (int j = 0; j < {k}; ++j) {{
        e[j] = z[i + j * stride] + offset[model + j * models];
    }}
    T top = e[0];
    #pragma unroll
    for (int j = 1; j < {k}; ++j) {{
        top = max(top, e[j]);
    }}
    T total = 0;
    #pragma unroll
    for (int j = 0; j < {k}; ++j) {{
        e[j] = exp(e[j] - top);
        total += e[j];
    }}
    const T scale = T(w) / total;
    #pragma unroll
    for (int j = 0; j < {k}; ++j) {{
        z[i + j * stride] = e[j] * scale - (j == (int)y ? T(w) : T(0));
    }}
"""
# Margins are read twice: an exponential more costs less than to write it down and to read it again.
_MANY_CLASSES = """
    T top = z[i] + offset[model];
    T total = 1;
    for (long long j = 1; j < k; ++j) {
        const T v = z[i + j * stride] + offset[model + j * models];
        total = v > top ? total * exp(top - v) + T(1) : total + exp(v - top);
        top = max(top, v);
    }
    const T scale = T(w) / total;
    for (long long j = 0; j < k; ++j) {
        const T v = z[i + j * stride] + offset[model + j * models];
        z[i + j * stride] = exp(v - top) * scale - (j == (long long)y ? T(w) : T(0));
    }
"""


@cache
def _softmax(k: int | None) -> Any:
    """The kernel of k classes; None for any number."""
    import cupy

    body = _MANY_CLASSES if k is None else _FEW_CLASSES.format(k=k)
    return cupy.ElementwiseKernel(
        "raw T offset, Y y, W w, int64 k, int64 stride, int64 n_rows",
        "raw T z",
        f"const long long model = i / n_rows, models = stride / n_rows; {body}",
        "gpuml_softmax_slope" if k is None else f"gpuml_softmax_slope_{k}",
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
    _softmax(k if k <= MOST_IN_REGISTERS else None)(offset, y, w, k, stride, n_rows, z)
    return z
