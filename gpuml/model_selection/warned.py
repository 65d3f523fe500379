"""Warnings that fits raise in other processes, raised in this one, each once."""

import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Warned:
    """A warning as it was raised: kind, text and place."""

    category: type[Warning]
    text: str
    filename: str
    lineno: int
    module: str | None


class _Recorder:
    """Records the warnings of all threads that ask for it; filters of a process are common to all.

    `warnings.catch_warnings` by itself knows no threads: of two that overlap, the one that ends
    first would remove what the other records with.
    """

    def __init__(self):
        self._lock = threading.Lock()
        self._found: dict[int, list[Warned]] = {}
        self._before: Any = None
        self._show: Any = None

    def begin(self, filters: Sequence[tuple]) -> list[Warned]:
        """Hear this thread, and all others that nobody hears if it is the only one."""
        found: list[Warned] = []
        with self._lock:
            if not self._found:
                self._before = warnings.catch_warnings()
                self._before.__enter__()
                self._show = warnings.showwarning
                warnings.filters[:] = filters  # type: ignore[index]
                warnings.showwarning = self._hear
            self._found[threading.get_ident()] = found
        return found

    def end(self) -> None:
        """Hear this thread no more."""
        with self._lock:
            del self._found[threading.get_ident()]
            if not self._found:
                self._before.__exit__(None, None, None)

    def _hear(self, message, category, filename, lineno, file=None, line=None):
        found = self._found.get(threading.get_ident())
        if found is None and len(self._found) == 1:
            found = next(iter(self._found.values()), None)
        if found is None:
            self._show(message, category, filename, lineno, file, line)
        else:
            found.append(Warned(category, str(message), filename, lineno, _module_of(filename)))


_recorder = _Recorder()


@contextmanager
def recorded(filters: Sequence[tuple]) -> Iterator[list[Warned]]:
    """Record warnings of this thread while the ``with`` block runs, in a list that grows.

    `filters` are ``warnings.filters`` of the user's process: what they ignore is not recorded, and
    what they make an error is one.
    """
    found = _recorder.begin(filters)
    try:
        yield found
    finally:
        _recorder.end()


def tell(found: Sequence[Warned], told: set[Warned]) -> None:
    """Raise recorded warnings here, but for those in `told`, which grows by them."""
    for each in found:
        if each not in told:
            told.add(each)
            warnings.warn_explicit(
                each.text, each.category, each.filename, each.lineno, each.module
            )


def _module_of(filename):
    """The module that a file is of, which filters may name."""
    for name, module in list(sys.modules.items()):
        if getattr(module, "__file__", None) == filename:
            return name
    return None
