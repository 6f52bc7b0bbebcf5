"""What several tests of the pipeline count."""

import pytest

from onnx_passes.runtime.ort import OnnxRuntimeEngine


@pytest.fixture
def nodes_run(monkeypatch):
    """The number of nodes of each session made."""
    made = []
    prepare = OnnxRuntimeEngine.prepare

    def counted(engine, model):
        made.append(len(model.graph))
        return prepare(engine, model)

    monkeypatch.setattr(OnnxRuntimeEngine, "prepare", counted)
    return made
