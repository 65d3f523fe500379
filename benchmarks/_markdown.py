"""Parts of pages that are written from reports."""

import textwrap

FOLDER = "benchmarks"


def paragraph(*sentences):
    """Lines of at most 100 characters."""
    # A hyphen or a long word is no place to break a command or a name.
    options = {"break_long_words": False, "break_on_hyphens": False}
    return textwrap.fill(" ".join(sentences), 100, **options) + "\n"


def seconds(value):
    """A time with a unit that suits it."""
    for unit, size in (("s", 1), ("ms", 1e-3)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value / 1e-6:.3g} µs"


def table(heading, rows, numbers_from):
    """A table without the columns that no row has anything for."""
    kept = [i for i in range(len(heading)) if any(row[i] is not None for row in rows)]
    ends = ["---" if i < numbers_from else "---:" for i in kept]
    lines = [[heading[i] for i in kept], ends]
    lines += [["" if row[i] is None else str(row[i]) for i in kept] for row in rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def image(name, words):
    """A figure of the page."""
    return f"![{words}]({FOLDER}/{name}.svg)\n"
