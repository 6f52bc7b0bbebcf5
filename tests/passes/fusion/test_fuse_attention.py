import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.passes.annotation.shape_inference import ShapeInference
from onnx_passes.testing import parse
from tests.tables import each_of, kinds, pass_cases

INPUTS = "float[B,4,S,8] q, float[B,4,S,8] k, float[B,4,S,6] v"


def model(body, *, inputs=INPUTS, opset=23, more="", dims="B,4,S,6", dtype="float"):
    numbers = {"c": 0.25, "d": 4, "f": 0.5, "far": -10000, "zero": 0}
    known = [f"{dtype} {name} = {{{n}}}" for name, n in numbers.items()]
    known += [more] if more else []
    text = f"""<ir_version: 10, opset_import: ["" : {opset}]>
      g ({inputs}) => ({dtype}[{dims}] y) <{", ".join(known)}> {{ {body} }}"""
    made = parse(text)
    for name in numbers:
        if not made.graph.initializers[name].uses():
            made.graph.initializers.pop(name)
    ShapeInference()(made)
    return made


def scores(scaled):
    return f"""t = Transpose<perm = [0, 1, 3, 2]>(k) s = MatMul(q, t) {scaled}
      p = Softmax<axis = -1>(m) y = MatMul(p, v)"""


@each_of(
    "inputs, condition",
    pytest.param(INPUTS + ", bool[B,1,S,S] b", "b", id="batch"),
    pytest.param(INPUTS + ", bool[S,S] b", "b", id="rows-and-columns"),
    pytest.param(INPUTS + ", bool[4,S,S] b", "b", id="heads"),
)
@each_of("order", "n, w", "w, n")
def test_fires_with_a_mask(inputs, condition, order, rewrites):
    mask = f"w = Where({condition}, zero, far) "
    before = model(mask + scores(f"n = Div(s, d) m = Add({order})"), inputs=inputs)
    rewrites(before, model(mask + "y = Attention<scale = 0.25>(q, k, v, w)", inputs=inputs))


GUARDED = """t = Transpose<perm = [0, 1, 3, 2]>(k) s = MatMul(q, t) n = Div(s, d)
  m = Add(n, w) p = Softmax<axis = -1>(m) i = IsNaN(p) g = Where(i, zero, p)
  y = MatMul(g, v)"""
MASKED = INPUTS + ", bool[B,1,S,S] b"


@each_of("body", GUARDED, scores("n = Div(s, d) m = Add(n, w)"))
def test_a_row_of_the_least_number_still_yields_the_mean(body, rewrites):
    sizes = "float[1,1,2,8] q, float[1,1,2,8] k, float[1,1,2,2] v, bool[1,1,2,2] b"
    least = "float least = {-3.4028235e38}"
    dims = "1,1,2,2"
    before = model("w = Where(b, zero, least) " + body, inputs=sizes, more=least, dims=dims)
    raised = "w = Where(b, zero, least) h = Constant<value = float {-1.7014117e38}>() "
    raised += "x = Max(w, h) y = Attention<scale = 0.25>(q, k, v, x)"
    after = model(raised, inputs=sizes, more=least, dims=dims)
    feeds = {name: np.ones((1, 1, 2, 8), np.float32) for name in "qk"}
    feeds["v"] = np.array([[[[1, 2], [3, 6]]]], np.float32)
    feeds["b"] = np.array([[[[True, False], [False, False]]]])
    rewrites(before, after, feeds=[feeds])


def test_a_mask_of_one_row_is_expanded(rewrites):
    inputs = INPUTS + ", bool[B,1,1,S] b"
    before = model(
        "w = Where(b, zero, far) " + scores("n = Div(s, d) m = Add(n, w)"), inputs=inputs
    )
    after = rewrites(ir.to_onnx_text(before))
    assert kinds(after) == ["Where", "Shape", "Concat", "Expand", "Attention"]


def test_fires_on_keys_that_another_transpose_makes(rewrites):
    inputs = INPUTS.replace("float[B,4,S,8] k", "float[B,S,4,8] k")
    before = """t = Transpose<perm = [0, 2, 3, 1]>(k) s = MatMul(q, t)
      p = Softmax<axis = -1>(s) y = MatMul(p, v)"""
    after = """t = Transpose<perm = [0, 2, 1, 3]>(k) y = Attention<scale = 1.0>(q, t, v)"""
    rewrites(model(before, inputs=inputs), model(after, inputs=inputs))


GROUPED = """a = Unsqueeze(k, two) b = Expand(a, wide) ks = Reshape(b, {k})
  d1 = Unsqueeze(v, two) e = Expand(d1, wide) vs = Reshape(e, heads)
  t = Transpose<perm = [0, 1, 3, 2]>(ks) s = MatMul(q, t) p = Softmax<axis = -1>(s)
  y = MatMul(p, vs)"""
SHAPES = "int64[1] two = {2}, int64[5] wide = {1,1,2,1,1}, int64[4] heads = {0,4,-1,8}"
FEW = "float[3,4,5,8] q, float[3,2,7,8] k, float[3,2,7,8] v"


def test_repeated_heads_are_handed_over_once(rewrites):
    before = model(GROUPED.format(k="heads"), inputs=FEW, more=SHAPES, dims="3,4,5,8")
    after = rewrites(ir.to_onnx_text(before))
    assert [node.op_type for node in after.graph] == ["Attention"]


def test_heads_in_another_order_stay(rewrites):
    body = GROUPED.format(k="heads").replace("Unsqueeze(k, two)", "Unsqueeze(k, one)")
    shapes = SHAPES + ", int64[1] one = {1}"
    body = body.replace("b = Expand(a, wide)", "b = Expand(a, tall)")
    shapes += ", int64[5] tall = {1,2,1,1,1}"
    before = model(body, inputs=FEW, more=shapes, dims="3,4,5,8")
    assert "Expand" in [node.op_type for node in rewrites(ir.to_onnx_text(before)).graph]


PLAIN = scores("m = Div(s, d)")


test_cases = pass_cases("""
quotient: =model(scores('m = Div(s, d)')) | =model('y = Attention<scale = 0.25>(q, k, v)')
product: =model(scores('m = Mul(s, c)')) | =model('y = Attention<scale = 0.25>(q, k, v)')
swapped: =model(scores('m = Mul(c, s)')) | =model('y = Attention<scale = 0.25>(q, k, v)')
none: =model('t = Transpose<perm = [0, 1, 3, 2]>(k) m = MatMul(q, t) p = Softmax(m) y =
  MatMul(p, v)') | =model('y = Attention<scale = 1.0>(q, k, v)')
on-both-sides: =model('a = Mul(q, f) t = Transpose<perm = [0, 1, 3, 2]>(k) b = Mul(t, f) s =
  MatMul(a, b) p = Softmax<axis = 3>(s) y = MatMul(p, v)') | =model('y = Attention<scale =
  0.25>(q, k, v)')
before-the-transpose: =model('a = Mul(f, q) h = Div(k, d) t = Transpose<perm = [0, 1, 3, 2]>(h)
  s = MatMul(a, t) p = Softmax<axis = -1>(s) y = MatMul(p, v)') | =model('y = Attention<scale =
  0.125>(q, k, v)')
fires on minus infinity behind a guard against nan: =model('w = Where(b, zero, never) ' +
  GUARDED, inputs=MASKED, more='float never = {-inf}') | =model('w = Where(b, zero, never) y =
  Attention<scale = 0.25>(q, k, v, w)', inputs=MASKED, more='float never = {-inf}')
before-opset-23: =model(PLAIN, opset=22)
another-axis: =model(PLAIN.replace('axis = -1', 'axis = 2'))
another-type: =model(PLAIN, inputs=INPUTS.replace('float', 'double'), dtype='double')
keys-of-another-batch: =model(PLAIN, inputs=INPUTS.replace('float[B,4,S,8] k', 'float[1,4,S,8]
  k'))
values-of-another-batch: =model(PLAIN, inputs=INPUTS.replace('float[B,4,S,6] v',
  'float[1,4,S,6] v'))
computed-scale: =model(scores('m = Mul(s, x)'), inputs=INPUTS + ', float x')
negative-scale: =model(scores('m = Mul(s, far)'))
scale-by-head: =model(scores('m = Mul(s, r)'), more='float[4,1,1] r = {1,2,3,4}')
inverse: =model(scores('m = Div(d, s)'))
mask-that-may-be-infinite: =model(scores('m = Add(s, x)'), inputs=INPUTS + ', float[B,1,S,S]
  x')
minus-infinity: =model('w = Where(b, zero, never) ' + scores('m = Add(s, w)'), inputs=MASKED,
  more='float never = {-inf}')
minus-infinity-and-the-least-number: =model('w = Where(b, never, least) ' + GUARDED,
  inputs=MASKED, more='float least = {-3.4028235e38}, float never = {-inf}')
guard-with-another-number: =model('w = Where(b, zero, far) ' + GUARDED.replace('i, zero', 'i,
  c'), inputs=MASKED)
mask-of-another-batch: =model('w = Where(b, zero, far) ' + scores('m = Add(s, w)'),
  inputs=INPUTS + ', bool[M,1,S,S] b', dims='?,4,S,6')
second-reader: =model(PLAIN.replace('y = ', 'o = ') + ' e = ReduceSum(p) y = Add(o, e)')
empty: =model(PLAIN, inputs=INPUTS.replace('B,', '0,'), dims='0,4,S,6')
a scale that is left out is not guessed: =model('a = Mul(q, f) y = Attention(a, k, v)')
""")
