"""`gpuml._settings.progress`: bars are drawn on terminals only, and never get in the way."""

import io
import subprocess
import sys
import threading

import pytest

from gpuml._settings import progress as _progress
from gpuml._settings.progress import progress_bar


class Terminal(io.StringIO):
    """Standard error that says it is a terminal."""

    def isatty(self):
        return True


class BrokenTerminal(Terminal):
    """A terminal that is gone."""

    def write(self, text):
        raise OSError("Input/output error")


def on_terminal(monkeypatch, terminal):
    # No fixture: pytest puts its own standard error back between set-up and test.
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(sys, "stderr", terminal)
    return terminal


def is_drawn(bar):
    return isinstance(bar, _progress._Bar)


def test_draws_count_rate_and_description(monkeypatch):
    terminal = on_terminal(monkeypatch, Terminal())
    with progress_bar(40, "fits", enabled=True) as bar:
        assert is_drawn(bar)
        for _ in range(10):
            bar.advance(4)
        bar.describe("Ridge [alpha]")
    text = terminal.getvalue()
    assert "40/40" in text
    assert "/s" in text
    assert "Ridge [alpha]" in text


def test_standard_output_is_left_alone(monkeypatch, capsys):
    terminal = on_terminal(monkeypatch, Terminal())
    with progress_bar(1, "fits", enabled=True):
        print("result")
    assert capsys.readouterr().out == "result\n"
    assert "result" not in terminal.getvalue()


def test_steps_of_several_threads_add_up(monkeypatch):
    terminal = on_terminal(monkeypatch, Terminal())
    with progress_bar(8000, "fits", enabled=True) as bar:
        threads = [
            threading.Thread(target=lambda: [bar.advance(1) for _ in range(1000)]) for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert "8000/8000" in terminal.getvalue()


def test_not_enabled_draws_nothing_and_does_not_load_rich(monkeypatch):
    terminal = on_terminal(monkeypatch, Terminal())
    with progress_bar(3, "fits", enabled=False) as bar:
        bar.advance()
        bar.advance(2)
        bar.describe("more fits")
    assert terminal.getvalue() == ""
    code = (
        "import sys; from gpuml._settings.progress import progress_bar\n"
        "with progress_bar(3, 'fits', enabled=False) as bar: bar.advance(3)\n"
        "print('rich' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.strip() == "False", result.stderr


@pytest.mark.parametrize("colour", [None, "1"])
def test_files_get_no_garbage(monkeypatch, colour):
    on_terminal(monkeypatch, Terminal())
    if colour is not None:
        monkeypatch.setenv("FORCE_COLOR", colour)
    log = io.StringIO()
    monkeypatch.setattr(sys, "stderr", log)
    with progress_bar(3, "fits", enabled=True) as bar:
        bar.advance(3)
        bar.describe("more fits")
    assert log.getvalue() == ""


def test_dumb_terminal_gets_no_garbage(monkeypatch):
    terminal = on_terminal(monkeypatch, Terminal())
    monkeypatch.setenv("TERM", "dumb")
    with progress_bar(3, "fits", enabled=True) as bar:
        bar.advance(3)
    assert terminal.getvalue() == ""


@pytest.mark.parametrize("stream", [None, BrokenTerminal()], ids=["none", "broken"])
def test_broken_screen_does_not_stop_the_computation(monkeypatch, stream):
    on_terminal(monkeypatch, Terminal())
    monkeypatch.setattr(sys, "stderr", stream)
    with progress_bar(3, "fits", enabled=True) as bar:
        bar.advance(3)
    with progress_bar(3, "fits", enabled=True) as bar:
        bar.advance(3)
    assert sys.stderr is stream


@pytest.mark.parametrize("enabled", [True, False])
def test_exceptions_pass_unchanged_and_the_bar_is_closed(monkeypatch, enabled):
    terminal = on_terminal(monkeypatch, Terminal())
    error = ZeroDivisionError("mine")

    def fail():
        with progress_bar(3, "fits", enabled=enabled) as bar:
            bar.advance()
            raise error

    with pytest.raises(ZeroDivisionError) as caught:
        fail()
    assert caught.value is error
    assert sys.stderr is terminal
    with progress_bar(3, "again", enabled=True) as bar:
        assert is_drawn(bar)


def test_inner_bar_draws_nothing(monkeypatch):
    terminal = on_terminal(monkeypatch, Terminal())
    with progress_bar(2, "outer", enabled=True) as outer:
        with progress_bar(2, "inner", enabled=True) as inner:
            inner.advance(2)
            inner.describe("inner still")
        assert is_drawn(outer)
        assert not is_drawn(inner)
        outer.advance(2)
    assert "inner" not in terminal.getvalue()
    with progress_bar(2, "later", enabled=True) as later:
        assert is_drawn(later)


def test_bar_inside_a_bar_that_is_not_enabled_is_drawn(monkeypatch):
    on_terminal(monkeypatch, Terminal())
    outer = progress_bar(2, "outer", enabled=False)
    with outer, progress_bar(2, "inner", enabled=True) as inner:
        assert is_drawn(inner)


def test_bar_under_somebody_elses_live_display(monkeypatch):
    terminal = on_terminal(monkeypatch, Terminal())
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True)), progress_bar(2, "fits", enabled=True) as bar:
        bar.advance(2)
    assert "2/2" in terminal.getvalue()


def test_nothing_to_do(monkeypatch):
    on_terminal(monkeypatch, Terminal())
    with progress_bar(0, "fits", enabled=True) as bar:
        bar.advance(0)
