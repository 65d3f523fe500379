"""An import of cuML leaves CuPy's allocator as it was, unless RMM has a pool."""

import sys
from types import SimpleNamespace

import pytest

from gpuml._cuml import import_cuml

# What cuML does when it is imported.
CUML = "import cupy\ncupy.cuda.set_allocator('that of RMM')\n"


class CudaMemoryResource:
    """Asks the driver."""


class PoolMemoryResource:
    """Has a pool."""


@pytest.fixture
def used(monkeypatch, tmp_path):
    """Allocators that were set, the last one in use."""
    allocators = ["that of CuPy"]
    cuda = SimpleNamespace(get_allocator=lambda: allocators[-1], set_allocator=allocators.append)
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=cuda))
    monkeypatch.delitem(sys.modules, "cuml", raising=False)
    (tmp_path / "cuml.py").write_text(CUML)
    monkeypatch.syspath_prepend(tmp_path)
    yield allocators
    sys.modules.pop("cuml", None)


@pytest.mark.parametrize(
    ("resource", "kept"),
    [(CudaMemoryResource(), "that of CuPy"), (PoolMemoryResource(), "that of RMM")],
    ids=["driver", "pool"],
)
def test_the_allocator_stays_unless_rmm_has_a_pool(monkeypatch, used, resource, kept):
    mr = SimpleNamespace(
        get_current_device_resource=lambda: resource, CudaMemoryResource=CudaMemoryResource
    )
    monkeypatch.setitem(sys.modules, "rmm", SimpleNamespace(mr=mr))
    assert import_cuml() is sys.modules["cuml"]
    assert used[1] == "that of RMM"
    assert used[-1] == kept


def test_what_a_user_has_set_after_an_import_of_cuml_is_left_alone(monkeypatch, used):
    there = SimpleNamespace()
    monkeypatch.setitem(sys.modules, "cuml", there)
    assert import_cuml() is there
    assert used == ["that of CuPy"]


@pytest.mark.gpu
def test_on_a_gpu_a_model_of_cuml_leaves_the_allocator():
    """In a process of its own: this one may have imported cuML before."""
    import subprocess

    pytest.importorskip("cuml")
    code = """
import cupy, numpy as np, rmm
from gpuml.cluster import KMeans
before = cupy.cuda.get_allocator()
model = KMeans(3, n_init=1, random_state=0).fit(cupy.random.random((1000, 5)))
assert type(model.labels_) is cupy.ndarray
assert cupy.cuda.get_allocator() == before
"""
    subprocess.run([sys.executable, "-c", code], check=True)
