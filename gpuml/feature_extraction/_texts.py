"""Where texts are worked on, and what scikit-learn or cuML are given of them."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuml._arrays import (
    HOST,
    WORTH_MOVING_BYTES,
    compute_place,
    gpu_place,
    has_gpu,
    is_cupyx_sparse,
)
from gpuml._arrays.gathered import gathered
from gpuml._settings.config import current_settings
from gpuml.adapters._fallback import fall_back
from gpuml.feature_extraction import _engine

# A CPU that cuts and counts words takes as long as for so many readings of the text.
READINGS = 20


@dataclass(frozen=True)
class Texts:
    """Documents, and where they are worked on.

    Attributes
    ----------
    documents : iterable of str, or cudf.Series
        A series if cuML is to do the work.
    on_gpu : bool
        Whether cuML does the work.
    stays : bool
        Whether the matrix is to stay on the GPU.
    """

    documents: Any
    on_gpu: bool
    stays: bool

    def home(self, X: Any, dtype: Any) -> Any:
        """A matrix where it was asked for; in CPU memory in a dtype."""
        if self.stays:
            return X if is_cupyx_sparse(X) else _engine.to_gpu(X)
        return X if not self.on_gpu else _engine.to_host(X, dtype)


def place_texts(model: Any, raw: Any, method: str) -> Texts:
    """Decide where texts are worked on.

    A cuDF series stays on its GPU, and so does what is made of it. Other texts go to a GPU where
    the settings say so: with ``device="cuda"`` the matrix stays there; with "auto", for many
    texts, it comes back.

    Raises
    ------
    FallbackError
        If cuML cannot do it, and ``fallback="error"``.
    RuntimeError
        If a GPU is asked for and there is none.
    ValueError
        For missing documents of a cuDF series.
    """
    setting, raw = current_settings().device, gathered(raw)
    if _engine.is_series(raw):
        return _on_gpu(model, raw, method, stays=True)
    if isinstance(raw, str) or setting == "cpu" or (setting == "auto" and not has_gpu()):
        return Texts(_readable(raw), False, False)
    if setting == "cuda":
        compute_place(np.empty(0), 0, setting)  # raises where there is no GPU
        return _on_gpu(model, _listed(raw), method, stays=True)
    texts = _listed(raw)
    if _size(texts) * READINGS < WORTH_MOVING_BYTES or not _engine.is_installed():
        return Texts(texts, False, False)
    return _on_gpu(model, texts, method, stays=False)


def _on_gpu(model, texts, method, *, stays):
    refused = _engine.refusal(model)
    if not _engine.is_installed():
        reason = "cuML is not installed"
    elif refused is not None:
        reason = f"cuML has no {refused}"
    else:
        series = texts if _engine.is_series(texts) else _engine.series_of(texts)
        reason = _objection(series, bool(model.lowercase))
        if reason is None:
            return Texts(series, True, stays)
    if not _engine.is_series(texts):
        fall_back(model, method, reason, HOST)
        return Texts(texts, False, stays)
    fall_back(model, method, reason, gpu_place())
    return Texts(_engine.listed(texts), False, stays)


def _objection(series, lowercase):
    """Why cuML would read texts otherwise than scikit-learn, or cannot; None if it would not."""
    if series is None:
        return "cuML reads strings only"
    if _engine.has_missing(series):
        raise ValueError("np.nan is an invalid document, expected byte or unicode string.")
    odd = _engine.odd_characters(series, lowercase)
    return f"cuDF reads the characters {odd!r} otherwise than Python" if odd else None


def _readable(raw):
    # Scalars of Arrow are no strings.
    return raw.to_pylist() if hasattr(raw, "to_pylist") else raw


def _listed(raw):
    """Texts that can be read twice."""
    raw = _readable(raw)
    return raw if hasattr(raw, "__len__") else list(raw)


def _size(texts):
    return sum(len(text) for text in texts if isinstance(text, str | bytes))
