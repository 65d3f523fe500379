"""An import of cuML or cuDF leaves CuPy's allocator as it was, unless RMM has a pool."""

import sys
from types import SimpleNamespace

import pytest

from gpuml._cuml import import_cudf, import_cuml

# What cuML and cuDF do when they are imported.
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
    for name in ("cuml", "cudf"):
        monkeypatch.delitem(sys.modules, name, raising=False)
        (tmp_path / f"{name}.py").write_text(CUML)
    monkeypatch.syspath_prepend(tmp_path)
    yield allocators
    for name in ("cuml", "cudf"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("resource", "kept"),
    [(CudaMemoryResource(), "that of CuPy"), (PoolMemoryResource(), "that of RMM")],
    ids=["driver", "pool"],
)
@pytest.mark.parametrize(("load", "name"), [(import_cuml, "cuml"), (import_cudf, "cudf")])
def test_the_allocator_stays_unless_rmm_has_a_pool(monkeypatch, used, resource, kept, load, name):
    mr = SimpleNamespace(
        get_current_device_resource=lambda: resource, CudaMemoryResource=CudaMemoryResource
    )
    monkeypatch.setitem(sys.modules, "rmm", SimpleNamespace(mr=mr))
    assert load() is sys.modules[name]
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
from gpuml import set_config
from gpuml.cluster import KMeans
from gpuml.feature_extraction.text import HashingVectorizer
before = cupy.cuda.get_allocator()
set_config(device="cuda", fallback="error")
assert HashingVectorizer().fit_transform(["one text", "another"]).shape[0] == 2
assert cupy.cuda.get_allocator() == before
model = KMeans(3, n_init=1, random_state=0).fit(cupy.random.random((1000, 5)))
assert type(model.labels_) is cupy.ndarray
assert cupy.cuda.get_allocator() == before
"""
    subprocess.run([sys.executable, "-c", code], check=True)
