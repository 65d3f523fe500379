"""Base classes for estimators of your own that share passes with others, and what they are given.

A search takes any estimator that has `fit` and `predict`. One that derives from `MultifitEstimator`
has all candidates fitted on all splits in one call; a transformer that derives from `AffineStep`
joins the pass of the model behind it. Every member has a default here or says that it is needed.
"""

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, ClassVar

from sklearn.base import clone

from gpuml.data import Batch, Folds, UnfittableSplits, whole
from gpuml.solvers.affine import Affine, FittedStep, Parts

if TYPE_CHECKING:
    from gpuml._arrays import Array
    from gpuml.metrics.residuals import ResidualMoments

__all__ = [
    "Affine",
    "AffineStep",
    "Batch",
    "ClassStack",
    "ClusterStack",
    "DensityStack",
    "Extension",
    "FittedStep",
    "Folds",
    "MultifitEstimator",
    "Parts",
    "RegressionStack",
    "Stack",
    "UnfittableSplits",
    "whole",
]

# Names this similar are probably misspelt.
ALIKE = 0.85


# ---------------------------------------------------------------- models of a group


class Stack:
    """All models of a group, on the compute device.

    Attributes
    ----------
    n_candidates : int
        Candidates that it has models of.
    n_passes : int
        Passes over the rows that they took.
    words : str
        What a plan says of the way in which they were found; "" for nothing.
    """

    n_candidates: Any
    n_passes: Any
    words: Any = ""

    def pick(self, candidate: int, split: int | None) -> dict[str, Any]:
        """Fitted attributes of one model; split None means the model of all rows."""
        raise NotImplementedError(f"{type(self).__name__} defines no pick.")


class RegressionStack(Stack):
    """A stack of models that predict numbers."""

    def predict(self, X: "Array", split: int, candidates: slice) -> "Array":
        """Predictions (C, m) or (C, m, t) of some candidates of one split for rows X (m, p)."""
        raise NotImplementedError(f"{type(self).__name__} defines no predict.")

    def residual_moments(self, part: str) -> "tuple[ResidualMoments, Array] | None":
        """Sums of residuals (C, S) over "train" or "test" rows, and a mask of those to be trusted.

        None where they are not to be had without predictions.
        """
        return None


class ClassStack(Stack):
    """A stack of classifiers of the classes of its batch.

    Attributes
    ----------
    has_decisions : bool
        Whether the estimators have a `decision_function`. Of those without, scores that take
        decision values or probabilities take probabilities, and `decision` gives what these and
        labels are made of: (C, m, k), of two classes too.
    """

    has_decisions: bool = True

    def decision(self, X: "Array", split: int, candidates: slice) -> "Array":
        """Decision values for rows X (m, p): (C, m) for two classes, (C, m, k) for more."""
        raise NotImplementedError(f"{type(self).__name__} defines no decision.")

    def probability(self, decision: "Array") -> "Array | None":
        """Probabilities (C, m, k) of such decision values; None for models that have none."""
        return None


class DensityStack(Stack):
    """A stack of models whose `score` is a mean logarithm of densities."""

    def log_likelihood(self, part: str) -> "Array":
        """Scores (C, S) of all models over the "train" or "test" rows of their splits."""
        raise NotImplementedError(f"{type(self).__name__} defines no log_likelihood.")


class ClusterStack(Stack):
    """A stack of models whose `score` is minus a weighted sum of squared distances."""

    def inertia(self, part: str, weighted: bool) -> "Array":
        """Sums (C, S) of all models over the "train" or "test" rows of their splits.

        `weighted` says whether they have the weights of the fits.
        """
        raise NotImplementedError(f"{type(self).__name__} defines no inertia.")


# ---------------------------------------------------------------- base classes


class Extension:
    """What a search may ask any estimator that derives from it.

    A subclass that defines a name which looks like one of a member, and is none, is refused: its
    misspelt member would be the default, and candidates would be fitted one by one without a word.
    """

    _members: ClassVar[frozenset[str]] = frozenset(("computes_on_gpu",))
    # Names that begin like this are members.
    _prefixes: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name in vars(cls):
            if name in cls._members or name.startswith("_"):
                continue
            alike = get_close_matches(name, sorted(cls._members), 1, ALIKE)
            if alike or (cls._prefixes and name.startswith(cls._prefixes)):
                hint = f"; did you mean {alike[0]}?" if alike else "."
                raise TypeError(
                    f"{cls.__name__} defines {name}, which is no member of its base class{hint} "
                    f"Members are {', '.join(sorted(cls._members))}. Other names must not look "
                    "like them."
                )

    def computes_on_gpu(self) -> bool | None:
        """Whether `fit` takes CuPy arrays and is faster on a GPU, with these parameters.

        Then rows in CPU memory are brought there once for all fits of a search that are made one by
        one. None leaves it to what is known of the class: gpuml's and cuML's do, others do not.
        """
        return None


class MultifitEstimator(Extension):
    """An estimator that fits many candidates on many splits in one call.

    A subclass defines `multifit_params`, `multifit_batch` and `multifit`, besides scikit-learn's
    `fit` and `predict`; all else has a default. A law holds for every one: `multifit` and one fit
    at a time agree. A subclass of it that redefines `fit` or `predict`, and not `multifit`, is
    fitted one by one.

    Attributes
    ----------
    multifit_params : sequence of str
        Parameters that may differ within one call of `multifit`.
    multifit_score : str or None
        What `score` returns where the same class defines `score`: "r2", "accuracy", "d2_tweedie"
        (with the estimator's `power`), "log_likelihood" (of a `DensityStack`) or "inertia" (of a
        `ClusterStack`); then all models are scored at once. None for classes that inherit `score`
        from scikit-learn's mixins (which is known), or have another.
    multifit_in_frames : bool
        Whether `multifit` fits models of what affine steps before them make of the rows
        (`folds.frame`), so that a pipeline with such steps is fitted at once.
    multifit_divided : bool
        Whether `multifit` reads rows by sums only, so that they may stay divided over the workers
        of a cluster, or otherwise. If not, it is given all rows in one place.
    multifit_targets : bool
        Whether a target of several columns is several models, one for each column as if it were
        alone, so that models of many targets are fitted at once. Of classifiers: whether
        `multifit_columns` fits binary ones.
    """

    multifit_params: Sequence[str] = ()
    multifit_score: str | None = None
    multifit_in_frames: bool = False
    multifit_divided: bool = False
    multifit_targets: bool = False

    _members = frozenset(
        (
            *("computes_on_gpu", "multifit", "multifit_batch", "multifit_columns"),
            "multifit_divided",
            *("multifit_in_frames", "multifit_joined", "multifit_levels", "multifit_model"),
            "multifit_obstacle",
            *("multifit_params", "multifit_piece", "multifit_ready", "multifit_rows"),
            *("multifit_score", "multifit_targets", "multifit_words", "multifit_work"),
        )
    )
    _prefixes = ("multifit",)

    def multifit_obstacle(self, X: Any) -> str | None:
        """Why these parameters and this kind of data cannot be fitted at once; None if they can.

        In words that name what to change, such as ``"solver='lsqr'"``. `X` may be a stand-in with
        the shape and dtype of the rows.
        """
        return None

    def multifit_levels(self, n_columns: int, X: Any) -> str | None:
        """The reason why categories with so many columns cannot be kept apart; None if they can.

        Those of a column with more levels than sums over pairs of them pay for do: they are no
        part of moments or frames (`folds.batch.apart`), and are the last coefficients of a model.
        """
        return f"{type(self).__name__} is fitted from sums over pairs"

    def multifit_ready(self, X: Any) -> bool:
        """Whether these parameters and this kind of data can be fitted at once."""
        return self.multifit_obstacle(X) is None

    def multifit_batch(self, X: Any, y: Any, sample_weight: Any = None) -> Batch:
        """Check rows and move them to their compute device.

        The batch serves estimators with other parameters too.
        """
        raise NotImplementedError(f"{type(self).__name__} defines no multifit_batch.")

    def multifit_piece(self, X: Any, y: Any, sample_weight: Any = None) -> Batch:
        """As `multifit_batch`, for some of the rows, if they are divided."""
        return self.multifit_batch(X, y, sample_weight)

    def multifit_joined(self, batch: Batch) -> Batch:
        """The same batch, once properties of all batches, such as the classes, are known."""
        return batch

    def multifit_rows(self, folds: Folds) -> int | None:
        """The number of rows that `multifit` will read in all passes; None if unknown."""
        return None

    def multifit_work(
        self, n_rows: int, n_features: int, n_targets: int, n_models: int
    ) -> tuple[int | None, float] | None:
        """What `multifit` costs, about: passes over the rows and floating-point operations.

        Passes are None where they depend on what is found; all is None where nobody knows.
        `search.explain` estimates seconds from it.
        """
        return None

    def multifit_words(
        self, X: Any, y: Any, candidates: Sequence[Mapping[str, Any]], n_splits: int
    ) -> str:
        """How `search.explain` describes the method of `multifit`.

        `X` and `y` are as the user has them, or stand-ins with their shape and dtype.
        """
        return ""

    def multifit(
        self,
        folds: Folds,
        candidates: Sequence[Mapping[str, Any]],
        advance: Callable[[int], None] | None = None,
    ) -> Stack:
        """Fit every candidate on the training part of every split.

        Candidates are values of `multifit_params`; what one leaves out is as on this estimator.
        `advance` is told of rows as they are read.

        Raises
        ------
        UnfittableSplits
            With numbers of splits that cannot be fitted, and why: those are fitted one by one.
        """
        raise NotImplementedError(f"{type(self).__name__} defines no multifit.")

    def multifit_columns(self, X: Any, Y: Any, sample_weight: Any = None) -> list[dict[str, Any]]:
        """Fitted attributes of a model of each column of Y (n, t), as if it were alone.

        Of an estimator with `multifit_targets`. For classifiers columns are codes 0 and 1, in CPU
        memory.

        Raises
        ------
        UnfittableSplits
            With numbers of columns that have no model.
        """
        raise NotImplementedError(f"{type(self).__name__} defines no multifit_columns.")

    def multifit_model(self, params: Mapping[str, Any], attributes: Mapping[str, Any]) -> Any:
        """A fitted copy from attributes that `Stack.pick` gave.

        This estimator's `multifit_batch` looked at the rows: number and names of features are its.
        """
        model = clone(self).set_params(**params)
        seen = {n: v for n, v in vars(self).items() if n in ("n_features_in_", "feature_names_in_")}
        vars(model).update({**seen, **attributes})
        return model


class AffineStep(Extension):
    """A transformer whose map ``x -> x A + a`` follows from second moments of the rows.

    A subclass defines `affine_params` and `multi_affine`, besides scikit-learn's `fit` and
    `transform`. A law holds for every one: `multi_affine` and one fit at a time agree.

    Attributes
    ----------
    affine_params : sequence of str
        Parameters that may differ within one call of `multi_affine`.
    affine_is_diagonal : bool
        Whether it scales and shifts each feature by itself.
    affine_needs_extrema : bool
        Whether it has to know extrema of features; it can stand behind diagonal steps only.
    affine_needs_rows : bool
        Whether it reads the rows of each part (`Parts.times`), which then have to be dense and in
        CPU memory.
    fits_batches : bool
        Whether `fit_batch` does the work of `fit`, with these parameters, wherever the rows are.
    """

    affine_params: Sequence[str] = ()
    affine_is_diagonal: bool = False
    affine_needs_extrema: bool = False
    affine_needs_rows: bool = False
    fits_batches: Any = False
    # Of every estimator of scikit-learn.
    _parameter_constraints: ClassVar[dict[str, Any]]

    _members = frozenset(
        (
            *("affine_is_diagonal", "affine_needs_extrema", "affine_needs_rows", "affine_obstacle"),
            *("affine_params", "affine_ready", "computes_on_gpu", "fit_batch", "fits_batches"),
            "multi_affine",
        )
    )
    _prefixes: ClassVar[tuple[str, ...]] = ("affine_", "multi_affine")

    def affine_obstacle(self, X: Any) -> str | None:
        """Why moments are not enough for these parameters and this kind of data; None if they are.

        In words that name what to change, such as ``"clip=True"``. `X` may be a stand-in with the
        shape and dtype of the rows.
        """
        return None

    def affine_ready(self, X: Any) -> bool:
        """Whether these parameters and this kind of data can be fitted from moments."""
        return self.affine_obstacle(X) is None

    def multi_affine(
        self, parts: Parts, candidates: Sequence[Mapping[str, Any]]
    ) -> list[FittedStep]:
        """Fit every candidate to every part; what a candidate leaves out is as on the step."""
        raise NotImplementedError(f"{type(self).__name__} defines no multi_affine.")

    def fit_batch(self, batch: Batch) -> dict[str, Any]:
        """Fitted attributes, from a batch whose rows may be elsewhere; see `fits_batches`."""
        raise NotImplementedError(f"{type(self).__name__} defines no fit_batch.")


class TableStep(AffineStep):
    """An affine step that comes first and reads columns of a table, such as codes of categories.

    Its maps are of the columns of the batch that `table_batch` makes, such as codes of categories.
    """

    _members = AffineStep._members | {
        *("table_batch", "table_divided", "table_folds", "table_key", "table_layout"),
        *("table_obstacle", "table_only_fits", "table_sparse"),
    }
    _prefixes: ClassVar[tuple[str, ...]] = (*AffineStep._prefixes, "table_")

    def table_batch(self, batch: Batch, X: Any) -> Batch:
        """Rows of X with the targets, weights and classes of a batch of other rows."""
        raise NotImplementedError(f"{type(self).__name__} defines no table_batch.")

    def table_layout(self, X: Any) -> Any:
        """Columns of X, by number, that its steps read as `numbers`, and by levels, as `coded`.

        Rare levels of those that are `grouped` are merged. ``read(X, place)`` makes a table.
        """
        raise NotImplementedError(f"{type(self).__name__} defines no table_layout.")

    def table_divided(self, X: Any) -> str | None:
        """Why its steps cannot be fitted from sums over rows that are divided; None if they can.

        `X` is a DataFrame of few rows that has every level, and a hole where there is any.
        """
        return f"{type(self).__name__} is fitted to rows in memory"

    def table_folds(self, folds: Folds, candidates: Sequence[Mapping[str, Any]]) -> Folds:
        """The same splits of a batch that has all columns that candidates read."""
        return folds

    def table_obstacle(self, X: Any, behind: Sequence[Any], model: Any) -> str | None:
        """The reason why later steps, or the model, cannot use its output for X, if any."""
        return None

    def table_sparse(self) -> str | None:
        """The parameter that makes the output sparse, and what to change, if there is one."""
        return None

    def table_only_fits(self) -> str | None:
        """The step that makes other columns of training rows for fits than for scores, if any."""
        return None

    def table_key(self) -> Any:
        """What is alike of steps that may share a batch."""
        raise NotImplementedError(f"{type(self).__name__} defines no table_key.")
