"""A model in parts gives what it gave; a node takes the place of what it replaces."""

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.errors import UsageError
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.surgery import insert
from onnx_passes.testing import parse

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "model.onnx"


def run(model, feeds):
    names = {v.name for v in model.graph.inputs}
    with OnnxRuntimeEngine().prepare(model) as session:
        return session.run({k: v for k, v in feeds.items() if k in names})


def test_one_node_replaces_several():
    model = ir.from_onnx_text("""<ir_version: 10, opset_import: ["" : 20]>
        g (float[2] x) => (float[2] y, float[2] z) <float low = {0}, float high = {6}>
        { a = Max(x, low) b = Min(a, high) y = Neg(b) z = Exp(a) }""")
    insert(model, "Clip", ["x", "low", "high"], ["b"])
    assert [node.op_type for node in model.graph] == ["Max", "Clip", "Neg", "Exp"]
    np.testing.assert_array_equal(run(model, {"x": np.float32([-1, 9])})["y"], [0, -6])


def test_an_inserted_output_keeps_its_name():
    model = parse("""(float[2] x) => (float[2] y) { a = Neg(x) y = Exp(a) }""")
    insert(model, "Elu", ["x"], ["y"], {"alpha": 2.0})
    assert [v.name for v in model.graph.outputs] == ["y"]
    assert [node.op_type for node in model.graph] == ["Elu"]
    with pytest.raises(UsageError, match="no value 'q'"):
        insert(model, "Elu", ["q"], ["y"])
    with pytest.raises(UsageError, match="has to be computed by a node"):
        insert(model, "Elu", ["x"], ["x"])
