"""The combinations that `make test` runs have every pair of values, and are few."""

from itertools import combinations, product
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tests import seconds as times
from tests.conftest import ENOUGH, mark_other_combinations, mark_what_takes_long
from tests.pairs import cover

ROOT = Path(__file__).parents[1]
SIZES = [(2, 2, 2), (4, 3, 2, 2), (5, 4, 3, 2, 2, 2), (32, 5, 4, 2), (7, 7, 7)]


def pairs(rows):
    return {pair for row in rows for pair in combinations(enumerate(row), 2)}


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_every_pair_of_a_product_is_there_and_few_more(sizes):
    rows = list(product(*map(range, sizes)))
    chosen = [rows[i] for i in cover(rows)]
    assert pairs(chosen) == pairs(rows)
    largest = np.prod(sorted(sizes)[-2:])  # no fewer have all pairs of these two
    assert largest <= len(chosen) <= 1.7 * largest


def test_combinations_need_be_no_product(rng):
    rows = list(dict.fromkeys(map(tuple, rng.integers(0, 4, (60, 4)).tolist())))
    kept = cover(rows)
    assert pairs([rows[i] for i in kept]) == pairs(rows)
    assert kept == sorted(set(kept))
    assert kept == cover(rows)


@pytest.mark.parametrize("sizes", [(0,), (1,), (5,), (3, 4), (1, 1, 1)], ids=str)
def test_of_one_or_two_parameters_nothing_is_left_out(sizes):
    rows = list(product(*map(range, sizes)))
    assert cover(rows) == list(range(len(rows)))


def test_every_value_may_be_enough():
    rows = list(product(range(4), range(30)))
    chosen = [rows[i] for i in cover(rows, 1)]
    assert [set(column) for column in zip(*chosen, strict=True)] == [set(range(4)), set(range(30))]
    assert len(chosen) == 30


def test_combinations_are_of_the_same_parameters():
    with pytest.raises(ValueError, match="same parameters"):
        cover([(1, 2), (1,)])


class Item:
    """What is looked at of a test of pytest's."""

    def __init__(self, function, params, *marks):
        self.nodeid = f"tests/test_a.py::{function}[{params}]"
        self.callspec = SimpleNamespace(params=dict(enumerate(params)))
        self.marks = list(marks)

    def get_closest_marker(self, name):
        return name if name in self.marks else None

    def add_marker(self, mark):
        self.marks.append(mark.name)


@pytest.mark.parametrize("mark", ENOUGH)
def test_the_others_are_marked_unless_their_function_is_not(mark):
    rows = list(product([[0.0], [1.0], [2.0]], repeat=4))  # values need not be hashable
    plain = [Item("plain", row) for row in rows]
    marked = [Item("marked", row, mark) for row in rows]
    on_gpu = [Item("marked", row, mark, "gpu") for row in rows]
    mark_other_combinations([*plain, *marked, *on_gpu])
    assert not any("exhaustive" in item.marks for item in plain)
    for items in (marked, on_gpu):  # each covered by itself
        kept = [i for i, item in enumerate(items) if "exhaustive" not in item.marks]
        assert kept == list(ENOUGH[mark]([tuple(map(id, row)) for row in rows]))
        assert len(kept) <= len(rows) / 3


def test_slow_functions_keep_a_sample_of_their_cases():
    cases = {
        name: [Item(name, (i,), *marks) for i in range(20)]
        for name, *marks in [("fast",), ("slow",), ("slowest",), ("too_slow",), ("slow_gpu", "gpu")]
    }
    seconds = {"slow": 0.05, "slowest": 0.7, "too_slow": 9.0, "slow_gpu": 9.0}
    seconds = {f"tests/test_a.py::{name}": each for name, each in seconds.items()}
    items = [item for each in cases.values() for item in each]
    mark_what_takes_long(items, seconds)
    kept = {name: ["exhaustive" not in item.marks for item in each] for name, each in cases.items()}
    assert {name: sum(each) for name, each in kept.items()} == {
        "fast": 20,
        "slow": 4,
        "slowest": 1,
        "too_slow": 0,
        "slow_gpu": 20,
    }
    for item in items:
        item.marks = [mark for mark in item.marks if mark != "exhaustive"]
    mark_what_takes_long(items, seconds)
    assert kept == {
        name: ["exhaustive" not in item.marks for item in each] for name, each in cases.items()
    }


def test_seconds_are_recorded_of_functions_that_need_them(tmp_path, monkeypatch):
    monkeypatch.setattr(times, "FILE", tmp_path / "seconds.json")
    times.record(
        {"a.py::f[1]": 0.3, "a.py::f[2]": 0.5, "a.py::g": 0.7, "a.py::h": 3.0, "b.py::k": 0.1}
    )
    assert times.recorded() == {"a.py::f": 0.4, "a.py::h": 3.0}


def test_functions_with_seconds_exist():
    files = {function.partition("::")[0] for function in times.recorded()}
    assert [file for file in files if not (ROOT / file).exists()] == []
