"""What happens to thin matrices between the visits of a matrix, in CPU memory."""

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from gpuml.data import namespace
from gpuml.solvers.compressed import (
    Plan,
    Triplets,
    checked,
    more_columns,
    more_values,
    probes,
    start,
    triplets,
    turned,
)
from gpuml.solvers.row_products import Visit

# What is drawn after the first vectors has numbers of its own, so that it can be drawn anywhere.
FOR_PROBES, FOR_VECTORS = 1, 2


def first_block(short: int, width: int, seed: int) -> np.ndarray:
    """Random orthonormal columns (p, l)."""
    return start(short, width, check_random_state(seed))


def next_block(Q: Any, total: Visit) -> Any:
    """The block of the next visit."""
    return turned(Q, checked(total))


def first_triplets(Q: Any, total: Visit, plan: Plan, **options: Any) -> Triplets:
    """As many triplets as are wanted, from Q and the sums of the last visit; see `finished`."""
    found = triplets(Q, checked(total), plan.n_components, plan.dtype)
    return finished(found, total, plan, **options)


def finished(
    found: Triplets, total: Visit, plan: Plan, *, signs: bool, is_wide: bool, seed: int
) -> Triplets:
    """Triplets with signs, as many as are wanted, of the matrix that visits see.

    Beyond the rank of the matrix, singular values are 0, right vectors orthonormal to the others,
    and the map to left vectors is 0. `total` are the sums of the last visit. `signs`: no row of v
    has a negative sum. `is_wide`: visits see the transposed matrix, whose left vectors are v.
    """
    if signs:
        xp = namespace(total.G)
        sums = total.ones @ found.turn if is_wide else xp.sum(found.right, axis=1)
        found = _flipped(found, xp.where(sums >= 0, xp.ones_like(sums), -xp.ones_like(sums)))
    return _completed(found, plan.n_components, np.random.default_rng([seed, FOR_VECTORS]))


def _flipped(found, signs):
    return Triplets(
        found.singular, signs[:, None] * found.right, found.map * signs, found.turn * signs
    )


def _completed(found, k, random):
    missing = k - found.singular.shape[0]
    if missing == 0:
        return found
    xp = namespace(found.map)
    nothing = xp.zeros_like(found.map[:, :1])
    return Triplets(
        more_values(found.singular, missing),
        more_columns(found.right.T, missing, random).T,
        xp.concat([found.map, *[nothing] * missing], axis=1),
        xp.concat([found.turn, *[xp.zeros_like(found.turn[:, :1])] * missing], axis=1),
    )


def probes_for(found: Triplets, seed: int) -> Any:
    """The block to multiply the matrix with for an estimate of errors, (p, k + 10)."""
    return probes(found, np.random.default_rng([seed, FOR_PROBES]))
