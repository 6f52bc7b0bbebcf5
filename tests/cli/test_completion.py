"""A shell asks by the environment, and gets what a half typed word may become."""

import os
import shutil
import subprocess
import sys

import pytest

from onnx_passes.cli.common import SHELLS, complete
from onnx_passes.cli.main import program


def ask(monkeypatch, capsys, words, shell="bash"):
    monkeypatch.setenv("COMP_WORDS", " ".join(["onnx-passes", *words]))
    last = words[-1] if shell == "fish" else str(len(words))
    monkeypatch.setenv("COMP_CWORD", last)
    assert complete(program, f"{shell}_complete")
    return [line.partition(",")[2] for line in capsys.readouterr().out.splitlines() if line]


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["insp"], ["inspect"]),
        (["data", "mer"], ["merge"]),
        (["compare", "--toler"], ["--tolerance"]),
        (["run", "m.onnx", "-c", "tensor"], ["tensorrt", "tensor"]),
        (["-c", "tensor"], ["tensorrt", "tensor"]),
        (["m.onnx", "fuse-gel"], ["fuse-gelu"]),
        (["m.onnx", "fold-constants{size"], ["fold-constants{size_limit="]),
        (["explain", "merge-cl"], ["merge-clips"]),
        (["certify", "merge-clips", "fuse-gel"], ["fuse-gelu"]),
        (["diff", "--color", "al"], ["always"]),
        (["m.onnx", "no-such-pass{"], []),
    ],
)
def test_a_word_is_completed(monkeypatch, capsys, words, offered):
    assert ask(monkeypatch, capsys, words) == offered


def test_fish_shows_what_a_pass_does(monkeypatch, capsys):
    (line,) = ask(monkeypatch, capsys, ["explain", "merge-cl"], "fish")
    assert line.startswith("merge-clips\t")


@pytest.mark.parametrize("shell", SHELLS)
def test_each_shell_has_a_script(cli, shell):
    done = cli("completion", shell)
    assert done.code == 0
    assert "_ONNX_PASSES_COMPLETE" in done.out
    if shutil.which(shell):
        read = subprocess.run([shell, "-n"], input=done.out, text=True, capture_output=True)
        assert read.returncode == 0, read.stderr


def test_the_program_answers_and_does_nothing_else():
    asked = {"_ONNX_PASSES_COMPLETE": "bash_complete", "COMP_WORDS": "onnx-passes ex"}
    done = subprocess.run(
        [sys.executable, "-m", "onnx_passes"],
        env={**os.environ, **asked, "COMP_CWORD": "1"},
        capture_output=True,
        text=True,
    )
    assert done.stdout.split() == ["plain,extract", "plain,explain"]
    assert done.stderr == ""
