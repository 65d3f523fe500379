"""Bisecting k-means: a search fits the candidate with most clusters, which contains the others."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import wraps
from numbers import Integral
from typing import Any

import numpy as np
from sklearn import cluster as sk
from sklearn.base import clone

from gpuml._arrays import Array, as_array, is_array, is_cupyx_sparse, is_numpy, is_sparse
from gpuml._arrays.gathered import gathered
from gpuml._inputs.validation import check_rows, check_weight
from gpuml._persistence.travel import Travels
from gpuml._sklearn import _openmp_effective_n_threads
from gpuml.cluster._kmeans import points_of, refuse_few
from gpuml.data import Batch, Folds, resident, whole
from gpuml.extending import ClusterStack, MultifitEstimator
from gpuml.solvers.clusters import costs

# Typical number of iterations of a bisection.
TYPICAL_STEPS = 20


class BisectingKMeans(Travels, MultifitEstimator, sk.BisectingKMeans):
    """K-means clusters, made by bisecting one cluster after another.

    scikit-learn fits the model, in CPU memory. The first k clusters of a fit do not depend on how
    many follow, so a `gpuml.model_selection` search over `n_clusters` fits only the largest value
    on each training set, and takes the models with fewer clusters from this fit.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    init : {"k-means++", "random"} or callable, default="random"
        How to choose the two initial centres of a bisection.
    n_init : int, default=1
        Number of runs of each bisection; the best one is kept.
    random_state : int, RandomState instance or None, default=None
        Seed of the initial centres. Searches fit candidates one by one unless it is a number.
    max_iter : int, default=300
        The most iterations of a bisection.
    verbose : int, default=0
        Searches fit candidates one by one unless it is 0.
    tol : float, default=1e-4
        A bisection stops when its centres move by less than this.
    copy_x : bool, default=True
        Whether to centre a copy of X. False centres X in place and undoes it afterwards.
    algorithm : {"lloyd", "elkan"}, default="lloyd"
        The k-means algorithm of a bisection.
    bisecting_strategy : {"biggest_inertia", "largest_cluster"}, default="biggest_inertia"
        Which cluster to bisect next: the one with the largest inertia, or with the most rows.

    Attributes
    ----------
    cluster_centers_ : ndarray of shape (n_clusters, n_features)
        Centres of the clusters.
    labels_ : ndarray of shape (n_samples,)
        The cluster of each row.
    inertia_ : float
        Weighted sum of squared distances of the rows to their centres.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    KMeans : Fits all clusters together.

    References
    ----------
    M. Steinbach, G. Karypis, V. Kumar, "A comparison of document clustering techniques", KDD
    workshop on text mining (2000).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from gpuml.cluster import BisectingKMeans
    >>> from gpuml.model_selection import GridSearchCV
    >>> grid = {"n_clusters": [2, 3, 4]}
    >>> search = GridSearchCV(BisectingKMeans(random_state=0), grid).fit(load_iris().data)
    >>> search.best_params_
    {'n_clusters': 4}
    """

    multifit_params = ("n_clusters",)
    multifit_score = "inertia"

    def multifit_obstacle(self, X: Any) -> str | None:
        """Why candidates are fitted one by one."""
        if not isinstance(self.random_state, Integral):
            return f"random_state={self.random_state!r}, which is not a number,"
        if callable(self.init):
            return "callable init"
        if self.verbose:
            return f"verbose={self.verbose!r}"
        X = as_array(X)
        if is_sparse(X) or is_cupyx_sparse(X):
            return "sparse X"
        return "X on a device" if is_array(X) and not is_numpy(X) else None

    def multifit_batch(self, X: Any, y: Any = None, sample_weight: Any = None) -> Batch:
        """Check the rows of a search."""
        X = check_rows(self, X, reset=True, dtype=["float64", "float32"])
        return resident(X, np.zeros_like(X[:, :0]), check_weight(sample_weight, X), "cpu")

    def multifit_work(
        self, n_rows: int, n_features: int, n_targets: int, n_models: int
    ) -> tuple[int | None, float]:
        """Approximate flops of the bisections of one model per training part."""
        flops = 4.0 * n_rows * n_features * max(1.0, np.log2(self.n_clusters))
        return None, self.n_init * TYPICAL_STEPS * flops

    def multifit(
        self,
        folds: Folds,
        candidates: Sequence[Mapping[str, Any]],
        advance: Callable[[int], None] | None = None,
    ) -> "BisectingStack":
        """Fit every candidate on the training part of every split; see `MultifitEstimator`."""
        for each in candidates:
            clone(self).set_params(**each)._validate_params()
        sizes = [each.get("n_clusters", self.n_clusters) for each in candidates]
        refuse_few(folds, max(sizes))
        largest = clone(self).set_params(n_clusters=max(sizes))
        fits = []
        for split in folds.splits:
            fits.append(_Tree.of(largest, folds.batch, split.train))
            if advance is not None:
                advance(split.n_train)
        return BisectingStack(largest, folds, sizes, fits)


def _of_rows_here(theirs: Callable[..., Any]) -> Callable[..., Any]:
    """A method of scikit-learn's class, for collections of Dask too."""

    @wraps(theirs)
    def method(self, X, *args, **kwargs):
        kwargs = {name: gathered(value) for name, value in kwargs.items()}
        return theirs(self, gathered(X), *map(gathered, args), **kwargs)

    return method


for _name in ("fit", "fit_predict", "fit_transform", "predict", "score", "transform"):
    setattr(BisectingKMeans, _name, _of_rows_here(getattr(sk.BisectingKMeans, _name)))


@dataclass(frozen=True)
class _Tree:
    """The tree of bisections of a fitted model, from one cluster of all rows to the final ones."""

    model: Any
    rows: Any

    @classmethod
    def of(cls, model: Any, batch: Batch, rows: Any) -> "_Tree":
        points = points_of(batch, rows, 0.0, weighted=True)
        return cls(clone(model).fit(points.X, sample_weight=points.weight), rows)

    @property
    def mean(self) -> Array:
        return self.model._X_mean

    def first(self, k: int) -> Any:
        """The root of a copy of the tree whose leaves are the first k clusters, with labels."""
        root = copy(self.model._bisecting_tree)
        ends = [(root, root.left, root.right)]
        root.left = root.right = None
        for _ in range(k - 1):
            at = int(np.argmax([node.score for node, _, _ in ends]))  # the first of equal scores
            node, *below = ends[at]
            node.left, node.right = (copy(each) for each in below)
            ends[at : at + 1] = [(each, each.left, each.right) for each in (node.left, node.right)]
            for each in (node.left, node.right):
                each.left = each.right = None
        for label, (node, _, _) in enumerate(ends):
            node.label = label
        return root

    def centres(self, k: int) -> np.ndarray:
        """Centres (k, p) of the first k clusters, less the mean of the rows."""
        return np.stack([node.center for node in self.first(k).iter_leaves()])

    def labels(self, k: int) -> np.ndarray:
        """For each row, which of the first k clusters contains it."""
        owners = np.empty(self.model.n_clusters, dtype=np.int32)
        for owner, last in _pairs(self.first(k), self.model._bisecting_tree):
            owners[last] = owner
        return owners[self.model.labels_]


def _pairs(short: Any, long: Any) -> Iterator[tuple[int, int]]:
    """Pairs of labels: a leaf of the short tree, and a leaf of the long tree below it."""
    if short.left is None:
        yield from ((short.label, leaf.label) for leaf in long.iter_leaves())
    else:
        yield from _pairs(short.left, long.left)
        yield from _pairs(short.right, long.right)


@dataclass(frozen=True)
class BisectingStack(ClusterStack):
    """Clusters of all candidates on all splits."""

    model: Any
    folds: Folds
    sizes: Sequence[int]
    fits: Sequence[_Tree]
    known: dict[int, _Tree] = field(default_factory=dict)

    words = "the largest n_clusters is fitted, and gives the smaller ones"

    @property
    def n_candidates(self) -> int:
        return len(self.sizes)

    @property
    def n_passes(self) -> int:
        """About one pass for each bisection."""
        return max(self.sizes)

    def inertia(self, part: str, weighted: bool) -> Array:
        """Costs (C, S) of the "train" or "test" rows of all splits; see `ClusterStack`."""
        columns = []
        for tree, split in zip(self.fits, self.folds.splits, strict=True):
            rows = getattr(split, part)
            points = points_of(self.folds.batch, rows, tree.mean, weighted=weighted)
            columns.append(
                [cost for cost, _ in costs(points, [tree.centres(k) for k in self.sizes])]
            )
        return np.asarray(columns).T

    def pick(self, candidate: int, split: int | None) -> dict[str, Any]:
        """Fitted attributes of one model; split None means the model of all rows."""
        batch, k = self.folds.batch, self.sizes[candidate]
        if split is None and candidate not in self.known:
            rows = whole(batch).splits[0].train
            alone = clone(self.model).set_params(n_clusters=k)
            self.known[candidate] = _Tree.of(alone, batch, rows)
        tree = self.known[candidate] if split is None else self.fits[split]
        points = points_of(batch, tree.rows, tree.mean, weighted=True)
        centres, labels = tree.centres(k), tree.labels(k)
        squares = ((points.X - centres[labels]) ** 2).sum(axis=1)
        return {
            "cluster_centers_": centres + tree.mean,
            "labels_": labels,
            "inertia_": float(squares.sum() if points.weight is None else squares @ points.weight),
            "_bisecting_tree": tree.first(k),
            "_X_mean": tree.mean,
            "_n_features_out": k,
            "_n_threads": _openmp_effective_n_threads(),
        }
