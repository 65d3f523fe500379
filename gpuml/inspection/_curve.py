"""Scores over one parameter."""

import math
from typing import Any

import numpy as np

from gpuml.inspection._axes import CHARACTER, LINE, size_in_points
from gpuml.inspection._best import best_at
from gpuml.inspection._results import Results
from gpuml.inspection._values import Axis, axis_of, plain

TEST, TRAIN = "C0", "C1"


def draw_curve(ax: Any, results: Results, *, train: bool | None) -> list:
    """Mean scores with their spread over folds, a line for each iteration; the lines."""
    ((name, values),) = results.values.items()
    if train is None:
        train = results.iterations is None  # whose picture has lines enough
    train = train and results.train_scores is not None
    axis = axis_of(values)
    lines = []
    for label, rows, strength in _iterations(results):
        if train:
            named = f"train, {label}" if label else "train"
            lines.append(_line(ax, axis, results.train_scores, rows, TRAIN, strength, named))
        named = label or "test"
        lines.append(_line(ax, axis, results.test_scores, rows, TEST, strength, named))
    _mark_best(ax, axis, results)
    _name_axes(ax, axis, name, results)
    if len(lines) > 1:
        ax.legend()
    return lines


def _iterations(results):
    """Label, candidates and colour strength of each iteration; one iteration if there are none."""
    if results.iterations is None:
        return [("", np.arange(len(results.test_scores)), 1.0)]
    found = np.unique(results.iterations)
    out = []
    for i, iteration in enumerate(found):
        rows = np.flatnonzero(results.iterations == iteration)
        resource = results.resources[rows[0]]
        strength = 0.25 + 0.75 * (i + 1) / len(found)
        out.append((f"iteration {iteration} (resources: {resource})", rows, strength))
    return out


def _line(ax, axis, scores, rows, colour, strength, label):
    means = scores[rows].mean(axis=1)
    chosen = best_at(axis.places[rows], means)
    x, mean = axis.places[rows][chosen], means[chosen]
    spread = scores[rows][chosen].std(axis=1)
    style = "--" if colour == TRAIN else "-"
    shade = {"color": colour, "alpha": strength}
    if not axis.is_numeric:
        # Names have no order in which a line would mean anything.
        bars = ax.errorbar(x, mean, spread, fmt="o", capsize=3, label=label, **shade)
        return bars.lines[0]
    (line,) = ax.plot(x, mean, style, marker="o", markersize=4, label=label, **shade)
    if scores.shape[1] > 1:
        ax.fill_between(x, mean - spread, mean + spread, color=colour, alpha=0.2 * strength, lw=0)
    return line


def _mark_best(ax, axis, results):
    means = results.test_scores.mean(axis=1)
    last = np.ones(len(means), dtype=bool)
    if results.iterations is not None:
        last = results.iterations == results.iterations.max()
    candidates = np.where(last & np.isfinite(axis.places), means, np.nan)
    if np.isnan(candidates).all():
        return
    best = int(np.nanargmax(candidates))
    ax.plot(
        axis.places[best], means[best], "*", color="black", markersize=11, zorder=5, label="best"
    )


def _name_axes(ax, axis: Axis, name, results):
    set_scale(ax, "x", axis)
    ax.set_xlabel(plain(name))
    ax.set_ylabel(plain(results.metric))
    if np.isnan(results.test_scores.mean(axis=1)).all():
        say_nothing_to_draw(ax)


def set_scale(ax: Any, which: str, axis: Axis) -> None:
    """Set the scale of an axis to suit its values."""
    side = getattr(ax, f"{which}axis")
    if axis.kind == "names":
        set_labels(side, axis.labels)
        if which == "x":
            ax.margins(x=0.1)
            tilt(ax)
    elif axis.kind == "symlog":
        getattr(ax, f"set_{which}scale")("symlog", linthresh=axis.least, linscale=0.5)
    else:
        getattr(ax, f"set_{which}scale")(axis.kind)


def set_labels(side: Any, labels: list[str]) -> None:
    """Write labels at 0, 1, 2, ..., or as many of them as there is room for."""
    width, height = size_in_points(side.axes)
    line = LINE * side.get_major_ticks()[0].label1.get_size()
    # Labels of the horizontal axis may be turned, and stand further apart then.
    most = height / line if side.axis_name == "y" else width / (line * 2**0.5)
    step = math.ceil(len(labels) / max(1, int(most)))
    side.set_ticks(range(0, len(labels), step), labels[::step])


def tilt(ax: Any) -> None:
    """Turn labels of the horizontal axis that would run into each other."""
    labels = ax.get_xticklabels()
    longest = max((len(label.get_text()) for label in labels), default=0)
    if (longest + 2) * CHARACTER * labels[0].get_size() * len(labels) > size_in_points(ax)[0]:
        ax.tick_params(axis="x", rotation=45)
        for text in ax.get_xticklabels():
            text.set_horizontalalignment("right")
            text.set_rotation_mode("anchor")


def say_nothing_to_draw(ax: Any) -> None:
    """In words, why a picture is empty."""
    ax.text(0.5, 0.5, "every score is nan", ha="center", va="center", transform=ax.transAxes)
