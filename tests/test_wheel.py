"""The package as a user gets it: a wheel in an empty environment."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MODEL = ROOT / "examples" / "digits" / "model.onnx"


def run(*command: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    words = [str(word) for word in command]
    return subprocess.run(words, cwd=cwd, capture_output=True, text=True)


@pytest.mark.timeout(600)
def test_a_wheel_in_an_empty_environment_runs_the_main_job(tmp_path):
    built = run(
        sys.executable,
        "-m",
        "build",
        "--wheel",
        "--no-isolation",
        "-o",
        tmp_path,
        ROOT,
        cwd=ROOT,
    )
    assert built.returncode == 0, built.stderr
    (wheel,) = tmp_path.glob("*.whl")
    assert run(sys.executable, "-m", "venv", "env", cwd=tmp_path).returncode == 0
    python = tmp_path / "env" / "bin" / "python"
    constraints = ROOT / "constraints.txt"
    installed = run(
        python, "-m", "pip", "install", "-q", "-c", constraints, wheel, cwd=tmp_path
    )
    if "No matching distribution" in installed.stderr or "Connection" in installed.stderr:
        pytest.skip(f"no package index to install from: {installed.stderr.splitlines()[-1]}")
    assert installed.returncode == 0, installed.stderr
    program = python.with_name("onnx-passes")
    for config in ("cleanup", "optimize"):
        out = tmp_path / f"{config}.onnx"
        done = run(program, "-c", config, "-o", out, "--strict", MODEL, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert out.is_file()
    assert "fold-constants" in run(program, "list", cwd=tmp_path).stdout
    made = run(program, "new-pass", "merge-widgets", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
