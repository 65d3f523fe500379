"""Sums of Huber regression: what is followed from elsewhere is what reading all rows gives."""

from dataclasses import astuple

import numpy as np
import pytest

from gpuml.solvers import huber
from gpuml.solvers.huber import HuberRows


def rows(rng, m=3000, q=4):
    X = rng.normal(size=(m, q)) * rng.lognormal(size=(m, 1))
    coef = rng.normal(size=q)
    return HuberRows(X, X @ coef + rng.standard_t(2, m), rng.integers(0, 3, m).astype(float)), coef


def same(one, other):
    for a, b in zip(astuple(one), astuple(other), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-9)


@pytest.mark.parametrize("way", [0.0, 1e-12, 1e-6, 1e-3])
@pytest.mark.parametrize("beyond", [0.9, 1.0, 1.1])
def test_followed_sums_are_those_of_all_rows(way, beyond, rng, monkeypatch):
    known, coef = rows(rng)
    known.sums(coef, 1.0)
    there = coef + way * rng.normal(size=len(coef))
    with monkeypatch.context() as patch:
        patch.setattr(huber, "FOLLOWED", 1.0)
        patch.setattr(HuberRows, "_summed", None)  # not all of them
        found = known.sums(there, beyond)
    same(found, HuberRows(known.X, known.y, known.weight).sums(there, beyond))


def test_all_rows_are_read_where_many_may_change_sides(rng):
    known, coef = rows(rng)
    known.sums(coef, 1.0)
    before = known._reference
    same(known.sums(0 * coef, 1.0), HuberRows(known.X, known.y, known.weight).sums(0 * coef, 1.0))
    assert known._reference is not before


def test_rows_are_followed_only_until_that_takes_longer(rng):
    known, coef = rows(rng)
    references = []
    for turn in range(100):
        known.sums(coef + 1e-3 * rng.normal(size=len(coef)), 1.0 + 0.01 * (turn % 2))
        references.append(known._reference)
    assert 1 < len(set(map(id, references))) < 50
