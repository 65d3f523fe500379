"""Clustering with scikit-learn's interface; cuML does the work on a GPU."""

from typing import TYPE_CHECKING

from gpuml._settings.first_use import at_first_use
from gpuml.adapters import build
from gpuml.adapters.rows import cluster as _rows
from gpuml.cluster._bisecting import BisectingKMeans
from gpuml.cluster._kmeans import KMeansTogether

if TYPE_CHECKING:  # the classes that `build` makes, with signatures for editors and type checkers
    from sklearn import cluster as sk

    from gpuml.adapters import Adapter

    class AgglomerativeClustering(Adapter, sk.AgglomerativeClustering): ...

    class DBSCAN(Adapter, sk.DBSCAN): ...

    class HDBSCAN(Adapter, sk.HDBSCAN): ...

    class KMeans(KMeansTogether, Adapter, sk.KMeans): ...

    class SpectralClustering(Adapter, sk.SpectralClustering): ...
else:
    AgglomerativeClustering = build(_rows.AGGLOMERATIVE_CLUSTERING, __name__)
    DBSCAN = build(_rows.DBSCAN, __name__)
    HDBSCAN = build(_rows.HDBSCAN, __name__)
    KMeans = build(_rows.KMEANS, __name__, KMeansTogether, multifit_score="inertia")
    SpectralClustering = build(_rows.SPECTRAL_CLUSTERING, __name__)

__all__ = [
    "DBSCAN",
    "HDBSCAN",
    "AgglomerativeClustering",
    "BisectingKMeans",
    "KMeans",
    "SpectralClustering",
]

__getattr__, __dir__ = at_first_use(__name__, mirrors="sklearn.cluster")
