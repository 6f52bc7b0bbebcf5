import pytest

from onnx_passes.certifying.equivalence import SUMMATION, ModelPair, block_argument
from onnx_passes.ops.semantics import Unsupported
from tests.tables import cases

pytest.importorskip("z3")


def argue(graph, signature, before, after, *, ring=True):
    return block_argument(
        ModelPair.of(graph(*signature, before), graph(*signature, after)), ring=ring
    )


HOLDS = {
    case.id: case.values
    for case in cases("""
associativity: =('float[2,3] a, float[3,4] b, float[4,5] c', 'float[2,5] o') | p = MatMul(a, b)
  o = MatMul(p, c) | p = MatMul(b, c) o = MatMul(a, p)
a product of joined blocks: =('float[2,3] a, float[2,4] b, float[3,5] c, float[4,5] d',
  'float[2,5] o') | p = MatMul(a, c) q = MatMul(b, d) o = Add(p, q) | p = Concat<axis=1>(a, b)
  q = Concat<axis=0>(c, d) o = MatMul(p, q)
one product instead of two: =('float[2,3] a, float[3,4] b, float[3,5] c', 'float[2,4] o,
  float[2,5] r') | o = MatMul(a, b) r = MatMul(a, c) | s = Constant<value_ints=[4,5]>() w =
  Concat<axis=1>(b, c) p = MatMul(a, w) o, r = Split<axis=1>(p, s)
a scale inside a product: =('float[2,3] a, float[3,4] b, float s', 'float[2,4] o') | p =
  MatMul(a, b) o = Mul(p, s) | p = Mul(b, s) o = MatMul(a, p)
a row scaled before or after: =('float[2,3] a, float[3,4] b, float[2,1] s', 'float[2,4] o') | p
  = MatMul(a, b) o = Mul(p, s) | p = Mul(a, s) o = MatMul(p, b)
sums of products: =('float[2,3] a, float[3,4] b', 'float[2] o') | p = MatMul(a, b) x =
  Constant<value_ints=[1]>() o = ReduceSum<keepdims=0>(p, x) | x = Constant<value_ints=[1]>() q
  = ReduceSum<keepdims=1>(b, x) p = MatMul(a, q) o = ReduceSum<keepdims=0>(p, x)
batches: =('float[5,2,3] a, float[3,4] b, float[3,4] c', 'float[5,2,4] o') | p = MatMul(a, b) q
  = MatMul(a, c) o = Sub(p, q) | d = Sub(b, c) o = MatMul(a, d)
sizes that agree in more than one way: =('float[2,2] a, float[2,3] b, float[2,2] c, float[2,3]
  d', 'float[2,5] o') | p = Concat<axis=1>(a, b) q = Concat<axis=1>(c, d) o = Add(p, q) | p =
  Concat<axis=1>(c, b) q = Concat<axis=1>(a, d) o = Add(p, q)
convolution is linear: =('float[1,2,5,5] x, float[1,2,5,5] y, float[3,2,3,3] w',
  'float[1,3,3,3] o') | a = Conv<strides=[1,1]>(x, w) b = Conv<strides=[1,1]>(y, w) o = Add(a,
  b) | a = Add(x, y) o = Conv<strides=[1,1]>(a, w)
a convolution in groups is linear: =('float[1,4,5,5] x, float[1,4,5,5] y, float[4,2,3,3] w',
  'float[1,4,3,3] o') | a = Conv<group=2>(x, w) b = Conv<group=2>(y, w) o = Add(a, b) | a =
  Add(x, y) o = Conv<group=2>(a, w)
the mean of a product with a constant: =('float[2,3] a, float s', 'float[2] o') | p = Mul(a, s)
  x = Constant<value_ints=[1]>() o = ReduceMean<keepdims=0>(p, x) | x =
  Constant<value_ints=[1]>() p = ReduceMean<keepdims=0>(a, x) o = Mul(p, s)
""")
}


@pytest.mark.parametrize("name", HOLDS)
def test_identities_of_blocks_hold_for_all_sizes(graph, name):
    signature, before, after = HOLDS[name]
    assert argue(graph, signature, before, after).everywhere


MATRICES = ("float[3,3] a, float[3,3] b, float[3,3] c", "float[3,3] o")
FAILS = {
    case.id: case.values
    for case in cases("""
matrices do not commute: =MATRICES | o = MatMul(a, b) | o = MatMul(b, a)
transposes reverse a product: =MATRICES | p = MatMul(a, b) o = Transpose(p) | p = Transpose(a)
  q = Transpose(b) o = MatMul(p, q)
a row scale is no column scale: =('float[3,3] a, float[3,3] b, float[3,1] s', 'float[3,3] o') |
  p = MatMul(a, b) o = Mul(p, s) | p = Mul(b, s) o = MatMul(a, p)
blocks in another order: =('float[2,3] a, float[2,3] b', 'float[2,6] o') | o =
  Concat<axis=1>(a, b) | o = Concat<axis=1>(b, a)
the same name for two bound indices: =MATRICES | p = MatMul(a, b) x =
  Constant<value_ints=[0]>() o = ReduceSum(p, x) | p = MatMul(a, b) x =
  Constant<value_ints=[1]>() o = ReduceSum(p, x)
padding is zero, not the image's formula: =('float[1,2,4,4] x, float[3,2,3,3] w',
  'float[1,3,4,4] o') | k = Constant<value_float=1.0>() y = Add(x, k) o =
  Conv<pads=[1,1,1,1]>(y, w) | c = Conv<pads=[1,1,1,1]>(x, w) a =
  Constant<value_ints=[1,2,3]>() s = ReduceSum<keepdims=0>(w, a) ax =
  Constant<value_ints=[1,2]>() r = Unsqueeze(s, ax) o = Add(c, r)
channels of a grouped convolution do not join: =('float[1,4,3,3] x, float[1,4,3,3] y,
  float[4,2,1,1] w', 'float[1,4,3,3] o') | a = Conv<group=2>(x, w) b = Conv<group=2>(y, w) o =
  Add(a, b) | a = Concat<axis=1>(x, y) b = Concat<axis=1>(w, w) o = Conv<group=2>(a, b)
""")
}


@pytest.mark.parametrize("name", FAILS)
def test_what_is_no_identity_is_not_shown(graph, name):
    signature, before, after = FAILS[name]
    with pytest.raises(Unsupported):
        argue(graph, signature, before, after)


def test_rounding_keeps_the_order_of_sums(graph):
    joined = (
        ("float[2,3] a, float[4,3] b, float[3,5] c", "float[6,5] o"),
        "p = MatMul(a, c) q = MatMul(b, c) o = Concat<axis=0>(p, q)",
        "p = Concat<axis=0>(a, b) o = MatMul(p, c)",
    )
    assert SUMMATION in argue(graph, *joined, ring=False).conditions
    signature, before, after = HOLDS["a product of joined blocks"]
    with pytest.raises(Unsupported, match="differs"):
        argue(graph, signature, before, after, ring=False)


def test_a_reshape_to_fixed_sizes_is_not_generalised(graph):
    signature = ("float[6] x", "float[6] o")
    before = "s = Constant<value_ints=[2,3]>() t = Constant<value_ints=[6]>() " \
        "a = Reshape(x, s) o = Reshape(a, t)"  # fmt: skip
    with pytest.raises(Unsupported, match="fixed sizes"):
        argue(graph, signature, before, "o = Identity(x)")
