"""The BreakAdds example: its model is what its script writes, and what its README says."""

import runpy
from pathlib import Path

import onnx
import onnx_ir as ir

from onnx_passes.configs.imports import import_modules
from onnx_passes.configs.pipeline_files import load_config
from onnx_passes.configs.resolve import PassStep, resolve

HERE = Path(__file__).parents[2] / "examples" / "break_adds"


def test_model_is_what_its_script_writes():
    text = runpy.run_path(str(HERE / "make_model.py"))["TEXT"]
    assert onnx.load(HERE / "model.onnx") == onnx.parser.parse_model(text)


def test_pipeline_finds_the_pass_beside_it_and_the_pass_breaks_the_model():
    config = load_config(HERE / "pipeline.yaml")
    import_modules(config)
    (step,) = resolve(config).steps
    assert isinstance(step, PassStep)
    result = step.make({}, {})(ir.load(HERE / "model.onnx"))
    assert result.modified
    add = next(node for node in result.model.graph if node.op_type == "Add")
    assert [value.name for value in add.inputs] == ["a", "a"]
