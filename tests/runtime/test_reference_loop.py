"""Loop of the reference engine, held to ONNX Runtime."""

import numpy as np
import onnx.parser
import onnx_ir as ir
import pytest

from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.runtime.reference import ReferenceEngine
from onnx_passes.runtime.reference_loop import _stack

MODEL = """
<ir_version: 8, opset_import: ["": {opset}]>
agraph (int64 n, bool going, float{shape} x, float outer)
    => (float{shape} last, float{stacked} all, int64[T] counts) {{
  last, all, counts = Loop (n, going, x) <body = body (int64 i, bool c, float{shape} v)
      => (bool again, float{shape} w, float{shape} scan, int64 number) {{
    one = Constant <value_int = 3> ()
    again = Less (i, one)
    w = Add (v, outer)
    scan = Mul (v, outer)
    number = Identity (i)
  }}>
}}
"""


def run(engine, shape, iterations, going=True, opset=13):
    stacked = "[T]" if shape == () else f"[T,{','.join(map(str, shape))}]"
    spelled = f"[{','.join(map(str, shape))}]" if shape else ""
    text = MODEL.format(shape=spelled, stacked=stacked, opset=opset)
    model = ir.from_proto(onnx.parser.parse_model(text))
    feeds = {
        "n": np.array(iterations),
        "going": np.array(going),
        "x": np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape),
        "outer": np.array(2, np.float32),
    }
    with engine.prepare(model) as session:
        return session.run(feeds)


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (2, 1, 3)])
@pytest.mark.parametrize("iterations", [0, 1, 3, 9])
@pytest.mark.parametrize("going", [True, False])
def test_what_iterations_scan_is_stacked(shape, iterations, going):
    expected, found = (
        run(engine, shape, iterations, going)
        for engine in (OnnxRuntimeEngine(), ReferenceEngine())
    )
    for name, value in expected.items():
        assert found[name].dtype == value.dtype
        np.testing.assert_array_equal(found[name], value)


@pytest.mark.parametrize("declared", ["[2,3]", "[a,3]", "[]"])
def test_what_no_iteration_stacks_has_the_shape_that_is_inferred(declared):
    text = MODEL.format(shape="[2,3]", stacked="[T,2,3]", opset=13)
    model = onnx.parser.parse_model(text.replace("float[2,3] scan", f"float{declared} scan"))
    (loop,) = model.graph.node
    scan = loop.attribute[0].g.output[2].type.tensor_type
    if declared == "[]":
        scan.ClearField("shape")
    feeds = {"n": np.array(0), "going": np.array(True), "x": np.ones((2, 3), "f4")}
    feeds["outer"] = np.array(2, "f4")
    for engine in (OnnxRuntimeEngine(), ReferenceEngine()):
        with engine.prepare(ir.from_proto(model)) as session:
            assert session.run(feeds)["all"].shape == (0, 2, 3)


def test_what_no_type_is_known_of_is_stacked_all_the_same():
    assert _stack([], onnx.TypeProto()).shape == (0,)
