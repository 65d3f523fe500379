"""Scores over three parameters or more: parallel coordinates."""

from typing import Any

import numpy as np

from gpuml.inspection._best import of_last_iteration
from gpuml.inspection._curve import say_nothing_to_draw
from gpuml.inspection._results import Results
from gpuml.inspection._values import Axis, axis_of, key_of, plain

# Labels nearer to each other would overlap.
LEAST_GAP = 0.05
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
    ax.set_yticks([])
    for side in ("left", "right", "top", "bottom"):
        ax.spines[side].set_visible(False)
    texts = []
    for place, axis in zip(places, [*axes, score], strict=True):
        ax.plot([place, place], [0, 1], color="grey", lw=0.8, zorder=0)
        texts += _labels(ax, place, axis)
    ax.figure.colorbar(lines, ax=ax, label=plain(results.metric))
    return lines, texts


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
    return [
        ax.text(place + 0.03, height, text, fontsize="small", va="center", bbox=box)
        for height, text in _apart(found)
    ]


def _apart(found):
    """Labels without those that are near the one below; the highest stays."""
    kept: list = []
    for height, text in sorted(found, reverse=True):
        if not kept or kept[-1][0] - height >= LEAST_GAP:
            kept.append((height, text))
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
