"""Laws of the products of gpuml.encodings._gpu, for the emulated GPU and for real ones."""

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from gpuml.encodings import _gpu


class Case(NamedTuple):
    """A matrix of codes and the shape of a dense factor.

    Rows start `offset` bytes after an address that 256 divides, `gap` bytes apart.
    """

    bits: int
    n_rows: int
    p: int
    width: int
    missing: bool = True
    slices: int = 3
    offset: int = 0
    gap: int = 0

    def __str__(self):
        return "-".join(str(int(value)) for value in self)


class Problem(NamedTuple):
    """Codes, and what they stand for: the values, 0 where missing, and 1 where missing."""

    codes: _gpu.Codes
    values: np.ndarray
    missing: np.ndarray


def problem_of(case, rng, xp):
    """Random codes in memory that has noise around and between its rows."""
    raw = rng.integers(0, 2**case.bits, (case.n_rows, case.p), dtype=np.uint8)
    raw[rng.random(raw.shape) < 0.1] = 2**case.bits - 1  # rare among 256 codes otherwise
    missing = (raw == 2**case.bits - 1) & case.missing
    data = _laid_out(_pack(raw, case.bits), case, rng, xp)
    codes = _gpu.Codes(data, case.p, case.bits, case.missing)
    return Problem(codes, np.where(missing, 0, raw).astype(np.int64), missing.astype(np.int64))


def _pack(raw, bits):
    per_byte = 8 // bits
    padded = np.zeros((raw.shape[0], -(-raw.shape[1] // per_byte) * per_byte), dtype=np.uint8)
    padded[:, : raw.shape[1]] = raw
    shifts = np.arange(per_byte, dtype=np.uint8) * bits
    pieces = padded.reshape(raw.shape[0], -1, per_byte) << shifts
    return np.bitwise_or.reduce(pieces, axis=2)


def _laid_out(rows, case, rng, xp):
    stride = rows.shape[1] + case.gap
    memory = xp.asarray(rng.integers(0, 256, 512 + rows.shape[0] * stride, dtype=np.uint8))
    address = memory.data.ptr if hasattr(memory.data, "ptr") else memory.ctypes.data
    first = -address % 256 + case.offset
    data = memory[first : first + rows.shape[0] * stride].reshape(-1, stride)[:, : rows.shape[1]]
    data[...] = xp.asarray(rows)
    return data


def whole_numbers(shape, slices, rng):
    """Factors that slices hold exactly: each column has the largest number that they do."""
    largest = 127 * 256 ** (slices - 1)
    numbers = rng.integers(-largest, largest + 1, shape)
    numbers[rng.integers(shape[0])] = largest
    return numbers


def products_of_whole_numbers_are_exact(case, rng, gpu, as_numpy):
    problem = problem_of(case, rng, gpu.xp)
    W = whole_numbers((case.p, case.width), case.slices, rng)
    W_missing = whole_numbers(W.shape, case.slices, rng)
    Y = whole_numbers((case.n_rows, case.width), case.slices, rng)
    settings = {"slices": case.slices, "gpu": gpu}
    W_, W_missing_, Y_ = (gpu.xp.asarray(x.astype(np.float64)) for x in (W, W_missing, Y))

    both = _gpu.forward(problem.codes, W_, W_missing_, **settings)
    values, missing = _gpu.backward(problem.codes, Y_, True, **settings)

    expected = problem.values @ W + problem.missing @ W_missing
    np.testing.assert_array_equal(as_numpy(both), expected)
    np.testing.assert_array_equal(as_numpy(values), problem.values.T @ Y)
    np.testing.assert_array_equal(as_numpy(missing), problem.missing.T @ Y)


def missing_values_count_as_zero(case, rng, gpu, as_numpy):
    problem = problem_of(case, rng, gpu.xp)
    W = whole_numbers((case.p, case.width), case.slices, rng)
    Y = whole_numbers((case.n_rows, case.width), case.slices, rng)
    settings = {"slices": case.slices, "gpu": gpu}

    forth = _gpu.forward(problem.codes, gpu.xp.asarray(W.astype(np.float64)), **settings)
    back, none = _gpu.backward(problem.codes, gpu.xp.asarray(Y.astype(np.float64)), **settings)

    assert none is None
    np.testing.assert_array_equal(as_numpy(forth), problem.values @ W)
    np.testing.assert_array_equal(as_numpy(back), problem.values.T @ Y)


def errors_are_within_the_bound(case, dtype, rng, gpu, as_numpy):
    """Only the factor is rounded: each entry by half of its last digit."""
    problem = problem_of(case, rng, gpu.xp)
    scale = 10.0 ** rng.uniform(-20, 20, case.width)
    W = (rng.standard_normal((case.p, case.width)) * scale).astype(dtype)
    W_missing = (rng.standard_normal(W.shape) * scale).astype(dtype)
    Y = (rng.standard_normal((case.n_rows, case.width)) * scale).astype(dtype)
    settings = {"slices": case.slices, "gpu": gpu}
    W_, W_missing_, Y_ = (gpu.xp.asarray(x) for x in (W, W_missing, Y))

    both = _gpu.forward(problem.codes, W_, W_missing_, **settings)
    values, missing = _gpu.backward(problem.codes, Y_, True, **settings)

    assert both.dtype == dtype
    assert values.dtype == missing.dtype == np.float64
    factors = [W, W_missing] if case.missing else [W]
    digit = np.max([abs(f.astype(np.float64)).max(axis=0) for f in factors], axis=0)
    half = digit / (254 * 256.0 ** (case.slices - 1))
    total = problem.values + problem.missing
    exact = problem.values @ W.astype(np.float64) + problem.missing @ W_missing.astype(np.float64)
    rounding = np.finfo(dtype).eps * abs(exact) + 1e-14 * total.sum(axis=1)[:, None] * digit
    assert (abs(as_numpy(both) - exact) <= total.sum(axis=1)[:, None] * half + rounding).all()
    half = abs(Y.astype(np.float64)).max(axis=0) / (254 * 256.0 ** (case.slices - 1))
    for result, left in ((values, problem.values), (missing, problem.missing)):
        error = abs(as_numpy(result) - left.T @ Y.astype(np.float64))
        sums = left.sum(axis=0)[:, None]
        assert (error <= sums * half * (1 + 1e-6) + 1e-14 * sums * abs(Y).max(axis=0)).all()


def blocks_of_rows_give_the_same_bits(case, cuts, rng, gpu, as_numpy):
    problem = problem_of(case, rng, gpu.xp)
    bounds = [0, *cuts, case.n_rows]
    blocks = [slice(i, j) for i, j in pairwise(bounds)]
    W = gpu.xp.asarray(rng.standard_normal((case.p, case.width)))
    Y = rng.standard_normal((case.n_rows, case.width))
    Y[bounds[:-1]] = 127.0 / 16  # the largest of each block, so that all have the same scales,
    Y[bounds[:-1], 0] *= -1  # of either sign; powers of two, so that sums of blocks are exact
    assert abs(Y).max() == 127.0 / 16
    Y = gpu.xp.asarray(Y)
    settings = {"slices": case.slices, "gpu": gpu}

    forth = as_numpy(_gpu.forward(problem.codes, W, **settings))
    back = as_numpy(_gpu.backward(problem.codes, Y, **settings)[0])

    parts = [problem.codes._replace(data=problem.codes.data[block]) for block in blocks]
    forths = [as_numpy(_gpu.forward(part, W, **settings)) for part in parts]
    pairs = zip(parts, blocks, strict=True)
    backs = [as_numpy(_gpu.backward(part, Y[block], **settings)[0]) for part, block in pairs]
    np.testing.assert_array_equal(forth, np.concatenate(forths))
    np.testing.assert_array_equal(back, sum(backs))


def counts_are_exact(case, rng, gpu, as_numpy):
    problem = problem_of(case, rng, gpu.xp)
    n_present, total, squares = (as_numpy(x) for x in _gpu.counts(problem.codes, gpu=gpu))
    assert n_present.dtype == total.dtype == squares.dtype == np.int64
    np.testing.assert_array_equal(n_present, case.n_rows - problem.missing.sum(axis=0))
    np.testing.assert_array_equal(total, problem.values.sum(axis=0))
    np.testing.assert_array_equal(squares, (problem.values**2).sum(axis=0))


def columns_keep_to_themselves(rng, gpu, as_numpy):
    """Columns that are 0, not finite, huge or tiny do nothing to the others."""
    case = Case(2, 40, 70, 6)
    problem = problem_of(case, rng, gpu.xp)
    W = rng.standard_normal((case.p, case.width))
    W[:, 1] = 0.0
    W[3, 2], W[4, 3] = np.nan, -np.inf
    W[:, 4] *= 1e-300
    W[:, 5] *= 1e300
    result = as_numpy(_gpu.forward(problem.codes, gpu.xp.asarray(W), slices=3, gpu=gpu))
    expected = problem.values @ W[:, [0, 5]]
    np.testing.assert_allclose(
        result[:, [0, 5]], expected, rtol=0, atol=1e-5 * expected[:, 1].max()
    )
    np.testing.assert_allclose(result[:, 0], expected[:, 0], rtol=0, atol=1e-4)
    assert (result[:, 1] == 0).all()
    assert np.isnan(result[:, [2, 3]]).all()
    assert (abs(result[:, 4]) < 1e-296).all()
