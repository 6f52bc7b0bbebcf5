"""A reproducer replays on the engine that judged, with that engine's own package alone."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from onnx_passes.configs.pipeline_files import config_from_data
from onnx_passes.pipeline.run import run_pipeline
from onnx_passes.runtime.isolated import end_children
from onnx_passes.testing import parse
from tests.tables import rule_pass

pytest.importorskip("openvino", reason="openvino is missing: pip install -e '.[openvino]'")

TEXT = """(float[n,4] x) => (float[n,4] y) <float[4] w = {1, 2, 3, 4}>
{ s = Add(x, w) t = Relu(s) y = Neg(t) }"""


rule_pass("LeakyRelus", "Relu(x) => LeakyRelu(x, alpha=0.5)")


def test_a_fault_on_openvino_is_replayed_on_openvino(tmp_path):
    data = {"passes": ["leaky-relus"], "engines": ["openvino"], "reproducers": str(tmp_path)}
    try:
        (failed,) = run_pipeline(parse(TEXT), config_from_data(data)).report.passes
    finally:
        end_children()
    assert failed.culprits == [1]
    folder = Path(failed.reproducer)
    engine = json.loads((folder / "check.json").read_text())["engine"]
    assert (engine["engine"], engine["precision"]) == ("openvino", "f32")
    assert "needs more than onnx" not in (folder / "README.md").read_text()
    command = [sys.executable, "-I", str(folder / "repro.py")]
    again = subprocess.run(command, capture_output=True, text=True, cwd="/")
    assert again.returncode == 1, again.stderr
    assert again.stdout.startswith("openvino")
    assert "elements differ, the worst at" in again.stdout
    (folder / "after.onnx").write_bytes((folder / "before.onnx").read_bytes())
    assert subprocess.run(command, capture_output=True, cwd="/").returncode == 0
    assert "- openvino:" in (folder / "pipeline.yaml").read_text()
