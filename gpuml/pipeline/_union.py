"""Results of several transformers side by side, on their device."""

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, Self

from joblib import parallel_config
from sklearn import pipeline as sk

from gpuml._arrays import (
    Array,
    as_array,
    is_array,
    is_cupyx_sparse,
    is_foreign,
    move,
    namespace,
    place_of,
    to_host,
)
from gpuml._inputs.validation import unchanged_on_error
from gpuml._persistence.travel import Travels
from gpuml._sklearn import _get_output_config


class FeatureUnion(Travels, sk.FeatureUnion):
    """Apply several transformers to X, and concatenate the columns of their results.

    Parameters, attributes and results are those of scikit-learn's class. The difference: results
    that are CuPy, torch and other arrays are concatenated on their device, regardless of
    scikit-learn's ``array_api_dispatch``. If some of them have floats, results of integers and
    bools become float64. If one of the results is a cupyx sparse matrix, the output is one too, in
    CSR format.

    Parameters
    ----------
    transformer_list : list of (str, transformer) tuples
        Names and transformers; a transformer may be "drop" or "passthrough".
    n_jobs : int, default=None
        Number of parallel jobs for data in CPU memory. Data on a device is transformed in this
        process.
    transformer_weights : dict, default=None
        A factor for the results of each transformer, by name.
    verbose : bool, default=False
        Whether to print the time that each transformer takes.
    verbose_feature_names_out : bool, default=True
        Whether the name of each column begins with the name of its transformer.

    Attributes
    ----------
    named_transformers : Bunch
        The transformers by name.
    n_features_in_, feature_names_in_
        Those of the first transformer.

    See Also
    --------
    make_union : Make a union without choosing names.
    gpuml.compose.ColumnTransformer : Apply transformers to different columns.

    Examples
    --------
    >>> from gpuml.pipeline import FeatureUnion
    >>> from gpuml.preprocessing import MinMaxScaler, StandardScaler
    >>> union = FeatureUnion([("unit", StandardScaler()), ("range", MinMaxScaler())])
    >>> union.fit_transform([[0.0], [4.0]])
    array([[-1.,  0.],
           [ 1.,  1.]])
    """

    def fit(self, X, y=None, **fit_params) -> Self:
        """Fit all transformers.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like, default=None
        **fit_params : dict
            Passed to `fit` of the transformers, as in scikit-learn.

        Returns
        -------
        self : FeatureUnion
        """
        X = as_array(X)
        with unchanged_on_error(self), in_this_process(X):
            return super().fit(X, y, **fit_params)

    def fit_transform(self, X, y=None, **params):
        """Fit all transformers, transform X, and concatenate the columns of the results.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like, default=None
        **params : dict
            Passed to the transformers, as in scikit-learn.

        Returns
        -------
        X_t : array or sparse matrix of shape (n_samples, sum of numbers of columns)
            In the library and on the device of X.
        """
        X = as_array(X)
        with unchanged_on_error(self), in_this_process(X):
            return near(super().fit_transform(X, y, **params), X)

    def transform(self, X, **params):
        """Transform X by each transformer, and concatenate the columns of the results.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        **params : dict
            Passed to `transform` of the transformers, by metadata routing.

        Returns
        -------
        X_t : array or sparse matrix of shape (n_samples, sum of numbers of columns)
            In the library and on the device of X.
        """
        X = as_array(X)
        with in_this_process(X):
            return near(super().transform(X, **params), X)

    def _hstack(self, Xs):
        if not any(is_on_device(X) for X in Xs):
            return super()._hstack(Xs)
        if wants_frame(self):
            return super()._hstack([to_host(X) if is_foreign(X) else X for X in Xs])
        for X, (name, *_) in zip(Xs, self._iter(), strict=True):
            if len(X.shape) != 2:
                raise ValueError(
                    f"Transformer '{name}' returned an array with {len(X.shape)} dimensions, but "
                    "expected 2 dimensions (n_samples, n_features)."
                )
        return side_by_side(Xs)


def make_union(*transformers, n_jobs=None, verbose=False, verbose_feature_names_out=True):
    """Make a `FeatureUnion`, with the transformers named after their classes.

    Parameters
    ----------
    *transformers : transformers
        The transformers, in the order of their columns in the output.
    n_jobs, verbose, verbose_feature_names_out
        As for `FeatureUnion`.

    Returns
    -------
    union : FeatureUnion

    Examples
    --------
    >>> from gpuml.pipeline import make_union
    >>> from gpuml.preprocessing import Normalizer, StandardScaler
    >>> make_union(StandardScaler(), Normalizer())
    FeatureUnion(transformer_list=[('standardscaler', StandardScaler()),
                                   ('normalizer', Normalizer())])
    """
    union = sk.make_union(
        *transformers,
        n_jobs=n_jobs,
        verbose=verbose,
        verbose_feature_names_out=verbose_feature_names_out,
    )
    return FeatureUnion(**union.get_params(deep=False))


def side_by_side(Xs: Sequence[Any], *, dense: bool = False) -> Any:
    """The columns of all blocks in one array on a device; at least one block is there.

    Parameters
    ----------
    Xs : sequence of arrays and cupyx sparse matrices (n, p_i)
        NumPy's are brought to the others.
    dense : bool, default=False
        Whether sparse ones become dense. If not, one of them makes the result a CSR matrix.
    """
    if any(is_cupyx_sparse(X) for X in Xs):
        if not dense:
            return _sparse_side_by_side(Xs)
        Xs = [X.toarray() if is_cupyx_sparse(X) else X for X in Xs]
    place = place_of(next(X for X in Xs if is_foreign(X)))
    return place.xp.concat(_of_one_kind([move(X, place) for X in Xs]), axis=1)


def _of_one_kind(Xs: list[Array]) -> list[Array]:
    """The blocks as floats if one of them has floats: the array standard does not mix dtypes."""
    xp = namespace(*Xs)
    floats = [xp.isdtype(X.dtype, "real floating") for X in Xs]
    if all(floats) or not any(floats):
        return Xs
    return [X if ok else xp.astype(X, xp.float64) for X, ok in zip(Xs, floats, strict=True)]


def _sparse_side_by_side(Xs):
    import cupy
    from cupyx.scipy.sparse import csr_matrix, hstack

    blocks = [X if is_cupyx_sparse(X) else csr_matrix(cupy.asarray(X)) for X in Xs]
    return hstack(blocks, format="csr")


def is_on_device(X: Any) -> bool:
    """Whether scikit-learn would have to copy X, dense or sparse, to CPU memory."""
    return is_foreign(X) or is_cupyx_sparse(X)


def wants_frame(transformer: Any) -> bool:
    """Whether `set_output` selects DataFrames, which are in CPU memory."""
    return _get_output_config("transform", transformer)["dense"] != "default"


def near(result: Any, X: Any) -> Any:
    """Results as they are; an empty NumPy array, from no transformers, moves to X."""
    nothing = is_foreign(X) and is_array(result) and result.shape[1] == 0
    return move(result, place_of(X)) if nothing else result


def in_this_process(X: Any) -> Any:
    """A context in which joblib stays in this thread if X is on a device."""
    return parallel_config(backend="sequential") if is_on_device(X) else nullcontext()
