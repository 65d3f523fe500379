"""The kernels' own sources on an emulated GPU: which bytes go where, and what the sums are."""

import itertools
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from gpuml.encodings import _gpu, _gpu_source
from gpuml.encodings._gpu_factor import GROUP, Columns
from tests.encodings import gpu_laws as laws
from tests.encodings.emulated_gpu import COMPILER, EmulatedGpu

pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C++ compiler")

# Every width of a code; rows at multiples of 16, 8, 4 and 1 bytes; one group of columns and
# several; more rows than a block takes, more bytes than tiles in shared memory.
CASES = [
    laws.Case(2, 70, 300, 3),
    laws.Case(2, 150, 2600, 2, gap=6, slices=4),
    laws.Case(2, 133, 265, 43, missing=False, gap=5),
    laws.Case(4, 140, 141, 5, gap=1),
    laws.Case(4, 100, 77, 2, missing=False, offset=3, slices=1),
    laws.Case(8, 90, 150, 1, offset=4, gap=2, slices=2),
    laws.Case(8, 1, 1, 1),
]
ALIGNMENTS = {1, 4, 8, 16}


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    return EmulatedGpu(tmp_path_factory.mktemp("programs"))


@pytest.fixture
def gpu(compiled, monkeypatch):
    """Small blocks: less to run, and more that have to fit together."""
    monkeypatch.setattr(_gpu, "WARPS", 2)
    monkeypatch.setattr(_gpu, "FORWARD_TILES", 2)
    monkeypatch.setattr(_gpu, "BACKWARD_STAGES", ((32, 3),))
    monkeypatch.setattr(_gpu, "LEAST_RUN", 64)
    compiled.launches.clear()
    return compiled


@pytest.mark.some
@pytest.mark.parametrize("case", CASES, ids=str)
def test_products_of_whole_numbers_are_exact(case, rng, gpu):
    laws.products_of_whole_numbers_are_exact(case, rng, gpu, np.asarray)


@pytest.mark.parametrize("case", CASES[:1] + CASES[3:4], ids=str)
def test_missing_values_count_as_zero(case, rng, gpu):
    laws.missing_values_count_as_zero(case, rng, gpu, np.asarray)


@pytest.mark.each
@pytest.mark.parametrize("case", [CASES[0], CASES[2], CASES[5]], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_errors_are_within_the_bound(case, dtype, rng, gpu):
    laws.errors_are_within_the_bound(case, dtype, rng, gpu, np.asarray)


@pytest.mark.exhaustive
def test_as_many_slices_as_float64_has_digits(rng, gpu):
    for slices in (5, 7):
        case = CASES[0]._replace(slices=slices)
        laws.errors_are_within_the_bound(case, "float64", rng, gpu, np.asarray)


def test_blocks_of_rows_give_the_same_bits(rng, gpu):
    laws.blocks_of_rows_give_the_same_bits(CASES[1], [1, 64, 99], rng, gpu, np.asarray)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_counts_are_exact(case, rng, gpu):
    laws.counts_are_exact(case, rng, gpu, np.asarray)


def test_columns_keep_to_themselves(rng, gpu):
    laws.columns_keep_to_themselves(rng, gpu, np.asarray)


@pytest.mark.exhaustive
def test_blocks_as_large_as_on_a_gpu(compiled, rng):
    compiled.launches.clear()
    laws.products_of_whole_numbers_are_exact(laws.Case(2, 600, 320, 3), rng, compiled, np.asarray)
    assert compiled.launches[-1][1]["WARPS"] == _gpu.WARPS == 4


def test_work_is_divided_in_every_way(rng, gpu):
    """Blocks of rows, of columns and of columns of the factor, all more than one."""
    laws.products_of_whole_numbers_are_exact(CASES[2], rng, gpu, np.asarray)
    grids = {kernel: grid for kernel, _, grid in gpu.launches}
    n_groups = 3  # of at most 21 of the 43 columns
    assert grids["forward"] == (-(-133 // 64) * n_groups,)
    assert grids["backward"] == (-(-67 // 32) * n_groups, -(-133 // 64))


def test_alignment_is_found(rng, gpu):
    found = set()
    for case in CASES:
        codes = laws.problem_of(case, rng, np).codes
        found.add(dict(_gpu._layout(gpu, codes, False)[1])["ALIGN"])
    assert found == ALIGNMENTS


def test_long_sums_come_in_pieces(rng, gpu, monkeypatch):
    monkeypatch.setattr(_gpu, "_most_codes", lambda bits: 512)
    laws.products_of_whole_numbers_are_exact(CASES[1], rng, gpu, np.asarray)
    n_pieces = sum(kernel == "forward" for kernel, *_ in gpu.launches)
    assert n_pieces == -(-2600 // 512)


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_longest_sums_fit(bits):
    """In 32 bits: of columns in one launch, of rows in one block."""
    digit, code = 128, 2**bits - 1
    assert _gpu._most_codes(bits) * digit * code < 2**31
    highest = code << (8 - bits)  # where the codes of a byte are left in their places
    assert _gpu.MOST_RUN * digit * highest < 2**31
    assert _gpu.MOST_RUN * code**2 << 2 * (8 - bits) < 2**32  # counts


@pytest.mark.parametrize("slices", [1, 2, 3, 4])
def test_groups_hold_all_columns(slices):
    for width in range(1, 200):
        columns = Columns.of(width, slices)
        assert (columns.n_groups - 1) * columns.per_group < width
        assert width <= columns.n_groups * columns.per_group
        assert columns.per_group * slices <= 8 * columns.n_tiles <= GROUP


def test_tiles_fit_into_the_shared_memory_of_every_gpu():
    """99 KB is what the smallest ones since compute capability 8.0 have."""
    for bits, factors, slices in itertools.product((2, 4, 8), (1, 2), (1, 2, 3, 4)):
        for limit in (99, 163, 227):
            gpu = EmulatedGpu(None, shared_bytes=limit * 1024)
            columns = Columns.of(64 // slices, slices)
            strip = _gpu.WARPS // factors * bits // 2 * 16
            for shapes, size in (
                (_gpu.FORWARD_STAGES, lambda n: _gpu._forward_stage(columns, bits, factors, n)),  # noqa: B023
                (_gpu.BACKWARD_STAGES, lambda n: _gpu._backward_stage(columns, strip, n)),  # noqa: B023
            ):
                assert _gpu._first_fit(gpu, shapes, columns, size)[1] <= gpu.shared_bytes


def test_nothing_to_multiply(gpu):
    empty = _gpu.Codes(np.zeros((0, 3), np.uint8), 9, 2, True)
    assert _gpu.forward(empty, np.ones((9, 2)), gpu=gpu).shape == (0, 2)
    Z, Z_missing = _gpu.backward(empty, np.ones((0, 2)), True, gpu=gpu)
    assert not Z.any()
    assert not Z_missing.any()
    assert Z.shape == Z_missing.shape == (9, 2)
    assert not np.any(_gpu.counts(empty, gpu=gpu))
    no_columns = _gpu.Codes(np.zeros((4, 0), np.uint8), 0, 2, True)
    assert not _gpu.forward(no_columns, np.ones((0, 2)), gpu=gpu).any()
    assert _gpu.backward(no_columns, np.ones((4, 2)), gpu=gpu)[0].shape == (0, 2)
    assert gpu.launches == []


def test_factors_that_do_not_fit_are_refused(rng, gpu):
    codes = laws.problem_of(CASES[0], rng, np).codes
    with pytest.raises(ValueError, match="300 columns"):
        _gpu.forward(codes, np.ones((301, 2)), gpu=gpu)
    with pytest.raises(ValueError, match="70 rows"):
        _gpu.backward(codes, np.ones(70), gpu=gpu)
    with pytest.raises(ValueError, match="slices must be from 1 to 7"):
        _gpu.forward(codes, np.ones((300, 2)), slices=8, gpu=gpu)


def test_old_gpus_are_refused(monkeypatch):
    runtime = SimpleNamespace(getDeviceProperties=lambda number: {"major": 7, "minor": 5})
    cuda = SimpleNamespace(cuda=SimpleNamespace(runtime=runtime))
    monkeypatch.setitem(sys.modules, "cupy", cuda)
    with pytest.raises(RuntimeError, match=r"8\.0 or later; this one has 7\.5"):
        _gpu_source._kernel(-1, "forward", "forward", (), 0)  # no GPU has this number
