"""Stretches of files that memory maps are made of."""

import numpy as np
import pytest

from gpuml.reading.files import stretch_of

PARTS = {
    "all": lambda x: x,
    "rows": lambda x: x[3:7],
    "rows of rows": lambda x: x[2:][4:9],
    "a view": lambda x: np.asarray(x)[5:],
    "bytes": lambda x: x[4:6].view(np.uint8),
}


@pytest.fixture
def stored(tmp_path, rng):
    a = rng.normal(size=(20, 5))
    np.save(tmp_path / "a.npy", a)
    return np.load(tmp_path / "a.npy", mmap_mode="r")


@pytest.mark.parametrize("name", PARTS)
def test_a_stretch_holds_the_elements(stored, name):
    part = PARTS[name](stored)
    stretch = stretch_of(part)
    with open(stretch.path, "rb") as file:
        file.seek(stretch.offset)
        read = file.read(stretch.n_bytes)
    assert read == part.tobytes()


def test_what_is_no_stretch(stored):
    assert stretch_of(stored[:, 1:3]) is None
    assert stretch_of(stored[::2]) is None
    assert stretch_of(np.array(stored)) is None
    assert stretch_of(stored[0].sum()) is None
