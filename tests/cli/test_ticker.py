"""The line that says that a silent command is at work."""

import io
import re
import sys
import threading

import pytest

from onnx_passes.cli import ticker
from onnx_passes.cli.ticker import StepCount, Ticker, advance, ticking

CLEAR = "\r\x1b[2K"


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


def take_streams(terminal, monkeypatch):
    """Return the new stdout; not as a fixture, as pytest sets the streams before each test."""
    out = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(sys, "stdout", out)
    return out


def test_a_silent_command_is_named_and_the_line_goes_when_it_prints(terminal, monkeypatch):
    out = take_streams(terminal, monkeypatch)
    with ticking("onnx-passes view"):
        assert terminal.drawn.wait(30)
        print("wrote it", end="")
        length = len(terminal.getvalue())
        assert terminal.getvalue().endswith(CLEAR)
    assert "onnx-passes view: 0 s" in terminal.getvalue()
    assert len(terminal.getvalue()) == length
    assert out.getvalue() == "wrote it"
    assert sys.stdout is out


def test_the_line_returns_after_a_full_line(terminal, monkeypatch):
    out = take_streams(terminal, monkeypatch)
    with ticking("onnx-passes reduce"):
        assert terminal.drawn.wait(30)
        print("1 of 9 nodes")
        terminal.drawn.clear()
        assert terminal.drawn.wait(30)
    assert terminal.getvalue().endswith(CLEAR)
    assert out.getvalue() == "1 of 9 nodes\n"


def test_the_line_does_not_return_behind_a_question(terminal, monkeypatch):
    take_streams(terminal, monkeypatch)
    with ticking("x"):
        print("good or bad? ", end="", file=sys.stderr)
        terminal.drawn.clear()
        assert not terminal.drawn.wait(0.2)


def test_steps_are_shown_with_the_time_that_is_left(terminal, monkeypatch):
    take_streams(terminal, monkeypatch)
    with ticking("onnx-passes compare"):
        advance(0, 1000, "sample")
        advance(3, 1000, "sample")
        terminal.drawn.clear()
        assert terminal.drawn.wait(30)
    assert re.search(r"compare: \d+ s, 3 of 1,000 samples", terminal.getvalue())


def test_nothing_is_said_of_steps_once_all_are_done(terminal, monkeypatch):
    take_streams(terminal, monkeypatch)
    with ticking("onnx-passes tune"):
        advance(0, 2, "group")
        advance(2, 2, "group")
        terminal.drawn.clear()
        assert terminal.drawn.wait(30)
    assert "of 2 groups" not in terminal.getvalue()


@pytest.mark.parametrize(
    ("done", "latest", "now", "text"),
    [
        (0, 10.0, 15.0, "0 of 8 samples"),
        (2, 20.0, 20.0, "2 of 8 samples, about 30 s left"),
        (2, 20.0, 25.0, "2 of 8 samples, about 25 s left"),
        (2, 20.0, 60.0, "2 of 8 samples"),  # slower than it was: nobody knows
        (7, 10.5, 10.5, "7 of 8 samples"),
    ],
)
def test_the_time_left_is_that_of_the_steps_so_far(done, latest, now, text):
    assert StepCount("sample", 8, 10.0, done, latest).text(now) == text


def test_progress_without_a_terminal_is_nothing():
    advance(1, 2, "sample")


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
