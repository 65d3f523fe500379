"""Scores of a search as a picture."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpuml.inspection._axes import axes_for
from gpuml.inspection._curve import draw_curve
from gpuml.inspection._map import draw_map
from gpuml.inspection._parallel import INCHES, draw_parallel
from gpuml.inspection._results import Results, read_results


class SearchDisplay:
    """Plot the scores of a search over its parameters.

    - One parameter: the mean score of each value, and its spread (one standard deviation) over
      folds; on a log axis if the values are log-spaced.
    - Two parameters: a heat map, or points if candidates were drawn at random.
    - More parameters: parallel coordinates, with a line for each candidate, coloured by its score.

    If candidates also differ in a parameter that is not drawn, the picture shows the best one at
    each place. It leaves out candidates without a score (nan). Make a display with `from_search`.

    Parameters
    ----------
    values : dict of str to list
        For each parameter to draw, its value in each candidate.
    test_scores : array of shape (n_candidates, n_splits)
        Scores of held-out rows.
    train_scores : array of shape (n_candidates, n_splits), default=None
        Scores of the rows that models were fitted to.
    iterations : integer array of shape (n_candidates,), default=None
        For adaptive searches: the iteration in which each candidate was evaluated.
    resources : array of shape (n_candidates,), default=None
        The resources (such as rows) of each candidate; required with `iterations`.
    metric : str, default="score"
        Name of the score in the picture.

    Attributes
    ----------
    ax_ : matplotlib.axes.Axes
        The axes.
    figure_ : matplotlib.figure.Figure
        The figure of these axes.
    lines_ : list of matplotlib.lines.Line2D
        For one parameter: the test scores, after the train scores of the same iteration; otherwise
        empty.
    image_ : matplotlib.cm.ScalarMappable or None
        For two or more parameters: the cells, points or lines that are coloured by score.
    text_ : list of matplotlib.text.Text
        Text on the cells of a heat map, or beside parallel axes.

    See Also
    --------
    sklearn.model_selection.ValidationCurveDisplay : Fits models and plots scores over one
        parameter.

    Examples
    --------
    >>> from gpuml.inspection import SearchDisplay
    >>> display = SearchDisplay(
    ...     values={"alpha": [0.1, 1.0, 10.0]}, test_scores=[[0.4, 0.5], [0.6, 0.7], [0.5, 0.4]]
    ... )
    >>> display.plot().ax_.get_xlabel()
    'alpha'
    """

    def __init__(
        self,
        *,
        values: dict[str, list],
        test_scores: Any,
        train_scores: Any = None,
        iterations: Any = None,
        resources: Any = None,
        metric: str = "score",
    ):
        self.values = values
        self.test_scores = test_scores
        self.train_scores = train_scores
        self.iterations = iterations
        self.resources = resources
        self.metric = metric

    @classmethod
    def from_search(
        cls,
        search: Any,
        *,
        metric: str | None = None,
        params: str | Sequence[str] | None = None,
        ax: Any = None,
        annotate: bool | None = None,
        train: bool | None = None,
        cmap: Any = "viridis",
    ) -> "SearchDisplay":
        """Draw the scores of a fitted search.

        Parameters
        ----------
        search : fitted search
            A search of gpuml, gpuml_dask or scikit-learn. Only its `cv_results_` is read.
        metric : str, default=None
            Name of the score; required if there are several.
        params : str or list of str, default=None
            Parameters to draw; None is all that differ between candidates. The first of two is on
            the vertical axis.
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on; None makes a new figure.
        annotate : bool, default=None
            Whether to write scores on a heat map; None writes them on up to 144 cells.
        train : bool, default=None
            Whether to draw the train scores over one parameter, if the search has any. None draws
            them unless the search has iterations.
        cmap : str or matplotlib.colors.Colormap, default="viridis"
            Colours of scores.

        Returns
        -------
        display : SearchDisplay
            After `plot`.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If the search is not fitted.
        ValueError
            For an unknown metric or parameter, or if there are several metrics and you named none.
        TypeError
            If `search` is not a search.
        ImportError
            If matplotlib is not installed.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.datasets import load_diabetes
        >>> from gpuml.inspection import SearchDisplay
        >>> from gpuml.linear_model import Ridge
        >>> from gpuml.model_selection import GridSearchCV
        >>> X, y = load_diabetes(return_X_y=True)
        >>> search = GridSearchCV(Ridge(), {"alpha": np.logspace(-3, 3, 7)}).fit(X, y)
        >>> display = SearchDisplay.from_search(search)
        >>> display.ax_.get_xlabel(), display.ax_.get_xscale()
        ('alpha', 'log')
        """
        display = cls(**vars(read_results(search, metric, params)))
        return display.plot(ax, annotate=annotate, train=train, cmap=cmap)

    def plot(
        self,
        ax: Any = None,
        *,
        annotate: bool | None = None,
        train: bool | None = None,
        cmap: Any = "viridis",
    ) -> "SearchDisplay":
        """Draw the scores.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, default=None
            Axes to draw on; None makes a new figure.
        annotate : bool, default=None
            Whether to write scores on a heat map; None writes them on up to 144 cells.
        train : bool, default=None
            Whether to draw the train scores over one parameter, if there are any. None draws them
            unless there are iterations.
        cmap : str or matplotlib.colors.Colormap, default="viridis"
            Colours of scores.

        Returns
        -------
        display : SearchDisplay
            This display.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        ValueError
            If values, scores, iterations and resources have different numbers of candidates.
        """
        results = self._results()
        width = INCHES * (len(results.values) + 1) if len(results.values) > 2 else None
        ax = axes_for(ax, f"{type(self).__name__}.plot", width)
        self.lines_: list = []
        self.image_: Any = None
        self.text_: list = []
        if len(results.values) == 1:
            self.lines_ = draw_curve(ax, results, train=train)
        elif len(results.values) == 2:
            self.image_, self.text_ = draw_map(ax, results, annotate=annotate, cmap=cmap)
        else:
            self.image_, self.text_ = draw_parallel(ax, results, cmap=cmap)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _results(self):
        arrays: dict[str, Any] = {
            name: None if value is None else np.asarray(value)
            for name in ("test_scores", "train_scores", "iterations", "resources")
            for value in [getattr(self, name)]
        }
        lengths = {len(column) for column in self.values.values()}
        lengths |= {len(array) for array in arrays.values() if array is not None}
        if len(lengths) != 1:
            raise ValueError(
                "values, scores, iterations and resources must have an entry for each candidate; "
                f"their lengths are {sorted(lengths)}."
            )
        return Results(self.values, **arrays, metric=self.metric)
