"""Hostile inputs end with the exit code and the error that their page says."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tables import each_of

ROOT = Path(__file__).parents[1]


@each_of("every", 11, pytest.param(1, marks=pytest.mark.slow))
def test_each_ends_as_the_page_says(every):
    words = [sys.executable, "-m", "benchmarks.bad_inputs", "--check", str(every)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_there_are_a_hundred():
    page = (ROOT / "docs" / "maintainers" / "bad-inputs.md").read_text()
    (count,) = re.findall(r"^(\d+) commands\.$", page, re.M)
    assert int(count) >= 100
