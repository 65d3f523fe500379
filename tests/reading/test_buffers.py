"""Blocks in buffers that are filled while others are worked on, on a device of threads."""

import threading
import time

import numpy as np
import pytest

from gpuml._arrays import staging as _staging
from gpuml._arrays.staging import Pieces, Stager
from gpuml.encodings import Packed, pack
from gpuml.reading.buffers import N_BUFFERS, Blocks
from gpuml.reading.sources import source_of
from tests.reading.fake_gpu import FakeLink

BUFFER = 4096


class FakeMemory:
    """Buffers one behind the other in the memory of a fake device."""

    def __init__(self, delay=0.0, threads=3):
        self.link = FakeLink(64 * BUFFER, delay)
        self.stager = Stager(self.link, Pieces(200, 5), threads)
        self.n_made = 0

    def empty(self, n_bytes):
        assert n_bytes <= BUFFER
        start = self.n_made * BUFFER
        self.n_made += 1
        return self.link.memory[start : start + n_bytes]

    def address(self, memory):
        return memory.ctypes.data - self.link.memory.ctypes.data

    def finish(self):
        raise AssertionError("nothing went there by itself")


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(_staging, "PIECE_BYTES", 200)
    monkeypatch.setattr(_staging, "LEAST_PIECE_BYTES", 50)
    monkeypatch.setattr(_staging, "THREAD_BYTES", 200)


@pytest.fixture(params=[0.0, 0.001], ids=["fast", "late"])
def memory(request):
    memory = FakeMemory(request.param)
    yield memory
    memory.link.end()
    assert not ours()


def ours():
    return [t for t in threading.enumerate() if t.name.startswith("gpuml-")]


def parts_of(source, rows):
    n = source.length
    return [slice(i, min(i + rows, n)) for i in range(0, n, rows)]


def copies(source, parts, memory, work=lambda: None):
    """What is in each block when work that was queued on it comes to its turn."""
    found = {}

    def look(i, data):
        work()
        found[i] = data.copy()

    for i, (part, block) in enumerate(Blocks(source, parts, memory)):
        assert part == parts[i]
        data = block.data if isinstance(block, Packed) else block
        memory.link.own.put(lambda i=i, data=data: look(i, data))
    return [found[i] for i in range(len(parts))]


KINDS = {
    "array": lambda a: a,
    "by columns": lambda a: np.ascontiguousarray(a.T),
    "columns first": np.asfortranarray,
    "every other column": lambda a: np.repeat(a, 2, axis=1)[:, ::2],
    "packed": lambda a: pack(a, missing=False),
}


@pytest.mark.pairwise
@pytest.mark.parametrize("kind", [*KINDS, "memory map", "packed map"])
@pytest.mark.parametrize("rows", [1, 7, 40])
def test_work_sees_every_block(kind, rows, memory, rng, tmp_path):
    a = rng.integers(0, 3, size=(100, 41)).astype(np.uint8)
    expected = pack(a, missing=False).data if kind.startswith("packed") else a
    if kind.endswith("map"):
        np.save(tmp_path / "a.npy", expected)
        stored = np.load(tmp_path / "a.npy", mmap_mode="r")
        matrix = Packed(stored, 41) if kind.startswith("packed") else stored
    else:
        matrix = KINDS[kind](a)
    source = source_of(matrix)
    found = copies(source, parts_of(source, rows), memory)
    np.testing.assert_array_equal(np.concatenate(found), expected)
    assert memory.n_made <= N_BUFFERS


def test_slow_work_is_not_overwritten(memory, rng):
    a = rng.normal(size=(60, 5))
    source = source_of(a)
    found = copies(source, parts_of(source, 6), memory, work=lambda: time.sleep(0.01))
    np.testing.assert_array_equal(np.concatenate(found), a)


def test_blocks_go_on_their_way_before_work_on_earlier_ones_is_done(rng):
    """Nobody on the host waits for the device: neither for copies nor for work."""
    memory = FakeMemory()
    source = source_of(rng.normal(size=(90, 5)))
    may_go_on = threading.Event()
    stream = iter(Blocks(source, parts_of(source, 30), memory))
    next(stream)
    memory.link.own.put(may_go_on.wait)
    next(stream)
    next(stream)
    memory.link.synchronize()  # all three are there, though the first is still worked on
    assert memory.link.written.sum() == 90 * 5 * 8
    may_go_on.set()
    stream.close()
    memory.link.end()


def test_buffers_grow(memory, rng):
    class Growing:
        shape, dtype = (40, 3), np.dtype("f8")

        def __getitem__(self, rows):
            kind = np.float32 if rows.start < 20 else np.float64
            return np.full((rows.stop - rows.start, 3), rows.start, kind)

    source = source_of(Growing())
    found = copies(source, parts_of(source, 10), memory)
    assert [block.dtype for block in found] == ["f4", "f4", "f8", "f8"]
    assert [block[0, 0] for block in found] == [0, 10, 20, 30]


def test_a_source_is_asked_in_order_by_one_thread(memory):
    asked = []

    class Rows:
        shape, dtype = (50, 3), np.dtype("f8")

        def __getitem__(self, rows):
            asked.append((rows.start, threading.current_thread().name))
            return np.ones((rows.stop - rows.start, 3))

    source = source_of(Rows())
    asked.clear()
    copies(source, parts_of(source, 10), memory)
    assert asked == [(start, "gpuml-blocks") for start in range(0, 50, 10)]


@pytest.mark.parametrize("n_seen", [0, 1, 2, 5])
def test_threads_end_when_nobody_asks_any_more(n_seen, memory, rng):
    source = source_of(rng.normal(size=(100, 5)))
    stream = iter(Blocks(source, parts_of(source, 10), memory))
    for _ in range(n_seen):
        next(stream)
    stream.close()
    assert not ours()


def test_an_error_of_reading_reaches_the_caller(memory):
    class Broken:
        shape, dtype = (50, 3), np.dtype("f8")

        def __getitem__(self, rows):
            if rows.start >= 30:
                raise OSError("the disk is gone")
            return np.ones((rows.stop - rows.start, 3))

    source = source_of(Broken())
    with pytest.raises(OSError, match="disk"):
        copies(source, parts_of(source, 10), memory)


def test_an_error_of_copying_reaches_the_caller(memory, rng):
    def fails(address):
        if memory.link.n_copies > 10:
            raise RuntimeError("the link is broken")

    memory.link.fails = fails
    source = source_of(rng.normal(size=(100, 5)))
    with pytest.raises(RuntimeError, match="link is broken"):
        copies(source, parts_of(source, 10), memory)


def test_an_error_of_whoever_asks_ends_the_threads(memory, rng):
    source = source_of(rng.normal(size=(100, 5)))

    def use():
        for part, _ in Blocks(source, parts_of(source, 10), memory):
            if part.start == 30:
                raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        use()
    assert not ours()
