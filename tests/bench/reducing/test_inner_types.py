"""What a model does not declare is inferred, without its weights."""

import onnx_ir as ir

from onnx_passes.bench.reducing.parts import Inferred
from onnx_passes.testing import parse

MODEL = """<ir_version: 10, opset_import: ["" : 20]>
main (float[N,4] x) => (float[N,4] y) <int64[2] to = {2, -1}>
{ a = Abs(x) b = Shape(a) r = Reshape(a, to) n = Neg(r) y = Tanh(a) }"""


def described(model, name):
    value = next(v for node in model.graph for v in node.outputs if v.name == name)
    return value, Inferred(model).of(value)


def test_types_and_shapes_are_inferred():
    model = parse(MODEL)
    _, (type_, shape) = described(model, "a")
    assert type_.dtype is ir.DataType.FLOAT
    assert list(shape) == ["N", 4]
    assert described(model, "b")[1][0].dtype is ir.DataType.INT64
    assert described(model, "r")[1][1][0] == 2  # by the value of a small initializer


def test_what_is_declared_comes_first():
    model = parse(MODEL)
    value, _ = described(model, "a")
    value.shape = ir.Shape(["batch", None])
    assert list(described(model, "a")[1][1]) == ["batch", 4]
    value.shape = ir.Shape([7, 4])
    assert list(described(model, "a")[1][1]) == [7, 4]


def test_sizes_given_to_an_input_replace_names_within():
    model = parse(MODEL)
    value, _ = described(model, "a")
    value.type, value.shape = ir.TensorType(ir.DataType.FLOAT), ir.Shape(["N", 4])
    model.graph.inputs[0].shape = ir.Shape([3, 4])
    assert list(described(model, "a")[1][1]) == [3, 4]


def test_an_unknown_operator_leaves_its_own_results_unknown():
    model = parse(MODEL)
    next(n for n in model.graph if n.op_type == "Neg").domain = "nobody"
    model.graph.opset_imports["nobody"] = 1
    assert described(model, "n")[1] == (None, None)
    assert described(model, "a")[1][0] is not None
