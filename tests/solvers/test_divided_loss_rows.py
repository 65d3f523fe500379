"""Gradients and curvatures of rows in pieces are those of the rows in one place."""

from dataclasses import replace

import numpy as np
import pytest

from gpuml._arrays import HOST, place_of
from gpuml.data import Absent
from gpuml.designs import Dense, Divided, Mapped
from gpuml.divided import InProcess
from gpuml.losses import BINOMIAL, MULTINOMIAL
from gpuml.penalties import Penalty
from gpuml.solvers import loss_rows
from gpuml.solvers.loss_rows import LossRows, gradients
from gpuml.solvers.newton import mean_second_derivatives
from gpuml.solvers.variances import diagonal_inverse

N_ROWS, N_FEATURES = 45, 3
CUTS = [(17, 1, 7, 20), (1,) * 45]


def all_rows(library, rng, *, n_vectors=1, n_splits=2, mapped=False, dtype="float64"):
    target = rng.integers(0, max(2, n_vectors), N_ROWS)
    weights = rng.integers(1, 4, (n_splits, N_ROWS)).astype(dtype) if n_splits else None
    maps = None
    if mapped:
        maps = rng.normal(size=(n_splits, N_FEATURES, N_FEATURES + 1))
        last = np.zeros((n_splits, 1, N_FEATURES + 1))
        last[..., -1] = 1
        maps = library.asarray(np.concatenate([maps, last], axis=1))
    X = library.asarray(rng.normal(size=(N_ROWS, N_FEATURES)).astype(dtype))
    design = Dense(X, place_of(X))
    return LossRows(
        design=design if maps is None else Mapped(design, maps),
        target=library.asarray(target.astype(dtype) if n_vectors == 1 else target),
        weights=None if weights is None else library.asarray(weights),
        loss=BINOMIAL if n_vectors == 1 else MULTINOMIAL,
        n_vectors=n_vectors,
    )


def divided(data, sizes, place):
    ends, stored = np.cumsum(sizes).tolist(), data.design.stored
    shards = [
        replace(
            data,
            design=with_stored(data.design, replace(stored, X=stored.X[a:b, ...])),
            target=data.target[a:b],
            weights=None if data.weights is None else data.weights[:, a:b],
            first=a,
        )
        for a, b in zip([0, *ends[:-1]], ends, strict=True)
    ]
    dtype = np.dtype(str(stored.X.dtype).rpartition(".")[2])
    design = Divided(InProcess(shards, place), Absent(stored.shape, dtype), place)
    if isinstance(data.design, Mapped):
        (maps,) = InProcess([data.design.maps], place).each(_same)
        design = Mapped(design, maps)
    absent = Absent((data.n_splits, data.n_rows), dtype)
    return replace(data, design=design, target=Absent((data.n_rows,), dtype), weights=absent)


def with_stored(design, stored):
    return replace(design, design=stored) if isinstance(design, Mapped) else stored


def _same(x):
    return x


def sums(data, W):
    """All that solvers ask of rows."""
    total = data.total_weights
    shared = data.n_splits > 1
    diagonal = diagonal_inverse(data, Penalty(0 * W, 0 * W, 1 + 0 * W), data.n_rows)
    return {
        "total": total,
        "largest": data.largest_weights(),
        "gradients": gradients(data, W),
        "own": mean_second_derivatives(data, W, total, shared=False),
        "shared": mean_second_derivatives(data, W, total, shared=shared),
        "diagonal": diagonal.inverse,
        "centre": diagonal.centre,
    }


@pytest.mark.pairwise
@pytest.mark.parametrize("sizes", CUTS, ids=len)
@pytest.mark.parametrize(("step", "gathered"), [(1, True), (13, True), (13, False), (40, False)])
@pytest.mark.parametrize(
    "options",
    [{}, {"n_splits": 0}, {"n_vectors": 3}, {"mapped": True}, {"mapped": True, "n_vectors": 3}],
    ids=str,
)
def test_sums_over_pieces_and_samples_are_those_of_all_rows(
    library, rng, monkeypatch, sizes, step, gathered, options
):
    monkeypatch.setattr(loss_rows, "GATHER_BYTES", 2**26 if gathered else 0)
    data = all_rows(library, rng, **options)
    W = rng.normal(size=(2, data.n_splits, data.n_vectors, N_FEATURES + 1))
    for place in [HOST, data.place]:
        pieces = divided(data, sizes, place)
        whole = data
        if step > 1:
            whole, pieces = whole.every(step), pieces.every(step)
            assert len(pieces.design.stored.shards) == (1 if gathered else len(sizes))
            assert pieces.n_rows == whole.n_rows
        found = sums(pieces, W if place == HOST else library.asarray(W))
        for name, expected in sums(whole, library.asarray(W)).items():
            expected = library.to_numpy(expected)
            scale = np.abs(expected).max()
            np.testing.assert_allclose(
                library.to_numpy(found[name]),
                expected,
                rtol=1e-11,
                atol=1e-11 * scale,
                err_msg=name,
            )


@pytest.mark.parametrize("sizes", CUTS, ids=len)
def test_a_sample_of_a_sample_is_that_of_all_rows(rng, monkeypatch, sizes):
    monkeypatch.setattr(loss_rows, "GATHER_BYTES", 0)
    data = all_rows(_Numpy, rng)
    expected = data.every(3).every(4)
    found = divided(data, sizes, HOST).every(3).every(4)
    rows = np.concatenate([shard.design.X for shard in found.design.shards.pieces])
    np.testing.assert_array_equal(rows, expected.design.X)


def test_a_piece_without_weights_among_others_weighs_one_each(rng):
    data = all_rows(_Numpy, rng, n_splits=1)
    data = replace(data, weights=np.where(np.arange(N_ROWS) < 15, 1.0, data.weights))
    pieces = divided(data, (15, 30), HOST)
    first, second = pieces.design.stored.shards.pieces
    shards = InProcess([replace(first, weights=None), second])
    pieces = replace(pieces, design=replace(pieces.design, shards=shards))
    sample, expected = pieces.every(2), data.every(2)
    (found,) = sample.design.shards.pieces
    np.testing.assert_array_equal(found.weights, expected.weights)


def test_rows_that_one_holder_has_are_asked_there(rng, monkeypatch):
    data = all_rows(_Numpy, rng)
    pieces = divided(data, (15, 30), HOST)
    assert type(pieces.ask(design_of)) is Divided
    assert type(pieces.every(2).ask(design_of)) is Dense
    monkeypatch.setattr(loss_rows, "GATHER_BYTES", 0)
    assert type(pieces.every(2).ask(design_of)) is Divided


def design_of(rows):
    return rows.design


class _Numpy:
    asarray = staticmethod(np.asarray)
