"""Components by visits of the rows, one for each power step, wherever the rows are."""

from dataclasses import replace
from typing import Any, NamedTuple

from sklearn.utils import check_random_state

from gpuml._arrays import Array, move, namespace
from gpuml._arrays.ops import all_finite, any_true
from gpuml._settings.config import current_settings
from gpuml._settings.progress import progress_bar
from gpuml.data import Batch, Folds
from gpuml.decomposition._input import refuse_what_is_not_finite
from gpuml.decomposition._streamed import Streamed, refuse_blocks
from gpuml.reading import chunked
from gpuml.reading.chunked import Chunked
from gpuml.reading.sources import Source, source_of
from gpuml.reading.streams import parts_of
from gpuml.reading.visits import Visits
from gpuml.solvers.components import Components, with_signs
from gpuml.solvers.compressed import (
    Plan,
    TooSmall,
    iterate,
    more_columns,
    more_values,
    orthonormal,
    start,
)
from gpuml.solvers.row_products import Visit
from gpuml.solvers.standard import Rule, Standard, Sums, standard_of

# A difference of squares below this share of them is not taken for a variance.
CANCELLED = 1e-6


class Iteration(NamedTuple):
    """How components are looked for: random vectors beyond them, power steps, random numbers."""

    n_oversamples: int
    n_power_iter: int
    random_state: Any


class Decomposed(NamedTuple):
    """Components of S parts, and how the rows vary along them.

    Attributes
    ----------
    found : Components
    variance : array (S, r) or None
        Of the images of the rows; perhaps None where their mean was removed.
    spread : array (S,) or None
        The variance of all features together; likewise.
    fill : array (p,) or None
        What counted in place of missing values; None where none is missing.
    """

    found: Components
    variance: Array | None = None
    spread: Array | None = None
    fill: Array | None = None


class Found(NamedTuple):
    """Singular values (r,) and right vectors (r, p) of rows, and sums of their features.

    `variance` (r,) is that of the images of the rows.
    """

    singular: Array
    vectors: Array
    sums: Sums
    shift: Array
    variance: Array | None = None


def compressed_components(
    estimator: Any, batch: Batch | Streamed, count: int, how: Iteration, *, centred: bool
) -> Decomposed:
    """Components of the rows of a batch, which may be divided, or read block by block.

    Raises
    ------
    ValueError
        If the rows have nan or infinite values.
    """
    random = check_random_state(how.random_state)
    shape = (batch.n_rows, batch.n_features)
    # Products are in float64, like all fitted attributes, except for codes and 8-bit integers.
    plan = Plan(count, how.n_oversamples, how.n_power_iter, "float64")
    if batch.holders is None:
        source = _source_of(batch)
        plan = replace(plan, dtype="float32") if source.codes else plan
        Q = start(source.width, plan.width(shape), random)
        found = _of_source(estimator, batch, source, Q, plan, Rule(centred, dtype=plan.dtype))
    else:
        Q = start(batch.n_features, plan.width(shape), random)
        found = _of_shards(batch, Q, plan, Rule(centred))
    return _components(found, batch.n_rows, centred, count, random)


def _source_of(batch: Batch | Streamed) -> Source:
    if isinstance(batch, Streamed):
        return batch.source
    # By rows even if there are more columns: fits of divided rows are to give the same.
    return source_of(batch.X, by_columns=False)


def _of_source(estimator, batch, source, Q, plan, rule):
    settings = current_settings()
    parts = parts_of(source, batch.work, settings.block_bytes)
    steps = len(parts) * (plan.n_power_iter + 2)
    with progress_bar(steps, type(estimator).__name__, enabled=settings.progress) as bar:
        try:
            rows = Visits(source, parts, batch.work, rule, bar, with_sums=True)
            _, triplets = iterate(move(Q, batch.work), rows.visit, plan)
        except TooSmall:
            raise
        except ValueError:
            if isinstance(batch, Streamed):
                refuse_blocks(estimator, batch)
            refuse_what_is_not_finite(estimator, batch.X)
            raise
        left = rows.left(triplets.turn)
    xp = namespace(left)
    left = xp.astype(left, xp.float64, copy=False)
    if source.by_columns:  # what was visited is the transposed
        # The dtype of its images may be float32.
        vectors, left = orthonormal(left).T, triplets.right.T
    else:
        vectors = triplets.right
    # Not from the mean of squares, which may be far larger.
    away = left - xp.mean(left, axis=0)
    variance = triplets.singular**2 * xp.mean(away**2, axis=0)
    assert rows.sums is not None  # `with_sums`
    return Found(triplets.singular, vectors, rows.sums, rows.shift, variance)


def _of_shards(batch, Q, plan, rule):
    holders, place = batch.holders, batch.work
    xp = place.xp
    zeros = xp.zeros(batch.n_features, dtype=xp.float64, device=place.device)
    # Sums first, then squares about the mean: a shift near it would be a guess otherwise.
    plain = holders.total(_sums_of_shard, zeros, combine=Sums.plus)
    shift = plain.total / batch.n_rows
    sums = holders.total(_sums_of_shard, shift, combine=Sums.plus)
    if not all_finite(sums.squares, xp):
        raise ValueError("Input X contains NaN or infinity, or values whose squares overflow.")
    standard = standard_of(rule, sums, shift, batch.n_rows)

    def visit(Q):
        return holders.total(_visit_of_shard, Q, standard, combine=Visit.plus)

    _, triplets = iterate(move(Q, place), visit, plan)
    found = Found(triplets.singular, triplets.right, sums, shift)
    return found if rule.center else found._replace(variance=_variances(batch, found))


def _variances(batch, found):
    """Variances (r,) of the images of divided rows."""
    xp = namespace(found.shift)
    # Rows x and components v: the mean of (x v)^2 less the square of the mean of x v.
    squares = found.singular**2 / batch.n_rows
    variance = squares - (found.vectors @ (found.sums.total / batch.n_rows)) ** 2
    if not any_true(variance < CANCELLED * squares, xp):
        return variance
    # A large mean has taken the digits: one more reading, of the rows less their mean.
    standard = standard_of(Rule(True), found.sums, found.shift, batch.n_rows)
    right = found.vectors.T
    total = batch.holders.total(_visit_of_shard, right, standard, combine=Visit.plus)
    return xp.linalg.diagonal(total.G) / batch.n_rows


def _sums_of_shard(folds: Folds, shift: Array) -> Sums:
    return chunked.sums(_shard(folds), shift)


def _visit_of_shard(folds: Folds, Q: Array, standard: Standard) -> Visit:
    return chunked.visit(replace(_shard(folds), standard=standard), Q)


def _shard(folds):
    block_bytes = current_settings().block_bytes
    return Chunked([folds.batch.X], is_wide=False, block_bytes=block_bytes, at=folds.batch.work)


def _components(found: Found, n_rows: int, centred: bool, count: int, random: Any) -> Decomposed:
    sums, shift = found.sums, found.shift
    xp = namespace(shift)
    some = xp.where(sums.count > 0, sums.count, xp.ones_like(sums.count))
    mean = sums.total / some
    spread = xp.sum(sums.squares - sums.count * (mean - shift) ** 2)
    missing = count - found.singular.shape[0]
    right = more_columns(found.vectors.T, missing, random).T
    components = Components(
        with_signs(right, xp)[None, ...],
        more_values(found.singular, missing)[None, :],
        spread[None],
        (mean if centred else xp.zeros_like(mean))[None, :],
    )
    fill = mean if any_true(sums.count < n_rows, xp) else None
    variance = None if found.variance is None else more_values(found.variance, missing)[None, :]
    return Decomposed(components, variance, components.total / n_rows, fill)
