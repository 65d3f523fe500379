"""Means of the target for each category, on the device of the rows."""

from typing import Any, Self

import numpy as np
from sklearn import preprocessing as sk
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_consistent_length

from gpuml._arrays import Array, is_foreign, move, namespace, place_of, to_host
from gpuml._arrays.gathered import gathered
from gpuml._arrays.labels import encode
from gpuml._arrays.ops import any_true
from gpuml._inputs.output import as_asked
from gpuml._inputs.validation import check_rows, finite_target, unchanged_on_error
from gpuml._sklearn import _fit_context
from gpuml.designs import Coded
from gpuml.preprocessing._categories import Encoder
from gpuml.solvers.level_means import LevelSums

KINDS = ("binary", "multiclass", "continuous")


class TargetEncoder(Encoder, sk.TargetEncoder):
    r"""Encode categories by the mean of the target, shrunk towards the overall mean.

    .. math:: z_c = \lambda_c \bar y_c + (1 - \lambda_c) \bar y, \quad
        \lambda_c = n_c / (n_c + m)

    for a category c of :math:`n_c` rows and a smoothing m, which is :math:`\sigma_c^2 / \sigma^2`
    for "auto". `fit_transform` encodes each row with means over the rows of the other folds
    (cross-fitting), so that its own target does not leak into it. CuPy, torch and other arrays of
    numbers or bools stay on their device; scikit-learn transforms data in CPU memory, including
    strings. Categories and means stay in CPU memory.

    Parameters
    ----------
    categories : "auto" or list of array-likes, default="auto"
        The categories of each feature, sorted if they are numbers; "auto" finds them in `fit`.
    target_type : {"auto", "continuous", "binary", "multiclass"}, default="auto"
        Kind of target. For "multiclass", each feature becomes one column per class.
    smooth : "auto" or float, default="auto"
        The smoothing m, in rows: the larger, the closer encodings are to the overall mean.
    cv : int, splitter or iterable, default=5
        The folds of `fit_transform`.
    shuffle, random_state
        Deprecated in scikit-learn: pass a splitter as `cv` instead.

    Attributes
    ----------
    encodings_ : list of ndarrays
        The encoding of each category, per feature (and per class, if there are several), in CPU
        memory.
    categories_ : list of ndarrays
        The categories of each feature, sorted, with nan at the end, in CPU memory.
    target_type_ : str
    target_mean_ : float, or ndarray of shape (n_classes,)
        Overall mean of the target, which encodes unknown categories.
    classes_ : ndarray or None
        In CPU memory.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    OrdinalEncoder : Encode categories as integers.
    OneHotEncoder : Encode each category as a column.

    References
    ----------
    D. Micci-Barreca, "A preprocessing scheme for high-cardinality categorical attributes in
    classification and prediction problems", SIGKDD Explorations 3 (2001).

    Examples
    --------
    >>> from gpuml.preprocessing import TargetEncoder
    >>> encoder = TargetEncoder(smooth=2.0).fit([["AA"], ["AA"], ["DL"]], [3.5, 4.0, 1.5])
    >>> encoder.transform([["AA"], ["DL"], ["UA"]])
    array([[3.375],
           [2.5  ],
           [3.   ]])
    """

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y) -> Self:  # type: ignore[override]
        """Find the means. Of rows to fit a model to, `fit_transform` is meant.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)

        Returns
        -------
        self : TargetEncoder

        Raises
        ------
        ValueError
            For input that scikit-learn's class rejects. A failed fit leaves the estimator as it
            was.
        """
        return self._fitted(X, y)

    @_fit_context(prefer_skip_nested_validation=True)
    def fit_transform(self, X, y, **params):
        """Find the means, and give each row those of the other folds.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        **params : dict
            ``groups``, by metadata routing.

        Returns
        -------
        X_trans : array of shape (n_samples, n_features) or (n_samples, n_features * n_classes)
            In the library and on the device of X, float64.

        Raises
        ------
        ValueError
            As for `fit`, and if folds overlap or leave rows out.
        """
        with unchanged_on_error(self):
            X, y = self._read(X), gathered(y)
            if not is_foreign(X):
                return super().fit_transform(X, y, **params)
            return as_asked(self, self._cross_fitted(*self._learn(X, y), params))

    def _fit_there(self, X, y=None):
        self._learn(X, y)

    def _fit_few(self, rows):
        names = getattr(self, "feature_names_in_", None)
        self._fit(rows, handle_unknown="ignore", ensure_all_finite="allow-nan")
        if names is not None:
            self.feature_names_in_ = names

    def _learn(self, X: Any, y: Any) -> tuple[list[Array], list[Array], Array, np.ndarray]:
        """Fit to all rows.

        Codes of their categories and which are known, target (n, K), and what is stratified by.
        """
        y = finite_target(self, y)
        Encoder._fit_there(self, X)
        check_consistent_length(X, y)
        X = check_rows(self, X, reset=False, allow_nan=True, keep_dtype=True)
        target, labels = self._target(y, place_of(X))
        mean = to_host(namespace(target).mean(target, axis=0))
        self.target_mean_ = mean if self.target_type_ == "multiclass" else mean[0]
        codes, known = self._codes(X)
        whole = self._sums(codes, target, np.zeros(target.shape[0], dtype=np.int64))
        self.encodings_ = [each for own in whole.whole(self.smooth) for each in own]
        return codes, known, target, labels

    def _codes(self, X: Array) -> tuple[list[Array], list[Array]]:
        """For each feature, codes of categories (n,), and which rows have a known one.

        Others have code 0: in scikit-learn's class their targets count for the first category.
        """
        xp = namespace(X)
        found = [*self._positions(X)]
        codes = [xp.where(known, code, xp.zeros_like(code)) for code, known in found]
        return [xp.astype(code, xp.int64) for code in codes], [known for _, known in found]

    def _sums(self, codes: list[Array], target: Array, folds: np.ndarray) -> LevelSums:
        """Sums by fold and category of targets (n, K) of rows of some folds (n,)."""
        xp, place = namespace(target), place_of(target)
        n_folds, fold = int(folds.max()) + 1, move(folds, place)
        # Squares of numbers are about their mean; 0 and 1 are counted, which is exact.
        mean = np.atleast_1d(self.target_mean_) * (self.target_type_ == "continuous")
        about = target - move(mean, place)
        powers = xp.matrix_transpose(
            xp.concat([xp.ones_like(about[:, :1]), about, about**2], axis=1)
        )

        def summed(code, n_levels):
            slots = Coded((fold * n_levels + code,), (n_folds * n_levels,), xp.float64)
            found = to_host(slots.sums(powers)).reshape(-1, n_folds, n_levels).transpose(1, 0, 2)
            return np.rint(found[:, 0]), *np.split(found[:, 1:], 2, axis=1)

        n_rows, *of_fold = (x[..., 0] for x in summed(xp.zeros_like(fold), 1))
        each = [summed(code, len(own)) for code, own in zip(codes, self.categories_, strict=True)]
        counts, sums, squares = (list(x) for x in zip(*each, strict=True))
        return LevelSums(folds, mean, n_rows, np.stack(of_fold, axis=1), counts, sums, squares)

    def _target(self, y, place):
        """A target of numbers (n, K) where X is, and its labels, or zeros, in CPU memory."""
        if y.ndim == 2 and y.shape[1] == 1:
            y = y[:, 0]
        kind = _kind_of(y) if self.target_type == "auto" else self.target_type
        if kind not in KINDS:
            raise ValueError(
                f"Unknown label type: Target type was inferred to be {kind!r}. Only {KINDS} are "
                "supported."
            )
        self.target_type_, self.classes_, xp = kind, None, place.xp
        if kind == "continuous":
            target = xp.astype(move(y, place), xp.float64)
            return target[:, None], np.zeros(y.shape[0])
        found = encode(y)
        self.classes_ = found.host_classes
        codes = xp.astype(move(found.codes, place), xp.int64)
        if kind == "binary":
            return xp.astype(codes, xp.float64)[:, None], to_host(codes)
        numbers = xp.arange(found.n_classes, dtype=xp.int64, device=place.device)
        return xp.astype(codes[:, None] == numbers[None, :], xp.float64), to_host(codes)

    def _transform_there(self, X):
        X = check_rows(self, X, reset=False, allow_nan=True, keep_dtype=True)
        codes, known = self._codes(X)
        means = np.atleast_1d(np.asarray(self.target_mean_, dtype=np.float64))
        encodings = np.split(np.arange(len(self.encodings_)), len(codes))
        tables = [[self.encodings_[k] for k in own] for own in encodings]
        return _looked_up(codes, known, tables, means)

    def _cross_fitted(self, codes, known, target, labels, params):
        folds = _Folds.of(self, labels, params)
        sums = self._sums(codes, target, folds)
        fold = move(folds, place_of(target))
        inner = sums.inner(self.smooth)
        slots = [fold * each.shape[2] + code for each, code in zip(inner, codes, strict=True)]
        tables = [[each[:, k].ravel() for k in range(each.shape[1])] for each in inner]
        # scikit-learn's class gives unknown categories the mean that it writes last.
        others = sums.of_fold[:-1].sum(axis=0)[0] / sums.n_rows[:-1].sum()
        return _looked_up(slots, known, tables, sums.mean + others)


def _looked_up(codes, known, tables, means):
    """Columns (n, p K) from tables by codes (n,); means (K,) for unknown codes."""
    xp, place = namespace(codes[0]), place_of(codes[0])
    columns = []
    for code, is_known, own in zip(codes, known, tables, strict=True):
        for table, mean in zip(own, means.tolist(), strict=True):
            column = xp.take(move(table, place), code, axis=0)
            columns.append(xp.where(is_known, column, xp.full_like(column, mean)))
    return xp.stack(columns, axis=1)


class _Folds(sk.TargetEncoder):
    """scikit-learn's `fit_transform` without categories: it draws and checks folds."""

    @classmethod
    def of(cls, encoder: Any, y: np.ndarray, params: dict[str, Any]) -> np.ndarray:
        """The fold (n,) in which each row is encoded."""
        drawn = cls(**encoder.get_params(deep=False))
        # Whether there are classes is all that counts.
        drawn.target_type_ = "continuous" if encoder.classes_ is None else "binary"
        drawn.of_rows, drawn.number = np.zeros(len(y), dtype=np.int64), 0
        sk.TargetEncoder.fit_transform(drawn, np.zeros((len(y), 1)), y, **params)
        return drawn.of_rows

    def _fit_encodings_all(self, X, y):
        n = len(y)
        return np.zeros((n, 1), dtype=np.int64), np.ones((n, 1), dtype=bool), np.zeros(n), [1]

    def _fit_encoding_binary_or_continuous(self, *given):
        return []

    def _transform_X_ordinal(self, X_out, X_ordinal, unknown, rows, encodings, mean):
        self.of_rows[rows] = self.number
        self.number += 1


def _kind_of(y):
    """As scikit-learn's `type_of_target`, of labels on a device too."""
    if not is_foreign(y):
        return type_of_target(y, input_name="y")
    xp = namespace(y)
    if y.ndim != 1:
        return "unknown"
    if xp.isdtype(y.dtype, "real floating") and any_true(y != xp.round(y), xp):
        return "continuous"
    return "binary" if encode(y).n_classes <= 2 else "multiclass"
