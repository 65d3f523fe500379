"""Laws of all rows of the table."""

import pytest

from gpuml._travel import Travels
from gpuml.adapters import Adapter, all_rows

ROWS = all_rows()


@pytest.mark.parametrize("path", ROWS)
def test_adapters_hide_nothing_of_scikit_learn(path):
    # Its methods call its private ones: a name of ours in front of one of these would be called.
    ours = {name for kind in (Adapter, Travels) for name in vars(kind) if not name.startswith("__")}
    assert not ours & set(dir(ROWS[path].sk))


@pytest.mark.parametrize("path", ROWS)
def test_names_of_rows_are_those_of_scikit_learn(path):
    row = ROWS[path]
    for name in row.methods:
        assert callable(getattr(row.sk, name, None)), name
    assert not set(row.light) & set(row.absent)
    assert not set(row.kept) & set(row.absent)
