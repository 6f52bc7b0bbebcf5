import numpy as np
import onnx
import onnx_ir as ir
import pytest

from onnx_passes.errors import OptionError, PassError
from onnx_passes.passes.convert.convert_io_types import ConvertIoTypes
from onnx_passes.testing import assert_verified, parse
from onnx_passes.verify.snapshot import Snapshot
from tests.tables import each_row

MODEL = """(float[N,3] x, int64[N,3] i) => (float[N,3] y, bool[N,3] b)
{ t = Cast <to = 1> (i) y = Add(x, t) b = Greater(y, x) }"""


def converted(text=MODEL, **options):
    model = parse(text)
    before, pass_ = Snapshot(model), ConvertIoTypes(**options)
    assert pass_(model).modified
    assert_verified(pass_, before, model)
    onnx.checker.check_model(ir.to_proto(model), full_check=True)
    assert not pass_(model).modified
    return model


def types(model):
    return {v.name: v.dtype.name.lower() for v in (*model.graph.inputs, *model.graph.outputs)}


def test_inputs_and_outputs_by_name():
    model = converted(inputs={"x": "float16", "i": "int32"}, outputs={"y": "float64"})
    assert types(model) == {"x": "float16", "i": "int32", "y": "double", "b": "bool"}
    assert [str(d) for d in model.graph.outputs[0].shape] == ["N", "3"]
    assert [n.op_type for n in model.graph].count("Cast") == 4


def test_all_of_a_type():
    assert types(converted(all={"float32": "float16"})) == {
        "x": "float16",
        "i": "int64",
        "y": "float16",
        "b": "bool",
    }


def test_an_output_that_is_read_inside_stays_what_it_was_there():
    model = converted(outputs={"y": "float16"})
    greater = next(node for node in model.graph if node.op_type == "Greater")
    assert greater.inputs[0].dtype is ir.DataType.FLOAT


def test_a_subgraph_reads_the_cast():
    model = converted(
        """(bool c, float[3] x) => (float[3] y) { y = If(c) <
        then_branch = t () => (float[3] p) { p = Exp(x) },
        else_branch = e () => (float[3] q) { q = Neg(x) }> }""",
        inputs={"x": "float16", "c": "uint8"},
    )
    assert [node.op_type for node in model.graph].count("Cast") == 2


@each_row("""text | options | told
- =MODEL | ={'inputs': {'q': 'float16'}} | no input 'q'
- =MODEL | ={'outputs': {'y': 'uint8'}} | not defined for NaN
- =MODEL | ={'inputs': {'i': 'float32'}} | not defined for NaN
- (float[3] x) => (float[3] x) {} | ={'inputs': {'x': 'float16'}} | at once
- (float[2] x, float[2] w = {1, 2}) => (float[2] y) { y = Add(x, w) } | ={'inputs': {'w':
  'float16'}} | has a default value
- (string[2] x) => (string[2] y) { y = Identity(x) } | ={'inputs': {'x': 'float16'}} | only
  numbers
""")
def test_refuses(text, options, told):
    with pytest.raises(PassError) as caught:
        ConvertIoTypes(**options)(ir.from_onnx_text(_header(text)))
    assert told in str(caught.value)


@each_row("""body
- {}
- { y = Exp(x) }
- { y = If(c) <then_branch = t () => (p) { p = Exp(x) }, else_branch = e () => (q) { q = Neg(x)
  }> }
""")
def test_an_input_that_is_an_output_changes_as_both(body):
    outputs = "float[3] x" if body == "{}" else "float[3] x, float[3] y"
    model = converted(
        f"(bool c, float[3] x) => ({outputs}) {body}",
        inputs={"x": "float16"},
        outputs={"x": "float16"},
    )
    (value,) = (value for value in model.graph.inputs if value.name == "x")
    assert value is model.graph.outputs[0]
    assert value.dtype is ir.DataType.FLOAT16
    assert all(value.dtype is ir.DataType.FLOAT for value in model.graph.outputs[1:])


def _header(text):
    return '<ir_version: 10, opset_import: ["" : 20]> m ' + text


def test_types_are_checked():
    with pytest.raises(OptionError, match="float16"):
        ConvertIoTypes(inputs={"x": "flaot16"})


def test_the_caller_rounds_and_clips_to_integers():
    model = parse(MODEL)
    port = ConvertIoTypes(inputs={"x": "uint8"}).interface_map(model).inputs
    values = np.array([-3, 1.6, 300, np.nan, np.inf], np.float32)
    assert port("x", values)[1].tolist() == [0, 2, 255, 0, 255]
    wide = ConvertIoTypes(inputs={"x": "int64"}).interface_map(model).inputs
    assert wide("x", np.array([1e30], np.float32))[1][0] > 2**62


def test_leaves_alone(leaves_alone):
    leaves_alone(MODEL)
    leaves_alone(ConvertIoTypes(all={"float16": "float32"}), MODEL)
