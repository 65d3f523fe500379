"""What the scalers share: parts in turn, and all training parts of a search at once."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from gpuml._arrays import HOST, Array, is_array, is_foreign, is_sparse, move, namespace, place_of
from gpuml._inputs.host_rows import naming_columns
from gpuml._inputs.validation import check_images, check_rows, unchanged_on_error
from gpuml._sklearn import _fit_context
from gpuml.divided.stored import StoredRows
from gpuml.extending import AffineStep
from gpuml.preprocessing._places import at_host, move_attributes
from gpuml.preprocessing._transformer import Transformer
from gpuml.solvers.affine import Affine, FittedStep, Parts


class Scaler(AffineStep, Transformer):
    """Shifts and scales each feature, by sums or extrema of the rows.

    A class has, besides `_transform_there`:

    * `_update(X, first, weight)`: take checked rows into account, the `first` or more of them;
    * `_undone(X)`: the inverse of `transform`, of checked rows;
    * `_known(parts)`: what `_step` needs to know of all training parts;
    * `_step(parts, *known)`: the step that is fitted to them with the parameters of this one.
    """

    affine_is_diagonal = True
    _numeric_strings = "everywhere"

    n_features_in_: int

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None) -> Self:
        """Find shift and scale of each feature.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Sparse for `MaxAbsScaler`, here and below.
        y : None
            Ignored.

        Returns
        -------
        self : estimator

        Raises
        ------
        ValueError
            For input that scikit-learn's class rejects. A failed fit leaves the estimator as it
            was.
        """
        if isinstance(X, StoredRows):
            return X.fit_model(self)
        with unchanged_on_error(self):
            self._reset()
            return self.partial_fit(X, y)

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y=None) -> Self:
        """Take more rows into account, as one `fit` to all rows so far would.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : None
            Ignored.

        Returns
        -------
        self : estimator

        Raises
        ------
        ValueError
            As for `fit`.
        """
        return self._fit_more(X, y)

    def _fit_more(self, X: Any, y: Any, *weight: Any) -> Self:
        with unchanged_on_error(self):
            X = self._read(X)
            first = not hasattr(self, "n_samples_seen_")
            if is_foreign(X):
                X = check_rows(self, X, reset=first, allow_nan=True, finite_X=False)
                move_attributes(self, place_of(X))
                self._update(X, first, *weight)
            else:
                move_attributes(self, HOST)
                theirs: Any = super()
                with naming_columns(self, X):
                    theirs.partial_fit(X, y, *weight)
        return self

    def inverse_transform(self, X):
        """Undo `transform`, except for clipping.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        X_original : array of shape (n_samples, n_features)
            In the library, on the device and of the dtype of X.
        """
        return self._inverted(X)

    def _inverted(self, X: Any, *options: Any) -> Any:
        check_is_fitted(self)
        X = self._read(X)
        if not is_foreign(X):
            theirs: Any = super(Scaler, at_host(self))
            return theirs.inverse_transform(X, *options)
        return self._undone(check_images(self, X, self.n_features_in_, allow_nan=True))

    def affine_obstacle(self, X: Any) -> str | None:
        """Why sums or extrema do not tell the map: of dense rows they do."""
        is_dense = is_array(X) or not is_sparse(X)
        return None if is_dense else "sparse X"

    def multi_affine(
        self, parts: Parts, candidates: Sequence[Mapping[str, Any]]
    ) -> list[FittedStep]:
        """Fit every candidate to every training set, from their moments or extrema.

        Parameters
        ----------
        parts : Parts
        candidates : sequence of dicts
            Values of `affine_params`; what one leaves out is as on this estimator.

        Returns
        -------
        list of FittedStep
            One for each candidate.
        """
        known = self._known(parts)
        return [clone(self).set_params(**each)._step(parts, *known) for each in candidates]

    def _update(self, X: Array, first: bool, weight: Any = None) -> None:
        raise NotImplementedError

    def _undone(self, X: Array) -> Array:
        raise NotImplementedError

    def _known(self, parts: Parts) -> Sequence[Any]:
        raise NotImplementedError

    def _step(self, parts: Parts, *known: Any) -> FittedStep:
        raise NotImplementedError


def diagonal_step(
    parts: Parts,
    factor: Array,
    offset: Array,
    found: Mapping[str, Array | None],
    n_seen: Sequence[Any],
) -> FittedStep:
    """Maps ``factor x + offset``, both (S, p), of S parts with fitted attributes (S, p)."""
    xp = namespace(factor)
    factor, offset = (xp.astype(a, xp.float64) for a in (factor, offset))
    eye = xp.eye(factor.shape[-1], dtype=xp.float64, device=factor.device)

    def pick(s):
        home, width = parts.batch.home, parts.width(s)
        of_part = {
            name: None if x is None else move(x[s, :width], home) for name, x in found.items()
        }
        return {**of_part, "n_samples_seen_": n_seen[s]}

    return FittedStep(Affine(factor[:, :, None] * eye, offset, diagonal=True), pick)


def beside(attribute: Array, X: Array) -> Array:
    """A fitted array where X is, of its dtype."""
    place = place_of(X)
    return place.xp.astype(move(attribute, place), X.dtype)
