"""Blocks of sources at the place of the work."""

import threading

import numpy as np
import pytest

from gpuml._arrays import HOST, gpu_place
from gpuml.encodings import Packed, pack
from gpuml.reading.sources import source_of
from gpuml.reading.streams import blocks, parts_of


def joined(source, place, block_bytes):
    parts = parts_of(source, place, block_bytes)
    found = [(part, block) for part, block in blocks(source, parts, place)]
    assert [part for part, _ in found] == parts
    return parts, [block for _, block in found]


@pytest.mark.parametrize("shape", [(50, 7), (7, 50)])
@pytest.mark.parametrize("block_bytes", [1, 100, 10_000])
def test_blocks_are_all_of_a_matrix_in_order(shape, block_bytes, rng):
    a = rng.normal(size=shape)
    _, found = joined(source_of(a), HOST, block_bytes)
    tall = a if shape[0] > shape[1] else a.T
    np.testing.assert_array_equal(np.concatenate(found), tall)
    assert all(len(block) * block.shape[1] * 8 <= max(block_bytes, 8 * 7) for block in found)


def test_blocks_are_whole_chunks_of_what_is_stored(rng):
    class Stored:
        shape, dtype, chunks = (100, 4), np.dtype("f8"), (10, 4)

        def __getitem__(self, rows):
            return np.ones((rows.stop - rows.start, 4))

    parts = parts_of(source_of(Stored()), HOST, 8 * 4 * 37)
    assert [part.start for part in parts] == [0, 30, 60, 90]
    assert [part.start for part in parts_of(source_of(Stored()), HOST, 1)] == [*range(0, 100, 10)]


def test_a_file_is_read_by_another_thread(tmp_path, rng):
    seen = []

    class Stored:
        shape, dtype = (20, 3), np.dtype("f8")

        def __getitem__(self, rows):
            if rows.stop - rows.start > 1:
                seen.append(threading.current_thread())
            return np.ones((rows.stop - rows.start, 3))

    joined(source_of(Stored()), HOST, 8 * 3 * 5)
    assert len(seen) == 4
    assert threading.main_thread() not in seen


def test_an_error_of_reading_reaches_the_caller():
    class Broken:
        shape, dtype = (20, 3), np.dtype("f8")

        def __getitem__(self, rows):
            if rows.start >= 10:
                raise OSError("the disk is gone")
            return np.ones((rows.stop - rows.start, 3))

    with pytest.raises(OSError, match="disk"):
        joined(source_of(Broken()), HOST, 8 * 3 * 5)


@pytest.mark.gpu
@pytest.mark.parametrize("block_bytes", [100, 4000, None])
@pytest.mark.parametrize("kind", ["array", "memory map", "packed", "packed map"])
def test_blocks_on_a_gpu(tmp_path, rng, kind, block_bytes):
    cupy = pytest.importorskip("cupy")
    a = rng.integers(0, 3, size=(500, 41)).astype(np.uint8)
    expected = pack(a).data if kind.startswith("packed") else a
    stored = expected
    if kind.endswith("map"):
        np.save(tmp_path / "a.npy", expected)
        stored = np.load(tmp_path / "a.npy", mmap_mode="r")
    source = source_of(Packed(stored, 41) if kind.startswith("packed") else stored)
    place = gpu_place()
    found = []
    # A buffer is used again: what a block is must be copied before the next one is asked for.
    for _, block in blocks(source, parts_of(source, place, block_bytes), place):
        data = block.data if isinstance(block, Packed) else block
        found.append(cupy.asnumpy(data))
    np.testing.assert_array_equal(np.concatenate(found), expected)


@pytest.mark.gpu
def test_a_reader_ends_when_nobody_asks_any_more(rng):
    pytest.importorskip("cupy")
    source, place = source_of(rng.normal(size=(1000, 5))), gpu_place()
    stream = blocks(source, parts_of(source, place, 400), place)
    next(stream)
    stream.close()
    assert not [t for t in threading.enumerate() if t.name == "gpuml-blocks"]
