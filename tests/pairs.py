"""Which combinations of parameters are enough: those in which every pair of values meets once.

Most errors need two values at most: a dtype in an order, a solver without an intercept. A test of a
full product that is marked with ``@pytest.mark.pairwise`` keeps so many of its combinations in
``make test``. One whose cases take long, of two parameters, is marked ``@pytest.mark.each``: those
in which every value is once. Of a list of problems that take long ``@pytest.mark.some`` keeps every
third. All others are `exhaustive`, and run with ``make test-all``.
"""

import heapq
from collections.abc import Hashable, Sequence
from itertools import combinations


def cover(rows: Sequence[Sequence[Hashable]], strength: int = 2) -> list[int]:
    """Positions of rows in which all values meet, two by two, that meet in any row: few of them.

    Greedy: the row that brings most new pairs comes next, of several the first.

    Parameters
    ----------
    rows : sequence of tuples
        Combinations of values, one for each parameter.
    strength : int, default=2
        How many values meet; 1 for every value by itself.

    Examples
    --------
    >>> from itertools import product
    >>> rows = list(product("ab", "cd", "ef"))
    >>> ["".join(rows[i]) for i in cover(rows)]
    ['ace', 'adf', 'bcf', 'bde']
    >>> ["".join(rows[i]) for i in cover(rows, 1)]
    ['ace', 'bdf']
    """
    if len({len(row) for row in rows}) > 1:
        raise ValueError("All combinations must have values of the same parameters.")
    if rows and len(rows[0]) < strength:
        return list(range(len(rows)))
    groups = [set(combinations(enumerate(row), strength)) for row in rows]
    left = set().union(*groups)
    # What a row brings only becomes less: who was best before is asked again first.
    best = [(-len(own), i) for i, own in enumerate(groups)]
    heapq.heapify(best)
    chosen = []
    while left:
        _, i = heapq.heappop(best)
        groups[i] &= left
        if best and (-len(groups[i]), i) > best[0]:
            heapq.heappush(best, (-len(groups[i]), i))
        else:
            left -= groups[i]
            chosen.append(i)
    return sorted(chosen)
