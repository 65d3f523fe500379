"""Support vector machines that differ in penalties or kernels: one matrix of pairs per fold.

libsvm computes a kernel in each fit, entry by entry, and again for each prediction. Kernels with
the same base (squared distances, or inner products) are functions of one matrix. So the matrix is
made once per fold and each kernel once for all penalties, and libsvm reads the kernel. libsvm
rounds kernels to float32 while it fits: the machines equal single fits within `tol`.
"""

import sys
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import check_array
from sklearn.utils.parallel import Parallel, delayed

from gpuml._arrays import HOST, free_bytes, has_gpu, is_array, is_numpy
from gpuml._arrays.threads import blas_threads
from gpuml._arrays.transfers import format_bytes
from gpuml._settings.config import current_settings
from gpuml._sklearn import _routing_enabled
from gpuml.model_selection.candidates import KERNELS, Made
from gpuml.model_selection.one_by_one import (
    Task,
    announce_start,
    score_model,
)
from gpuml.model_selection.scores import asks_for_predictions_only
from gpuml.resampling.keys import value_key
from gpuml.solvers.pair_kernels import PARAMETERS, PairKernel, pair_base

MACHINES = ("NuSVC", "NuSVR", "OneClassSVM", "SVC", "SVR")
NAMES = ("linear", "poly", "rbf", "sigmoid")
# Parameters in which machines that share one matrix may differ.
VARYING = ("C", "class_weight", "coef0", "degree", "epsilon", "gamma", "kernel", "nu")
# How many fold-sized matrices exist: the base and a kernel.
MATRICES = 2
# The denominator of their share of the free memory: several folds may run.
SHARE = 4


# The cost of an exponential relative to a product of two numbers, and the share of support vectors,
# times features and this cost, times the machines with a kernel, above which a kernel of all pairs
# is faster than libsvm's own.
EXPONENTIAL = 20
LEAST_SHARE = 25.0
# Seconds of a fit from which several run in threads: joblib looks every 10 ms whether they are
# done.
LONG_FIT = 0.02


class OwnKernels(Exception):
    """The reason why machines compute kernels themselves, as text for the user."""


def reads_kernels(estimator: Any) -> bool:
    """Whether libsvm fits an estimator to rows in CPU memory."""
    kind = type(estimator)
    if kind.__name__ not in MACHINES:
        return False
    # No import is needed: without the modules there is no such estimator.
    if kind is getattr(sys.modules.get("sklearn.svm"), kind.__name__, None):
        return True
    ours = kind is getattr(sys.modules.get("gpuml.svm"), kind.__name__, None)
    return ours and (current_settings().device == "cpu" or not has_gpu())


def kernel_key(estimator: Any) -> Hashable | None:
    """A key, equal for machines whose kernels are functions of one matrix; None for others."""
    if not reads_kernels(estimator) or getattr(estimator, "probability", False) is True:
        return None
    name = estimator.kernel
    if not isinstance(name, str) or name not in NAMES:
        return None
    return "kernels", PairKernel(name).base


def one_kernel_key(estimator: Any) -> Hashable | None:
    """A key, equal for machines with the same kernel, which workers must not divide."""
    key = kernel_key(estimator)
    names = PARAMETERS.get(estimator.kernel, ()) if key is not None else ()
    return key and (key, estimator.kernel, *(value_key(getattr(estimator, n)) for n in names))


@dataclass(frozen=True)
class Seen:
    """Rows of a fold as machines see them, in float64.

    Attributes
    ----------
    train : ndarray (n, p)
    parts : dict of str to ndarray
        Those that are scored, "test" and maybe "train".
    """

    train: np.ndarray
    parts: Mapping[str, np.ndarray]

    @classmethod
    def of(cls, members: Sequence[Any], stage: Any, task: Task) -> "Seen":
        """The rows of a stage; raises OwnKernels if machines must compute kernels themselves."""
        parts = _parts(members, stage, task)
        train = _rows(stage.X_train)
        seen = {name: train if X is stage.X_train else _rows(X) for name, X in parts.items()}
        _check_memory(len(train), sum(len(X) for X in seen.values() if X is not train))
        return cls(train, seen)

    def check_pays(self, fitted: Any, kernels: Sequence[PairKernel]) -> None:
        """Raise OwnKernels if a fitted machine has few support vectors, as others will have.

        Or if few of them have the same of these kernels, one for each. libsvm computes kernels of
        support vectors and of few other rows; a machine that failed tells nothing.
        """
        n, p = self.train.shape
        n_support = len(getattr(fitted, "support_", self.train))
        spared = n_support * (p + EXPONENTIAL) * len(kernels) / max(1, len(set(kernels)))
        if spared < LEAST_SHARE * n:
            raise OwnKernels(
                "few rows are support vectors, or few candidates share a kernel: libsvm computes "
                "few kernels"
            )


def fit_by_kernels(
    members: Sequence[Any], stage: Any, task: Task, alone: Callable[[Any], dict[str, Any]]
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Fit and score machines of one `kernel_key`; positions and results, kernel after kernel.

    Parameters
    ----------
    members : sequence of Member
    stage : Stage
    task : Task
    alone : callable
        The result of a member whose machine is fitted to rows. One is, and tells whether others
        gain by kernels of all pairs.

    Raises
    ------
    OwnKernels
        If they have to compute kernels themselves.
    """
    if not asks_for_predictions_only(task):
        raise OwnKernels("your own scorer may use X or the estimator")
    rows, middle = Seen.of(members, stage, task), len(members) // 2
    result = alone(members[middle])
    others = [i for i in range(len(members)) if i != middle]
    kernels = [_kernel_of(members[i].model, rows.train) for i in others]
    try:
        rows.check_pays(members[middle].model, kernels)
    except OwnKernels:
        yield middle, result
        raise
    yield middle, {**result, "made": Made(shared=(KERNELS,))}
    threads = blas_threads() if result["fit_time"] >= LONG_FIT else 1
    some = [members[i] for i in others]
    for i, result in _fit_all(some, kernels, rows, stage.fold, task, threads):
        yield others[i], result


def _fit_all(members, wanted, rows, fold, task, threads):
    """Positions and results of machines that read kernels, each the one that is wanted."""
    train, seen = rows.train, rows.parts
    started = time.perf_counter()
    base = pair_base(wanted[0].base, train)
    bases = {
        name: base if X is train else pair_base(wanted[0].base, X, train)
        for name, X in seen.items()
    }
    base_seconds = (time.perf_counter() - started) / len(members)
    for kernel in dict.fromkeys(wanted):
        some = [i for i, each in enumerate(wanted) if each == kernel]
        started = time.perf_counter()
        K = kernel.of_base(base, train.shape[1])
        given = {
            name: K if known is base else kernel.of_base(known, train.shape[1])
            for name, known in bases.items()
        }
        seconds = base_seconds + (time.perf_counter() - started) / len(some)
        # libsvm lets other threads go on while it fits, on one core.
        parallel = Parallel(n_jobs=min(threads, len(some)), backend="threading")
        fits = parallel(delayed(_fitted)(members[i], K, fold.y_train, task) for i in some)
        for i, (machine, own_seconds) in zip(some, fits, strict=True):
            result = _scored(machine, given, fold, task)
            yield i, {**result, "fit_time": seconds + own_seconds}


def _fitted(member, K, y, task):
    """A machine that reads kernels, and the seconds of its fit."""
    announce_start(member.params, member.where, task)
    theirs = getattr(sys.modules["sklearn.svm"], type(member.model).__name__)
    machine = theirs(**{**member.model.get_params(deep=False), "kernel": "precomputed"})
    started = time.perf_counter()
    member.fit(machine, K, y)
    return machine, time.perf_counter() - started


def _scored(machine, given, fold, task):
    """The result of a machine, as scorers see it, except for the fit time."""
    started = time.perf_counter()
    params = fold.test_score_params
    test = score_model(machine, given["test"], fold.y_test, params, task)
    result = {
        "fit_error": None,
        "test_scores": test,
        "n_test_samples": fold.n_test,
        "score_time": time.perf_counter() - started,
        "made": Made(shared=(KERNELS,)),
    }
    if task.return_train_score:
        params = fold.train_score_params
        result["train_scores"] = score_model(machine, given["train"], fold.y_train, params, task)
    if task.kept is not None:
        result["predictions"] = task.kept.of(machine, given["test"])
    return result


def _parts(members, stage, task) -> Mapping[str, Any]:
    """The rows that machines are scored on."""
    fold = stage.fold
    if task.return_estimator:
        raise OwnKernels("return_estimator=True needs models fitted to rows")
    if _routing_enabled() and (fold.test_score_params or fold.train_score_params):
        raise OwnKernels("metadata is routed to scorers")
    if any(_drops_rows(member.fit_params.get("sample_weight")) for member in members):
        raise OwnKernels(
            "libsvm drops rows of no weight, and then reads other rows of a kernel; leave out rows "
            "whose sample_weight is 0"
        )
    alone = all(member.assemble is None for member in members)
    rows = {"test": fold.X_test, "train": fold.X_train} if alone else stage.seen
    return {name: rows[name] for name in ("test", "train")[: 1 + task.return_train_score]}


def _drops_rows(weight):
    """Whether libsvm trains without some rows, so that `support_` no longer counts all of them."""
    if weight is None:
        return False
    weight = np.asarray(weight)
    return weight.dtype.kind not in "biuf" or not bool((weight > 0).all())


def _rows(X):
    """Rows (n, p) in float64, as libsvm reads them."""
    if hasattr(X, "tocsr"):
        raise OwnKernels("X is sparse")
    if is_array(X) and not is_numpy(X):
        raise OwnKernels("X is not in CPU memory")
    return check_array(X, dtype=np.float64, order="C")


def _check_memory(n_train, n_others):
    needed = 8 * MATRICES * n_train * (n_train + n_others)
    if needed > free_bytes(HOST) // SHARE:
        raise OwnKernels(
            f"kernels of {n_train:,} rows take {format_bytes(needed)}, more than a quarter of the "
            "free CPU memory"
        )


def _kernel_of(model, train) -> PairKernel:
    gamma, p = model.gamma, train.shape[1]
    if gamma == "auto":
        gamma = 1.0 / p
    elif gamma == "scale":
        variance = train.var() if "gamma" in PARAMETERS.get(model.kernel, ()) else 0.0
        gamma = 1.0 / (p * variance) if variance != 0 else 1.0
    return PairKernel.of(model.kernel, gamma=gamma, coef0=model.coef0, degree=model.degree)
