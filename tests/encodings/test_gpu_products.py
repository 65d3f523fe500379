"""Products with packed codes on a GPU that is there; see test_gpu_layout.py for one that is not."""

import numpy as np
import pytest

from gpuml.encodings import _gpu
from gpuml.encodings._gpu_source import gpu_of
from gpuml.testing import array_libraries
from tests.encodings import gpu_laws as laws

CASES = [
    laws.Case(bits, n_rows, p, width, missing, slices, offset, gap)
    for bits in (2, 4, 8)
    for n_rows, p, width, missing, slices, offset, gap in (
        (3000, 1000, 20, True, 3, 0, 0),
        (2111, 1337, 12, False, 4, 0, 0),
        (5000, 517, 21, True, 3, 8, 8),
        (700, 4096, 64, False, 3, 4, 4),
        (1300, 901, 200, True, 2, 0, 1),
        (1, 1, 1, True, 1, 5, 3),
    )
]


@pytest.fixture(params=[entry for entry in array_libraries() if entry.id == "cupy"])
def library(request):
    return request.param


@pytest.fixture
def gpu(library):
    with gpu_of(library.asarray(np.zeros(1))) as found:
        return found


@pytest.mark.parametrize("case", CASES, ids=str)
def test_products_of_whole_numbers_are_exact(case, rng, gpu, library):
    laws.products_of_whole_numbers_are_exact(case, rng, gpu, library.to_numpy)
    laws.missing_values_count_as_zero(case, rng, gpu, library.to_numpy)


@pytest.mark.parametrize("case", CASES[::4], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_errors_are_within_the_bound(case, dtype, rng, gpu, library):
    laws.errors_are_within_the_bound(case, dtype, rng, gpu, library.to_numpy)


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_as_many_slices_as_float64_has_digits(bits, rng, gpu, library):
    case = laws.Case(bits, 1500, 1111, 9, slices=7)
    laws.errors_are_within_the_bound(case, "float64", rng, gpu, library.to_numpy)


@pytest.mark.parametrize("case", CASES[:3], ids=str)
def test_blocks_of_rows_give_the_same_bits(case, rng, gpu, library):
    laws.blocks_of_rows_give_the_same_bits(case, [7, 512, 1999], rng, gpu, library.to_numpy)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_counts_are_exact(case, rng, gpu, library):
    laws.counts_are_exact(case, rng, gpu, library.to_numpy)


def test_columns_keep_to_themselves(rng, gpu, library):
    laws.columns_keep_to_themselves(rng, gpu, library.to_numpy)


@pytest.mark.parametrize("bits", [4, 8])
def test_more_columns_than_32_bits_sum_up(bits, rng, gpu, library):
    """The largest codes meet the largest digits of one sign."""
    p = _gpu._most_codes(bits) + 1000
    data = gpu.xp.full((40, -(-p * bits // 8)), 255, dtype=np.uint8)
    codes = _gpu.Codes(data, p, bits, False)
    Y = _gpu.forward(codes, gpu.xp.full((p, 2), -127.0), slices=1, gpu=gpu)
    assert (library.to_numpy(Y) == -127.0 * p * (2**bits - 1)).all()


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_more_rows_than_32_bits_sum_up(bits, gpu, library):
    n_rows = 8_500_000 if bits == 8 else 1_000_000
    codes = _gpu.Codes(gpu.xp.full((n_rows, 5), 255, dtype=np.uint8), 40 // bits, bits, False)
    Y = gpu.xp.full((n_rows, 1), -127.0)
    Z, _ = _gpu.backward(codes, Y, slices=1, gpu=gpu)
    assert (library.to_numpy(Z) == -127.0 * n_rows * (2**bits - 1)).all()
    _, total, squares = _gpu.counts(codes, gpu=gpu)
    assert (library.to_numpy(total) == n_rows * (2**bits - 1)).all()
    assert (library.to_numpy(squares) == n_rows * (2**bits - 1) ** 2).all()


def test_more_than_2_gigabytes(gpu, library):
    """Rows beyond byte 2^31 are where they should be."""
    n_rows, row_bytes = 70_000, 32_000
    data = gpu.xp.zeros((n_rows, row_bytes), dtype=np.uint8)
    data[-1] = 0b10_01_10_01
    codes = _gpu.Codes(data, row_bytes * 4, 2, False)
    W = gpu.xp.ones((codes.n_columns, 1))
    Y = library.to_numpy(_gpu.forward(codes, W, gpu=gpu))
    assert Y[-1, 0] == 6 * row_bytes
    assert not Y[:-1].any()
    Z = library.to_numpy(_gpu.backward(codes, gpu.xp.ones((n_rows, 1)), gpu=gpu)[0])
    np.testing.assert_array_equal(Z[:, 0], np.tile([1, 2, 1, 2], row_bytes))


def test_same_bits_again(rng, gpu, library):
    """Blocks that add to memory in another order change nothing."""
    problem = laws.problem_of(laws.Case(2, 20_000, 1003, 20), rng, gpu.xp)
    Y = gpu.xp.asarray(rng.standard_normal((20_000, 20)))
    first = library.to_numpy(_gpu.backward(problem.codes, Y, True, gpu=gpu)[0])
    for _ in range(5):
        again = library.to_numpy(_gpu.backward(problem.codes, Y, True, gpu=gpu)[0])
        np.testing.assert_array_equal(first, again)
