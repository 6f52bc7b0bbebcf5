"""Reproducers of numbers that differ on an engine that compiles: on a stand-in, no GPU."""

import json
import os
import subprocess
import sys
from pathlib import Path

import onnx_ir as ir
import pytest

from onnx_passes.configs.pipeline_files import default_config
from onnx_passes.pipeline.run import run_pipeline
from onnx_passes.runtime.isolated import end_children
from tests.pipeline.test_region_builds import HIDDEN
from tests.runtime.tensorrt import fake_gpu


@pytest.fixture
def children(monkeypatch, tmp_path):
    """Let child processes, those of scripts included, find a stand-in for the GPU."""
    if fake_gpu.plug_into_children(monkeypatch, tmp_path) is None:
        pytest.skip("there is no C compiler to make the fake driver with")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    end_children()
    yield
    end_children()
    monkeypatch.undo()
    fake_gpu.forget()


def test_the_folder_runs_both_models_and_holds_what_was_built(children, tmp_path, monkeypatch):
    engines = [{"onnxruntime": {"when": "end"}}, {"tensorrt-rtx": {"when": "each"}}]
    settings = [f"engines={json.dumps(engines)}", f"reproducers={tmp_path / 'repros'}"]
    steps = ["sums-by-rule{at=s2}"]
    (done,) = run_pipeline(
        ir.from_onnx_text(HIDDEN), default_config(settings, steps)
    ).report.passes
    assert done.reproducer is not None, done.notes
    assert not [note for note in done.notes if "does not fail by itself" in note], done.notes
    folder = Path(done.reproducer)
    names = {path.name for path in folder.iterdir()}
    assert names >= {
        *("before.onnx", "after.onnx", "inputs.npz", "repro.py"),
        *("before.engine", "timing.cache"),
    }
    layers = (folder / "layers.txt").read_text().splitlines()
    assert layers[0] == "before.onnx"
    assert any(line.startswith("    Mul ") for line in layers[layers.index("after.onnx") :])
    operators = {node.op_type for node in ir.load(folder / "after.onnx").graph}
    assert "Mul" in operators
    assert "Tanh" not in operators  # the region alone
    readme = (folder / "README.md").read_text()
    assert "by its own error on that engine" in readme
    assert "runs both on" in readme
    command = [sys.executable, str(folder / "repro.py")]
    again = subprocess.run(command, capture_output=True, text=True)
    assert again.returncode == 1, again.stderr
    assert "elements differ" in again.stdout
    (folder / "after.onnx").write_bytes((folder / "before.onnx").read_bytes())
    assert subprocess.run(command, capture_output=True).returncode == 0
    # Without the engine the script says so.
    clean = [p for p in sys.path if "found-by-children" not in p]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, clean)))
    monkeypatch.setenv("LD_LIBRARY_PATH", "")
    gone = subprocess.run(command, capture_output=True, text=True)
    assert gone.returncode == 2, gone.stdout
    assert gone.stdout.startswith("tensorrt-rtx: ")
