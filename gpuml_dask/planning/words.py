"""Plans in words, as ``verbose=2`` prints them."""

from typing import Any

from gpuml.model_selection.candidates import number

SHOWN_STEPS = 8


def plan_text(plan: Any) -> str:
    """A line for a `gpuml_dask.planning.plan.Plan`, and one for each of its first steps."""
    shown, rest = plan.steps[:SHOWN_STEPS], plan.steps[SHOWN_STEPS:]
    lines = [_headline(plan), *map(_step_line, shown)]
    if rest:
        fits = number(sum(step.n_fits for step in rest), "fit")
        seconds = second_text(sum(step.seconds for step in rest))
        lines.append(f"  and {number(len(rest), 'more step')}: {fits}, {seconds}")
    return "\n".join(lines)


def _headline(plan):
    parts = [f"{plan.mode} on {number(len(plan.workers), 'worker')}"]
    if plan.mode != "whole":
        parts.append(f"{number(len(plan.teams), 'team')} of {len(plan.teams[0])}")
        pieces, levels = number(plan.n_pieces, "piece"), number(plan.tree.depth, "level")
        parts.append(f"{pieces} added in {levels}")
    parts += [f"{byte_text(plan.bytes_moved)} to move", second_text(plan.seconds)]
    return ", ".join(parts) + f" ({plan.why})"


def _step_line(step):
    return "  " + ", ".join(
        [
            f"{step.label}: {number(step.n_fits, 'fit')}",
            "rows divided" if step.mode == "rows" else "whole data",
            number(len(step.workers), "worker"),
            f"{number(step.unit_candidates, 'candidate')} a task",
            second_text(step.seconds),
        ]
    )


def byte_text(n_bytes: float) -> str:
    """Bytes as people write them.

    >>> byte_text(25_600_000_000)
    '25.6 GB'
    """
    unit = "bytes"
    for larger in ("kB", "MB", "GB", "TB"):
        if n_bytes < 1000:
            break
        n_bytes, unit = n_bytes / 1000, larger
    return f"{n_bytes:.3g} {unit}"


def second_text(seconds: float) -> str:
    """An estimate in words.

    >>> second_text(0.0417), second_text(1e-7)
    ('about 0.042 s', 'under 1 ms')
    """
    if seconds < 0.001:
        return "under 1 ms"
    return f"about {seconds:.2g} s" if seconds < 100 else f"about {seconds:.0f} s"
