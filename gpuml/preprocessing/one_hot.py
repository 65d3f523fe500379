"""A column for each category, on the device of the rows."""

from typing import Any

import numpy as np
from sklearn import preprocessing as sk
from sklearn.utils.validation import check_is_fitted

from gpuml._arrays import (
    Array,
    as_array,
    device_of,
    is_cupyx_sparse,
    is_foreign,
    move,
    namespace,
    place_of,
    to_host,
)
from gpuml._arrays.ops import any_true
from gpuml._inputs.validation import check_images, check_rows
from gpuml.preprocessing._categories import Encoder, one_of_each
from gpuml.preprocessing._places import wants_frame


class OneHotEncoder(Encoder, sk.OneHotEncoder):
    """Encode each category of each feature as a column of 0 and 1.

    CuPy, torch and other arrays of numbers or bools stay on their device; scikit-learn transforms
    data in CPU memory, including strings. Categories stay in CPU memory.

    Parameters
    ----------
    categories : "auto" or list of array-likes, default="auto"
        The categories of each feature, sorted; "auto" finds them in `fit`.
    drop : {"first", "if_binary"}, array-like of shape (n_features,) or None, default=None
        Which category of each feature gets no column: the first, the first of features with two
        categories, or the given ones. None drops none.
    sparse_output : bool, default=True
        Whether `transform` returns a sparse matrix: SciPy's for data in CPU memory, cupyx's (CSR)
        for CuPy arrays. Other device data needs False.
    dtype : dtype, default=numpy.float64
        dtype of the output.
    handle_unknown : {"error", "ignore", "infrequent_if_exist", "warn"}, default="error"
        What `transform` does with a category that `fit` has not seen: raise an error, or set all
        columns of the feature to zero; "infrequent_if_exist" uses the column of rare categories.
    min_frequency, max_categories : default=None
        Group rare categories in one column: those with fewer rows than `min_frequency` (a number or
        a share of the rows), and the rarest ones beyond `max_categories` columns.
    feature_name_combiner : "concat" or callable, default="concat"

    Attributes
    ----------
    categories_ : list of ndarrays
        Categories of each feature, sorted, nan at the end; in CPU memory, as names of columns are.
    drop_idx_ : ndarray of shape (n_features,) or None
        Index of the category of each feature that gets no column.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    Examples
    --------
    >>> from gpuml.preprocessing import OneHotEncoder
    >>> OneHotEncoder(sparse_output=False).fit_transform([[3], [7], [3]])
    array([[1., 0.],
           [0., 1.],
           [1., 0.]])
    """

    def _transform_there(self, X):
        kind = place_of(X).kind
        if self.sparse_output and kind != "cupy":
            raise ValueError(
                "sparse_output=True is for data in CPU memory and CuPy arrays, and X is of "
                f"{kind}. Set sparse_output=False."
            )
        if self.sparse_output and wants_frame(self):
            raise ValueError(
                "set_output makes DataFrames, which cannot be sparse. Set sparse_output=False."
            )
        X = check_rows(self, X, reset=False, allow_nan=True, keep_dtype=True)
        codes = self._codes(X)
        if self.sparse_output:
            return csr(codes, self._n_features_outs, np.dtype(self.dtype))
        return dense(codes, self._n_features_outs, np.dtype(self.dtype))

    def _codes(self, X: Array) -> list[Array]:
        """For each feature, the number of its column for each row (n,); -1 for none."""
        xp, place = namespace(X), place_of(X)
        codes, unknown = [], []
        # Copies to the device come first, as each waits for it.
        columns = [self._column_of_category(j) for j in range(X.shape[1])]
        columns_of = [move(each, place) for each in columns]
        for j, (found, is_known) in enumerate(self._positions(X)):
            code = xp.take(columns_of[j], found, axis=0)
            rare = self._is_rare(j)
            as_rare = rare.any() and self.handle_unknown in ("infrequent_if_exist", "warn")
            otherwise = int(columns[j][rare][0]) if as_rare else -1
            codes.append(xp.where(is_known, code, xp.full_like(code, otherwise)))
            unknown.append(xp.any(~is_known))
        if any_true(xp.stack(unknown), xp):
            self._say_unknown(X)
        return codes

    def _column_of_category(self, j: int) -> np.ndarray:
        """Number of the column, within those of feature j, of each category; -1 if dropped."""
        numbers, dropped = self._grouped(j), self._drop_idx_after_grouping
        if dropped is None or dropped[j] is None:
            return numbers
        return np.where(numbers == dropped[j], -1, numbers - (numbers > dropped[j]))

    def _say_unknown(self, X):
        """Raise or warn in scikit-learn's words, from one row or more of each category."""
        if self.handle_unknown in ("error", "warn") or self.drop is not None:
            says = self.handle_unknown if self.handle_unknown != "warn" else "infrequent_if_exist"
            self._transform(
                one_of_each(X),
                handle_unknown=says,
                ensure_all_finite="allow-nan",
                warn_on_unknown=True,
            )

    def inverse_transform(self, X):
        """Categories from columns.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_encoded_features)

        Returns
        -------
        X_original : array of shape (n_samples, n_features)
            In the library and on the device of X. Zeros everywhere stand for the dropped category,
            or for an unknown one: None for data in CPU memory, nan for device data.

        Raises
        ------
        ValueError
            For device data, if an unknown category would have to be an integer, or if rare
            categories share a column.
        """
        check_is_fitted(self)
        X = as_array(X)
        if is_cupyx_sparse(X):
            X = X.toarray()
        if not is_foreign(X):
            return super().inverse_transform(X)
        self._refuse_rare()
        X = check_images(self, X, int(np.sum(self._n_features_outs)), keep_dtype=True)
        xp = namespace(X)
        ends = np.cumsum([0, *self._n_features_outs]).tolist()
        columns = [self._inverse(X[:, ends[j] : ends[j + 1]], j) for j in range(len(ends) - 1)]
        return xp.stack(columns, axis=1)

    def _inverse(self, block: Array, j: int) -> Array:
        """Categories (n,) of feature j from its columns."""
        xp, place = namespace(block), place_of(block)
        dtype = np.result_type(*self.categories_)
        categories = self.categories_[j].astype(dtype)
        dropped = None if self.drop_idx_ is None else self.drop_idx_[j]
        kept = categories if dropped is None else np.delete(categories, dropped)
        if len(kept) == 0:
            only = move(categories, place)
            return xp.take(
                only, xp.zeros(block.shape[:1], dtype=xp.int64, device=place.device), axis=0
            )
        values = xp.take(move(kept, place), xp.argmax(block, axis=1), axis=0)
        nothing = ~xp.any(block != 0, axis=1)
        if dropped is not None:
            return xp.where(nothing, xp.full_like(values, categories[dropped].item()), values)
        if any_true(nothing, xp):
            if self.handle_unknown == "error":
                raise ValueError(
                    f"Samples {np.flatnonzero(to_host(nothing))} can not be inverted when "
                    "drop=None and handle_unknown='error' because they contain all zeros"
                )
            if dtype.kind != "f":
                raise ValueError(
                    f"Unknown categories of feature {j} cannot be marked among values of dtype "
                    f"{dtype} on a device. Convert X to NumPy, where they become None."
                )
            return xp.where(nothing, xp.full_like(values, float("nan")), values)
        return values


def dense(codes: list[Array], widths: list[int], dtype: np.dtype) -> Array:
    """Columns of 0 and 1, written once."""
    xp = namespace(codes[0])
    device = device_of(codes[0])
    out = xp.empty((codes[0].shape[0], sum(widths)), dtype=getattr(xp, dtype.name), device=device)
    start = 0
    for code, width in zip(codes, widths, strict=True):
        numbers = xp.arange(width, dtype=code.dtype, device=device)
        out[:, start : start + width] = xp.astype(code[:, None] == numbers, out.dtype)
        start += width
    return out


def csr(codes: list[Array], widths: list[int], dtype: np.dtype) -> Any:
    """A cupyx CSR matrix with a 1 for each feature and row whose category has a column."""
    import cupy
    from cupyx.scipy.sparse import csr_matrix

    starts = np.cumsum([0, *widths])
    rows = cupy.stack([code + start for code, start in zip(codes, starts, strict=False)], axis=1)
    has_column = cupy.stack(codes, axis=1) >= 0
    indptr = cupy.zeros(rows.shape[0] + 1, dtype=cupy.int32)
    indptr[1:] = cupy.cumsum(cupy.count_nonzero(has_column, axis=1))
    indices = rows[has_column].astype(cupy.int32)
    data = cupy.ones(indices.shape, dtype=dtype)
    return csr_matrix((data, indices, indptr), shape=(rows.shape[0], int(starts[-1])))
