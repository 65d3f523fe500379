"""Plans and pieces: laws that hold for any data and any cluster."""

import numpy as np
import pytest

from gpuml_dask.planning.blocks import (
    ARITY,
    LARGEST_BLOCK,
    MANY_BLOCKS,
    SMALLEST_BLOCK,
    assign,
    balance,
    block_size,
    cut_rows,
    neighbours,
)
from gpuml_dask.planning.plan import DIVIDED_FROM_BYTES, make_plan

GB = 10**9
MIB = 1 << 20


# ---------------------------------------------------------------- pieces


@pytest.mark.parametrize("n_rows", [1, 2, 1000, 8_000_000, 10**11])
@pytest.mark.parametrize("row_bytes", [1, 400])
def test_blocks_are_all_rows_once_and_of_a_moderate_size(n_rows, row_bytes):
    bounds = cut_rows(n_rows, row_bytes)
    assert (bounds[0], bounds[-1]) == (0, n_rows)
    lengths = np.diff(bounds)
    assert lengths.min() > 0
    assert lengths.max() - lengths.min() <= 1
    n_bytes = n_rows * row_bytes
    assert lengths.max() * row_bytes <= max(LARGEST_BLOCK, row_bytes) + row_bytes
    if n_bytes > 2 * SMALLEST_BLOCK:
        assert lengths.max() * row_bytes >= SMALLEST_BLOCK / 2
    if n_bytes <= MANY_BLOCKS * LARGEST_BLOCK:
        assert len(lengths) <= MANY_BLOCKS + 1


def test_blocks_grow_with_the_data():
    sizes = [block_size(1 << i) for i in range(50)]
    assert sizes == sorted(sizes)
    assert (sizes[0], sizes[-1]) == (SMALLEST_BLOCK, LARGEST_BLOCK)


def test_a_row_is_never_cut():
    assert cut_rows(5, 300 * MIB).tolist() == [0, 1, 2, 3, 4, 5]


def test_no_rows_are_no_pieces():
    assert cut_rows(0, 8).tolist() == [0]


def test_blocks_of_a_wanted_size():
    assert np.diff(cut_rows(100, 8, block_bytes=80)).tolist() == [10] * 10
    assert len(cut_rows(3, 8, block_bytes=1)) == 4


def test_only_small_chunks_are_joined():
    chunks = [0, 60, 64, 66, 70, 130, 430]
    bounds = cut_rows(430, 1, chunks, block_bytes=100 * MIB, joined_bytes=20)
    assert bounds.tolist() == [0, 60, 70, 130, 430]
    sizes = np.full(8, 400 * MIB)  # of 1 GiB these would be joined by threes
    edges = np.append(0, np.cumsum(sizes))
    kept = cut_rows(edges[-1], 1, edges, block_bytes=1024 * MIB, joined_bytes=256 * MIB)
    np.testing.assert_array_equal(kept, edges)


@pytest.mark.parametrize("seed", range(20))
def test_blocks_of_chunks_begin_where_chunks_do_or_cut_large_ones(seed):
    rng = np.random.default_rng(seed)
    lengths = rng.choice([0, 1, 30, 1000, 20_000], size=rng.integers(1, 300))
    lengths[0] += 1
    chunk_bounds, row_bytes = np.r_[0, np.cumsum(lengths)], int(rng.choice([100, MIB // 8]))
    bounds = cut_rows(chunk_bounds[-1], row_bytes, chunk_bounds)
    assert (bounds[0], bounds[-1]) == (0, chunk_bounds[-1])
    assert np.all(np.diff(bounds) > 0)
    wanted = block_size(int(chunk_bounds[-1]) * row_bytes)
    for bound in np.setdiff1d(bounds, chunk_bounds):
        chunk = np.searchsorted(chunk_bounds, bound) - 1
        assert lengths[chunk] * row_bytes > LARGEST_BLOCK
    assert np.diff(bounds).max() * row_bytes <= wanted + LARGEST_BLOCK + row_bytes


def test_chunks_of_a_moderate_size_are_the_pieces():
    chunk_bounds = np.arange(11) * 1000
    assert cut_rows(10_000, MIB // 10, chunk_bounds).tolist() == chunk_bounds.tolist()


def test_bounds_of_chunks_are_checked():
    with pytest.raises(ValueError, match="from 0 to 10"):
        cut_rows(10, 8, np.array([0, 5]))


@pytest.mark.parametrize("seed", range(30))
def test_every_piece_has_one_owner_and_nobody_more_than_a_piece_too_much(seed):
    rng = np.random.default_rng(seed)
    n_workers, n_pieces = rng.integers(1, 20), rng.integers(1, 400)
    sizes = rng.integers(1, 100, n_pieces)
    holders = rng.integers(-1, rng.integers(1, n_workers + 1), n_pieces) if seed % 3 else None
    owners = balance(sizes, n_workers, holders)
    assert owners.shape == (n_pieces,)
    assert set(owners) <= set(range(n_workers))
    loads = np.bincount(owners, weights=sizes, minlength=n_workers)
    average = sizes.sum() / n_workers
    assert loads.max() <= average + sizes.max() + 1e-6
    if holders is None:
        assert loads.min() >= average - sizes.max() - 1e-6
        assert np.all(np.diff(owners) >= 0)  # neighbours together
    np.testing.assert_array_equal(owners, balance(sizes, n_workers, holders))


def test_blocks_stay_where_they_are():
    holders = np.arange(100) % 8
    np.testing.assert_array_equal(balance(np.ones(100), 8, holders), holders)
    # A worker is gone: only its pieces move.
    left = np.where(holders == 7, -1, holders)
    owners = balance(np.ones(100), 7, left)
    np.testing.assert_array_equal(owners[left >= 0], left[left >= 0])
    # Everything is on one: what is more than its share moves.
    owners = balance(np.ones(8), 4, np.zeros(8, int))
    assert np.bincount(owners, minlength=4).max() == 3
    assert owners[:3].tolist() == [0, 0, 0]


def test_nobody_cannot_be_given_a_piece():
    with pytest.raises(ValueError, match="no worker"):
        balance(np.ones(3), 0)
    assert balance(np.ones(0), 3).shape == (0,)


def test_blocks_are_assigned_by_name():
    assert assign([8] * 4, ["b", "gone", None, "b"], ["a", "b"]) == ["b", "a", "a", "b"]
    assert assign([8] * 4, [None] * 4, ["a", "b"]) == ["a", "a", "b", "b"]


@pytest.mark.parametrize("n", [1, 7, 8, 9, 63, 64, 65, 1000])
def test_a_tree_adds_all_blocks_in_order(n):
    depth, nodes = 0, [[i] for i in range(n)]
    while len(nodes) > 1:
        level = neighbours(nodes)
        assert all(1 <= len(group) <= ARITY for group in level)
        nodes, depth = [[leaf for node in group for leaf in node] for group in level], depth + 1
    assert nodes == [list(range(n))]
    assert ARITY ** (depth - 1) < n <= ARITY**depth


# ---------------------------------------------------------------- which way


@pytest.mark.parametrize("n_bytes", [0, 10**5, DIVIDED_FROM_BYTES - 1, DIVIDED_FROM_BYTES, 26 * GB])
@pytest.mark.parametrize("divisible", [True, False])
@pytest.mark.parametrize("some_whole", [True, False])
def test_a_plan_follows_from_the_data_and_not_from_the_workers(n_bytes, divisible, some_whole):
    """As long as each worker has room for all rows."""
    plans = [
        make_plan(n_bytes, [100 * GB] * n, divisible=divisible, some_whole=some_whole)
        for n in (1, 2, 7, 1000)
    ]
    assert len(set(plans)) == 1
    expected = "rows" if divisible and n_bytes >= DIVIDED_FROM_BYTES else "whole"
    assert plans[0].mode == expected


@pytest.mark.parametrize("asked", [None, "whole", "rows"])
@pytest.mark.parametrize("divisible", [True, False])
@pytest.mark.parametrize("some_whole", [True, False])
@pytest.mark.parametrize("memories", [[10 * GB], [10 * GB, 2 * GB], [4 * GB] * 4])
@pytest.mark.parametrize("n_bytes", [MIB, GB, int(5.5 * GB), int(9.5 * GB), 20 * GB])
def test_rows_go_only_where_they_fit(n_bytes, memories, divisible, some_whole, asked):
    fits_one, fits_all = n_bytes <= 0.9 * max(memories), n_bytes <= 0.9 * sum(memories)
    given = {"divisible": divisible, "some_whole": some_whole, "asked": asked}
    if not fits_one and (asked == "whole" or some_whole or not (divisible and fits_all)):
        with pytest.raises(ValueError, match="of rows cannot be placed for this search"):
            make_plan(n_bytes, memories, **given)
        return
    plan = make_plan(n_bytes, memories, **given)
    assert divisible or plan.mode == "whole"
    assert fits_all if plan.mode == "rows" else fits_one
    if asked == "whole" or (asked == "rows" and divisible):
        assert plan.mode == asked


def test_rows_that_fit_no_worker_are_divided_whatever_they_take():
    plan = make_plan(MIB, [MIB] * 4, divisible=True)
    assert str(plan) == (
        "1.05 MB of rows, divided over the workers (no worker has room for all rows)"
    )


def test_what_cannot_be_placed_says_what_there_is():
    with pytest.raises(ValueError, match=r"9\.5 GB of rows cannot be placed .* has 10 GB .* 20 GB"):
        make_plan(int(9.5 * GB), [10 * GB] * 2, divisible=False)


@pytest.mark.parametrize("asked", ["both", "Rows", 1])
def test_a_plan_that_there_is_not_is_no_setting(asked):
    with pytest.raises(ValueError, match=r"gpuml\.plan is None, 'whole' or 'rows'; got "):
        make_plan(MIB, [GB], divisible=True, asked=asked)
