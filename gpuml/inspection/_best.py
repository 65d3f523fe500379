"""Of several candidates at one place of a picture, the best one."""

import numpy as np


def best_at(places: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """For each distinct place, rising, the index of the candidate with the highest score there.

    Places (n,) that are nan have no candidate; a score that is nan is lower than all others.
    """
    rank = np.where(np.isnan(scores), -np.inf, scores)
    order = np.lexsort((-rank, places))
    order = order[np.isfinite(places[order])]
    is_first = np.ones(len(order), dtype=bool)
    is_first[1:] = places[order][1:] != places[order][:-1]
    return order[is_first]


def of_last_iteration(iterations: np.ndarray | None, keys: list) -> np.ndarray:
    """Which candidates are not evaluated again in a later iteration: (n,) of bool."""
    if iterations is None:
        return np.ones(len(keys), dtype=bool)
    last: dict = {}
    for key, iteration in zip(keys, iterations, strict=True):
        last[key] = max(last.get(key, iteration), iteration)
    return np.array([last[key] == it for key, it in zip(keys, iterations, strict=True)])
