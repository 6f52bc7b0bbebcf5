"""The line that says that a silent command is at work."""

import io
import sys
import threading

import pytest

from onnx_passes.cli import ticker
from onnx_passes.cli.ticker import Ticker, ticking


class Terminal(io.StringIO):
    """A terminal that says when something was drawn."""

    def __init__(self, terminal=True):
        super().__init__()
        self.terminal, self.drawn = terminal, threading.Event()

    def isatty(self):
        return self.terminal

    def write(self, text):
        done = super().write(text)
        self.drawn.set()
        return done


@pytest.fixture
def terminal(monkeypatch):
    stream = Terminal()
    monkeypatch.setattr(ticker, "SILENCE", 0.01)
    monkeypatch.setenv("TERM", "xterm")
    return stream


def test_a_silent_command_is_named_and_the_line_goes_when_it_prints(terminal, monkeypatch):
    out = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(sys, "stdout", out)
    with ticking("onnx-passes view"):
        assert terminal.drawn.wait(30)
        print("wrote it")
        length = len(terminal.getvalue())
        assert terminal.getvalue().endswith("\r\x1b[2K")
    assert "onnx-passes view: 0 s" in terminal.getvalue()
    assert len(terminal.getvalue()) == length
    assert out.getvalue() == "wrote it\n"
    assert sys.stdout is out


def test_a_command_that_prints_at_once_is_not_named(terminal, monkeypatch):
    monkeypatch.setattr(ticker, "SILENCE", 1000.0)
    monkeypatch.setattr(sys, "stderr", terminal)
    with ticking("x"):
        print("there", file=sys.stderr)
    assert terminal.getvalue() == "there\n"


@pytest.mark.parametrize(("is_terminal", "term"), [(False, "xterm"), (True, "dumb")])
def test_nothing_is_drawn_elsewhere(terminal, monkeypatch, is_terminal, term):
    def forbidden(*given):
        raise AssertionError(given)

    monkeypatch.setattr(ticker, "Ticker", forbidden)
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", term)
    terminal.terminal = is_terminal
    with ticking("x"):
        pass


def test_a_line_that_was_never_drawn_is_not_cleared():
    stream = Terminal()
    one = Ticker(stream, "x")
    one.stop()
    one.stop()
    assert stream.getvalue() == ""
