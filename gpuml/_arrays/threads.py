"""Threads on a CPU: our own over blocks of rows, with BLAS kept to one each."""

import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache, wraps
from itertools import chain, islice
from typing import Any, TypeVar

Method = TypeVar("Method", bound=Callable[..., Any])

ALONE_FROM_ORDER, ALONE_TO_ORDER = 48, 512
ALONE_FROM_NUMBERS = 512  # of the sides of a system
# Multiplications of the largest product of rows with each other up to which BLAS has one thread.
ALONE_TO_PRODUCTS = 1e8
# So many pools of each number of threads are kept: one, and those of maps within maps and beside.
POOLS_KEPT = 4

# Threads that are ours while BLAS is limited; None: it is not.
_ours: int | None = None
_idle: dict[int, list[ThreadPoolExecutor]] = {}
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: _idle.clear())  # their threads stay in the parent


def ordered_map(function: Callable, items: Iterable, threads: int) -> Generator:
    """``map`` over a pool of threads, in order, with only a few results waiting at a time.

    A single item is done in the caller's thread. When the caller closes the generator, or an item
    raises, items that have not begun are dropped, and those that have are waited for.
    """
    items = iter(items)
    first = list(islice(items, 2))
    if len(first) < 2:
        yield from map(function, first)
        return
    waiting: deque = deque()
    with _pool(threads) as pool:
        try:
            for item in chain(first, items):
                waiting.append(pool.submit(function, item))
                if len(waiting) > 2 * threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            wait([future for future in waiting if not future.cancel()])


@contextmanager
def _pool(threads):
    """Threads for one map at a time: starting them takes as long as a pass over few rows."""
    idle = _idle.setdefault(threads, [])
    try:
        pool = idle.pop()
    except IndexError:
        pool = ThreadPoolExecutor(threads, thread_name_prefix="gpuml_map")
    try:
        yield pool
    finally:
        if len(idle) < POOLS_KEPT:
            idle.append(pool)
        else:
            pool.shutdown(wait=False)


@cache
def _libraries():
    """The BLAS libraries of this process: NumPy's and SciPy's may be two."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas").lib_controllers


def blas_threads() -> int:
    """Threads that BLAS would use here: what the user, the container or joblib allowed."""
    if _ours is not None:
        return _ours
    allowed = [library.num_threads for library in _libraries()]
    return max(1, min(allowed, default=os.cpu_count() or 1))


def threads_for_order(order: int, n_sides: int = 1) -> AbstractContextManager:
    """A context for many small factorisations of matrices of some order, and solutions with them.

    Where BLAS would use threads though one is as fast, it gets one: several would wait for each
    other in every call, for seconds where another process holds a core.
    """
    many = order >= ALONE_FROM_ORDER or order * n_sides >= ALONE_FROM_NUMBERS
    alone = many and order <= ALONE_TO_ORDER
    return one_blas_thread() if alone else nullcontext()


def threads_for_rows(n_rows: int, n_columns: int) -> AbstractContextManager:
    """A context for all that is done with rows of some columns: few numbers get one BLAS thread.

    As `threads_for_order`, but our own threads, which have products of their own, stay.
    """
    few = n_rows * n_columns * min(n_rows, n_columns) <= ALONE_TO_PRODUCTS
    if not few or _ours is not None or not may_limit_blas():
        return nullcontext()
    return _one_thread(blas_threads())


def threads_of(estimator: Any, folds: Any) -> AbstractContextManager:
    """`threads_for_rows` for models of an estimator, which may multiply all pairs of the rows."""
    return _threads_of(estimator, *folds.sizes)


def _threads_of(estimator, n_rows, n_columns):
    pairs = getattr(estimator, "_multiplies_pairs", False)
    return threads_for_rows(n_rows, max(n_rows, n_columns) if pairs else n_columns)


def one_thread_for_few(fit: Method) -> Method:
    """Decorate a `fit` whose work is products of the columns of X and y: see `threads_of_fit`."""

    @wraps(fit)
    def with_threads(self, X, *args, **kwargs):
        with threads_of_fit(self, X, args[0] if args else kwargs.get("y")):
            return fit(self, X, *args, **kwargs)

    return with_threads  # type: ignore[return-value]


def threads_of_fit(estimator: Any, X: Any, y: Any) -> AbstractContextManager:
    """`threads_of` for rows that are not checked yet."""
    shape: Any = getattr(X, "shape", ())
    of_y: Any = getattr(y, "shape", ())
    # Some collections do not know how many rows they have.
    if len(shape) != 2 or not all(isinstance(length, int) for length in shape):
        return nullcontext()
    n_targets = of_y[1] if len(of_y) == 2 else 1
    return _threads_of(estimator, shape[0], shape[1] + n_targets)


def one_blas_thread() -> AbstractContextManager:
    """BLAS calls inside run on their caller's thread alone, if `may_limit_blas`; else as before."""
    return _one_thread(1) if may_limit_blas() else nullcontext()


@contextmanager
def _one_thread(ours):
    global _ours
    before, _ours = _ours, ours
    # threadpoolctl's own context takes as long as a fit of few rows.
    limited = [] if before is not None else [(each, each.num_threads) for each in _libraries()]
    try:
        for library, _ in limited:
            library.set_num_threads(1)
        yield
    finally:
        for library, n_threads in limited:
            library.set_num_threads(n_threads)
        _ours = before


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
