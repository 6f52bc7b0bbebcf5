"""Two of each four weights that are summed are zero: the smaller ones."""

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from onnx_passes.runtime.inputs import generate
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.surgery import copy, load, prune
from tests.tables import cases

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "model.onnx"
HEAD = '<ir_version: 10, opset_import: ["": 20]> main '


def of_text(text, **weights):
    """Return a model with inputs of some names made initializers."""
    model = ir.from_onnx_text(HEAD + text)
    for name, array in weights.items():
        (value,) = [v for v in model.graph.inputs if v.name == name]
        model.graph.inputs.remove(value)
        value.const_value = ir.tensor(array, name=name)
        model.graph.register_initializer(value)
    return model


def weight(model, name="w"):
    return model.graph.initializers[name].const_value.numpy()


def in_pattern(array, axis):
    groups = np.moveaxis(array, axis, -1).reshape(-1, 4)
    return (np.count_nonzero(groups, axis=1) <= 2).all()


def drawn(*shape):
    return np.random.default_rng(0).standard_normal(shape, np.float32)


@pytest.mark.parametrize(
    ("text", "shape", "axis"),
    cases("""
1: (float[2,8] x, float[8,3] w) => (float[2,3] y) { y = MatMul(x, w) } | =(8, 3) | =0
2: (float[8,2] x, float[3,8] w) => (float[3,2] y) { y = MatMul(w, x) } | =(3, 8) | =1
3: (float[2,8] x, float[8] w) => (float[2] y) { y = MatMul(x, w) } | =(8,) | =0
4: (float[5,2,8] x, float[5,8,3] w) => (float[5,2,3] y) { y = MatMul(x, w) } | =(5, 8, 3) | =1
5: (float[2,8] x, float[8,3] w) => (float[2,3] y) { y = Gemm(x, w) } | =(8, 3) | =0
6: (float[2,8] x, float[3,8] w) => (float[2,3] y) { y = Gemm<transB = 1>(x, w) } | =(3, 8) | =1
7: (float[8,2] x, float[8,3] w) => (float[3,2] y) { y = Gemm<transA = 1>(w, x) } | =(8, 3) | =0
8: (float[1,8,5,5] x, float[6,8,3,3] w) => (float[1,6,3,3] y) { y = Conv(x, w) } | =(6, 8, 3,
  3) | =1
9: (float[1,8,5,5] x, float[6,4,3,3] w) => (float[1,6,3,3] y) { y = Conv<group = 2>(x, w) } |
  =(6, 4, 3, 3) | =1
10: (float[2,8] x, float[3,8] w) => (float[2,3] y) { t = Transpose<perm = [1, 0]>(w) y =
  MatMul(x, t) } | =(3, 8) | =1
"""),
)
def test_the_axis_that_is_summed_over_is_pruned(text, shape, axis):
    before = drawn(*shape)
    model = of_text(text, w=before)
    found = prune(model)
    after = weight(model)
    assert found.weights == {"w": before.size // 2}
    assert not found.left
    groups = np.moveaxis(before, axis, -1).reshape(-1, 4)
    kept = np.moveaxis(after, axis, -1).reshape(-1, 4)
    for old, new in zip(groups, kept, strict=True):
        largest = set(np.argsort(np.abs(old))[2:])
        assert {i for i in range(4) if new[i]} == largest
        assert all(new[i] == old[i] for i in largest)
    onnx.checker.check_model(ir.to_proto(model), full_check=True)


@pytest.mark.parametrize(
    ("text", "array", "reason"),
    [
        (
            "(float[2,3] x, float[3,4] w) => (float[2,4] y) { y = MatMul(x, w) }",
            drawn(3, 4),
            "3 along axis 0 is not a multiple of 4",
        ),
        (
            "(float[2,8] x, float[8,8] w) => (float[2,8] y, float[8,8] z) "
            "{ y = MatMul(x, w) z = Neg(w) }",
            drawn(8, 8),
            "something else reads it as well",
        ),
        (
            "(float[2,8] x, float[8,8] w) => (float[2,8] y, float[8,8] t) "
            "{ t = Transpose<perm = [1, 0]>(w) y = MatMul(x, t) }",
            drawn(8, 8),
            "something else reads it as well",
        ),
        (
            "(float[8,8] x, float[8,8] w) => (float[8,8] y, float[8,8] z) "
            "{ y = MatMul(x, w) z = MatMul(w, x) }",
            drawn(8, 8),
            "products are summed along several of its axes",
        ),
    ],
)
def test_what_cannot_be_pruned_is_left_and_told(text, array, reason):
    model = of_text(text, w=array)
    assert prune(model).left == {"w": reason}
    np.testing.assert_array_equal(weight(model), array)


def test_a_weight_that_callers_may_override_is_left():
    model = of_text(
        "(float[2,8] x, float[8,3] w) => (float[2,3] y) { y = MatMul(x, w) }", w=drawn(8, 3)
    )
    model.graph.inputs.append(model.graph.initializers["w"])
    assert prune(model).left == {"w": "callers may override it"}


def test_two_products_of_one_kind_share_what_is_pruned():
    model = of_text(
        "(float[2,8] x, float[8,8] w) => (float[2,8] y) { a = MatMul(x, w) y = MatMul(a, w) }",
        w=drawn(8, 8),
    )
    assert prune(model).weights == {"w": 32}


@pytest.mark.parametrize(("zero", "pruned"), [(0, True), (3, False)])
def test_quantized_weights_are_pruned_where_zero_is_zero(zero, pruned):
    text = """(float[2,8] x, int8[8,3] w, float[3] s, int8[3] z) => (float[2,3] y)
        { d = DequantizeLinear<axis = 1>(w, s, z) y = MatMul(x, d) }"""
    model = of_text(
        text,
        w=np.arange(-12, 12, dtype=np.int8).reshape(8, 3),
        s=np.ones(3, np.float32),
        z=np.full(3, zero, np.int8),
    )
    assert bool(prune(model).weights) is pruned
    assert in_pattern(weight(model), 0) is np.bool_(pruned)


def test_half_precision_is_pruned_before_its_cast():
    text = """(float[1,4] x, float16[4,1] w) => (float[1,1] y)
        { c = Cast<to = 1>(w) y = MatMul(x, c) }"""
    model = of_text(text, w=np.array([[1], [-3], [2], [0.5]], np.float16))
    prune(model)
    assert weight(model).dtype == np.float16
    assert weight(model).tolist() == [[0], [-3], [2], [0]]


def test_the_constant_of_a_node_is_pruned():
    text = """(float[1,4] x) => (float[1,1] y) {
        w = Constant<value = float[1,4] {1.0, -3.0, 2.0, 0.5}>()
        t = Transpose<perm = [1, 0]>(w) y = MatMul(x, t) }"""
    model = ir.from_onnx_text(HEAD + text)
    assert prune(model).weights == {"w": 2}
    with OnnxRuntimeEngine().prepare(model) as session:
        assert session.run({"x": np.ones((1, 4), np.float32)})["y"].tolist() == [[-1]]


def test_the_tensors_of_a_copy_stay_as_they_are():
    model = load(DIGITS)
    kept = copy(model)
    found = prune(model)
    assert found.weights
    with OnnxRuntimeEngine().prepare(model) as session:
        assert session.run(generate(model)[0])
    for name in found.weights:
        assert (kept.graph.initializers[name].const_value.numpy() != weight(model, name)).any()
    assert not sum(prune(model).weights.values())
