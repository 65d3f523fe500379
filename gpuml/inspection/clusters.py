"""How well rows are clustered, by the number of clusters or components, as a picture."""

from collections.abc import Iterable
from typing import Any, Self

import numpy as np
import sklearn.metrics as sk
from sklearn.base import clone

from gpuml.data import whole
from gpuml.inspection._axes import axes_for
from gpuml.metrics._host import on_host
from gpuml.resampling.multifit import data_obstacle, offers_multifit

# Of rows and labels; what they are called in pictures.
METRICS = {
    "silhouette": (sk.silhouette_score, "silhouette"),
    "calinski_harabasz": (sk.calinski_harabasz_score, "Calinski-Harabasz index"),
    "davies_bouldin": (sk.davies_bouldin_score, "Davies-Bouldin index"),
}
# Of models that have a method of that name.
CRITERIA = {"aic": "AIC", "bic": "BIC"}


class ClusterCurveDisplay:
    """Plot a criterion over the number of clusters, such as inertia, silhouette or BIC.

    Make a display with `from_estimator`.

    Parameters
    ----------
    n_clusters : array of shape (n_values,)
        Numbers of clusters.
    values : array of shape (n_values,)
        Value of the criterion for each.
    metric : str
        Name of the criterion in the picture.
    estimator_name : str, default=None
        Text of the legend.

    Attributes
    ----------
    ax_ : matplotlib.axes.Axes
        The axes.
    figure_ : matplotlib.figure.Figure
        The figure of these axes.
    line_ : matplotlib.lines.Line2D
        The curve.

    Examples
    --------
    >>> from gpuml.inspection import ClusterCurveDisplay
    >>> drawn = ClusterCurveDisplay(n_clusters=[2, 3], values=[9.0, 4.0], metric="inertia").plot()
    >>> drawn.ax_.get_ylabel()
    'inertia'
    """

    def __init__(
        self, *, n_clusters: Any, values: Any, metric: str, estimator_name: str | None = None
    ):
        self.n_clusters = n_clusters
        self.values = values
        self.metric = metric
        self.estimator_name = estimator_name

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        n_clusters: Iterable[int] = range(2, 11),
        metric: str = "inertia",
        sample_size: int | None = None,
        random_state: Any = None,
        name: str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Cluster rows with each number of clusters, and draw the criterion.

        `KMeans` and `GaussianMixture` are fitted with all numbers of clusters together, if a search
        would fit these candidates together; other estimators are fitted one by one.

        Parameters
        ----------
        estimator : estimator
            An estimator with a parameter `n_clusters` or `n_components`. After `fit` it must have
            `labels_` or `predict`; `inertia_` for the metric "inertia", and the methods `aic` and
            `bic` for those.
        X : array-like of shape (n_samples, n_features)
            An array of any library. scikit-learn computes silhouettes and the other indices in CPU
            memory.
        n_clusters : iterable of int, default=range(2, 11)
            Numbers of clusters, or of components.
        metric : {"inertia", "silhouette", "calinski_harabasz", "davies_bouldin", "aic", "bic"}, \
                default="inertia"
            The criterion. Higher silhouettes and Calinski-Harabasz indices are better, and lower
            Davies-Bouldin indices and information criteria; inertia falls with every cluster.
        sample_size : int, default=None
            Number of rows for silhouettes, which need the distances of all pairs; None is all rows.
        random_state : int, RandomState instance or None, default=None
            Seed of the draw of these rows.
        name : str, default=None
            Text of the legend; None is the name of the class.
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on; None makes a new figure.
        **kwargs : dict
            Passed to matplotlib's `plot`.

        Returns
        -------
        display : ClusterCurveDisplay
            After `plot`.

        Raises
        ------
        ValueError
            For an unknown metric, and for input that the estimator rejects.
        ImportError
            If matplotlib is not installed.

        References
        ----------
        P. J. Rousseeuw, "Silhouettes: a graphical aid to the interpretation and validation of
        cluster analysis", Journal of Computational and Applied Mathematics 20 (1987).

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from gpuml.cluster import KMeans
        >>> from gpuml.inspection import ClusterCurveDisplay
        >>> X, kmeans = load_iris().data, KMeans(random_state=0)
        >>> curve = ClusterCurveDisplay.from_estimator(kmeans, X, metric="silhouette")
        >>> int(curve.n_clusters[curve.values.argmax()])
        2
        """
        known = ("inertia", *METRICS, *CRITERIA)
        if metric not in known:
            raise ValueError(f"metric={metric!r} is none of {', '.join(known)}; pass one of these.")
        numbers = np.asarray(list(n_clusters))
        models = _models(estimator, X, [int(k) for k in numbers])
        if metric == "inertia":
            label, values = metric, [float(model.inertia_) for model in models]
        elif metric in CRITERIA:
            label, values = CRITERIA[metric], [float(getattr(each, metric)(X)) for each in models]
        else:
            measure, label = METRICS[metric]
            options = {"sample_size": sample_size, "random_state": random_state}
            options = options if metric == "silhouette" else {}
            rows = on_host(X)
            values = [measure(rows, on_host(_labels(each, X)), **options) for each in models]
        name = type(estimator).__name__ if name is None else name
        made = cls(n_clusters=numbers, values=np.asarray(values), metric=label, estimator_name=name)
        return made.plot(ax, **kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> Self:
        """Draw the curve.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on; None makes a new figure.
        **kwargs : dict
            Passed to matplotlib's `plot`.

        Returns
        -------
        display : ClusterCurveDisplay
            This display.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        """
        ax = axes_for(ax, f"{type(self).__name__}.plot")
        options = {"marker": "o", "ms": 4, "label": self.estimator_name, **kwargs}
        (self.line_,) = ax.plot(self.n_clusters, self.values, **options)
        ax.set_xlabel(
            "number of components" if self.metric in CRITERIA.values() else "number of clusters"
        )
        ax.set_ylabel(self.metric)
        ax.xaxis.get_major_locator().set_params(integer=True)
        if self.estimator_name is not None:
            ax.legend()
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _models(estimator, X, numbers):
    """Fitted models of each number of clusters."""
    estimator = clone(estimator)
    named = "n_clusters" if "n_clusters" in estimator.get_params() else "n_components"
    candidates = [{named: k} for k in numbers]
    if offers_multifit(estimator) and data_obstacle(estimator, X) is None:
        batch = estimator.multifit_batch(X)
        stack = estimator.multifit(whole(batch), candidates)
        pairs = enumerate(candidates)
        return [estimator.multifit_model(params, stack.pick(c, 0)) for c, params in pairs]
    return [clone(estimator).set_params(**params).fit(X) for params in candidates]


def _labels(model, X):
    return model.labels_ if hasattr(model, "labels_") else model.predict(X)
