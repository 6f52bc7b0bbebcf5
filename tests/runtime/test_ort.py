from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.errors import EngineError, EngineUnavailableError, UnsupportedModelError
from onnx_passes.runtime.ort import OnnxRuntimeEngine

ENGINE = OnnxRuntimeEngine()


def model(text: str, opset: int = 21, ir_version: int = 10) -> ir.Model:
    header = f'<ir_version: {ir_version}, opset_import: ["" : {opset}]>'
    return ir.from_onnx_text(header + text)


def run(model, **feeds):
    with ENGINE.prepare(model) as session:
        return session.run(feeds)


def with_weight(array, name="w") -> ir.Model:
    tensor = ir.tensor(array, name=name)
    weight = ir.Value(name=name, const_value=tensor, type=ir.TensorType(tensor.dtype))
    weight.shape = tensor.shape
    x = ir.Value(name="x", type=weight.type, shape=tensor.shape)
    node = ir.node("Add", [x, weight], outputs=[ir.Value(name="y", type=weight.type)])
    graph = ir.Graph(
        [x], node.outputs, nodes=[node], initializers=[weight], opset_imports={"": 21}
    )
    return ir.Model(graph, ir_version=10)


def test_runs_a_model():
    outputs = run(
        model("g (float[2] x) => (float[2] y) { y = Relu(x) }"), x=np.float32([-1, 2])
    )
    np.testing.assert_array_equal(outputs["y"], np.float32([0, 2]))


def test_weights_are_read_from_the_memory_of_the_model():
    array = np.ones(4096, np.float32)
    m = with_weight(array)
    # A later write shows, because nothing was copied.
    with OnnxRuntimeEngine(prepacking=False).prepare(m) as session:
        array[:] = 5
        np.testing.assert_array_equal(session.run({"x": array})["y"], array + 5)


@pytest.mark.parametrize(
    "dtype",
    ["bfloat16", "float8_e4m3fn", "float8_e5m2fnuz", "int4", "uint4", "int2", "uint2"],
)
def test_element_types_that_numpy_lacks_go_in_and_out(dtype):
    kind = np.dtype(getattr(ml_dtypes, dtype))
    name = ir.DataType.from_numpy(kind).name.lower()
    x = (
        np.float32([[1, 0, 1], [0, 1, 1]])
        if "2" in name
        else np.float32([[1, 0, 3], [2, 4, 5]])
    )
    there = model(f"g (float[2,3] x) => ({name}[2,3] y) {{ y = Cast<to = 1>(x) }}", 25, 12)
    node = there.graph.node(0)
    node.attributes["to"] = ir.AttrInt64("to", ir.DataType[name.upper()].value)
    y = run(there, x=x)["y"]
    assert y.dtype == kind
    back = model(f"g ({name}[2,3] x) => (float[2,3] y) {{ y = Cast<to = 1>(x) }}", 25, 12)
    np.testing.assert_array_equal(run(back, x=y)["y"], x)


def test_an_unknown_operator_is_an_unsupported_model():
    with pytest.raises(UnsupportedModelError, match="Foo"):
        run(model("g (float[2] x) => (float[2] y) { y = Foo(x) }"))


def test_a_missing_feed_is_named():
    with pytest.raises(EngineError, match="'x' is not fed"):
        run(model("g (float[2] x) => (float[2] y) { y = Relu(x) }"))


def test_a_provider_that_is_not_here_is_unavailable():
    m = model("g (float[2] x) => (float[2] y) { y = Relu(x) }")
    with (
        pytest.raises(EngineUnavailableError, match="DmlExecutionProvider"),
        OnnxRuntimeEngine(provider="DmlExecutionProvider").prepare(m),
    ):
        pass
