"""A number for each category, on the device of the rows."""

import numpy as np
from sklearn import preprocessing as sk
from sklearn.utils.validation import check_array, check_is_fitted

from gpuml._arrays import Array, as_array, device_of, is_foreign, move, namespace, place_of
from gpuml._arrays.ops import any_true
from gpuml._inputs.validation import check_images, check_rows
from gpuml._sklearn import is_scalar_nan
from gpuml.preprocessing._categories import Encoder, one_of_each


class OrdinalEncoder(Encoder, sk.OrdinalEncoder):
    """Encode categories as integers, in the order of the sorted categories.

    CuPy, torch and other arrays of numbers or bools stay on their device; scikit-learn transforms
    data in CPU memory, including strings. Categories stay in CPU memory.

    Parameters
    ----------
    categories : "auto" or list of array-likes, default="auto"
        The categories of each feature, sorted if they are numbers; "auto" finds them in `fit`.
    dtype : dtype, default=numpy.float64
        dtype of the output.
    handle_unknown : {"error", "use_encoded_value"}, default="error"
        What `transform` does with a category that `fit` has not seen: raise an error, or use
        `unknown_value`.
    unknown_value : int or nan, default=None
        The number for unknown categories.
    encoded_missing_value : int or nan, default=nan
        The number for missing values.
    min_frequency, max_categories : default=None
        Group rare categories under one number, after all others: those with fewer rows than
        `min_frequency` (a number or a share of the rows), and the rarest ones beyond
        `max_categories` numbers.

    Attributes
    ----------
    categories_ : list of ndarrays
        Categories of each feature, sorted, nan at the end; in CPU memory.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    OneHotEncoder : Encode each category as a column.
    TargetEncoder : Encode categories by the mean of the target.

    Examples
    --------
    >>> from gpuml.preprocessing import OrdinalEncoder
    >>> OrdinalEncoder().fit_transform([["AA", 7], ["DL", 3], ["AA", 3]])
    array([[0., 1.],
           [1., 0.],
           [0., 0.]])
    """

    def _transform_there(self, X):
        X = check_rows(self, X, reset=False, allow_nan=True, keep_dtype=True)
        xp, place = namespace(X), place_of(X)
        dtype = getattr(xp, np.dtype(self.dtype).name)
        columns, unknown = [], []
        for j, (found, is_known) in enumerate(self._positions(X)):
            numbers = move(self._number_of_category(j), place)
            slots = xp.where(is_known, found, xp.full_like(found, numbers.shape[0] - 1))
            columns.append(xp.astype(xp.take(numbers, slots, axis=0), dtype))
            unknown.append(xp.any(~is_known))
        if self.handle_unknown == "error" and any_true(xp.stack(unknown), xp):
            # scikit-learn says it in its words, of one row or more of each category.
            sk.OrdinalEncoder.transform(self, one_of_each(X))
        return xp.stack(columns, axis=1)

    def _number_of_category(self, j: int) -> np.ndarray:
        """The number of each category of feature j, and last that of unknown ones."""
        numbers = self._grouped(j).astype(np.float64)
        if j in self._missing_indices:
            numbers[self._missing_indices[j]] = self.encoded_missing_value
        unknown = self.unknown_value if self.handle_unknown == "use_encoded_value" else 0.0
        return np.append(numbers, float(unknown))

    def inverse_transform(self, X):
        """Categories from their numbers.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        X_original : array of shape (n_samples, n_features)
            In the library and on the device of X. Of an unknown category there is None for data in
            CPU memory, nan for device data.

        Raises
        ------
        ValueError
            For device data, if an unknown category would have to be an integer, or if rare
            categories share a number.
        """
        check_is_fitted(self)
        X = as_array(X)
        if not is_foreign(X):
            # scikit-learn's would write into X where categories are missing.
            X = check_array(X, ensure_all_finite="allow-nan", copy=True)
            return super().inverse_transform(X)
        self._refuse_rare()
        X = check_images(self, X, len(self.categories_), allow_nan=True, keep_dtype=True)
        return namespace(X).stack([self._inverse(X[:, j], j) for j in range(X.shape[1])], axis=1)

    def _inverse(self, codes: Array, j: int) -> Array:
        """Categories (n,) of feature j from their numbers."""
        xp, place = namespace(codes), place_of(codes)
        dtype = np.result_type(*self.categories_)
        categories = self.categories_[j].astype(dtype)
        if j in self._missing_indices:
            number = xp.full_like(codes, self._missing_indices[j])
            codes = xp.where(_is(codes, self.encoded_missing_value), number, codes)
        unknown = None
        if self.handle_unknown == "use_encoded_value":
            unknown = _is(codes, self.unknown_value)
            codes = xp.where(unknown, xp.zeros_like(codes), codes)
        if any_true((codes < 0) | (codes >= len(categories)), xp):
            raise IndexError(
                f"Feature {j} has {len(categories)} categories, numbered from 0, but X holds other "
                "numbers."
            )
        values = xp.take(move(categories, place), xp.astype(codes, xp.int64), axis=0)
        if unknown is None or not any_true(unknown, xp):
            return values
        if dtype.kind != "f":
            raise ValueError(
                f"Unknown categories of feature {j} cannot be marked among values of dtype {dtype} "
                "on a device. Convert X to NumPy, where they become None."
            )
        nan = xp.asarray(float("nan"), dtype=values.dtype, device=device_of(values))
        return xp.where(unknown, nan, values)


def _is(codes, value):
    """Where numbers are a value, which may be nan."""
    xp = namespace(codes)
    if not is_scalar_nan(value):
        return codes == value
    if xp.isdtype(codes.dtype, "real floating"):
        return xp.isnan(codes)
    return xp.zeros_like(codes, dtype=xp.bool)
