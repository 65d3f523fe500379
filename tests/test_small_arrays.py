"""Where RMM is CuPy's allocator, small arrays come from a pool of CuPy, and large ones from RMM."""

import subprocess
import sys
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from gpuml._arrays import small_arrays as _small_arrays
from gpuml._arrays.small_arrays import SMALL_BYTES, small_arrays


class Machine:
    """CuPy on top of RMM; `is_full` until the pool gives back what it has left over."""

    def __init__(self):
        self.allocator = self.rmm = self.from_rmm
        self.is_full = False
        self.n_pools = self.n_freed = 0
        self.cupy = SimpleNamespace(cuda=self)

    def from_rmm(self, n_bytes):
        if self.is_full:
            raise MemoryError
        return "from RMM"

    # What CuPy has.

    def get_allocator(self):
        return self.allocator

    @contextmanager
    def using_allocator(self, allocator):
        before, self.allocator = self.allocator, allocator
        try:
            yield
        finally:
            self.allocator = before

    def MemoryPool(self, upstream):
        self.n_pools += 1
        return self

    def malloc(self, n_bytes):
        self.from_rmm(n_bytes)
        return "from the pool"

    def free_all_blocks(self):
        self.is_full = False
        self.n_freed += 1


@pytest.fixture
def machine(monkeypatch):
    machine = Machine()
    rmm = SimpleNamespace(rmm_cupy_allocator=machine.rmm)
    monkeypatch.setitem(sys.modules, "cupy", machine.cupy)
    monkeypatch.setitem(sys.modules, "rmm.allocators.cupy", rmm)
    _small_arrays._pool.cache_clear()
    yield machine
    _small_arrays._pool.cache_clear()


def test_small_arrays_come_from_the_pool_and_go_back_at_the_end(machine):
    for _ in range(2):
        before = machine.n_freed
        with small_arrays():
            assert machine.allocator(SMALL_BYTES) == "from the pool"
            assert machine.allocator(SMALL_BYTES + 1) == "from RMM"
            assert machine.n_freed == before
        assert machine.allocator == machine.rmm
        assert machine.n_freed == before + 1
    assert machine.n_pools == 1  # arrays of a pool that is given up have no memory


@pytest.mark.parametrize("n_bytes", [1, SMALL_BYTES + 1])
def test_what_is_left_over_goes_back_before_memory_is_short(machine, n_bytes):
    with small_arrays():
        machine.is_full = True
        assert machine.allocator(n_bytes)
        assert machine.n_freed == 1


def test_memory_that_is_short_stays_an_error(machine):
    machine.free_all_blocks = lambda: None
    with small_arrays():
        machine.is_full = True
        with pytest.raises(MemoryError):
            machine.allocator(1)


def test_an_error_leaves_the_allocator_as_it_was(machine):
    with pytest.raises(RuntimeError), small_arrays():
        raise RuntimeError
    assert machine.allocator == machine.rmm
    assert machine.n_freed == 1


def test_other_allocators_are_left_alone(machine):
    machine.allocator = other = machine.malloc
    with small_arrays():
        assert machine.allocator == other
    assert machine.n_pools == 0


def test_nothing_is_imported_for_it(monkeypatch):
    for name in ("cupy", "rmm.allocators.cupy"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    with small_arrays():
        assert "cupy" not in sys.modules


@pytest.mark.gpu
def test_arrays_outlive_their_block_and_memory_goes_back():
    """In a process of its own, because RMM takes memory for good."""
    pytest.importorskip("rmm")
    code = """
import cupy, rmm
from rmm.allocators.cupy import rmm_cupy_allocator
from gpuml._arrays.small_arrays import small_arrays

rmm.reinitialize(pool_allocator=True, initial_pool_size=2**27, maximum_pool_size=2**27)
cupy.cuda.set_allocator(rmm_cupy_allocator)
with small_arrays():
    kept = [cupy.full(1000 * i, i) for i in range(1, 50)]
    for _ in range(100):  # 2 GB in all, of a pool of 128 MiB
        big = cupy.full(2**21, 1.0)
        del big
assert cupy.cuda.get_allocator() == rmm_cupy_allocator
for i, x in enumerate(kept, start=1):
    assert bool((x == i).all())
with small_arrays():
    some = [cupy.zeros(2**21) for _ in range(6)]  # 96 MiB
    del some
    larger = cupy.zeros(12 * 2**20)  # as much again, in one piece
"""
    subprocess.run([sys.executable, "-c", code], check=True)
