"""What rounding alone does to a model that rounds to steps."""

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.verify.node_equality import constant_tensor
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


def moves(text, place=lambda model: model.graph.initializers["w"].const_value):
    """Return what a weight is in a few moved models, less what it was."""
    model = ir.from_onnx_text(HEAD + text)
    old = np.asarray(place(model).numpy(), np.float64)
    found = [place(move_weights(model, seed)).numpy() for seed in range(8)]
    return np.stack([np.asarray(new, np.float64) - old for new in found])


def test_weights_stay_or_move_by_one_unit_in_the_last_place():
    text = """(float[4] x) => (float[4] y)
        <float[4] w = {1.25, -2.5, 0, 3}, int64[1] k = {4}> {
        a = Mul(x, w) y = Reshape(a, k) }"""
    found = moves(text)
    assert not found[:, 2].any()
    for column, size in ((0, 2**-23), (1, 2**-22), (3, 2**-22)):
        assert {-1, 0, 1} >= {round(m / size) for m in found[:, column]} != {0}
    assert len({tuple(row) for row in found}) > 4
    assert not moves(text, lambda m: m.graph.initializers["k"].const_value).any()


@pytest.mark.parametrize(
    ("dtype", "half"), [("float16", 14336), ("bfloat16", 16128), ("double", 0.5)]
)
def test_scales_of_other_floats_move_as_well(dtype, half):
    text = f"({dtype}[2] x) => ({dtype}[2] y) <{dtype} w = {{{half}}}> {{ y = Mul(x, w) }}"
    found = moves(text)
    assert found.any()
    assert (np.abs(found) < 0.01).all()


def test_constants_move_in_bodies_and_functions_too():
    text = """(float[2] x, bool c) => (float[2] y) { y = If(c) <
        then_branch = t () => (float[2] o) {
            w = Constant<value = float {0.5}>() o = Mul(x, w) },
        else_branch = e () => (float[2] p) {
            v = Constant<value_floats = [0.5, 0.25]>() p = Mul(x, v) }> }"""
    for name in ("then_branch", "else_branch"):
        assert moves(
            text,
            lambda m, name=name: constant_tensor(
                m.graph[-1].attributes[name].as_graph()[0].outputs[0]
            ),
        ).any()


@pytest.mark.parametrize(
    "nodes",
    [
        "c = Less(x, w) y = Cast<to = 1>(c)",
        "a = Mul(x, w) b = Cast<to = 7>(a) y = Cast<to = 1>(b)",
        "a = Add(x, w) i = ArgMax<keepdims = 1>(a) y = Cast<to = 1>(i)",
        "z = Constant<value = float {0.0}>() o = Constant<value = float {1.0}>()"
        " r = Range(z, w, o) s = Shape(r) f = Cast<to = 1>(s) y = Mul(x, f)",
    ],
)
def test_what_decides_only_sizes_indices_and_comparisons_stays(nodes):
    assert not moves(f"(float[1] x) => (float[1] y) <float w = {{0.3}}> {{ {nodes} }}").any()


def test_the_scales_of_a_resize_stay_where_they_are():
    text = """(float[1,1,2,2] x) => (float[1,1,4,4] y) <float[4] s = {1, 1, 2, 2}> {
        y = Resize(x, , s) }"""
    model = ir.from_onnx_text(HEAD + text)
    moved = move_weights(model, 0)
    assert list(moved.graph.initializers["s"].const_value.numpy()) == [1, 1, 2, 2]
