"""Embeddings with the interface of scikit-learn and umap-learn; on a GPU cuML does the work."""

from typing import TYPE_CHECKING

from gpuml._settings.first_use import at_first_use
from gpuml.adapters import build
from gpuml.adapters.rows import manifold as _rows

if TYPE_CHECKING:  # what `build` gives, with signatures for editors and type checkers
    from sklearn import manifold as sk

    from gpuml.adapters import Adapter, _umap_learn

    class SpectralEmbedding(Adapter, sk.SpectralEmbedding): ...

    class TSNE(Adapter, sk.TSNE): ...

    class UMAP(Adapter, _umap_learn.UMAP): ...
else:
    SpectralEmbedding = build(_rows.SPECTRAL_EMBEDDING, __name__)
    TSNE = build(_rows.TSNE, __name__)
    UMAP = build(_rows.UMAP, __name__)

__all__ = ["TSNE", "UMAP", "SpectralEmbedding"]

__getattr__, __dir__ = at_first_use(__name__, mirrors="sklearn.manifold")
