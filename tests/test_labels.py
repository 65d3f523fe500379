"""Labels of classes as codes, and how many there are of each."""

from types import SimpleNamespace

import numpy as np
import pytest

from gpuml import _labels
from gpuml._labels import encode


@pytest.mark.parametrize("few_labels", [0, 1000])
@pytest.mark.parametrize("n_classes", [1, 2, 9, 5000])
def test_labels_counted_at_several_places_are_counted(
    library, rng, monkeypatch, n_classes, few_labels
):
    """As on a GPU, wherever the labels are; few of them are counted by the host."""
    if library.name not in ("numpy", "torch", "cupy"):
        pytest.skip("integers are sorted there")
    known = _labels.place_of

    def as_on_a_gpu(x):
        # The host itself has to stay one where labels come to it.
        is_host = isinstance(x, np.ndarray) and few_labels > 0
        return SimpleNamespace(kind=known(x).kind, device=known(x).device, is_host=is_host)

    monkeypatch.setattr(_labels, "SPREAD_BINS", 100)
    monkeypatch.setattr(_labels, "FEW_LABELS", few_labels)
    monkeypatch.setattr(_labels, "place_of", as_on_a_gpu)
    monkeypatch.setattr(_labels, "move", lambda x, at: x if at.is_host else library.asarray(x))
    labels = rng.integers(-3, n_classes - 3, size=777)
    classes, codes, counts = np.unique(labels, return_inverse=True, return_counts=True)
    found = encode(library.asarray(labels))
    np.testing.assert_array_equal(library.to_numpy(found.codes), codes)
    np.testing.assert_array_equal(library.to_numpy(found.classes), classes)
    np.testing.assert_array_equal(found.counts, counts)
