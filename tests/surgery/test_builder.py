"""Models written by hand are checked line by line."""

import re
from typing import ClassVar

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest

from onnx_passes.errors import ModelError, UsageError
from onnx_passes.surgery import Builder
from onnx_passes.testing import parse
from tests.tables import each_of, each_row


@pytest.fixture
def b():
    return Builder(opset=20)


@pytest.fixture
def x(b):
    return b.input("x", np.float32, ("N", 4))


@each_row("""write | error | says | helps
- =lambda b, x: b.op.Rleu(x) | =UsageError | no operator 'Rleu' | did you mean 'Relu'?
- =lambda b, x: b.op.Swish(x) | =UsageError | not exist yet in opset | since opset 24
- =lambda b, x: b.op.Scatter(x, x, x) | =UsageError | is gone from opset 20 | opset 11
- =lambda b, x: b.op.Elu(x, alhpa=1) | =UsageError | no attribute 'alhpa' | 'alpha'?
- =lambda b, x: b.op.Add(x) | =UsageError | Add takes 2 inputs, not 1 | they are A, B
- =lambda b, x: b.op.Split(x, axis=1) | =UsageError | as many outputs | outputs=2
- =lambda b, x: b.op.Add(x, np.ones(3, np.float32)) | =ModelError | cannot take | [N,4]
- =lambda b, x: b.op.Relu('x') | =ModelError | cannot take | constant_0 is STRING[]
- =lambda b, x: b.input('x') | =UsageError | the name 'x' is taken | another
- =lambda b, x: b.input('z', 'flaot') | =UsageError | is not an element type | 'float'?
- =lambda b, x: Builder(opset=99) | =UsageError | there is no opset 99 | newest
""")
def test_what_is_wrong_is_told_where_it_is_written(b, x, write, error, says, helps):
    with pytest.raises(error, match=re.escape(says)) as caught:
        write(b, x)
    assert helps in caught.value.help


def test_a_node_that_is_refused_leaves_nothing_behind(b, x):
    with pytest.raises(ModelError):
        b.op.Add(x, np.ones(3, np.float32))
    assert not b.graph.initializers
    assert not len(b.graph)
    assert not x.uses()


def test_numbers_get_the_type_of_the_value_beside_them(b):
    half, whole = b.input("h", np.float16, (2,)), b.input("i", np.int32, (2,))
    assert b.op.Mul(half, 2).dtype == ir.DataType.FLOAT16
    assert b.op.Mul(3, whole).dtype == ir.DataType.INT32
    assert b.op.Where(True, half, 0.5).dtype == ir.DataType.FLOAT16


@each_of("text", ["a", "ü"], np.array(["a", "ü"]), np.array(["a", "ü"], object))
def test_a_constant_may_be_text(b, text):
    x = b.input("x", ir.DataType.STRING, (2,))
    b.output(b.op.StringConcat(x, text), "y")
    session = ort.InferenceSession(ir.to_proto(b.model).SerializeToString())
    (joined,) = session.run(None, {"x": np.array(["1", "2"], object)})
    assert joined.tolist() == ["1a", "2ü"]


def test_an_input_that_is_an_output_keeps_both_names(b, x):
    b.output(x, "y")
    assert [v.name for v in (*b.graph.inputs, *b.graph.outputs)] == ["x", "y"]


def test_layers_are_registered_once_and_suggested():
    class Own(Builder):
        _layers: ClassVar = {}

    @Own.register("twice")
    def twice(b, x, by=2.0):
        return b.op.Mul(x, by)

    own = Own()
    assert own.twice(own.input("x", np.float32, (3,))).shape == (3,)
    with pytest.raises(AttributeError, match="did you mean 'twice'"):
        own.twicee()
    for name in ("input", "op", "two words"):
        with pytest.raises(UsageError, match="cannot be the name of a layer"):
            Own.register(name)(twice)


def test_a_loop_stacks_what_its_body_gives(b, x):
    total, rows = b.op.Loop(
        np.array(3),
        True,
        x,
        body=b.subgraph(
            lambda b, i, go, sum_: (b.op.Identity(go), b.op.Add(sum_, x), b.op.Abs(sum_)),
            ("i", np.int64, ()),
            ("go", np.bool_, ()),
            ("sum", np.float32, ("N", 4)),
        ),
    )
    b.output(total, "total", np.float32, ("N", 4))
    b.output(rows, "rows", np.float32, (3, "N", 4))
    onnx.checker.check_model(ir.to_proto(b.model), full_check=True)


def test_going_on_with_a_model_takes_no_name_twice():
    model = parse("""(float[2] x) => (float[2] relu_out_0) { relu_out_0 = Relu(x) }""")
    assert Builder(model).op.Relu(model.graph.outputs[0]).name == "relu_out_1"
