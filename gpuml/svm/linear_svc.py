"""Linear support vector classification on the device of its data."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sklearn import svm as sk

from gpuml._arrays import Array, device_of, move, namespace, place_of, to_host
from gpuml.data import Batch, Folds, whole
from gpuml.linear_model._by_split import TrainingRows
from gpuml.linear_model._class_models import class_counts, class_factors, columns_together
from gpuml.linear_model._classifier import LinearClassifier, Sparsified
from gpuml.linear_model._input import class_batch
from gpuml.linear_model._losses import Family
from gpuml.linear_model._models import ClassModels
from gpuml.losses import SQUARED_HINGE, Loss
from gpuml.resampling.stand_ins import no_weight
from gpuml.solvers.margins import Kinks, hinge
from gpuml.svm._machines import LinearMachine, members, one_vs_rest


@dataclass(frozen=True)
class ClassRows(TrainingRows):
    """Rows whose y are class codes, factors of the class weights, and classes with a machine."""

    factors: Any
    members: Any


class LinearSVC(Sparsified, LinearClassifier, LinearMachine, sk.LinearSVC):
    r"""Linear support vector classification, one class against the rest.

    For two classes it minimises, over w of shape (n_features,) and b,

    .. math:: \frac{1}{2} \left( |w|^2 + (b / c)^2 \right)
              + C \sum_i s_i \, \max(0, 1 - y_i (w \cdot x_i + b))^2

    with y = -1, 1, weights s (sample and class weights multiplied) and c = `intercept_scaling`: as
    in liblinear, the intercept is penalised like the coefficient of a feature with the value c in
    every row. With ``loss="hinge"`` the maximum is not squared; with ``penalty="l1"`` the first
    term is :math:`|w|_1 + |b| / c`. With more than two classes, each class has such a machine, with
    y = 1 for its rows and -1 for all others; the class with the largest decision value wins.

    The setting ``gpuml.set_config(device=...)`` chooses the device for NumPy, pandas, polars and
    lists; CuPy, torch and other device arrays stay on theirs. Quasi-Newton steps with the Hessian
    of the rows inside the margin minimise the squared hinge; with an l1 penalty, proximal Newton
    steps do. An interior-point method on the rows near the margin minimises the hinge to its
    optimum, in float64; with fewer rows than features, linear systems in the space of the rows do.

    In a `gpuml.model_selection` search, all values of `C`, `fit_intercept` and `intercept_scaling`
    are fitted on all splits together. With the squared hinge, they share their passes over the
    rows.

    Parameters
    ----------
    penalty : {"l1", "l2"}, default="l2"
        Norm of the penalty. "l1" needs ``loss="squared_hinge"``.
    loss : {"hinge", "squared_hinge"}, default="squared_hinge"
        The hinge loss, or its square.
    dual : "auto" or bool, default="auto"
        Has no effect, because both problems have the same optimum. Combinations for which
        scikit-learn's class has no solver raise an error.
    tol : float, default=1e-4
        A model has converged if no component of the gradient of the objective, divided by C times
        the sum of s, exceeds `tol`. Only with ``loss="squared_hinge"``.
    C : float > 0, default=1.0
        Inverse strength of the penalty.
    multi_class : {"ovr", "crammer_singer"}, default="ovr"
        For "crammer_singer", scikit-learn does the work, with data in CPU memory.
    fit_intercept : bool, default=True
        Whether to fit the intercept b; otherwise it is 0.
    intercept_scaling : float > 0, default=1.0
        The constant c. The larger it is, the weaker is the penalty on b.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes; "balanced" is ``sum s / (n_classes * sum of s in the class)``. As in
        liblinear, with more than two classes each machine applies the weight of its class to the
        rows of this class, and no class weight to all others.
    verbose : int, default=0
        Only for scikit-learn's solver.
    random_state : int, RandomState instance or None, default=None
        Only for scikit-learn's solver.
    max_iter : int, default=1000
        The most passes over all rows. Only with ``loss="squared_hinge"``.

    Attributes
    ----------
    coef_ : array of shape (1, n_features) or (n_classes, n_features)
        w, in the library, on the device and of the dtype of X.
    intercept_ : array of shape (1,) or (n_classes,), or 0.0
        b; 0.0 without an intercept.
    classes_ : array of shape (n_classes,)
        Sorted labels, in the library of y.
    n_iter_ : int
        Number of passes over all rows, of interior-point steps or of linear systems, of the machine
        that needed most.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    LinearSVR : Linear support vector regression.
    gpuml.linear_model.LogisticRegression : A linear classifier with probabilities.

    Notes
    -----
    For sparse X with ``loss="hinge"``, scikit-learn does the work, in CPU memory.

    References
    ----------
    S. S. Keerthi, D. DeCoste, "A modified finite Newton method for fast solution of large scale
    linear SVMs", JMLR 6 (2005). R.-E. Fan et al., "LIBLINEAR: a library for large linear
    classification", JMLR 9 (2008).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from gpuml.svm import LinearSVC
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LinearSVC().fit(X, y)
    >>> model.predict(X[:2])
    array([0, 0])
    >>> round(model.score(X, y), 2)
    0.97
    """

    _numeric_strings = "fit"

    multifit_params = ("C", "fit_intercept", "intercept_scaling")
    _kind = ClassModels
    _fit_losses = staticmethod(one_vs_rest)

    def multifit_batch(self, X: Any, y: Any, sample_weight: Any = None) -> Batch:
        """Check the rows of a fit or a search and move them to their compute device."""
        return self.multifit_joined(self.multifit_piece(X, y, sample_weight))

    def multifit_piece(self, X: Any, y: Any, sample_weight: Any = None) -> Batch:
        """Like `multifit_batch`, for some of the rows, with the classes that occur in them."""
        return class_batch(self, X, y, sample_weight)

    def multifit_joined(self, batch: Batch) -> Batch:
        """Check a piece whose classes are those of all rows."""
        if batch.n_classes < 2:
            raise ValueError(
                "This solver needs samples of at least 2 classes in the data, but the data "
                f"contains only one class: {to_host(batch.classes)[0]!r}"
            )
        return batch

    @property
    def multifit_targets(self) -> bool:  # type: ignore[override]
        """Whether binary models for many targets can be fitted together."""
        return self._is_smooth and self.class_weight is None

    def multifit_columns(self, X: Any, Y: Any, sample_weight: Any = None) -> list[dict[str, Any]]:
        """Fitted attributes of a binary model for each column of Y (n, t), which holds 0 and 1."""
        return columns_together(self, X, Y, sample_weight)

    @property
    def _instead(self) -> str:  # type: ignore[override]
        return super()._instead if self.multi_class == "ovr" else "multi_class='ovr'"

    def _needs_sklearn(self, X: Any, y: Any = None) -> str | None:
        ways = self.multi_class
        return f"multi_class={ways!r}" if ways != "ovr" else super()._needs_sklearn(X, y)

    def _loss_of(self, y: Any) -> tuple[Loss, int]:
        return SQUARED_HINGE, 1

    def _family(self, folds: Folds, member: int = 1) -> Family:
        counts = class_counts(folds, fewest=2)
        factors = class_factors(self.class_weight, folds)
        own = counts[:, member]
        rarest = min(int(own.min()), int((counts.sum(axis=1) - own).min()))
        if factors is not None:
            factors = _of_machine(factors, member)
        weightless = no_weight(self.class_weight)
        return Family(SQUARED_HINGE, 1, rarest, weightless, factors, False, True, member)

    def _attributes(self, models, candidate, split):
        return {"n_iter_": int(models.iterations_of(candidate, split))}

    def _rows(self, folds, split):
        rows = super()._rows(folds, split)
        own = folds if split is not None else whole(folds.batch)
        class_counts(own, fewest=2)  # raises the error
        factors = class_factors(self.class_weight, own)
        if factors is not None:
            factors = to_host(factors)[split or 0]
        return ClassRows(rows.X, rows.y, rows.weight, factors, members(folds))

    def _kinks(self, rows: Any, weight: Array, candidate: Mapping[str, Any]) -> list[Kinks]:
        xp = namespace(weight)
        found = []
        for member in rows.members:
            own = weight
            if rows.factors is not None:
                factors = move(_of_machine(rows.factors[None, :], member)[0], place_of(weight))
                own = weight * xp.take(factors, xp.astype(rows.y, xp.int64), axis=0)
            found.append(hinge(rows.y == member, own))
        return found


def _of_machine(factors: Array, member: int) -> Array:
    """Factors (S, k) of the rows of each class in the machine of a class.

    With more than two classes, the factors of all other classes are 1.
    """
    if factors.shape[1] <= 2:
        return factors
    xp = namespace(factors)
    own = xp.arange(factors.shape[1], device=device_of(factors)) == member
    return xp.where(own[None, :], factors, xp.ones_like(factors))
