"""While cuML works, RMM takes memory from a pool, unless somebody has seen to that."""

import sys
import threading
from types import SimpleNamespace

import pytest

from gpuml.adapters import _cuml_memory
from gpuml.adapters._cuml_memory import pooled_memory


class CudaMemoryResource:
    """RMM's own default."""


class Watched(CudaMemoryResource):
    """One that somebody has derived of it."""


class CudaAsyncMemoryResource:
    def __init__(self, release_threshold):
        self.kept = release_threshold


class Rmm:
    """What is used of `rmm.mr`, for GPUs of 8 GB."""

    CudaMemoryResource, CudaAsyncMemoryResource = CudaMemoryResource, CudaAsyncMemoryResource

    def __init__(self):
        self.resources = {0: CudaMemoryResource(), 1: CudaMemoryResource()}
        self.current = 0

    def get_per_device_resource(self, device):
        return self.resources[device]

    def set_per_device_resource(self, device, resource):
        self.resources[device] = resource

    def Device(self, device=None):
        return SimpleNamespace(id=self.current if device is None else device, mem_info=(1, 2**33))


@pytest.fixture
def rmm(monkeypatch):
    found = Rmm()
    monkeypatch.setitem(sys.modules, "rmm", SimpleNamespace(mr=found))
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=found))
    _cuml_memory._turn_of.cache_clear()
    yield found
    _cuml_memory._turn_of.cache_clear()


def test_memory_is_pooled_within(rmm):
    before = dict(rmm.resources)
    with pooled_memory():
        pool = rmm.resources[0]
        assert type(pool) is CudaAsyncMemoryResource
        assert pool.kept == 2**29, "a sixteenth of the memory"
        assert rmm.resources[1] is before[1]
        with pooled_memory():
            assert rmm.resources[0] is pool
        assert rmm.resources[0] is pool
    assert rmm.resources == before
    with pooled_memory():
        assert rmm.resources[0] is pool, "there is one, which may still have arrays"
    with pytest.raises(ValueError, match="of cuML"), pooled_memory():
        raise ValueError("of cuML")
    assert rmm.resources == before


def test_each_gpu_has_a_pool_of_its_own(rmm):
    with pooled_memory():
        rmm.current = 1
        with pooled_memory():
            assert len({id(resource) for resource in rmm.resources.values()}) == 2
            assert all(type(r) is CudaAsyncMemoryResource for r in rmm.resources.values())
    assert all(type(r) is CudaMemoryResource for r in rmm.resources.values())


@pytest.mark.parametrize("kind", [Watched, object])
def test_what_somebody_has_set_stays(rmm, kind):
    rmm.resources[0] = own = kind()
    with pooled_memory():
        assert rmm.resources[0] is own
    assert rmm.resources[0] is own


def test_what_somebody_sets_meanwhile_stays(rmm):
    with pooled_memory():
        rmm.resources[0] = own = Watched()
    assert rmm.resources[0] is own


def test_a_driver_without_pools(rmm, monkeypatch):
    def refuse(release_threshold):
        raise RuntimeError("cudaErrorNotSupported")

    monkeypatch.setattr(Rmm, "CudaAsyncMemoryResource", staticmethod(refuse))
    before = dict(rmm.resources)
    with pooled_memory():
        assert rmm.resources == before


def test_the_last_of_several_threads_gives_it_back(rmm):
    before, inside, done = dict(rmm.resources), threading.Event(), threading.Event()

    def work():
        with pooled_memory():
            inside.set()
            done.wait(10)

    thread = threading.Thread(target=work)
    with pooled_memory():
        thread.start()
        assert inside.wait(10)
    assert type(rmm.resources[0]) is CudaAsyncMemoryResource
    done.set()
    thread.join()
    assert rmm.resources == before


def test_nothing_is_imported_for_it(monkeypatch):
    monkeypatch.delitem(sys.modules, "rmm", raising=False)
    monkeypatch.setitem(sys.modules, "cupy", None)  # an import of it fails
    with pooled_memory():
        pass


@pytest.mark.gpu
def test_arrays_of_the_pool_stay():
    cluster = pytest.importorskip("cuml.cluster")
    import cupy
    from rmm import mr

    before = mr.get_current_device_resource()
    X = cupy.random.standard_normal((1000, 8), dtype="float32")
    with pooled_memory():
        if type(before) is mr.CudaMemoryResource:
            assert type(mr.get_current_device_resource()) is mr.CudaAsyncMemoryResource
        model = cluster.KMeans(n_clusters=3, random_state=0).fit(X)
    assert mr.get_current_device_resource() is before
    assert int(cupy.asarray(model.labels_).max()) == 2
