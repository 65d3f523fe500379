"""Gaussian process classifiers of all candidates on all splits, from distances of all rows."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from typing import Any

import numpy as np
from sklearn import multiclass
from sklearn.base import clone
from sklearn.preprocessing import LabelBinarizer

from gpuml._arrays import Array, move, namespace, place_of, to_host
from gpuml._arrays.threads import threads_for_order
from gpuml._sklearn import _ovr_decision_function
from gpuml.data import Folds, take
from gpuml.extending import ClassStack
from gpuml.gaussian_process._binary import (
    BinaryFit,
    BinaryGaussianProcess,
    binary_kernel,
    fit_binary,
)
from gpuml.gaussian_process._kernels import kernel_of
from gpuml.gaussian_process._models import find_bases, shared_pairs, side_by_side
from gpuml.gaussian_process._pairs import Own, Pairs
from gpuml.gaussian_process._theta import is_optimised
from gpuml.kernel_ridge._models import doubles
from gpuml.linear_model._class_models import class_counts
from gpuml.solvers.posteriors import latent_variance, mean_logistic, positive_factor


@dataclass(frozen=True)
class Problem:
    """Label 1 is the class `second`, label 0 the class `first`, or all others if it is None."""

    second: int
    first: int | None

    def rows(self, codes: np.ndarray) -> np.ndarray | None:
        """Indices of the rows with one of the two labels; None for all rows."""
        if self.first is None:
            return None
        return np.flatnonzero((codes == self.first) | (codes == self.second))


def problem_of(model: Any) -> BinaryGaussianProcess:
    """An unfitted process for two labels with the parameters of a classifier."""
    params, found = model.get_params(deep=False), BinaryGaussianProcess()
    return found.set_params(**{name: params[name] for name in found.get_params(deep=False)})


def problems_of(model: Any, n_classes: int) -> list[Problem]:
    """The problems that a classifier fits: each class against the rest, or each pair of classes."""
    if n_classes == 2:
        return [Problem(1, None)]
    if model.multi_class == "one_vs_rest":
        return [Problem(c, None) for c in range(n_classes)]
    return [Problem(second, first) for first, second in combinations(range(n_classes), 2)]


def class_attributes(
    model: Any, found: Sequence[BinaryGaussianProcess], classes: Any
) -> dict[str, Any]:
    """Fitted attributes of a classifier, from the fitted models of its problems."""
    n_classes, labels = classes.shape[0], to_host(classes)
    around: Any = found[0]
    if n_classes > 2 and model.multi_class == "one_vs_rest":
        around = multiclass.OneVsRestClassifier(problem_of(model), n_jobs=model.n_jobs)
        around.estimators_ = list(found)
        around.label_binarizer_ = LabelBinarizer(sparse_output=True).fit(labels)
    elif n_classes > 2:
        around = multiclass.OneVsOneClassifier(problem_of(model), n_jobs=model.n_jobs)
        around.estimators_, around.pairwise_indices_ = tuple(found), None
    if n_classes > 2:
        around.classes_, around.n_features_in_ = labels, int(found[0].X_train_.shape[1])
    value = np.mean([each.log_marginal_likelihood_value_ for each in found])
    return {
        "base_estimator_": around,
        "classes_": classes,
        "n_classes_": n_classes,
        "log_marginal_likelihood_value_": value,
    }


@dataclass(frozen=True)
class Job:
    """One problem of one candidate on the training rows of a split."""

    model: BinaryGaussianProcess
    pairs: Pairs
    y: Array
    known: Array | None


def _jobs(model: Any, n_classes: int, pairs: Pairs, codes: Array) -> Iterator[Job]:
    """The problems of a classifier for pairs of rows with codes of their classes."""
    xp, here = namespace(codes), to_host(codes)
    kernel, problem = binary_kernel(model.kernel), problem_of(model)
    fixed = not is_optimised(problem, kernel)
    K = kernel_of(kernel, pairs) if fixed else None
    for each in problems_of(model, n_classes):
        rows = each.rows(here)
        y = xp.astype(codes == each.second, xp.float64)
        if rows is None:
            yield Job(clone(problem), pairs, y, K)
        else:
            yield Job(clone(problem), pairs.part(rows), take(y, rows, xp), None)


def _fit(job: Job) -> BinaryFit:
    return fit_binary(job.model, job.pairs, job.y, job.known)


def fitted_problems(
    model: Any,
    pairs: Pairs,
    codes: Array,
    X: Array,
    classes: Array,
    chosen: Sequence[Any] | None = None,
) -> list[BinaryGaussianProcess]:
    """Fitted models of the problems of a classifier, for rows X (n, p) on the user's device.

    `chosen` are their kernels; without it, the hyperparameters are optimised.
    """
    n_classes, here = classes.shape[0], to_host(codes)
    jobs = list(_jobs(model, n_classes, pairs, codes))
    if chosen is not None:
        jobs = [_of_kernel(job, kernel) for job, kernel in zip(jobs, chosen, strict=True)]
    rows = [each.rows(here) for each in problems_of(model, n_classes)]
    # A user's function may not be safe to call from threads.
    alone = len(jobs) == 1 or callable(model.optimizer)
    labels = classes if n_classes == 2 else np.asarray([0, 1])
    xp = namespace(X)
    found = side_by_side(_fit, jobs, pairs.shape[0], place_of(pairs.X), serial=alone)
    return [
        job.model.adopt(fit, job.y, X if some is None else take(X, some, xp), labels)
        for job, fit, some in zip(jobs, found, rows, strict=True)
    ]


def _of_kernel(job, kernel):
    return replace(job, model=clone(job.model).set_params(kernel=kernel, optimizer=None))


# ---------------------------------------------------------------- searches


@dataclass(frozen=True)
class LabelFit:
    """A problem fitted on a split: kernel, residuals ``y - pi`` and roots of W at its rows."""

    kernel: Any
    residual: Array
    root: Array


@dataclass(frozen=True)
class LabelStack(ClassStack):
    """Fitted classifiers of C candidates on S splits.

    Attributes
    ----------
    folds : Folds
    models : list of C estimators
        Unfitted estimators with the parameters of the candidates.
    fits : list of C lists of S lists of problems
    words : str
        How the classifiers were fitted.
    """

    folds: Folds
    models: Sequence[Any]
    fits: Sequence[Sequence[Sequence[LabelFit]]]
    words: str

    # The estimators have no `decision_function`; labels and probabilities follow from `decision`.
    has_decisions = False
    # One pass over the rows, for their distances.
    n_passes = 1

    @property
    def n_candidates(self) -> int:
        """Number of candidates."""
        return len(self.models)

    def pick(self, candidate: int, split: int | None) -> dict[str, Any]:
        """Fitted attributes of one model; split None means the model fitted to all rows."""
        batch, model = self.folds.batch, self.models[candidate]
        pairs, X, codes, chosen = shared_pairs(self.folds), batch.X, batch.codes, None
        if split is not None:
            train, xp = self.folds.splits[split].train, namespace(X)
            pairs, X, codes = pairs.part(train), take(X, train, xp), _codes_of(batch, train)
            chosen = [fit.kernel for fit in self.fits[candidate][split]]
        X = move(X, batch.home)
        found = fitted_problems(model, pairs, codes, X, batch.classes, chosen)
        return class_attributes(model, found, batch.classes)

    def decision(self, X: Array, split: int, candidates: slice) -> Array:
        """Columns (C, m, k) for rows X (m, p) from which labels and probabilities follow.

        With two classes, the second column is the probability of the second class, and the first
        one is larger or smaller by 1: f may be too close to 0 to change a probability. With more
        classes, each column holds the probabilities of a class against the rest, or its votes with
        "one_vs_one".
        """
        train, xp = self.folds.splits[split].train, namespace(X)
        X, own = doubles(X), shared_pairs(self.folds).part(train)
        pairs, n_classes = Pairs(own.X, X), self.folds.batch.n_classes
        codes, found = to_host(_codes_of(self.folds.batch, train)), []
        with threads_for_order(own.shape[0]):
            for model, fits in zip(self.models[candidates], self.fits[candidates], strict=True):
                rows = [problem.rows(codes) for problem in problems_of(model, n_classes)]
                answers = [
                    _answer(fit, own, pairs, some)
                    for fit, some in zip(fits[split], rows, strict=True)
                ]
                found.append(_columns(answers, model, n_classes))
        return xp.stack(found)

    def probability(self, decision: Array) -> Array | None:
        """Probabilities (C, m, k) from `decision`; None if a candidate has only votes."""
        if self.folds.batch.n_classes > 2:
            voted = any(model.multi_class == "one_vs_one" for model in self.models)
            return None if voted else summing_to_one(decision)
        second = decision[..., 1]
        return namespace(decision).stack([1.0 - second, second], axis=-1)


def _codes_of(batch, rows):
    return take(batch.codes, rows, namespace(batch.codes))


def _answer(fit, own, pairs, rows):
    """Mean (m,) of f, and probability (m,) of label 1."""
    if rows is not None:
        own, pairs = own.part(rows), pairs.part(rows, slice(0, pairs.shape[1]))
    inner = fit.root[:, None] * kernel_of(fit.kernel, own) * fit.root
    factor = positive_factor(inner)
    K, prior = kernel_of(fit.kernel, pairs), kernel_of(fit.kernel, Own(pairs.Y))
    mean = fit.residual @ K
    return mean, mean_logistic(mean, latent_variance(factor, fit.root, K, prior))


def _columns(answers, model, n_classes):
    """Columns (m, k) of one candidate, as in `LabelStack.decision`."""
    means, shares = zip(*answers, strict=True)
    xp = namespace(means[0])
    if n_classes == 2:
        step = xp.where(means[0] > 0, -xp.ones_like(means[0]), xp.ones_like(means[0]))
        return xp.stack([shares[0] + step, shares[0]], axis=-1)
    shares = xp.stack(shares, axis=-1)
    if model.multi_class == "one_vs_rest":
        return shares
    return votes_of(xp.stack(means, axis=-1), shares, n_classes)


def votes_of(means: Array, shares: Array, n_classes: int) -> Array:
    """Votes (m, k) from the means and probabilities (m, pairs) of each pair of classes."""
    found = _ovr_decision_function(to_host(means > 0).astype(int), to_host(shares), n_classes)
    return move(found, place_of(means))


def summing_to_one(shares: Array) -> Array:
    """Shares (..., k) divided by their sums, except where a sum is 0."""
    xp = namespace(shares)
    total = xp.sum(shares, axis=-1, keepdims=True)
    return shares / xp.where(total != 0, total, xp.ones_like(total))


def fitted_labels(
    folds: Folds, models: Sequence[Any], advance: Callable[[int], None] | None
) -> LabelStack:
    """Fit classifiers on the training parts of splits.

    Raises
    ------
    UnfittableSplits
        If a training part lacks a class.
    """
    batch, n_classes = folds.batch, folds.batch.n_classes
    models[0]._check_classes(batch.labels)
    class_counts(folds, fewest=2)
    pairs = shared_pairs(folds)
    find_bases(pairs, [binary_kernel(model.kernel) for model in models])
    sizes = [len(problems_of(model, n_classes)) for model in models]

    def jobs():
        for split in folds.splits:
            part, codes = pairs.part(split.train), _codes_of(batch, split.train)
            for model in models:
                yield from _jobs(model, n_classes, part, codes)

    def fit(job):
        found = _fit(job)
        return LabelFit(found.kernel, job.y - found.mode.share, found.mode.root)

    serial = any(callable(model.optimizer) for model in models)
    done = side_by_side(fit, jobs(), batch.n_rows, batch.work, serial=serial, advance=advance)
    ends = np.cumsum([0, *sizes * folds.n_splits])  # of each model on each split
    runs = [done[first:last] for first, last in pairwise(ends)]
    fits = [runs[c :: len(models)] for c in range(len(models))]
    words = f"{sum(sizes) * folds.n_splits} fits from the distances of all rows"
    return LabelStack(folds, models, fits, words)
