"""Curves of held-out rows of several folds: their mean, with a band of how far they spread."""

from typing import Any, ClassVar, Self

import numpy as np

from gpuml.inspection._axes import axes_aside, axes_for
from gpuml.inspection.responses import PrecisionRecallDisplay, RocCurveDisplay

# Places at which the curves of all folds are read.
N_POINTS = 201


class _BandDisplay:
    """The mean of curves over a grid, and a band of one standard deviation."""

    _area = "area"
    _names: ClassVar[tuple[str, str]] = ("", "")
    _where = "lower right"

    def __init__(self, *, grid: Any, curves: Any, areas: Any, name: str | None = None):
        self.grid, self.curves, self.areas, self.name = grid, curves, areas, name

    @classmethod
    def from_cv_results(
        cls,
        cv_results: Any,
        X: Any,
        y: Any,
        *,
        sample_weight: Any = None,
        response_method: str = "auto",
        pos_label: Any = None,
        name: str | None = None,
        ax: Any = None,
        folds: bool = False,
    ) -> Self:
        """Draw the predictions of each fold's model for its held-out rows.

        Parameters
        ----------
        cv_results : dict
            Result of `gpuml.model_selection.cross_validate` with ``return_estimator=True`` and
            ``return_indices=True``.
        X : array-like of shape (n_samples, n_features)
            All rows; they stay on their device.
        y : array-like of shape (n_samples,)
            Labels of two classes, of any array library and device.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.
        response_method : {"predict_proba", "decision_function", "auto"}, default="auto"
            The method of the models that gives scores; "auto" is the first that a model has.
        pos_label : int, float, bool or str, default=None
            The positive class; None is scikit-learn's choice.
        name : str, default=None
            Text at the start of the legend entry.
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on; None makes a new figure.
        folds : bool, default=False
            Whether to draw a thin line for each fold, too.

        Returns
        -------
        display : object
            After `plot`.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        ValueError
            For input that scikit-learn's display of such curves rejects.
        """
        # scikit-learn computes while it draws.
        aside = axes_aside(f"{cls.__name__}.from_cv_results")
        options = {"sample_weight": sample_weight, "response_method": response_method}
        grid = np.linspace(0, 1, N_POINTS)
        curves, areas = cls._read(
            grid, (cv_results, X, y), {**options, "pos_label": pos_label, "ax": aside}
        )
        made = cls(grid=grid, curves=curves, areas=areas, name=name)
        return made.plot(ax, folds=folds)

    @classmethod
    def _read(cls, grid: Any, rows: Any, options: dict[str, Any]) -> tuple[Any, Any]:
        """Curves (n_folds, n_points) over the grid, and the area under each."""
        raise NotImplementedError

    def plot(self, ax: Any = None, *, folds: bool = False) -> Self:
        """Draw the mean and the band.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on; None makes a new figure.
        folds : bool, default=False
            Whether to draw a thin line for each fold, too.

        Returns
        -------
        display : object
            This one.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        """
        ax = axes_for(ax, f"{type(self).__name__}.plot")
        curves, areas = np.asarray(self.curves), np.asarray(self.areas)
        mean, spread = curves.mean(axis=0), curves.std(axis=0)
        head = "" if self.name is None else f"{self.name}: "
        label = f"{head}mean ({self._area} = {areas.mean():.2f} ± {areas.std():.2f})"
        (self.line_,) = ax.plot(self.grid, mean, label=label)
        colour = self.line_.get_color()
        low, high = np.clip(mean - spread, 0, 1), np.clip(mean + spread, 0, 1)
        self.band_ = ax.fill_between(self.grid, low, high, color=colour, alpha=0.2, lw=0)
        self.fold_lines_ = []
        for curve in curves if folds else ():
            self.fold_lines_ += ax.plot(self.grid, curve, color=colour, lw=0.7, alpha=0.5)
        ax.set(xlabel=self._names[0], ylabel=self._names[1], xlim=(-0.01, 1.01), ylim=(-0.01, 1.01))
        ax.set_aspect("equal")
        ax.legend(loc=self._where)
        self.ax_, self.figure_ = ax, ax.figure
        return self


class RocBandDisplay(_BandDisplay):
    """Plot the mean ROC curve over held-out folds, with a band.

    At each false positive rate, the band is the mean of the folds' true positive rates, plus and
    minus one standard deviation. Make a display with `from_cv_results`.

    Parameters
    ----------
    grid : array of shape (n_points,)
        False positive rates.
    curves : array of shape (n_folds, n_points)
        True positive rates of each fold.
    areas : array of shape (n_folds,)
        Area under the curve of each fold.
    name : str, default=None
        Text at the start of the legend entry.

    Attributes
    ----------
    ax_, figure_ : matplotlib objects
        The axes, and their figure.
    line_ : matplotlib.lines.Line2D
        The mean curve.
    band_ : matplotlib.collections.PolyCollection
    fold_lines_ : list of matplotlib.lines.Line2D
        The curves of the folds, if drawn.

    See Also
    --------
    RocCurveDisplay : Draws a line for each fold.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from gpuml.inspection import RocBandDisplay
    >>> from gpuml.linear_model import LogisticRegression
    >>> from gpuml.model_selection import cross_validate
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = X / X.max(axis=0)
    >>> options = {"return_estimator": True, "return_indices": True}
    >>> folds = cross_validate(LogisticRegression(), X, y, **options)
    >>> RocBandDisplay.from_cv_results(folds, X, y).curves.shape
    (5, 201)
    """

    _area = "AUC"
    _names = ("False positive rate", "True positive rate")

    @classmethod
    def _read(cls, grid, rows, options):
        drawn = RocCurveDisplay.from_cv_results(*rows, **options)
        # Where a curve jumps it is read at the end of the jump, but at 0, where all begin.
        curves = [np.interp(grid, x, y) for x, y in zip(drawn.fpr, drawn.tpr, strict=True)]
        found = np.stack(curves)
        found[:, 0] = 0.0
        return found, np.asarray(drawn.roc_auc)


class PrecisionRecallBandDisplay(_BandDisplay):
    """Plot the mean precision-recall curve over held-out folds, with a band.

    At each recall, the precision of a fold is that of its highest threshold with at least this
    recall. Make a display with `from_cv_results`.

    Parameters
    ----------
    grid : array of shape (n_points,)
        Recalls.
    curves : array of shape (n_folds, n_points)
        Precisions of each fold.
    areas : array of shape (n_folds,)
        Average precision of each fold.
    name : str, default=None
        Text at the start of the legend entry.

    Attributes
    ----------
    ax_, figure_ : matplotlib objects
        The axes, and their figure.
    line_ : matplotlib.lines.Line2D
        The mean curve.
    band_ : matplotlib.collections.PolyCollection
    fold_lines_ : list of matplotlib.lines.Line2D
        The curves of the folds, if drawn.

    See Also
    --------
    PrecisionRecallDisplay : Draws a line for each fold.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from gpuml.inspection import PrecisionRecallBandDisplay
    >>> from gpuml.linear_model import LogisticRegression
    >>> from gpuml.model_selection import cross_validate
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = X / X.max(axis=0)
    >>> options = {"return_estimator": True, "return_indices": True}
    >>> folds = cross_validate(LogisticRegression(), X, y, **options)
    >>> PrecisionRecallBandDisplay.from_cv_results(folds, X, y).curves.shape
    (5, 201)
    """

    _area = "AP"
    _names = ("Recall", "Precision")
    _where = "lower left"

    @classmethod
    def _read(cls, grid, rows, options):
        drawn = PrecisionRecallDisplay.from_cv_results(*rows, **options)
        curves = []
        for recall, precision in zip(drawn.recall, drawn.precision, strict=True):
            # Recalls fall; the last one that is at least as high.
            curves.append(precision[len(recall) - 1 - np.searchsorted(recall[::-1], grid)])
        return np.stack(curves), np.asarray(drawn.average_precision)
