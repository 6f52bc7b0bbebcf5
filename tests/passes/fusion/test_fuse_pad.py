import numpy as np
import pytest

from onnx_passes.passes.annotation.shape_inference import infer_shapes
from onnx_passes.passes.fusion.fuse_pad import FusePad
from onnx_passes.testing import parse
from tests.tables import cases

PADS = "int64[8] p = {0, 0, 1, 2, 0, 0, 0, 1}"
HEAD = "(float[1,2,5,6] x, float[3,2,3,3] w) => (float[?,?,?,?] y)"


def graph(body, *constants, head=HEAD):
    return f"{head} <{', '.join(constants)}> {{ {body} }}"


@pytest.mark.parametrize(
    ("before", "constants", "after"),
    cases("""
conv: t = Pad(x, p) y = Conv(t, w) | =[PADS] | y = Conv<pads = [1, 2, 0, 1]>(x, w)
conv-that-pads: t = Pad(x, p, z) y = Conv<pads = [1, 0, 0, 0], strides = [2, 1]>(t, w) |
  =[PADS, 'float z = {0}'] | y = Conv<pads = [2, 2, 0, 1], strides = [2, 1]>(x, w)
conv-valid: t = Pad(x, p) y = Conv<auto_pad = "VALID">(t, w) | =[PADS] | y = Conv<pads = [1, 2,
  0, 1]>(x, w)
axes: t = Pad(x, p, z, a) y = Conv(t, w) | =['int64[2] p = {1, 2}', 'float z = {0}', 'int64[1]
  a = {-1}'] | y = Conv<pads = [0, 1, 0, 2]>(x, w)
average: t = Pad(x, p) y = AveragePool<kernel_shape = [3, 3]>(t) | =[PADS] | y =
  AveragePool<kernel_shape = [3, 3], pads = [1, 2, 0, 1], count_include_pad = 1>(x)
max: n = Constant<value = float {-inf}>() r = Relu(x) t = Pad(r, p, n) y = MaxPool<kernel_shape
  = [3, 3]>(t) | =[PADS, 'float[1,2,5,6] r'] | r = Relu(x) y = MaxPool<kernel_shape = [3, 3],
  pads = [1, 2, 0, 1]>(r)
"""),
)
def test_fires(before, constants, after, rewrites):
    rewrites(graph(before, *constants), graph(after))


def test_amounts_are_attributes_before_opset_11(rewrites):
    head = '<ir_version: 7, opset_import: ["" : 9]> g ' + HEAD
    rewrites(
        graph("t = Pad<pads = [0, 0, 1, 1, 0, 0, 1, 1]>(x) y = Conv(t, w)", head=head),
        graph("y = Conv<pads = [1, 1, 1, 1]>(x, w)", head=head),
    )


@pytest.mark.parametrize(
    ("body", "constants"),
    cases("""
negative: t = Pad(x, p) y = Conv(t, w) | =['int64[8] p = {0, 0, -1, 0, 0, 0, 0, 0}']
max-with-zero: t = Pad(x, p) u = MaxPool<kernel_shape = [1, 1]>(t) y = Conv(u, w) | =[PADS]
number: t = Pad(x, p, z) y = Conv(t, w) | =[PADS, 'float z = {1}']
mode: t = Pad<mode = "edge">(x, p) y = Conv(t, w) | =[PADS]
same: t = Pad(x, p) y = Conv<auto_pad = "SAME_UPPER">(t, w) | =[PADS]
window: t = Pad(x, p) y = AveragePool<kernel_shape = [2, 2]>(t) | =[PADS]
ceil: t = Pad(x, p) y = AveragePool<kernel_shape = [3, 3], ceil_mode = 1>(t) | =[PADS]
not-counted: t = Pad(x, p) y = AveragePool<kernel_shape = [4, 4], pads = [1, 1, 1, 1]>(t)
  | =[PADS]
read: t = Pad(x, p) u = Conv(t, w) v = Conv(t, w) y = Add(u, v) | =[PADS]
"""),
)
def test_leaves_alone(body, constants, leaves_alone):
    leaves_alone(graph(body, *constants))


LOWEST = "float n = {-inf}"


@pytest.mark.parametrize(
    "inner",
    [
        "r = Relu(x)",
        "r = Sigmoid(x)",
        "r = Clip(x, zero, six)",
        "r = Max(x, zero)",
        "s = Relu(x) r = Concat<axis = 1>(s, s)",
        "s = Relu(x) r = MaxPool<kernel_shape = [2, 2], pads = [1, 0, 0, 1]>(s)",
    ],
)
def test_max_pools_what_is_not_minus_infinity(inner):
    body = f"{inner} t = Pad(r, p, n) y = MaxPool<kernel_shape = [3, 3]>(t)"
    found = fused(body, PADS, LOWEST, "float zero = {0}", "float six = {6}")
    assert "Pad" not in [node.op_type for node in found.graph]


@pytest.mark.parametrize(
    "inner",
    [
        "r = Conv(x, w)",
        "r = LeakyRelu(x)",
        "r = Min(x, six)",
        "s = Relu(x) r = Log(s)",
        "s = Relu(x) r = Add(s, x)",
        "s = Relu(x) r = Pad(s, p, n)",
        """c = Less(six, six)
        r = If(c) <then_branch = g () => (float[1,2,5,6] u) { u = Relu(x) },
                   else_branch = h () => (float[1,2,5,6] v) { v = Identity(x) }>""",
    ],
)
def test_minus_infinity_is_kept(inner):
    body = f"{inner} t = Pad(r, p, n) y = MaxPool<kernel_shape = [3, 3]>(t)"
    found = fused(body, PADS, LOWEST, "float six = {6}")
    assert [node.op_type for node in found.graph][-2:] == ["Pad", "MaxPool"]


def test_integers_have_no_infinity(rewrites):
    head = "(uint8[1,2,5,6] x) => (uint8[?,?,?,?] y)"
    body = "t = Pad(x, p) y = MaxPool<kernel_shape = [3, 3]>(t)"
    after = "y = MaxPool<kernel_shape = [3, 3], pads = [1, 2, 0, 1]>(x)"
    rewrites(graph(body, PADS, head=head), graph(after, head=head))


def fused(body, *constants):
    model = parse(graph(body, *constants))
    infer_shapes(model)
    return FusePad()(model).model


@pytest.mark.parametrize("pads", ["{0, 1, 0, 0, 0, 0, 0, 0}", "{1, 0, 0, 0, 0, 0, 0, 0}"])
def test_leaves_batch_and_channels_alone(pads, leaves_alone):
    head = "(float[1,1,5,6] x, float[3,2,3,3] w) => (float[?,?,?,?] y)"
    if pads.startswith("{1"):
        head = head.replace("1,1,5", "1,2,5")
    text = graph("t = Pad(x, p) y = Conv(t, w)", f"int64[8] p = {pads}", head=head)
    leaves_alone(text)


def test_a_conv_may_pad_dynamic_and_empty_tensors(rewrites):
    head = "(float[N,2,H,W] x, float[3,2,3,3] w) => (float[?,?,?,?] y)"
    feeds = [
        {"x": np.ones((1, 2, size, size), np.float32), "w": np.ones((3, 2, 3, 3), np.float32)}
        for size in (0, 1, 4)
    ]
    pads = "int64[8] p = {0, 0, 2, 2, 0, 0, 2, 2}"
    before = graph("t = Pad(x, p) y = Conv(t, w)", pads, head=head)
    after = graph("y = Conv<pads = [2, 2, 2, 2]>(x, w)", head=head)
    rewrites(before, after, feeds=feeds)
