"""Objects of umap-learn, made for `gpuml.adapters._umap_learn.UMAP` when it works.

They change their parameters, and hold functions that are compiled here: estimators keep neither.
"""

import warnings
from typing import Any

from sklearn.utils import check_random_state

from gpuml._arrays import move, namespace, place_of
from gpuml._arrays.ops import all_true

# umap-learn compares each row with each if there are fewer.
SMALL = 4096
# Made of the parameters again: compiled functions, which other machines may not have, and what
# umap-learn calls as if it were a parameter.
REMADE = (
    *("_input_distance_func", "_inverse_distance_func", "_output_distance_func"),
    *("knn_indices", "knn_dists", "knn_search_index", "n_epochs_list"),
)


def new_model(estimator: Any) -> Any:
    """Unfitted, with the parameters of an estimator.

    Raises
    ------
    ImportError
        If umap-learn is not installed.
    """
    params = estimator.get_params(deep=False)
    if estimator.random_state is not None:
        params["n_jobs"] = 1  # it would say that it does so itself
    if estimator.tqdm_kwds is not None:
        params["tqdm_kwds"] = dict(estimator.tqdm_kwds)
    return _umap().UMAP(**params)


def _umap():
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of Tensorflow, which only its neural version needs
            import umap
    except ImportError as error:
        raise ImportError(
            "UMAP on a CPU needs umap-learn: type `pip install umap-learn`, or pass data on a GPU."
        ) from error
    return umap


def take_from(model: Any, estimator: Any) -> None:
    """Copy the fitted state of umap-learn to the estimator, without what can be recomputed."""
    left = {*estimator.get_params(deep=False), *REMADE}
    vars(estimator).update({name: v for name, v in vars(model).items() if name not in left})


def same_rows(X: Any, known: Any) -> bool:
    """Whether rows are those that are known; of another precision they are rounded first."""
    if tuple(X.shape) != tuple(known.shape) or is_sparse(X) != is_sparse(known):
        return False
    if is_sparse(X):
        return X.nnz == known.nnz and all(
            _same(getattr(X, part), getattr(known, part)) for part in ("indptr", "indices", "data")
        )
    # The first row tells nearly all strangers, before the known ones are brought to the GPU.
    return _same(X[:1, :], known[:1, :]) and _same(X, known)


def _same(x, known):
    xp = namespace(x)
    known = move(known, place_of(x))
    return all_true(xp.astype(x, known.dtype, copy=False) == known, xp)


def is_sparse(X: Any) -> bool:
    """Whether rows are CSR, in CPU memory or on a GPU."""
    return hasattr(X, "indptr")


def fitted_model(estimator: Any) -> Any:
    """Fitted, with the state of an estimator."""
    model = new_model(estimator)
    params = estimator.get_params(deep=False)
    vars(model).update({name: v for name, v in vars(estimator).items() if name not in params})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # said at the fit
        model._validate_parameters()  # makes what follows from the parameters
    return model


def searching_model(estimator: Any) -> Any:
    """Fitted, with an index that finds neighbours of new rows if it needs one.

    There is none where a GPU fitted it; the estimator keeps the one that is made.
    """
    model = fitted_model(estimator)
    if not getattr(model, "_small_data", True) and not hasattr(model, "_knn_search_index"):
        estimator._knn_search_index = model._knn_search_index = _search_index(model)
    return model


def _search_index(model):
    """As umap-learn makes it at a fit."""
    from umap.umap_ import nearest_neighbors

    return nearest_neighbors(
        model._raw_data,
        model._n_neighbors,
        model.metric,
        model._metric_kwds,
        model.angular_rp_forest,
        check_random_state(model.random_state),
        model.low_memory,
        use_pynndescent=True,
        n_jobs=model.n_jobs,
        verbose=model.verbose,
    )[2]
