"""Edits keep what callers see, and reach what was meant and nothing else."""

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes import surgery
from onnx_passes.errors import UsageError
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.testing import parse
from tests.tables import each_of, outputs_of

X = np.float32([1, -2])


@pytest.fixture
def model():
    return parse("""(float[2] x) => (float[2] y, float[2] z) <float[2] w = {3, 4}>
        { a = Neg(x) y = Mul(a, w) z = Exp(a) }""")


def values(model):
    return {v.name: v for node in model.graph for v in node.outputs} | dict(
        model.graph.initializers
    )


def run(model, **more):
    return outputs_of(OnnxRuntimeEngine(), model, {"x": X, **more})


def test_steps_from_node_to_node(model):
    neg, mul, exp = model.graph
    assert surgery.producer(mul) is neg
    assert surgery.producer(mul, 1) is None
    assert [surgery.consumer(neg, n) for n in range(3)] == [mul, exp, None]
    with pytest.raises(UsageError, match="has 1 inputs"):
        surgery.producer(neg, 1)


def test_after_a_value_all_readers_read_the_new_one(model):
    surgery.insert_after(model, values(model)["a"], lambda b, a: b.op.Mul(a, 10.0))
    found = run(model)
    np.testing.assert_allclose(found["y"], -10 * X * [3, 4])
    np.testing.assert_allclose(found["z"], np.exp(-10 * X), rtol=1e-6)


def test_behind_an_output_it_keeps_its_name(model):
    surgery.insert_after(model, model.graph.outputs[0], lambda b, y: b.op.Neg(y))
    np.testing.assert_allclose(run(model)["y"], X * [3, 4])


def test_replacing_an_output_keeps_its_name_and_type(model):
    y = values(model)["y"]
    surgery.replace(model, y, lambda b: b.op.Abs(y.producer().inputs[0]))
    np.testing.assert_array_equal(run(model)["y"], np.abs(X))
    assert [str(v.shape) for v in model.graph.outputs] == ["[2]", "[2]"]


def test_constants_and_inputs_change_places(model):
    surgery.to_variable(model, values(model)["w"])
    np.testing.assert_allclose(run(model, w=np.float32([1, 1]))["y"], -X)
    surgery.to_constant(model, model.graph.inputs[-1], [2, 2])
    np.testing.assert_allclose(run(model)["y"], -2 * X)
    surgery.to_constant(model, values(model)["a"], [5.0, 6.0])
    np.testing.assert_allclose(run(model)["y"], [10, 12])


def test_a_computed_value_becomes_an_input(model):
    a = values(model)["a"]
    a.type, a.shape = ir.TensorType(ir.DataType.FLOAT), ir.Shape([2])
    surgery.to_variable(model, a)
    np.testing.assert_allclose(run(model, a=X)["y"], X * [3, 4])


def test_what_callers_see_is_not_taken_away(model):
    y = model.graph.outputs[0]
    for edit in (
        lambda: surgery.to_variable(model, y),
        lambda: surgery.to_constant(model, y, [1, 2]),
    ):
        with pytest.raises(UsageError, match="is an output of the graph"):
            edit()
    with pytest.raises(UsageError, match="no node computes 'x'"):
        surgery.replace(model, model.graph.inputs[0], lambda b: b.constant(X))


@each_of("change", lambda m, v: surgery.to_constant(m, v, 1.0), surgery.to_variable)
def test_a_value_of_no_graph_is_refused(model, change):
    stray = ir.val("stray", dtype=ir.DataType.FLOAT, shape=[])
    with pytest.raises(UsageError, match="'stray' is in no graph"):
        change(model, stray)
