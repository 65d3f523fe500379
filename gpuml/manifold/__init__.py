"""Embeddings with the interface of scikit-learn and umap-learn; on a GPU cuML does the work."""

from gpuml._settings.first_use import at_first_use
from gpuml.adapters import build
from gpuml.adapters.rows import manifold as _rows

SpectralEmbedding = build(_rows.SPECTRAL_EMBEDDING, __name__)
TSNE = build(_rows.TSNE, __name__)
UMAP = build(_rows.UMAP, __name__)

__all__ = ["TSNE", "UMAP", "SpectralEmbedding"]

__getattr__, __dir__ = at_first_use(__name__, mirrors="sklearn.manifold")
