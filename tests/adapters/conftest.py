"""A GPU, cuML and scikit-learn-intelex that are none, for tests of everything but these."""

import pytest

from gpuml.adapters import _fallback
from tests.adapters import fake_cuml, fake_sklearnex


@pytest.fixture
def fake(monkeypatch):
    """`fake_cuml`, in the place of cuML; its `on_device` makes device arrays."""
    fake_cuml.install(monkeypatch)
    monkeypatch.setattr(_fallback, "_said", set())
    return fake_cuml


@pytest.fixture
def intelex(monkeypatch):
    """`fake_sklearnex`, in the place of scikit-learn-intelex."""
    fake_sklearnex.install(monkeypatch)
    monkeypatch.setattr(_fallback, "_said", set())
    return fake_sklearnex
