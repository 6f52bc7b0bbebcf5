"""What several tests of the pipeline count, and a registry of their own."""

import pytest

from onnx_passes.passes import registry
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


@pytest.fixture
def own_registry(monkeypatch):
    """The passes of the library; what a test registers is gone after it."""
    registry.discover()
    monkeypatch.setattr(registry, "_passes", dict(registry._passes))
