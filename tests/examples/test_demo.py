"""``make demo`` and ``make test`` share an environment, and the first needs less of it."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def planned(tmp_path):
    """Return a function that says what ``make`` would do in a fresh checkout."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    make = shutil.which("make") or pytest.skip("there is no make on the PATH")

    def plan(goal):
        done = subprocess.run([make, "-n", goal], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return plan


def test_the_demo_installs_what_running_needs_and_the_tests_all(planned):
    assert "-e '.'" in planned("demo")
    assert ".[dev]" not in planned("demo")
    assert "-e '.[dev]'" in planned("lint")


def test_what_the_tests_installed_is_enough_for_the_demo(planned, tmp_path):
    (tmp_path / ".venv").mkdir()
    touched = [line for line in planned("lint").splitlines() if line.startswith("touch ")]
    subprocess.run(touched[-1], cwd=tmp_path, shell=True, check=True)
    assert "pip install" not in planned("demo")
    assert "pip install" not in planned("lint")
