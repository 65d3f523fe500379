"""Host memory to a device by page-locked pieces: on a device of threads, and on a GPU."""

import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

from gpuml._arrays import staging as _staging
from gpuml._arrays.staging import Pieces, Stager, copy_staged, n_threads, piece_bytes, runs
from gpuml.testing import count_transfers
from tests.reading.fake_gpu import FakeLink

PIECE = 1000
ARRAYS = {
    "bytes": lambda x: x,
    "one": lambda x: x[:1],
    "none": lambda x: x[:0],
    "a number": lambda x: x[0, 0],
    "read only": lambda x: np.frombuffer(x.tobytes(), x.dtype).reshape(x.shape),
    "a view": lambda x: x[3:-2],
    "some columns": lambda x: x[:, 2:7],
    "every other row": lambda x: x[::2],
    "backwards": lambda x: x[::-1],
    "transposed": lambda x: x.T,
    "long rows, transposed": lambda x: x[:40].T[:, ::-1],
    "columns first": lambda x: np.asfortranarray(x)[5:],
    "one column": lambda x: x[:, 3],
    "three dimensions": lambda x: x.reshape(-1, 3, 4)[:, :, 1:],
}


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Pieces that small arrays have many of."""
    monkeypatch.setattr(_staging, "PIECE_BYTES", PIECE)
    monkeypatch.setattr(_staging, "LEAST_PIECE_BYTES", 64)
    monkeypatch.setattr(_staging, "THREAD_BYTES", PIECE)
    monkeypatch.setattr(_staging, "_pieces_of", lambda _: Pieces(PIECE, 8))  # not kept


@pytest.fixture
def link():
    link = FakeLink(200_000, delay=0.0002)
    yield link
    link.end()
    assert not staging_threads()


def staging_threads():
    return [t for t in threading.enumerate() if t.name == "gpuml-staging"]


@pytest.fixture
def values(rng):
    return rng.integers(0, 2**15, size=(600, 12)).astype(np.int32)


# ---------------------------------------------------------------- pieces of arrays


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("most", [1, 4, 13, 100, PIECE, 10**6])
def test_runs_are_all_elements_in_order(name, most, values):
    x = np.asarray(ARRAYS[name](values))
    whole, end = bytearray(x.nbytes), 0
    for part, start in runs(x, most):
        assert start == end
        assert part.base is not None  # nothing was copied
        assert part.nbytes <= max(most, x.itemsize)
        whole[start : start + part.nbytes] = part.tobytes()
        end = start + part.nbytes
    assert end == x.nbytes
    assert bytes(whole) == x.tobytes()


def test_threads_get_some_pieces_each():
    assert piece_bytes(10**9, 4) == PIECE
    assert piece_bytes(1600, 4) == 100
    assert piece_bytes(10, 4) == 64


def test_threads_are_half_the_cores(monkeypatch):
    for cores, wanted in ((1, 1), (2, 1), (4, 2), (16, 8), (128, 8)):
        usable = set(range(cores))
        monkeypatch.setattr(_staging.os, "sched_getaffinity", lambda _, s=usable: s, raising=False)
        assert n_threads() == wanted


# ---------------------------------------------------------------- copies


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("name", ARRAYS)
def test_every_byte_arrives_once(name, threads, values, link):
    x, address = np.asarray(ARRAYS[name](values)), 700
    with Stager(link, Pieces(PIECE, 4), threads) as stager:
        stager.copy(x, address).wait()
    end = address + x.nbytes
    assert link.memory[address:end].tobytes() == x.tobytes()
    assert (link.written[address:end] == 1).all()
    assert link.written.sum() == x.nbytes  # and nothing beside it
    assert link.pinned_bytes <= 4 * PIECE


def test_a_memory_map_arrives(tmp_path, values, link):
    np.save(tmp_path / "x.npy", values)
    x = np.load(tmp_path / "x.npy", mmap_mode="r")
    with Stager(link, Pieces(PIECE, 4), 3) as stager:
        stager.copy(x[7:], 0).wait()
    assert link.memory[: x[7:].nbytes].tobytes() == values[7:].tobytes()


def test_an_event_is_of_all_copies_of_an_array(values, link):
    with Stager(link, Pieces(PIECE, 4), 3) as stager:
        first, second = stager.copy(values, 0), stager.copy(values[::-1], values.nbytes)
        for ticket, expected, start in ((first, values, 0), (second, values[::-1], values.nbytes)):
            ticket.wait()
            ticket.arrived.synchronize()
            there = link.memory[start : start + values.nbytes]
            assert there.tobytes() == expected.tobytes()


def test_pieces_are_kept_and_shared(values, link):
    pieces = Pieces(PIECE, 3)
    for _ in range(3):
        with Stager(link, pieces, 2) as one, Stager(link, pieces, 2) as other:
            tickets = [one.copy(values, 0), other.copy(values, values.nbytes)]
            for ticket in tickets:
                ticket.wait()
    for start in (0, values.nbytes):
        assert link.memory[start : start + values.nbytes].tobytes() == values.tobytes()
    assert link.pinned_bytes <= 3 * PIECE


def test_small_arrays_wake_one_thread(values, link):
    with Stager(link, Pieces(PIECE, 8), 8) as stager:
        assert not staging_threads()
        stager.copy(values[:10], 0).wait()
        assert len(staging_threads()) == 1


# ---------------------------------------------------------------- ends


def test_an_error_of_a_thread_reaches_the_caller(values, link):
    def fails(address):
        if address > 10_000:
            raise RuntimeError("the link is broken")

    link.fails = fails
    pieces = Pieces(PIECE, 2)
    with (
        pytest.raises(RuntimeError, match="link is broken"),
        Stager(link, pieces, 2) as stager,
    ):
        stager.copy(values, 0).wait()
    link.fails = lambda address: None
    with Stager(link, pieces, 2) as stager:  # no piece was lost
        stager.copy(values, 0).wait()
    assert link.memory[: values.nbytes].tobytes() == values.tobytes()


def test_memory_that_cannot_be_locked_is_an_error(values, link):
    def none_left(n_bytes):
        raise MemoryError("no page-locked memory")

    link.pinned = none_left
    with pytest.raises(MemoryError, match="page-locked"), Stager(link, Pieces(PIECE, 2), 2) as s:
        s.copy(values, 0).wait()


def test_close_does_not_wait_for_what_is_not_queued(values, link):
    link.fails = lambda address: time.sleep(0.01)
    stager = Stager(link, Pieces(PIECE, 2), 2)
    stager.copy(values, 0)
    stager.close()
    assert link.n_copies < values.nbytes // PIECE


def test_copies_wait_for_earlier_work_on_the_memory(values, link):
    """Work that the caller queued before may still read what was there."""
    link.memory[: values.nbytes] = 7
    seen = []

    def earlier():
        time.sleep(0.05)
        seen.append(link.memory[: values.nbytes].copy())

    link.own.put(earlier)
    out = SimpleNamespace(device=None, data=SimpleNamespace(ptr=0))
    copy_staged(values, out, stager=lambda _: (Stager(link, Pieces(PIECE, 4), 2), link))
    assert (seen[0] == 7).all()
    assert link.memory[: values.nbytes].tobytes() == values.tobytes()


# ---------------------------------------------------------------- a GPU


@pytest.mark.gpu
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("n_rows", [1, 999, 40_000, 700_001])
def test_uploads(monkeypatch, rng, order, n_rows):
    monkeypatch.undo()  # real sizes
    cupy = pytest.importorskip("cupy")
    x = np.asarray(rng.integers(0, 2**60, size=(n_rows, 9)), order=order)
    with count_transfers() as moved:
        there = _staging.upload(x)
    assert (there.flags.c_contiguous, there.flags.f_contiguous) == (
        x.flags.c_contiguous,
        x.flags.f_contiguous,
    )
    np.testing.assert_array_equal(cupy.asnumpy(there), x)
    assert not moved.counts_everyone or moved.to_device == x.nbytes
    assert not staging_threads()


@pytest.mark.gpu
@pytest.mark.parametrize("name", [name for name in ARRAYS if name not in ("none", "a number")])
def test_every_array_arrives_on_a_gpu(rng, name, values):
    cupy = pytest.importorskip("cupy")
    x = ARRAYS[name](np.tile(values, (50, 1)))
    out = cupy.zeros(x.shape, x.dtype)
    copy_staged(x, out)
    np.testing.assert_array_equal(cupy.asnumpy(out), x)
