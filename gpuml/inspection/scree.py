"""Variance that components explain, as a picture."""

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from gpuml.inspection._axes import axes_for
from gpuml.metrics._host import on_host


class ScreeDisplay:
    """Plot the share of variance that each component explains, and the cumulative share.

    Make a display with `from_estimator`.

    Parameters
    ----------
    explained_variance_ratio : array of shape (n_components,)
        Shares of the variance, in the order of the components.
    name : str, default=None
        Title of the legend.

    Attributes
    ----------
    ax_ : matplotlib.axes.Axes
        The axes.
    figure_ : matplotlib.figure.Figure
        The figure of these axes.
    bars_ : matplotlib.container.BarContainer
        The shares.
    line_ : matplotlib.lines.Line2D or None
        The cumulative share.

    Examples
    --------
    >>> from gpuml.inspection import ScreeDisplay
    >>> len(ScreeDisplay(explained_variance_ratio=[0.5, 0.3]).plot().bars_)
    2
    """

    def __init__(self, *, explained_variance_ratio: Any, name: str | None = None):
        self.explained_variance_ratio = explained_variance_ratio
        self.name = name

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, name: str | None = None, ax: Any = None, cumulative: bool = True
    ) -> "ScreeDisplay":
        """Draw the variance that the components of a fitted model explain.

        Parameters
        ----------
        estimator : fitted estimator
            A model with `explained_variance_ratio_`: PCA, IncrementalPCA or TruncatedSVD of gpuml,
            gpuml_dask, scikit-learn or cuML.
        name : str, default=None
            Title of the legend; None is the name of the class.
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on; None makes a new figure.
        cumulative : bool, default=True
            Whether to draw the cumulative share.

        Returns
        -------
        display : ScreeDisplay
            After `plot`.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If the model is not fitted.
        TypeError
            If the model has no `explained_variance_ratio_`.
        ImportError
            If matplotlib is not installed.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from gpuml.decomposition import PCA
        >>> from gpuml.inspection import ScreeDisplay
        >>> pca = PCA().fit(load_iris().data)
        >>> ScreeDisplay.from_estimator(pca).ax_.get_xlabel()
        'component'
        """
        check_is_fitted(estimator)
        shares = getattr(estimator, "explained_variance_ratio_", None)
        if shares is None:
            raise TypeError(
                f"{type(estimator).__name__} has no explained_variance_ratio_. Of a pipeline, pass "
                "the step that has it, such as pipe['pca'] or search.best_estimator_['pca']."
            )
        name = type(estimator).__name__ if name is None else name
        display = cls(explained_variance_ratio=on_host(shares), name=name)
        return display.plot(ax, cumulative=cumulative)

    def plot(self, ax: Any = None, *, cumulative: bool = True) -> "ScreeDisplay":
        """Draw the shares.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on; None makes a new figure.
        cumulative : bool, default=True
            Whether to draw the cumulative share.

        Returns
        -------
        display : ScreeDisplay
            This display.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        """
        from_one = np.arange(1, len(self.explained_variance_ratio) + 1)
        shares = np.asarray(self.explained_variance_ratio)
        ax = axes_for(ax, f"{type(self).__name__}.plot")
        self.bars_ = ax.bar(from_one, shares, label="each")
        self.line_ = None
        if cumulative:
            (self.line_,) = ax.plot(
                from_one, np.cumsum(shares), "o-", color="C1", ms=4, label="up to here"
            )
        ax.set_xlabel("component")
        ax.set_ylabel("share of the variance")
        ax.set_ylim(bottom=0)
        ax.xaxis.get_major_locator().set_params(integer=True)
        ax.legend(title=self.name)
        self.ax_, self.figure_ = ax, ax.figure
        return self
