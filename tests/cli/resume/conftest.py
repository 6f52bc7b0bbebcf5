import numpy as np
import onnx
import pytest

from tests.cli.resume.pipelines import CONFIG, PASSES, STEPS, TEXT


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a model, reference data, passes of its own and a pipeline."""
    monkeypatch.delenv("STOP", raising=False)
    onnx.save(onnx.parser.parse_model(TEXT), tmp_path / "m.onnx")
    np.savez(tmp_path / "in.npz", x=np.arange(4, dtype=np.float32))
    (tmp_path / "own.py").write_text(PASSES)
    (tmp_path / "p.yaml").write_text(CONFIG.format(STEPS))
    return tmp_path


@pytest.fixture
def run(folder, cli, monkeypatch):
    """Run the pipeline in this process; return exit code and stderr."""

    def call(*words, stop="", steps=None):
        monkeypatch.setenv("STOP", stop)
        if steps is not None:
            (folder / "p.yaml").write_text(CONFIG.format(steps))
        done = cli("-c", "p.yaml", "-o", "out.onnx", *words, "m.onnx")
        return done.code, done.err

    return call
