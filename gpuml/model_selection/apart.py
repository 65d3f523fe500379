"""Rows split at random in two: by scikit-learn, and partition by partition of Dask DataFrames."""

from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split as split_rows
from sklearn.utils import check_random_state

from gpuml._arrays.gathered import gathered, is_divided

LARGEST_SEED = 2**31 - 1
TEST_SIZE = 0.25


def train_test_split(
    *arrays,
    test_size=None,
    train_size=None,
    random_state=None,
    shuffle=True,
    stratify=None,
):
    """Split rows at random into training and test rows.

    scikit-learn's function does the work, for dask arrays of known chunk sizes too, and the parts
    of these are lazy. Dask DataFrames and Series are split lazily as well: each partition by
    itself, by Dask's `random_split`, so that shares are met on average, and rows are shuffled
    within partitions. Columns that are split together must have the same partitions.

    Parameters
    ----------
    *arrays : array-likes, DataFrames or sparse matrices of shape (n_samples, ...)
        Dask arrays, DataFrames and Series too.
    test_size, train_size : float or int, default=None
        Shares, or numbers of rows. For Dask DataFrames these are shares whose sum is 1. If both
        are None, a quarter of the rows are test rows.
    random_state : int, RandomState instance or None, default=None
    shuffle : bool, default=True
        False splits the rows in their order, and is not for Dask DataFrames.
    stratify : array-like of shape (n_samples,), default=None
        Labels whose shares both parts have. A dask array is gathered, with a warning. Not for Dask
        DataFrames.

    Returns
    -------
    parts : list
        Training and test rows of each of the arrays, in turn.

    Raises
    ------
    TypeError
        If some arrays are Dask DataFrames and others are not.
    ValueError
        For what scikit-learn's function rejects, or what Dask DataFrames are not split by.

    Examples
    --------
    >>> from gpuml.model_selection import train_test_split
    >>> train_test_split([1, 2, 3, 4], random_state=0)
    [[4, 2, 1], [3]]
    """
    frames = [x for x in arrays if is_divided(x) and hasattr(x, "random_split")]
    if frames:
        share = _share_of_test(test_size, train_size)
        _check_frames(arrays, frames, shuffle, stratify)
        seed = check_random_state(random_state).randint(LARGEST_SEED)
        shares = [1 - share, share]
        pairs = (x.random_split(shares, random_state=seed, shuffle=True) for x in frames)
        return [part for pair in pairs for part in pair]
    return split_rows(
        *arrays,
        test_size=test_size,
        train_size=train_size,
        random_state=random_state,
        shuffle=shuffle,
        stratify=gathered(stratify),
    )


def _share_of_test(test_size: Any, train_size: Any) -> float:
    """The share of test rows."""
    given = [size for size in (test_size, train_size) if size is not None]
    if not all(isinstance(size, float | np.floating) and 0 < size < 1 for size in given):
        raise ValueError(
            f"Dask DataFrames are split by shares between 0 and 1, got test_size={test_size!r} and "
            f"train_size={train_size!r}. Write test_size={TEST_SIZE}, for example."
        )
    if len(given) == 2 and abs(test_size + train_size - 1) > 1e-9:
        raise ValueError(
            f"Dask DataFrames are split in two parts that contain all rows: test_size={test_size} "
            f"and train_size={train_size} do not add up to 1. Pass one of them."
        )
    if test_size is None:
        return TEST_SIZE if train_size is None else 1 - float(train_size)
    return float(test_size)


def _check_frames(arrays, frames, shuffle, stratify):
    if len(frames) < len(arrays):
        other = next(x for x in arrays if all(x is not frame for frame in frames))
        raise TypeError(
            f"Dask DataFrames are split with other Dask DataFrames or Series only, got "
            f"{type(other).__name__} too. Keep the target in a column of X, or split arrays: "
            "X.to_dask_array(lengths=True)."
        )
    if len({(x.npartitions, x.divisions) for x in frames}) > 1:
        raise ValueError(
            "Dask DataFrames that are split together must have the same partitions: "
            f"{', '.join(str(x.npartitions) for x in frames)} partitions, or other divisions. "
            "Keep the target in a column of X, and split that."
        )
    if stratify is not None or not shuffle:
        wanted = "shuffle=False" if not shuffle else "stratify"
        raise ValueError(
            f"{wanted} is not supported for Dask DataFrames, which are split at random, partition "
            "by partition. Leave it out, or split arrays: X.to_dask_array(lengths=True)."
        )
