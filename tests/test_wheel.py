"""The package as a user gets it: a wheel in an empty environment."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from onnx_passes import __version__

ROOT = Path(__file__).parents[1]
MODEL = ROOT / "examples" / "digits" / "model.onnx"


# Compiled is what is imported, when it is.
ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}


def run(*command: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    words = [str(word) for word in command]
    return subprocess.run(words, cwd=cwd, env=ENVIRONMENT, capture_output=True, text=True)


@pytest.mark.timeout(600)
def test_a_wheel_in_an_empty_environment_runs_the_main_job(tmp_path):
    # Without --wheel the wheel is built from the sdist, and so are both tried.
    built = run(
        sys.executable, "-m", "build", "--no-isolation", "-o", tmp_path, ROOT, cwd=ROOT
    )
    assert built.returncode == 0, built.stderr
    (wheel,) = tmp_path.glob("*.whl")
    empty = run(sys.executable, "-m", "venv", "--without-pip", "env", cwd=tmp_path)
    assert empty.returncode == 0
    python = tmp_path / "env" / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", python)
    words = ("install", "-q", "--no-compile", "-c", ROOT / "constraints.txt", wheel)
    installed = run(*pip, *words, cwd=tmp_path)
    if "No matching distribution" in installed.stderr or "Connection" in installed.stderr:
        pytest.skip(f"no package index to install from: {installed.stderr.splitlines()[-1]}")
    assert installed.returncode == 0, installed.stderr
    program = python.with_name("onnx-passes")
    assert run(program, "--help", cwd=tmp_path).returncode == 0
    assert run(program, "--version", cwd=tmp_path).stdout.split()[-1] == __version__
    _install_one_that_requires(python, "onnx-passes>=0.4")
    checked = run(*pip, "check", cwd=tmp_path)
    assert checked.returncode == 0, checked.stdout
    for config in ("cleanup", "optimize"):
        out = tmp_path / f"{config}.onnx"
        done = run(program, "-c", config, "-o", out, "--strict", MODEL, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert out.is_file()
    assert "fold-constants" in run(program, "list", cwd=tmp_path).stdout
    viewed = run(program, "view", MODEL, "-o", "page.html", cwd=tmp_path)
    assert viewed.returncode == 0, viewed.stderr
    assert "dagre" in (tmp_path / "page.html").read_text("utf-8")
    made = run(program, "new-pass", "merge-widgets", cwd=tmp_path)
    assert made.returncode == 0, made.stderr


def _install_one_that_requires(python: Path, requirement: str) -> None:
    """Install a package that was made for the system whose interface this one implements."""
    (packages,) = (python.parents[1] / "lib").glob("python*/site-packages")
    metadata = packages / "made_for_it-1.0.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text(
        "Metadata-Version: 2.1\nName: made-for-it\nVersion: 1.0\n"
        f"Requires-Dist: {requirement}\n"
    )
