import numpy as np

from onnx_passes.passes.fusion.fuse_pad import FusePad
from tests.tables import each_of, each_row, inferred, pass_cases

PADS = "int64[8] p = {0, 0, 1, 2, 0, 0, 0, 1}"
HEAD = "(float[1,2,5,6] x, float[3,2,3,3] w) => (float[?,?,?,?] y)"


def graph(body, *constants, head=HEAD):
    return f"{head} <{', '.join(constants)}> {{ {body} }}"


LOWEST = "float n = {-inf}"


@each_row("""inner
- r = Relu(x)
- r = Sigmoid(x)
- r = Clip(x, zero, six)
- r = Max(x, zero)
- s = Relu(x) r = Concat<axis = 1>(s, s)
- s = Relu(x) r = MaxPool<kernel_shape = [2, 2], pads = [1, 0, 0, 1]>(s)
""")
def test_max_pools_what_is_not_minus_infinity(inner):
    body = f"{inner} t = Pad(r, p, n) y = MaxPool<kernel_shape = [3, 3]>(t)"
    found = fused(body, PADS, LOWEST, "float zero = {0}", "float six = {6}")
    assert "Pad" not in [node.op_type for node in found.graph]


@each_of(
    "inner",
    "r = Conv(x, w)",
    "r = LeakyRelu(x)",
    "r = Min(x, six)",
    "s = Relu(x) r = Log(s)",
    "s = Relu(x) r = Add(s, x)",
    "s = Relu(x) r = Pad(s, p, n)",
    """c = Less(six, six)
        r = If(c) <then_branch = g () => (float[1,2,5,6] u) { u = Relu(x) },
                   else_branch = h () => (float[1,2,5,6] v) { v = Identity(x) }>""",
)
def test_minus_infinity_is_kept(inner):
    body = f"{inner} t = Pad(r, p, n) y = MaxPool<kernel_shape = [3, 3]>(t)"
    found = fused(body, PADS, LOWEST, "float six = {6}")
    assert [node.op_type for node in found.graph][-2:] == ["Pad", "MaxPool"]


test_cases = pass_cases("""
conv: =graph('t = Pad(x, p) y = Conv(t, w)', *[PADS]) | =graph('y = Conv<pads = [1, 2, 0,
  1]>(x, w)')
conv-that-pads: =graph('t = Pad(x, p, z) y = Conv<pads = [1, 0, 0, 0], strides = [2, 1]>(t,
  w)', *[PADS, 'float z = {0}']) | =graph('y = Conv<pads = [2, 2, 0, 1], strides = [2, 1]>(x,
  w)')
conv-valid: =graph('t = Pad(x, p) y = Conv<auto_pad = "VALID">(t, w)', *[PADS]) | =graph('y =
  Conv<pads = [1, 2, 0, 1]>(x, w)')
axes: =graph('t = Pad(x, p, z, a) y = Conv(t, w)', *['int64[2] p = {1, 2}', 'float z = {0}',
  'int64[1] a = {-1}']) | =graph('y = Conv<pads = [0, 1, 0, 2]>(x, w)')
average: =graph('t = Pad(x, p) y = AveragePool<kernel_shape = [3, 3]>(t)', *[PADS]) | =graph('y
  = AveragePool<kernel_shape = [3, 3], pads = [1, 2, 0, 1], count_include_pad = 1>(x)')
max: (float[1,2,5,6] x, float[3,2,3,3] w) => (float[?,?,?,?] y) <int64[8] p = {0, 0, 1, 2, 0,
  0, 0, 1}, float[1,2,5,6] r> { n = Constant<value = float {-inf}>() r = Relu(x) t = Pad(r, p,
  n) y = MaxPool<kernel_shape = [3, 3]>(t) } | =graph('r = Relu(x) y = MaxPool<kernel_shape =
  [3, 3], pads = [1, 2, 0, 1]>(r)')
amounts are attributes before opset 11: =graph('t = Pad<pads = [0, 0, 1, 1, 0, 0, 1, 1]>(x) y =
  Conv(t, w)', head='<ir_version: 7, opset_import: ["" : 9]> g ' + HEAD) | =graph('y =
  Conv<pads = [1, 1, 1, 1]>(x, w)', head='<ir_version: 7, opset_import: ["" : 9]> g ' + HEAD)
negative: =graph('t = Pad(x, p) y = Conv(t, w)', *['int64[8] p = {0, 0, -1, 0, 0, 0, 0, 0}'])
max-with-zero: =graph('t = Pad(x, p) u = MaxPool<kernel_shape = [1, 1]>(t) y = Conv(u, w)',
  *[PADS])
number: =graph('t = Pad(x, p, z) y = Conv(t, w)', *[PADS, 'float z = {1}'])
mode: =graph('t = Pad<mode = "edge">(x, p) y = Conv(t, w)', *[PADS])
same: =graph('t = Pad(x, p) y = Conv<auto_pad = "SAME_UPPER">(t, w)', *[PADS])
window: =graph('t = Pad(x, p) y = AveragePool<kernel_shape = [2, 2]>(t)', *[PADS])
ceil: =graph('t = Pad(x, p) y = AveragePool<kernel_shape = [3, 3], ceil_mode = 1>(t)', *[PADS])
not-counted: =graph('t = Pad(x, p) y = AveragePool<kernel_shape = [4, 4], pads = [1, 1, 1,
  1]>(t)', *[PADS])
read: =graph('t = Pad(x, p) u = Conv(t, w) v = Conv(t, w) y = Add(u, v)', *[PADS])
integers have no infinity: =graph('t = Pad(x, p) y = MaxPool<kernel_shape = [3, 3]>(t)', PADS,
  head='(uint8[1,2,5,6] x) => (uint8[?,?,?,?] y)') | =graph('y = MaxPool<kernel_shape = [3, 3],
  pads = [1, 2, 0, 1]>(x)', head='(uint8[1,2,5,6] x) => (uint8[?,?,?,?] y)')
""")


def fused(body, *constants):
    return FusePad()(inferred(graph(body, *constants))).model


@each_of("pads", "{0, 1, 0, 0, 0, 0, 0, 0}", "{1, 0, 0, 0, 0, 0, 0, 0}")
def test_leaves_batch_and_channels_alone(pads, leaves_alone):
    head = "(float[1,1,5,6] x, float[3,2,3,3] w) => (float[?,?,?,?] y)"
    if pads.startswith("{1"):
        head = head.replace("1,1,5", "1,2,5")
    leaves_alone(graph("t = Pad(x, p) y = Conv(t, w)", f"int64[8] p = {pads}", head=head))


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
