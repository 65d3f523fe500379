"""Means of the target for each category, on the device of the rows."""

import warnings
from typing import Any, Self

import numpy as np
from sklearn import preprocessing as sk
from sklearn.model_selection import check_cv
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_consistent_length

from gpuml._arrays import Array, as_array, is_array, is_foreign, move, namespace, place_of, to_host
from gpuml._arrays.labels import encode
from gpuml._inputs.output import as_asked
from gpuml._inputs.validation import check_rows, require_target, unchanged_on_error
from gpuml._sklearn import _fit_context, _routing_enabled
from gpuml.designs import Coded
from gpuml.preprocessing._categories import Encoder, one_of_each, positions

KINDS = ("binary", "multiclass", "continuous")


class TargetEncoder(Encoder, sk.TargetEncoder):
    r"""The mean of the target over the rows of each category, drawn towards the mean of all.

    .. math:: z_c = \lambda_c \bar y_c + (1 - \lambda_c) \bar y, \quad
        \lambda_c = n_c / (n_c + m)

    for a category c of :math:`n_c` rows and a smoothing m, which is
    :math:`\sigma_c^2 / \sigma^2` for "auto". `fit_transform` gives each row what rows of the other
    folds say. Integers, bools and floats of CuPy, torch and other libraries are worked on where
    they are; data in CPU memory, strings included, is scikit-learn's work. Categories and means
    stay in CPU memory.

    Parameters
    ----------
    categories : "auto" or list of array-likes, default="auto"
        Found in `fit`, or given for each feature, sorted where they are numbers.
    target_type : {"auto", "continuous", "binary", "multiclass"}, default="auto"
        Of several classes, each feature becomes a column for each class.
    smooth : "auto" or float, default="auto"
        The larger, the closer to the mean of all.
    cv : int, splitter or iterable, default=5
        The folds of `fit_transform`.
    shuffle, random_state
        scikit-learn is going to remove them: give `cv` a splitter instead.

    Attributes
    ----------
    encodings_ : list of ndarrays
        What each category becomes, for each feature, and class of several; in CPU memory.
    categories_ : list of ndarrays
        Sorted, nan at the end; in CPU memory.
    target_type_ : str
    target_mean_ : float, or ndarray of shape (n_classes,)
        What unknown categories become.
    classes_ : ndarray or None
        In CPU memory.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Only where the columns of X have string names.

    See Also
    --------
    OrdinalEncoder : The number of each category.
    OneHotEncoder : A column for each category.

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
            X = self._read(X)
            if not is_foreign(X):
                return super().fit_transform(X, y, **params)
            codes, target, labels = self._learn(X, y)
            return as_asked(self, self._cross_fitted(codes, target, labels, params))

    def _fit_there(self, X, y=None):
        self._learn(X, y)

    def _learn(self, X: Any, y: Any) -> tuple[list[Array], Array, np.ndarray]:
        """Fit to all rows; codes of their categories, target (n, K), and what is stratified by."""
        require_target(self, y)
        y = as_array(y)
        X = check_rows(self, X, reset=True, allow_nan=True, keep_dtype=True)
        check_consistent_length(X, y)
        self._fit(one_of_each(X), handle_unknown="ignore", ensure_all_finite="allow-nan")
        target, labels = self._target(y, place_of(X))
        codes = [namespace(X).where(known, found, -1) for found, known in self._positions(X)]
        mean = to_host(namespace(target).mean(target, axis=0))
        self.target_mean_ = mean if self.target_type_ == "multiclass" else mean[0]
        self.encodings_ = [to_host(found) for found in self._encodings(codes, target)]
        return codes, target, labels

    def _positions(self, X):
        xp = namespace(X)
        for j, categories in enumerate(self.categories_):
            yield positions(xp.asarray(X[:, j], copy=True), categories)

    def _target(self, y, place):
        """A target of numbers (n, K) where X is, and its labels, or zeros, in CPU memory."""
        y = y if is_array(y) else np.asarray(y)
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

    def _encodings(self, codes: list[Array], target: Array) -> list[Array]:
        """What categories become (C,), feature by feature, and class by class in each."""
        xp = namespace(target)
        mean = xp.mean(target, axis=0)
        variance = xp.mean((target - mean) ** 2, axis=0)
        found: list[Array] = []
        for own, categories in zip(codes, self.categories_, strict=True):
            by_code = Coded((own,), (len(categories),), xp.float64)
            counts = by_code.rmatvec(xp.ones_like(target[:, :1]))[0, :]
            sums = by_code.rmatvec(target)
            there = xp.where(counts > 0, counts, xp.ones_like(counts))
            means = sums / there
            if self.smooth == "auto":
                # Code -1 looks up something, and counts for nothing.
                of_row = xp.where(own < 0, xp.zeros_like(own), own)
                about = target - xp.take(xp.matrix_transpose(means), of_row, axis=0)
                spread = by_code.rmatvec(about**2) / there
                known = variance[:, None] * counts
                weight = known + spread
                share = known / xp.where(weight > 0, weight, xp.ones_like(weight))
                encoded = share * means + (1.0 - share) * mean[:, None]
            else:
                weight = counts + float(self.smooth)
                positive = xp.where(weight > 0, weight, xp.ones_like(weight))
                encoded = (sums + float(self.smooth) * mean[:, None]) / positive
                encoded = xp.where(weight > 0, encoded, mean[:, None] + xp.zeros_like(encoded))
            found.extend(encoded[k, :] for k in range(encoded.shape[0]))
        return found

    def _encoded(self, codes: list[Array], encodings: list[Array], mean: Array) -> Array:
        """Rows (n, p K) of what their categories become; the mean for those of code -1."""
        xp, columns, n_classes = namespace(mean), [], mean.shape[0]
        for number, encoding in enumerate(encodings):
            own = codes[number // n_classes]
            known = xp.take(encoding, xp.where(own < 0, 0, own), axis=0)
            columns.append(xp.where(own < 0, mean[number % n_classes], known))
        return xp.stack(columns, axis=1)

    def _transform_there(self, X):
        X = check_rows(self, X, reset=False, allow_nan=True, keep_dtype=True)
        xp, place = namespace(X), place_of(X)
        codes = [xp.where(known, found, -1) for found, known in self._positions(X)]
        mean = move(np.atleast_1d(np.asarray(self.target_mean_, dtype=np.float64)), place)
        return self._encoded(codes, [move(each, place) for each in self.encodings_], mean)

    def _cross_fitted(self, codes, target, labels, params):
        place, n_rows = place_of(target), target.shape[0]
        xp, held_out, parts = place.xp, [], []
        for train, test in self._splits(n_rows, labels, params):
            held_out.append(test)
            train, test = (move(np.asarray(rows), place) for rows in (train, test))
            learnt = xp.take(target, train, axis=0)
            encodings = self._encodings([xp.take(own, train, axis=0) for own in codes], learnt)
            own = [xp.take(each, test, axis=0) for each in codes]
            parts.append(self._encoded(own, encodings, xp.mean(learnt, axis=0)))
        rows = np.concatenate(held_out)
        if not np.array_equal(np.sort(rows), np.arange(n_rows)):
            raise ValueError(
                "Validation indices from `cv` must cover each sample index exactly once with no "
                "overlap. Pass a splitter with non-overlapping validation folds as `cv`."
            )
        return xp.take(xp.concat(parts), move(np.argsort(rows), place), axis=0)

    def _splits(self, n_rows, labels, params):
        options: dict[str, Any] = {"shuffle": True}
        given = {"shuffle": self.shuffle, "random_state": self.random_state}
        given = {name: value for name, value in given.items() if value != "deprecated"}
        if given:
            warnings.warn(
                "`TargetEncoder.shuffle` and `TargetEncoder.random_state` are deprecated in "
                "version 1.9 and will be removed in version 1.11. Pass a cross-validation "
                "generator as `cv` argument to specify the shuffling behaviour instead.",
                FutureWarning,
                stacklevel=5,
            )
        options.update(given)
        is_classes = self.target_type_ != "continuous"
        cv = check_cv(self.cv, labels, classifier=is_classes, **options)
        if params and not _routing_enabled():
            raise ValueError(
                f"{sorted(params)} need metadata routing: "
                "sklearn.set_config(enable_metadata_routing=True)."
            )
        return cv.split(np.zeros((n_rows, 1)), labels, params.get("groups"))


def _kind_of(y):
    """As scikit-learn's `type_of_target`, of labels on a device too."""
    if not is_foreign(y):
        return type_of_target(y, input_name="y")
    xp = namespace(y)
    if y.ndim != 1:
        return "unknown"
    if xp.isdtype(y.dtype, "real floating") and bool(xp.any(y != xp.round(y))):
        return "continuous"
    return "binary" if encode(y).n_classes <= 2 else "multiclass"
