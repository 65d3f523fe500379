"""umap-learn's `UMAP`, with its signature written out, so that it is imported at its first fit.

Rows are checked as by scikit-learn, and parameters are never changed: both are what umap-learn
leaves to be done. What it fits is kept in attributes of the same names.
"""

from numbers import Integral, Real
from typing import ClassVar, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from gpuml._sklearn import Interval, StrOptions
from gpuml.adapters._umap_models import (
    fitted_model,
    new_model,
    same_rows,
    searching_model,
    take_from,
)

BITS = ("bit_hamming", "bit_jaccard")


def _from(low, kind=Real):
    return [Interval(kind, low, None, closed="left")]


class UMAP(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Uniform manifold approximation and projection.

    Finds a low-dimensional embedding that keeps neighbours together. It builds a weighted graph of
    the neighbours of each row, and places points so that their graph is as similar to it as
    possible, measured by cross-entropy.

    Parameters
    ----------
    n_neighbors : int, default=15
        Number of neighbours of each row, itself included. More neighbours show more of the global
        structure, fewer show more detail.
    n_components : int, default=2
        Dimension of the embedding.
    metric : str or callable, default="euclidean"
        Distance between rows; "precomputed" if X is a matrix of distances.
    metric_kwds : dict, default=None
        Arguments of the metric, such as the order `p` of "minkowski".
    output_metric : str or callable, default="euclidean"
        Distance in the embedding.
    output_metric_kwds : dict, default=None
    n_epochs : int or list of int, default=None
        Number of steps of the optimisation; None is 500 for few rows and 200 for many. With a list,
        the embedding after each of these numbers of steps is kept.
    learning_rate : float, default=1.0
        Initial learning rate of the embedding.
    init : {"spectral", "random", "pca", "tswspectral"} or array, default="spectral"
        Initial positions of the points.
    min_dist : float, default=0.1
        Smallest distance between points in the embedding.
    spread : float, default=1.0
        Scale of the embedding; together with `min_dist`, it sets how clustered points are.
    low_memory : bool, default=True
        Whether to search for neighbours with less memory, and more slowly.
    n_jobs : int, default=-1
        Number of threads; 1 if you set `random_state`.
    set_op_mix_ratio : float, default=1.0
        How the neighbourhoods of rows are combined: 1 is their union, 0 their intersection.
    local_connectivity : float, default=1.0
        Number of neighbours to which each row is fully connected.
    repulsion_strength : float, default=1.0
        Weight of the repulsion between points that are not neighbours.
    negative_sample_rate : int, default=5
        Number of such points to sample for each neighbour and step.
    transform_queue_size : float, default=4.0
        How widely `transform` searches for neighbours of new rows.
    a, b : float, default=None
        Parameters of the curve of weights over the distance in the embedding. None computes them
        from `min_dist` and `spread`.
    random_state : int, RandomState instance or None, default=None
    angular_rp_forest : bool, default=False
        Whether the random projection trees that find neighbours split by angle.
    target_n_neighbors : int, default=-1
        Number of neighbours by target; -1 is `n_neighbors`.
    target_metric : str or callable, default="categorical"
        Distance between targets.
    target_metric_kwds : dict, default=None
    target_weight : float, default=0.5
        Weight of the targets, from 0 (only features count) to 1 (only targets count).
    transform_seed : int, default=42
        Seed of `transform`.
    transform_mode : {"embedding", "graph"}, default="embedding"
        What `transform` returns.
    force_approximation_algorithm : bool, default=False
        Whether to search for neighbours approximately, also if there are few rows.
    verbose : bool, default=False
    tqdm_kwds : dict, default=None
        Arguments of the progress bar.
    unique : bool, default=False
        Whether to embed equal rows only once.
    densmap : bool, default=False
        Whether the embedding also preserves local densities (densMAP).
    dens_lambda, dens_frac, dens_var_shift : float, default=2.0, 0.3, 0.1
        Weight, share of the steps, and offset of the term for densities.
    output_dens : bool, default=False
        Whether to return local densities with the embedding.
    disconnection_distance : float, default=None
        Rows at a larger distance are not neighbours; None chooses it by the metric.
    precomputed_knn : tuple, default=(None, None, None)
        Indices and distances of the neighbours, and a search index for new rows.

    Attributes
    ----------
    embedding_ : array (n, n_components)
        Float32.
    graph_ : sparse matrix (n, n)
        Weights of the edges.
    n_features_in_ : int
    feature_names_in_ : array of str
        Set only if all columns of X have string names.

    References
    ----------
    McInnes, L., Healy, J. and Melville, J., "UMAP: Uniform Manifold Approximation and Projection
    for Dimension Reduction", arXiv:1802.03426, 2018.
    """

    _parameter_constraints: ClassVar[dict] = {
        "n_neighbors": _from(2, Integral),
        "n_components": _from(1, Integral),
        "metric": [str, callable],
        "metric_kwds": [dict, None],
        "output_metric": [str, callable],
        "output_metric_kwds": [dict, None],
        "n_epochs": [*_from(0, Integral), list, tuple, np.ndarray, None],
        "learning_rate": _from(0.0),
        "init": [StrOptions({"pca", "spectral", "random", "tswspectral"}), "array-like"],
        "min_dist": _from(0.0),
        "spread": _from(0.0),
        "n_jobs": [Integral],
        "set_op_mix_ratio": [Interval(Real, 0.0, 1.0, closed="both")],
        "local_connectivity": _from(0.0),
        "repulsion_strength": _from(0.0),
        "negative_sample_rate": _from(0),
        "transform_queue_size": _from(0.0),
        "a": [Real, None],
        "b": [Real, None],
        "random_state": ["random_state"],
        "target_n_neighbors": [Integral],
        "target_metric": [str, callable],
        "target_metric_kwds": [dict, None],
        "target_weight": [Interval(Real, 0.0, 1.0, closed="both")],
        "transform_mode": [StrOptions({"embedding", "graph"})],
        "tqdm_kwds": [dict, None],
        "disconnection_distance": [Real, None],
        "precomputed_knn": [tuple, list],
    }

    def __init__(
        self,
        n_neighbors=15,
        n_components=2,
        metric="euclidean",
        metric_kwds=None,
        output_metric="euclidean",
        output_metric_kwds=None,
        n_epochs=None,
        learning_rate=1.0,
        init="spectral",
        min_dist=0.1,
        spread=1.0,
        low_memory=True,
        n_jobs=-1,
        set_op_mix_ratio=1.0,
        local_connectivity=1.0,
        repulsion_strength=1.0,
        negative_sample_rate=5,
        transform_queue_size=4.0,
        a=None,
        b=None,
        random_state=None,
        angular_rp_forest=False,
        target_n_neighbors=-1,
        target_metric="categorical",
        target_metric_kwds=None,
        target_weight=0.5,
        transform_seed=42,
        transform_mode="embedding",
        force_approximation_algorithm=False,
        verbose=False,
        tqdm_kwds=None,
        unique=False,
        densmap=False,
        dens_lambda=2.0,
        dens_frac=0.3,
        dens_var_shift=0.1,
        output_dens=False,
        disconnection_distance=None,
        precomputed_knn=(None, None, None),
    ):
        self.n_neighbors = n_neighbors
        self.n_components = n_components
        self.metric = metric
        self.metric_kwds = metric_kwds
        self.output_metric = output_metric
        self.output_metric_kwds = output_metric_kwds
        self.n_epochs = n_epochs
        self.learning_rate = learning_rate
        self.init = init
        self.min_dist = min_dist
        self.spread = spread
        self.low_memory = low_memory
        self.n_jobs = n_jobs
        self.set_op_mix_ratio = set_op_mix_ratio
        self.local_connectivity = local_connectivity
        self.repulsion_strength = repulsion_strength
        self.negative_sample_rate = negative_sample_rate
        self.transform_queue_size = transform_queue_size
        self.a = a
        self.b = b
        self.random_state = random_state
        self.angular_rp_forest = angular_rp_forest
        self.target_n_neighbors = target_n_neighbors
        self.target_metric = target_metric
        self.target_metric_kwds = target_metric_kwds
        self.target_weight = target_weight
        self.transform_seed = transform_seed
        self.transform_mode = transform_mode
        self.force_approximation_algorithm = force_approximation_algorithm
        self.verbose = verbose
        self.tqdm_kwds = tqdm_kwds
        self.unique = unique
        self.densmap = densmap
        self.dens_lambda = dens_lambda
        self.dens_frac = dens_frac
        self.dens_var_shift = dens_var_shift
        self.output_dens = output_dens
        self.disconnection_distance = disconnection_distance
        self.precomputed_knn = precomputed_knn

    def fit(self, X, y=None, ensure_all_finite=True, **kwargs) -> Self:
        """Embed rows.

        Parameters
        ----------
        X : array or sparse matrix (n, p)
        y : array (n,), default=None
            Targets that rows are to be close by as well; -1 is an unknown class.
        ensure_all_finite : bool or "allow-nan", default=True
        **kwargs
            For umap-learn's own optimisation.

        Returns
        -------
        self : UMAP
        """
        self._fitted_model(X, y, ensure_all_finite, kwargs)
        return self

    def fit_transform(self, X, y=None, ensure_all_finite=True, **kwargs):
        """Embed rows, and return their embedding.

        Parameters
        ----------
        X : array or sparse matrix (n, p)
        y : array (n,), default=None
            Targets that rows are to be close by as well; -1 is an unknown class.
        ensure_all_finite : bool or "allow-nan", default=True
        **kwargs
            For umap-learn's own optimisation.

        Returns
        -------
        embedding : array (n, n_components)
            Under ``transform_mode="graph"`` the graph instead; under `output_dens` a tuple with
            the densities.
        """
        self._fitted_model(X, y, ensure_all_finite, kwargs)
        if self.transform_mode == "graph":
            return self.graph_
        if self.output_dens:
            return self.embedding_, self.rad_orig_, self.rad_emb_
        return self.embedding_

    def transform(self, X, ensure_all_finite=True):
        """Embed new rows among those of the fit.

        Parameters
        ----------
        X : array or sparse matrix (n, p)
        ensure_all_finite : bool or "allow-nan", default=True

        Returns
        -------
        embedding : array (n, n_components)
            For the rows of the fit, `embedding_` as it is.
        """
        check_is_fitted(self)
        X = self._checked(X, ensure_all_finite, reset=False)
        if same_rows(X, self._raw_data) and X.shape[0] > 1:
            return self.graph_ if self.transform_mode == "graph" else self.embedding_
        return searching_model(self).transform(X, ensure_all_finite)

    def inverse_transform(self, X):
        """Rows that would be embedded at points.

        Parameters
        ----------
        X : array (n, n_components)

        Returns
        -------
        rows : array (n, p)
        """
        check_is_fitted(self)
        return fitted_model(self).inverse_transform(X)

    def update(self, X, ensure_all_finite=True) -> Self:
        """Embed more rows together with those of the fit.

        Parameters
        ----------
        X : array or sparse matrix (n, p)
        ensure_all_finite : bool or "allow-nan", default=True

        Returns
        -------
        self : UMAP
            umap-learn returns None.
        """
        check_is_fitted(self)
        X = self._checked(X, ensure_all_finite, reset=False)
        model = searching_model(self)
        model.update(X, ensure_all_finite)
        take_from(model, self)
        return self

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = self.metric == "precomputed"
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags

    def _their_equivalent(self):
        """umap-learn's object of the same parameters and state, for `gpuml.as_sklearn`."""
        plain = self._twin() if hasattr(self, "_twin") else self
        return fitted_model(plain) if hasattr(plain, "embedding_") else new_model(plain)

    def _checked(self, X, ensure_all_finite, *, reset):
        bits = self.metric in BITS
        X = validate_data(
            self,
            X,
            reset=reset,
            dtype=np.uint8 if bits else np.float32,
            accept_sparse=False if bits else "csr",
            order="C",
            ensure_all_finite=ensure_all_finite,
        )
        # umap-learn knows no sparse arrays, and would sort indices in place.
        return sparse.csr_matrix(X).sorted_indices() if sparse.issparse(X) else X

    def _fitted_model(self, X, y, ensure_all_finite, kwargs):
        self._validate_params()
        X = self._checked(X, ensure_all_finite, reset=True)
        model = new_model(self)
        model.fit(X, None if y is None else np.asarray(y), ensure_all_finite, **kwargs)
        take_from(model, self)
