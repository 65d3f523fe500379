"""Naive Bayes for categories that are counted 0, 1, ..., on the device of the rows."""

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn import naive_bayes as sk

from gpuml._arrays import Array, move, namespace, place_of, to_host
from gpuml.naive_bayes._discrete import Discrete
from gpuml.naive_bayes._sums import ClassRows, in_blocks, work_place

COUNTERS = ("numpy", "cupy", "torch")


class CategoricalNB(Discrete, sk.CategoricalNB):
    r"""Naive Bayes for features whose values are categories 0, 1, ...

    .. math:: \log P(y = c, x) = \log \pi_c + \sum_j \log p_{cj x_j}, \qquad
        p_{cjv} = (N_{cjv} + \alpha) / (N_{cj} + \alpha n_j)

    with the weight N of the rows of class c whose feature j has the category v, one of n_j. Rows
    of NumPy, CuPy, torch and other libraries are counted where they are.

    Parameters
    ----------
    alpha : float, default=1.0
        Added to each count.
    force_alpha, fit_prior, class_prior
        As for `MultinomialNB`.
    min_categories : int or array-like of shape (n_features,), default=None
        Least number of categories of each feature; None takes those that are seen.

    Attributes
    ----------
    category_count_ : list of n_features arrays of shape (n_classes, n_categories)
        N, float64, in the library and on the device of the X of the last fit, as are all arrays.
    class_count_, class_log_prior_ : array of shape (n_classes,)
    classes_ : array of shape (n_classes,)
        Sorted labels, of the kind of y.
    feature_log_prob_ : list of n_features arrays of shape (n_classes, n_categories)
        log p.
    n_categories_ : int array of shape (n_features,)
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Only where the columns of X have string names.

    See Also
    --------
    BernoulliNB : For two categories.

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

    def _add(self, rows, first):
        rows = replace(rows, X=_whole_numbers(rows.X))
        home = place_of(rows.X)
        xp = home.xp
        highest = to_host(xp.max(rows.X, axis=0))
        n_categories = self._validate_n_categories(highest[None, :], self.min_categories)
        before = None if first else [counts.shape[1] for counts in self.category_count_]
        widths = n_categories if before is None else np.maximum(n_categories, before)
        counts, count = _category_counts(rows, widths)
        counts = [move(a, home) for a in _split(counts, widths)]
        count = move(count, home)
        if not first:
            counts = [
                a + _widened(move(b, home), a.shape[1])
                for a, b in zip(counts, self.category_count_, strict=True)
            ]
            count = count + move(self.class_count_, home)
        self.class_count_, self.category_count_ = count, counts
        self.n_categories_ = move(np.asarray(n_categories), home)

    def _update_feature_log_prob(self, alpha):
        xp = namespace(self.class_count_)

        def logged(counts: Array) -> Array:
            smoothed = counts + alpha
            return xp.log(smoothed) - xp.log(xp.sum(smoothed, axis=1, keepdims=True))

        self.feature_log_prob_ = [logged(counts) for counts in self.category_count_]

    def _joint_log_likelihood(self, X):
        self._check_values(X)
        X = _whole_numbers(X)
        place = work_place(X)
        xp = place.xp
        widths = [table.shape[1] for table in self.feature_log_prob_]
        _refuse_unseen(X, widths)
        # One row of logarithms a class, features one after the other.
        table = move(place_of(self.class_count_).xp.concat(self.feature_log_prob_, axis=1), place)
        prior = move(self.class_log_prior_, place)
        starts = move(_starts(widths), place)

        def joint(block: Array) -> Array:
            index = xp.reshape(xp.astype(block, xp.int64) + starts, (-1,))
            sums = [
                xp.sum(xp.reshape(xp.take(table[c, :], index, axis=0), block.shape), axis=1)
                for c in range(table.shape[0])
            ]
            return xp.stack(sums, axis=1) + prior

        return in_blocks(X, 3 * X.shape[1] + 2 * table.shape[0], joint, floats=False)


def _whole_numbers(X: Array) -> Array:
    """Values without their fractions, as scikit-learn takes them; integers as they are."""
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
    """For libraries without `bincount`."""
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


def _widened(counts, width):
    place = place_of(counts)
    missing = width - counts.shape[1]
    if missing == 0:
        return counts
    zeros = place.xp.zeros((counts.shape[0], missing), dtype=counts.dtype, device=place.device)
    return place.xp.concat([counts, zeros], axis=1)
