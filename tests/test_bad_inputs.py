"""Hostile and clumsy inputs get a message and an exit code, as their page says."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("every", [11, pytest.param(1, marks=pytest.mark.slow)])
def test_each_gets_the_message_and_exit_code_of_the_page(every):
    words = [sys.executable, "-m", "benchmarks.bad_inputs", "--check", str(every)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_there_are_a_hundred_of_each():
    hostile, clumsy = (ROOT / "docs" / "bad-inputs.md").read_text().split("## Clumsy")
    assert min(part.count("| `onnx-passes ") for part in (hostile, clumsy)) >= 100
