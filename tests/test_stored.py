"""Arrays as they travel: packed where they were, given back where their library is."""

import copy
import pickle
import sys
from collections import namedtuple
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.utils import Bunch

import gpuml
from gpuml._persistence import stored as _stored
from gpuml._persistence.stored import Stored, packed, unpacked
from gpuml.linear_model import Ridge
from gpuml.solvers import Status

VALUES = np.arange(6.0).reshape(2, 3)


@pytest.fixture
def gpu(monkeypatch):
    """A device of array-api-strict plays the GPU."""
    strict = pytest.importorskip("array_api_strict")
    place = _stored.place_of(strict.empty(0, device=strict.Device("device1")))
    monkeypatch.setattr(_stored, "has_gpu", lambda: True)
    monkeypatch.setattr(_stored, "gpu_place", lambda: place)
    return place


@pytest.fixture
def no_gpu(monkeypatch):
    monkeypatch.setattr(_stored, "has_gpu", lambda: False)


def of_gpu(values=VALUES, library="cupy"):
    return Stored(values, library, "cuda", "float64")


def test_arrays_of_cupy_go_to_the_gpu_if_there_is_one_and_it_may_be_used(gpu):
    assert _stored.place_of(unpacked(of_gpu())) == gpu
    with gpuml.config_context(device="cpu"):
        assert unpacked(of_gpu()) is VALUES
    with _stored.loading_to("cpu"):
        assert unpacked(of_gpu()) is VALUES
        with _stored.loading_to("cuda"):
            assert _stored.place_of(unpacked(of_gpu())) == gpu


def test_arrays_of_cupy_are_those_of_numpy_without_a_gpu(no_gpu):
    matrix = sparse.csr_matrix(VALUES)
    for setting in ("auto", "cpu", "cuda"):
        with gpuml.config_context(device=setting):
            assert unpacked(of_gpu()) is VALUES
            assert unpacked(of_gpu(matrix, "cupyx")) is matrix
            assert type(unpacked(of_gpu(np.array(2.0)))) is np.float64


@pytest.mark.parametrize("library_name", ["cupy", "cupyx", "torch"])
def test_loading_to_a_gpu_that_is_not_there_is_an_error(library_name, no_gpu, monkeypatch):
    if library_name == "torch":
        torch = pytest.importorskip("torch")
        monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with _stored.loading_to("cuda"):
        with pytest.raises(RuntimeError, match=f"{library_name} is not installed here or sees"):
            unpacked({"coef_": of_gpu(library=library_name)})
        assert unpacked({"coef_": VALUES})["coef_"] is VALUES


def test_tensors_of_a_gpu_are_tensors_on_a_machine_without(monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    again = unpacked(of_gpu(library="torch"))
    assert again.device.type == "cpu"
    np.testing.assert_array_equal(again.numpy(), VALUES)


def test_half_tensors_and_memory_that_is_read_only_come_back():
    torch = pytest.importorskip("torch")
    x = torch.tensor([1.0, 2.5], dtype=torch.bfloat16)
    assert torch.equal(unpacked(packed(x)), x)
    values = VALUES.copy()
    values.flags.writeable = False
    again = unpacked(Stored(values, "torch", "cpu", "float64"))
    assert torch.equal(again, torch.asarray(VALUES))


def test_no_other_library_is_imported_because_a_file_says_so():
    assert unpacked(Stored(VALUES, "antigravity", "cuda", "float64")) is VALUES
    assert "antigravity" not in sys.modules


@pytest.mark.gpu
@pytest.mark.parametrize("kind", ["csr", "csc", "coo"])
def test_sparse_matrices_of_a_gpu_come_back_to_it(kind):
    cupy = pytest.importorskip("cupy")
    cupyx_sparse = pytest.importorskip("cupyx.scipy.sparse")
    matrix = getattr(cupyx_sparse, f"{kind}_matrix")(cupyx_sparse.csr_matrix(cupy.asarray(VALUES)))
    again = pickle.loads(pickle.dumps(Ridge(alpha=matrix))).alpha
    assert type(again) is type(matrix)
    np.testing.assert_array_equal(again.get().toarray(), VALUES)
    with gpuml.config_context(device="cpu"):
        np.testing.assert_array_equal(
            pickle.loads(pickle.dumps(Ridge(alpha=matrix))).alpha.toarray(), VALUES
        )


# ---------------------------------------------------------------- walks

Pair = namedtuple("Pair", "first second")


@dataclass(frozen=True)
class Record:
    held: Any
    name: str = "record"


def with_everything(x):
    """Every kind of container, with `x` in it."""
    objects = np.empty(2, dtype=object)
    objects[0], objects[1] = x, "a"
    masked = np.ma.MaskedArray(objects.copy(), mask=[False, True])
    return {
        "list": [x, [1, (x, None)]],
        "pair": Pair(x, 2),
        "bunch": Bunch(a=x),
        "record": Record((x,)),
        "objects": objects,
        "masked": masked,
        3: x,
    }


def test_arrays_are_packed_wherever_they_are(library):
    x = library.asarray(np.array([1.0, np.nan]))
    state = with_everything(x)
    through = unpacked(pickle.loads(pickle.dumps(packed(state))))
    assert list(through) == list(state)
    assert through["list"][0] is through["pair"].first is through[3]  # shared as before
    assert isinstance(through["pair"], Pair)
    assert isinstance(through["bunch"], Bunch)
    assert isinstance(through["record"], Record)
    np.testing.assert_array_equal(through["masked"].mask, [False, True])
    for value in (
        through["list"][1][1][0],
        through["pair"].first,
        through["bunch"].a,
        through["record"].held[0],
        through["objects"][0],
        through["masked"].data[0],
        through[3],
    ):
        assert type(value) is type(x)
        assert _stored.place_of(value) == _stored.place_of(x)
        np.testing.assert_array_equal(library.to_numpy(value), [1.0, np.nan])


def test_what_every_machine_has_stays_the_same_objects():
    state = with_everything(VALUES)
    assert packed(state) is state
    assert unpacked(state) is state


def test_packing_leaves_the_state_as_it_was(library):
    x = library.asarray(VALUES)
    state = with_everything(x)
    packed(state)
    for value in (
        state["list"][0],
        state["pair"].first,
        state["record"].held[0],
        state["objects"][0],
    ):
        assert value is x


def test_values_that_hold_themselves_are_walked_once():
    loop = [1.0]
    loop.append(loop)
    assert packed(loop) is loop


def test_members_of_enumerations_keep_their_kind():
    assert packed(Status.ROWS) == _stored.Member(Status, "ROWS")
    assert unpacked(copy.copy(packed(Status.ROWS))) is Status.ROWS
