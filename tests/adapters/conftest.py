"""A GPU and cuML that are none, for tests of everything but cuML."""

import pytest

from gpuml.adapters import _fallback
from tests.adapters import fake_cuml


@pytest.fixture
def fake(monkeypatch):
    """`fake_cuml`, in the place of cuML; its `on_device` makes device arrays."""
    fake_cuml.install(monkeypatch)
    monkeypatch.setattr(_fallback, "_said", set())
    return fake_cuml
