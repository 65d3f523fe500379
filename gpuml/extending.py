"""Base classes for your own estimators, so that candidates and steps share passes over the rows.

A search takes any estimator that has `fit` and `predict`. One that derives from `MultifitEstimator`
has all candidates fitted on all splits in one call; a transformer that derives from `AffineStep`
shares the pass of the model behind it. Each member has a default here, or raises an error that says
that a subclass must define it.
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
        Number of candidates with models in this stack.
    n_passes : int
        Number of passes over the rows that the models took.
    words : str
        How a plan describes the method; "" for no description.
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
        """Sums of residuals (C, S) over "train" or "test" rows, and a mask of the reliable ones.

        None if they can only be computed from predictions.
        """
        return None


class ClassStack(Stack):
    """A stack of classifiers of the classes of its batch.

    Attributes
    ----------
    has_decisions : bool
        Whether the estimators have a `decision_function`. If not, scorers of decision values use
        probabilities, and `decision` returns the values from which probabilities and labels
        follow, (C, m, k) for two classes too.
    """

    has_decisions: bool = True

    def decision(self, X: "Array", split: int, candidates: slice) -> "Array":
        """Decision values for rows X (m, p): (C, m) for two classes, (C, m, k) for more."""
        raise NotImplementedError(f"{type(self).__name__} defines no decision.")

    def probability(self, decision: "Array") -> "Array | None":
        """Probabilities (C, m, k) from decision values; None for models without probabilities."""
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

        `weighted` says whether to weight the rows as in the fits.
        """
        raise NotImplementedError(f"{type(self).__name__} defines no inertia.")


# ---------------------------------------------------------------- base classes


class Extension:
    """Members that a search reads of all estimators that extend gpuml.

    A subclass with a name that resembles a member's, and is none, raises TypeError: if a member
    were misspelt, its default would be used, and candidates would silently be fitted one by one.
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

        If so, a search that fits candidates one by one copies rows from CPU memory to the GPU once
        for all fits. With None, it does so for classes of gpuml and cuML, and for no others.
        """
        return None


class MultifitEstimator(Extension):
    """An estimator that fits many candidates on many splits in one call.

    A subclass defines `multifit_params`, `multifit_batch` and `multifit`, besides scikit-learn's
    `fit` and `predict`; all other members have defaults. `multifit` must agree with one fit at a
    time. If a class derives from yours and redefines `fit` or `predict`, but not `multifit`, its
    candidates are fitted one by one.

    Attributes
    ----------
    multifit_params : sequence of str
        Parameters that may differ within one call of `multifit`.
    multifit_score : str or None
        What `score` returns, if the same class defines `score`: "r2", "accuracy", "d2_tweedie"
        (with the estimator's `power`), "log_likelihood" (of a `DensityStack`) or "inertia" (of a
        `ClusterStack`). All models are then scored at once. None if the class inherits `score` from
        scikit-learn's mixins, which gpuml recognises, or if `score` returns something else.
    multifit_in_frames : bool
        Whether `multifit` fits models to rows that affine steps have transformed (`folds.frame`),
        so that candidates of a pipeline with such steps are fitted at once.
    multifit_divided : bool
        Whether `multifit` reads rows through sums only, so that they can stay divided, for example
        over the workers of a cluster. If not, it receives all rows in one place.
    multifit_targets : bool
        Whether the estimator fits each column of a target as if it were alone, so that models of
        many targets are fitted at once. For classifiers: whether `multifit_columns` fits binary
        models.
    multifit_repeats : bool
        Whether a model of weighted rows is that of rows that are repeated as often, so that models
        of resamples are fitted at once. It is not if rows of weight 0 have a part in it.
    """

    multifit_params: Sequence[str] = ()
    multifit_score: str | None = None
    multifit_in_frames: bool = False
    multifit_divided: bool = False
    multifit_targets: bool = False
    multifit_repeats: bool = True
    # Whether the work grows with the pairs of the rows, as that of kernels does.
    _multiplies_pairs: ClassVar[bool] = False

    _members = frozenset(
        (
            *("computes_on_gpu", "multifit", "multifit_batch", "multifit_columns"),
            "multifit_divided",
            *("multifit_in_frames", "multifit_joined", "multifit_levels", "multifit_model"),
            "multifit_obstacle",
            *("multifit_params", "multifit_piece", "multifit_ready", "multifit_repeats"),
            "multifit_rows",
            *("multifit_score", "multifit_targets", "multifit_words", "multifit_work"),
        )
    )
    _prefixes = ("multifit",)

    def multifit_obstacle(self, X: Any) -> str | None:
        """Why candidates with these parameters and this kind of data cannot be fitted at once.

        A text that names what to change, such as ``"solver='lsqr'"``; None if they can. `X` may be
        a stand-in with the shape and dtype of the rows.
        """
        return None

    def multifit_levels(self, n_columns: int, X: Any) -> str | None:
        """Why categories with so many columns cannot be kept apart; None if they can.

        Categories of a column are kept apart if it has so many levels that sums over pairs of them
        do not pay. They are then no part of moments or frames (`folds.batch.apart`), and have the
        last coefficients of a model.
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
        """Approximate cost of `multifit`: passes over the rows and floating-point operations.

        The number of passes is None if it depends on the data; the result is None if the cost is
        unknown. `search.explain` estimates seconds from it.
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

        Candidates are values of `multifit_params`; a parameter that a candidate leaves out has the
        value of this estimator. `advance` is called with the number of rows as they are read.

        Raises
        ------
        UnfittableSplits
            With the numbers of splits that cannot be fitted, and the reason. Candidates are then
            fitted one by one on these.
        """
        raise NotImplementedError(f"{type(self).__name__} defines no multifit.")

    def multifit_columns(self, X: Any, Y: Any, sample_weight: Any = None) -> list[dict[str, Any]]:
        """Fitted attributes of a model for each column of Y (n, t), fitted as if it were alone.

        For estimators with `multifit_targets`. For classifiers, columns are codes 0 and 1 in CPU
        memory.

        Raises
        ------
        UnfittableSplits
            With the numbers of columns that cannot be fitted.
        """
        raise NotImplementedError(f"{type(self).__name__} defines no multifit_columns.")

    def multifit_model(self, params: Mapping[str, Any], attributes: Mapping[str, Any]) -> Any:
        """A fitted copy of this estimator, with the attributes that `Stack.pick` returned.

        Number and names of features are those that `multifit_batch` set on this estimator.
        """
        model = clone(self).set_params(**params)
        seen = {n: v for n, v in vars(self).items() if n in ("n_features_in_", "feature_names_in_")}
        vars(model).update({**seen, **attributes})
        return model


class AffineStep(Extension):
    """A transformer whose map ``x -> x A + a`` follows from second moments of the rows.

    A subclass defines `affine_params` and `multi_affine`, besides scikit-learn's `fit` and
    `transform`. `multi_affine` must agree with one fit at a time.

    Attributes
    ----------
    affine_params : sequence of str
        Parameters that may differ within one call of `multi_affine`.
    affine_is_diagonal : bool
        Whether it scales and shifts each feature separately.
    affine_needs_extrema : bool
        Whether it needs minima and maxima of features. Only diagonal steps may then precede it.
    affine_needs_rows : bool
        Whether it reads the rows of each part (`Parts.times`), which must then be dense and in CPU
        memory.
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
        """Why the step cannot be fitted from moments with these parameters and this kind of data.

        A text that names what to change, such as ``"clip=True"``; None if it can. `X` may be a
        stand-in with the shape and dtype of the rows.
        """
        return None

    def affine_ready(self, X: Any) -> bool:
        """Whether these parameters and this kind of data can be fitted from moments."""
        return self.affine_obstacle(X) is None

    def multi_affine(
        self, parts: Parts, candidates: Sequence[Mapping[str, Any]]
    ) -> list[FittedStep]:
        """Fit every candidate to every part; parameters that it leaves out are the step's."""
        raise NotImplementedError(f"{type(self).__name__} defines no multi_affine.")

    def fit_batch(self, batch: Batch) -> dict[str, Any]:
        """Fitted attributes, from a batch with rows on any device; see `fits_batches`."""
        raise NotImplementedError(f"{type(self).__name__} defines no fit_batch.")


class TableStep(AffineStep):
    """An affine step that comes first and reads columns of a table, such as categories.

    Its maps apply to the columns of the batch that `table_batch` makes, such as codes of levels.
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
        """Positions of the columns of X that steps read as numbers (`numbers`) or levels (`coded`).

        Rare levels of `grouped` columns are merged. ``read(X, place)`` makes a table.
        """
        raise NotImplementedError(f"{type(self).__name__} defines no table_layout.")

    def table_divided(self, X: Any) -> str | None:
        """Why the steps cannot be fitted from sums over divided rows; None if they can.

        `X` is a DataFrame of few rows with every level of each column, and with a missing value in
        each column that has any.
        """
        return f"{type(self).__name__} is fitted to rows in memory"

    def table_folds(self, folds: Folds, candidates: Sequence[Mapping[str, Any]]) -> Folds:
        """The same splits of a batch with all columns that the candidates read."""
        return folds

    def table_obstacle(self, X: Any, behind: Sequence[Any], model: Any) -> str | None:
        """Why later steps, or the model, cannot use the output for X; None if they can."""
        return None

    def table_sparse(self) -> str | None:
        """The parameter that makes the output sparse, and what to change; None for dense output."""
        return None

    def table_only_fits(self) -> str | None:
        """A step whose output of training rows differs between fits and scores, or None."""
        return None

    def table_key(self) -> Any:
        """A key that is equal for steps that may share a batch."""
        raise NotImplementedError(f"{type(self).__name__} defines no table_key.")
