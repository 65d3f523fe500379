"""What `PCA` and `TruncatedSVD` share: fits of any rows, and of all parts of a search at once."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

from sklearn.base import clone

from gpuml._arrays import as_array, is_cupyx_sparse, is_sparse, move, place_of
from gpuml._arrays.threads import one_thread_for_few
from gpuml._inputs.csr import check_csr
from gpuml._inputs.output import as_asked
from gpuml._inputs.validation import unchanged_on_error
from gpuml._sklearn import _fit_context
from gpuml.decomposition._compressed import Decomposed
from gpuml.decomposition._fitted import Fitted
from gpuml.decomposition._fitting import AnyRows, SparseBatch, decomposed, from_parts
from gpuml.decomposition._input import batch_of, check_fit_rows
from gpuml.decomposition._principal import check_n_components, kept_counts, n_leading
from gpuml.decomposition._projection import Projection, project
from gpuml.decomposition._streamed import check_streamed, opened
from gpuml.divided.stored import StoredRows
from gpuml.extending import AffineStep
from gpuml.reading.sources import is_stored
from gpuml.solvers.affine import FittedStep, Parts


class Decomposition(AffineStep, Projection):
    """A base class before scikit-learn's, which does the work that `_needs_sklearn` names.

    A class has, besides that and `_fit_by_sklearn`:

    * `_least()`: the least `min_rows` or `min_features` of dense rows;
    * `_solver(rows)`: the name of what finds components of rows, as `PCA` names it;
    * `_wanted(n_rows, n_features, solver)`: how many components there are to be, or a ValueError;
    * `_iteration(count, n_rows, n_features)`: numbers of an iterative solver;
    * `_fitted(found, counts, n_rows, batch, solvers)`: the record of what was found;
    * `_solver_of_part(n_rows, n_features)` and `_why_not(shape)`, as a step of a search.
    """

    # Whether the mean is removed.
    _centred: ClassVar[bool]

    @_fit_context(prefer_skip_nested_validation=True)
    @one_thread_for_few
    def fit(self, X, y=None) -> Self:
        """Find the components.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            At least two rows for `PCA`, two features for `TruncatedSVD`. With "compressed", also
            what `gpuml.linalg.svd_compressed` takes.
        y : ignored

        Returns
        -------
        self : estimator

        Raises
        ------
        ValueError
            For input that scikit-learn's class of the same name rejects, and for device data with
            the "arpack" of `PCA`. A failed fit leaves the estimator as it was.
        TypeError
            For sparse X with a solver that would make it dense.
        RuntimeError, ImportError
            For cuML's solvers without a GPU or without cuML.
        MemoryError
            If a device has no room for even small blocks of rows.
        """
        if isinstance(X, StoredRows):
            return X.fit_model(self)
        with unchanged_on_error(self):
            self._fit_any(X, "fit")
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    @one_thread_for_few
    def fit_transform(self, X, y=None):
        """Find the components, and project the same rows on them.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : ignored

        Returns
        -------
        X_new : array of shape (n_samples, n_components_)
            In the library and on the device of X.
        """
        with unchanged_on_error(self):
            rows, home = self._fit_any(X, "fit_transform")
            return rows if home is None else as_asked(self, move(project(self, rows), home))

    def _fit_any(self, X, method):
        """Rows to project, perhaps on a device, and the place for the result.

        The place is None where scikit-learn's `method` has done it all.
        """
        self.__dict__.pop("_fill", None)
        X = opened(X)
        if self._needs_sklearn(X):
            return self._fit_by_sklearn(method, X), None
        return self._find(X)

    def _find(self, X):
        if is_cupyx_sparse(X):
            rows: Any = check_csr(self, X, reset=True, floats=True)
            batch: AnyRows = SparseBatch(rows, place_of(rows.data))
        elif self.fits_batches and is_stored(X):
            rows = batch = check_streamed(self, X, reset=True, **self._least())
        else:
            rows = check_fit_rows(self, X, keep_dtype=self.fits_batches, **self._least())
            batch = batch_of(rows)
            rows = batch.X
        self.__dict__.update(self.fit_batch(batch))
        return rows, batch.home

    def fit_batch(self, batch: AnyRows) -> dict[str, Any]:
        """Attributes fitted to the rows of a batch, which may be divided."""
        n, p, solver = batch.n_rows, batch.n_features, self._solver(batch)
        wanted = self._wanted(n, p, solver)
        found = decomposed(self, batch, solver, wanted, centred=self._centred)
        counts = kept_counts(found.found, (wanted,), (n,))
        return self._fitted(found, counts, (n,), batch, (solver,)).pick(0)

    # ---------------------------------------------------------------- as a step of a search

    def affine_obstacle(self, X: Any) -> str | None:
        """The reason why no exact solver of gpuml can share work between candidates, if any.

        It is asked with all rows; training parts hold at least half of them.
        """
        X = as_array(X)
        shape: tuple[int, ...] = tuple(getattr(X, "shape", ()))
        if is_sparse(X) or len(shape) != 2:
            return "sparse X" if is_sparse(X) else "X without two dimensions"
        return self._why_not(shape)

    def multi_affine(
        self, parts: Parts, candidates: Sequence[Mapping[str, Any]]
    ) -> list[FittedStep]:
        """Fit every candidate to every part, from one decomposition of each part.

        Parameters
        ----------
        parts : Parts
            Without weights.
        candidates : sequence of dicts
            Values of `affine_params`; what one leaves out is as on this estimator.

        Returns
        -------
        steps : list of FittedStep
            One for each candidate. Where different parts keep different numbers of components,
            maps of parts with fewer end in zero columns; ``pick(s)`` gives the attributes of part
            s without them.

        Raises
        ------
        UnfittableSplits
            For a number of components that some part cannot have, by the numbers of the parts.
        """
        models = [clone(self).set_params(**candidate) for candidate in candidates]
        for model in models:
            model._validate_params()
        p, n_rows = parts.n_features, parts.n_rows
        widths = tuple(map(parts.width, range(len(n_rows))))
        solvers = [self._solver_of_part(*shape) for shape in zip(n_rows, widths, strict=True)]

        def wanted(s):
            least = self._least().get("min_features", 1)
            if widths[s] < least:
                raise ValueError(
                    f"Found array with {widths[s]} feature(s) while a minimum of {least} is "
                    f"required by {type(self).__name__}."
                )
            return [model._wanted(n_rows[s], widths[s], solvers[s]) for model in models]

        by_part = parts.each(wanted)
        count = n_leading([k for ks in by_part for k in ks], max(min(n, p) for n in n_rows))
        found = from_parts(
            parts.moments,
            count,
            n_rows,
            parts.stacked,
            centred=self._centred,
            exact="full" in solvers,
        )
        found = found._replace(found=replace(found.found, widths=widths))
        steps = []
        for model, ks in zip(models, zip(*by_part, strict=True), strict=True):
            counts = kept_counts(found.found, ks, n_rows)
            steps.append(model._fitted(found, counts, n_rows, parts.batch, solvers).step)
        return steps

    def _least(self) -> dict[str, int]:
        raise NotImplementedError

    def _needs_sklearn(self, X: Any) -> bool:
        raise NotImplementedError

    def _fit_by_sklearn(self, method: str, X: Any) -> Any:
        raise NotImplementedError

    def _solver(self, rows: AnyRows) -> str:
        raise NotImplementedError

    def _wanted(self, n_rows: int, n_features: int, solver: str) -> Any:
        return check_n_components(self.n_components, n_rows, n_features, solver)

    def _fitted(
        self,
        found: Decomposed,
        counts: Sequence[int],
        n_rows: Sequence[int],
        batch: Any,
        solvers: Sequence[str],
    ) -> Fitted:
        raise NotImplementedError

    def _solver_of_part(self, n_rows: int, n_features: int) -> str:
        raise NotImplementedError

    def _why_not(self, shape: tuple[int, ...]) -> str | None:
        raise NotImplementedError
