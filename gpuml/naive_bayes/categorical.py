"""Naive Bayes for categories that are coded as 0, 1, ..., on the device of the rows."""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from sklearn import naive_bayes as sk

from gpuml._arrays import Array, move, namespace, place_of, to_host
from gpuml.naive_bayes._discrete import Discrete, added
from gpuml.naive_bayes._sums import COUNTERS, ClassRows


class CategoryCounts(NamedTuple):
    """Weights (k,) of classes, counts (k, sum of widths) and highest category (p,) of features.

    The counts of all features are side by side, `widths` (p,) columns each. A model has at least
    `least` (p,) categories per feature. The last three are in CPU memory.
    """

    count: Array
    categories: Array
    highest: np.ndarray
    widths: np.ndarray
    least: np.ndarray


class CategoricalNB(Discrete, sk.CategoricalNB):
    r"""Naive Bayes for categorical features, coded as 0, 1, ...

    .. math:: \log P(y = c, x) = \log \pi_c + \sum_j \log p_{cj x_j}, \qquad
        p_{cjv} = (N_{cjv} + \alpha) / (N_{cj} + \alpha n_j)

    where :math:`N_{cjv}` is the weight of the rows of class c with category v of feature j, and
    :math:`n_j` the number of categories of feature j. NumPy, CuPy, torch and other arrays are
    counted on their device.

    Parameters
    ----------
    alpha : float, default=1.0
        Smoothing, added to each count.
    force_alpha, fit_prior, class_prior
        As for `MultinomialNB`.
    min_categories : int or array-like of shape (n_features,), default=None
        The fewest categories of each feature; None infers them from the largest category in X.

    Attributes
    ----------
    category_count_ : list of n_features arrays of shape (n_classes, n_categories)
        The weights N. All arrays of floats are float64, in the library and on the device of the X
        of the last fit.
    class_count_, class_log_prior_ : array of shape (n_classes,)
        Weight of the rows, and log prior, of each class.
    classes_ : array of shape (n_classes,)
        Sorted labels, of the dtype of y.
    feature_log_prob_ : list of n_features arrays of shape (n_classes, n_categories)
        log p.
    n_categories_ : int array of shape (n_features,)
        The numbers :math:`n_j`.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    BernoulliNB : For binary features.

    References
    ----------
    C. D. Manning, P. Raghavan, H. Schuetze, "Introduction to Information Retrieval", Cambridge
    University Press (2008), chapter 13.

    Examples
    --------
    >>> import numpy as np
    >>> from gpuml.naive_bayes import CategoricalNB
    >>> X = np.array([[0, 2], [0, 1], [1, 0], [1, 0]])
    >>> CategoricalNB().fit(X, [1, 1, 2, 2]).predict([[0, 0], [1, 0]])
    array([1, 2])
    """

    _accept_sparse = False
    category_count_: list[Array]

    def _check_values(self, X):
        super()._check_values(_whole_numbers(X))

    def _sums(self, rows):
        rows = replace(rows, X=_whole_numbers(rows.X))
        highest = to_host(namespace(rows.X).max(rows.X, axis=0)).astype(np.int64)
        widths = self._n_categories(highest)
        counts, count = _category_counts(rows, widths)
        return CategoryCounts(count, counts, highest, widths, 0 * widths)

    def _n_categories(self, highest):
        return self._validate_n_categories(highest[None, :], self.min_categories)

    def _before(self, place):
        widths = np.asarray([counts.shape[1] for counts in self.category_count_])
        counts = place_of(self.class_count_).xp.concat(self.category_count_, axis=1)
        count, counts = (move(a, place) for a in (self.class_count_, counts))
        # Only the categories of the last rows are looked at, as in scikit-learn.
        return CategoryCounts(count, counts, 0 * widths - 1, widths, widths)

    def _joined(self, each, times):
        each = self._small(each)
        highest, widths, least = (
            np.max([getattr(one, name) for one in each], axis=0)
            for name in ("highest", "widths", "least")
        )
        counts = added([_widened(one.categories, one.widths, widths) for one in each], times)
        count = added([one.count for one in each], times)
        return CategoryCounts(count, counts, highest, widths, least)

    def _small(self, sums):
        """The same sums, with numbers of categories in CPU memory."""
        return [CategoryCounts(*one[:2], *map(to_host, one[2:])) for one in sums]

    def _refused(self, partitions, sums):
        """Splits whose held-out part has a category that their training part lacks."""
        found = {}
        for part, each in zip(partitions, sums, strict=True):
            highest = np.stack([one.highest for one in each])  # (A, p)
            for split, (train, test) in enumerate(zip(part.train, part.test, strict=True)):
                if not (test > 0).any() or not (train > 0).any():
                    continue
                widths = self._n_categories(highest[train > 0].max(axis=0))
                unseen = highest[test > 0].max(axis=0) >= widths
                if unseen.any():
                    found[part.first_split + split] = (
                        f"feature {np.argmax(unseen)} has categories in held-out rows that the "
                        "training set lacks. Set min_categories."
                    )
        return found

    def _take_counts(self, sums, home):
        n_categories = self._n_categories(sums.highest)
        widths = np.maximum(n_categories, sums.least)
        counts = move(_widened(sums.categories, sums.widths, widths), home)
        self.class_count_, self.category_count_ = move(sums.count, home), _split(counts, widths)
        self.n_categories_ = move(np.asarray(n_categories), home)

    def _update_feature_log_prob(self, alpha):
        xp = namespace(self.class_count_)

        def logged(counts: Array) -> Array:
            smoothed = counts + alpha
            return xp.log(smoothed) - xp.log(xp.sum(smoothed, axis=1, keepdims=True))

        self.feature_log_prob_ = [logged(counts) for counts in self.category_count_]

    _floats = False

    def _joints(self, models, X):
        self._check_values(X)
        _refuse_unseen(_whole_numbers(X), models[0]._widths)
        return Discrete._joints(models[0], models, X)

    @property
    def _widths(self):
        return [table.shape[1] for table in self.feature_log_prob_]

    def _linear(self):
        # One column per category, all features side by side; a row is 1 in those it has.
        return namespace(self.class_count_).concat(self.feature_log_prob_, axis=1), 0.0

    def _products(self, X, turned):
        xp = namespace(turned)
        index = xp.astype(_whole_numbers(X), xp.int64)
        out = 0.0
        for j, start in enumerate(_starts(self._widths).tolist()):
            out = out + xp.take(turned, index[:, j] + start, axis=0)
        return out


def _whole_numbers(X: Array) -> Array:
    """Values without fractions, as in scikit-learn; integers unchanged."""
    xp = namespace(X)
    return X if xp.isdtype(X.dtype, "integral") else xp.astype(X, xp.int64)


def _starts(widths: Any) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(widths)[:-1]]).astype(np.int64)


def _refuse_unseen(X, widths):
    highest = to_host(namespace(X).max(X, axis=0))
    for value, width in zip(highest, widths, strict=True):
        if value >= width:
            raise IndexError(f"index {value} is out of bounds for axis 1 with size {width}")


def _category_counts(rows: ClassRows, widths: Any) -> tuple[Array, Array]:
    """Counts (k, sum of widths) of the categories of all features, and weights (k,) of classes."""
    total_width, k = int(np.sum(widths)), rows.n_classes
    starts = _starts(widths)
    total: Any = None
    for X, codes, Y in rows.blocks(4 * rows.X.shape[1]):
        place = place_of(Y)
        xp = place.xp
        index = xp.astype(X, xp.int64) + move(starts, place)
        if place.kind in COUNTERS:
            weight = xp.sum(Y, axis=1)  # only one column is not 0
            flat = xp.reshape(index + (codes * total_width)[:, None], (-1,))
            weights = xp.reshape(xp.broadcast_to(weight[:, None], index.shape), (-1,))
            counts = xp.bincount(flat, weights=weights, minlength=k * total_width)
            found = xp.reshape(counts, (k, total_width))
        else:
            found = _counted_by_products(index, Y, total_width)
        parts = found, xp.sum(Y, axis=0)
        total = parts if total is None else tuple(a + b for a, b in zip(total, parts, strict=True))
    return total


def _counted_by_products(index, Y, width):
    """Counts of categories, for libraries without `bincount`."""
    xp = namespace(Y)
    every = xp.arange(width, dtype=index.dtype, device=place_of(Y).device)
    found = xp.zeros((Y.shape[1], width), dtype=xp.float64, device=place_of(Y).device)
    for j in range(index.shape[1]):
        is_there = xp.astype(index[:, j][:, None] == every[None, :], xp.float64)
        found = found + xp.matrix_transpose(Y) @ is_there
    return found


def _split(counts, widths):
    starts = _starts(widths)
    return [counts[:, s : s + int(w)] for s, w in zip(starts.tolist(), widths, strict=True)]


def _widened(counts, widths, wanted):
    """Counts (k, sum of widths) with other widths (k, sum of wanted), larger or smaller."""
    if np.array_equal(widths, wanted):
        return counts
    place = place_of(counts)
    # Column 0 of the longer table is 0: categories that were not counted are looked up there.
    empty = place.xp.zeros((counts.shape[0], 1), dtype=counts.dtype, device=place.device)
    columns = [
        np.where(np.arange(new) < old, 1 + start + np.arange(new), 0)
        for start, old, new in zip(_starts(widths), widths, wanted, strict=True)
    ]
    table = place.xp.concat([empty, counts], axis=1)
    return place.xp.take(table, move(np.concatenate(columns), place), axis=1)
