import io
import json
import os
import re
import resource
import sys
import threading
from pathlib import Path

import pytest

from onnx_passes.cli import output
from onnx_passes.cli.output import StepCount, advance, ticking
from tests.tables import each_of


@pytest.fixture
def never(write):
    """A pipeline whose pass leaves a mark if it runs."""
    write(
        "mark.py",
        """\
import pathlib
from onnx_passes import passes
@passes.register()
class Mark(passes.Analysis):
    def analyse(self, model):
        pathlib.Path("ran").touch()
""",
    )
    return write("cfg.yaml", "imports: [mark]\npasses: [mark]\n")


def untouched(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@each_of(
    "words, message",
    (["-o", "folder"], "-o folder is a folder"),
    (["-o", "model.onnx/out.onnx"], "is not a folder"),
    (["-o", "out.ort"], ".ort names another form\n  = help: -o out.onnx"),
    (["-o", "/dev/null"], "-o /dev/null is a pipe or device"),
    (["-o", "cfg.yaml"], "-o cfg.yaml would write over the pipeline file"),
    (["-o", "./folder/../cfg.yaml"], "would write over the pipeline file"),
    (["--json", "model.onnx/r.json"], "is not a folder"),
    (["--json", "/dev/null"], "--json /dev/null is a pipe or device"),
    (["--html", "model.onnx"], "--html model.onnx would write over the model"),
    (["--junit", "link.onnx"], "--junit link.onnx would write over the model"),
    (["--json", "r", "--html", "./r"], "--html and --json name the same file"),
    (["--json", "-"], "--json prints nothing on -\n  = help: name a file: report.json"),
    (["--junit", "-"], "name a file: report.xml"),
    (["-o", "x.onnx", "--json", "x.onnx"], "--json and -o name the same file"),
)
def test_a_place_for_no_file_is_told_before_a_run(cli, model, never, tmp_path, words, message):
    (tmp_path / "folder").mkdir()
    (tmp_path / "link.onnx").symlink_to(model)
    before = untouched(tmp_path)
    cli("-c", never, *words, model).tells(2, message, "= help:")
    assert untouched(tmp_path) == before


def test_a_folder_that_may_not_be_written_to(cli, model, never, monkeypatch):
    allowed = os.access

    def access(path, mode, **options):  # root may write everywhere
        return not mode & os.W_OK and allowed(path, mode, **options)

    monkeypatch.setattr("os.access", access)
    cli("-c", never, "-o", "out.onnx", model).tells(2, "may not be written to")
    assert not Path("ran").exists()


def test_a_disk_that_fills_leaves_the_old_output_and_tells_the_report(cli, model):
    Path("out.onnx").write_text("old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, hard))
    try:
        done = cli("-c", "cleanup", "-o", "out.onnx", model)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    done.tells(3, "cannot be written: File too large")
    assert Path("out.onnx").read_text() == "old"
    assert sorted(p.name for p in Path().iterdir()) == ["model.onnx", "out.onnx"]


def test_a_result_that_cannot_be_saved_is_a_failure_in_the_report_too(cli, model, monkeypatch):
    from onnx_passes.errors import ModelError

    def fails(*_, **__):
        raise ModelError("the model cannot be written: gone")

    monkeypatch.setattr("onnx_passes.model.save.save_model", fails)
    cli("-c", "cleanup", "-o", "out.onnx", "--json", "r.json", model).tells(3)
    report = json.loads(Path("r.json").read_text())
    assert report["exit_code"] == 3
    assert report["output"] is None
    assert "gone" in report["error"]


def test_a_pass_that_changes_the_folder_does_not_move_the_output(cli, model, write, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    write(
        "mover.py",
        """\
import os
from onnx_passes import passes
@passes.register()
class Mover(passes.Analysis):
    def analyse(self, model):
        os.chdir("elsewhere")
""",
    )
    config = write("cfg.yaml", "imports: [mover]\npasses: [mover]\n")
    assert cli("-c", config, "-o", "out.onnx", "--json", "r.json", model).code == 0
    assert (tmp_path / "out.onnx").exists()
    assert (tmp_path / "r.json").exists()
    assert not list((tmp_path / "elsewhere").iterdir())


def test_the_input_may_be_written_over_only_by_a_verified_result(cli, model, write):
    write(
        "breaker.py",
        """\
import onnx_ir as ir
from onnx_passes import passes
@passes.verify.equality
@passes.register()
class Breaker(passes.Transformation):
    def call(self, model):
        model.graph.node(0).op_type = "Sub"
        return ir.passes.PassResult(model, True)
""",
    )
    before = model.read_bytes()
    config = write("cfg.yaml", "imports: [breaker]\npasses: [breaker]\n")
    assert cli("-c", config, "-o", model, model).code == 1
    assert model.read_bytes() == before
    assert cli("-c", "optimize", "-o", model, model).code == 0
    assert model.read_bytes() != before


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
    monkeypatch.setattr(output, "SILENCE", 0.01)
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


def test_the_pass_that_is_at_work_is_shown(terminal, monkeypatch, cli, model, write):
    write(
        "slow.py",
        """\
import time
from onnx_passes import passes
@passes.register()
class Slow(passes.Analysis):
    def analyse(self, model):
        time.sleep(0.9)
""",
    )
    config = write(
        "cfg.yaml",
        "imports: [slow]\npasses: [shape-inference, slow, deduplicate-initializers]\n",
    )
    take_streams(terminal, monkeypatch)
    cli("-c", config, model)
    assert re.search(r"\d+ s, 1 of 3 passes, slow", terminal.getvalue())


@each_of(
    "done, latest, now, text",
    (0, 10.0, 15.0, "0 of 8 samples"),
    (2, 20.0, 20.0, "2 of 8 samples, about 30 s left"),
    (2, 20.0, 25.0, "2 of 8 samples, about 25 s left"),
    (2, 20.0, 60.0, "2 of 8 samples"),  # slower than it was: nobody knows
    (7, 10.5, 10.5, "7 of 8 samples"),
)
def test_the_time_left_is_that_of_the_steps_so_far(done, latest, now, text):
    assert StepCount("sample", 8, 10.0, done, latest).text(now) == text


def test_a_command_that_prints_at_once_is_not_named(terminal, monkeypatch):
    monkeypatch.setattr(output, "SILENCE", 1000.0)
    monkeypatch.setattr(sys, "stderr", terminal)
    with ticking("x"):
        print("there", file=sys.stderr)
    assert terminal.getvalue() == "there\n"


@each_of("is_terminal, term", (False, "xterm"), (True, "dumb"))
def test_nothing_is_drawn_elsewhere(terminal, monkeypatch, is_terminal, term):
    def forbidden(*given):
        raise AssertionError(given)

    monkeypatch.setattr(output, "Ticker", forbidden)
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", term)
    terminal.terminal = is_terminal
    with ticking("x"):
        pass


def test_a_result_in_text_is_told_and_the_path_asked_for_is_named(cli, model):
    cli("-c", "cleanup", "-o", "out.txt", model).tells(0, "out.txt is ONNX text")
    cli("-c", "cleanup", "-o", "/proc/out.onnx", model).tells(3, "\n/proc/out.onnx\n")
