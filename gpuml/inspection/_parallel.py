"""Scores over three parameters or more: parallel coordinates."""

from typing import Any

import numpy as np

from gpuml.inspection._best import of_last_iteration
from gpuml.inspection._curve import say_nothing_to_draw, tilt
from gpuml.inspection._results import Results
from gpuml.inspection._values import Axis, axis_of, key_of, plain, shortened

# Inches per axis of a new figure.
INCHES = 1.3
# Where lines of candidates go that do not have the parameter, below the axis.
NOT_SET = -0.12
MOST_LABELS = 12


def draw_parallel(ax: Any, results: Results, *, cmap: Any) -> tuple[Any, list]:
    """A line for each candidate through its values to its score; the lines and the labels."""
    from matplotlib.collections import LineCollection

    names, columns = list(results.values), list(results.values.values())
    means = results.test_scores.mean(axis=1)
    axes = [axis_of(column) for column in columns]
    score = Axis("linear", means, [])
    heights = np.stack([*(_heights(axis) for axis in axes), score.in_unit()], axis=1)
    scored = np.flatnonzero(~np.isnan(means))
    order = scored[np.argsort(means[scored], kind="stable")]  # the best on top
    if not len(order):
        say_nothing_to_draw(ax)
    places = np.arange(len(axes) + 1.0)
    lines = LineCollection(
        [np.column_stack([places, heights[i]]) for i in order],
        array=means[order],
        cmap=cmap,
        linewidths=np.where(means[order] == means[order].max(initial=-np.inf), 3.0, 1.2),
        alpha=0.8 * _strengths(results, columns)[order] if len(order) else None,
    )
    ax.add_collection(lines)
    ax.set_xlim(-0.3, len(axes) + 0.3)
    ax.set_ylim(heights[:, :-1].min(initial=0.0) - 0.05, 1.05)
    ax.set_xticks(places, [*map(plain, names), plain(results.metric)])
    tilt(ax)
    ax.set_yticks([])
    for side in ("left", "right", "top", "bottom"):
        ax.spines[side].set_visible(False)
    labels = []
    for place, axis in zip(places, [*axes, score], strict=True):
        ax.plot([place, place], [0, 1], color="grey", lw=0.8, zorder=0)
        labels.append(_labels(ax, place, axis))
    ax.figure.colorbar(lines, ax=ax, label=plain(results.metric))
    return lines, _apart(ax, labels)


def _heights(axis):
    unit = axis.in_unit()
    return np.where(np.isnan(unit), NOT_SET, unit)


def _strengths(results, columns):
    """Of an adaptive search, lines of candidates that were left behind are faint."""
    if results.iterations is None:
        return np.ones(len(results.test_scores))
    keys = [tuple(map(key_of, each)) for each in zip(*columns, strict=True)]
    share = (1 + results.iterations) / (1 + results.iterations.max())
    return np.where(of_last_iteration(results.iterations, keys), share, 0.0)


def _labels(ax, place, axis):
    unit = axis.in_unit()
    if axis.is_numeric:
        found = _ticks(axis)
    else:
        step = -(-len(axis.labels) // MOST_LABELS)
        height = {int(at): float(h) for at, h in zip(axis.places, unit, strict=True)}
        found = [(height[i], axis.labels[i]) for i in range(0, len(axis.labels), step)]
    if np.isnan(unit).any() and np.isfinite(unit).any():
        found.append((NOT_SET, "not set"))
    box = {"facecolor": "white", "alpha": 0.7, "edgecolor": "none", "pad": 0.5}
    shown = {"fontsize": "small", "va": "center", "bbox": box}
    return [ax.text(place + 0.03, height, text, **shown) for height, text in found]


def _apart(ax, labels):
    """Labels of each axis, as drawn: none longer than it is to the next axis, none on another.

    Of those that are near to each other the highest stays.
    """
    ax.figure.draw_without_rendering()
    start, stop = ax.transData.transform([(0.03, 0.0), (1.0, 0.0)])[:, 0]
    kept: list = []
    for texts in labels:
        lowest = np.inf
        for text in sorted(texts, key=lambda each: -each.get_position()[1]):
            box = text.get_window_extent()
            if box.y1 > lowest:
                text.remove()
                continue
            most = len(text.get_text())
            while text.get_window_extent().width > stop - start and most > 2:
                most -= 1
                text.set_text(shortened(text.get_text(), most))
            kept.append(text)
            lowest = box.y0
    return kept


def _ticks(axis):
    """Heights and labels of the ends of an axis of numbers, and of some places between."""
    unit, places = axis.in_unit(), axis.places
    known = np.isfinite(unit)
    if not known.any():
        return []
    found = np.unique(places[known])
    if len(found) > 6:
        found = np.quantile(found, np.linspace(0, 1, 5), method="nearest")
    height = dict(zip(places[known], unit[known], strict=True))
    return [(float(height[number]), f"{number:.3g}") for number in found]
