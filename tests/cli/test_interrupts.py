"""Ctrl-C and its relatives, at many moments of a run."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import onnx
import pytest

from onnx_passes.cli import interrupts

SLEEPS = """\
import pathlib, time
import onnx_ir as ir
from onnx_passes import passes
@passes.register()
class Sleeps(passes.Analysis):
    def analyse(self, model):
        pathlib.Path("started").touch()
        time.sleep(60)
"""


def as_from_a_terminal():
    # A signal that is ignored, as by nohup, is ignored in children, too.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


@pytest.fixture
def start():
    """Start the program; it ends with the test, whatever becomes of that."""
    begun = []

    def call(folder, *words, **options):
        command = [sys.executable, "-m", "onnx_passes", *map(str, words)]
        options.setdefault("preexec_fn", as_from_a_terminal)
        process = subprocess.Popen(
            command, cwd=folder, stderr=subprocess.PIPE, text=True, **options
        )
        begun.append(process)
        return process

    yield call
    for process in begun:
        with process:
            process.kill()


def wait_for(path):
    for _ in range(600):
        if path.exists():
            return
        time.sleep(0.05)
    raise AssertionError(f"{path} did not appear")


def names(folder):
    left = {p.name for p in folder.iterdir()} - {"__pycache__"}
    return sorted(left)


@pytest.mark.parametrize(
    ("number", "word"),
    [
        (signal.SIGINT, "interrupted"),
        (signal.SIGTERM, "terminated"),
        (signal.SIGHUP, "terminated"),
    ],
)
def test_a_signal_in_a_pass_ends_the_run_in_order(start, tmp_path, model, write, number, word):
    write("sleeps.py", SLEEPS)
    write("out.onnx", "old")
    config = write("cfg.yaml", "imports: [sleeps]\npasses: [sleeps]\n")
    process = start(tmp_path, "-c", config, "-o", "out.onnx", "--json", "r.json", model)
    wait_for(tmp_path / "started")
    process.send_signal(number)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 128 + number
    assert err.strip() == f"{word}: nothing was written"
    assert (tmp_path / "out.onnx").read_text() == "old"
    assert names(tmp_path) == ["cfg.yaml", "model.onnx", "out.onnx", "sleeps.py", "started"]


def test_nohup_is_respected(start, tmp_path, model):
    def ignore():
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    process = start(tmp_path, "-c", "cleanup", "-o", "out.onnx", model, preexec_fn=ignore)
    time.sleep(0.5)
    process.send_signal(signal.SIGHUP)
    process.communicate(timeout=30)
    assert process.returncode == 0
    assert (tmp_path / "out.onnx").exists()


@pytest.mark.parametrize("delay", [0.15, 0.3, 0.5, 0.7, 0.9, 1.1])
def test_ctrl_c_at_any_moment_leaves_all_or_nothing(start, tmp_path, model, delay):
    before = model.read_bytes()
    process = start(tmp_path, "-c", "optimize", "-o", "out.onnx", model)
    time.sleep(delay)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert model.read_bytes() == before
    out = tmp_path / "out.onnx"
    if out.exists():
        onnx.checker.check_model(onnx.load(out))
    if process.returncode == 130:
        assert "interrupted: " in err
        assert ("nothing was written" in err) == (not out.exists())
    elif process.returncode == 0:
        assert out.exists()
    assert set(names(tmp_path)) <= {"model.onnx", "out.onnx"}
    assert "internal error" not in err


def test_an_interrupt_while_saving_leaves_the_old_output_and_no_scraps(
    cli, model, monkeypatch
):
    Path("out.onnx").write_text("old")

    def interrupted(handle):
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr("os.fsync", interrupted)
    done = cli("-c", "cleanup", "-o", "out.onnx", "--json", "r.json", model)
    assert done.code == 130
    assert done.err.strip().endswith("interrupted: nothing was written")
    assert Path("out.onnx").read_text() == "old"
    assert names(Path()) == ["model.onnx", "out.onnx"]


def test_a_second_interrupt_while_the_first_is_reported_changes_nothing(
    cli, model, monkeypatch
):
    say = sys.modules["onnx_passes.cli.main"]._tell

    def press_again(text):
        os.kill(os.getpid(), signal.SIGINT)
        say(text)

    def interrupted(handle):
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr("os.fsync", interrupted)
    monkeypatch.setattr(sys.modules["onnx_passes.cli.main"], "_tell", press_again)
    done = cli("-c", "cleanup", "-o", "out.onnx", model)
    assert done.code == 130
    assert done.err.strip() == "interrupted: nothing was written"


def test_an_interrupt_after_saving_says_what_is_there(cli, model, monkeypatch):
    replace = os.replace

    def interrupted(*paths):
        replace(*paths)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr("os.replace", interrupted)
    done = cli("-c", "cleanup", "-o", "out.onnx", model)
    assert done.code == 130
    assert "interrupted: out.onnx was complete by then" in done.err
    onnx.checker.check_model(onnx.load("out.onnx"))


def test_an_interrupt_that_a_pass_swallows_still_ends_the_run(cli, model, write):
    write(
        "swallow.py",
        """\
import os, signal
from onnx_passes import passes
@passes.register()
class Swallow(passes.Analysis):
    def analyse(self, model):
        try:
            os.kill(os.getpid(), signal.SIGINT)
        except BaseException:
            pass
""",
    )
    config = write("cfg.yaml", "imports: [swallow]\npasses: [swallow]\n")
    done = cli("-c", config, "-o", "out.onnx", model)
    assert done.code == 130
    assert not Path("out.onnx").exists()


def test_handlers_of_others_are_left_as_they_were():
    before = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)}
    with interrupts.interruptible():
        assert signal.getsignal(signal.SIGTERM) is not before[signal.SIGTERM]
    assert {n: signal.getsignal(n) for n in before} == before


LOST = """
import os, signal, sys, weakref

class Lock: pass

def press(_):
    os.kill(os.getpid(), signal.SIGINT)
    for _ in range(1000): pass

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "onnx_passes.cli.main":
            lock = Lock()
            self.held = weakref.ref(lock, press)

sys.meta_path.insert(0, Finder())
from onnx_passes.cli import main
main(["--version"])
"""


def test_ctrl_c_that_the_import_system_loses_still_ends_the_program():
    done = subprocess.run([sys.executable, "-c", LOST], capture_output=True, text=True)
    assert "Exception ignored" in done.stderr, "it was not lost: the test shows nothing"
    assert done.returncode == 130
    assert "interrupted: nothing was written" in done.stderr
