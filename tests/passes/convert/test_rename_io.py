import onnx
import onnx_ir as ir
import pytest

from onnx_passes.errors import PassError
from onnx_passes.passes.convert.rename_io import RenameIo
from onnx_passes.testing import assert_verified, parse
from onnx_passes.verify.snapshot import Snapshot
from tests.tables import each_of

MODEL = "(float[3] a, float[3] b) => (float[3] y) { t = Sub(a, b) y = Exp(t) }"


def renamed(text=MODEL, **options):
    model = parse(text)
    before, pass_ = Snapshot(model), RenameIo(**options)
    assert pass_(model).modified
    assert_verified(pass_, before, model)
    onnx.checker.check_model(ir.to_proto(model), full_check=True)
    return [v.name for v in model.graph.inputs], [v.name for v in model.graph.outputs], model


def test_names_change_and_order_does_not():
    inputs, outputs, _ = renamed(inputs={"b": "right"}, outputs={"y": "difference"})
    assert (inputs, outputs) == (["a", "right"], ["difference"])


def test_two_may_exchange_their_names():
    assert renamed(inputs={"a": "b", "b": "a"})[0] == ["b", "a"]


def test_an_inner_value_makes_way():
    _, outputs, model = renamed(outputs={"y": "t"})
    assert outputs == ["t"]
    assert model.graph[0].outputs[0].name == "t_1"


def test_a_value_of_a_subgraph_makes_way():
    text = """(bool c, float[3] x) => (float[3] y) { y = If(c) <
        then_branch = t () => (float[3] p) { p = Exp(x) },
        else_branch = e () => (float[3] q) { q = Neg(x) }> }"""
    assert renamed(text, inputs={"x": "p"})[0] == ["c", "p"]


def test_quantization_annotations_follow():
    model = parse(MODEL)
    model.graph[0].outputs[0].meta["quant_parameter_tensor_names"] = {"SCALE_TENSOR": "b"}
    RenameIo(inputs={"b": "scale"})(model)
    noted = model.graph[0].outputs[0].meta["quant_parameter_tensor_names"]
    assert noted == {"SCALE_TENSOR": "scale"}


@each_of(
    "options, told",
    ({"inputs": {"aa": "x"}}, "no input 'aa'"),
    ({"outputs": {"a": "x"}}, "its outputs are: y"),
    ({"inputs": {"a": "y"}}, "named 'y' already"),
    ({"inputs": {"a": "q", "b": "q"}}, "cannot name two"),
    ({"inputs": {"a": ""}}, "nor be empty"),
)
def test_refuses(options, told):
    with pytest.raises(PassError, match=told):
        RenameIo(**options)(parse(MODEL))


def test_leaves_alone(leaves_alone):
    leaves_alone(MODEL)
    leaves_alone(RenameIo(inputs={"a": "a"}), MODEL)
