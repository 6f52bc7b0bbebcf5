"""What rounding alone does to a model that rounds to steps."""

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.verify.sensitivity import makes_any_steps, move_weights

HEAD = '<ir_version: 10, opset_import: ["" : 20, "qonnx.custom_op.general" : 1]> g '


@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        ("Round", True),
        ("ArgMax", True),
        ("Neg", False),
        ("Cast <to = 10>", False),  # whose type was not inferred
        ("Cast <to = 7>", True),
        ("qonnx.custom_op.general.Quant", True),
    ],
)
def test_which_models_make_steps(operator, expected):
    text = f"(float[2] x) => (float[2] y) {{ y = {operator} (x) }}"
    assert makes_any_steps(ir.from_onnx_text(HEAD + text)) is expected


def test_weights_move_by_one_unit_in_the_last_place():
    text = """(float[4] x) => (float[4] y) <float[4] w = {1, -2, 0, 3}, int64[1] k = {4}> {
        a = Mul(x, w) y = Reshape(a, k) }"""
    model = ir.from_onnx_text(HEAD + text)
    moved = move_weights(model, 0)
    old, new = (m.graph.initializers["w"].const_value.numpy() for m in (model, moved))
    assert list(old) == [1, -2, 0, 3]
    assert (new[[0, 1, 3]] != old[[0, 1, 3]]).all()
    assert new[2] == 0
    np.testing.assert_allclose(new, old, 3e-7)
    assert moved.graph.initializers["k"].const_value.numpy() == [4]
    other = move_weights(model, 1).graph.initializers["w"].const_value.numpy()
    assert (other != new).any()


@pytest.mark.parametrize(
    ("dtype", "half"), [("float16", 14336), ("bfloat16", 16128), ("double", 0.5)]
)
def test_scales_of_other_floats_move_as_well(dtype, half):
    text = f"({dtype}[2] x) => ({dtype}[2] y) <{dtype} w = {{{half}}}> {{ y = Mul(x, w) }}"
    model = ir.from_onnx_text(HEAD + text)
    tensor = move_weights(model, 0).graph.initializers["w"].const_value
    assert tensor.dtype == model.graph.initializers["w"].const_value.dtype
    assert tensor.numpy() != np.asarray(0.5, tensor.dtype.numpy())


def test_the_scales_of_a_resize_stay_where_they_are():
    text = """(float[1,1,2,2] x) => (float[1,1,4,4] y) <float[4] s = {1, 1, 2, 2}> {
        y = Resize(x, , s) }"""
    model = ir.from_onnx_text(HEAD + text)
    moved = move_weights(model, 0)
    assert list(moved.graph.initializers["s"].const_value.numpy()) == [1, 1, 2, 2]
