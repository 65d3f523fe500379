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

    Over one parameter: the mean score of each value, and its spread (one standard deviation) over
    folds; on a log axis where the values are log-spaced. Over two: a heat map, or points where
    candidates were drawn at random. Over more: parallel coordinates, a line for each candidate,
    coloured by its score. Where candidates differ in a parameter that is not drawn, the best of
    those at one place is shown. Candidates without a score (nan) are left out.

    Make one with `from_search`.

    Parameters
    ----------
    values : dict of str to list
        For each parameter to draw, its value in each candidate.
    test_scores : array of shape (n_candidates, n_splits)
        Scores of held-out rows.
    train_scores : array of shape (n_candidates, n_splits), default=None
        Scores of the rows that models were fitted to.
    iterations : integer array of shape (n_candidates,), default=None
        Of adaptive searches: the iteration in which each candidate was evaluated.
    resources : array of shape (n_candidates,), default=None
        What the candidates of an iteration were given; needed with `iterations`.
    metric : str, default="score"
        What the scores are called.

    Attributes
    ----------
    ax_ : matplotlib.axes.Axes
        What was drawn on.
    figure_ : matplotlib.figure.Figure
        The figure of these axes.
    lines_ : list of matplotlib.lines.Line2D
        Of a curve: test scores, after the train scores of the same iteration; else empty.
    image_ : matplotlib.cm.ScalarMappable or None
        The cells, points or lines that are coloured by score, of two parameters or more.
    text_ : list of matplotlib.text.Text
        What is written on the cells of a heat map, or beside parallel axes.

    See Also
    --------
    sklearn.model_selection.ValidationCurveDisplay : The like of one parameter, which fits models.

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
            Of gpuml, gpuml_dask or scikit-learn. Only its `cv_results_` is read.
        metric : str, default=None
            Which score. Must be named if there are several.
        params : str or list of str, default=None
            Which parameters; None is all that differ between candidates. Of two, the first is the
            vertical one.
        ax : matplotlib.axes.Axes, default=None
            What to draw on; None makes a new figure.
        annotate : bool, default=None
            Whether scores are written on a heat map; None: if it has up to 144 cells.
        train : bool, default=None
            Whether the train scores of one parameter are drawn, if the search has any. None: if
            it has no iterations.
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
            For an unknown metric or parameter, or for several metrics none of which is chosen.
        TypeError
            If `search` is no search.
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
            What to draw on; None makes a new figure.
        annotate : bool, default=None
            Whether scores are written on a heat map; None: if it has up to 144 cells.
        train : bool, default=None
            Whether the train scores of one parameter are drawn, if there are any. None: if there
            are no iterations.
        cmap : str or matplotlib.colors.Colormap, default="viridis"
            Colours of scores.

        Returns
        -------
        display : SearchDisplay
            This one.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        ValueError
            If scores and values are not of the same candidates.
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
