"""Figures of the page, as SVG: light, one message each, units and machines named."""

import io
import re

import _figures as figures
import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

OURS, THEIRS, THIRD = "#0b66c3", "#8a8f98", "#d9730d"
BY_MODEL = {"Ridge": OURS, "LogisticRegression": THIRD}
BY_TASK = BY_MODEL | {"SVD": "#6f42c1"}
# Of one GPU, and of more and more.
CPU_COLOR, GPU_COLORS = "#8a8f98", {1: "#0b66c3", 2: "#b392f0", 4: "#6f42c1"}
RIVALS = {
    "sklearn": "scikit-learn, all cores",
    "sklearn-one-process": "scikit-learn",
    "sklearn-array-api": "scikit-learn's array API",
    "cuml-array-api": "scikit-learn over cuML",
}
MANY_COLOR = "#3b1e78"
STYLE = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e6e8eb",
    "grid.linewidth": 0.7,
    "axes.axisbelow": True,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    # The same file from the same data, whoever draws it.
    "svg.hashsalt": "gpuml",
    # Text stays text: a third of the size, and to be searched for.
    "svg.fonttype": "none",
    "font.family": ["DejaVu Sans", "sans-serif"],
}


def save(figure, path):
    """Write a figure."""
    text = io.StringIO()
    figure.savefig(text, format="svg", facecolor="white")
    path.write_text(smaller(text.getvalue()))
    plt.close(figure)


def smaller(svg):
    """The same picture in about half of the bytes.

    Without metadata, names of groups and indentation; the fonts are said once, and coordinates are
    those of a hundredth of a point.
    """
    svg = re.sub(r"\s*<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r' id="[\w.]+_\d+"', "", svg)
    svg = re.sub(r' transform="rotate\(-0 [^"]*"', "", svg)
    fonts = re.search(r"font-family: [^;\"]*", svg)
    if fonts is not None:
        svg = re.sub(r"font-family: [^;\"]*(; )?", "", svg)
        svg = svg.replace("</style>", f"text{{{fonts[0]}}}</style>", 1)
    svg = re.sub(r"\n\s*<", "\n<", svg)
    svg = re.sub(r"<[^>]*>", lambda tag: _smaller_tag(tag[0]), svg)
    # A copy of a mark has the style of the mark.
    styles = dict(re.findall(r'<path id="(\w+)"[^>]* style="([^"]*)"', svg))
    svg = re.sub(
        r'(<use href="#(\w+)"[^>]*?) style="([^"]*)"',
        lambda use: use[1] if styles.get(use[2]) == use[3] else use[0],
        svg,
    )
    empty, n_found = re.compile(r"<g>\n((?:(?!</?g[ >]).)*)</g>\n", re.DOTALL), 1
    while n_found:
        svg, n_found = empty.subn(r"\1", svg)
    return svg


def _smaller_tag(tag):
    tag = re.sub(r"\s*\n\s*", " ", tag)
    if not tag.startswith("<!"):
        tag = re.sub(r'(?<=[;:]) | (?=")', "", tag).replace("xlink:href=", "href=")
        tag = re.sub(r"#(\w)\1(\w)\2(\w)\3(?!\w)", r"#\1\2\3", tag)  # a colour
    return re.sub(r"\d+\.\d{3,}", lambda number: f"{round(float(number[0]), 2):.8g}", tag)


def seconds(value, _position=None):
    """1, 10 or 100 of a unit of time."""
    for unit, size in (("s", 1), ("ms", 1e-3), ("µs", 1e-6)):
        if value >= 0.999 * size:
            return f"{value / size:.4g} {unit}"
    return f"{value:g} s"


def count(value, _position=None):
    """5000000 as 5M."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"


def three_digits(value):
    """1206 as 1,210."""
    return f"{float(f'{value:.3g}'):,g}" if value < 1e5 else f"{value:.2g}"


def color_of(kind):
    if kind == "CPU":
        return CPU_COLOR
    many = kind.partition(" x ")
    return GPU_COLORS.get(int(many[0]) if many[1] else 1, MANY_COLOR)


# ---------------------------------------------------------------- the fastest rivals


def ratios(reports, path):
    """How many times as long as gpuml the fastest rival takes."""
    found = figures.comparisons(reports)
    figure, axes = plt.subplots(figsize=(10, 0.27 * len(found) + 1.3), layout="constrained")
    kinds = [one.kind for one in found]
    values = [one.rival.ratio for one in found]
    # Bars begin at 1: to the left gpuml is slower.
    axes.barh(
        range(len(found)),
        [value - 1 for value in values],
        left=1,
        color=[color_of(kind) for kind in kinds],
        height=0.7,
    )
    axes.set_xscale("log")
    axes.set_xlim(min(0.2, 0.5 * min(values)), 2.5 * max(values))
    for i, value in enumerate(values):
        axes.text(max(value, 1) * 1.06, i, three_digits(value), va="center", fontsize=8)
    axes.axvline(1, color="#333333", linewidth=1)
    axes.set_yticks(range(len(found)), [one.label for one in found], fontsize=8)
    axes.set_ylim(-0.6, len(found) - 0.4)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel("time of the fastest rival / time of gpuml (left of 1: gpuml is slower)")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    handles = [plt.Rectangle((0, 0), 1, 1, color=color_of(kind)) for kind in dict.fromkeys(kinds)]
    axes.legend(handles, dict.fromkeys(kinds), loc="lower right", frameon=False, title="gpuml on")
    save(figure, path)


def pitch(reports, path):
    """A few bars for the first page: how many times as long the fastest rival takes.

    What is fitted stands above its bar, so that the chart can be read on a phone.
    """
    found = figures.pitch(reports)[::-1]
    figure, axes = plt.subplots(figsize=(5.6, 0.62 * len(found) + 0.6), layout="constrained")
    values = [one.rival.ratio for _, one in found]
    colors = [color_of(one.kind) if one.kind != "CPU" else THIRD for _, one in found]
    axes.barh(range(len(found)), values, color=colors, height=0.42)
    for i, (value, (fitted, one)) in enumerate(zip(values, found, strict=True)):
        rival = RIVALS.get(one.rival.contender, one.rival.contender)
        axes.text(value + 3, i, f"{value:.0f} x ({rival})", va="center", fontsize=10)
        axes.text(0, i + 0.26, " ".join(fitted.split()), va="bottom", fontsize=10, color="#555555")
    axes.set_xlim(0, 1.75 * max(values))
    axes.set_ylim(-0.35, len(found) - 0.3)
    axes.set_axis_off()
    figure.suptitle(
        "Grid searches: how many times as fast as the fastest rival?",
        x=0.01,
        ha="left",
        fontsize=12,
    )
    handles = [plt.Rectangle((0, 0), 1, 1, color=color) for color in dict.fromkeys(colors)]
    kinds = dict.fromkeys(one.kind.replace("CPU", "2 CPU cores") for _, one in found)
    axes.legend(handles, kinds, loc="center right", frameon=False, fontsize=10)
    save(figure, path)


# ---------------------------------------------------------------- the map


def cells(report, path):
    """Where each cell of a map is on a scale of ratios, by what is fitted."""
    found = figures.cells(report)
    models = list(dict.fromkeys(one.rival.scenario.partition(", ")[0] for one in reversed(found)))
    figure, axes = plt.subplots(figsize=(10, 0.3 * len(models) + 1.3), layout="constrained")
    for one in found:
        row = models.index(one.rival.scenario.partition(", ")[0])
        color = THIRD if one.rival.ratio < 1 else OURS
        axes.plot(one.rival.ratio, row, "o", color=color, alpha=0.7, markersize=6)
    axes.set_xscale("log")
    axes.axvline(1, color="#333333", linewidth=1)
    axes.set_yticks(range(len(models)), models, fontsize=8)
    axes.set_ylim(-0.6, len(models) - 0.4)
    axes.set_xlabel("time of the fastest rival / time of gpuml (left of 1: gpuml is slower)")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    save(figure, path)


# ---------------------------------------------------------------- one factor at a time


def sweep(report, path):
    """A panel for each factor."""
    figure, axes = plt.subplots(2, 3, figsize=(10, 6), layout="constrained", sharey=True)
    panels = dict(zip(figures.FACTORS, axes.flat, strict=False))
    for factor, panel in panels.items():
        _curves(report, factor, panel)
        panel.set_yscale("log")
        panel.yaxis.set_major_formatter(FuncFormatter(seconds))
        panel.yaxis.set_minor_formatter(NullFormatter())
        panel.set_title(f"by number of {figures.FACTORS[factor]}")
    for row in axes:
        row[0].set_ylabel("median of a search")
    _legend(report, axes.flat[-1], axes.flat[0])
    save(figure, path)


def _curves(report, factor, panel):
    levels = set()
    for model, color in BY_MODEL.items():
        for ours in (True, False):
            records = figures.curve(report, model, factor, ours)
            if not records:
                continue
            x = [getattr(record, factor) for record in records]
            y = [record.seconds["median"] for record in records]
            low, high = ([r.seconds[end] for r in records] for end in ("min", "max"))
            line = {"linestyle": "-", "marker": "o"} if ours else {"linestyle": "--", "marker": "s"}
            name = f"{model}, {'gpuml' if ours else 'scikit-learn'}"
            size = 4.5 if ours else 4
            face = color if ours else "white"
            panel.plot(x, y, color=color, markersize=size, markerfacecolor=face, label=name, **line)
            panel.fill_between(x, low, high, color=color, alpha=0.15, linewidth=0)
            levels |= set(x)
    levels = sorted(levels)
    panel.set_xscale("log")
    panel.set_xticks(levels, [count(level) for level in levels])
    panel.xaxis.set_minor_formatter(NullFormatter())
    panel.minorticks_off()


def _legend(report, panel, labelled):
    panel.axis("off")
    handles, labels = labelled.get_legend_handles_labels()
    panel.legend(handles, labels, loc="upper left", frameon=False)
    base = figures.base_of(report, "Ridge")
    place = "rows on the GPU" if report.raw["device"] == "cuda" else "rows in host memory"
    words = [
        "Where a factor is not varied:",
        f"{base['n']:,} rows, {base['d']} features,",
        f"{base['candidates']} candidates, {base['folds']} folds, 2 classes.",
        f"gpuml: {report.records[0].dtype}, {place}.",
        "Shades: fastest and slowest run.",
        "",
        *report.machine_name.split("; "),
    ]
    panel.text(0.04, 0.52, "\n".join(words), va="top", transform=panel.transAxes, color="#333333")


# ---------------------------------------------------------------- several devices


def devices(reports, path):
    """Weak scaling on the left, a fixed job on the right."""
    figure, axes = plt.subplots(1, 2, figsize=(10, 5), layout="constrained")
    ends = ([], [])
    for scaling in figures.scalings(reports):
        _scaling(scaling, axes[0 if scaling.weak else 1], ends[0 if scaling.weak else 1])
    axes[0].set_title("as many rows for each worker (flat is ideal)")
    axes[1].set_title("the same forests, 12 x 5 fits (dotted is ideal)")
    for panel, labels in zip(axes, ends, strict=True):
        panel.set_yscale("log")
        panel.set_xscale("log", base=2)
        panel.set_xlabel("workers (at the end: efficiency)")
        panel.xaxis.set_major_formatter(FuncFormatter(count))
        panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        panel.yaxis.set_major_formatter(FuncFormatter(seconds))
        panel.yaxis.set_minor_formatter(NullFormatter())
        panel.set_xlim(0.9, 1.8 * max(x for x, *_ in labels))
        low, high = panel.get_ylim()
        panel.set_ylim(0.7 * low, 1.3 * high)
        for x, y, text, color in labels:
            panel.text(x * 1.06, y, text, va="center", fontsize=8, color=color)
    axes[0].set_ylabel("median of a search")
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=8)
    save(figure, path)


def _scaling(scaling, panel, ends):
    x = [record.devices for record in scaling.records]
    y = [record.seconds["median"] for record in scaling.records]
    low = [a - record.seconds["min"] for a, record in zip(y, scaling.records, strict=True)]
    high = [record.seconds["max"] - a for a, record in zip(y, scaling.records, strict=True)]
    on_gpu = scaling.records[0].place == "cuda"
    color = BY_TASK.get(scaling.task, OURS)
    machine = scaling.report.machine
    parts = f"parts of a CPU ({machine['cores']} cores)"
    name = machine["gpu"]["name"].replace("NVIDIA ", "") + " GPUs" if on_gpu else parts
    rows = f"{scaling.records[0].n:,} rows" + (" each" if scaling.weak else "")
    label = f"{scaling.task}, {rows}, {name}"
    known = panel.get_legend_handles_labels()[1]
    panel.errorbar(
        *(x, y),
        yerr=(low, high),
        color=color,
        linestyle="-" if on_gpu else "--",
        marker="o",
        markersize=4.5,
        markerfacecolor=color if on_gpu else "white",
        capsize=2,
        linewidth=1.3,
        elinewidth=0.7,
        label="_" if label in known else label,
    )
    if not scaling.weak:
        panel.plot(x, [y[0] / k for k in x], color=color, linestyle=":", linewidth=1)
    ends.append((x[-1], y[-1], f"{scaling.efficiency:.0%}", color))


# ---------------------------------------------------------------- bytes


def moved(reports, path):
    """What goes to the GPU in one search, as a share of the rows."""
    found = figures.moves(reports)
    figure, axes = plt.subplots(figsize=(10, 0.3 * len(found) + 1.2), layout="constrained")
    shares = [record.bytes_to_device / record.data_bytes for _, record in found]
    colors = [OURS if record.is_ours else THEIRS for _, record in found]
    least = 0.2 * min(shares)
    axes.barh(range(len(found)), [s - least for s in shares], left=least, color=colors, height=0.7)
    axes.set_xscale("log")
    axes.set_xlim(least, 3e3 * max(shares))
    for i, (_, record) in enumerate(found):
        text = f"{in_bytes(record.bytes_to_device)} of {in_bytes(record.data_bytes)}"
        axes.text(shares[i] * 1.3, i, text, va="center", fontsize=8)
    axes.axvline(1, color="#333333", linewidth=1)
    labels = [f"{figures.label_of(r)}{_many(r)} ({r.contender})" for _, r in found]
    axes.set_yticks(range(len(found)), labels, fontsize=8)
    axes.set_ylim(-0.6, len(found) - 0.4)
    axes.grid(axis="y", visible=False)
    gpus = dict.fromkeys(report.machine["gpu"]["name"] for report, _ in found)
    axes.set_title(f"one {', '.join(gpus)}")
    axes.set_xlabel("bytes to the GPU in one run / bytes of the rows (line: all rows once)")
    save(figure, path)


def _many(record):
    return f", {record.candidates} candidates" if record.candidates else ""


def in_bytes(n_bytes):
    """Bytes with a unit."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if n_bytes >= size:
            return f"{n_bytes / size:.3g} {unit}"
    return f"{n_bytes:g} bytes"


# ---------------------------------------------------------------- limits


def limits(reports, path):
    """The part of gpuml's time that a limit of the hardware asks for."""
    found = figures.at_limits(reports)
    figure, axes = plt.subplots(figsize=(10, 0.27 * len(found) + 1.3), layout="constrained")
    colors = dict(zip(figures.LIMITS, (OURS, THIRD, GPU_COLORS[4]), strict=True))
    for i, (_, _, limit, share) in enumerate(found):
        axes.barh(i, 100 * share, color=colors[limit], height=0.7)
        axes.text(100 * share + 0.8, i, f"{100 * share:.2g} %", va="center", fontsize=8)
    labels = [f"{figures.kind_of(report, r)}: {figures.label_of(r)}" for report, r, _, _ in found]
    axes.set_yticks(range(len(found)), labels, fontsize=8)
    axes.set_ylim(-0.6, len(found) - 0.4)
    axes.set_xlim(0, 109)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel("time that the limit asks for, in % of gpuml's (100 %: as fast as it can be)")
    used = dict.fromkeys(limit for _, _, limit, _ in found)
    handles = [plt.Rectangle((0, 0), 1, 1, color=colors[limit]) for limit in used]
    words = [figures.LIMITS[limit] for limit in used]
    axes.legend(handles, words, loc="lower right", frameon=False, title="limit, in the same run")
    save(figure, path)


def draw(plan, folder):
    """Draw figures, of names, functions of this module and what they take."""
    folder.mkdir(parents=True, exist_ok=True)
    with plt.rc_context(STYLE):
        for name, function, shown in plan:
            globals()[function](shown, folder / f"{name}.svg")
