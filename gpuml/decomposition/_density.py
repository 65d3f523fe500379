"""Normal densities of all candidates on all splits, from moments of the rows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, Self

from gpuml._arrays import Array, as_array, is_cupyx_sparse, is_sparse, namespace
from gpuml._arrays.small_arrays import small_arrays
from gpuml._arrays.threads import one_thread_for_few
from gpuml._inputs.validation import check_rows, check_rows_finite, unchanged_on_error
from gpuml._persistence.travel import Travels
from gpuml._settings.config import current_settings
from gpuml._sklearn import _fit_context
from gpuml.data import Batch, Folds, resident_rows, whole
from gpuml.decomposition._projection import all_at_home
from gpuml.decomposition._streamed import OVERFLOW
from gpuml.extending import DensityStack, MultifitEstimator
from gpuml.solvers.covariances import Sample, samples
from gpuml.solvers.described import Described, describe, described_by_rows


class Density(Protocol):
    """A model of one training part."""

    def log_likelihood(self, sample: Sample) -> Array:
        """Mean logarithm () of the density over the rows of a sample."""

    def attributes(self) -> dict[str, Any]:
        """Fitted attributes."""


@dataclass(frozen=True)
class Densities(DensityStack):
    """All candidates on all splits.

    Attributes
    ----------
    described : Described
    params : list of C dicts
    make : callable
        ``make(sample, params)``: the `Density` of training rows. What depends on the rows alone it
        keeps in ``sample.known``.
    """

    described: Described
    params: list[dict[str, Any]]
    make: Callable[[Sample, Mapping[str, Any]], Density]
    known: dict[Any, Any] = field(default_factory=dict)

    @property
    def n_candidates(self) -> int:
        return len(self.params)

    @property
    def n_passes(self) -> int:
        return self.described.n_passes

    def log_likelihood(self, part: str) -> Array:
        """Scores (C, S) of all models over the "train" or "test" rows of their splits."""
        rows = self._samples(part)
        found = [
            [self._model(c, s).log_likelihood(rows[s]) for s in range(len(rows))]
            for c in range(self.n_candidates)
        ]
        xp = namespace(found[0][0])
        return xp.stack([xp.stack(each) for each in found])

    def pick(self, candidate: int, split: int | None) -> dict[str, Any]:
        """Fitted attributes of one model; split None means the model of all rows."""
        batch = self.described.folds.batch
        return all_at_home(self._model(candidate, split).attributes(), batch)

    def _model(self, candidate: int, split: int | None) -> Density:
        if (candidate, split) not in self.known:
            sample = self._samples("all" if split is None else "train")[split or 0]
            self.known[candidate, split] = self.make(sample, self.params[candidate])
        return self.known[candidate, split]

    def _samples(self, part: str) -> list[Sample]:
        if part not in self.known:
            self.known[part] = samples(self.described, part)
        return self.known[part]


class DensityEstimator(Travels, MultifitEstimator):
    """A normal density; a subclass fits it to a `Sample` and scores rows.

    Before scikit-learn's class, whose parameters it takes over.
    """

    multifit_divided = True
    # Whether fourth powers of the lengths of rows are read too.
    _needs_lengths: ClassVar[bool] = False
    # Whether samples of fewer rows than features are wanted as rows, without a covariance.
    _reads_few_rows: ClassVar[bool] = False

    @_fit_context(prefer_skip_nested_validation=True)
    @one_thread_for_few
    def fit(self, X, y=None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : ignored

        Returns
        -------
        self : estimator

        Raises
        ------
        ValueError
            For input that scikit-learn's class of the same name rejects. A failed fit leaves the
            estimator as it was.
        MemoryError
            If a device has no room for even small blocks of rows.
        """
        with unchanged_on_error(self), small_arrays():
            batch = self.multifit_batch(X)
            self.__dict__.update(self.multifit(whole(batch), [{}]).pick(0, 0))
        return self

    def _density(self, sample: Sample, params: Mapping[str, Any]) -> Density:
        """The model of training rows."""
        raise NotImplementedError

    def multifit_obstacle(self, X: Any) -> str | None:
        """What scikit-learn's class refuses as well."""
        return "sparse X" if is_sparse(as_array(X)) else None

    def multifit_batch(self, X: Any, y: Any = None, sample_weight: Any = None) -> Batch:
        """Check the rows of a fit or a search and move them to their compute device."""
        X = as_array(X)
        if is_cupyx_sparse(X):
            raise TypeError(
                f"{type(self).__name__} takes no sparse X, and got {type(X).__name__}. Use "
                "X.toarray()."
            )
        X = check_rows(self, X, reset=True, finite_X=False)
        return resident_rows(X, current_settings().device)

    def multifit_rows(self, folds: Folds) -> int:
        """Rows that `multifit` reads: all of them once for each partition of the splits."""
        return len(folds.partitions) * folds.batch.n_rows

    def multifit_work(
        self, n_rows: int, n_features: int, n_targets: int, n_models: int
    ) -> tuple[int | None, float]:
        """One pass for the moments, and small decompositions."""
        return 1, 2.0 * n_rows * n_features**2 + 10.0 * n_models * n_features**3

    def multifit(
        self,
        folds: Folds,
        candidates: Sequence[Mapping[str, Any]],
        advance: Callable[[int], None] | None = None,
    ) -> Densities:
        """Fit every candidate to the training rows of every split, in one pass over the rows."""
        params = [
            {name: each.get(name, getattr(self, name)) for name in self.multifit_params}
            for each in candidates
        ]
        described = self._described(folds, advance)
        if not described.is_finite:
            check_rows_finite(folds.batch, self)
            raise ValueError(OVERFLOW)
        found = Densities(described, params, self._density)
        for c in range(len(params)):
            for s in range(folds.n_splits):
                found._model(c, s)  # here, where a candidate that fails is noticed
        return found

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.array_api_support = True
        return tags

    def _sample(self, X: Any) -> Sample:
        """Rows that a fitted model scores."""
        X = check_rows(self, X, reset=False)
        folds = whole(resident_rows(X, current_settings().device))
        return samples(self._described(folds), "all")[0]

    def _described(self, folds, advance=None):
        batch, block_bytes = folds.batch, current_settings().block_bytes
        if self._reads_few_rows and batch.n_features > batch.n_rows:
            return described_by_rows(folds, block_bytes, advance)
        return describe(
            folds,
            block_bytes=block_bytes,
            advance=advance,
            by_features=True,
            lengths=self._needs_lengths,
        )
