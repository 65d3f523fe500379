"""Principal components of rows in batches, each of which is read once.

The rows seen so far are remembered as k scaled components ``diag(s) V``, their mean and their
number. With a batch B of b rows, the SVD of

    [ diag(s) V ;  B - mean(B) ;  sqrt(n b / (n + b)) (mean - mean(B)) ]

gives components of all rows, exactly if the directions that were dropped held nothing [1]_.

References
----------
.. [1] D. A. Ross, J. Lim, R.-S. Lin, M.-H. Yang, "Incremental learning for robust visual
   tracking", International Journal of Computer Vision 77 (2008).
"""

from dataclasses import dataclass
from math import sqrt

from gpuml._arrays import Array, namespace
from gpuml._arrays.ops import triangular_factor
from gpuml._arrays.threads import threads_for_order
from gpuml.solvers.components import with_signs


@dataclass(frozen=True)
class Seen:
    """What is remembered of n rows: float64 means and variances (p,), singular values, vectors."""

    n_rows: int
    mean: Array
    variance: Array
    singular: Array
    vectors: Array


def extend(seen: Seen | None, X: Array) -> Seen:
    """The rows X (b, p) too; all components (r, p) are kept, for the caller to cut."""
    xp = namespace(X)
    X = xp.astype(X, xp.float64, copy=False)
    b, p = X.shape
    mean = xp.mean(X, axis=0)
    rows = X - mean
    variance = xp.sum(rows**2, axis=0) / b
    n_rows = b
    if seen is not None:
        n_rows = seen.n_rows + b
        gap = seen.mean - mean
        share = seen.n_rows * b / n_rows
        variance = (seen.n_rows * seen.variance + b * variance + share * gap**2) / n_rows
        remembered = seen.singular[:, None] * seen.vectors
        rows = xp.concat([remembered, rows, sqrt(share) * gap[None, :]])
        mean = mean + gap * (seen.n_rows / n_rows)
    with threads_for_order(min(rows.shape)):
        if rows.shape[0] > p:
            rows = triangular_factor(rows, xp)
        _, singular, vectors = xp.linalg.svd(rows, full_matrices=False)
    return Seen(n_rows, mean, variance, singular, with_signs(vectors, xp))
