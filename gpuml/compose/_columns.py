"""Different transformers for different columns, on the device of the rows."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

from sklearn import compose as sk
from sklearn.base import clone
from sklearn.preprocessing import FunctionTransformer

from gpuml._arrays import Array, as_array, device_of, is_foreign, namespace, place_of, to_host
from gpuml._arrays.frames import header_of, was_frame
from gpuml._inputs.validation import unchanged_on_error
from gpuml._persistence.travel import Travels
from gpuml._sklearn import (
    _check_feature_names,
    _fit_transform_one,
    _get_column_indices,
    _safe_indexing,
)
from gpuml.compose._apart import levels_obstacle
from gpuml.compose._fits import fit_alone, is_known
from gpuml.compose._in_pass import fit_columns, folds_of
from gpuml.compose._layout import (
    Layout,
    cross_fitted,
    lay_out,
    layout_key,
    varying_params,
)
from gpuml.compose._obstacles import divided_obstacle, layout_obstacle, sparse_encoder
from gpuml.data import Batch, Folds, NeedsAllRows
from gpuml.extending import TableStep
from gpuml.pipeline._union import is_on_device, near, side_by_side, wants_frame
from gpuml.solvers.affine import FittedStep, Parts
from gpuml.solvers.table_rows import table_batch


class ColumnTransformer(Travels, TableStep, sk.ColumnTransformer):
    """Apply transformers to columns of X, and join their results side by side.

    Parameters, attributes and results are those of scikit-learn's class of this name, which does
    the work for data in CPU memory. For CuPy, torch and other arrays, columns are selected, and
    results joined, on their device, one transformer after the other (`n_jobs` has no effect).
    Adjacent columns are passed as a view; others are copied once.

    Parameters
    ----------
    transformers : list of (str, transformer, columns) tuples
        Names, transformers and the columns that each gets. A transformer may be "drop" or
        "passthrough". Columns are integers, a slice or a mask; for DataFrames also names, or a
        callable that returns any of these.
    remainder : {"drop", "passthrough"} or transformer, default="drop"
        What to do with all other columns.
    sparse_threshold : float, default=0.3
        If a transformer returns a sparse matrix, the joined result is sparse if the share of its
        nonzero values is below this threshold. Only for data in CPU memory: results on a device are
        dense.
    n_jobs : int, default=None
    transformer_weights : dict, default=None
        Factors to multiply the output of transformers by, by name.
    verbose : bool, default=False
    verbose_feature_names_out : bool, str or callable, default=True
        Whether output names begin with the name of the transformer; a callable or format string
        makes the names.

    Attributes
    ----------
    transformers_ : list of (str, fitted transformer, columns) tuples
    named_transformers_ : Bunch
    sparse_output_ : bool
    output_indices_ : dict of str to slice
        The columns of the result that come from each transformer.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    make_column_transformer : Make one without choosing names.
    gpuml.pipeline.FeatureUnion : Apply several transformers to all columns.

    Examples
    --------
    >>> from gpuml.compose import ColumnTransformer
    >>> from gpuml.preprocessing import OneHotEncoder, StandardScaler
    >>> columns = ColumnTransformer(
    ...     [("number", StandardScaler(), [0]), ("kind", OneHotEncoder(), [1])]
    ... )
    >>> columns.fit_transform([[0.0, 7], [4.0, 8]])
    array([[-1.,  1.,  0.],
           [ 1.,  0.,  1.]])
    """

    def fit(self, X, y=None, **params) -> Self:
        """Fit all transformers.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
        y : array-like, default=None
        **params : dict
            For the transformers, by metadata routing.

        Returns
        -------
        self : ColumnTransformer

        Raises
        ------
        ValueError
            For what scikit-learn's class rejects: among it, names of columns where X is no
            DataFrame. A failed fit leaves the estimator as it was.
        """
        return self.fit_where(X, y, {}, **params)

    def fit_where(
        self, X, y, enough: Mapping[str, Any], *, stand_in: bool = False, **params
    ) -> Self:
        """As `fit`, where of some transformers it is known which rows say all that they learn.

        Parameters
        ----------
        X, y, **params
            As for `fit`.
        enough : dict of str to Learned
            What is known, by the names of transformers.
        stand_in : bool, default=False
            Whether X stands for other rows, of which only what is known may be learnt.
        """
        with unchanged_on_error(self):
            self._only_fits, self._stands_in = enough, stand_in
            try:
                return super().fit(X, y, **params)
            finally:
                del self._only_fits, self._stands_in

    def fit_transform(self, X, y=None, **params):
        """Fit all transformers, and put their results for the same rows side by side.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
        y : array-like, default=None
        **params : dict
            For the transformers, by metadata routing.

        Returns
        -------
        X_t : array or sparse matrix of shape (n_samples, sum of numbers of columns)
            In the library and on the device of X.

        Raises
        ------
        ValueError
            As for `fit`.
        """
        X = as_array(X)
        with unchanged_on_error(self):
            return near(super().fit_transform(X, y, **params), X)

    def transform(self, X, **params):
        """Transform rows, and put the results side by side.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
        **params : dict
            For `transform` of the transformers, by metadata routing.

        Returns
        -------
        X_t : array or sparse matrix of shape (n_samples, sum of numbers of columns)
            In the library and on the device of X.
        """
        X = as_array(X)
        return near(super().transform(X, **params), X)

    # ------------------------------------------------------------ all candidates in one pass

    @property
    def affine_params(self) -> list[str]:  # type: ignore[override]
        """Hyper-parameters of its steps that may differ within one call of `multi_affine`."""
        return varying_params(self)

    def affine_obstacle(self, X: Any) -> str | None:
        """Why not all of its steps follow from sums over the rows of a table."""
        return layout_obstacle(self, X)

    def multi_affine(
        self, parts: Parts, candidates: Sequence[Mapping[str, Any]]
    ) -> list[FittedStep]:
        """Fit every candidate to every part."""
        return fit_columns(self, parts, candidates)

    def table_batch(self, batch: Batch, X: Any) -> Batch:
        """The columns that its steps read, as numbers with holes and as codes."""
        place = place_of(X) if is_foreign(X) else batch.work
        return table_batch(batch, lay_out(self, X).read(X, place), X)

    def table_obstacle(self, X: Any, behind: Sequence[Any], model: Any) -> str | None:
        """Why columns of many levels keep it out of the pass of a model."""
        return levels_obstacle(self, X, behind, model)

    def table_layout(self, X: Any) -> Layout:
        """The columns that its steps read, and how."""
        return lay_out(self, X)

    def table_divided(self, X: Any) -> str | None:
        """Why its steps cannot be fitted from sums over rows that are divided."""
        if wants_frame(self):
            return "set_output asks for DataFrames; leave it at the default"
        return divided_obstacle([lay_out(self, X).branch], X)

    def table_sparse(self) -> str | None:
        """The encoder that makes its output sparse, unless `sparse_threshold` is 0."""
        return sparse_encoder(self) if self.sparse_threshold > 0 else None

    def table_only_fits(self) -> str | None:
        """The step that is fitted across parts of the training rows, if one is."""
        return cross_fitted(self)

    def table_key(self) -> Any:
        """Which columns are read in which way."""
        return layout_key(self)

    def table_folds(self, folds: Folds, candidates: Sequence[Mapping[str, Any]]) -> Folds:
        """Folds whose table also has the columns that steps make for each training set."""
        return folds_of(self, folds, candidates)

    def _validate_column_callables(self, X):
        if was_frame(X):  # an array that was made of a DataFrame has names
            _check_feature_names(self, header_of(X), reset=True)
        super()._validate_column_callables(header_of(X))

    def _call_func_on_transformers(self, X, y, func, column_as_labels, routed_params):
        fits = func is _fit_transform_one
        found = self._fitted_alone(X, y, routed_params) if fits else None
        if found is not None:
            return found
        if fits and getattr(self, "_stands_in", False):
            raise NeedsAllRows("Its steps are fitted to rows in memory.")
        if not is_foreign(X):
            return super()._call_func_on_transformers(X, y, func, column_as_labels, routed_params)
        todo = list(
            self._iter(
                fitted=not fits, column_as_labels=False, skip_drop=True, skip_empty_columns=True
            )
        )
        results = []
        for number, (name, transformer, columns, weight) in enumerate(todo, start=1):
            own, options = transformer, {}
            if fits:
                own = _as_given() if transformer == "passthrough" else clone(transformer)
                options["message_clsname"] = "ColumnTransformer"
                options["message"] = self._log_message(name, number, len(todo))
            block = take_columns(X, columns)
            results.append(func(own, block, y, weight, params=routed_params[name], **options))
        return results

    def _fitted_alone(self, X, y, routed_params):
        """Shapes of results, and fitted transformers; None where results are wanted."""
        only_fits = getattr(self, "_only_fits", None)
        if only_fits is None or wants_frame(self) or self.verbose or self.n_jobs not in (None, 1):
            return None
        todo = self._iter(
            fitted=False, column_as_labels=False, skip_drop=True, skip_empty_columns=True
        )
        found = []
        for name, transformer, columns, _ in todo:
            given = isinstance(transformer, str)  # "passthrough"
            if (not given and not is_known(transformer)) or any(routed_params[name].values()):
                return None
            own = _as_given().set_output(transform="default") if given else clone(transformer)
            try:
                foreign = is_foreign(X)
                block = take_columns(X, columns) if foreign else _safe_indexing(X, columns, axis=1)
                known = None if given else only_fits.get(name)
                shape = fit_alone(own, block, y, known)
            except ValueError:
                return None  # scikit-learn's class will raise the error
            found.append((shape, own))
        return found

    def _hstack(self, Xs, *, n_samples):
        if getattr(self, "_only_fits", None) is not None and not wants_frame(self):
            return Xs[0]  # the joined results are not needed
        if not any(is_on_device(X) for X in Xs):
            return super()._hstack(Xs, n_samples=n_samples)
        if wants_frame(self):
            on_host = [to_host(X) if is_foreign(X) else X for X in Xs]
            return super()._hstack(on_host, n_samples=n_samples)
        return side_by_side(Xs, dense=True)


def take_columns(X: Array, columns: Any) -> Array:
    """Columns of a foreign array: a view if they are adjacent, (n,) for a single number."""
    indices = _get_column_indices(header_of(X), columns)
    if isinstance(columns, int):
        return X[:, indices[0]]
    indices = [j % X.shape[1] for j in indices]
    first = indices[0]
    if indices == list(range(first, first + len(indices))):
        return X[:, first : first + len(indices)]
    xp = namespace(X)
    return xp.take(X, xp.asarray(indices, device=device_of(X)), axis=1)


def _as_given():
    return FunctionTransformer(
        accept_sparse=True, check_inverse=False, feature_names_out="one-to-one"
    )


def make_column_transformer(
    *transformers,
    remainder="drop",
    sparse_threshold=0.3,
    n_jobs=None,
    verbose=False,
    verbose_feature_names_out=True,
):
    """Make a `ColumnTransformer`, with names from the classes of the transformers.

    Parameters
    ----------
    *transformers : (transformer, columns) tuples
    remainder, sparse_threshold, n_jobs, verbose, verbose_feature_names_out
        As for `ColumnTransformer`.

    Returns
    -------
    columns : ColumnTransformer

    Examples
    --------
    >>> from gpuml.compose import make_column_transformer
    >>> from gpuml.preprocessing import MinMaxScaler, StandardScaler
    >>> make_column_transformer((StandardScaler(), [0]), (MinMaxScaler(), [1, 2]))
    ColumnTransformer(transformers=[('standardscaler', StandardScaler(), [0]),
                                    ('minmaxscaler', MinMaxScaler(), [1, 2])])
    """
    made = sk.make_column_transformer(
        *transformers,
        remainder=remainder,
        sparse_threshold=sparse_threshold,
        n_jobs=n_jobs,
        verbose=verbose,
        verbose_feature_names_out=verbose_feature_names_out,
    )
    return ColumnTransformer(**made.get_params(deep=False))
