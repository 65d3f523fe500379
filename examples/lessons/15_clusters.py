"""How many clusters? A curve over k
=================================

gpuml fits k-means for all numbers of clusters and all starts together, so the curve costs little
more than its largest k.
"""

from matplotlib import pyplot as plt
from sklearn.datasets import make_blobs

from gpuml.cluster import KMeans
from gpuml.inspection import ClusterCurveDisplay

# %%
# Six clouds of points.
X, _ = make_blobs(1500, centers=6, cluster_std=0.8, random_state=7)
model = KMeans(n_init=3, random_state=0)

# %%
# The inertia always falls: look for the bend. The silhouette has a maximum, which is the number of
# clusters to take.
axes = plt.subplots(1, 3, figsize=(11, 3.5), layout="tight")[1]
ClusterCurveDisplay.from_estimator(model, X, n_clusters=range(2, 11), ax=axes[0])
ClusterCurveDisplay.from_estimator(
    model, X, n_clusters=range(2, 11), metric="silhouette", sample_size=800, ax=axes[1]
)
labels = KMeans(6, n_init=3, random_state=0).fit_predict(X)
axes[2].scatter(*X.T, c=labels, s=4, cmap="tab10")
axes[2].set_title("six clusters")
plt.show()
