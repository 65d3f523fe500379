"""A progress bar for long passes over data."""

import sys
import threading
from collections.abc import Callable
from contextlib import contextmanager, suppress
from typing import Any

REDRAWS_PER_SECOND = 4

# Held while a bar is on the screen. Two would draw over each other, so of a search inside a
# search, or of two searches in two threads, the first to start draws.
_screen = threading.Lock()


class _Nothing:
    """Takes the same calls as a bar and draws nothing."""

    def advance(self, n=1):
        pass

    def describe(self, text):
        pass

    def stop(self):
        pass


class _Bar:
    """One task of a ``rich.progress.Progress``; callable from several threads."""

    def __init__(self, progress, total, description):
        self._progress = progress
        # Added before the start, a task is not drawn yet, so nothing can fail half-way.
        self._task = progress.add_task(description, total=total)
        progress.start()

    def advance(self, n=1):
        self._progress.advance(self._task, n)

    def describe(self, text):
        self._progress.update(self._task, description=text)

    def stop(self):
        with suppress(Exception):
            self._progress.stop()


class Ticks:
    """Steps of a bar, each counted once where it is made, in this process or another.

    Calls advance the bar. A copy that was sent to another process counts nothing there; what comes
    back of it is counted by `up_to`.
    """

    def __init__(self, advance: Callable[[int], None] | None = None):
        self._advance, self._n, self._lock = advance, 0, threading.Lock()

    def __call__(self, *told: Any) -> None:
        """Count one more step, for any arguments."""
        if self._advance is not None:
            with self._lock:
                self._n += 1
            self._advance(1)

    def up_to(self, n: int) -> None:
        """Count the steps that are missing up to `n`."""
        with self._lock:
            missing = max(0, n - self._n)
            self._n += missing
        if missing and self._advance is not None:
            self._advance(missing)

    def __reduce__(self):
        return Ticks, ()


@contextmanager
def progress_bar(total: int | None, description: str, *, enabled: bool):
    """Draw a progress bar on standard error while the ``with`` block runs.

    Nothing is drawn, and `rich` is not imported, unless the bar is enabled. Nothing is drawn
    either where standard error is not a terminal (or a notebook) or a bar is drawn already. A
    screen that cannot be drawn on never stops the computation.

    Parameters
    ----------
    total : int or None
        Number of steps; None where nobody knows.
    description : str
        What is going on, in a few words.
    enabled : bool
        Whether to draw.

    Yields
    ------
    bar : object
        ``bar.advance(n=1)`` records `n` more steps and ``bar.describe(text)`` changes the
        description; both may be called from several threads.

    Examples
    --------
    >>> with progress_bar(3, "fits", enabled=False) as bar:
    ...     for _ in range(3):
    ...         bar.advance()
    """
    if not enabled or not _screen.acquire(blocking=False):
        yield _Nothing()
        return
    try:
        bar = _started_bar(total, description)
        try:
            yield bar
        finally:
            bar.stop()
    finally:
        _screen.release()


def _started_bar(total, description):
    # Standard error may be closed, or not take the characters; that is no reason to stop a search.
    with suppress(Exception):
        from rich.console import Console
        from rich.progress import Progress

        console = Console(stderr=True)
        if _can_redraw(console):
            # Warnings are lifted above the bar; what the caller prints on standard output is not
            # touched.
            progress = Progress(
                *_columns(),
                console=console,
                refresh_per_second=REDRAWS_PER_SECOND,
                redirect_stdout=False,
            )
            return _Bar(progress, total, description)
    return _Nothing()


def _can_redraw(console):
    # rich takes FORCE_COLOR for a terminal, but a log file with colours is still a log file.
    return console.is_jupyter or (sys.stderr.isatty() and not console.is_dumb_terminal)


def _columns():
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        ProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text

    class Rate(ProgressColumn):
        """Steps per second."""

        def render(self, task):
            speed = task.finished_speed or task.speed
            return Text("" if speed is None else f"{speed:.3g}/s", style="progress.data.speed")

    # Parameter names come in brackets, which rich would otherwise take for its own markup.
    description = TextColumn("{task.description}", markup=False)
    times = TimeElapsedColumn(), TimeRemainingColumn()
    return description, BarColumn(), MofNCompleteColumn(), Rate(), *times
