"""Components by visits of the rows, one for each power step, wherever the rows are."""

from functools import reduce
from typing import Any, NamedTuple

from sklearn.utils import check_random_state

from gpuml._arrays import Array, move, namespace, place_of
from gpuml._config import current_settings
from gpuml._ops import all_finite
from gpuml._progress import progress_bar
from gpuml.data import Batch, Folds
from gpuml.decomposition._input import refuse_what_is_not_finite
from gpuml.reading.sources import source_of
from gpuml.reading.streams import blocks, parts_of
from gpuml.reading.visits import Visits
from gpuml.solvers import row_products
from gpuml.solvers._blocks import quiet
from gpuml.solvers.components import Components, with_signs
from gpuml.solvers.compressed import (
    Plan,
    Triplets,
    compressed_svd,
    iterate,
    more_columns,
    more_values,
    start,
)
from gpuml.solvers.row_products import Visit
from gpuml.solvers.standard import Rule, Standard, Sums, standard_of


class Iteration(NamedTuple):
    """How components are looked for: random vectors beyond them, power steps, random numbers."""

    n_oversamples: int
    n_power_iter: int
    random_state: Any


class Compressed(NamedTuple):
    """Components of one part, with what says how the rows vary.

    Attributes
    ----------
    found : Components
        `total` is the sum of squares of the rows less their mean.
    mean : array (p,)
        Of the rows, whether it was removed or not.
    """

    found: Components
    mean: Array


def compressed_components(
    estimator: Any, batch: Batch, count: int, how: Iteration, *, centred: bool
) -> Compressed:
    """Components of the rows of a batch, which may be divided.

    Raises
    ------
    ValueError
        If the rows have nan or infinite values.
    """
    random = check_random_state(how.random_state)
    # Products are float64 like everything that becomes an attribute of these estimators.
    plan = Plan(count, how.n_oversamples, how.n_power_iter, "float64")
    n, p = batch.n_rows, batch.n_features
    rule = Rule(center=centred)
    Q = start(p, plan.width((n, p)), random)
    if batch.holders is None:
        triplets, sums, shift = _of_rows(estimator, batch, Q, plan, rule)
    else:
        triplets, sums, shift = _of_pieces(batch, Q, plan, rule)
    return _components(triplets, sums, shift, centred, count, random)


def _of_rows(estimator, batch, Q, plan, rule):
    # By rows even if there are more columns: fits of divided rows are to give the same.
    source = source_of(batch.X, by_columns=False)
    settings = current_settings()
    parts = parts_of(source, batch.work, settings.block_bytes)
    steps = len(parts) * (plan.n_power_iter + 2)
    with progress_bar(steps, type(estimator).__name__, enabled=settings.progress) as bar:
        try:
            rows = Visits(source, parts, batch.work, rule, bar, with_sums=True)
        except ValueError:
            refuse_what_is_not_finite(estimator, batch.X)
            raise
        _, triplets = iterate(move(Q, batch.work), rows.visit, plan)
    return triplets, rows.sums, rows.shift


def _of_pieces(batch, Q, plan, rule):
    holders, place = batch.holders, batch.work
    xp = place.xp
    zeros = xp.zeros(batch.n_features, dtype=xp.float64, device=place.device)
    # Sums first, then squares about the mean: a shift near it would be a guess otherwise.
    plain = holders.total(_sums_of_piece, zeros, combine=Sums.plus)
    shift = plain.total / batch.n_rows
    sums = holders.total(_sums_of_piece, shift, combine=Sums.plus)
    if not all_finite(sums.squares, xp):
        raise ValueError("Input X contains NaN or infinity, or values whose squares overflow.")
    standard = standard_of(rule, sums, shift, batch.n_rows)
    _, triplets = compressed_svd(holders, move(Q, place), plan, _visit_of_piece, standard)
    return triplets, sums, shift


def _sums_of_piece(folds: Folds, shift: Array) -> Sums:
    shift = move(shift, folds.batch.work)
    parts = [row_products.sums_of(block, shift) for block in _blocks_of(folds.batch)]
    return reduce(Sums.plus, parts)


def _visit_of_piece(folds: Folds, Q: Array, standard: Standard) -> Visit:
    Q = move(Q, folds.batch.work)
    standard = standard.beside(Q)
    with quiet():
        parts = [row_products.visit(block, Q, standard)[0] for block in _blocks_of(folds.batch)]
    return reduce(Visit.plus, parts)


def _blocks_of(batch):
    """Rows of a piece where they are worked on: themselves, or blocks if all would not fit."""
    if place_of(batch.X) == batch.work:
        yield batch.X
        return
    source = source_of(batch.X, by_columns=False)
    parts = parts_of(source, batch.work, current_settings().block_bytes)
    for _, block in blocks(source, parts, batch.work):
        yield block


def _components(
    triplets: Triplets, sums: Sums, shift: Array, centred: bool, count: int, random: Any
) -> Compressed:
    xp = namespace(shift)
    mean = sums.total / sums.count
    spread = xp.sum(sums.squares - sums.count * (mean - shift) ** 2)
    missing = count - triplets.singular.shape[0]
    right = more_columns(triplets.right.T, missing, random).T
    found = Components(
        with_signs(right, xp)[None, ...],
        more_values(triplets.singular, missing)[None, :],
        spread[None],
        (mean if centred else xp.zeros_like(mean))[None, :],
    )
    return Compressed(found, mean)
