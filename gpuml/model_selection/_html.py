"""Notebook view of fitted searches: the best candidate, the plan and its costs, and a picture."""

import base64
import io
import sys
import warnings
from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from gpuml._arrays.transfers import format_bytes

SHOWN_STEPS = 5
LONGEST_VALUE = 80
# A picture with more marks is smaller as PNG.
MOST_MARKS_OF_SVG = 400
# More numbers do not fit into a small picture.
MOST_NUMBERS = 40
# Lines of more candidates cannot be told apart.
MOST_CANDIDATES = 1000
SIZE = (5.6, 3.3)

STYLE = (
    "<style>.gpuml-search{font-family:sans-serif;font-size:13px;line-height:1.5}"
    ".gpuml-search th,.gpuml-search td{text-align:left!important;vertical-align:top;"
    "padding:1px 12px 1px 0;background:none}"
    ".gpuml-search img{background:white;max-width:100%}</style>"
)


def search_html(search: Any, diagram: str) -> str:
    """HTML of a search: its results and its plan, above scikit-learn's diagram.

    The diagram alone if the search is not fitted, in terminals, and if the description fails: a
    representation never raises.
    """
    if not hasattr(search, "cv_results_") or not _shows_html():
        return diagram
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return f"{STYLE}<div class='gpuml-search'>{_table(search)}{_picture(search)}</div>" + (
                diagram
            )
    except Exception:  # users see the diagram instead of a traceback
        return diagram


def _shows_html():
    """Whether the front end shows HTML: IPython calls representations in a terminal too."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is None or "text/html" in shell.display_formatter.active_types


# ---------------------------------------------------------------- in words


def _table(search):
    plan = getattr(search, "plan_", None)
    of_plan = () if plan is None else _plan(plan)
    return plan_rows([*_best(search), *of_plan, *_seconds(search)])


def plan_rows(rows: Sequence[tuple[str, str]]) -> str:
    """An HTML table of names and their values."""
    cells = [f"<tr><th>{escape(name)}</th><td>{value}</td></tr>" for name, value in rows]
    return f"<table>{''.join(cells)}</table>"


def plan_html(plan: Any) -> str:
    """HTML of a plan: its steps, the reasons for them, moved bytes, seconds."""
    rows = [*_plan(plan)]
    if plan.seconds is not None:
        rows.append(("time", escape(f"{_time(plan.seconds)} in all")))
    return f"{STYLE}<div class='gpuml-search'>{plan_rows(rows)}</div>"


def _best(search):
    """The best candidate; nothing if there are several metrics and none is selected."""
    index = getattr(search, "best_index_", None)
    if index is None:
        return
    metric = search.refit if search.multimetric_ else "score"
    name = metric if search.multimetric_ else search.scoring
    called = f" ({escape(name)})" if isinstance(name, str) else ""
    if isinstance(metric, str):
        mean, spread = _score(search.cv_results_, metric, index)
        yield "best score", f"{mean:.4g}{spread}{called}"
    for parameter, value in search.best_params_.items():
        yield parameter, escape(_short(value))


def _score(table, metric, index):
    if f"mean_test_{metric}" not in table:  # Hyperband's table
        return table[f"test_{metric}"][index], ""
    spread = table[f"std_test_{metric}"][index]
    return table[f"mean_test_{metric}"][index], f" &plusmn; {spread:.2g}"


def _short(value):
    if isinstance(value, float | np.floating):
        return f"{value:.6g}"
    text = " ".join((value if isinstance(value, str) else repr(value)).split())
    return text if len(text) <= LONGEST_VALUE else text[:LONGEST_VALUE] + " ..."


def _plan(plan):
    runs = plan.runs
    lines = [escape(str(step)) for step in runs[:SHOWN_STEPS]]
    if len(runs) > SHOWN_STEPS:
        lines.append(
            f"and {len(runs) - SHOWN_STEPS} more steps: "
            f"{plan.n_fits} fits in {plan.n_passes} passes in all"
        )
    yield "plan", "<br>".join(lines)
    if plan.reasons:
        yield "why", "<br>".join(escape(text) for text in plan.reasons[:SHOWN_STEPS])
    if plan.bytes_to_device is not None:
        up, down = plan.bytes_to_device, plan.bytes_to_host
        moved = f"{format_bytes(up)} to the GPU, {format_bytes(down)} to the CPU"
        yield "moved", moved if up or down else "no copies between CPU and GPU"


def _seconds(search):
    """Seconds of `fit`, and of its parts: parallel fits and scores may add up to more."""
    parts = []
    whole = getattr(getattr(search, "plan_", None), "seconds", None)
    if whole is not None:
        parts.append(f"{_time(whole)} in all")
    table, n_splits = search.cv_results_, getattr(search, "n_splits_", 1)
    for name, column in (("fits", "mean_fit_time"), ("scores", "mean_score_time")):
        if column in table:
            parts.append(f"{name} {_time(float(np.nansum(table[column])) * n_splits)}")
    if hasattr(search, "refit_time_"):
        parts.append(f"refit {_time(search.refit_time_)}")
    if parts:
        yield "time", escape(", ".join(parts))


def _time(seconds):
    if seconds < 1:
        return f"{1000 * seconds:.3g} ms"
    return f"{seconds:.3g} s" if seconds < 1000 else f"{seconds:.0f} s"


# ---------------------------------------------------------------- the picture


def _picture(search):
    """The picture as an image in the page; nothing without matplotlib.

    An image, because names inside an inline SVG could clash with other pictures, and parameter
    values could contain markup.
    """
    n_candidates = len(search.cv_results_["params"])
    if not 2 <= n_candidates <= MOST_CANDIDATES:
        return ""
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError:
        return ""
    metric = search.refit if search.multimetric_ else None
    if search.multimetric_ and not isinstance(metric, str):
        return ""
    from gpuml.inspection import SearchDisplay

    # A figure without pyplot: no backend starts, and no window stays open.
    with rc_context({"text.usetex": False, "font.size": 9}):
        figure = Figure(figsize=SIZE, layout="constrained", facecolor="white")
        SearchDisplay.from_search(
            search, metric=metric, ax=figure.subplots(), annotate=n_candidates <= MOST_NUMBERS
        )
        return _image(figure, "svg" if n_candidates <= MOST_MARKS_OF_SVG else "png")


def _image(figure, kind):
    file = io.BytesIO()
    metadata = {"Date": None} if kind == "svg" else None
    figure.savefig(file, format=kind, dpi=144, metadata=metadata)
    data = base64.b64encode(file.getvalue()).decode()
    mime = {"svg": "image/svg+xml", "png": "image/png"}[kind]
    return (
        f"<img src='data:{mime};base64,{data}' width='{SIZE[0] * 96:.0f}' "
        "alt='scores over the searched parameters'>"
    )
