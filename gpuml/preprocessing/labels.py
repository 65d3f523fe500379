"""Labels as integers, or as one indicator column per class, on the device of the labels."""

from typing import Any, Self

import numpy as np
from sklearn import preprocessing as sk
from sklearn.utils.validation import check_is_fitted

from gpuml._arrays import Array, as_array, device_of, is_foreign, move, namespace, place_of
from gpuml._inputs.validation import flat_target, unchanged_on_error
from gpuml._persistence.travel import Travels
from gpuml._sklearn import _fit_context
from gpuml.preprocessing._categories import distinct, positions


class LabelEncoder(Travels, sk.LabelEncoder, auto_wrap_output_keys=None):
    """Encode labels as integers, in the order of the sorted classes.

    CuPy, torch and other arrays stay on their device; scikit-learn does the work for labels in CPU
    memory, including strings. gpuml's models do not need encoded labels: they accept labels of any
    kind.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes, sorted, with nan last; in CPU memory.

    See Also
    --------
    OrdinalEncoder : Encode categorical features as integers.
    LabelBinarizer : Encode labels as one column per class.

    Examples
    --------
    >>> from gpuml.preprocessing import LabelEncoder
    >>> LabelEncoder().fit_transform(["DL", "AA", "DL"])
    array([1, 0, 1])
    """

    def fit(self, y) -> Self:
        """Find the classes.

        Parameters
        ----------
        y : array-like of shape (n_samples,)

        Returns
        -------
        self : LabelEncoder

        Raises
        ------
        ValueError
            If y has several columns.
        """
        with unchanged_on_error(self):
            y = as_array(y)
            return super().fit(distinct(flat(y)) if is_foreign(y) else y)

    def fit_transform(self, y):
        """Find the classes, and encode the labels.

        Parameters
        ----------
        y : array-like of shape (n_samples,)

        Returns
        -------
        codes : int array of shape (n_samples,)
            In the library and on the device of y.
        """
        y = as_array(y)
        return self.fit(y).transform(y) if is_foreign(y) else super().fit_transform(y)

    def transform(self, y):
        """Encode labels as integers.

        Parameters
        ----------
        y : array-like of shape (n_samples,)

        Returns
        -------
        codes : int array of shape (n_samples,)
            In the library and on the device of y.

        Raises
        ------
        ValueError
            For labels that were not in `fit`.
        """
        check_is_fitted(self)
        y = as_array(y)
        if not is_foreign(y):
            return super().transform(y)
        y = flat(y)
        xp = namespace(y)
        super().transform(distinct(y))  # it says which labels it does not know
        return xp.astype(positions(y, self.classes_)[0], xp.int64)

    def inverse_transform(self, y):
        """Decode integers to labels.

        Parameters
        ----------
        y : int array-like of shape (n_samples,)

        Returns
        -------
        labels : array of shape (n_samples,)
            In the library and on the device of y, which must support labels of this kind.

        Raises
        ------
        ValueError
            For integers that are not the code of a class.
        """
        check_is_fitted(self)
        y = as_array(y)
        if not is_foreign(y):
            return super().inverse_transform(y)
        y = flat(y)
        super().inverse_transform(distinct(y))
        return _labels(self.classes_, y)


class LabelBinarizer(Travels, sk.LabelBinarizer, auto_wrap_output_keys=None):
    """Encode labels as one indicator column per class, or a single one for two classes.

    y may also be a matrix of 0 and 1, with several labels per row. CuPy, torch and other arrays
    stay on their device; scikit-learn does the work for data in CPU memory.

    Parameters
    ----------
    neg_label : int, default=0
        The value for rows of other classes; less than `pos_label`.
    pos_label : int, default=1
        The value for rows of the class of the column.
    sparse_output : bool, default=False
        Whether `transform` returns a sparse matrix; only for data in CPU memory.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes, sorted; in CPU memory.
    y_type_ : str
        The type of y, from scikit-learn's `type_of_target`.
    sparse_input_ : bool
        Whether y was a sparse matrix.

    See Also
    --------
    LabelEncoder : Encode labels as integers.

    Examples
    --------
    >>> from gpuml.preprocessing import LabelBinarizer
    >>> LabelBinarizer().fit_transform(["DL", "AA", "UA"])
    array([[0, 1, 0],
           [1, 0, 0],
           [0, 0, 1]])
    """

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, y) -> Self:
        """Find the classes.

        Parameters
        ----------
        y : array-like or sparse matrix of shape (n_samples,) or (n_samples, n_classes)

        Returns
        -------
        self : LabelBinarizer

        Raises
        ------
        ValueError
            If y does not hold labels, or if `sparse_output` is True for labels on a device.
        """
        with unchanged_on_error(self):
            y = as_array(y)
            if not is_foreign(y):
                return super().fit(y)
            self._refuse_sparse(y)
            return super().fit(_few(y))

    def fit_transform(self, y):
        """Find the classes, and encode the labels.

        Parameters
        ----------
        y : array-like or sparse matrix of shape (n_samples,) or (n_samples, n_classes)

        Returns
        -------
        Y : int array of shape (n_samples, n_columns)
            In the library and on the device of y.
        """
        return self.fit(y).transform(y)

    def transform(self, y):
        """Encode labels as indicator columns.

        Parameters
        ----------
        y : array-like or sparse matrix of shape (n_samples,) or (n_samples, n_classes)

        Returns
        -------
        Y : int array of shape (n_samples, n_columns)
            In the library and on the device of y. Labels that were not in `fit` have `neg_label` in
            every column.
        """
        check_is_fitted(self)
        y = as_array(y)
        if not is_foreign(y):
            return super().transform(y)
        self._refuse_sparse(y)
        # It says what is wrong with labels of this kind, and of two classes makes a column of the
        # second, or one of each where labels are neither.
        n_columns = super().transform(_few(y)).shape[1]
        xp, there = namespace(y), {"dtype": namespace(y).int64, "device": device_of(y)}
        if _are_several(y):
            own = y != 0
        else:
            found, is_known = positions(flat(y), self.classes_)
            columns = xp.arange(len(self.classes_), **there)
            own = (found[:, None] == columns[None, :]) & is_known[:, None]
            if len(self.classes_) == 1:
                own = xp.zeros_like(own)
            own = own[:, -n_columns:]
        pos, neg = (xp.full(own.shape, v, **there) for v in (self.pos_label, self.neg_label))
        return xp.where(own, pos, neg)

    def inverse_transform(self, Y, threshold=None):
        """Decode indicator columns, decision values or probabilities to labels.

        Parameters
        ----------
        Y : array-like or sparse matrix of shape (n_samples, n_columns)
        threshold : float, default=None
            For one column, or several labels per row: values above it are of the class. None is the
            midpoint of `neg_label` and `pos_label`.

        Returns
        -------
        labels : array of shape (n_samples,) or (n_samples, n_classes)
            In the library and on the device of Y, which must support labels of this kind.
        """
        check_is_fitted(self)
        Y = as_array(Y)
        if not is_foreign(Y):
            return super().inverse_transform(Y, threshold)
        xp = namespace(Y)
        threshold = (self.pos_label + self.neg_label) / 2 if threshold is None else threshold
        if self.y_type_ == "multiclass":
            return _labels(self.classes_, xp.argmax(Y, axis=1))
        is_float = xp.isdtype(Y.dtype, "real floating")
        Y = Y if is_float else xp.astype(Y, xp.float64)
        above = xp.astype(threshold < Y, xp.int64)
        if self.y_type_ != "binary":
            return above
        if len(self.classes_) == 1:
            return _labels(np.repeat(self.classes_, 2), xp.reshape(above, (-1,)))
        two = above.ndim == 2 and above.shape[1] == 2
        return _labels(self.classes_, above[:, 1] if two else xp.reshape(above, (-1,)))

    def _refuse_sparse(self, y):
        if self.sparse_output:
            raise ValueError(
                f"sparse_output=True is for labels in CPU memory, and y is on {place_of(y)}. Set "
                "sparse_output=False."
            )


def flat(y: Array) -> Array:
    """Labels as a vector; ValueError for several columns."""
    y = flat_target(y)
    if y.ndim != 1:
        raise ValueError(f"y should be a 1d array, got an array of shape {tuple(y.shape)} instead.")
    return y


def _are_several(y):
    return y.ndim == 2 and y.shape[1] > 1


def _few(y: Array) -> np.ndarray:
    """A few labels in CPU memory that scikit-learn considers the same kind of target."""
    if not _are_several(y):
        values = distinct(flat(y))
        return np.resize(values, 3 * len(values))  # many alike: they are no measurements
    values = distinct(namespace(y).reshape(y, (-1,)))
    return np.resize(values, (2 * len(values), y.shape[1]))


def _labels(classes: np.ndarray, numbers: Any) -> Any:
    """Labels by the numbers of their classes, at the same place."""
    if classes.dtype.kind not in "biuf":
        raise ValueError(
            f"Labels of dtype {classes.dtype} are for CPU memory, and y is on {place_of(numbers)}. "
            "Convert y to NumPy."
        )
    xp = namespace(numbers)
    return xp.take(move(classes, place_of(numbers)), xp.astype(numbers, xp.int64), axis=0)
