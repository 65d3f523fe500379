"""Models that several candidates have in common: one gradient and one Hessian serve all of them."""

from itertools import pairwise

import numpy as np

from gpuml._arrays import Array, device_of, is_numpy, namespace
from gpuml._arrays.ops import all_true
from gpuml.solvers._blocks import quiet

# Models of a sample whose margins differ by at most this share of their spread begin at one model:
# a sample is wrong by more.
NEARLY = 0.05


def are_alike(W: Array) -> bool:
    """Whether several candidates have the same models (C, S, k, q), as at the start."""
    return W.shape[0] > 1 and all_true(W[:1, ...] == W, namespace(W))


def different(W: Array) -> tuple[Array, Array | None]:
    """The models (C, S, k, q) that are not those of an earlier candidate, and which each has.

    No index says that all are different. On a device, where each look waits, all are or none.
    """
    xp = namespace(W)
    if not is_numpy(W):
        nothing = xp.zeros(W.shape[:1], dtype=xp.int64, device=device_of(W))
        return (W[:1, ...], nothing) if are_alike(W) else (W, None)
    known: dict[bytes, int] = {}
    index = np.asarray([known.setdefault(own.tobytes(), len(known)) for own in W])
    if len(known) == len(W):
        return W, None
    return W[np.unique(index, return_index=True)[1]], index


def merged(W: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """Models (C, S, k, q) with one in place of several that are nearly the same.

    Parameters
    ----------
    W : array (C, S, k, q)
    mean, variance : array (1 or S, p)
        Of the features, which here count as if they were uncorrelated.
    """
    with quiet():
        level = W[..., -1:] + W[..., :-1] @ mean[..., None]
        spread = W[..., :-1] * np.sqrt(variance)[:, None, :]
        size = np.linalg.norm(spread, axis=(-2, -1))  # (C, S)
        V = np.concatenate([spread, level], axis=-1)
        chosen = np.arange(len(W))
        # As penalties order models, each beside those that it may be near to.
        order = np.argsort(np.linalg.norm(V.reshape(len(W), -1), axis=1), kind="stable")
        for before, c in pairwise(order.tolist()):
            first = chosen[before]
            off = np.linalg.norm(V[c] - V[first], axis=(-2, -1))
            if (off <= NEARLY * np.minimum(size[c], size[first])).all():
                chosen[c] = first
    return W[chosen]
