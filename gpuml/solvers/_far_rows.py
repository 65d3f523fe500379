"""Centres of no row get rows that are far from theirs, by the rule of scikit-learn."""

import numpy as np

from gpuml._arrays import Array, move, namespace, place_of, to_host


def distances_of(X: Array, centres: Array) -> Array:
    """Squared distances (n,) between rows and their centres, row by row."""
    xp = namespace(X)
    away = X - centres
    return xp.sum(away * away, axis=1)


def with_all_centres(
    rows: tuple[Array, Array | None],
    centres: Array,
    labels: Array,
    sums: Array,
    weights: Array,
) -> Array:
    """Means (k, p) of the rows of each centre; of those without rows, some far from their centres.

    Parameters
    ----------
    rows : X (n, p) and their weight (n,) or None
    centres : array (k, p), labels : int array (n,)
        By which rows were labelled.
    sums : array (k, p), weights : array (k,)
        Of the rows of each centre.
    """
    X, weight = rows
    xp = namespace(X)
    distances = distances_of(X, xp.take(centres, labels, axis=0))
    host_weights = to_host(weights)
    n_empty = int((host_weights == 0).sum())
    far = np.asarray(to_host(xp.argsort(distances)[-n_empty:]))[::-1]
    index = move(far.copy(), place_of(X))
    ones = xp.ones_like(distances) if weight is None else weight
    of_far = [xp.take(x, index, axis=0) for x in (X, labels, ones, distances)]
    moved = moved_to_far_rows(to_host(sums), host_weights, *map(to_host, of_far))
    return xp.astype(move(moved, place_of(X)), X.dtype)


def moved_to_far_rows(sums, weights, rows, labels, weight, distances):
    """Means (k, p) of the rows of each centre; of those without rows, some far from their centres.

    Parameters
    ----------
    sums : ndarray (k, p), weights : ndarray (k,)
        Of the rows of each centre.
    rows : ndarray (e, p), labels : ndarray (e,), weight : ndarray (e,), distances : ndarray (e,)
        The farthest row, the next one and so on: one for each centre without rows.
    """
    sums, weights = sums.astype(np.float64), weights.copy()
    if distances.max() > 0:
        empty = np.flatnonzero(weights <= 0)
        for number, row, label, share in zip(empty, rows, labels, weight, strict=True):
            sums[label] -= share * row
            sums[number] = share * row
            weights[number] = share
            weights[label] -= share
    largest = int(weights.argmax())
    means = sums / np.where(weights > 0, weights, 1.0)[:, None]
    # No place is better than another: scikit-learn puts the other centres next to the largest.
    means[weights <= 0] = means[largest]
    return means
