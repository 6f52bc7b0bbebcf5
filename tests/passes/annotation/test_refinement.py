import onnx_ir as ir
import pytest

from onnx_passes.passes.annotation.shape_inference import infer_shapes
from onnx_passes.testing import parse
from tests.tables import each_of, each_row

EXPAND = """(float[B,S] x) => (float[?,?,?] y) <float[1,2,1] c = {1, 2}, int64[1] k = {%d}> {
  b = Shape<end = 1>(x) n = Shape<start = 1>(x) a = Concat<axis = 0>(b, k, n)
  t = Expand(c, a) y = Neg(t) }"""


def shape_of_t(text):
    model = parse(text)
    infer_shapes(model)
    assert not infer_shapes(model).changed, "infers more the second time"
    (value,) = (v for node in model.graph for v in node.outputs if v.name == "t")
    return str(value.shape)


@each_row("""text | expected
quotient: (float[B,S,12] x) => (float[B,S,3] y) <int64[1] r = {-1}, int64[1] f = {4}, int64[1]
  l = {3}> { b = Shape<end = 1>(x) s = Shape<start = 1, end = 2>(x)
  a = Concat<axis = 0>(b, r, s, f) t = Reshape(x, a) u = Transpose<perm = [0, 2, 1, 3]>(t)
  y = ReduceSum<keepdims = 0>(u, l) } | [B,3,S,4]
factor-of-a-product: (float[B,S,12] x) => (float[B,12,S] y) <int64[1] l = {12}, int64[1]
  r = {-1}> { s = Shape<start = 1, end = 2>(x) a = Concat<axis = 0>(r, s, l) t = Reshape(x, a)
  y = Transpose<perm = [0, 2, 1]>(t) } | [B,S,12]
expand-copies: =EXPAND % 1 | [B,2,S]
expand-names: =EXPAND % 2 | [B,2,S]
zero-that-does-not-copy: (float[B,0] x) => (float[?,?] y) <int64[2] a = {0, 7}> {
  t = Reshape<allowzero = 1>(x, a) y = Neg(t) } | [0,7]
tile: (float[B,S] x, float[1,3] c) => (float[?,?] y) <int64[1] one = {1}> {
  b = Shape<end = 1>(x) a = Concat<axis = 0>(b, one) t = Tile(c, a) y = Neg(t) } | [B,3]
""")
def test_sizes_that_are_computed_are_followed(text, expected):
    assert shape_of_t(text) == expected


def test_two_dimensions_that_broadcast_without_a_number_stay_unknown():
    body = """(float[B] x, float[C] c) => (float[?] y) {
      a = Shape(x) t = Expand(c, a) y = Neg(t) }"""
    assert shape_of_t(body) not in ("[B]", "[C]")


CUT = """b = Shape<start = 1, end = 2>(x) zero = Constant<value_ints = [{start}]>()
  one = Constant<value_ints = [1]>() p = Slice(c, zero, b, one) t = {fit} y = Neg(t)"""


@each_of(
    "start, fit, expected",
    pytest.param(0, "Add(x, p)", "[B,S]", id="behind"),
    pytest.param(0, "Add(p, x)", "[B,S]", id="before"),
    pytest.param(0, "Mul(p, p)", None, id="with-itself"),
    pytest.param(1, "Add(x, p)", None, id="not-from-the-start"),
)
def test_what_positions_of_a_table_are_added_to_keeps_its_length(start, fit, expected):
    body = CUT.format(start=start, fit=fit)
    found = shape_of_t(f"(float[B,S] x, float[1,512] c) => (float[?,?] y) {{ {body} }}")
    assert found == expected if expected else ",S]" not in found


JOINED = """(float[B,P,4] x, float[B,S,4] c) => (float[?,?] y, float[B,{total},4] k) {{
  k = Concat<axis = 1>({order}) u = Transpose<perm = [0, 2, 1]>(k)
  p = Shape<start = 1, end = 2>(x) s = Shape<start = 1, end = 2>(c) n = Add(s, p)
  m = Squeeze(n) zero = Constant<value_int = 0>() one = Constant<value_int = 1>()
  r = Range(zero, m, one) f = Cast<to = 1>(r) t = Add(u, f) y = Neg(t) }}"""


@each_of("order", "x, c", "c, x")
@each_of("total", "T", "S")
def test_what_is_joined_is_as_long_as_the_sum_whatever_an_output_calls_it(order, total):
    assert shape_of_t(JOINED.format(order=order, total=total)) == "[B,4,P+S]"


def test_a_name_of_the_user_is_not_taken_for_a_sum():
    model = parse(JOINED.format(order="x, c", total="T"))
    x, c = model.graph.inputs
    x.shape = ir.Shape(["P+S", "P", 4])
    c.shape = ir.Shape(["P+S", "S", 4])
    infer_shapes(model)
    (t,) = (v for node in model.graph for v in node.outputs if v.name == "t")
    assert t.shape is None or t.shape[2] != "P+S"


LAYER = """f{n} = Reshape(t{n}, split) q{n} = Transpose<perm = [0, 2, 1, 3]>(f{n})
  m{n} = MatMul(q{n}, q{n}) b{n} = Transpose<perm = [0, 2, 1, 3]>(m{n})
  u{n} = Reshape(b{n}, whole) t{next} = Add(u{n}, t{n})"""


def test_a_network_of_many_layers_has_its_dimensions_to_the_last():
    layers = " ".join(LAYER.format(n=n, next=n + 1) for n in range(12))
    body = f"""(float[B,5,10] x) => (float[?,5,10] y)
      <int64[4] split = {{-1, 5, 2, 5}}, int64[3] whole = {{-1, 5, 10}}> {{
      t0 = Identity(x) {layers} t = Identity(t12) y = Neg(t) }}"""
    assert shape_of_t(body) == "[B,5,10]"


ROWS = """(float[B,S,4] x, float[B,S,2] k{more}) => (float[?,?] y)
  <int64[2] r = {{-1, 4}}, int64[2] c = {{-1, 1}}> {{
  z = Reshape(x, r) t = Reshape(k, c) y = Mul(z, z) }}"""


def test_a_product_is_not_called_what_the_user_calls_a_dimension():
    model = parse(ROWS.format(more=", float[B] u"))
    model.graph.inputs[2].shape = ir.Shape(["2*B*S"])
    infer_shapes(model)
    assert (
        str(next(v.shape for n in model.graph for v in n.outputs if v.name == "t")) != "2*B*S"
    )
