"""The examples of docs/inspect-and-edit-models.md do what they say, and give valid models."""

import re
import runpy
from pathlib import Path

import onnx
import onnx_ir as ir
import onnxruntime
import pytest

from onnx_passes.surgery import Builder
from tests.tables import each_of

DOC = Path(__file__).parents[2] / "docs" / "inspect-and-edit-models.md"
PARTS = re.findall(r"^## ([1-9B].+?)\n.*?```python\n(.*?)```", DOC.read_text(), re.S | re.M)


@pytest.fixture(autouse=True)
def own_layers(monkeypatch):
    monkeypatch.setattr(Builder, "_layers", dict(Builder._layers))


@each_of("code", *[pytest.param(code, id=title) for title, code in PARTS])
def test_it_runs_and_gives_a_model_that_runs(code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("example.py").write_text(code)
    names = runpy.run_path("example.py")
    proto = ir.to_proto(names.get("model") or names["b"].model)
    onnx.checker.check_model(proto, full_check=True)
    onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
