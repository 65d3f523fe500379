"""Scores over two parameters: a heat map, or points where few candidates share a value."""

from typing import Any

import numpy as np

from gpuml.inspection._best import best_at, of_last_iteration
from gpuml.inspection._curve import say_nothing_to_draw, set_labels, set_scale, tilt
from gpuml.inspection._results import Results
from gpuml.inspection._values import Axis, axis_of, key_of, plain

# More cells have no room for numbers.
MOST_NUMBERS = 144


def draw_map(ax: Any, results: Results, *, annotate: bool | None, cmap: Any) -> tuple[Any, list]:
    """The image or the points, and the numbers written on it."""
    names, columns = zip(*results.values.items(), strict=True)
    keys = [tuple(map(key_of, each)) for each in zip(*columns, strict=True)]
    means = results.test_scores.mean(axis=1)
    means[~of_last_iteration(results.iterations, keys)] = np.nan
    vertical, horizontal = (axis_of(column, as_names=True) for column in columns)
    shape = len(vertical.labels), len(horizontal.labels)
    ax.set_xlabel(plain(names[1]))
    ax.set_ylabel(plain(names[0]))
    if np.isnan(means).all():
        say_nothing_to_draw(ax)
    points = [axis_of(column) for column in columns]
    if _is_drawn(points, shape, len(set(keys))):
        image, texts = _points(ax, points, means, cmap), []
    else:
        image, texts = _cells(ax, vertical, horizontal, means, cmap, annotate)
    ax.figure.colorbar(image, ax=ax, label=plain(results.metric))
    return image, texts


def _is_drawn(axes, shape, n_candidates):
    """Whether candidates are not those of a grid: few share a number, and most cells are empty.

    Not where one does not have a parameter: it would have no place among points.
    """
    if any(np.isnan(axis.places).any() for axis in axes):
        return False
    own = any(
        axis.is_numeric and size > 0.6 * n_candidates
        for axis, size in zip(axes, shape, strict=True)
    )
    return own and shape[0] * shape[1] >= 2 * n_candidates


def _points(ax, axes: list[Axis], means, cmap):
    for which, axis in zip("yx", axes, strict=True):
        set_scale(ax, which, axis)
    y, x = (axis.places for axis in axes)
    order = np.argsort(np.where(np.isnan(means), -np.inf, means))  # the best on top
    return ax.scatter(x[order], y[order], c=means[order], cmap=cmap, edgecolors="black", lw=0.4)


def _cells(ax, vertical, horizontal, means, cmap, annotate):
    n_rows, n_columns = len(vertical.labels), len(horizontal.labels)
    cell = vertical.places * n_columns + horizontal.places
    chosen = best_at(cell, means)
    flat = np.full(n_rows * n_columns, np.nan)
    flat[cell[chosen].astype(int)] = means[chosen]
    table = flat.reshape(n_rows, n_columns)
    image = ax.imshow(table, cmap=cmap, aspect="auto", origin="lower")
    set_labels(ax.yaxis, vertical.labels)
    set_labels(ax.xaxis, horizontal.labels)
    tilt(ax)
    if annotate is None:
        annotate = table.size <= MOST_NUMBERS
    return image, _numbers(ax, table, image) if annotate else []


def _numbers(ax, table, image):
    """Scores in the cells, dark on light ones and light on dark ones; a frame around the best."""
    best = np.nanmax(table) if np.isfinite(table).any() else np.nan
    texts = []
    for (row, column), score in np.ndenumerate(table):
        if np.isnan(score):
            continue
        red, green, blue, _ = image.cmap(image.norm(score))
        colour = "black" if 0.3 * red + 0.59 * green + 0.11 * blue > 0.5 else "white"
        weight = "bold" if score == best else "normal"
        text = f"{score:#.3g}".rstrip(".")
        texts.append(
            ax.text(column, row, text, ha="center", va="center", color=colour, weight=weight)
        )
    return texts
