"""Ridge regression on the indicators of classes."""

from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn import linear_model as sk
from sklearn.preprocessing import LabelBinarizer

from gpuml._arrays import Array, device_of, move, namespace, place_of, to_host
from gpuml._sklearn import StrOptions, _fit_context
from gpuml.data import Batch, Folds, NotTogether, Partition, row_indices, take, whole
from gpuml.divided.stored import StoredRows
from gpuml.linear_model._class_models import class_counts
from gpuml.linear_model._classifier import weights_of_classes
from gpuml.linear_model._engines import CUML_SOLVERS
from gpuml.linear_model._input import class_batch
from gpuml.linear_model._models import ClassModels
from gpuml.linear_model._several_labels import SeveralLabels, is_table
from gpuml.linear_model.ridge import NATIVE_SOLVERS, SKLEARN_SOLVERS, Ridge, RidgeEstimator
from gpuml.resampling.stand_ins import check_weights

# Moments of the atoms of all classes may take so much; with more, models are fitted one by one.
CLASS_MOMENT_BYTES = 2**30


class RidgeClassifier(SeveralLabels, RidgeEstimator, sk.RidgeClassifier):
    r"""Classification by ridge regression on indicators of the classes.

    For two classes it minimises, over w of shape (n_features,) and b,

    .. math:: \sum_i s_i \, (y_i - w \cdot x_i - b)^2 + \alpha |w|^2

    with y = -1 or 1 and weights s (sample and class weights multiplied), and predicts the sign. For
    more classes, it fits such a model for each class, with y = 1 for its rows and -1 for all
    others, and predicts the class with the largest value.

    The setting ``gpuml.set_config(device=...)`` chooses the device for NumPy, pandas, polars and
    lists; CuPy, torch and other device arrays stay on theirs. The work is that of `Ridge`: second
    moments of the rows, summed in float64.

    In a `gpuml.model_selection` search, all values of `alpha` and `fit_intercept` are fitted on all
    splits from one pass over the rows, and scored where the rows are.

    Parameters
    ----------
    alpha : float >= 0 or array-like of shape (n_classes,), default=1.0
        Strength of the penalty, in units of ``sum s x^2``.
    fit_intercept : bool, default=True
        Whether to fit the intercept b, which is not penalised; otherwise it is 0.
    copy_X : bool, default=True
        Used only by scikit-learn's solvers; gpuml's never write to X.
    max_iter : int, default=None
        Only for iterative solvers of scikit-learn and cuML.
    tol : float, default=1e-4
        Only for iterative solvers of scikit-learn and cuML.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes; "balanced" is ``n_samples / (n_classes * rows of the class)``.
    solver : str, default="auto"
        As for `Ridge`: "auto", "cholesky" and "svd" are gpuml's; "eig", "lsmr" and "cuml-svd" are
        cuML's, on a GPU; "lsqr", "sparse_cg", "sag", "saga" and "lbfgs" are scikit-learn's, for
        data in CPU memory.
    positive : bool, default=False
        Whether coefficients must be non-negative; scikit-learn's solver, for data in CPU memory.
    random_state : int, RandomState instance, default=None
        Only for "sag" and "saga".

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        Sorted labels, in the library of y.
    coef_ : array of shape (n_features,) or (n_classes, n_features)
        In the library, on the device and of the dtype of X; one axis for two classes.
    intercept_ : float or array of shape (1,) or (n_classes,)
        b; 0.0 without an intercept.
    n_iter_ : int or ndarray of shape (n_classes,)
        Iterations; 1 for direct solvers.
    solver_ : str
        The solver that did the work: "cholesky" and "svd" are gpuml's.
    status_ : gpuml.solvers.Status
        For gpuml's solvers: how the solve went. ``status_.advice`` says it in a sentence.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    Ridge : The regression behind this classifier.
    LogisticRegression : Predicts probabilities too.

    Notes
    -----
    Targets with several labels per row, of shape (n_samples, n_outputs), have a regression on 1 and
    -1 for each label, all of them fitted at once.

    References
    ----------
    R. Rifkin, G. Yeo, T. Poggio, "Regularized least-squares classification", in Advances in
    Learning Theory, IOS Press (2003).

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from gpuml.linear_model import RidgeClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = RidgeClassifier(alpha=0.1).fit(X, y)
    >>> model.predict(X[:2])
    array([0, 0])
    >>> round(model.score(X, y), 2)
    0.96
    """

    _parameter_constraints: ClassVar[dict] = {
        **sk.RidgeClassifier._parameter_constraints,
        "solver": [StrOptions({*NATIVE_SOLVERS, *SKLEARN_SOLVERS, *CUML_SOLVERS})],
    }

    _kind = ClassModels
    _classes_as_text = True
    _of_sklearn = ("_label_binarizer",)

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, sample_weight=None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), or StoredRows
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Labels, or with several columns 1 for each label that a row has and 0 for the others.
        sample_weight : float or array-like of shape (n_samples,), default=None
            Non-negative weights.

        Returns
        -------
        self : RidgeClassifier

        Raises
        ------
        ValueError
            As of `Ridge`, and for targets that hold no labels.
        """
        if isinstance(X, StoredRows) or not is_table(y):
            return super().fit(X, y, sample_weight)
        params = self.get_params(deep=False)
        del params["class_weight"]
        return self._fit_labels(Ridge(**params), X, y, sample_weight)

    def multifit_batch(self, X: Any, y: Any, sample_weight: Any = None) -> Batch:
        """Check the rows of a search and move them to their compute device.

        Targets of the batch are the indicators of its classes; weights are those of the rows alone.
        """
        return self.multifit_joined(self.multifit_piece(X, y, sample_weight))

    def multifit_piece(self, X: Any, y: Any, sample_weight: Any = None) -> Batch:
        """As `multifit_batch`, of some of the rows, with the classes that they have."""
        if is_table(y):
            raise NotTogether("the targets of RidgeClassifier have several labels per row")
        return class_batch(self, X, y, sample_weight)

    def multifit_joined(self, batch: Batch) -> Batch:
        """A piece whose classes are those of all rows."""
        return replace(batch, y=_indicators(batch), y_is_flat=False)

    def multifit(self, folds, candidates, advance=None, start=None):
        """Fit every candidate on the training part of every split; see `LinearEstimator`."""
        weighted = with_class_weights(folds, self.class_weight)
        return super().multifit(weighted, candidates, advance)

    @property
    def multifit_targets(self) -> bool:  # type: ignore[override]
        """Whether models of many targets are fitted at once: if classes weigh alike."""
        return self.class_weight is None

    @property
    def multifit_repeats(self) -> bool:  # type: ignore[override]
        """Whether weighted rows are repeated rows: "balanced" counts rows, whatever they weigh."""
        return self.class_weight != "balanced"

    def multifit_columns(self, X: Any, Y: Any, sample_weight: Any = None) -> list[dict[str, Any]]:
        """Fitted attributes of a binary model of each column of codes (n, t), 0 and 1."""
        batch = self.multifit_batch(X, np.arange(len(Y)) % 2, sample_weight)
        xp = namespace(batch.y)
        y = 2 * xp.astype(move(np.asarray(Y), place_of(batch.y)), batch.y.dtype) - 1
        found = self._of_columns(replace(batch, y=y))
        if self.fit_intercept:
            home = batch.home
            for each in found:  # of two classes it has one axis
                each["intercept_"] = home.xp.reshape(home.xp.asarray(each["intercept_"]), (1,))
        return found

    def _fitted_by_cuml(self, X, y, sample_weight):
        folds = whole(self.multifit_batch(X, y, sample_weight))
        batch = with_class_weights(folds, self.class_weight).batch
        X, y, weight = (move(a, batch.home) for a in (batch.X, batch.y, batch.weight))
        # cuML's models for one target have one axis.
        y = y[:, 0] if y.shape[1] == 1 else y
        fitted = super()._fitted_by_cuml(X, y, weight)
        if self.fit_intercept:
            fitted["intercept_"] = batch.home.xp.reshape(
                batch.home.xp.asarray(fitted["intercept_"], dtype=X.dtype), (-1,)
            )
        return {**fitted, "classes_": batch.classes}

    def _sklearn_state(self):
        return with_binarizer(super()._sklearn_state())


def with_binarizer(state: dict[str, Any]) -> dict[str, Any]:
    """Attributes of a fitted classifier, with the binarizer that scikit-learn's `predict` uses."""
    if "classes_" in state and "_label_binarizer" not in state:
        binarizer = LabelBinarizer(neg_label=-1).fit(to_host(state["classes_"]))
        return {**state, "_label_binarizer": binarizer}
    return state


def _indicators(batch: Batch) -> Array:
    """1 where a row is of the class, -1 where not: (n, k), or (n, 1) of the second of two."""
    xp = namespace(batch.X)
    codes = xp.astype(batch.y, xp.int64, copy=False)  # (n, 1)
    if batch.n_classes <= 2:
        own = codes == 1
    else:
        own = codes == xp.arange(batch.n_classes, dtype=xp.int64, device=device_of(codes))[None, :]
    return 2 * xp.astype(own, batch.X.dtype) - 1


# ---------------------------------------------------------------- weights of classes


def with_class_weights(folds: Folds, class_weight: Any) -> Folds:
    """Folds whose rows have the weights of their classes too.

    "balanced" weights are those of all rows, and a split corrects them to those of its training
    part class by class.

    Raises
    ------
    ValueError
        If a weight is negative, nan or infinite.
    UnfittableSplits
        If a training part lacks a class, or weighs nothing.
    """
    counts = class_counts(folds)  # and the error
    if not class_weight:
        return folds
    batch = folds.batch
    batch.must_be_here("class_weight of RidgeClassifier needs the rows in one place.")
    if isinstance(class_weight, str):
        totals = class_counts(whole(batch))
        factors = _balanced(totals)[0]
        corrections = _balanced(counts) / factors
    else:
        factors = weights_of_classes(class_weight, to_host(batch.classes))
        corrections = np.ones(counts.shape)
    weight = _per_row(factors, batch)
    weight = weight if batch.weight is None else weight * batch.weight
    batch = replace(batch, weight=weight)
    check_weights(replace(folds, batch=batch), class_weight)

    def divide(batch, splits):
        if (corrections == 1).all():
            return folds.partitions
        _check_size(folds)
        return tuple(_by_class(part, batch, corrections) for part in folds.partitions)

    return Folds(batch, folds.splits, divide, folds.frame)


def _balanced(counts: np.ndarray) -> np.ndarray:
    """Balanced weights (S, k) of classes, from their counts (S, k)."""
    return counts.sum(axis=1, keepdims=True) / (counts.shape[1] * counts)


def _per_row(factors: np.ndarray, batch: Batch) -> Array:
    """Weights of the classes of all rows, where and of the dtype that X is."""
    place = place_of(batch.X)
    xp = place.xp
    codes = xp.astype(move(batch.codes, place), xp.int64, copy=False)
    dtype = getattr(xp, str(batch.dtype).rpartition(".")[2])  # X may hold numbers of rows
    return xp.take(xp.asarray(factors, dtype=dtype, device=place.device), codes, axis=0)


def _check_size(folds: Folds) -> None:
    batch = folds.batch
    if batch.n_features > batch.n_rows:
        return
    n_atoms = batch.n_classes * max(len(part.atoms) for part in folds.partitions)
    size = 8 * n_atoms * (batch.n_features + batch.y.shape[1] + 1) ** 2
    if size > CLASS_MOMENT_BYTES:
        raise ValueError(
            f"class_weight='balanced' on all splits at once would take {size / 2**30:.1f} GiB of "
            "moments. Fit one model at a time, or give the weights as a dict."
        )


def _by_class(part: Partition, batch: Batch, corrections: np.ndarray) -> Partition:
    """Atoms of one class each, which count as often as their split corrects their class."""
    place = batch.work
    xp = place.xp
    atoms, parents, owners = [], [], []
    for parent, atom in enumerate(part.atoms):
        rows = row_indices(atom) if isinstance(atom, slice | tuple) else atom
        rows = move(rows, place)
        codes = take(batch.codes, rows, xp)
        for c in range(batch.n_classes):
            members = xp.nonzero(codes == c)[0]
            if members.shape[0] > 0:
                atoms.append(xp.take(rows, members, axis=0))
                parents.append(parent)
                owners.append(c)
    splits = slice(part.first_split, part.first_split + part.n_splits)
    train = part.train[:, parents] * corrections[splits, :][:, owners]
    return Partition(part.first_split, tuple(atoms), train, part.test[:, parents])
