"""Fitted models on rows in blocks: lazily, a block at a time, where the block is.

Any fitted model with scikit-learn's methods will do, of gpuml, scikit-learn, cuML or a user.
"""

import pickle
import warnings
from collections.abc import Callable
from contextlib import nullcontext, suppress
from functools import partial
from typing import Any

import array_api_compat
import cloudpickle
import dask.array as da
import dask.dataframe as dd
import numpy as np
from dask import delayed
from dask.array.utils import meta_from_array
from dask.base import tokenize
from dask.core import flatten
from dask.dataframe.dispatch import meta_nonempty
from sklearn.utils.validation import check_is_fitted

from gpuml._sklearn import _num_samples
from gpuml.metrics.blocks import MisalignedError, block_score
from gpuml_dask._dask import ARE_EXPRESSIONS, array_of, lowered, meta_of
from gpuml_dask.client import current_client
from gpuml_dask.rows.lazy import as_collection, client_of, lives_on_workers
from gpuml_dask.rows.placement import Placed, place
from gpuml_dask.scores import score_blocks
from gpuml_dask.sums.divided import repeated

__all__ = [
    "decision_function",
    "inverse_transform",
    "predict",
    "predict_log_proba",
    "predict_proba",
    "score",
    "score_samples",
    "transform",
]


def predict(model: Any, X: Any) -> Any:
    """Predict rows in blocks, lazily: each block is predicted where it is.

    Parameters
    ----------
    model : estimator
        A fitted model of any library, with a method ``predict``. Each worker gets it once, not with
        each block.
    X : dask array, dask dataframe or local rows, of shape (n_samples, n_features)
        Blocks may be NumPy, CuPy, sparse, pandas or cuDF, of known or unknown length. Chunks of
        columns are joined. X may also be a future or `Delayed` object, a list of one per block, or
        a handle of `gpuml_dask.place`. Local rows are passed to the model as they are. For models
        of texts and labels, such as vectorizers, X is an array or a series of shape (n_samples,).

    Returns
    -------
    predictions : dask array of shape (n_samples,) or (n_samples, n_outputs)
        A lazy array, with the chunks of X (of known sizes if those of X are known), in the library
        and dtype that the model returns for such blocks. For local rows, the result of
        ``model.predict(X)``.

    Raises
    ------
    sklearn.exceptions.NotFittedError
        If the model is not fitted.
    AttributeError
        If the model has no such method.
    ValueError
        If X is not two-dimensional, or has other features than the model was fitted to. Errors
        that depend on values, such as NaN, are raised when a block is computed.

    Notes
    -----
    The model first predicts one artificial row in this process, to find the kind of its results.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> from gpuml.linear_model import Ridge
    >>> from gpuml_dask.predict import predict
    >>> X = np.arange(12.0).reshape(6, 2) % 5
    >>> model = Ridge().fit(X, X[:, 0])
    >>> predictions = predict(model, da.from_array(X, chunks=(2, 2)))
    >>> predictions.chunks
    ((2, 2, 2),)
    >>> bool(np.allclose(predictions.compute(scheduler="threads"), model.predict(X)))
    True
    """
    return by_block(model, "predict", X)


OF_A_METHOD = """
Parameters
----------
model : estimator
    A fitted model with a method ``{name}``; see `predict`.
X : dask array, dask dataframe or local rows, of shape {rows}
    As for `predict`.

Returns
-------
{result}

Raises
------
NotFittedError, AttributeError, ValueError
    As for `predict`.

Examples
--------
>>> import dask.array as da
>>> import numpy as np
>>> from gpuml_dask.predict import {name}
>>> X = np.arange(12.0).reshape(6, 2) % 5
"""
OF_A_CLASSIFIER = """\
>>> from gpuml.linear_model import LogisticRegression
>>> model = LogisticRegression().fit(X, X[:, 0] > 2)
>>> there = {0}(model, da.from_array(X, chunks=(2, 2)))
>>> bool(np.allclose(there.compute(scheduler="threads"), model.{0}(X)))
True
"""
OF_A_PCA = """\
>>> from gpuml.decomposition import PCA
>>> step = PCA(1).fit(X)
"""
PROBABILITIES = "As for `predict`; columns are one chunk."


def _method(
    name: str, summary: str, result: str, example: str, rows: str = "(n_samples, n_features)"
) -> Callable[[Any, Any], Any]:
    """The function of a model and rows X that calls a method of the model, block by block.

    `result` is under Returns. The example makes a model of X, calls the function, and says what it
    prints.
    """

    def function(model: Any, X: Any) -> Any:
        return by_block(model, name, X)

    function.__name__ = function.__qualname__ = name
    sections = OF_A_METHOD.format(name=name, rows=rows, result=result)
    function.__doc__ = f"{summary}\n{sections}{example.format(name)}"
    return function


predict_proba = _method(
    "predict_proba",
    "Predict the probabilities of the classes for rows in blocks.",
    f"probabilities : dask array of shape (n_samples, n_classes)\n    {PROBABILITIES}",
    OF_A_CLASSIFIER,
)
predict_log_proba = _method(
    "predict_log_proba",
    "Predict logarithms of the probabilities of the classes for rows in blocks.",
    f"logarithms : dask array of shape (n_samples, n_classes)\n    {PROBABILITIES}",
    OF_A_CLASSIFIER,
)
decision_function = _method(
    "decision_function",
    "Decision values of a classifier for rows in blocks.",
    "decisions : dask array of shape (n_samples,) or (n_samples, n_classes)\n    As for `predict`.",
    OF_A_CLASSIFIER,
)
transform = _method(
    "transform",
    "Transform rows in blocks, each row by itself.",
    "transformed : dask array of shape (n_samples, n_features_out)\n"
    "    As for `predict`. It is an array in any case: DataFrames that ``set_output`` makes the\n"
    "    model return are turned into arrays, block by block. The names of its columns are those\n"
    "    of ``model.get_feature_names_out()``.",
    OF_A_PCA + ">>> {}(step, da.from_array(X, chunks=(2, 2))).shape\n(6, 1)\n",
)
inverse_transform = _method(
    "inverse_transform",
    "Undo `transform` of rows in blocks.",
    "original : dask array of shape (n_samples, n_features)\n    As for `transform`.",
    OF_A_PCA + ">>> {}(step, da.ones((6, 1), chunks=(2, 1))).shape\n(6, 2)\n",
    rows="(n_samples, n_features_out)",
)
score_samples = _method(
    "score_samples",
    "Scores of single rows in blocks, such as logarithms of their likelihoods.",
    "scores : dask array of shape (n_samples,)\n    As for `predict`.",
    OF_A_PCA + ">>> {}(step, da.from_array(X, chunks=(2, 2))).shape\n(6,)\n",
)


def score(model: Any, X: Any, y: Any = None, sample_weight: Any = None) -> float:
    """Score a model on rows in blocks, as its `score` or the metric of a search's `scoring` does.

    Parameters
    ----------
    model : estimator
        A fitted regressor, classifier, density or KMeans, a pipeline that ends in one, or a search
        for one.
    X : dask array, dask dataframe or local rows, of shape (n_samples, n_features)
        As for `predict`.
    y : dask array, series or dataframe, or local array, (n_samples,) or (n_samples, n_outputs)
        Targets; densities and KMeans need none. Blocks may differ from those of X if all sizes are
        known; if not, they are aligned with the predictions on the workers of the current client.
    sample_weight : same kinds as `y`, of shape (n_samples,), default=None
        Weights of the rows.

    Returns
    -------
    score : float
        The same as ``model.score`` for all rows at once: sums over the blocks are added. For other
        metrics, such as "roc_auc", targets and predictions come to this process, but not X.

    Raises
    ------
    NotFittedError, ValueError
        As for `predict`. Also if scikit-learn's scores reject the values (missing values, labels of
        another kind), if blocks of X, y and sample_weight differ in length, or if the score reads
        the rows (a function of yours as ``scoring=`` of a search).
    TypeError
        If `sample_weight` is given, and ``model.score`` takes none.

    Warns
    -----
    UndefinedMetricWarning
        If the score is R2 and there are fewer than two rows; the score is then NaN.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> from gpuml.linear_model import Ridge
    >>> from gpuml_dask.predict import score
    >>> X = np.arange(12.0).reshape(6, 2) % 5
    >>> y = X[:, 0]
    >>> model = Ridge().fit(X, y)
    >>> blocks = da.from_array(X, chunks=(2, 2)), da.from_array(y, chunks=3)
    >>> bool(np.isclose(score(model, *blocks), model.score(X, y)))
    True
    """
    if not any(map(lives_on_workers, (X, y, sample_weight))):
        weight = {} if sample_weight is None else {"sample_weight": sample_weight}
        return model.score(X, y, **weight)
    known, model = block_score(model), getattr(model, "best_estimator_", model)
    known.check(y, sample_weight)
    client = client_of(X, y, sample_weight)
    with client.as_current() if client is not None else nullcontext():
        said = by_block(model, known.method, X)
        said = said if lives_on_workers(said) else da.from_array(_as_array(said), chunks=-1)
        try:
            return score_blocks(known, said, y, sample_weight)
        except MisalignedError:
            client = current_client() if client is None else client
            if client is None:
                raise
        weights = {"sample_weight": sample_weight}
        with place(said, y, weights, client=client, numeric=False) as table:
            placed = [table[n] if n in table.names else None for n in ("y", "sample_weight")]
            # Futures that were lost stay so: each attempt makes its graph anew.
            return repeated(table, lambda: score_blocks(known, as_collection(table.X), *placed))


# ---------------------------------------------------------------- blocks


def by_block(model: Any, method: str, X: Any) -> Any:
    """A method of a model over the blocks of X, lazily; see `predict`."""
    if not lives_on_workers(X):
        return getattr(model, method)(X)
    check_is_fitted(model)
    width, given = _width_of_rows(model, method), X
    X = as_collection(X, np.nan if width is None else width)
    if not isinstance(X, da.Array | dd.DataFrame | dd.Series):
        raise TypeError(f"{type(X).__name__} has no rows; pass a dask array or a dask dataframe.")
    getattr(model, method)  # as scikit-learn: AttributeError, with the reason
    _check_features(model, X, width)
    with warnings.catch_warnings():
        if X is not given and not (isinstance(given, Placed) and given.rows.facts.columns is None):
            warnings.simplefilter("ignore")  # of names of columns, which only the workers know
        meta = _result_of_a_row(model, method, X)
    words = f"{method}-{type(model).__name__}".lower().replace("_", "-")
    # One node of the graph, on which the blocks depend: workers get it from each other. Bytes,
    # because Dask waits for ever for a worker that cannot import what a message holds; here that
    # is an error of the task.
    sent = delayed(pickle.loads, pure=True)(cloudpickle.dumps(model))
    if isinstance(X, da.Array) or not ARE_EXPRESSIONS:
        return _map_blocks(X, words, sent, method, meta)
    options = {"model": sent, "method": method, "empty": meta, "meta": meta}
    return X.map_partitions(_of_block, token=words, enforce_metadata=False, **options)


def _map_blocks(X, words, model, method, meta):
    # Of DataFrames too: Dask's `map_partitions` fails for one partition and a delayed argument.
    several = isinstance(X, da.Array) and X.ndim > 1 and X.numblocks[1] > 1
    X = lowered(X.rechunk({1: -1}) if several else X)
    keys, tail = list(flatten(X.__dask_keys__())), meta.shape[1:]
    name = f"{words}-{tokenize(keys, model.key, method, meta.dtype, tail)}"
    function = partial(_of_block, method=method, empty=meta)
    tasks = {
        (name, i, *(0 for _ in tail)): (function, key, model.key) for i, key in enumerate(keys)
    }
    sizes = X.chunks[0] if isinstance(X, da.Array) else [np.nan] * len(keys)
    return array_of(name, tasks, (sizes, *((n,) for n in tail)), meta, [X, model])


def _of_block(block, model, method, empty):
    # Filters leave blocks without rows, which scikit-learn refuses.
    if _num_samples(block) == 0:  # a list, if a delayed object is one
        return empty
    result = _as_array(getattr(model, method)(block))
    # Of blocks without unknown or rare categories, encoders return no objects.
    as_objects = method == "inverse_transform" and empty.dtype == object
    return result.astype(object) if as_objects else result


def _as_array(result):
    """The result of a model as an array (or sparse matrix); DataFrames as the array they hold."""
    if hasattr(result, "columns") or hasattr(result, "iloc"):
        return result.values if hasattr(result, "values") else result.to_numpy()
    return result


# ---------------------------------------------------------------- at the door


def _width_of_rows(model, method):
    """Columns of the rows that a method takes; None where the model does not say."""
    if method != "inverse_transform":
        return getattr(model, "n_features_in_", None)
    with suppress(AttributeError, ValueError):  # of steps of a pipeline too
        return len(model.get_feature_names_out())
    return None


def _check_features(model, X, expected):
    """Raise the errors of scikit-learn's kind that need no values."""
    if X.ndim != 2 and (X.ndim != 1 or expected is not None):  # texts and labels have no features
        raise ValueError(
            f"Expected 2D array, got {X.ndim}D array instead. Reshape your data using "
            "X.reshape(-1, 1) or X[:, None] if it has a single feature."
        )
    found = X.shape[-1]
    if expected is None or found != found or found == expected:  # NaN: not known
        return
    raise ValueError(
        f"X has {found} features, but {type(model).__name__} is expecting {expected} features "
        "as input."
    )


def _result_of_a_row(model, method, X):
    """An empty array of the kind that the model returns for blocks of X."""
    inverted, call = method == "inverse_transform", getattr(model, method)
    try:
        # What encoders know: of rows of labels, the labels.
        name = "classes_" if X.ndim == 1 and method == "transform" else "categories_"
        known = None if inverted else getattr(model, name, None)
        row = _made_up_row(known, X, _width_of_rows(model, method))
        with np.errstate(all="ignore"):
            if inverted:  # zeros are the codes of a category, or of none
                with suppress(Exception):
                    return _as_array(call(0 * row))[:0]
            result = _as_array(call(row))
    except Exception:
        # DataFrames have names to check. Otherwise the made-up values may be at fault (a category
        # that the model does not know), and blocks will tell.
        names = getattr(model, "feature_names_in_", None)
        named = isinstance(X, dd.DataFrame) and not inverted
        if named and names is not None and list(names) != list(X.columns):
            raise
        return _guess(model, method, X)
    return result[:0]


def _made_up_row(known, X, n_features):
    if X.ndim == 1 and (known is not None or X.dtype.kind in "OUT"):
        return np.asarray(["text"], dtype=object) if known is None else known[:1]
    if not isinstance(X, da.Array):
        row = meta_nonempty(meta_of(X))[:1]
        for j, categories in enumerate(known or ()):  # encoders refuse others
            row.isetitem(j, categories[:1])
        return row
    meta = meta_from_array(X)
    if known is not None and array_api_compat.is_numpy_array(meta):
        return np.asarray([[categories[0] for categories in known]], dtype=meta.dtype)
    width = X.shape[-1] if X.shape[-1] == X.shape[-1] else n_features
    if hasattr(meta, "tocsr"):
        return type(meta)(np.ones((1, width), dtype=meta.dtype))
    return np.ones_like(meta, shape=(1, width)[: X.ndim])


def _guess(model, method, X):
    """The kind of results from attributes of the model, where no row can be made up."""
    last: Any = model.steps[-1][1] if hasattr(model, "steps") else None
    if method != "inverse_transform" and hasattr(last, "n_features_in_"):  # which takes numbers
        return _result_of_a_row(last, method, da.empty((0, last.n_features_in_)))
    classes: Any = getattr(model, "classes_", None)
    width = _guessed_width(model, method)
    has_classes = method == "predict" and array_api_compat.is_numpy_array(classes)
    dtype = classes.dtype if has_classes else np.float64
    like = meta_from_array(X) if isinstance(X, da.Array) else np.empty(0)
    like = np.empty(0) if hasattr(like, "tocsr") else like
    return np.empty_like(like, shape=(0,) if width is None else (0, width), dtype=dtype)


def _guessed_width(model, method):
    """Columns of a result; None if it is one-dimensional."""
    classes = getattr(model, "classes_", ())
    if method == "transform" and hasattr(model, "get_feature_names_out"):
        return len(model.get_feature_names_out())
    if method == "inverse_transform" and hasattr(model, "n_features_in_"):
        return model.n_features_in_
    if method in ("transform", "inverse_transform"):
        raise ValueError(
            f"The number of columns that {type(model).__name__}.{method} returns cannot be told "
            f"before a block is computed. Use X.map_blocks(model.{method}, ...), which takes it "
            "from you."
        )
    of_each = "proba" in method or (method == "decision_function" and len(classes) > 2)
    return len(classes) if of_each else None
