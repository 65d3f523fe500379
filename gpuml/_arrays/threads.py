"""Threads on a CPU: our own over blocks of rows, with BLAS kept to one each."""

import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from itertools import chain, islice

ALONE_FROM_ORDER, ALONE_TO_ORDER = 48, 512


def ordered_map(function: Callable, items: Iterable, threads: int) -> Generator:
    """``map`` over a pool of threads, in order, with only a few results waiting at a time.

    A single item is done in the caller's thread.
    """
    items = iter(items)
    first = list(islice(items, 2))
    if len(first) < 2:
        yield from map(function, first)
        return
    items = chain(first, items)
    with ThreadPoolExecutor(threads) as pool:
        waiting: deque = deque()
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) > 2 * threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


@cache
def _controller():
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def blas_threads() -> int:
    """Threads that BLAS would use here: what the user, the container or joblib allowed."""
    allowed = [
        library["num_threads"] for library in _controller().info() if library["user_api"] == "blas"
    ]
    return max(1, min(allowed, default=os.cpu_count() or 1))


def threads_for_order(order: int) -> AbstractContextManager:
    """A context for many small factorisations of matrices of some order.

    Where BLAS would use threads though one is as fast, it gets one: several would wait for each
    other in every call, for seconds where another process holds a core.
    """
    alone = ALONE_FROM_ORDER <= order <= ALONE_TO_ORDER
    return one_blas_thread() if alone else nullcontext()


def one_blas_thread() -> AbstractContextManager:
    """BLAS calls inside run on their caller's thread alone, if `may_limit_blas`; else as before."""
    if not may_limit_blas():
        return nullcontext()
    return _controller().limit(limits=1, user_api="blas")


def openmp_threads(threads: int | None) -> AbstractContextManager:
    """Limit the threads of OpenMP loops in this context, such as those of boosters; None: no limit.

    The number belongs to the calling thread, so that fits side by side each have their own. Of
    more threads than cores, each would wait for others that are not running.
    """
    if threads is None:
        return nullcontext()
    from threadpoolctl import threadpool_info, threadpool_limits

    now = [each["num_threads"] for each in threadpool_info() if each["user_api"] == "openmp"]
    return threadpool_limits(min([threads, *now]), user_api="openmp")


def may_limit_blas() -> bool:
    """Whether this thread may change the number of BLAS threads: the main one only.

    The number belongs to the process, so that several threads that set and restore it would leave
    it wrong, and OpenBLAS takes no notice of other threads than the main one anyway.
    """
    return threading.current_thread() is threading.main_thread()
