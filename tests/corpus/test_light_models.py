"""The shipped pipelines on the real architectures inside the onnx wheel."""

import json
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
MODELS = sorted(LIGHT.glob("*.onnx"))


def test_there_are_nine():
    assert len(MODELS) == 9


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_optimize_verifies_and_never_grows(path, tmp_path):
    out, report = tmp_path / "out.onnx", tmp_path / "report.json"
    command = ["-c", "optimize", "--strict", "-s", "reference.samples=1", "--json", report]
    command = [sys.executable, "-m", "onnx_passes", *command, "-o", out, path]
    done = subprocess.run([str(w) for w in command], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    run = json.loads(report.read_text())
    assert run["after"]["nodes"] <= run["before"]["nodes"]
    assert not run["not_verified"]
    names = [[v.name for v in side] for m in (path, out) for side in _interface(m)]
    assert names[:2] == names[2:]


def _interface(path):
    graph = onnx.load(path).graph
    return graph.input, graph.output
